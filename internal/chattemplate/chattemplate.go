// Package chattemplate renders the Jinja chat templates of Hugging Face model
// repositories the way transformers does: trim_blocks and lstrip_blocks on, no
// HTML escaping, raise_exception and strftime_now as functions, tojson without
// escapes, tools and documents none.
//
// The engine is gonja, which follows Jinja closely but is not Jinja; golden
// renderings of the Python original in testdata keep it honest. Two known
// differences remain, both rare in templates: a printed none is empty here and
// "None" there, and -7 // 2 is -3 here and -4 there. A template that gonja
// cannot parse is an error, never an approximation.
//
//	t, err := chattemplate.Parse(source)
//	text, err := t.Render(chattemplate.Input{Messages: msgs, AddGenerationPrompt: true, BOSToken: "<s>"})
package chattemplate

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/nikolalohinski/gonja/v2/builtins"
	"github.com/nikolalohinski/gonja/v2/config"
	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/loaders"
)

// Message is one turn of a chat.
type Message struct{ Role, Content string }

// Input is what a template sees. Now is for templates that print the date.
type Input struct {
	Messages            []Message
	AddGenerationPrompt bool
	BOSToken, EOSToken  string // as tokenizer_config.json states them; empty when it does not
	Now                 time.Time
	Tools               []any // as in a request's tools; nil: none
}

// Template is a parsed template, safe for concurrent use.
type Template struct{ t *exec.Template }

// RaisedError is what a template says when it refuses its input by
// raise_exception.
type RaisedError struct{ Message string }

func (e *RaisedError) Error() string { return e.Message }

// Parse reads the source of a template. The only file that it can see is
// itself: an include or import of another one fails when it is rendered.
func Parse(source string) (t *Template, err error) {
	defer recovered("parsing", &err)
	if err := bounded(source); err != nil {
		return nil, err
	}
	loader, err := loaders.NewMemoryLoader(map[string]string{root: source})
	if err != nil {
		return nil, fmt.Errorf("chat template: %w", err)
	}
	c := config.New()
	c.TrimBlocks, c.LeftStripBlocks = true, true
	parsed, err := exec.NewTemplate(root, c, loader, environment)
	if err != nil {
		return nil, fmt.Errorf("chat template: %w", withoutSource(err, source))
	}
	return &Template{t: parsed}, nil
}

const root = "/chat_template"

// Render gives the text of a chat. A template that refuses gives a
// *RaisedError in the error's chain.
func (t *Template) Render(in Input) (text string, err error) {
	defer recovered("rendering", &err)
	var raised *RaisedError
	ctx := exec.NewContext(map[string]any{
		"messages":              messages(in.Messages),
		"add_generation_prompt": in.AddGenerationPrompt,
		"bos_token":             in.BOSToken,
		"eos_token":             in.EOSToken,
		"tools":                 tools(in.Tools),
		"documents":             nil,
		"raise_exception": func(message string) (string, error) {
			raised = &RaisedError{Message: message}
			return "", raised
		},
		"strftime_now": func(format string) (string, error) { return strftime(format, in.Now) },
	})
	var out bytes.Buffer
	err = t.t.Execute(&out, ctx)
	switch {
	case raised != nil:
		return "", fmt.Errorf("chat template: %w", raised)
	case err != nil:
		return "", fmt.Errorf("chat template: %w", err)
	}
	return out.String(), nil
}

var environment = &exec.Environment{
	Context:           exec.EmptyContext().Update(builtins.GlobalFunctions).Update(builtins.GlobalVariables).Update(exec.NewContext(map[string]any{"range": boundedRange})),
	Filters:           exec.NewFilterSet(map[string]exec.FilterFunction{}).Update(builtins.Filters).Update(exec.NewFilterSet(map[string]exec.FilterFunction{"tojson": toJSON})),
	Tests:             builtins.Tests,
	ControlStructures: builtins.ControlStructures,
	Methods:           builtins.Methods,
}

// tools is none where there are none, which templates test for.
func tools(list []any) any {
	if len(list) == 0 {
		return nil
	}
	return list
}

// messages keeps the order of keys, which a Go map would lose.
func messages(ms []Message) []any {
	out := make([]any, len(ms))
	for i, m := range ms {
		d := exec.NewDict()
		for _, kv := range [][2]string{{"role", m.Role}, {"content", m.Content}} {
			d.Pairs = append(d.Pairs, &exec.Pair{Key: exec.AsValue(kv[0]), Value: exec.AsValue(kv[1])})
		}
		out[i] = d
	}
	return out
}

// maxRange is Jinja's own limit in its sandbox.
const maxRange = 100_000

func boundedRange(args ...int) ([]int, error) {
	start, stop, step := 0, 0, 1
	switch len(args) {
	case 1:
		stop = args[0]
	case 2:
		start, stop = args[0], args[1]
	case 3:
		start, stop, step = args[0], args[1], args[2]
	default:
		return nil, fmt.Errorf("range takes one to three numbers, not %d", len(args))
	}
	if step == 0 {
		return nil, errors.New("range: step is 0")
	}
	out := []int{}
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		if len(out) == maxRange {
			return nil, fmt.Errorf("range: more than %d items", maxRange)
		}
		out = append(out, i)
	}
	return out, nil
}

var directive = regexp.MustCompile(`%.`)

var goLayout = map[string]string{
	"%d": "02", "%b": "Jan", "%B": "January", "%m": "01", "%Y": "2006", "%y": "06", "%A": "Monday",
	"%a": "Mon", "%H": "15", "%M": "04", "%S": "05", "%I": "03", "%p": "PM",
}

func strftime(format string, now time.Time) (string, error) {
	var unknown string
	s := directive.ReplaceAllStringFunc(format, func(d string) string {
		layout, ok := goLayout[d]
		if !ok {
			unknown = d
		}
		return now.Format(layout)
	})
	if unknown != "" {
		return "", fmt.Errorf("strftime_now: the directive %s is not supported here", unknown)
	}
	return s, nil
}

// recovered turns a panic of the template engine into an error: templates come
// from model repositories, and a strange one must not end the program.
func recovered(doing string, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("chat template: %s it failed inside the template engine: %v", doing, p)
	}
}

// withoutSource takes the template's text out of a parser's message, which
// repeats all of it.
func withoutSource(err error, source string) error {
	if source == "" || !strings.Contains(err.Error(), source) {
		return err
	}
	return errors.New(strings.ReplaceAll(err.Error(), source, "…"))
}
