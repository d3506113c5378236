package engine

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// measured is one line of testdata/flattening.jsonl: what vLLM 0.32.0 made of a
// command line.
type measured struct {
	ID         string            `json:"id"`
	Argv       []string          `json:"argv"`
	Entry      Entry             `json:"entry"`
	Files      map[string]string `json:"files"`
	Exit       *int              `json:"exit"`
	ErrorType  string            `json:"error_type"`
	Error      string            `json:"error"`
	Model      string            `json:"model"`
	NonDefault map[string]any    `json:"non_default"`
	YAMLArgs   []string          `json:"yaml_args"`
	Expanded   []string          `json:"expanded"`
	Log        []string          `json:"log"`
}

func cases(t *testing.T) []measured { return measurements(t, "testdata/flattening.jsonl", 170) }

func measurements(t *testing.T, file string, want int) []measured {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []measured
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var m measured
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		out = append(out, m)
	}
	if len(out) != want {
		t.Fatalf("%d cases, want %d", len(out), want)
	}
	return out
}

func (m measured) command() Command {
	files := map[string][]byte{}
	for name, content := range m.Files {
		files[name] = []byte(content)
	}
	return Command{Argv: m.Argv, Entry: m.Entry, Files: files, AllFiles: true}
}

// asJSON gives both sides of a comparison the same number types.
func asJSON(t *testing.T, v any) any {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestMeasured compares every answer of the real program with ours: the exit,
// its words, the model, the effective options, and what argparse was given.
func TestMeasured(t *testing.T) {
	for _, m := range cases(t) {
		t.Run(m.ID, func(t *testing.T) {
			r := Parse(m.command())
			if !r.Judged {
				t.Errorf("not judged: %+v", r.Problems)
			}
			if !reflect.DeepEqual(r.WouldExit, m.Exit) {
				t.Fatalf("exit %v (%s), want %v (%s)", show(r.WouldExit), r.Error, show(m.Exit), m.Error)
			}
			if r.Error != m.Error || r.ErrorType != m.ErrorType {
				t.Errorf("error %s %q\nwant  %s %q", r.ErrorType, r.Error, m.ErrorType, m.Error)
			}
			if m.Exit != nil && len(r.Problems) == 0 {
				t.Error("the engine would exit, and no problem says so")
			}
			if r.Model != m.Model {
				t.Errorf("model %q, want %q", r.Model, m.Model)
			}
			if m.Exit == nil && !reflect.DeepEqual(asJSON(t, r.Options), asJSON(t, m.NonDefault)) {
				t.Errorf("options %v\nwant    %v", asJSON(t, r.Options), asJSON(t, m.NonDefault))
			}
			if repeated := slices.ContainsFunc(r.Problems, func(p Problem) bool { return p.Kind == KindRepeatedOption }); repeated != m.warnsOfRepeats() {
				t.Errorf("repeated options: %v, want %v", repeated, m.warnsOfRepeats())
			}
			if m.Expanded != nil && !reflect.DeepEqual(r.Expanded, m.Expanded) {
				t.Errorf("expanded %q\nwant     %q", r.Expanded, m.Expanded)
			}
		})
	}
}

// TestParsed compares further command lines and files, which the parser of the
// installed vLLM 0.32.0 was given (testdata/parsed.jsonl): the exit, its words, the
// model and the effective options.
func TestParsed(t *testing.T) {
	for _, m := range measurements(t, "testdata/parsed.jsonl", 151) {
		t.Run(m.ID, func(t *testing.T) {
			r := Parse(m.command())
			if !r.Judged || !reflect.DeepEqual(r.WouldExit, m.Exit) || r.Error != m.Error {
				t.Fatalf("judged %v, exit %v (%s), want %v (%s)", r.Judged, show(r.WouldExit), r.Error, show(m.Exit), m.Error)
			}
			if m.Exit == nil && (r.Model != m.Model || !reflect.DeepEqual(asJSON(t, r.Options), asJSON(t, m.NonDefault))) {
				t.Errorf("%s %v\nwant %s %v", r.Model, asJSON(t, r.Options), m.Model, asJSON(t, m.NonDefault))
			}
		})
	}
}

// warnsOfRepeats reports whether vLLM logged that an option replaces an earlier
// one. It warns of --middleware, too, whose values add up.
func (m measured) warnsOfRepeats() bool {
	return slices.ContainsFunc(m.Log, func(s string) bool {
		return strings.HasPrefix(s, "Found duplicate keys") && !strings.HasSuffix(s, " --middleware")
	})
}

// TestMeasuredFlattening compares the arguments made of each file alone.
func TestMeasuredFlattening(t *testing.T) {
	checked := 0
	for _, m := range cases(t) {
		content, ok := m.Files["e.yaml"]
		if !ok || m.YAMLArgs == nil {
			continue
		}
		checked++
		got, problems := Flatten([]byte(content))
		if !reflect.DeepEqual(got, m.YAMLArgs) {
			t.Errorf("%s: %q\nwant %q (%+v)", m.ID, got, m.YAMLArgs, problems)
		}
	}
	if checked != 84 {
		t.Errorf("%d files were compared, want 84", checked)
	}
}

func show(exit *int) any {
	if exit == nil {
		return "none"
	}
	return *exit
}
