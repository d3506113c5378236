package tui

import (
	"strings"

	"drkit/drill"

	"github.com/charmbracelet/lipgloss"
)

// Sizes that the layout turns on, in columns and rows.
const (
	maxWidth    = 200 // wider screens stay empty on the right
	twoColumns  = 76  // from here on steps stand beside the rest
	bigFrom     = 34  // rows, for the timer in five rows
	mediumFrom  = 16  // rows, for the timer in three rows
	mediumWidth = 52  // columns, for the timer in three rows and words beside it
	logFrom     = 14  // rows, for the log
	stepsColumn = 38
	wideFrom    = 100 // columns, for a wider column of steps
	stepsAtWide = 46
	threeFrom   = 150 // columns, for three of them: traffic and boot beside the gates
)

// View draws the frame: never more rows or columns than the terminal has.
func (m *model) View() string {
	width := m.columns()
	if width < 1 || m.height < 1 {
		return ""
	}
	lines := append(m.header(width), m.timer(width)...)
	if room := m.height - len(lines) - 1; room > 0 {
		lines = append(lines, m.body(width, room)...)
	}
	if len(lines) >= m.height {
		lines = lines[:m.height-1]
	}
	lines = append(lines, m.footer(width))
	for i, line := range lines {
		lines[i] = clip(strings.TrimRight(line, " "), width)
	}
	return strings.Join(lines, "\n")
}

// columns is how wide frames are.
func (m *model) columns() int { return min(m.width, maxWidth) }

// clip cuts a styled line; only on screens too narrow for fixed words.
func clip(line string, width int) string {
	if lipgloss.Width(line) <= width {
		return line
	}
	return unstyled.MaxWidth(width).Render(line)
}

// body shares the rows between timer and footer: steps beside the rest where
// there is room for columns, the log beneath them; or the open page.
func (m *model) body(width, room int) []string {
	if m.page != pageRun {
		return m.paged(width, room)
	}
	logRoom := 0
	if m.showLog && m.logFits() {
		logRoom = max(room/4, 3)
	}
	upper := room - logRoom
	lines := m.sections(width, upper)
	lines = append(lines, make([]string, max(upper-len(lines), 0))...)
	if logRoom > 0 {
		lines = append(lines, stack(m.pen, width, logRoom, m.log)...)
	}
	return lines
}

func (m *model) sections(width, rows int) []string {
	left := stepsColumn
	if width >= wideFrom {
		left = stepsAtWide
	}
	switch rest := width - left - 2; {
	case width >= threeFrom:
		middle := rest / 2
		return beside(left, rows, stack(m.pen, left, rows, m.steps),
			beside(middle, rows, stack(m.pen, middle, rows, m.verdict, m.trouble, m.people, m.gates),
				stack(m.pen, rest-middle-2, rows, m.traffic, m.boot)))
	case width >= twoColumns:
		return beside(left, rows, stack(m.pen, left, rows, m.steps),
			stack(m.pen, rest, rows, m.verdict, m.trouble, m.people, m.gates, m.traffic, m.boot))
	case m.red():
		return stack(m.pen, width, rows, m.verdict, m.trouble, m.people, m.gates, m.steps, m.traffic, m.boot)
	}
	return stack(m.pen, width, rows, m.verdict, m.trouble, m.people, m.steps, m.gates, m.traffic, m.boot)
}

// logFits says that the screen is high enough for the log, and so for its key.
func (m *model) logFits() bool { return m.height >= logFrom }

// section is a titled part of the screen. Draw returns at most n lines, the ones
// that matter most; want is how many it could fill, least how many it needs to
// say anything. With want 0 it is absent, title and all.
type section struct {
	title       string
	want, least int
	draw        func(n int) []string
}

