package engine

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// expand does what vLLM's own parser does before argparse sees the arguments:
// it moves --model to the front, puts the file in place of --config FILE,
// writes dashes for underscores, and gathers dotted options into JSON.
func (p *parse) expand() *failure {
	args := make([]token, len(p.cmd.Argv))
	for i, a := range p.cmd.Argv {
		args[i] = token{text: a, path: p.cmd.Path, line: p.cmd.Line}
	}
	if p.serve() {
		moved, f := p.moveModel(args)
		if f != nil {
			return f
		}
		args = moved
		if f := servedNameFirst(args); f != nil {
			return f
		}
	}
	args, f := p.pullConfig(args)
	if f != nil {
		return f
	}
	args, f = p.gatherDotted(dashes(args))
	p.tokens = args
	return f
}

var (
	modelFlag      = regexp.MustCompile(`^--model(=.+|$)`)
	configFlag     = regexp.MustCompile(`^--config(=.+|$)`)
	servedNameFlag = regexp.MustCompile(`^--served[-_]model[-_]name(=.+|$)`)
)

// moveModel makes a --model of the command line the positional model.
func (p *parse) moveModel(args []token) ([]token, *failure) {
	i := slices.IndexFunc(args, func(t token) bool { return modelFlag.MatchString(t.text) })
	if i < 0 {
		return args, nil
	}
	model, rest := args[i], i+1
	if value, ok := strings.CutPrefix(model.text, "--model="); ok {
		model.text = value
	} else {
		if i+1 >= len(args) || strings.HasPrefix(args[i+1].text, "-") {
			return nil, &failure{exit: 2, errorType: "argparse", text: "vllm: error: argument --model: expected one argument",
				kind: KindBadValue, what: "--model needs a value", path: model.path, line: model.line}
		}
		model, rest = args[i+1], i+2
	}
	return slices.Concat(args[:1], []token{model}, args[1:i], args[rest:]), nil
}

// servedNameFirst is vLLM's guard against `vllm serve --served-model-name a MODEL`,
// which would take MODEL for a second name.
func servedNameFirst(args []token) *failure {
	if len(args) < 2 || !strings.HasPrefix(args[1].text, "-") {
		return nil
	}
	has := func(r *regexp.Regexp) bool {
		return slices.ContainsFunc(args, func(t token) bool { return r.MatchString(t.text) })
	}
	if has(configFlag) || !has(servedNameFlag) {
		return nil
	}
	return &failure{exit: 1, errorType: "ValueError", kind: KindModelMissing, path: args[0].path, line: args[0].line,
		text: "`model` should be provided as the first positional argument when using `vllm serve`. i.e. `vllm serve <model> --<arg> <value>`.",
		what: "the model must be the first argument when --served-model-name is given"}
}

// dashes writes - for _ in option names, up to the first point, and spells out -O.
func dashes(args []token) []token {
	out := make([]token, 0, len(args))
	for i, t := range args {
		switch {
		case strings.HasPrefix(t.text, "--help="):
			t.text = "--help"
		case strings.HasPrefix(t.text, "--"):
			name, value, ok := strings.Cut(t.text, "=")
			t.text = dashName(name)
			if ok {
				t.text += "=" + value
			}
		case strings.HasPrefix(t.text, "-O") && t.text != "-O":
			level := t
			level.text = strings.TrimPrefix(t.text[2:], "=")
			t.text = "--optimization-level"
			out = append(out, t, level)
			continue
		case t.text == "-O" && i+1 < len(args) && slices.Contains([]string{"0", "1", "2", "3"}, args[i+1].text):
			t.text = "--optimization-level"
		}
		out = append(out, t)
	}
	return out
}

func dashName(name string) string {
	head, tail, dotted := strings.Cut(name, ".")
	head = strings.ReplaceAll(head, "_", "-")
	if dotted {
		return head + "." + tail
	}
	return head
}

// gatherDotted turns --a.b v into --a '{"b": v}'. All dotted options of one name
// become one JSON value, which goes to the end and so wins over any other.
func (p *parse) gatherDotted(args []token) ([]token, *failure) {
	var kept, names []token
	values := map[string]*dict{}
	seen := map[string]bool{}
	for i := 0; i < len(args); i++ {
		t := args[i]
		name, value, equals := strings.Cut(t.text, "=")
		dotted := strings.HasPrefix(t.text, "-") && strings.Contains(name, ".")
		if !dotted {
			if strings.HasPrefix(t.text, "--") && !strings.Contains(t.text, ".") {
				p.noteRepeated(t, name, seen)
			}
			kept = append(kept, t)
			continue
		}
		if !equals {
			if i++; i >= len(args) {
				return nil, &failure{exit: 1, errorType: "IndexError", text: "list index out of range", kind: KindBadValue,
					what: name + " needs a value", path: t.path, line: t.line}
			}
			value = args[i].text
		}
		parts := strings.Split(strings.TrimSuffix(name, "+"), ".")
		if values[parts[0]] == nil {
			values[parts[0]] = newDict()
			names = append(names, t.with(parts[0], false))
		}
		p.mergeDotted(t, values[parts[0]], parts[1:], dottedValue(value, strings.HasSuffix(name, "+")))
	}
	for _, n := range names {
		json, f := dumps(values[n.text])
		if f != nil {
			return nil, f
		}
		if seen[n.text] {
			p.note(n, KindOverridden, fmt.Sprintf("%s is given as JSON and by dotted options; the dotted ones replace the JSON whole, whatever the order", n.text))
		}
		kept = append(kept, n, n.with(json, false))
	}
	return kept, nil
}

func (p *parse) noteRepeated(t token, name string, seen map[string]bool) {
	if seen[name] && name != "--middleware" { // which adds up
		p.note(t, KindRepeatedOption, fmt.Sprintf("%s is given more than once; the last one wins whole, and the command line wins over the file", name))
	}
	seen[name] = true
}

// dottedValue reads the value as JSON, then as a number with a unit, then as text.
// A name that ends in + takes a list separated by commas.
func dottedValue(s string, list bool) any {
	if list {
		var out []any
		for part := range strings.SplitSeq(s, ",") {
			out = append(out, part)
		}
		return out
	}
	if v, err := loads(s, false); err == nil {
		return v
	}
	if v, err := humanInt(s); err == nil {
		return v
	}
	return s
}

// mergeDotted puts value at the path below d; lists at the same path add up.
func (p *parse) mergeDotted(t token, d *dict, path []string, value any) {
	for len(path) > 1 {
		next, _ := d.get(path[0])
		inner, ok := next.(*dict)
		if !ok {
			inner = newDict()
			d.set(path[0], inner, t.line)
		}
		d, path = inner, path[1:]
	}
	old, had := d.get(path[0])
	switch v := value.(type) {
	case []any:
		if list, ok := old.([]any); ok {
			d.set(path[0], append(list, v...), t.line)
			return
		}
	case *dict:
		if inner, ok := old.(*dict); ok {
			for _, it := range v.items {
				p.mergeDotted(t, inner, []string{text(it.key)}, it.value)
			}
			return
		}
	}
	if had {
		p.note(t, KindRepeatedOption, fmt.Sprintf("%s sets a field that an earlier option has set; the last one wins", strings.SplitN(t.text, "=", 2)[0]))
	}
	d.set(path[0], value, t.line)
}
