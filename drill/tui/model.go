package tui

import (
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
	// suspendedMsg comes after the screen was suspended, or could not be.
	suspendedMsg struct{ err error }
)

// question is what the footer asks.
type question int

const (
	askNothing question = iota
	askAbort
	askLeave
	askPause
	askAhead
	askSuspend
)

// page is what the screen shows between timer and footer.
type page int

const (
	pageRun page = iota
	pageDetails
	pageHelp
)

// model is the screen's state. Update folds messages into it and does no I/O;
// View reads it.
type model struct {
	opts Options
	pen  *pen
	keys keyMap
	live bool // else a replay

	run     *drill.Run
	broken  error // why the fold stopped
	drained bool  // no more events come

	anchor arrival   // the newest event: the clock counts on from it
	now    time.Time // of the newest tick or event

	width, height int
	showLog       bool
	page          page
	scroll        int // rows of the page above the screen
	ask           question
	notice        string // what could not be done; the next key takes it away
	aborted, left bool   // Abort, Leave were called
	paused        bool   // Pause was called
	ahead         string // the step that the person has let go ahead
	sealed        bool   // the verdict is final
	touched       bool   // a key was pressed after the end: somebody is there
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
	case suspendedMsg:
		if msg.err != nil {
			m.notice = msg.err.Error()
		}
	case tea.KeyMsg:
		return m, m.press(msg)
	}
	return m, nil
}

// apply folds an event. After one that does not fit nothing more is folded: the
// screen says so, and stands still rather than show something wrong.
func (m *model) apply(a arrival) {
	if a.final != nil {
		m.sealed = true
		if m.run.Finished != nil {
			m.run.Finished = a.final
		}
		return
	}
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
	switch {
	case m.over(): // nothing is left to ask for
		m.ask = askNothing
	case m.ask == askAhead && m.waiting() == nil:
		m.ask = askNothing
	}
	if a.event.Type == drill.TypeResumed {
		m.paused = false
	}
}

// over says that nothing more will happen here: a run that is held goes on in
// another process.
func (m *model) over() bool {
	return m.run.Finished != nil || m.drained || m.live && m.run.Held != nil
}

// sealing says that the run has ended and its evidence is not closed yet.
func (m *model) sealing() bool {
	return m.live && m.opts.Seals && m.run.Finished != nil && !m.sealed
}

// press handles one key.
func (m *model) press(k tea.KeyMsg) tea.Cmd {
	m.notice = ""
	leaving := m.page == pageRun && m.ask == askNothing && key.Matches(k, m.keys.quit)
	if m.over() && !leaving && !m.touched {
		m.touched = true
		if m.opts.stay != nil {
			m.opts.stay()
		}
	}
	if m.ask != askNothing {
		return m.answer(k)
	}
	if m.page != pageRun && m.turn(k) {
		return nil
	}
	switch {
	case m.canAbort() && key.Matches(k, m.keys.abort, m.keys.interrupt):
		m.ask = askAbort
	case m.canLeaveRun() && key.Matches(k, m.keys.interrupt):
		m.ask = askLeave
	case m.canLeaveScreen() && key.Matches(k, m.keys.quit, m.keys.interrupt):
		return tea.Quit
	case m.canPause() && key.Matches(k, m.keys.pause):
		m.ask = askPause
	case m.waiting() != nil && m.canGoAhead() && key.Matches(k, m.keys.ahead):
		m.ask = askAhead
	case m.live && !m.over() && key.Matches(k, m.keys.suspend):
		m.ask = askSuspend
	case key.Matches(k, m.keys.suspend):
		return m.suspend()
	case m.run.ID != "" && key.Matches(k, m.keys.details):
		m.open(pageDetails)
	case key.Matches(k, m.keys.help):
		m.open(pageHelp)
	case m.logFits() && key.Matches(k, m.keys.log):
		m.showLog = !m.showLog
	}
	return nil
}

// answer handles a key while the footer asks. A second Ctrl-C means yes to an
// abort and to leaving, and no to all else.
func (m *model) answer(k tea.KeyMsg) tea.Cmd {
	asked := m.ask
	again := key.Matches(k, m.keys.interrupt)
	switch {
	case key.Matches(k, m.keys.yes) || again && (asked == askAbort || asked == askLeave):
		m.ask = askNothing
		return m.agreed(asked)
	case key.Matches(k, m.keys.no) || again:
		m.ask = askNothing
	}
	return nil
}

// agreed does what was asked.
func (m *model) agreed(asked question) tea.Cmd {
	switch asked {
	case askAbort:
		m.aborted = true
		return call(m.opts.Abort)
	case askLeave:
		m.left = true
		return tea.Sequence(call(m.opts.Leave), tea.Quit) // no event tells of the end
	case askPause:
		m.paused = true
		return call(m.opts.Pause)
	case askSuspend:
		return m.suspend()
	case askAhead:
		s := m.waiting()
		if s == nil {
			return nil
		}
		m.ahead = s.ID
		f, id := m.opts.Ack, s.ID
		if s.Kind == kindApprove {
			f = m.opts.Approve
		}
		return call(func() { f(id) })
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

func (m *model) canPause() bool {
	return m.canAbort() && m.opts.Pause != nil && !m.paused && m.run.ID != ""
}

// closesIn says how long the screen stays when nobody is there.
func (m *model) closesIn() (time.Duration, bool) {
	if !m.live || m.opts.CloseAfter <= 0 || m.run.Finished == nil || m.touched {
		return 0, false
	}
	return max(m.opts.CloseAfter-m.now.Sub(m.anchor.at), 0), true
}
