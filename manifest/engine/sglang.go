package engine

import (
	"fmt"
	"math/big"
	"path"
	"regexp"
	"slices"
	"strings"
)

// expandSGLang does what SGLang does before argparse sees the arguments: the
// arguments of the file that --config names go before all others. Underscores in
// option names stay as they are, and are not known.
func (p *parse) expandSGLang() *failure {
	args := p.arguments()
	if p.cmd.Entry == EntrySGLang {
		args = args[1:]
		if p.t.since("0.5.23") {
			args = positionalModel(args)
		}
	}
	p.tokens = args
	if !p.t.readsConfig() {
		return nil // --config is an option that it does not have
	}
	p.noteConfigEquals(args)
	i := slices.IndexFunc(args, func(t token) bool { return t.text == "--config" })
	if i < 0 {
		return nil
	}
	failed := func(kind, text, what string) *failure {
		return &failure{exit: 1, errorType: "ValueError", kind: kind, text: text, what: what, path: args[i].path, line: args[i].line}
	}
	switch {
	case slices.ContainsFunc(args[i+1:], func(t token) bool { return t.text == "--config" }):
		return failed(KindTwoConfigs, "Multiple config files specified! Only one allowed.", "--config is given more than once; the engine reads one file only")
	case i == len(args)-1:
		return failed(KindConfigMissing, "No config file specified after --config flag!", "--config is given without a file")
	case args[i+1].text == "": // counts as none, and is then the value of an option that argparse lacks
		return nil
	}
	config, f := p.sglangFile(args[i+1])
	p.tokens = slices.Concat(config, args[:i], args[i+2:])
	return f
}

// positionalModel is the model that `sglang serve MODEL` names.
func positionalModel(args []token) []token {
	if len(args) == 0 || strings.HasPrefix(args[0].text, "-") {
		return args
	}
	flag := args[0]
	flag.text = "--model-path"
	return slices.Insert(slices.Clone(args), 0, flag)
}

// readsConfig reports whether the release has --config.
func (c *table) readsConfig() bool { return c.byFlag["--config"] != nil || c.since("0.5.3") }

func (p *parse) sglangFile(t token) ([]token, *failure) {
	failed := func(kind, text, what string) *failure {
		return &failure{exit: 1, errorType: "ValueError", kind: kind, text: text, what: what, path: t.path, line: t.line}
	}
	if suffix := path.Ext(strings.TrimLeft(path.Base(t.text), ".")); !slices.Contains([]string{".yaml", ".yml"}, strings.ToLower(suffix)) {
		return nil, failed(KindBadSuffix, "Config file must be YAML format, got: "+suffix,
			fmt.Sprintf("the name of the configuration file %q must end in .yaml or .yml", t.text))
	}
	data, ok := p.cmd.Files[t.text]
	if !ok && p.cmd.AllFiles {
		return nil, failed(KindConfigMissing, "Config file not found: "+t.text, fmt.Sprintf("the configuration file %s is not there", t.text))
	}
	if !ok {
		p.noteUnseen(t)
		return nil, nil
	}
	return p.flattenSGLang(data, t.text)
}

// flattenSGLang turns a configuration file into arguments.
func (p *parse) flattenSGLang(data []byte, file string) ([]token, *failure) {
	v, problems, f := load(data, file)
	p.problems = append(p.problems, problems...)
	if f != nil {
		return nil, f
	}
	if v == nil {
		return nil, nil // an empty file is fine
	}
	config, ok := v.(*dict)
	if !ok {
		return nil, &failure{exit: 1, errorType: "ValueError", kind: KindNotMapping, path: file, line: 1, text: "Config file must contain a dictionary at root level",
			what: fmt.Sprintf("the file holds a %s; it must be a mapping of option names to values", className(v))}
	}
	var out []token
	for _, it := range config.items {
		tokens, f := p.sglangItem(it, file)
		if f != nil {
			f.path = file
			if f.line == 0 {
				f.line = it.line
			}
			return nil, f
		}
		out = append(out, tokens...)
	}
	return out, nil
}

