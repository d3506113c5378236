package playbooks

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const three = `apiVersion: drkit/v1
kind: Playbook
metadata: {name: three}
steps:
  - {id: one, kind: verify, text: "Compares the copy.\n\nWhen it is red: call.", timeout: 1m}
  - {id: two, kind: boot, text: "Boots it:\n\n` + "```" + `\n# vllm serve\n` + "```" + `", timeout: 1m}
  - {id: three, kind: cleanup, text: Removes it., timeout: 1m}
`

// runbook is written by hand: both kinds of marks, own passages between them,
// lines broken elsewhere, marks in a code block.
const runbook = `# If the region is gone

Call the on-call first. {#contacts}

<!-- drkit:step one -->
Compares
the copy.

When it is red:   call.
<!-- drkit:end -->

Our copy lies in eu-west-1.

## Boot it {#step-two}

Boots it:

` + "```" + `
# vllm serve
` + "```" + `

## Our numbers

` + "~~~" + `
<!-- drkit:step nine -->
` + "~~~" + `

  <!--drkit:step three-->
Removes it.
<!-- drkit:end -->
`

func TestCheckRunbook(t *testing.T) {
	p, err := Load([]byte(three), "three.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if got := CheckRunbook(p, []byte(runbook)); len(got) > 0 {
		t.Errorf("the runbook says what the playbook does: %v", got)
	}
	if got := CheckRunbook(p, []byte(strings.ReplaceAll(runbook, "\n", "\r\n"))); len(got) > 0 {
		t.Errorf("with Windows' line ends: %v", got)
	}
	passage := func(id, text string) string { return begins(id) + "\n" + text + "\n" + ends + "\n" }
	one, three := passage("one", "Compares the copy. When it is red: call."), passage("three", "Removes it.")
	two := passage("two", "Boots it:\n```\n# vllm serve\n```")
	for _, c := range []struct {
		name, runbook string
		want          []string
	}{
		{"missing", one + three, []string{"step two: is missing from the runbook: <!-- drkit:step two --> marks it"}},
		{"all missing", "# A page about something else\n", []string{"step one: is missing", "step two: is missing", "step three: is missing"}},
		{"too many", one + two + passage("four", "Flies.") + three, []string{"line 10: step four: is not in the playbook"}},
		{"too many headings", one + two + three + "## Fly {#step-fly}\nFlies.\n", []string{"line 13: step fly: is not in the playbook"}},
		{"twice", one + two + three + one, []string{"line 13: step one: is already on line 1"}},
		{"other order", two + one + three, []string{"line 1: step two: stands where the playbook has one"}},
		{"other text", strings.Replace(runbook, "the copy.", "a copy.", 1), []string{`line 5: step one: its text differs from word 2 on: the runbook says "a copy. When it is red: …", the playbook "the copy. When it is red: …"`}},
		{"other text in a code block", strings.Replace(runbook, "# vllm serve", "# sglang serve", 1), []string{`line 14: step two: its text differs from word 5 on: the runbook says "sglang serve`}},
		{"text left out", one + two + passage("three", ""), []string{`line 10: step three: its text differs from word 1 on: the runbook says no more, the playbook "Removes it."`}},
		{"text added", one + two + passage("three", "Removes it. All."), []string{`line 10: step three: its text differs from word 3 on: the runbook says "All.", the playbook no more`}},
		{"no end", one + two + begins("three") + "\nRemoves it.\n", []string{"line 10: step three: has no end"}},
		{"no end before the next", strings.Replace(one, ends, "", 1) + two + three, []string{"line 1: step one: has no end"}},
		{"end alone", one + ends + "\n" + two + three, []string{"line 4: step ?: an end without a beginning"}},
		{"a mark with a word too many", one + two + three + "<!-- drkit:step four five -->\n", []string{"line 13: step ?: a mark that cannot be read"}},
		{"a mark inside a line", one + two + "see <!-- drkit:step three --> here\n", []string{"a mark that cannot be read", "step three: is missing"}},
		{"a code block that does not end", one + "```\n" + two + three, []string{"step two: is missing", "step three: is missing"}},
		{"the empty page", "", []string{"step one: is missing", "step two: is missing", "step three: is missing"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, d := range CheckRunbook(p, []byte(c.runbook)) {
				got = append(got, d.String())
			}
			for _, w := range c.want {
				if !slices.ContainsFunc(got, func(g string) bool { return strings.Contains(g, w) }) {
					t.Errorf("does not say %q", w)
				}
			}
			if len(got) != len(c.want) {
				t.Errorf("got %q", got)
			}
		})
	}
}

// TestShownPlaybooksAreRunbooks: what show prints is a runbook of its playbook, and
// of no other.
func TestShownPlaybooksAreRunbooks(t *testing.T) {
	rehearsal, err := Builtin("rehearsal")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Names() {
		p, err := Builtin(name)
		if err != nil {
			t.Fatal(err)
		}
		page := Markdown(p)
		if got := CheckRunbook(p, []byte(page)); len(got) > 0 {
			t.Errorf("%s: %v", name, got)
		}
		if name != "rehearsal" && len(CheckRunbook(rehearsal, []byte(page))) == 0 {
			t.Errorf("%s passes for a runbook of the rehearsal", name)
		}
		for i := range p.Steps { // each step's text counts
			p.Steps[i].Text += " More."
			if len(CheckRunbook(p, []byte(page))) != 1 {
				t.Errorf("%s: a change of %s is not seen", name, p.Steps[i].ID)
			}
			p.Steps[i].Text = strings.TrimSuffix(p.Steps[i].Text, " More.")
		}
	}
}

// TestPagesOfTheDocuments: the built-in playbooks can be read without drkit.
func TestPagesOfTheDocuments(t *testing.T) {
	for _, name := range Names() {
		p, err := Builtin(name)
		if err != nil {
			t.Fatal(err)
		}
		golden, page := filepath.Join("..", "docs", "playbooks", name+".md"), Markdown(p)
		if *update {
			if err := os.WriteFile(golden, []byte(page), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(golden); err != nil || string(want) != page {
			t.Errorf("docs/playbooks/%s.md is not what the playbook says (%v): go test ./playbooks -update writes it", name, err)
		}
	}
}

func FuzzCheckRunbook(f *testing.F) {
	f.Add([]byte(runbook))
	p, err := Load([]byte(three), "three.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		drifts := CheckRunbook(p, data)
		if len(drifts) == 0 && strings.Count(string(data), "step") < len(p.Steps) {
			t.Error("a page without its steps passes")
		}
	})
}
