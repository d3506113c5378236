package tui

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"drkit/drill"

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
		if s.Running() && m.progress != nil {
			lines = append(lines, m.pen.faint(m.pen.fit("  └ "+progressText(*m.progress), width)))
		}
	}
	title := fmt.Sprintf("steps: %d of %d passed", done, len(m.run.Steps))
	return section{title, len(lines), min(len(lines), 4), func(n int) []string { return m.pen.around(lines, at, n) }}
}

func (m *model) stepLine(s drill.StepState, idWidth, width int) string {
	sign, style := mark(s.Result), m.pen.styleOf(s.Result)
	if s.Running() {
		sign, style = "▸", m.pen.bold
	}
	id := pad(m.pen.fit(s.ID, idWidth), idWidth)
	return style(m.pen.fit(sign+" "+id+" "+m.stepStatus(s), width))
}

// stepStatus is a step's result where it is not plainly passed, its time, its budget.
func (m *model) stepStatus(s drill.StepState) string {
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
	took := m.stepElapsed(s)
	switch {
	case took.Measured && s.Budget > 0:
		words = append(words, brief(took.Elapsed)+" of "+limit(s.Budget))
	case took.Measured:
		words = append(words, brief(took.Elapsed))
	case s.Result == "" && s.Budget > 0:
		words = append(words, "budget "+limit(s.Budget))
	}
	if took.Measured && s.Budget > 0 && took.Elapsed > s.Budget {
		words = append(words, "over")
	}
	return strings.Join(words, " ")
}

func progressText(p drill.Progress) string {
	text := p.Task + ": " + quantity(p.Done, p.Unit)
	if p.Total > 0 {
		text += fmt.Sprintf(" of %s, %d %%", quantity(p.Total, p.Unit), int(100*float64(p.Done)/float64(p.Total)))
	}
	return text
}

// quantity writes bytes in powers of 1000, as disks and networks are sold.
func quantity(n int64, unit string) string {
	if unit != "bytes" || n < 1000 {
		return fmt.Sprintf("%d %s", n, unit)
	}
	v, i := float64(n), 0
	for ; v >= 999.95 && i < 5; i++ {
		v /= 1000
	}
	return fmt.Sprintf("%.1f %cB", v, " kMGTP"[i])
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

// traffic shows the newest window of each class.
func (m *model) traffic(width int) section {
	newest := map[string]drill.TrafficWindow{}
	for _, w := range m.run.Traffic {
		newest[w.Class] = w
	}
	var lines []string
	for _, class := range slices.Sorted(maps.Keys(newest)) {
		lines = append(lines, m.window(newest[class], width)...)
	}
	return section{"traffic, newest window", len(lines), min(len(lines), 3), m.pen.first(lines)}
}

func (m *model) window(w drill.TrafficWindow, width int) []string {
	head := fmt.Sprintf("%s (%s, %s):", m.pen.clean(w.Class), w.Phase, brief(w.To-w.From))
	counts := fmt.Sprintf("%d sent · %d failed · %d cut", w.Sent, w.Failed, w.Cut)
	lines := []string{m.pen.fit(head+" "+counts, width)}
	if lipgloss.Width(head+" "+counts) > width {
		lines = append([]string{m.pen.fit(head, width)}, m.pen.wrap("  ", counts, width, 2)...)
	}
	return append(lines, m.pen.wrap("  ", m.answers(w), width, 2)...)
}

// answers says how soon answers began, and where they came from.
func (m *model) answers(w drill.TrafficWindow) string {
	ttft := "TTFT p99 not measured"
	if w.TTFTP99 > 0 {
		ttft = "TTFT p99 " + milli(w.TTFTP99)
	}
	if promised := m.run.Plan.Objectives.TTFTP99; promised > 0 {
		ttft += " of " + limit(promised)
	}
	parts := []string{ttft}
	for _, region := range slices.Sorted(maps.Keys(w.ByRegion)) {
		parts = append(parts, fmt.Sprintf("%s %d", region, w.ByRegion[region]))
	}
	return strings.Join(parts, " · ")
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
