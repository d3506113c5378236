package tui

import (
	"encoding/json"
	"time"

	"drkit/drill"

	"github.com/charmbracelet/bubbles/key"
	tea "github.com/charmbracelet/bubbletea"
)

// tickEvery drives the clock: four frames a second are enough for seconds.
const tickEvery = 250 * time.Millisecond

// Messages of the model, besides keys and window sizes.
type (
	eventsMsg []arrival
	tickMsg   time.Time
	// endedMsg says that no more events come; err is why, nil at a journal's end.
	endedMsg struct{ err error }
)

// question is what the footer asks.
type question int

const (
	askNothing question = iota
	askAbort
	askLeave
)

// model is the screen's state. Update folds messages into it and does no I/O;
// View reads it.
type model struct {
	opts Options
	pen  *pen
	keys keyMap
	live bool // else a replay

	run      *drill.Run
	progress *drill.Progress // of the step under way
	broken   error           // why the fold stopped
	drained  bool            // no more events come

	anchor arrival   // the newest event: the clock counts on from it
	now    time.Time // of the newest tick or event

	width, height int
	showLog       bool
	ask           question
	aborted, left bool // Abort, Leave were called
}

// newModel returns the model before the first event, at the size that terminals
// have at least.
func newModel(o Options, live bool) *model {
	return &model{
		opts: o, live: live, pen: newPen(o), keys: newKeys(), run: &drill.Run{},
		width: 80, height: 24, showLog: true,
	}
}

// Init starts the clock's ticks.
func (m *model) Init() tea.Cmd { return tick() }

func tick() tea.Cmd {
	return tea.Tick(tickEvery, func(t time.Time) tea.Msg { return tickMsg(t) })
}

// Update folds one message into the screen.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tickMsg:
		m.now = time.Time(msg)
		return m, tick()
	case eventsMsg:
		for _, a := range msg {
			m.apply(a)
		}
	case endedMsg:
		m.drained = true
		if m.broken == nil {
			m.broken = msg.err
		}
	case tea.KeyMsg:
		return m, m.press(msg)
	}
	return m, nil
}

// apply folds an event. After one that does not fit nothing more is folded: the
// screen says so, and stands still rather than show something wrong.
func (m *model) apply(a arrival) {
	if m.broken != nil {
		return
	}
	if m.broken = m.run.Apply(a.event); m.broken != nil {
		return
	}
	m.anchor = a
	if a.at.After(m.now) {
		m.now = a.at
	}
	switch a.event.Type {
	case drill.TypeProgress:
		p := drill.Progress{}
		_ = json.Unmarshal(a.event.Data, &p) // the fold has read it before
		m.progress = &p
	case drill.TypeStepStarted, drill.TypeStepFinished:
		m.progress = nil
	case drill.TypeRunFinished:
		m.ask = askNothing
	}
}

// over says that nothing more will happen.
func (m *model) over() bool { return m.run.Finished != nil || m.drained }

// press handles one key.
func (m *model) press(k tea.KeyMsg) tea.Cmd {
	if m.ask != askNothing {
		return m.answer(k)
	}
	switch {
	case m.canAbort() && key.Matches(k, m.keys.abort, m.keys.interrupt):
		m.ask = askAbort
	case m.canLeaveRun() && key.Matches(k, m.keys.interrupt):
		m.ask = askLeave
	case m.canLeaveScreen() && key.Matches(k, m.keys.quit, m.keys.interrupt):
		return tea.Quit
	case m.logFits() && key.Matches(k, m.keys.log):
		m.showLog = !m.showLog
	}
	return nil
}

// answer handles a key while the footer asks. A second Ctrl-C means yes.
func (m *model) answer(k tea.KeyMsg) tea.Cmd {
	asked := m.ask
	switch {
	case key.Matches(k, m.keys.yes, m.keys.interrupt):
		m.ask = askNothing
		if asked == askAbort {
			m.aborted = true
			return call(m.opts.Abort)
		}
		m.left = true
		return tea.Sequence(call(m.opts.Leave), tea.Quit) // no event tells of the end
	case key.Matches(k, m.keys.no):
		m.ask = askNothing
	}
	return nil
}

// call runs f outside of Update.
func call(f func()) tea.Cmd {
	return func() tea.Msg {
		f()
		return nil
	}
}

// canLeaveScreen says that leaving loses nothing: the run has ended, this is a
// replay, the screen can show no more, or there is no other way out.
func (m *model) canLeaveScreen() bool {
	return m.over() || !m.live || m.broken != nil || m.opts.Abort == nil
}

func (m *model) canAbort() bool {
	return m.live && !m.over() && m.opts.Abort != nil && !m.aborted && m.run.Aborting == nil
}

// canLeaveRun says that an abort is under way and may be left.
func (m *model) canLeaveRun() bool {
	return m.live && !m.over() && m.opts.Leave != nil && !m.left && (m.aborted || m.run.Aborting != nil)
}