func (p *parse) sglangItem(it item, file string) ([]token, *failure) {
	key, isText := it.key.(string)
	if !isText {
		if p.t.since("0.5.9") {
			return nil, &failure{exit: 1, errorType: "AttributeError", kind: KindBadKey, text: fmt.Sprintf("'%s' object has no attribute 'replace'", className(it.key)),
				what: fmt.Sprintf("the key %s is read as a %s, not as text; put it in quotation marks", text(it.key), className(it.key))}
		}
		key = text(it.key)
	}
	if left := maxValues; !within(it.value, &left) {
		return nil, &failure{kind: KindNotJudged, what: fmt.Sprintf("aliases make the value of %q far larger than it looks", key)}
	}
	if f := p.t.notInFile(key); f != nil {
		return nil, f
	}
	flag := token{text: "--" + key, path: file, line: it.line, key: key}
	switch v := it.value.(type) {
	case bool:
		return p.sglangBool(flag, v), nil
	case []any:
		if len(v) == 0 {
			return nil, nil
		}
		out := []token{flag}
		for _, e := range v {
			out = append(out, flag.with(text(e), false))
		}
		return out, nil
	case *dict:
		if p.t.since("0.5.23") {
			json, f := dumps(v)
			return []token{flag, flag.with(json, false)}, f
		}
	}
	return []token{flag, flag.with(text(it.value), it.value == nil)}, nil
}

// sglangBool is what becomes of true and false. A switch is given or left out;
// any other option gets the word, except in 0.5.3.
func (p *parse) sglangBool(flag token, v bool) []token {
	o := p.t.fileOption(flag.key)
	if p.t.since("0.5.9") && (o == nil || o.Action != "store_true") {
		return []token{flag, flag.with(fmt.Sprint(v), false)}
	}
	if v {
		return []token{flag}
	}
	switch {
	case o == nil:
		p.note(flag, KindFalseDropped, fmt.Sprintf("%q is no option of SGLang %s; nobody notices, because its value false is dropped", flag.key, p.t.version))
	case o.Default != false:
		p.note(flag, KindFalseDropped, fmt.Sprintf("the value false of %q is dropped in silence, and the default stays (%s)", flag.key, defaultText(o.Default)))
	}
	return nil
}

// fileOption is the option that a key of a configuration file means to the reader
// of the file: it compares destinations, and from 0.5.23 on every long spelling.
func (c *table) fileOption(key string) *option {
	name := strings.ReplaceAll(key, "-", "_")
	if !c.since("0.5.23") {
		return c.byDest[name]
	}
	for _, o := range c.options {
		if o.dest() == name || slices.ContainsFunc(o.spellings(), func(s string) bool {
			return strings.HasPrefix(s, "--") && strings.ReplaceAll(s[2:], "-", "_") == name
		}) {
			return o
		}
	}
	return nil
}

// notInFile refuses an option that SGLang reads on the command line only.
func (c *table) notInFile(key string) *failure {
	if !c.since("0.5.9") {
		return nil
	}
	o := c.fileOption(key)
	if o == nil || o.Action == "store_true" || o.Action == "help" {
		return nil
	}
	class := o.Action
	if o.Negatable {
		class = "BooleanOptionalAction"
	}
	single := o.NArgs == "" && !o.takesNone()
	if class == "" || class == "DeprecatedStoreConstAction" || c.since("0.5.23") && single && class != "LoRAPathAction" {
		return nil
	}
	name := strings.ReplaceAll(key, "-", "_")
	return &failure{exit: 1, errorType: "ValueError", kind: KindBadKey, text: fmt.Sprintf("Unsupported config option '%s' with action '%s'", name, class),
		what: fmt.Sprintf("SGLang %s takes %s on the command line only, not in a configuration file", c.version, key)}
}

// required ends the engine when an option that must be given is not.
func (p *parse) required() *failure {
	var missing []string
	for _, o := range p.t.options {
		if _, given := p.given[o.dest()]; o.Required && !given {
			missing = append(missing, o.display())
		}
	}
	if len(missing) == 0 || p.unseen {
		return nil
	}
	return p.usage(token{path: p.cmd.Path, line: p.cmd.Line}, KindModelMissing, "the following arguments are required: "+strings.Join(missing, ", "),
		"neither the command line nor the configuration file names a model: give --model-path")
}

