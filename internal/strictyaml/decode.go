package strictyaml

import (
	"encoding"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"time"

	"gopkg.in/yaml.v3"

	"drkit/internal/errext"
)

var (
	nodeType     = reflect.TypeFor[yaml.Node]()
	durationType = reflect.TypeFor[time.Duration]()
)

// walker decodes one tree. Active holds the collections that the walk is inside
// of: meeting one again is a cycle.
type walker struct {
	doc    *Document
	active map[*yaml.Node]bool
	values int
}

func (d *Document) decode(n *yaml.Node, out any, path string) {
	w := &walker{doc: d, active: map[*yaml.Node]bool{}}
	w.value(n, reflect.ValueOf(out).Elem(), path, rule{})
}

// value decodes n into v. It reports what is wrong and leaves v as it was then.
func (w *walker) value(n *yaml.Node, v reflect.Value, path string, r rule) {
	at := n.Line // of the alias, not of what it points to
	n, ok := w.enter(n, path)
	if !ok {
		return
	}
	defer delete(w.active, n)
	if n.Kind == yaml.ScalarNode && !w.doc.Has(path) && path != "" {
		w.doc.places[path] = place{at, n.Value}
	}
	switch {
	case v.Type() == nodeType:
		w.capture(n, path)
		v.Set(reflect.ValueOf(*n))
	case n.ShortTag() == "!!null":
		w.report(n, path, "has no value", "give it one or leave the key out")
	case v.Kind() == reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		w.inner(n, p.Elem(), path, r)
		v.Set(p)
	default:
		w.inner(n, v, path, r)
	}
}

// inner decodes by the type of v, after nodes, null and pointers are dealt with.
func (w *walker) inner(n *yaml.Node, v reflect.Value, path string, r rule) {
	if t, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		w.text(n, t, path)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		w.structure(n, v, path)
	case reflect.Map:
		w.mapping(n, v, path, r)
	case reflect.Slice:
		w.list(n, v, path, r)
	default:
		w.scalar(n, v, path, r)
	}
}

// enter follows an alias and refuses what must not be walked: cycles, too many
// values, too much depth, tags of its own.
func (w *walker) enter(n *yaml.Node, path string) (*yaml.Node, bool) {
	if w.doc.cut || w.doc.tooMany() {
		return nil, false
	}
	if w.values++; w.values > maxValues {
		w.doc.cut = true
		w.report(n, "", fmt.Sprintf("holds more than %d values, aliases counted each time", maxValues), "is this the right file?")
		return nil, false
	}
	line := n.Line
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch {
	case w.active[n]:
		w.doc.add(Error{Line: line, Path: path, What: "is an alias of a value that it is part of"})
		return nil, false
	case len(w.active) >= maxDepth:
		w.report(n, path, fmt.Sprintf("is nested deeper than %d levels", maxDepth), "")
		return nil, false
	case !knownTag(n):
		w.report(n, path, fmt.Sprintf("has the tag %s, which is not supported", n.Tag), "remove the tag")
		return nil, false
	}
	w.active[n] = true
	return n, true
}

// structure decodes a mapping into the tagged fields of v.
func (w *walker) structure(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		w.wrongType(n, path, "a mapping")
		return
	}
	fields := fieldsOf(v.Type())
	meant := map[string]bool{} // fields that an unknown key was probably meant for
	written := w.keys(n, path, func(key string, k, val *yaml.Node, again bool) {
		f, ok := fields[key]
		if !ok {
			meant[Near(key, names(fields))] = true
			w.doc.add(Error{Line: k.Line, Path: Join(path, key), What: "unknown key", Hint: didYouMean(key, names(fields))})
			return
		}
		to := v.FieldByIndex(f.index)
		if again {
			to = reflect.New(to.Type()).Elem() // judged, not kept
		}
		w.value(val, to, Join(path, key), f.rule)
	})
	for _, name := range names(fields) {
		f := fields[name]
		switch {
		case !f.rule.required || (!written[name] && meant[name]):
		case !written[name]:
			w.report(n, Join(path, name), "is missing", "")
		case empty(v.FieldByIndex(f.index)) && !w.doc.Faulty(Join(path, name)):
			w.doc.Report(Join(path, name), "is empty", "")
		}
	}
}

