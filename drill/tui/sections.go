package tui

import (
	"fmt"
	"slices"
	"strings"

	"drkit/drill"
	"drkit/drill/forecast"

	"github.com/charmbracelet/lipgloss"
)

// steps lists the plan with the present step in view.
func (m *model) steps(width int) section {
	var lines []string
	at, longest, done := 0, 0, 0
	for _, s := range m.run.Steps {
		longest = max(longest, lipgloss.Width(m.pen.clean(s.ID)))
	}
	for _, s := range m.run.Steps {
		if s.Running() || s.Result != "" {
			at = len(lines)
		}
		if s.Result == drill.Passed {
			done++
		}
		lines = append(lines, m.stepLine(s, min(longest, width/2), width))
		if s.Running() {
			lines = append(lines, m.tasks(s, width)...)
		}
	}
	title := fmt.Sprintf("steps: %d of %d passed", done, len(m.run.Steps))
	return section{title, len(lines), min(len(lines), 4), func(n int) []string { return m.pen.around(lines, at, n) }}
}

func (m *model) stepLine(s drill.StepState, idWidth, width int) string {
	sign, style := mark(s.Result), m.pen.styleOf(s.Result)
	took := m.stepElapsed(s)
	switch {
	case s.Running() && took.Measured && s.Budget > 0 && took.Elapsed > s.Budget:
		sign, style = "▸", m.pen.warn
	case s.Running():
		sign, style = "▸", m.pen.bold
	}
	id := pad(m.pen.fit(s.ID, idWidth), idWidth)
	line := sign + " " + id + " " + stepStatus(s, took)
	if slack := stepSlack(s, took); slack != "" && lipgloss.Width(line)+1+lipgloss.Width(slack) <= width {
		line += " " + slack
	}
	return style(m.pen.fit(line, width))
}

// stepStatus is a step's result where it is not plainly passed, by how much it is
// over its budget, its time and its budget.
func stepStatus(s drill.StepState, took drill.Span) string {
	var words []string
	switch {
	case s.Running() && s.Attempts > 1:
		words = append(words, fmt.Sprintf("attempt %d", s.Attempts))
	case s.Running() || s.Result == drill.Passed:
	case s.Result == drill.NotReached:
		words = append(words, "not reached")
	case s.Result != "":
		words = append(words, s.Result)
	}
	switch {
	case took.Measured && s.Budget > 0:
		words = append(words, brief(took.Elapsed)+" of "+limit(s.Budget))
	case took.Measured:
		words = append(words, brief(took.Elapsed))
	case s.Result == "" && s.Budget > 0:
		words = append(words, "budget "+limit(s.Budget))
	}
	if took.Measured && s.Budget > 0 && took.Elapsed > s.Budget {
		words = append(words, "over "+brief(took.Elapsed-s.Budget))
	}
	return strings.Join(words, " ")
}

// stepSlack is what is left of a step's budget, "" where nothing is.
func stepSlack(s drill.StepState, took drill.Span) string {
	if !took.Measured || s.Budget <= 0 || took.Elapsed > s.Budget {
		return ""
	}
	return "slack " + brief(s.Budget-took.Elapsed)
}

// tasks are what a running step has not done yet: how much, how fast, how long.
func (m *model) tasks(s drill.StepState, width int) []string {
	var lines []string
	for _, p := range m.run.Progress {
		if p.Step != s.ID || p.Attempt != s.Attempts || p.Total > 0 && p.Done >= p.Total {
			continue
		}
		texts := forecast.Task(p)
		fits := slices.IndexFunc(texts, func(t string) bool { return lipgloss.Width(m.pen.clean(t))+4 <= width })
		if fits < 0 {
			fits = len(texts) - 1
		}
		lines = append(lines, m.pen.faint(m.pen.fit("  └ "+texts[fits], width)))
	}
	return lines
}

