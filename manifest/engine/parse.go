package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// parse is one reading of a command line.
type parse struct {
	cmd      Command
	tokens   []token // after expansion
	values   map[string]any
	given    map[string]token // the last flag by destination name
	extras   []token
	problems []Problem
	log      []string
	judged   bool
}

// Parse predicts what the engine makes of a command line.
func Parse(cmd Command) Result {
	if cmd.Entry == "" {
		cmd.Entry = EntryCLI
	}
	p := &parse{cmd: cmd, values: map[string]any{}, given: map[string]token{}, judged: true}
	if cmd.Entry == EntryCLI && (len(cmd.Argv) == 0 || cmd.Argv[0] != "serve") {
		p.judged = false
		p.note(token{}, KindOtherCommand, "the command does not begin with serve, so it serves no model and is not judged")
		return p.result(nil)
	}
	if cmd.Version != "" && strings.TrimPrefix(cmd.Version, "v") != Version {
		p.judged = false
		p.note(token{}, KindOtherVersion, fmt.Sprintf("options of version %s are not known; %s's are used", cmd.Version, Version))
	}
	f := p.expand()
	if f == nil {
		f = p.options()
	}
	if f == nil {
		f = p.afterwards()
	}
	return p.result(f)
}

// serve reports whether the command is `vllm serve`.
func (p *parse) serve() bool { return p.cmd.Entry == EntryCLI }

func (p *parse) note(t token, kind, what string) {
	path, line := t.path, t.line
	if path == "" {
		path, line = p.cmd.Path, p.cmd.Line
	}
	p.problems = append(p.problems, Problem{Path: path, Line: line, Kind: kind, What: what})
}

// usage is an exit with status 2 out of argparse.
func (p *parse) usage(t token, kind, message, what string) *failure {
	prog := "vllm serve"
	if !p.serve() {
		prog = "api_server.py"
	}
	return &failure{exit: 2, errorType: "argparse", text: prog + ": error: " + message, kind: kind, what: what, path: t.path, line: t.line}
}

