package engine

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// load reads one YAML document as Python's yaml.safe_load does. yaml.v3 only
// finds the structure; what a plain scalar means is decided here, because
// PyYAML follows YAML 1.1 and yaml.v3 mostly 1.2.
func load(data []byte, path string) (any, []Problem, *failure) {
	doc, f := compose(data)
	if f != nil {
		f.path = path
		return nil, nil, f
	}
	if doc == nil || len(doc.Content) == 0 {
		return nil, nil, nil
	}
	l := &loader{path: path, done: map[*yaml.Node]any{}, open: map[*yaml.Node]bool{}}
	v, f := l.value(doc.Content[0])
	if f != nil {
		f.path = path
	}
	return v, l.problems, f
}

// compose parses exactly one document; nil stands for an empty file.
func compose(data []byte) (doc *yaml.Node, f *failure) {
	if !utf8.Valid(data) {
		return nil, &failure{exit: 1, errorType: "UnicodeDecodeError", text: "'utf-8' codec can't decode the file", kind: KindSyntax,
			what: "the file is not UTF-8", line: invalidLine(data)}
	}
	defer func() {
		if r := recover(); r != nil { // the parser of foreign bytes must never take drkit down
			doc, f = nil, syntaxFailure(fmt.Errorf("yaml: the parser gave up: %v", r), data)
		}
	}()
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	if err := decoder.Decode(&first); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, syntaxFailure(err, data)
	}
	switch err := decoder.Decode(&second); {
	case err == nil:
		return nil, &failure{exit: 1, errorType: "ComposerError", text: "expected a single document in the stream", kind: KindSyntax,
			what: "the file holds a second document; the engine reads files of one document only", line: second.Line}
	case !errors.Is(err, io.EOF):
		return nil, syntaxFailure(err, data)
	}
	if line := strayTab(data, &first); line > 0 {
		return nil, &failure{exit: 1, errorType: "ScannerError", text: `found character '\t' that cannot start any token`, kind: KindSyntax,
			what: "a tab stands between or after values; the engine's YAML takes spaces only", line: line}
	}
	return &first, nil
}

func invalidLine(data []byte) int {
	line := 1
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		if r == utf8.RuneError && size == 1 {
			return line
		}
		if r == '\n' {
			line++
		}
		data = data[size:]
	}
	return line
}

var yamlError = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

func syntaxFailure(err error, data []byte) *failure {
	reason, line := err.Error(), 0
	if m := yamlError.FindStringSubmatch(strings.ReplaceAll(reason, "\n", " ")); m != nil {
		line, _ = strconv.Atoi(m[1])
		reason = m[2]
	}
	what := "the file is no YAML: " + reason
	if tab := tabLine(data); tab > 0 && strings.Contains(reason, "cannot start any token") {
		line, what = tab, "the line is indented with a tab; YAML takes spaces only"
	}
	return &failure{exit: 1, errorType: "YAMLError", text: reason, kind: KindSyntax, what: what, line: line}
}

// tabLine is the first line whose indentation holds a tab, or 0.
func tabLine(data []byte) int {
	for i, line := range bytes.Split(data, []byte("\n")) {
		indent := line[:len(line)-len(bytes.TrimLeft(line, " \t"))]
		if bytes.IndexByte(indent, '\t') >= 0 && len(indent) < len(bytes.TrimRight(line, "\r")) {
			return i + 1
		}
	}
	return 0
}

// maxValues keeps aliases of aliases from using up the machine.
const maxValues = 1 << 20

// loader turns nodes into Python values.
type loader struct {
	path     string
	problems []Problem
	done     map[*yaml.Node]any  // what an alias refers to is built once, as in PyYAML
	open     map[*yaml.Node]bool // being built: an alias to it is a cycle
	merged   int                 // pairs that merge keys brought in
}

func (l *loader) value(n *yaml.Node) (any, *failure) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if v, ok := l.done[n]; ok {
		return v, nil
	}
	if l.open[n] {
		return nil, &failure{kind: KindNotJudged, what: "the value contains itself", line: n.Line}
	}
	l.open[n] = true
	v, f := l.build(n)
	delete(l.open, n)
	if f != nil {
		if f.line == 0 {
			f.line = n.Line
		}
		return nil, f
	}
	l.done[n] = v
	return v, nil
}

func (l *loader) build(n *yaml.Node) (any, *failure) {
	tag := nodeTag(n)
	switch {
	case n.Kind == yaml.SequenceNode && tag == "seq":
		return l.sequence(n)
	case n.Kind == yaml.MappingNode && tag == "map":
		return l.mapping(n)
	case n.Kind == yaml.ScalarNode && slices.Contains([]string{"str", "null", "bool", "int", "float", "timestamp", "binary"}, tag):
		return scalar(n.Value, tag)
	}
	if slices.Contains([]string{"set", "omap", "pairs"}, tag) {
		return nil, &failure{kind: KindNotJudged,
			what: "a value with the tag !!" + tag + " means nothing to the engine; write a plain list or mapping"}
	}
	return nil, &failure{exit: 1, errorType: "ConstructorError", kind: KindSyntax,
		text: fmt.Sprintf("could not determine a constructor for the tag '%s'", longTag(tag)),
		what: fmt.Sprintf("the tag %s has no meaning in a configuration file; remove it", n.Tag)}
}

