package engine

import (
	"fmt"
	"slices"
	"strings"
)

// classValue reads the JSON of an option whose fields are checked while the
// command line is parsed, and returns a dict with the class under "@" and the
// fields that differ from their defaults.
func (p *parse) classValue(o *option, t token) (any, *failure) {
	v, err := loads(t.text, true)
	if err != nil {
		return nil, p.badJSON(o, t, err)
	}
	given, ok := v.(*dict)
	if !ok {
		return nil, p.argument(o, t, KindBadValue, fmt.Sprintf("1 validation error for %s Input should be an object", o.Class),
			fmt.Sprintf("--%s takes a JSON object, not a %s", o.Name, className(v)))
	}
	c := &classReader{p: p, token: t, option: o}
	out := c.read(o.Class, given, "")
	if len(c.unknown) > 0 {
		return nil, c.unknownFields()
	}
	return out, c.failed
}

// badJSON is the complaint about text that is no JSON. The parser's own words
// are known for two measured cases only; the rest keep to what is certain.
func (p *parse) badJSON(o *option, t token, err error) *failure {
	shown := p.shown(o, t)
	reason := ""
	body := strings.TrimSpace(t.text)
	switch {
	case strings.HasPrefix(t.text, "{") && !strings.HasPrefix(body, "{}") && len(t.text) > 1 && isWord(t.text[1]):
		reason = "key must be a string at line 1 column 2"
	case strings.HasPrefix(t.text, "None"):
		reason = "expected ident at line 1 column 2"
	}
	message := fmt.Sprintf("1 validation error for %s Invalid JSON", o.Class)
	if reason != "" {
		message += fmt.Sprintf(": %s [type=json_invalid, input_value=%s, input_type=str]", reason, shortRepr(shown))
	}
	what := fmt.Sprintf("the value of --%s is no JSON: %v", o.Name, err)
	if t.null {
		what = badValue(o, t, shown, "loads")
	}
	return p.argument(o, t, valueKind(t), message, what)
}

func isWord(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '\''
}

// shortRepr is a value as pydantic shows it: at most 50 characters.
func shortRepr(v any) string {
	r := []rune(repr(v))
	if len(r) <= 50 {
		return string(r)
	}
	return string(r[:25]) + "..." + string(r[len(r)-24:])
}

type classReader struct {
	p       *parse
	token   token
	option  *option
	unknown []string // one pydantic line each
	names   []string
	failed  *failure
}

func (c *classReader) read(class string, given *dict, at string) *dict {
	fields := c.p.t.classes[class]
	out := newDict()
	out.set("@", class, 0)
	for _, it := range given.items {
		name := text(it.key)
		f := fields[name]
		if f == nil || f.Init != nil && !*f.Init {
			if c.p.t.does("nested_unknown_field", "dropped") {
				c.note(KindFieldDropped, fmt.Sprintf("--%s has no field %s in vLLM %s; it is dropped in silence, and ends the engine from 0.13.0 on", c.option.Name, at+name, c.p.t.version))
				continue
			}
			c.noteField(at+name, it.value)
			continue
		}
		v := c.field(f, at+name, it.value)
		if inner, ok := v.(*dict); ok && f.class() != "" && len(inner.items) == 1 {
			continue // nothing in it differs
		}
		if f.HasDefault && equal(f.Default, v) {
			continue
		}
		out.set(name, v, 0)
	}
	if class == "PoolerConfig" {
		derivePooling(out, fields)
	}
	return out
}

// derivePooling sets the field that vLLM fills in from the older pooling_type.
func derivePooling(out *dict, fields map[string]*field) {
	v, _ := out.get("pooling_type")
	for _, name := range []string{"seq_pooling_type", "tok_pooling_type"} {
		if f := fields[name]; v != nil && f != nil && slices.Contains(f.RawChoices, v) {
			out.set(name, v, 0)
		}
	}
}

func (c *classReader) noteField(name string, value any) {
	c.names = append(c.names, name)
	if value = hideIn(value); isSecret(name) {
		value = hidden
	}
	c.unknown = append(c.unknown, fmt.Sprintf("%s Unexpected keyword argument [type=unexpected_keyword_argument, input_value=%s, input_type=%s]",
		name, shortRepr(value), className(value)))
}

func (c *classReader) unknownFields() *failure {
	errors := "error"
	if len(c.unknown) > 1 {
		errors = "errors"
	}
	message := fmt.Sprintf("%d validation %s for %s %s", len(c.unknown), errors, c.option.Class, strings.Join(c.unknown, " "))
	return c.p.argument(c.option, c.token, KindUnknownField, message,
		fmt.Sprintf("--%s has no field %s", c.option.Name, strings.Join(c.names, ", ")))
}

// class is the class that the field nests, or "".
func (f *field) class() string {
	for part := range strings.SplitSeq(f.Type, "|") {
		if name, ok := strings.CutPrefix(part, "@"); ok {
			return name
		}
	}
	return ""
}

// field reads one field's value as pydantic's lax mode does where that is
// certain: text that is a number becomes one. What the catalogue does not list
// is passed on and reported as uncertain.
func (c *classReader) field(f *field, name string, v any) any {
	if inner, ok := v.(*dict); ok && f.class() != "" {
		return c.read(f.class(), inner, name+".")
	}
	s, isText := v.(string)
	switch {
	case isText && f.only("int"):
		return c.numeric(name, s, parseInt)
	case isText && f.only("float"):
		return c.numeric(name, s, parseFloat)
	case f.only("enum") && len(f.RawChoices) > 0:
		c.choice(f, name, v)
	}
	return v
}

// only reports whether the field takes this type, or null, and no other.
func (f *field) only(kind string) bool {
	return f.Type == kind || f.Type == kind+"|null" || f.Type == "null|"+kind
}

func (c *classReader) numeric(name, s string, read func(string) (any, error)) any {
	v, err := read(s)
	if err != nil {
		c.uncertain(fmt.Sprintf("%q is no number for the field %s of --%s", s, name, c.option.Name))
		return s
	}
	return v
}

func (c *classReader) choice(f *field, name string, v any) {
	s, ok := v.(string)
	if !ok || slices.Contains(f.RawChoices, any(s)) || slices.Contains(f.RawChoices, any(strings.ToUpper(s))) {
		return
	}
	if name == "cudagraph_mode" { // looked up by its name in capitals: measured
		c.failed = &failure{exit: 1, errorType: "KeyError", text: quote(strings.ToUpper(s)), kind: KindBadValue, path: c.token.path, line: c.token.line,
			what: fmt.Sprintf("%q is no cudagraph_mode: use one of %s", s, joinAny(f.RawChoices))}
		return
	}
	if name == "pooling_type" {
		return // the catalogue lists a part of what it takes
	}
	c.uncertain(fmt.Sprintf("%q is not among the known values of the field %s of --%s: %s", s, name, c.option.Name, joinAny(f.RawChoices)))
}

func (c *classReader) uncertain(what string) { c.note(KindUncertainValue, what) }

func (c *classReader) note(kind, what string) {
	c.p.note(c.token, kind, what)
	c.p.problems[len(c.p.problems)-1].Option = "--" + c.option.Name
}

func joinAny(values []any) string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = fmt.Sprint(v)
	}
	return strings.Join(out, ", ")
}
