package engine

import (
	"fmt"
	"slices"
	"strings"
)

// word is an argument as argparse sorts it before it reads values: an option
// (perhaps unknown), a value, or the mark -- after which all are values.
type word struct {
	token
	class    byte // 'O', 'A' or '-'
	option   *option
	flag     string
	explicit *string // the value after an equals sign
}

// options reads the expanded arguments as argparse of Python 3.11 does.
func (p *parse) options() *failure {
	args := p.tokens
	if p.serve() {
		args = args[1:]
	}
	words, f := p.classify(args)
	if f != nil {
		return f
	}
	if f := p.consume(words); f != nil {
		return f
	}
	if f := p.required(); !p.gone(f) {
		return f
	}
	if f := p.unrecognized(); !p.gone(f) {
		return f
	}
	return nil
}

func (p *parse) classify(args []token) ([]word, *failure) {
	words := make([]word, len(args))
	for i, t := range args {
		if t.text == "--" {
			words[i] = word{token: t, class: '-'}
			for j := i + 1; j < len(args); j++ {
				words[j] = word{token: args[j], class: 'A'}
			}
			return words, nil
		}
		w, f := p.classifyOne(t)
		if !p.gone(f) {
			return nil, f
		}
		if f != nil {
			w = word{token: t, class: 'O'}
		}
		words[i] = w
	}
	return words, nil
}

func (p *parse) classifyOne(t token) (word, *failure) {
	value := word{token: t, class: 'A'}
	if len(t.text) < 2 || t.text[0] != '-' {
		return value, nil
	}
	known := p.t.byFlag
	if o := known[t.text]; o != nil {
		return word{token: t, class: 'O', option: o, flag: t.text}, nil
	}
	if name, explicit, ok := strings.Cut(t.text, "="); ok && known[name] != nil {
		return word{token: t, class: 'O', option: known[name], flag: name, explicit: &explicit}, nil
	}
	matches := p.t.abbreviated(t)
	switch {
	case len(matches) > 1:
		names := make([]string, len(matches))
		for i, m := range matches {
			names[i] = m.flag
		}
		return word{}, p.usage(t, KindAmbiguousOption,
			fmt.Sprintf("ambiguous option: %s could match %s", t.text, strings.Join(names, ", ")),
			fmt.Sprintf("%s is the beginning of several options: write one of %s", t.text, strings.Join(names, ", ")))
	case len(matches) == 1:
		if m := matches[0]; strings.HasPrefix(m.flag, "--") {
			p.note(t, KindAbbreviated, fmt.Sprintf("%s is taken for %s, because no other option begins so; write it out", strings.SplitN(t.text, "=", 2)[0], m.flag))
		}
		return matches[0], nil
	case negativeNumber(t.text) || strings.Contains(t.text, " "):
		return value, nil
	}
	return word{token: t, class: 'O'}, nil
}

// abbreviated lists the options that t may stand for: any that begin with it,
// and a short option with its value stuck on (-q8).
func (c *table) abbreviated(t token) []word {
	var out []word
	prefix, explicit := t.text, (*string)(nil)
	long := strings.HasPrefix(t.text, "--")
	if name, value, ok := strings.Cut(t.text, "="); ok && long {
		prefix, explicit = name, &value
	}
	for _, flag := range c.flags {
		switch {
		case !long && flag == t.text[:2]:
			stuck := t.text[2:]
			out = append(out, word{token: t, class: 'O', option: c.byFlag[flag], flag: flag, explicit: &stuck})
		case strings.HasPrefix(flag, prefix):
			out = append(out, word{token: t, class: 'O', option: c.byFlag[flag], flag: flag, explicit: explicit})
		}
	}
	return out
}

// negativeNumber reports whether argparse takes s for a value although it
// begins with a dash: -1, -.5, -2.5.
func negativeNumber(s string) bool {
	whole, fraction, point := strings.Cut(s[1:], ".")
	if !point {
		return allDigits(whole)
	}
	return allDigits(fraction) && (whole == "" || allDigits(whole))
}

// consume walks over the words: options with their values, and the one
// positional argument, the model.
func (p *parse) consume(words []word) *failure {
	positional := p.t.engine == VLLM
	last := -1
	for i, w := range words {
		if w.class == 'O' {
			last = i
		}
	}
	i := 0
	for i <= last {
		next := i + slices.IndexFunc(words[i:], func(w word) bool { return w.class == 'O' })
		if next != i && positional {
			positional = false
			i = p.takeModel(words, i)
			continue
		}
		p.extra(words[i:next])
		taken, f := p.consumeOption(words, next)
		if !p.gone(f) {
			return f
		}
		i = next + max(taken, 1)
	}
	if positional {
		i = p.takeModel(words, i)
	}
	p.extra(words[i:])
	return nil
}