// keys calls each with the keys of a mapping in order, refuses what cannot be a
// key and reports what is written twice. It returns the keys that were written.
func (w *walker) keys(n *yaml.Node, path string, each func(key string, k, val *yaml.Node, again bool)) map[string]bool {
	lines, written := map[string]int{}, map[string]bool{}
	for i := 0; i+1 < len(n.Content) && !w.doc.tooMany(); i += 2 {
		k, val := n.Content[i], n.Content[i+1]
		for k.Kind == yaml.AliasNode {
			k = k.Alias
		}
		switch {
		case k.ShortTag() == "!!merge":
			w.report(k, path, "merge keys (<<) are not supported", "write the keys out")
			continue
		case k.Kind != yaml.ScalarNode || k.ShortTag() != "!!str":
			w.report(k, path, "has a key that is "+kindOf(k)+", not text", "put the key in quotes")
			continue
		}
		first, again := lines[k.Value]
		if again {
			w.report(k, Join(path, k.Value), fmt.Sprintf("is already set on line %d", first), "keep one of the two")
		} else {
			lines[k.Value], written[k.Value] = k.Line, true
			if isCollection(val) {
				w.doc.places[Join(path, k.Value)] = place{line: k.Line}
			}
		}
		each(k.Value, k, val, again)
	}
	return written
}

func (w *walker) mapping(n *yaml.Node, v reflect.Value, path string, r rule) {
	if n.Kind != yaml.MappingNode {
		w.wrongType(n, path, "a mapping")
		return
	}
	m := reflect.MakeMap(v.Type())
	w.keys(n, path, func(key string, _, val *yaml.Node, again bool) {
		e := reflect.New(v.Type().Elem()).Elem()
		w.value(val, e, Join(path, key), r.ofElement())
		if !again {
			m.SetMapIndex(reflect.ValueOf(key).Convert(v.Type().Key()), e)
		}
	})
	v.Set(m)
}

func (w *walker) list(n *yaml.Node, v reflect.Value, path string, r rule) {
	if n.Kind != yaml.SequenceNode {
		w.wrongType(n, path, "a list")
		return
	}
	s := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		if isCollection(item) {
			w.doc.places[at] = place{line: item.Line}
		}
		w.value(item, s.Index(i), at, r.ofElement())
	}
	v.Set(s)
}

// text hands a scalar to a type that reads its own text.
func (w *walker) text(n *yaml.Node, t encoding.TextUnmarshaler, path string) {
	if n.Kind != yaml.ScalarNode || !slices.Contains(textTags, n.ShortTag()) {
		w.wrongType(n, path, "text")
		return
	}
	if err := t.UnmarshalText([]byte(n.Value)); err != nil {
		w.report(n, path, err.Error(), errext.Hint(err))
	}
}

// capture checks the structure of a value that is decoded later by its owner.
func (w *walker) capture(n *yaml.Node, path string) {
	child := func(val *yaml.Node, at string) {
		if c, ok := w.enter(val, at); ok {
			w.capture(c, at)
			delete(w.active, c)
		}
	}
	switch n.Kind {
	case yaml.MappingNode:
		w.keys(n, path, func(key string, _, val *yaml.Node, _ bool) { child(val, Join(path, key)) })
	case yaml.SequenceNode:
		for i, item := range n.Content {
			child(item, fmt.Sprintf("%s[%d]", path, i))
		}
	}
}

func (w *walker) report(n *yaml.Node, path, what, hint string) {
	w.doc.add(Error{Line: n.Line, Path: path, What: what, Hint: hint})
}

// isCollection reports whether n is a mapping or a list: those are known by
// their key's line, scalars by their own.
func isCollection(n *yaml.Node) bool {
	return n.Kind == yaml.MappingNode || n.Kind == yaml.SequenceNode || n.Kind == yaml.AliasNode
}

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// Join adds a key to a path; a key with other signs is quoted: env["a.b"].
func Join(path, key string) string {
	switch {
	case !plainKey.MatchString(key):
		return fmt.Sprintf("%s[%q]", path, key)
	case path == "":
		return key
	}
	return path + "." + key
}