// around returns n of the lines with line at in view, and says what is left out.
func (p *pen) around(lines []string, at, n int) []string {
	if len(lines) <= n || n < 1 {
		return lines[:min(len(lines), max(n, 0))]
	}
	from := min(max(at-n/2, 0), len(lines)-n)
	shown := slices.Clone(lines[from : from+n])
	if n < 4 {
		return shown
	}
	if from > 0 {
		shown[0] = p.faint(fmt.Sprintf("  … %d above", from+1))
	}
	if below := len(lines) - from - n; below > 0 {
		shown[n-1] = p.faint(fmt.Sprintf("  … %d below", below+1))
	}
	return shown
}

// gates lists the judged conditions: what is red first and in full, then what
// was not measured, then the newest that passed.
func (m *model) gates(width int) section {
	all := slices.Clone(m.run.Gates)
	slices.Reverse(all)
	slices.SortStableFunc(all, func(a, b drill.GateState) int { return rank(a.Result) - rank(b.Result) })
	var lines []string
	count := map[string]int{}
	least := 0
	for i, g := range all {
		count[g.Result]++
		lines = append(lines, m.gate(g, width)...)
		if i == 0 {
			least = len(lines)
		}
	}
	return section{"gates: " + tally(count), len(lines), least, m.pen.first(lines)}
}

// red says that a gate failed.
func (m *model) red() bool {
	return slices.ContainsFunc(m.run.Gates, func(g drill.GateState) bool { return g.Result == drill.Failed })
}

func rank(result string) int {
	switch result {
	case drill.Failed:
		return 0
	case drill.Passed:
		return 2
	}
	return 1
}

func (m *model) gate(g drill.GateState, width int) []string {
	style := m.pen.styleOf(g.Result)
	name := m.pen.clean(g.ID)
	if g.Result == drill.Passed {
		return []string{style(m.pen.fit("✓ passed "+name+": "+m.pen.clean(g.Observed), width))}
	}
	lines := []string{style(m.pen.fit(fmt.Sprintf("%s %s %s: %s", mark(g.Result), g.Result, name, m.pen.clean(g.Title)), width))}
	lines = append(lines, m.pen.wrap("  expected ", g.Expected, width, 2)...)
	lines = append(lines, m.pen.wrap("  observed ", g.Observed, width, 3)...)
	if g.Hint != "" {
		lines = append(lines, m.pen.wrap("  next: ", g.Hint, width, 2)...)
	}
	return lines
}

// tally counts results in words: "3 passed, 1 failed".
func tally(count map[string]int) string {
	var parts []string
	for _, r := range []string{drill.Failed, drill.Unmeasured, drill.Skipped, drill.NotReached, drill.Passed} {
		if count[r] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count[r], r))
		}
	}
	return strings.Join(parts, ", ")
}

// first returns a section's drawing: the first n lines, and how many are left out.
func (p *pen) first(lines []string) func(n int) []string {
	return func(n int) []string {
		if n < 2 || len(lines) <= n {
			return lines[:min(max(n, 0), len(lines))]
		}
		return append(slices.Clone(lines[:n-1]), p.faint(fmt.Sprintf("  … %d more lines", len(lines)-n+1)))
	}
}

// boot lists the phases of the newest engine's boot, gaps included.
func (m *model) boot(width int) section {
	var lines []string
	replica := ""
	for _, p := range m.run.Phases {
		if p.Replica != replica {
			replica, lines = p.Replica, nil
		}
		name := p.Name
		if p.Gap {
			name = "gap: no line of the log explains it"
		}
		lines = append(lines, m.pen.fit(fmt.Sprintf("%7s %s", brief(p.Length), m.pen.clean(name)), width))
	}
	return section{"boot of " + m.pen.clean(replica), len(lines), min(len(lines), 2), func(n int) []string { return lines[len(lines)-min(n, len(lines)):] }}
}

// log is the tail of what engines and routers said.
func (m *model) log(width int) section {
	logs := m.run.Logs
	want := max(len(logs), 1)
	return section{"log", want, min(want, 2), func(n int) []string {
		if len(logs) == 0 {
			return []string{m.pen.faint("nothing yet")}
		}
		var lines []string
		for _, l := range logs[len(logs)-min(n, len(logs)):] {
			lines = append(lines, m.pen.faint(m.pen.fit(l.From+" │ "+l.Line, width)))
		}
		return lines
	}}
}
