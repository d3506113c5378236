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
var kinds = []string{"preflight", "restore", "boot", "traffic", "declare", "verify", "behaviour", "cutover", "steady", "failback", "cleanup",
	"approve", "human", "run", "http", "wait", "notify", "soak", "cache-warm"}

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
		"restore=restore", "boot=boot", "behaviour=behaviour", "cutover=cutover", "steady=steady", "served-behaviour=behaviour", "failback=failback", "cleanup=cleanup",
	}
	if !slices.Equal(got, want) {
		t.Errorf("steps %q", got)
	}
	if p.Name != "rehearsal" || p.Mode != Rehearsal || p.Title == "" {
		t.Errorf("header %+v", p)
	}
	if sum, judged := p.Budget(); !judged || sum > 30*time.Minute {
		t.Errorf("budgets add up to %s (judged %v): more than the default objective", sum, judged)
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

// TestBuiltinsOfEveryMode: what the design asks of each of them.
func TestBuiltinsOfEveryMode(t *testing.T) {
	order := map[string][]string{
		"emergency": {"preflight", "declare", "approve", "verify", "restore", "boot", "behaviour", "cutover", "steady", "soak"},
		"planned":   {"approve", "preflight", "traffic", "declare", "verify", "restore", "boot", "behaviour", "cutover", "steady", "soak"},
		"failback":  {"approve", "preflight", "declare", "verify", "restore", "boot", "failback", "steady"},
	}
	modes := map[string]string{"rehearsal": Rehearsal, "emergency": Emergency, "planned": Planned, "failback": Failback, "tabletop": Tabletop}
	for name, mode := range modes {
		p, err := Builtin(name, kinds...)
		if err != nil {
			t.Fatal(err)
		}
		if p.Name != name || p.Mode != mode || p.Title == "" {
			t.Errorf("%s: name %q, mode %q, title %q", name, p.Name, p.Mode, p.Title)
		}
		left := order[name]
		for _, s := range p.Steps {
			if len(left) > 0 && s.Kind == left[0] {
				left = left[1:]
			}
			if s.Kind != "declare" && !strings.Contains(s.Text, "When it is red:") {
				t.Errorf("%s: %s does not say what to do when it is red", name, s.ID)
			}
			if people := s.Kind == "human" || s.Kind == "approve"; people != (s.Who != "") || people && s.OnTimeout != Hold {
				t.Errorf("%s: %s is of %q, on time-out %s", name, s.ID, s.Who, s.OnTimeout)
			}
		}
		if len(left) > 0 {
			t.Errorf("%s: no %s in its place", name, left[0])
		}
	}
	// The clock runs from its declaration: what is promised for a recovery comes after it.
	for _, name := range []string{"emergency", "planned", "failback"} {
		p, _ := Builtin(name)
		declared := slices.IndexFunc(p.Steps, func(s Step) bool { return s.Kind == "declare" })
		for i, s := range p.Steps {
			if moves := s.Kind == "cutover" || s.Kind == "restore" || s.Kind == "boot"; moves && i < declared {
				t.Errorf("%s: %s comes before the clock", name, s.ID)
			}
		}
	}
	never := map[string][]string{
		"emergency": {"failback", "cleanup"}, "planned": {"failback"}, "rehearsal": {"approve", "human"},
		"tabletop": {"preflight", "verify", "restore", "boot", "behaviour", "traffic", "cutover", "steady", "failback", "cleanup", "run", "declare"},
	}
	for name, list := range never {
		p, _ := Builtin(name)
		for _, s := range p.Steps {
			if slices.Contains(list, s.Kind) {
				t.Errorf("%s has a step of kind %s", name, s.Kind)
			}
		}
	}
	// Only the playbooks of the live modes touch production's routers.
	for name, mode := range modes {
		p, _ := Builtin(name)
		for _, s := range p.Steps {
			var with struct {
				Router  string `yaml:"router"`
				Region  string `yaml:"region"`
				Level   string `yaml:"level"`
				Require string `yaml:"require"`
				Engines string `yaml:"engines"`
			}
			if err := s.Decode(&with); err != nil {
				t.Error(err)
			}
			live := mode != Rehearsal && slices.Contains([]string{"traffic", "cutover", "steady", "failback"}, s.Kind)
			if (with.Router == "production") != live || with.Router != "" && !live {
				t.Errorf("%s: %s has router %q", name, s.ID, with.Router)
			}
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
			var with struct {
				Engines string `yaml:"engines"`
			}
			if err := s.Decode(&with); err != nil || (with.Engines != "") != (s.ID == "served-behaviour") {
				t.Errorf("%+v %v", with, err)
			}
		}
	}
	want := map[string]string{"restore-source": "source", "source": "source", "restore": "target", "boot": "target"}
	if !reflect.DeepEqual(regions, want) {
		t.Errorf("regions %v", regions)
	}
}

func TestNames(t *testing.T) {
	if !slices.Equal(Names(), []string{"emergency", "failback", "planned", "rehearsal", "tabletop"}) {
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

// TestLoadChecked: what a kind finds is told with its line, beside all other errors.
func TestLoadChecked(t *testing.T) {
	data := strings.Replace(small, "retries: 2", "retries: 20", 1)
	_, err := LoadChecked([]byte(data), "s.yaml", func(s Step) error {
		var with struct {
			Level string `yaml:"level"`
		}
		if s.ID == "one" {
			return errors.Join(s.Decode(&with), s.Fault("with.list", "is not for today", "come back"), s.Fault("who", "is missing", ""))
		}
		return s.Fault("", "is not wanted", "")
	}, kinds...)
	want := `s.yaml: 5 errors
  line 5: steps[0].who: is missing
  line 10: steps[0].retries: is 20: must be at most 10
  line 11: steps[0].with.list: unknown key
  line 11: steps[0].with.list: is not for today (come back)
  line 12: steps[1]: is not wanted`
	if err == nil || err.Error() != want || errext.StatusOf(err) != errext.Usage {
		t.Errorf("got %v", err)
	}
	made := Step{ID: "made", Line: 3}
	if err := made.Fault("with.x", "is odd", ""); err.Error() != "playbook: line 3: made.with.x: is odd" {
		t.Errorf("a step made in code: %v", err)
	}
}

func TestBudget(t *testing.T) {
	p := Playbook{Mode: Planned, Steps: []Step{
		{Budget: time.Minute}, {Budget: 2 * time.Minute, Group: "a"}, {Budget: 5 * time.Minute, Group: "a"},
		{Budget: time.Hour, Modes: []string{Emergency}}, {Budget: 3 * time.Minute, Modes: []string{Emergency, Planned}},
	}}
	if got, judged := p.Budget(); got != 9*time.Minute || judged { // 1 + the longer of 2 and 5 + 3
		t.Errorf("budget %s, judged %v", got, judged)
	}
	// A group of one name that was left and begun anew is two.
	p = Playbook{Mode: Planned, Steps: []Step{{Budget: 2 * time.Minute, Group: "a"}, {Budget: time.Minute}, {Budget: 3 * time.Minute, Group: "a"}}}
	if got, _ := p.Budget(); got != 6*time.Minute {
		t.Errorf("budget %s", got)
	}
}

// TestBudgetsOfBuiltins: by hand, from each playbook's own lines. What comes before the
// declaration and after steady is not in the judged time, and of a group the longest is.
func TestBudgetsOfBuiltins(t *testing.T) {
	for name, want := range map[string]time.Duration{
		"rehearsal": 16 * time.Minute, // verify 3, restore 4, boot 5, behaviour 2, cutover 1, steady 1
		"emergency": 17 * time.Minute, // approve 3, copy 4 (4 and 4), boot 5, behaviour 2, traffic 1, cutover 1, steady 1
		"planned":   13 * time.Minute, // copy 4 (4 and 4), boot 5, behaviour 2, cutover 1, steady 1
		"failback":  18 * time.Minute, // copy 4 (4 and 4), boot 5, failback 8, steady 1
		"tabletop":  70 * time.Minute, // no clock: 5 5 10 10 10 5 5 5 5 10
	} {
		p, err := Builtin(name)
		if err != nil {
			t.Fatal(err)
		}
		if got, judged := p.Budget(); got != want || judged != (name != "tabletop") {
			t.Errorf("%s: %s (judged %v), want %s", name, got, judged, want)
		}
	}
}

// TestServingIsAskedAfterSteady: each playbook that moves traffic asks once more what
// took over, with the clock over and before anything goes back or is handed over.
func TestServingIsAskedAfterSteady(t *testing.T) {
	for _, name := range []string{"rehearsal", "emergency", "planned", "failback"} {
		p, _ := Builtin(name)
		at := slices.IndexFunc(p.Steps, func(s Step) bool { return s.Kind == "steady" })
		var with struct {
			Engines string `yaml:"engines"`
		}
		if s := p.Steps[at+1]; s.Kind != "behaviour" || s.Decode(&with) != nil || with.Engines != "serving" {
			t.Errorf("%s: after steady comes %s", name, s.ID)
		}
	}
}

func TestLoadErrors(t *testing.T) {
	head := "apiVersion: drkit/v1\nkind: Playbook\nmetadata: {name: x}\n"
	for _, c := range []struct{ name, data, want string }{
		{"all at once", head + `mode: real
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
  line 4: mode: "real" is not one of rehearsal, planned, emergency, failback, tabletop
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
		{"groups and modes", head + `mode: planned
steps:
  - {id: a, kind: boot, text: x, timeout: 5m, group: copy}
  - {id: b, kind: boot, text: x, timeout: 5m, group: Two}
  - {id: c, kind: boot, text: x, timeout: 5m, group: copy, modes: [emergency, emergency]}
  - {id: d, kind: boot, text: x, timeout: 5m, group: pair, modes: [rehearsal, live]}
  - {id: e, kind: boot, text: x, timeout: 5m, group: pair, when: always, modes: []}
  - {id: f, kind: boot, text: x, timeout: 5m, group: "", who: " "}
`, `p.yaml: 9 errors
  line 7: steps[1].group: "Two" is not the name of a group (use lower case letters, digits and dashes, at most 63)
  line 7: steps[1].group: is the only step of group "Two" (a group has two steps or more: is the name misspelt?)
  line 8: steps[2].group: group "copy" was left after steps[0] (steps that run in parallel follow each other)
  line 8: steps[2].modes[1]: "emergency" is already in the list
  line 9: steps[3].modes[1]: "live" is not one of rehearsal, planned, emergency, failback, tabletop
  line 10: steps[4].group: the steps of group "pair" do not agree on when they run (give all of them the same when)
  line 10: steps[4].modes: is empty (leave the key out for a step of every mode)
  line 11: steps[5].group: is empty
  line 11: steps[5].who: is empty`},
		{"no step left", head + `mode: planned
steps:
  - {id: a, kind: boot, text: x, timeout: 5m, modes: [emergency]}
`, `p.yaml: line 5: steps: no step is of the playbook's mode planned (add the mode to the steps' modes, or leave modes out)`},
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
		"mode": {"steps:", "mode: planned\nsteps:"}, "modes": {"retries: 2", "retries: 2\n    modes: [rehearsal]"},
		"other modes": {"retries: 2", "retries: 2\n    modes: [rehearsal, planned]"}, "who": {"retries: 2", "retries: 2\n    who: on call"},
		"order of a list": {"[1, a]", "[a, 1]"}, "budget": {"90s", "91s"}, "when": {"when: always", "when: passed"},
	}
	for name, c := range other {
		if hash(t, strings.Replace(small, c[0], c[1], 1)) == want {
			t.Errorf("%s does not change the hash", name)
		}
	}
	paired := strings.NewReplacer("retries: 2", "retries: 2\n    when: always\n    group: g", "text: Removes.", "text: Removes., group: g").Replace(small)
	if hash(t, paired) == hash(t, strings.ReplaceAll(paired, "group: g", "group: h")) {
		t.Error("group does not change the hash")
	}
	modes := func(list string) string { return strings.Replace(small, "retries: 2", "modes: "+list, 1) }
	if hash(t, modes("[planned, rehearsal]")) != hash(t, modes("[rehearsal, planned]")) {
		t.Error("the order of modes changes the hash")
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

// TestMarkdownDetails: who acts, what runs beside, and in which modes.
func TestMarkdownDetails(t *testing.T) {
	p, err := Load([]byte(`apiVersion: drkit/v1
kind: Playbook
metadata: {name: x, title: The whole}
mode: planned
steps:
  - {id: a, kind: verify, text: A., timeout: 1m, group: g, budget: 30s}
  - {id: b, kind: restore, text: B., timeout: 1m, group: g, budget: 40s}
  - {id: c, kind: human, text: C., timeout: 1m, who: the boss, modes: [planned, emergency]}
`), "x.yaml")
	if err != nil {
		t.Fatal(err)
	}
	page := Markdown(p)
	for _, want := range []string{
		"# The whole\n\nPlaybook `x`, mode planned, 3 steps, budgets 40s in all.",
		"| 3 | [c](#c) | human | the boss | – | 1m |",
		"Kind `restore`, budget 40s. After 1m the run undoes what it did and ends; runs in parallel with a.",
		"Of the boss, kind `human`. After 1m the run undoes what it did and ends; only in mode planned, emergency.",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("does not say %q:\n%s", want, page)
		}
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
