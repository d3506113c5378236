package tui

import (
	"fmt"
	"slices"
	"strings"

	"drkit/drill"
)

// verdictLine says how a run ended, with a mark that only a recovery gets.
func verdictLine(r *drill.Run) (text string, good bool) {
	f := r.Finished
	sign, word := "✗", strings.ReplaceAll(f.Verdict, "-", " ")
	if good = f.Verdict == drill.Recovered && f.Status == 0; good {
		sign = "✓"
	}
	text = sign + " " + strings.ToUpper(word)
	if r.Plan.Demo {
		text += " (demonstration)"
	}
	text += fmt.Sprintf(" · exit status %d", f.Status)
	return text, good
}

// verdictRows of the verdict come before anything else is shown.
const verdictRows = 10

// verdict is the end: the verdict, what was proven, each reason with its hint.
func (m *model) verdict(width int) section {
	f := m.run.Finished
	if f == nil {
		return section{}
	}
	if m.sealing() {
		text := "… the run has ended (" + f.Verdict + "): its evidence is being written, and the ledger closed"
		lines := m.pen.wrap("", text, width, 3)
		return section{"verdict", len(lines), len(lines), m.pen.first(lines)}
	}
	head, good := verdictLine(m.run)
	style := m.pen.bad
	if good {
		style = m.pen.good
	}
	lines := append(each(m.pen.wrap("", head, width, 2), style), m.pen.wrap("proves: ", proves(m.run), width, 3)...)
	for _, x := range m.run.Told() {
		lines = append(lines, m.pen.wrap("✗ ", x.What, width, 4)...)
		if x.Hint != "" {
			lines = append(lines, m.pen.wrap("  next: ", x.Hint, width, 3)...)
		}
	}
	return section{"verdict", len(lines), min(len(lines), verdictRows), m.pen.first(lines)}
}

// proves lists what had to be proven, with a mark and a word each.
func proves(r *drill.Run) string {
	var parts []string
	for _, name := range r.Plan.Objectives.MustProve {
		if ok, _ := r.Proof(name); ok {
			parts = append(parts, "✓ "+name)
		} else {
			parts = append(parts, "✗ "+name+" not proven")
		}
	}
	if len(parts) == 0 {
		return "nothing was asked for"
	}
	return strings.Join(parts, ", ")
}

// trouble is what went wrong before there is a verdict: problems that refuse the
// run, failed steps, changes that could not be taken back, the screen's own end.
func (m *model) trouble(width int) section {
	var lines []string
	add := func(what, hint string) {
		lines = append(lines, each(m.pen.wrap("✗ ", what, width, 4), m.pen.bad)...)
		if hint != "" {
			lines = append(lines, m.pen.wrap("  next: ", hint, width, 3)...)
		}
	}
	if m.broken != nil {
		add("the screen stopped: "+m.broken.Error(), m.brokenHint())
	}
	if m.run.Finished == nil {
		m.troubles(add)
	}
	return section{"trouble", len(lines), min(len(lines), 7), m.pen.first(lines)}
}

func (m *model) brokenHint() string {
	if m.live {
		return "the drill goes on; its journal holds everything"
	}
	return "the journal is damaged or was changed: do not use it as evidence"
}

func (m *model) troubles(add func(what, hint string)) {
	for _, p := range m.run.Problems {
		what := p.What
		if p.Step != "" {
			what = p.Step + ": " + what
		}
		add(what, p.Hint)
	}
	for _, s := range m.run.Steps {
		if s.Result == drill.Failed && !m.gateSays(s.ID) {
			add("step "+s.ID+" failed: "+s.Error, s.Hint)
		}
	}
	for _, c := range m.run.Changes {
		if c.UndoError != "" {
			add(fmt.Sprintf("%q is not proven to be taken back: %s", c.What, c.UndoError), "")
		}
	}
}

// gateSays says that a red gate of the step tells why it failed.
func (m *model) gateSays(step string) bool {
	return slices.ContainsFunc(m.run.Gates, func(g drill.GateState) bool { return g.Step == step && g.Result == drill.Failed })
}