func (p *parse) argument(o *option, t token, kind, message, what string) *failure {
	return p.usage(t, kind, "argument "+o.display()+": "+message, what)
}

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
	return p.unrecognized()
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
		if f != nil {
			return nil, f
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
	known := catalogue().byFlag
	if o := known[t.text]; o != nil {
		return word{token: t, class: 'O', option: o, flag: t.text}, nil
	}
	if name, explicit, ok := strings.Cut(t.text, "="); ok && known[name] != nil {
		return word{token: t, class: 'O', option: known[name], flag: name, explicit: &explicit}, nil
	}
	matches := abbreviated(t)
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
func abbreviated(t token) []word {
	var out []word
	prefix, explicit := t.text, (*string)(nil)
	long := strings.HasPrefix(t.text, "--")
	if name, value, ok := strings.Cut(t.text, "="); ok && long {
		prefix, explicit = name, &value
	}
	for _, flag := range catalogue().flags {
		switch {
		case !long && flag == t.text[:2]:
			stuck := t.text[2:]
			out = append(out, word{token: t, class: 'O', option: catalogue().byFlag[flag], flag: flag, explicit: &stuck})
		case strings.HasPrefix(flag, prefix):
			out = append(out, word{token: t, class: 'O', option: catalogue().byFlag[flag], flag: flag, explicit: explicit})
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
	positional := true
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
		if f != nil {
			return f
		}
		i = next + taken
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
	if len(values) == 0 && !w.option.takesNone() && w.option.NArgs != "?" {
		return 0, p.missingValue(w, words[i+1:])
	}
	return 1 + len(values), p.assign(w, values)
}

// most is the number of values that the option takes at most.
func (o *option) most() int {
	switch {
	case o.takesNone():
		return 0
	case o.NArgs == "+":
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
	p.given[o.dest()] = w.token
	if o.Deprecated {
		p.noteDeprecated(w)
	}
	if o.takesNone() {
		p.values[o.dest()] = !o.negative(w.flag)
		return nil
	}
	if len(values) == 0 {
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
	case o.Action == "LoRAParserAction":
		modules, f := p.loraModules(o, t, converted)
		p.values[dest] = modules
		return f
	case o.Action == "append":
		before, _ := p.values[dest].([]any)
		p.values[dest] = append(before, converted...)
	case o.NArgs == "+":
		p.values[dest] = converted
	default:
		p.values[dest] = converted[0]
	}
	return nil
}

// unrecognized ends the engine when anything was left over.
func (p *parse) unrecognized() *failure {
	if len(p.extras) == 0 {
		return nil
	}
	shown := make([]string, len(p.extras))
	for i, t := range p.extras {
		shown[i] = p.masked(i)
		if strings.HasPrefix(t.text, "-") {
			p.noteUnknown(t)
		} else if i == 0 || !strings.HasPrefix(p.extras[i-1].text, "-") || p.extras[i-1].key != t.key {
			p.noteExtra(t, shown[i])
		}
	}
	message := "unrecognized arguments: " + strings.Join(shown, " ")
	f := p.usage(p.extras[0], "", message, "")
	if p.serve() {
		f.text = "vllm: error: " + message // the outer parser complains
	}
	if p.serve() && slices.ContainsFunc(p.extras, func(t token) bool { return t.text == "--task" || strings.HasPrefix(t.text, "--task=") }) {
		f.text += taskHint
	}
	return f
}

// taskHint is what vLLM adds when --task, removed long ago, is among the rest.
const taskHint = " Hint: --task is not a vllm serve option. For embedding, reranking, or reward models, use --runner pooling." +
	" To adapt a generative model for pooling, also use --convert embed, --convert classify, or --convert reward."

func (p *parse) noteUnknown(t token) {
	name := strings.SplitN(t.text, "=", 2)[0]
	what := fmt.Sprintf("%s is no option of vLLM %s", name, Version)
	if near := catalogue().nearest(name); near != "" {
		what += "; did you mean " + near + "?"
	}
	p.note(t, KindUnknownOption, what)
}

func (p *parse) noteExtra(t token, shown string) {
	what := fmt.Sprintf("the value %q stands where none is taken", shown)
	if o := catalogue().byFlag["--"+dashName(t.key)]; t.key != "" && o != nil && o.takesNone() {
		what = fmt.Sprintf("%s is a switch and takes no value: write %s: true, or %s: true", t.key, t.key, strings.TrimPrefix(o.offFlag(), "--"))
	}
	kind := KindExtraValue
	if t.null {
		kind = KindNullValue
	}
	p.note(t, kind, what)
}

// result gathers what was found. f is what ends the engine, or nil.
func (p *parse) result(f *failure) Result {
	r := Result{Expanded: p.maskedTokens(), Judged: p.judged, Problems: p.problems}
	for _, t := range p.extras {
		if strings.HasPrefix(t.text, "-") {
			r.Unknown = append(r.Unknown, strings.SplitN(t.text, "=", 2)[0])
		}
	}
	if f != nil && f.kind == KindNotJudged {
		r.Judged, r.Problems = false, append(r.Problems, f.problem())
		return r
	}
	if f != nil {
		exit := f.exit
		r.WouldExit, r.ErrorType, r.Error = &exit, f.errorType, f.text
		if f.kind != "" {
			r.Problems = append(r.Problems, f.problem())
		} else {
			seeAll(r.Problems, f.text)
		}
		return r
	}
	if p.judged || len(p.tokens) > 0 {
		r.Model, r.Options = p.model(), p.nonDefault()
	}
	return r
}

// seeAll adds the engine's words to the problems that led to them.
func seeAll(problems []Problem, seen string) {
	for i, pr := range problems {
		if slices.Contains([]string{KindUnknownOption, KindExtraValue, KindNullValue}, pr.Kind) {
			problems[i].Seen = seen
		}
	}
}

// isBinaryDecimal unwraps the one conversion error whose words argparse keeps.
func isBinaryDecimal(err error) bool {
	var e errBinaryDecimal
	return errors.As(err, &e)
}
