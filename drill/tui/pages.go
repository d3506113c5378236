package tui

import (
	"fmt"
	"slices"
	"strings"

	"drkit/drill"

	"github.com/charmbracelet/bubbles/key"
	tea "github.com/charmbracelet/bubbletea"
)

// open shows a page from its top; the same key again goes back.
func (m *model) open(p page) {
	if m.page == p {
		p = pageRun
	}
	m.page, m.scroll = p, 0
}

// turn handles the keys of an open page and reports whether it took the key.
func (m *model) turn(k tea.KeyMsg) bool {
	step := 0
	switch {
	case key.Matches(k, m.keys.back):
		m.page = pageRun
		return true
	case key.Matches(k, m.keys.up):
		step = -1
	case key.Matches(k, m.keys.down):
		step = 1
	case key.Matches(k, m.keys.pageUp):
		step = -max(m.pageRows()-1, 1)
	case key.Matches(k, m.keys.pageDown):
		step = max(m.pageRows()-1, 1)
	default:
		return false
	}
	m.scroll = max(min(m.scroll+step, len(m.pageLines(m.columns()))-m.pageRows()), 0)
	return true
}

// pageRows is how many rows of a page are seen: all but header, timer, title and
// footer.
func (m *model) pageRows() int {
	return max(m.height-len(m.header(m.columns()))-len(m.timer(m.columns()))-2, 1)
}

func (m *model) pageLines(width int) []string {
	if m.page == pageHelp {
		return m.help(width)
	}
	return m.details(width)
}

// paged is the open page in so many rows, its title included.
func (m *model) paged(width, room int) []string {
	all := m.pageLines(width)
	rows := max(room-1, 0)
	from := max(min(m.scroll, len(all)-rows), 0)
	title := map[page]string{pageDetails: "details", pageHelp: "help"}[m.page]
	if len(all) > rows {
		title += fmt.Sprintf(", lines %d to %d of %d", from+1, min(from+rows, len(all)), len(all))
	}
	return append([]string{m.pen.rule(title, width)}, all[from:min(from+rows, len(all))]...)
}

// mostLines of one text are shown on a page.
const mostLines = 20

// details is all that the run's own page has no room for.
func (m *model) details(width int) []string {
	var lines []string
	title := func(s string) { lines = append(lines, m.pen.bold(m.pen.fit(s, width))) }
	add := func(prefix, text string) {
		if text != "" {
			lines = append(lines, m.pen.wrap(prefix, text, width, mostLines)...)
		}
	}
	for _, s := range m.run.RunningSteps() {
		title("step " + s.ID)
		for _, line := range strings.Split(strings.TrimSpace(s.Text), "\n") {
			add("  ", line)
		}
	}
	if len(m.run.Gates) > 0 {
		title("gates")
	}
	for _, g := range slices.Backward(m.run.Gates) {
		style := m.pen.styleOf(g.Result)
		lines = append(lines, each(m.pen.wrap("  "+mark(g.Result)+" "+g.Result+" ", g.Step+"/"+g.ID+": "+g.Title, width, 2), style)...)
		add("      expected ", g.Expected)
		add("      observed ", g.Observed)
		add("      evidence ", g.Evidence)
		add("      next ", g.Hint)
	}
	m.recovery(title, add)
	m.persons(title, add)
	m.parts(title, add)
	if len(lines) == 0 {
		lines = append(lines, m.pen.faint("nothing yet"))
	}
	return lines
}

// recovery is the clock's segments and what is proven.
func (m *model) recovery(title func(string), add func(prefix, text string)) {
	if _, declared := m.run.Instant(drill.InstantDeclared); declared {
		title("clock")
		for _, seg := range m.run.Segments() {
			if seg.Measured {
				add("  ", segmentText(seg))
			}
		}
	}
	if must := m.run.Plan.Objectives.MustProve; len(must) > 0 {
		title("must prove")
		for _, name := range must {
			if ok, why := m.run.Proof(name); ok {
				add("  ✓ ", name+": "+why)
			} else {
				add("  ✗ ", name+" not proven yet: "+why)
			}
		}
	}
}

