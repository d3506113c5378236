package engine

import (
	"fmt"
	"slices"
	"strings"
)

// convert reads one value of an option as its type asks, and checks it against
// the option's choices.
func (p *parse) convert(o *option, t token) (any, *failure) {
	var v any
	if !o.NoneIsNull || t.text != "" && t.text != "None" {
		var f *failure
		if v, f = p.typed(o, t); f != nil {
			return nil, f
		}
	}
	if t.null && v != nil && o.Type == "str" {
		p.note(t, KindNullValue, fmt.Sprintf(`%s: null becomes the text "None"; remove the line to have the default`, t.key))
	}
	if o.Normal && v != nil {
		v = strings.ReplaceAll(strings.ToLower(t.text), "-", "_")
	}
	if len(o.Choices) > 0 && !slices.ContainsFunc(o.Choices, func(c any) bool { return equal(c, v) }) {
		return nil, p.wrongChoice(o, t, v)
	}
	return v, nil
}

func (p *parse) wrongChoice(o *option, t token, v any) *failure {
	choices := make([]string, len(o.Choices))
	for i, c := range o.Choices {
		choices[i] = repr(c)
	}
	return p.argument(o, t, KindBadValue,
		fmt.Sprintf("invalid choice: %s (choose from %s)", repr(v), strings.Join(choices, ", ")),
		fmt.Sprintf("%q is no value of --%s: use one of %s", t.text, o.Name, strings.Join(choices, ", ")))
}

// converters are the types with the name that argparse prints for each.
var converters = map[string]struct {
	convert func(string) (any, error)
	name    string // in "invalid NAME value"
	shown   string // in "cannot be converted to SHOWN", when null is allowed
}{
	"int":               {parseInt, "int", "<class 'int'>"},
	"float":             {parseFloat, "float", "<class 'float'>"},
	"human_int":         {humanInt, "human_readable_int", "<function human_readable_int>"},
	"si_int":            {siInt, "human_readable_int", "<function human_readable_int>"},
	"human_int_or_auto": {humanIntOrAuto, "human_readable_int_or_auto", "<function human_readable_int_or_auto>"},
	"json":              {func(s string) (any, error) { return loads(s, false) }, "loads", "<function loads>"},
}

func (p *parse) typed(o *option, t token) (any, *failure) {
	kind := o.Type
	if kind == "str_or_json" {
		body := strings.TrimSpace(t.text)
		if !strings.HasPrefix(body, "{") || !strings.HasSuffix(body, "}") {
			return t.text, nil
		}
		kind = "json"
	}
	if kind == "json" && o.Class != "" && !o.Late {
		return p.classValue(o, t)
	}
	c, ok := converters[kind]
	if !ok {
		return t.text, nil
	}
	v, err := c.convert(t.text)
	if err == nil {
		return v, nil
	}
	shown := p.shown(o, t)
	message := fmt.Sprintf("invalid %s value: %s", c.name, quote(shown))
	switch {
	case keepsWords(err):
		message = err.Error()
	case o.NoneIsNull || o.Type == "str_or_json":
		message = fmt.Sprintf("Value %s cannot be converted to %s.", shown, c.shown)
	}
	return nil, p.argument(o, t, valueKind(t), message, badValue(o, t, shown, c.name))
}

func valueKind(t token) string {
	if t.null {
		return KindNullValue
	}
	return KindBadValue
}

func badValue(o *option, t token, shown, want string) string {
	if t.null {
		return fmt.Sprintf(`%s: null becomes the text "None", which --%s does not take; remove the line to have the default`, t.key, o.Name)
	}
	switch want {
	case "loads":
		want = "JSON"
	case "int":
		want = "whole number"
	case "human_readable_int", "human_readable_int_or_auto":
		want = "whole number, with a unit or without (32768, 32k, 32K)"
	case "float":
		want = "number"
	}
	return fmt.Sprintf("%q is no value of --%s, which takes a %s", shown, o.Name, want)
}

// loraModules reads the values of --lora-modules: name=path or JSON.
func (p *parse) loraModules(o *option, t token, values []any) ([]any, *failure) {
	modules := []any{}
	for _, v := range values {
		s, _ := v.(string)
		if s == "" {
			continue
		}
		m, f := p.loraModule(t, s)
		if f != nil {
			return nil, f
		}
		modules = append(modules, m)
	}
	return modules, nil
}

func (p *parse) loraModule(t token, s string) (*dict, *failure) {
	shown := hideText(s)
	m := newDict()
	m.set("@", "LoRAModulePath", 0)
	defaults := []item{{key: "name"}, {key: "path"}, {key: "base_model_name"}}
	if p.t.since("0.24.0") {
		defaults = append(defaults, item{key: "is_3d_lora_weight", value: false})
	}
	for _, it := range defaults {
		m.set(it.key, it.value, 0)
	}
	if strings.Contains(s, "=") && !strings.Contains(s, ",") {
		name, path, _ := strings.Cut(s, "=")
		if strings.Contains(path, "=") && !p.t.since("0.30.0") { // the pull request vllm#53353
			return nil, &failure{exit: 1, errorType: "ValueError", kind: KindBadValue, path: t.path, line: t.line,
				text: "too many values to unpack (expected 2)",
				what: fmt.Sprintf("%q has more than one equals sign; give the adapter as JSON", s)}
		}
		m.set("name", name, 0)
		m.set("path", path, 0)
		return m, nil
	}
	v, err := loads(s, false)
	if err != nil {
		return nil, p.usage(t, KindBadValue, "Invalid JSON format for --lora-modules: "+shown,
			fmt.Sprintf("%q is neither name=path nor JSON: %v", shown, err))
	}
	return m, p.loraFields(t, shown, v, m)
}

func (p *parse) loraFields(t token, s string, v any, m *dict) *failure {
	invalid := func(why, what string) *failure {
		return p.usage(t, KindUnknownField, fmt.Sprintf("Invalid fields for --lora-modules: %s - %s", s, why), what)
	}
	given, ok := v.(*dict)
	if !ok {
		return invalid("argument after ** must be a mapping, not "+className(v), "an adapter in JSON is an object with name and path")
	}
	for _, it := range given.items {
		if _, known := m.get(it.key); !known || it.key == "@" {
			return invalid(fmt.Sprintf("LoRAModulePath.__init__() got an unexpected keyword argument '%s'", text(it.key)),
				fmt.Sprintf("an adapter has no field %q", text(it.key)))
		}
		m.set(it.key, it.value, 0)
	}
	for _, need := range []string{"name", "path"} {
		if _, ok := given.get(need); !ok {
			return invalid(fmt.Sprintf("LoRAModulePath.__init__() missing 1 required positional argument: '%s'", need),
				fmt.Sprintf("the adapter has no %s", need))
		}
	}
	return nil
}
