package tui

import (
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/bubbles/key"
)

// keyMap holds the screen's keys. Which of them do something, and so are shown,
// depends on the state: no key that is shown does nothing.
type keyMap struct {
	ahead, abort, pause, interrupt, details, log, help, suspend, quit key.Binding
	yes, no, back, up, down, pageUp, pageDown                         key.Binding
}

func newKeys() keyMap {
	bind := func(help string, keys ...string) key.Binding {
		return key.NewBinding(key.WithKeys(keys...), key.WithHelp(keys[0], help))
	}
	return keyMap{
		ahead:     bind("go ahead", "g"),
		abort:     bind("abort and undo", "a"),
		pause:     bind("pause", "p"),
		interrupt: bind("leave without undo", "ctrl+c"),
		details:   bind("details", "d"),
		log:       bind("log", "l"),
		help:      bind("help", "?"),
		suspend:   bind("suspend", "ctrl+z"),
		quit:      bind("leave", "q"),
		yes:       bind("yes", "y", "Y"),
		no:        bind("no", "n", "N", "esc"),
		back:      bind("back", "esc", "q"),
		up:        bind("up", "up", "k"),
		down:      bind("down", "down", "j"),
		pageUp:    bind("a page up", "pgup", "b"),
		pageDown:  bind("a page down", "pgdown", " "),
	}
}

// footer is the last line: the question, what could not be done, or the keys that
// do something now.
func (m *model) footer(width int) string {
	if q := m.question(); q != "" {
		return m.pen.bold(m.pen.fit(q, width))
	}
	if m.notice != "" {
		return m.pen.warn(m.pen.fit(m.notice, width))
	}
	if m.page != pageRun {
		return m.pen.faint(m.pen.fit("esc back · ↑ ↓ page up, page down", width))
	}
	var parts []string
	for _, b := range m.offered() {
		parts = append(parts, b.Help().Key+" "+b.Help().Desc)
	}
	if left, counting := m.closesIn(); counting {
		parts = append(parts, "closes in "+clock(left+time.Second-1)+" unless a key is pressed")
	}
	return m.pen.faint(m.pen.fit(strings.Join(parts, " · "), width))
}

// offered are the keys that do something now.
func (m *model) offered() []key.Binding {
	var shown []key.Binding
	for _, k := range []struct {
		on bool
		b  key.Binding
	}{
		{m.canLeaveScreen(), m.keys.quit},
		{m.waiting() != nil && m.canGoAhead(), m.keys.ahead},
		{m.canAbort(), m.keys.abort},
		{m.canLeaveRun(), m.keys.interrupt},
		{m.canPause(), m.keys.pause},
		{m.run.ID != "", m.keys.details},
		{m.logFits(), m.keys.log},
		{true, m.keys.help},
	} {
		if k.on {
			shown = append(shown, k.b)
		}
	}
	return shown
}

// question is what the footer asks, "" when it asks nothing.
func (m *model) question() string {
	switch m.ask {
	case askAbort:
		return "abort and undo? y/n (ctrl+c again: yes)"
	case askLeave:
		return "leave now, WITHOUT the rest of the undo? y/n"
	case askPause:
		return "pause before the next step? The clock goes on. y/n"
	case askSuspend:
		return "suspend? The drill itself stands still until fg, its clock goes on. y/n"
	case askAhead:
		if s := m.waiting(); s != nil && s.Kind == kindApprove {
			return fmt.Sprintf("approve plan %s as %s? y/n", short(m.run.Plan.PlanHash), m.who())
		} else if s != nil {
			return fmt.Sprintf("confirm as %s that %s is done? y/n", m.who(), s.ID)
		}
	}
	return ""
}

// who is the person at the terminal, as the machine knows them.
func (m *model) who() string {
	if m.run.Plan.By != "" {
		return m.run.Plan.By
	}
	return "the person at this terminal"
}
