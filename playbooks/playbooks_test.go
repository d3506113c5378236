package playbooks

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"drkit/internal/errext"
	"drkit/internal/strictyaml"
)

var update = flag.Bool("update", false, "rewrite golden files")

// kinds are the steps that the built-in playbooks may use (design: the drill).
var kinds = []string{"preflight", "restore", "boot", "traffic", "declare", "verify", "behaviour", "cutover", "steady", "failback", "cleanup"}

func TestBuiltinRehearsal(t *testing.T) {
	p, err := Builtin("rehearsal", kinds...)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range p.Steps {
		got = append(got, s.ID+"="+s.Kind)
	}
	want := []string{
		"preflight=preflight", "restore-source=restore", "source=boot", "traffic=traffic", "declare=declare", "verify=verify",
		"restore=restore", "boot=boot", "behaviour=behaviour", "cutover=cutover", "steady=steady", "failback=failback", "cleanup=cleanup",
	}
	if !slices.Equal(got, want) {
		t.Errorf("steps %q", got)
	}
	if p.Name != "rehearsal" || p.Mode != Rehearsal || p.Title == "" {
		t.Errorf("header %+v", p)
	}
	if p.Budget() > 30*time.Minute {
		t.Errorf("budgets add up to %s: more than the default objective", p.Budget())
	}
	for _, s := range p.Steps {
		if s.Kind != "declare" && !strings.Contains(s.Text, "When it is red:") {
			t.Errorf("%s does not say what to do when it is red", s.ID)
		}
		if s.Timeout < s.Budget || s.Timeout == 0 || (s.When == Always) != (s.ID == "cleanup") || s.OnTimeout != Abort {
			t.Errorf("step %+v", s)
		}
	}
}

// TestBuiltinOptions reads the options that the steps' kinds take.
func TestBuiltinOptions(t *testing.T) {
	p, err := Builtin("rehearsal")
	if err != nil {
		t.Fatal(err)
	}
	regions := map[string]string{}
	for _, s := range p.Steps {
		switch s.Kind {
		case "restore", "boot":
			var with struct {
				Region string `yaml:"region" strict:"required,enum=source|target"`
			}
			if err := s.Decode(&with); err != nil {
				t.Error(err)
			}
			regions[s.ID] = with.Region
		case "verify":
			var with struct {
				Level   string `yaml:"level"`
				Require string `yaml:"require"`
			}
			if err := s.Decode(&with); err != nil || with.Level != "content" || with.Require != "content" {
				t.Errorf("%+v %v", with, err)
			}
		default:
			if err := s.Decode(new(struct{})); err != nil {
				t.Error(err)
			}
		}
	}
	want := map[string]string{"restore-source": "source", "source": "source", "restore": "target", "boot": "target"}
	if !reflect.DeepEqual(regions, want) {
		t.Errorf("regions %v", regions)
	}
}

func TestNames(t *testing.T) {
	if !slices.Equal(Names(), []string{"rehearsal"}) {
		t.Errorf("names %q", Names())
	}
	_, err := Builtin("rehearsel")
	if errext.StatusOf(err) != errext.Usage || errext.Hint(err) != `did you mean "rehearsal"?` {
		t.Errorf("got %v, hint %q", err, errext.Hint(err))
	}
}

const small = `apiVersion: drkit/v1
kind: Playbook
metadata: {name: small}
steps:
  - id: one
    kind: verify
    text: Compares.
    timeout: 1h30m
    on_timeout: hold
    retries: 2
    with: {level: checksum, list: [1, a]}
  - {id: two, kind: cleanup, text: Removes., budget: 90s, timeout: 5m, when: always}
`

func TestLoad(t *testing.T) {
	p, err := Load([]byte(small), "small.yaml", kinds...)
	if err != nil {
		t.Fatal(err)
	}
	one, two := p.Steps[0], p.Steps[1]
	if one.Timeout != 90*time.Minute || one.OnTimeout != Hold || one.Retries != 2 || one.When != Passed || one.Budget != 0 || one.Line != 5 {
		t.Errorf("first step %+v", one)
	}
	if two.Budget != 90*time.Second || two.When != Always || two.OnTimeout != Abort || two.Line != 12 || two.Text != "Removes." {
		t.Errorf("second step %+v", two)
	}
	var with struct {
		Region string `yaml:"region" strict:"required"`
		Level  int    `yaml:"level"`
	}
	want := `small.yaml: 3 errors
  line 11: steps[0].with.level: must be a whole number, not text
  line 11: steps[0].with.list: unknown key
  line 11: steps[0].with.region: is missing`
	if err := one.Decode(&with); err == nil || err.Error() != want || errext.StatusOf(err) != errext.Usage {
		t.Errorf("got %v", err)
	}
	if err := two.Decode(&with); err == nil || err.Error() != "small.yaml: line 12: steps[1].with.region: is missing" {
		t.Errorf("a step without options: %v", err)
	}
}

