package tui

import (
	"strings"

	"github.com/charmbracelet/bubbles/key"
)

// keyMap holds the screen's keys. Which of them do something, and so are shown,
// depends on the state: no key that is shown does nothing.
type keyMap struct {
	abort, interrupt, log, quit, yes, no key.Binding
}

func newKeys() keyMap {
	return keyMap{
		abort:     key.NewBinding(key.WithKeys("a"), key.WithHelp("a", "abort and undo")),
		interrupt: key.NewBinding(key.WithKeys("ctrl+c"), key.WithHelp("ctrl+c", "leave without undo")),
		log:       key.NewBinding(key.WithKeys("l"), key.WithHelp("l", "log on/off")),
		quit:      key.NewBinding(key.WithKeys("q"), key.WithHelp("q", "leave")),
		yes:       key.NewBinding(key.WithKeys("y", "Y")),
		no:        key.NewBinding(key.WithKeys("n", "N", "esc")),
	}
}

// footer is the last line: the question, or the keys that do something now.
func (m *model) footer(width int) string {
	switch m.ask {
	case askAbort:
		return m.pen.bold(m.pen.fit("abort and undo? y/n (ctrl+c again: yes)", width))
	case askLeave:
		return m.pen.bold(m.pen.fit("leave now, WITHOUT the rest of the undo? y/n", width))
	}
	var shown []key.Binding
	if m.canLeaveScreen() {
		shown = append(shown, m.keys.quit)
	}
	if m.canAbort() {
		shown = append(shown, m.keys.abort)
	}
	if m.canLeaveRun() {
		shown = append(shown, m.keys.interrupt)
	}
	if m.logFits() {
		shown = append(shown, m.keys.log)
	}
	var parts []string
	for _, b := range shown {
		parts = append(parts, b.Help().Key+" "+b.Help().Desc)
	}
	return m.pen.faint(m.pen.fit(strings.Join(parts, " · "), width))
}
