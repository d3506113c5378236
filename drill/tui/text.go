package tui

import (
	"os"
	"strings"
	"unicode"

	"drkit/drill"
	"drkit/internal/redact"

	"github.com/charmbracelet/lipgloss"
)

// pen turns text into what a terminal may get: without secrets and control
// characters, cut or wrapped to a width, styled last. No meaning rests on a
// style alone: each has a mark or a word beside it.
type pen struct {
	redact                       *redact.Redactor
	bold, faint, good, bad, warn func(string) string
}

// newPen returns a pen for a screen's output.
func newPen(o Options) *pen {
	p := &pen{redact: o.Redact}
	p.bold, p.faint, p.good, p.bad, p.warn = same, same, same, same, same
	if o.NoColor || os.Getenv("NO_COLOR") != "" {
		return p
	}
	out := o.Output
	if out == nil {
		out = os.Stdout
	}
	r := lipgloss.NewRenderer(out)
	style := func(s lipgloss.Style) func(string) string {
		return func(text string) string { return s.Render(text) }
	}
	p.bold = style(r.NewStyle().Bold(true))
	p.faint = style(r.NewStyle().Faint(true))
	p.good = style(r.NewStyle().Foreground(lipgloss.Color("2")))
	p.bad = style(r.NewStyle().Foreground(lipgloss.Color("1")).Bold(true))
	p.warn = style(r.NewStyle().Foreground(lipgloss.Color("3")))
	return p
}

func same(s string) string { return s }

// clean makes one line of foreign text: engines, routers and files say what they
// like, and a terminal would obey it.
func (p *pen) clean(s string) string {
	s = p.redact.String(s)
	if !strings.ContainsFunc(s, unprintable) {
		return s
	}
	s = stripEscapes(s)
	s = strings.Map(func(r rune) rune {
		if unprintable(r) {
			return ' '
		}
		return r
	}, s)
	return strings.TrimSpace(s)
}

// unprintable: control characters, broken UTF-8, and the invisible ones that
// change a line's direction or width.
func unprintable(r rune) bool {
	return r == unicode.ReplacementChar || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r)
}

// stripEscapes drops the colour and cursor sequences (ESC [ … letter) that logs
// are full of; what is left of others is made harmless by clean.
func stripEscapes(s string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, "\x1b[")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		s = strings.TrimLeftFunc(after, func(r rune) bool { return r >= 0x20 && r <= 0x3f })
		if s != "" && s[0] >= 0x40 && s[0] <= 0x7e {
			s = s[1:]
		}
	}
}

// fit cleans text and cuts it to a width; a cut is shown by an ellipsis.
func (p *pen) fit(s string, width int) string {
	if width <= 0 {
		return ""
	}
	s = p.clean(s)
	if lipgloss.Width(s) <= width {
		return s
	}
	if width == 1 { // MaxWidth(0) would not cut
		return "…"
	}
	return strings.TrimRight(unstyled.MaxWidth(width-1).Render(s), " ") + "…"
}

// wrap cleans text and breaks it into lines of at most width, the first with the
// prefix, the others indented below it; what does not fit into most lines is cut.
func (p *pen) wrap(prefix, s string, width, most int) []string {
	indent := lipgloss.Width(prefix)
	if width-indent < 8 || most <= 1 {
		return []string{p.fit(prefix+p.clean(s), width)}
	}
	lines := strings.Split(unstyled.Width(width-indent).Render(p.clean(s)), "\n")
	if len(lines) > most {
		rest := strings.Join(lines[most-1:], " ")
		lines = append(lines[:most-1], p.fit(strings.Join(strings.Fields(rest), " "), width-indent))
	}
	for i, line := range lines {
		lines[i] = strings.Repeat(" ", indent) + strings.TrimRight(line, " ")
	}
	lines[0] = prefix + strings.TrimLeft(lines[0], " ")
	return lines
}

// unstyled measures and breaks; it never colours.
var unstyled = lipgloss.NewStyle()

// each styles every line.
func each(lines []string, style func(string) string) []string {
	for i, line := range lines {
		lines[i] = style(line)
	}
	return lines
}

// pad fills a possibly styled line up to a width.
func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(width-lipgloss.Width(s), 0))
}

// mark is a result's sign.
func mark(result string) string {
	switch result {
	case drill.Passed:
		return "✓"
	case drill.Failed:
		return "✗"
	case drill.Skipped, drill.NotReached:
		return "-"
	case drill.Unmeasured:
		return "?"
	}
	return "•"
}

// styleOf is a result's colour.
func (p *pen) styleOf(result string) func(string) string {
	switch result {
	case drill.Passed:
		return p.good
	case drill.Failed:
		return p.bad
	case drill.Skipped, drill.Unmeasured:
		return p.warn
	}
	return p.faint
}