// persons is who was asked, who approved, and who was told.
func (m *model) persons(title func(string), add func(prefix, text string)) {
	r := m.run
	if len(r.Asked)+len(r.Approvals)+len(r.Notified) > 0 {
		title("people")
	}
	for _, a := range r.Asked {
		if took := a.Waited(); a.By != "" && took.Measured {
			add("  ✓ ", fmt.Sprintf("%s: %s, said %s by %s after %s", a.Step, a.Who, a.By, a.Via, brief(took.Elapsed)))
		} else {
			add("  • ", fmt.Sprintf("%s: %s is asked", a.Step, a.Who))
		}
	}
	for _, a := range r.Approvals {
		switch {
		case a.Why != "":
			add("  ✗ ", "approval of "+a.Approver+" counts nothing: "+a.Why)
		case a.Self:
			add("  ✓ ", "approved by "+a.Approver+", the operator's own: "+a.Method)
		default:
			add("  ✓ ", "approved by "+a.Approver+": "+a.Method)
		}
	}
	for _, n := range r.Notified {
		if n.Delivered {
			add("  ✓ ", n.To+" was told: "+n.Text)
		} else {
			add("  ✗ ", n.To+" was not told ("+n.Why+"): "+n.Text)
		}
	}
}

// parts is who took part, what was changed, and what the run does not claim.
func (m *model) parts(title func(string), add func(prefix, text string)) {
	if len(m.run.Components) > 0 {
		title("parts")
		for _, c := range m.run.Components {
			text := strings.TrimSpace(c.Name + ": " + c.Kind + " " + c.Version)
			if c.Substitute {
				text += " (drkit's own)"
			}
			add("  ", text)
		}
	}
	if len(m.run.Changes) > 0 {
		title("changes, newest first")
		for _, c := range slices.Backward(m.run.Changes) {
			add("  ", c.What+": "+changeState(c))
		}
	}
	if len(m.run.Notes) > 0 {
		title("notes")
		for _, n := range m.run.Notes {
			add("  ", n)
		}
	}
}

func changeState(c drill.ChangeState) string {
	switch {
	case c.Later != nil:
		return c.Later.String()
	case c.Undone:
		return "taken back"
	case c.UndoError != "":
		return "NOT proven to be taken back: " + c.UndoError
	case c.Kept != "":
		return "stays: " + c.Kept
	case c.Error != "":
		return "failed: " + c.Error
	case c.Done:
		return "in place"
	}
	return "under way"
}

// help lists the keys and what the signs mean.
func (m *model) help(width int) []string {
	var lines []string
	title := func(s string) { lines = append(lines, m.pen.bold(m.pen.fit(s, width))) }
	add := func(sign, text string) { lines = append(lines, m.pen.wrap("  "+pad(sign, 10), text, width, 4)...) }
	title("keys")
	for _, k := range []struct{ key, does string }{
		{"g", "go ahead: approve the plan, or confirm what a step asks a person for; asks first"},
		{"a, ctrl+c", "abort: end the run and take back all that it changed; asks first"},
		{"ctrl+c", "while it is being taken back: leave the rest for drkit drill abort; asks first"},
		{"p", "pause before the next step: nothing is taken back, the clock goes on, drkit drill resume goes on; asks first"},
		{"d", "details: the text of the step under way, each gate with its evidence, proofs, changes, notes"},
		{"l", "log on or off"},
		{"ctrl+z", "suspend: back to the shell until fg. A drill that runs stands still meanwhile, and its clock goes on; asks first"},
		{"q", "leave the screen, when that loses nothing"},
	} {
		add(k.key, k.does)
	}
	title("the clock")
	for _, k := range []struct{ word, means string }{
		{"on track", "the projected finish is within the objective"},
		{"at risk", "it is later, a step takes longer than is known of it, or a gate is red"},
		{"missed", "the objective has passed"},
		{"in time", "steady was reached within the objective"},
		{"not known", "there is no projection: the third line says why"},
	} {
		add(k.word, k.means)
	}
	title("signs")
	for _, k := range []struct{ sign, means string }{
		{"✓ ✗ ? -", "passed, failed, not measured, left out or not reached"},
		{"▸ •", "under way, still to come"},
		{"slack", "what is left of a step's budget; over: by how much it is overrun"},
		{"phase", "of each window of traffic: b baseline, c cutover, s steady or soak, a the probes are asked again, f failback"},
		{"errors", "failed requests and cut streams of each window: · none, 1 to 9, # more"},
		{"TTFT", "time to first token, p99: half high is the objective. ? no answer"},
		{"hit rate", "prompt tokens from the engine's cache, full height is all of them. ? not said"},
	} {
		add(k.sign, k.means)
	}
	return lines
}
