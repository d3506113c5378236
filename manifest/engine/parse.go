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
	judged   bool
	unseen   bool // the configuration file was not given
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