// nodeTag is the short tag that PyYAML gives the node: an explicit one, or what
// its resolver makes of the text. Tags of no standard type keep their long form.
func nodeTag(n *yaml.Node) string {
	if n.Style&yaml.TaggedStyle != 0 {
		return strings.TrimPrefix(n.Tag, "!!")
	}
	switch n.Kind {
	case yaml.SequenceNode:
		return "seq"
	case yaml.MappingNode:
		return "map"
	}
	if n.Style != 0 {
		return "str"
	}
	return resolve(n.Value)
}

func longTag(tag string) string {
	if strings.HasPrefix(tag, "!") || strings.HasPrefix(tag, "tag:") {
		return tag
	}
	return "tag:yaml.org,2002:" + tag
}

func (l *loader) sequence(n *yaml.Node) (any, *failure) {
	list := make([]any, 0, len(n.Content))
	for _, child := range n.Content {
		v, f := l.value(child)
		if f != nil {
			return nil, f
		}
		list = append(list, v)
	}
	return list, nil
}

func (l *loader) mapping(n *yaml.Node) (any, *failure) {
	merged, own, f := l.split(n)
	if f != nil {
		return nil, f
	}
	d := newDict()
	for _, p := range merged {
		if f := l.put(d, p, false); f != nil {
			return nil, f
		}
	}
	seen := map[any]bool{}
	for _, p := range own {
		if f := l.put(d, p, true); f != nil {
			return nil, f
		}
		key, _ := l.value(p.key)
		if hash := hashable(key); seen[hash] {
			l.problems = append(l.problems, Problem{Path: l.path, Line: p.key.Line, Kind: KindDuplicateKey,
				What: fmt.Sprintf("the key %q stands in this mapping a second time; the last value wins in silence", text(key))})
		} else {
			seen[hash] = true
		}
	}
	return d, nil
}

type pair struct{ key, value *yaml.Node }

func (l *loader) put(d *dict, p pair, own bool) *failure {
	key, f := l.value(p.key)
	if f != nil {
		return f
	}
	switch key.(type) {
	case []any, *dict:
		return &failure{exit: 1, errorType: "ConstructorError", text: "while constructing a mapping found unhashable key",
			kind: KindBadKey, what: "a list or mapping cannot be a key", line: p.key.Line}
	}
	value, f := l.value(p.value)
	if f != nil {
		return f
	}
	line := p.key.Line
	if !own {
		line = p.value.Line
	}
	d.set(key, value, line)
	return nil
}

// split takes the merge keys (<<) of a mapping apart: their pairs come first,
// so that the mapping's own keys win.
func (l *loader) split(n *yaml.Node) (merged, own []pair, f *failure) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode || nodeTag(key) != "merge" {
			if key.Kind == yaml.ScalarNode && nodeTag(key) == "value" { // a bare = as key is text
				key = &yaml.Node{Kind: yaml.ScalarNode, Style: yaml.SingleQuotedStyle, Value: key.Value, Line: key.Line}
			}
			own = append(own, pair{key, value})
			continue
		}
		more, f := l.merge(value, 0)
		if f != nil {
			return nil, nil, f
		}
		if l.merged += len(more); l.merged > maxValues {
			return nil, nil, &failure{kind: KindNotJudged, what: "merge keys make the file far larger than it looks", line: key.Line}
		}
		merged = append(merged, more...)
	}
	return merged, own, nil
}

func (l *loader) merge(n *yaml.Node, depth int) ([]pair, *failure) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	bad := &failure{exit: 1, errorType: "ConstructorError", text: "expected a mapping or list of mappings for merging", kind: KindSyntax,
		what: "<< takes a mapping or a list of mappings", line: n.Line}
	switch {
	case depth > 100 || l.open[n]:
		return nil, bad
	case n.Kind == yaml.MappingNode:
		l.open[n] = true
		merged, own, f := l.split(n)
		delete(l.open, n)
		return append(merged, own...), f
	case n.Kind == yaml.SequenceNode:
		var all []pair
		for _, child := range slices.Backward(n.Content) { // the first of the list wins
			more, f := l.merge(child, depth+1)
			if f != nil {
				return nil, f
			}
			all = append(all, more...)
		}
		return all, nil
	}
	return nil, bad
}

func decodeBinary(s string) (any, *failure) {
	data, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		return nil, &failure{exit: 1, errorType: "ConstructorError", text: "failed to decode base64 data", kind: KindSyntax,
			what: "the value is no base64 data"}
	}
	return pyBytes(data), nil
}
