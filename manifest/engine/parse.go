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
	t        *table
	tokens   []token // after expansion
	values   map[string]any
	given    map[string]token // the last flag by destination name
	extras   []token
	problems []Problem
	judged   bool
	unseen   bool       // the configuration file was not given
	tolerant bool       // go on after an option that ends the engine
	failures []*failure // what was gone on from
}

// Parse predicts what the engine makes of a command line.
func Parse(cmd Command) Result {
	p := newParse(cmd)
	return p.result(p.run())
}

// Serving is the command with a model, for one that names none because the model
// is the release's own.
func (c Command) Serving(model string) Command {
	at, words := 0, []string{"--model", model}
	switch {
	case c.Entry == EntrySGLang && len(c.Argv) > 0:
		at, words = 1, []string{"--model-path", model}
	case c.Entry.Engine() == SGLang:
		words = []string{"--model-path", model}
	case c.Entry != EntryAPIServer && len(c.Argv) > 0:
		at, words = 1, []string{model}
	}
	c.Argv = slices.Insert(slices.Clone(c.Argv), at, words...)
	if len(c.Sources) >= at {
		own := slices.Repeat([]Source{{Path: c.Path, Line: c.Line}}, len(words))
		c.Sources = slices.Insert(slices.Clone(c.Sources), at, own...)
	}
	return c
}

func newParse(cmd Command) *parse {
	if cmd.Entry == "" {
		cmd.Entry = EntryCLI
	}
	p := &parse{cmd: cmd, values: map[string]any{}, given: map[string]token{}, judged: true}
	var note string
	if p.t, note = tableOf(cmd.Entry.Engine(), cmd.Version); note != "" {
		p.judged = false
		p.note(token{}, KindOtherVersion, note)
	}
	return p
}

// run reads the command line; the failure is what ends the engine.
func (p *parse) run() *failure {
	if p.subcommand() && (len(p.cmd.Argv) == 0 || p.cmd.Argv[0] != "serve") {
		p.judged, p.problems = false, nil
		p.note(token{}, KindOtherCommand, "the command does not begin with serve, so it serves no model and is not judged")
		return nil
	}
	expand := p.expand
	if p.t.engine == SGLang {
		expand = p.expandSGLang
	}
	f := expand()
	if f == nil {
		f = p.options()
	}
	if f == nil {
		f = p.afterwards()
	}
	if p.judged && len(p.cmd.Env) > 0 {
		p.noteUnread()
	}
	return f
}

// noteUnread reports variables that do nothing in this release.
func (p *parse) noteUnread() {
	for _, name := range Unread(p.t.engine, p.t.version, p.cmd.Env) {
		p.note(token{}, KindUnreadVariable, fmt.Sprintf("%s does not read the variable %s, which other releases do; it has no effect", p.title(), name))
	}
}

// subcommand reports whether the program's first argument names what it does.
func (p *parse) subcommand() bool { return p.cmd.Entry == EntryCLI || p.cmd.Entry == EntrySGLang }

// serve reports whether the command is `vllm serve`.
func (p *parse) serve() bool { return p.cmd.Entry == EntryCLI }

func (p *parse) note(t token, kind, what string) {
	path, line := t.path, t.line
	if path == "" {
		path, line = p.cmd.Path, p.cmd.Line
	}
	p.problems = append(p.problems, Problem{Path: path, Line: line, Kind: kind, What: what, Option: t.option()})
}

// option is the option that the argument names, or the key of a file that it was
// made from. A value is never shown.
func (t token) option() string {
	switch {
	case t.key != "":
		return "--" + dashName(t.key)
	case strings.HasPrefix(t.text, "-"):
		return strings.SplitN(t.text, "=", 2)[0]
	}
	return ""
}

// usage is an exit with status 2 out of argparse.
func (p *parse) usage(t token, kind, message, what string) *failure {
	return &failure{exit: 2, errorType: "argparse", text: p.program() + ": error: " + message, kind: kind, what: what, path: t.path, line: t.line}
}

// program is the name under which argparse complains.
func (p *parse) program() string {
	switch {
	case p.t.engine == SGLang && p.t.since("0.5.23"):
		return "sglang serve"
	case p.cmd.Entry == EntrySGLang:
		return "sglang"
	case p.cmd.Entry == EntryLaunch:
		return "launch_server.py"
	case p.serve():
		return "vllm serve"
	}
	return "api_server.py"
}

func (p *parse) argument(o *option, t token, kind, message, what string) *failure {
	f := p.usage(t, kind, "argument "+o.display()+": "+message, what)
	f.option = "--" + o.Name
	return f
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
	if p.serve() && p.t.since("0.30.0") && slices.ContainsFunc(p.extras, func(t token) bool { return t.text == "--task" || strings.HasPrefix(t.text, "--task=") }) {
		f.text += taskHint
	}
	return f
}

// taskHint is what vLLM adds when --task, removed long ago, is among the rest.
const taskHint = " Hint: --task is not a vllm serve option. For embedding, reranking, or reward models, use --runner pooling." +
	" To adapt a generative model for pooling, also use --convert embed, --convert classify, or --convert reward."

func (p *parse) noteUnknown(t token) {
	name := strings.SplitN(t.text, "=", 2)[0]
	what := fmt.Sprintf("%s is no option of %s %s", name, titles[p.t.engine], p.t.version)
	if fate, _ := p.t.fate(name); fate != "" {
		what += ": " + fate
	} else if near := p.t.nearest(name); near != "" {
		what += "; did you mean " + near + "?"
	}
	p.note(t, KindUnknownOption, what)
}

// spelling is an option's name as its parser knows it: SGLang's does not write
// dashes for underscores.
func (p *parse) spelling(name string) string {
	if p.t.engine == SGLang {
		return name
	}
	return dashName(name)
}

func (p *parse) noteExtra(t token, shown string) {
	what := fmt.Sprintf("the value %q stands where none is taken", shown)
	if o := p.t.byFlag["--"+p.spelling(t.key)]; t.key != "" && o != nil && o.takesNone() {
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
	r := Result{Expanded: p.maskedTokens(), Judged: p.judged, Problems: p.problems, Engine: p.t.engine, Version: p.t.version,
		Sources: map[string]Source{}, table: p.t}
	for _, t := range p.extras {
		if strings.HasPrefix(t.text, "-") {
			name := strings.SplitN(t.text, "=", 2)[0]
			r.Unknown = append(r.Unknown, name)
			r.Sources[name] = t.source()
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
		for dest := range r.Options {
			r.Sources[dest] = p.given[dest].source()
		}
	}
	return r
}

func (t token) source() Source { return Source{Path: t.path, Line: t.line, Env: t.env} }

// seeAll adds the engine's words to the problems that led to them.
func seeAll(problems []Problem, seen string) {
	for i, pr := range problems {
		if slices.Contains([]string{KindUnknownOption, KindExtraValue, KindNullValue}, pr.Kind) {
			problems[i].Seen = seen
		}
	}
}

// keepsWords reports whether argparse prints the conversion error as it is.
func keepsWords(err error) bool {
	_, ok := errors.AsType[errVerbatim](err)
	return ok
}