// stack puts sections below each other, the most important first. While there is
// room, each gets its least before any gets more; what does not fit is left out.
func stack(p *pen, width, room int, sections ...func(width int) section) []string {
	var all []section
	for _, f := range sections {
		if s := f(width); s.want > 0 && room > 1 {
			s.least = min(s.least, room-1)
			all = append(all, s)
			room -= s.least + 1
		}
	}
	var lines []string
	for _, s := range all {
		more := min(s.want-s.least, room)
		room -= more
		lines = append(lines, p.rule(s.title, width))
		lines = append(lines, s.draw(s.least+more)...)
	}
	return lines
}

// rule is a section's title in a line.
func (p *pen) rule(title string, width int) string {
	title = p.fit("── "+title+" ", width)
	return p.faint(title + strings.Repeat("─", max(width-lipgloss.Width(title), 0)))
}

// beside sets two blocks next to each other in so many rows.
func beside(left, rows int, a, b []string) []string {
	lines := make([]string, rows)
	for i := range lines {
		if i < len(a) {
			lines[i] = a[i]
		}
		if i < len(b) {
			lines[i] = pad(lines[i], left) + "  " + b[i]
		}
	}
	return lines
}

// header says what runs, and loudly what it is not.
func (m *model) header(width int) []string {
	title := m.opts.Title
	if title == "" {
		title = "drkit drill"
	}
	if !m.live {
		title += " · replay"
	}
	plan := m.run.Plan
	if m.run.ID == "" {
		return []string{m.pen.bold(m.pen.fit(title+" · waiting for the run to begin", width))}
	}
	parts := []string{title, plan.Service, plan.Way(), plan.From() + " → " + plan.To(), "release " + short(plan.Release), "run " + m.run.ID}
	lines := []string{m.pen.bold(m.pen.fit(strings.Join(parts, " · "), width))}
	if warn := banner(m.run); warn != "" {
		lines = append(lines, each(m.pen.wrap("", warn, width, 2), m.pen.warn)...)
	}
	return lines
}

// short is the beginning of a long id.
func short(id string) string {
	if _, hex, found := strings.Cut(id, ":"); found {
		id = hex
	}
	return id[:min(len(id), 12)]
}

// banner names what makes a run prove less than it seems to.
func banner(r *drill.Run) string {
	own := strings.Join(components(r, true), ", ")
	switch {
	case r.Plan.Demo && own != "":
		return "DEMONSTRATION: drkit's own " + own
	case r.Plan.Demo:
		return "DEMONSTRATION"
	case own != "":
		return "drkit's own " + own + ": proves nothing of production"
	}
	return ""
}

// components names each kind of engine and router once; substitutes or the others.
func components(r *drill.Run, substitutes bool) []string {
	var all []string
	seen := map[string]bool{}
	for _, c := range r.Components {
		text := c.Kind + " " + c.Role
		if c.Version != "" && !c.Substitute {
			text += " " + c.Version
		}
		if c.Substitute == substitutes && !seen[text] {
			seen[text] = true
			all = append(all, text)
		}
	}
	return all
}

// timer is the clock, as large as the screen allows, and what it means.
func (m *model) timer(width int) []string {
	face, words := m.face(), m.timerWords()
	style := m.pen.bold
	if face.over {
		style = m.pen.bad
	}
	var digits []string
	switch {
	case m.height >= bigFrom && width >= twoColumns:
		digits = big(face.text)
	case m.height >= mediumFrom && width >= mediumWidth:
		digits = medium(face.text)
	default:
		return []string{m.standingStyle()(m.pen.fit(strings.Join(append([]string{face.text}, words...), " · "), width))}
	}
	left := lipgloss.Width(digits[0]) + 3
	lines := make([]string, len(digits))
	for i, d := range digits {
		lines[i] = " " + style(d)
		if j := i - (len(digits)-len(words))/2; j >= 0 && j < len(words) {
			word := m.pen.fit(words[j], width-left)
			if j == 0 {
				word = m.standingStyle()(word)
			}
			lines[i] = pad(lines[i], left) + word
		}
	}
	return lines
}