func (p *parse) extra(words []word) {
	for _, w := range words {
		p.extras = append(p.extras, w.token)
	}
}

// takeModel reads the positional model at i, if a value stands there, and
// returns the place after it.
func (p *parse) takeModel(words []word, i int) int {
	skip := func() {
		for i < len(words) && words[i].class == '-' {
			i++
		}
	}
	skip()
	if i < len(words) && words[i].class == 'A' {
		p.values["model_tag"] = words[i].text
		p.given["model_tag"] = words[i].token
		i++
		skip()
	}
	return i
}

// consumeOption reads the option at i and returns how many words it took.
func (p *parse) consumeOption(words []word, i int) (int, *failure) {
	w := words[i]
	if w.option == nil {
		p.extras = append(p.extras, w.token)
		return 1, nil
	}
	if w.explicit != nil {
		return 1, p.explicitValue(w)
	}
	var values []token
	for _, v := range words[i+1:] {
		if v.class != 'A' || len(values) == w.option.most() {
			break
		}
		values = append(values, v.token)
	}
	if len(values) == 0 && !w.option.takesNone() && w.option.NArgs != "?" && w.option.NArgs != "*" {
		return 0, p.missingValue(w, words[i+1:])
	}
	return 1 + len(values), p.assign(w, values)
}

// most is the number of values that the option takes at most.
func (o *option) most() int {
	switch {
	case o.takesNone():
		return 0
	case o.NArgs == "+" || o.NArgs == "*":
		return 1 << 30
	}
	return 1
}

func (p *parse) missingValue(w word, rest []word) *failure {
	expected := "expected one argument"
	if w.option.NArgs == "+" {
		expected = "expected at least one argument"
	}
	what := w.flag + " needs a value"
	if len(rest) > 0 && strings.HasPrefix(rest[0].text, "-") && rest[0].option == nil {
		what = fmt.Sprintf("the value %q of %s begins with a dash and is taken for an option: write %s=%s", rest[0].text, w.flag, w.flag, rest[0].text)
	}
	return p.argument(w.option, w.token, KindBadValue, expected, what)
}

func (p *parse) explicitValue(w word) *failure {
	if w.option.takesNone() {
		return p.argument(w.option, w.token, KindExtraValue, "ignored explicit argument "+quote(*w.explicit),
			fmt.Sprintf("%s takes no value: write %s alone, or %s to switch it off", w.flag, w.flag, w.option.offFlag()))
	}
	v := w.token
	v.text = *w.explicit
	return p.assign(w, []token{v})
}

func (o *option) offFlag() string {
	if o.Negatable {
		return "--no-" + o.Name
	}
	return "nothing"
}

// assign stores what the option's values mean.
func (p *parse) assign(w word, values []token) *failure {
	o := w.option
	if o.Action == "help" {
		return &failure{exit: 0, errorType: "SystemExit", kind: KindExitsAtOnce, what: "the engine prints its help and exits", path: w.path, line: w.line}
	}
	if f, done := p.retired(w); done {
		return f
	}
	p.given[o.dest()] = w.token
	if o.Deprecated {
		p.noteDeprecated(w)
	}
	if o.takesNone() {
		p.values[o.dest()] = !o.negative(w.flag)
		return nil
	}
	if len(values) == 0 && o.NArgs == "?" {
		p.values[o.dest()] = o.Const
		return nil
	}
	converted := make([]any, len(values))
	for i, v := range values {
		c, f := p.convert(o, v)
		if f != nil {
			return f
		}
		converted[i] = c
	}
	return p.store(o, w.token, converted)
}

func (p *parse) noteDeprecated(w word) {
	what := fmt.Sprintf("%s is deprecated", w.flag)
	if w.option.Removal != "" {
		what += " and announced to go in " + w.option.Removal
	}
	if w.option.Use != "" {
		what += ": use " + w.option.Use
	}
	p.note(w.token, KindDeprecated, what)
}

func (p *parse) store(o *option, t token, converted []any) *failure {
	dest := o.dest()
	switch {
	case o.Action == "LoRAPathAction":
		paths, f := p.loraPaths(t, converted)
		p.values[dest] = paths
		return f
	case o.Action == "DeprecatedStoreConstAction":
		p.values[dest] = true // the one value that it takes became a switch
	case o.Action == "LoRAParserAction":
		modules, f := p.loraModules(o, t, converted)
		p.values[dest] = modules
		return f
	case o.Action == "append":
		before, _ := p.values[dest].([]any)
		p.values[dest] = append(before, converted...)
	case o.NArgs == "+" || o.NArgs == "*":
		p.values[dest] = converted
	default:
		p.values[dest] = converted[0]
	}
	return nil
}