// retired handles an option that only stays to say that it is gone.
func (p *parse) retired(w word) (*failure, bool) {
	if w.option.Action != "DeprecatedAction" {
		return nil, false
	}
	if p.t.since("0.5.9") {
		p.note(w.token, KindDeprecated, fmt.Sprintf("%s does nothing any more and will go%s", w.flag, instead(w.option)))
		return nil, true
	}
	return &failure{exit: 1, errorType: "ValueError", kind: KindUnknownOption, path: w.path, line: w.line,
		what: fmt.Sprintf("SGLang %s knows %s only to refuse it: it is retired%s", p.t.version, w.flag, instead(w.option))}, true
}

func instead(o *option) string {
	if o.Use == "" {
		return ""
	}
	return "; use " + o.Use
}

// loraPaths reads the values of --lora-paths: PATH, NAME=PATH, or JSON.
func (p *parse) loraPaths(t token, values []any) (any, *failure) {
	if !p.t.since("0.5.3") {
		paths := newDict()
		for _, v := range values {
			name, file, named := strings.Cut(v.(string), "=")
			if !named {
				file = name
			}
			paths.set(name, file, 0)
		}
		return paths, nil
	}
	paths := []any{}
	for _, v := range values {
		s := strings.TrimSpace(v.(string))
		if !strings.HasPrefix(s, "{") || !strings.HasSuffix(s, "}") {
			paths = append(paths, s)
			continue
		}
		adapter, err := loads(s, false)
		if err != nil {
			return nil, &failure{exit: 1, errorType: "JSONDecodeError", kind: KindBadValue, path: t.path, line: t.line, text: err.Error(),
				what: fmt.Sprintf("%q of --lora-paths is no JSON: %v", hideText(s), err)}
		}
		d, _ := adapter.(*dict)
		for _, need := range []string{"lora_path", "lora_name"} {
			if _, ok := d.get(need); !ok {
				return nil, &failure{exit: 1, errorType: "AssertionError", kind: KindUnknownField, path: t.path, line: t.line,
					text: quote(hideText(s)) + " looks like a JSON str, but it does not contain 'lora_name' and 'lora_path' keys.",
					what: "an adapter in JSON is an object with lora_name and lora_path"}
			}
		}
		paths = append(paths, d)
	}
	return paths, nil
}

var siNumber = regexp.MustCompile(`^(\d+(?:\.\d+)?)(Ki|Mi|Gi|Ti|k|M|G|T)$`)

// siUnits are SGLang's: 1k is 1000 and 1Ki is 1024.
var siUnits = map[string]int64{"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}

// siInt reads a whole number with SGLang's units.
func siInt(s string) (any, error) {
	trimmed := strings.TrimSpace(s)
	m := siNumber.FindStringSubmatch(trimmed)
	if m == nil {
		v, err := parseInt(trimmed)
		if err != nil {
			return nil, errVerbatim(fmt.Sprintf("Invalid integer value: '%s'. Use a plain integer, SI suffixes (1k, 1M), or IEC suffixes (1Ki, 1Mi). Suffixes are case-sensitive.", trimmed))
		}
		return v, nil
	}
	exact, ok := new(big.Rat).SetString(m[1])
	if !ok {
		return nil, fmt.Errorf("%q is no number", m[1])
	}
	if len(m[2]) == 2 && strings.Contains(m[1], ".") {
		whole := new(big.Int).Quo(exact.Num(), exact.Denom())
		return nil, errVerbatim(fmt.Sprintf("Decimals are not allowed with IEC suffixes like '%s'. Use an integer IEC value such as '%s%s', or an SI value such as '%s%s'.",
			m[2], whole, m[2], m[1], m[2][:1]))
	}
	exact.Mul(exact, new(big.Rat).SetInt64(siUnits[m[2]]))
	whole := new(big.Int).Quo(exact.Num(), exact.Denom())
	if whole.IsInt64() {
		return whole.Int64(), nil
	}
	return whole, nil
}