func TestLoadErrors(t *testing.T) {
	head := "apiVersion: drkit/v1\nkind: Playbook\nmetadata: {name: x}\n"
	for _, c := range []struct{ name, data, want string }{
		{"all at once", head + `mode: emergency
steps:
  - {id: One, kind: verfy, text: x, timeout: 5m, budget: 6m}
  - {id: two, kind: fly, text: x, timeout: 3, when: failed, on_timeout: continue}
  - id: two
    kind: boot
    kind: boot
    txt: x
    retries: 11
    with: {a: 1, a: 2}
`, `p.yaml: 14 errors
  line 4: mode: "emergency" is not one of rehearsal
  line 6: steps[0].budget: is larger than the timeout of 5m
  line 6: steps[0].id: "One" is not an id (use lower case letters, digits and dashes, at most 63)
  line 6: steps[0].kind: "verfy" is not a kind of step (did you mean "verify"?)
  line 7: steps[1].kind: "fly" is not a kind of step (the kinds are boot, verify)
  line 7: steps[1].on_timeout: "continue" is not one of abort, hold
  line 7: steps[1].timeout: must be a duration such as 30m, not a number (add the unit: 30s)
  line 7: steps[1].when: "failed" is not one of passed, always
  line 8: steps[2].id: "two" is already the id of steps[1]
  line 8: steps[2].timeout: is missing
  line 10: steps[2].kind: is already set on line 9 (keep one of the two)
  line 11: steps[2].txt: unknown key (did you mean "text"?)
  line 12: steps[2].retries: is 11: must be at most 10
  line 13: steps[2].with.a: is already set on line 13 (keep one of the two)`},
		{"no steps", head + "steps: []\n", "p.yaml: line 4: steps: is empty"},
		{"version", "apiVersion: drkit/v2\nkind: Playbook\nsteps: 3\n", `p.yaml: line 1: apiVersion: "drkit/v2" is not a version that this drkit reads (it reads drkit/v1)`},
		{"kind", "apiVersion: drkit/v1\nkind: Service\n", `p.yaml: line 2: kind: "Service" is not Playbook (is this the right file?)`},
		{"tab", head + "steps:\n\t- id: x\n", "p.yaml: line 5: a tab is used for indentation (indent with spaces)"},
		{"empty", "", "p.yaml: line 1: the file is empty"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Load([]byte(c.data), "p.yaml", "verify", "boot")
			if err == nil || err.Error() != c.want {
				t.Errorf("got\n%v\nwant\n%s", err, c.want)
			}
			var all *strictyaml.Errors
			if !errors.As(err, &all) || errext.StatusOf(err) != errext.Usage {
				t.Errorf("%T, status %v", err, errext.StatusOf(err))
			}
		})
	}
}

func hash(t *testing.T, data string) string {
	t.Helper()
	p, err := Load([]byte(data), "p.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return p.Hash()
}

// TestHash: spelling does not change it, meaning does.
func TestHash(t *testing.T) {
	want := hash(t, small)
	if len(want) != 64 || strings.Trim(want, "0123456789abcdef") != "" {
		t.Fatalf("hash %q", want)
	}
	same := map[string][2]string{
		"comment":        {"steps:", "# a comment\nsteps: # and one more"},
		"quotes":         {"level: checksum", `level: "checksum"`},
		"order":          {"{level: checksum, list: [1, a]}", "{list: [1, a], level: checksum}"},
		"block style":    {"{level: checksum, list: [1, a]}", "\n      level: checksum\n      list:\n        - 1\n        - a"},
		"duration":       {"timeout: 1h30m", "timeout: 90m"},
		"written out":    {"retries: 2", "retries: 2\n    when: passed"},
		"alias":          {"{level: checksum, list: [1, a]}", "{level: &l checksum, list: [1, a]}"},
		"stated default": {"metadata: {name: small}", "metadata: {name: small}\nmode: rehearsal"},
	}
	for name, c := range same {
		if hash(t, strings.Replace(small, c[0], c[1], 1)) != want {
			t.Errorf("%s changes the hash", name)
		}
	}
	other := map[string][2]string{
		"name": {"name: small", "name: smaller"}, "id": {"id: one", "id: first"}, "kind": {"kind: verify", "kind: boot"},
		"text": {"Compares.", "Looks."}, "timeout": {"1h30m", "1h31m"}, "on_timeout": {"on_timeout: hold", "on_timeout: abort"},
		"retries": {"retries: 2", "retries: 1"}, "option": {"checksum", "content"}, "type": {"list: [1, a]", `list: ["1", a]`},
		"order of a list": {"[1, a]", "[a, 1]"}, "budget": {"90s", "91s"}, "when": {"when: always", "when: passed"},
	}
	for name, c := range other {
		if hash(t, strings.Replace(small, c[0], c[1], 1)) == want {
			t.Errorf("%s does not change the hash", name)
		}
	}
	p, err := Load([]byte(small), "p.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p.Steps[0], p.Steps[1] = p.Steps[1], p.Steps[0]
	if p.Hash() == want {
		t.Error("the order of steps does not change the hash")
	}
}

func TestMarkdown(t *testing.T) {
	p, err := Load([]byte(small), "p.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got := Markdown(p)
	golden := filepath.Join("testdata", "small.md")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s", got)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(small))
	rehearsal, err := Source("rehearsal")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(rehearsal)
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Load(data, "p.yaml")
		if err != nil {
			return
		}
		if len(p.Steps) == 0 {
			t.Error("a playbook without steps was accepted")
		}
		again, err := Load(data, "q.yaml")
		if err != nil || again.Hash() != p.Hash() || Markdown(again) != Markdown(p) {
			t.Error("the same playbook twice is not the same")
		}
	})
}
