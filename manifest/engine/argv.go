package engine

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// expand does what vLLM's own parser does before argparse sees the arguments:
// it moves --model to the front, puts the file in place of --config FILE,
// writes dashes for underscores, and gathers dotted options into JSON. How far
// each release goes was read in its source.
func (p *parse) expand() *failure {
	args := p.arguments()
	if p.serve() {
		moved, f := p.moveModel(args)
		if f != nil {
			return f
		}
		args = moved
		if f := p.servedNameFirst(args); f != nil {
			return f
		}
	}
	args, f := p.pullConfig(args)
	if f != nil {
		return f
	}
	args, f = p.gatherDotted(p.t.dashes(args))
	p.tokens = args
	return f
}

// arguments are the command line's words with where each came from.
func (p *parse) arguments() []token {
	args := make([]token, len(p.cmd.Argv))
	for i, a := range p.cmd.Argv {
		args[i] = token{text: a, path: p.cmd.Path, line: p.cmd.Line}
		if i < len(p.cmd.Sources) {
			from := p.cmd.Sources[i]
			args[i].path, args[i].line, args[i].env = from.Path, from.Line, from.Env
		}
	}
	return args
}

var (
	modelFlag      = regexp.MustCompile(`^--model(=.+|$)`)
	modelFlagOnce  = regexp.MustCompile(`^--model(=|$)`) // until 0.16.0
	configFlag     = regexp.MustCompile(`^--config(=.+|$)`)
	servedNameFlag = regexp.MustCompile(`^--served[-_]model[-_]name(=.+|$)`)
)

// moveModel makes a --model of the command line the positional model.
func (p *parse) moveModel(args []token) ([]token, *failure) {
	flag := modelFlag
	if !p.t.since("0.18.1") {
		flag = modelFlagOnce
	}
	i := slices.IndexFunc(args, func(t token) bool { return flag.MatchString(t.text) })
	if p.t.does("model_option", "exit 1") {
		return args, p.noModelFlag(args)
	}
	if i < 0 {
		return args, nil
	}
	model, rest := args[i], i+1
	if value, ok := strings.CutPrefix(model.text, "--model="); ok {
		model.text = value
	} else {
		if i+1 >= len(args) {
			return nil, &failure{exit: 1, errorType: "IndexError", text: "list index out of range",
				kind: KindBadValue, what: "--model needs a value", path: model.path, line: model.line}
		}
		model, rest = args[i+1], i+2
	}
	return slices.Concat(args[:1], []token{model}, args[1:i], args[rest:]), nil
}

// noModelFlag is how `vllm serve` refused --model at first.
func (p *parse) noModelFlag(args []token) *failure {
	i := slices.IndexFunc(args, func(t token) bool { return t.text == "--model" })
	if i < 0 {
		return nil
	}
	return &failure{exit: 1, errorType: "ValueError", kind: KindBadValue, path: args[i].path, line: args[i].line,
		text: "With `vllm serve`, you should provide the model as a positional argument or in a config file instead of via the `--model` option.",
		what: fmt.Sprintf("vLLM %s takes the model as the first argument or in the configuration file, not by --model", p.t.version)}
}

// servedNameFirst is vLLM's guard against `vllm serve --served-model-name a MODEL`,
// which would take MODEL for a second name.
func (p *parse) servedNameFirst(args []token) *failure {
	if !p.t.since("0.18.1") || len(args) < 2 || !strings.HasPrefix(args[1].text, "-") {
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
func (c *table) dashes(args []token) []token {
	out := make([]token, 0, len(args))
	for i, t := range args {
		switch {
		case strings.HasPrefix(t.text, "--help=") && c.since("0.11.2"):
			t.text = "--help"
		case strings.HasPrefix(t.text, "--"):
			name, value, ok := strings.Cut(t.text, "=")
			t.text = dashName(name)
			if ok {
				t.text += "=" + value
			}
		case strings.HasPrefix(t.text, "-O") && t.text != "-O":
			out = append(out, c.optimization(t)...)
			continue
		case t.text == "-O" && i+1 < len(args) && slices.Contains([]string{"0", "1", "2", "3"}, args[i+1].text):
			t.text = "--optimization-level"
			if field, ok := c.optimizationField(); ok {
				t.text = "-O." + field
			}
		}
		out = append(out, t)
	}
	return out
}

// optimization spells out -O3: an option of its own, or in older releases a field
// of the compilation config.
func (c *table) optimization(t token) []token {
	level := t
	level.text = strings.TrimPrefix(t.text[2:], "=")
	field, asField := c.optimizationField()
	switch {
	case strings.HasPrefix(t.text, "-O.") && asField: // gathered with the other dotted options
		return []token{t}
	case strings.HasPrefix(t.text, "-O.") && c.version == "0.12.0":
		t.text = "-cc" + strings.ReplaceAll(t.text[2:], "-O", "-cc")
		return []token{t}
	case asField:
		t.text = "-O." + field + "=" + level.text
		return []token{t}
	}
	t.text = "--optimization-level"
	return []token{t, level}
}

// optimizationField is the field of the compilation config that -O sets, if it is
// one in this release.
func (c *table) optimizationField() (string, bool) {
	how, _ := c.behaviour["O3"].(string)
	return strings.CutPrefix(how, "compilation-config.")
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
		p.mergeDotted(t, values[parts[0]], parts[1:], p.t.dottedValue(value, strings.HasSuffix(name, "+")))
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

// dottedValue reads the value as JSON, then as a number with a unit, which older
// releases do not know, then as text. A name that ends in + takes a list
// separated by commas.
func (c *table) dottedValue(s string, list bool) any {
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
	if v, err := humanInt(s); err == nil && c.since("0.20.2") {
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
