package tui

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"drkit/drill"
	"drkit/internal/errext"

	tea "github.com/charmbracelet/bubbletea"
)

// terminal collects what a program writes.
type terminal struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (t *terminal) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.out.Write(b)
}

func (t *terminal) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.out.String()
}

// Sequences that enter and leave the alternate page, and show the cursor.
const enterPage, leavePage, showCursor = "\x1b[?1049h", "\x1b[?1049l", "\x1b[?25h"

// restored says that the terminal was given back as it was.
func (t *terminal) restored() bool {
	s := t.String()
	return strings.Contains(s, enterPage) && strings.LastIndex(s, leavePage) > strings.LastIndex(s, enterPage) && strings.Contains(s, showCursor)
}

// settle lets the program draw, and its last tick and commands end.
func settle() {
	time.Sleep(2 * time.Second)
	synctest.Wait()
}

// TestProgram drives the whole program by keys: Ctrl-C asks, y aborts, q leaves
// only after the end.
func TestProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys, typed := io.Pipe()
		term, aborts := &terminal{}, atomic.Int32{}
		s := New(Options{Input: keys, Output: term, NoColor: true, Abort: func() { aborts.Add(1) }})
		ended := make(chan error, 1)
		go func() { ended <- s.Run(t.Context()) }()
		key := func(k string) {
			typed.Write([]byte(k))
			settle()
		}

		tp := behaves(t)
		for _, e := range tp.events {
			s.Event(e, nil)
		}
		settle()
		if out := term.String(); !strings.Contains(out, "clock runs since declared") {
			t.Errorf("the running clock is not drawn:\n%q", out)
		}
		key("q")
		key("\x03")
		if out := term.String(); !strings.Contains(out, "abort and undo? y/n") || aborts.Load() != 0 {
			t.Errorf("Ctrl-C must ask first; aborts: %d", aborts.Load())
		}
		key("y")
		key("a")
		key("y")
		if aborts.Load() != 1 {
			t.Errorf("Abort was called %d times, want once", aborts.Load())
		}

		n := len(tp.events)
		tp.at(380*time.Second, "", drill.TypeRunAborting, drill.RunAborting{Why: "interrupted", Signal: drill.SignalInterrupt})
		tp.at(381*time.Second, "boot", drill.TypeUndone, drill.Undone{ID: "change-1", What: "stopped"})
		tp.finish(382*time.Second, drill.Aborted, 130, drill.Reason{Status: 130, Name: "interrupted", What: "the run was cut short: interrupted"})
		for _, e := range tp.events[n:] {
			s.Event(e, nil)
		}
		settle()
		if out := term.String(); !strings.Contains(out, "ABORTED · exit status 130") {
			t.Errorf("the verdict is not drawn:\n%q", out)
		}
		if term.restored() {
			t.Error("the screen closed before the person left")
		}
		key("q")
		if err := <-ended; err != nil || !term.restored() {
			t.Errorf("after q: %v, terminal restored: %v", err, term.restored())
		}
		if err := s.Run(t.Context()); err == nil {
			t.Error("a second Run must be an error")
		}
		s.Event(tp.events[0], nil) // after the end: let go
		typed.Close()
		settle()
	})
}

// TestContextEndsTheScreen: a SIGTERM of the process ends its context.
func TestContextEndsTheScreen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys, typed := io.Pipe()
		term := &terminal{}
		s := New(Options{Input: keys, Output: term, NoColor: true, Abort: func() { t.Error("aborted") }})
		for _, e := range declared(t).events {
			s.Event(e, nil)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		settle()
		cancel()
		if err := <-ended; err != nil || !term.restored() {
			t.Errorf("after the context: %v, terminal restored: %v", err, term.restored())
		}
		typed.Close()
		settle()
	})
}

// TestSlowTerminal: nothing reads, and Event returns; loose events are dropped,
// the oldest first, all others arrive and fold.
func TestSlowTerminal(t *testing.T) {
	tp := declared(t)
	for i := range 3000 {
		tp.at(330*time.Second+time.Duration(i), "boot", drill.TypeLog, drill.Log{From: "target", Line: strings.Repeat("x", i%7)})
	}
	tp.at(340*time.Second, "boot", drill.TypeLog, drill.Log{From: "target", Line: "the newest"})
	tp.at(341*time.Second, "boot", drill.TypeStepFinished, drill.StepFinished{Result: drill.Passed})
	s := New(Options{NoColor: true})
	for _, e := range tp.events {
		s.Event(e, nil)
	}
	m := newModel(Options{NoColor: true}, true)
	batch := s.queue.take()
	m.Update(eventsMsg(batch))
	firm, want := 0, 0
	for _, a := range batch {
		if !loose(a.event) {
			firm++
		}
	}
	for _, e := range tp.events {
		if !loose(e) {
			want++
		}
	}
	if firm != want || len(batch)-firm != maxLoose {
		t.Errorf("%d of %d firm events and %d loose ones arrived, want %d", firm, want, len(batch)-firm, maxLoose)
	}
	logs := m.run.Logs
	if m.broken != nil || len(logs) != drill.LogTail || logs[len(logs)-1].Line != "the newest" {
		t.Errorf("folded: %v, %d log lines", m.broken, len(logs))
	}
	if got := m.run.Steps[5]; got.Result != drill.Passed {
		t.Errorf("step %s is %q, want passed", got.ID, got.Result)
	}
}

// TestBrokenFold: an event that does not fit stops the screen and says so; the
// person can still abort the drill, which goes on, and leave.
func TestBrokenFold(t *testing.T) {
	tp := declared(t)
	tp.at(331*time.Second, "steady", drill.TypeStepFinished, drill.StepFinished{Result: drill.Passed})
	m := shown(tp, time.Minute, 80, 24)
	frame := m.View()
	for _, want := range []string{"the screen stopped", `step "steady"`, "the drill goes on", "q leave", "a abort"} {
		if !strings.Contains(strings.Join(strings.Fields(frame), " "), want) {
			t.Errorf("the frame lacks %q:\n%s", want, frame)
		}
	}
	if m.mono() != 330*time.Second {
		t.Errorf("the clock goes on to %v after the screen stopped", m.mono())
	}
}

// TestKeys: which keys do something, by state; all that the footer names do.
func TestKeys(t *testing.T) {
	leave := Options{Abort: func() {}, Leave: func() {}, NoColor: true}
	for _, c := range []struct {
		name   string
		opts   Options
		tape   *tape
		keys   []string
		footer string
	}{
		{"running", leave, declared(t), nil, "a abort and undo · d details · l log · ? help"},
		{"no abort offered", Options{NoColor: true}, declared(t), nil, "q leave · d details · l log · ? help"},
		{"asked", leave, declared(t), []string{"a"}, "abort and undo? y/n (ctrl+c again: yes)"},
		{"a wrong key keeps asking", leave, declared(t), []string{"a", "q", "l"}, "abort and undo? y/n (ctrl+c again: yes)"},
		{"no", leave, declared(t), []string{"a", "n"}, "a abort and undo · d details · l log · ? help"},
		{"yes", leave, declared(t), []string{"a", "y"}, "ctrl+c leave without undo · d details · l log · ? help"},
		{"Ctrl-C twice", leave, declared(t), []string{"ctrl+c", "ctrl+c"}, "ctrl+c leave without undo · d details · l log · ? help"},
		{"Ctrl-C thrice", leave, declared(t), []string{"ctrl+c", "ctrl+c", "ctrl+c"}, "leave now, WITHOUT the rest of the undo? y/n"},
		{"after the end", leave, failed(t), []string{"a"}, "q leave · d details · l log · ? help"},
	} {
		m := shown(c.tape, 0, 80, 24)
		m.opts = c.opts
		press(m, c.keys...)
		if got := m.footer(80); got != c.footer {
			t.Errorf("%s: the footer is %q, want %q", c.name, got, c.footer)
		}
	}
}

// TestPeopleKeys: pause, approve and confirm ask first, call once, and are offered
// only where they do something.
func TestPeopleKeys(t *testing.T) {
	for _, c := range []struct {
		name   string
		tape   *tape
		keys   []string
		asks   string // after the first key
		called string
		footer string // after all
	}{
		{"pause", declared(t), []string{"p", "y"}, "pause before the next step? The clock goes on. y/n", "pause", "a abort and undo · d details · l log · ? help"},
		{"pause, no", declared(t), []string{"p", "n"}, "pause before the next step? The clock goes on. y/n", "", "a abort and undo · p pause · d details · l log · ? help"},
		{"pause, Ctrl-C is no yes", declared(t), []string{"p", "ctrl+c"}, "pause before the next step? The clock goes on. y/n", "", "a abort and undo · p pause · d details · l log · ? help"},
		{"confirm", human(t), []string{"g", "y"}, "confirm as ana@ops-1 that confirm-dns is done? y/n", "ack confirm-dns", "a abort and undo · p pause · d details · l log · ? help"},
		{"confirm, no", human(t), []string{"g", "x", "esc"}, "confirm as ana@ops-1 that confirm-dns is done? y/n", "", "g go ahead · a abort and undo · p pause · d details · l log · ? help"},
		{"approve", approval(t), []string{"g", "y"}, "approve plan 3f2a9c0d1e2f as ana@ops-1? y/n", "approve ok", "a abort and undo · p pause · d details · l log · ? help"},
		{"nobody is asked", declared(t), []string{"g", "y"}, "", "", "a abort and undo · p pause · d details · l log · ? help"},
		{"after an abort nothing goes ahead", human(t), []string{"a", "y", "g", "y"}, "abort and undo? y/n (ctrl+c again: yes)", "abort", "ctrl+c leave without undo · d details · l log · ? help"},
		{"after the end", failed(t), []string{"p", "y"}, "", "", "q leave · d details · l log · ? help"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var called []string
			m := shown(c.tape, 0, 80, 24)
			m.opts.CloseAfter = 0
			m.opts.Abort = func() { called = append(called, "abort") }
			m.opts.Pause = func() { called = append(called, "pause") }
			m.opts.Ack = func(step string) { called = append(called, "ack "+step) }
			m.opts.Approve = func(step string) { called = append(called, "approve "+step) }
			for i, k := range c.keys {
				if cmd := pressed(m, k); cmd != nil {
					cmd()
				}
				if got := m.question(); i == 0 && got != c.asks {
					t.Errorf("asks %q, want %q", got, c.asks)
				}
			}
			if got := strings.Join(called, ", "); got != c.called {
				t.Errorf("called %q, want %q", got, c.called)
			}
			if got := m.footer(80); got != c.footer {
				t.Errorf("the footer is %q, want %q", got, c.footer)
			}
		})
	}
}

// TestNobodyLetsAReplayGoAhead: the prompt is shown, the key is not.
func TestNobodyLetsAReplayGoAhead(t *testing.T) {
	m := shown(human(t), 0, 80, 24)
	m.live = false
	if frame := m.View(); !strings.Contains(frame, "waits for network on call") || strings.Contains(frame, "g go ahead") {
		t.Errorf("a replay shows\n%s", frame)
	}
	if pressed(m, "g") != nil || m.ask != askNothing {
		t.Error("a replay asks whether to go ahead")
	}
}

// TestQuestionsEndWithTheirStep: a step that somebody else confirmed asks no more.
func TestQuestionsEndWithTheirStep(t *testing.T) {
	tp := human(t)
	m := shown(tp, 0, 80, 24)
	press(m, "g")
	tp.at(110*time.Second, "confirm-dns", drill.TypeStepFinished, drill.StepFinished{Result: drill.Passed})
	m.Update(eventsMsg{{event: tp.events[len(tp.events)-1], at: m.now, rate: 1}})
	if m.ask != askNothing || pressed(m, "y") != nil || m.ahead != "" {
		t.Error("the question outlives its step")
	}
}

func TestPages(t *testing.T) {
	m := shown(failed(t), 0, 80, 24)
	press(m, "d")
	top := m.View()
	for range 100 {
		press(m, " ")
	}
	bottom := m.View()
	if !strings.Contains(top, "lines 1 to") || bottom == top || !strings.Contains(bottom, "start the target engine: taken back") {
		t.Errorf("details do not scroll to their end:\n%s", bottom)
	}
	for range 100 {
		press(m, "pgup")
	}
	if m.View() != top {
		t.Error("details do not scroll back")
	}
	press(m, "?")
	if !strings.Contains(m.View(), "── help") {
		t.Error("help does not open from details")
	}
	if cmd := pressed(m, "q"); cmd != nil || m.page != pageRun {
		t.Error("q on a page must go back, not leave")
	}
	press(m, "d", "d")
	if m.page != pageRun {
		t.Error("d does not close what it opened")
	}
	press(m, "?", "esc")
	if m.page != pageRun {
		t.Error("esc does not go back")
	}
}

// TestDetailsNamePeople: who was asked, who said what, whose approval counts.
func TestDetailsNamePeople(t *testing.T) {
	tp := human(t)
	tp.at(100*time.Second, "confirm-dns", drill.TypeAsked, drill.Asked{Who: "network on call"})
	tp.at(180*time.Second, "confirm-dns", drill.TypeAcknowledged, drill.Acknowledged{Who: "network on call", By: "ana@ops-1", Via: "screen"})
	tp.at(180*time.Second, "confirm-dns", drill.TypeApproval, drill.Approval{Approver: "mei", Method: "ssh-ed25519"})
	tp.at(180*time.Second, "confirm-dns", drill.TypeApproval, drill.Approval{Approver: "bob", Method: "ssh-ed25519", Why: "it has expired"})
	tp.at(180*time.Second, "confirm-dns", drill.TypeNotified, drill.Notified{To: "incident channel", Text: "moving", Why: "no answer"})
	m := shown(tp, 0, 120, 40)
	press(m, "d")
	frame := m.View()
	for _, want := range []string{
		"✓ confirm-dns: network on call, said ana@ops-1 by screen after 1:20", "✓ approved by mei: ssh-ed25519",
		"✗ approval of bob counts nothing: it has expired", "✗ incident channel was not told (no answer): moving",
	} {
		if !strings.Contains(frame, want) {
			t.Errorf("the details lack %q:\n%s", want, frame)
		}
	}
}

// TestAbortFromAPage: Ctrl-C asks there too.
func TestAbortFromAPage(t *testing.T) {
	m := shown(declared(t), 0, 80, 24)
	press(m, "?", "ctrl+c")
	if m.ask != askAbort || !strings.Contains(m.View(), "abort and undo? y/n") {
		t.Errorf("Ctrl-C on a page shows\n%s", m.View())
	}
}

// TestSuspend: asked while the drill runs, at once when it has ended; what cannot be
// done is said until the next key.
func TestSuspend(t *testing.T) {
	m := shown(declared(t), 0, 80, 24)
	if cmd := pressed(m, "ctrl+z"); cmd != nil || m.question() == "" {
		t.Error("a running drill is suspended without a question")
	}
	if cmd := pressed(m, "y"); cmd == nil {
		t.Error("yes does not suspend")
	}
	m.Update(suspendedMsg{errNoShell})
	if got := m.footer(80); got != "cannot suspend: there is no shell to return to" {
		t.Errorf("the footer is %q", got)
	}
	press(m, "l")
	if m.notice != "" {
		t.Error("the notice stays for ever")
	}
	if cmd := pressed(shown(failed(t), 0, 80, 24), "ctrl+z"); cmd == nil {
		t.Error("after the end Ctrl-Z does nothing")
	}
}

// TestSuspendGivesTheTerminalBack: while the process is stopped, the terminal is as
// it was; afterwards the screen is there again.
func TestSuspendGivesTheTerminalBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys, typed := io.Pipe()
		term := &terminal{}
		given := make(chan bool, 1)
		s := New(Options{Input: keys, Output: term, NoColor: true, Abort: func() {}})
		s.opts.stop = func() error { given <- term.restored(); return nil }
		ended := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { ended <- s.Run(ctx) }()
		for _, e := range failed(t).events {
			s.Event(e, nil)
		}
		settle()
		typed.Write([]byte("\x1a"))
		settle()
		if len(given) != 1 || !<-given {
			t.Error("the terminal was not given back before the process stops")
		}
		if term.restored() {
			t.Error("the screen does not come back")
		}
		cancel() // q would go to the reader from before: only a terminal's own file can be read anew
		if err := <-ended; err != nil || !term.restored() {
			t.Errorf("at the end: %v, terminal restored: %v", err, term.restored())
		}
		typed.Close()
		settle()
	})
}

// TestNobodyIsThere: the screen of a run that has ended closes by itself, unless a
// key was pressed; that of one that runs stays.
func TestNobodyIsThere(t *testing.T) {
	for _, c := range []struct {
		name   string
		tape   func(*testing.T) *tape
		key    string
		closes bool
	}{{"nobody", failed, "", true}, {"somebody", failed, "l", false}, {"running", declared, "", false}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				keys, typed := io.Pipe()
				term := &terminal{}
				s := New(Options{Input: keys, Output: term, NoColor: true, CloseAfter: 20 * time.Second, Abort: func() {}})
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- s.Run(ctx) }()
				for _, e := range c.tape(t).events {
					s.Event(e, nil)
				}
				time.Sleep(15 * time.Second)
				if c.key != "" {
					typed.Write([]byte(c.key))
				}
				time.Sleep(4 * time.Second)
				if len(ended) != 0 {
					t.Error("it closed too early")
				}
				time.Sleep(3 * time.Second)
				if closed := len(ended) == 1; closed != c.closes {
					t.Errorf("closed: %v, want %v", closed, c.closes)
				}
				cancel()
				if err := <-ended; err != nil || !term.restored() {
					t.Errorf("at the end: %v, terminal restored: %v", err, term.restored())
				}
				typed.Close()
				settle()
			})
		})
	}
}

// stalled is a terminal that takes nothing, until it is let go.
type stalled struct{ gone chan struct{} }

func (s stalled) Write(b []byte) (int, error) {
	<-s.gone
	return len(b), nil
}

// TestStalledTerminal: a terminal that takes no output (Ctrl-S, a dead connection)
// holds neither the events nor, after the end, Run.
func TestStalledTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys, typed := io.Pipe()
		term := stalled{make(chan struct{})}
		s := New(Options{Input: keys, Output: term, NoColor: true, CloseAfter: time.Minute, Abort: func() {}})
		begun := time.Now()
		ended := make(chan error, 1)
		go func() { ended <- s.Run(t.Context()) }()
		for _, e := range failed(t).events {
			s.Event(e, nil)
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("the events were held for %v", took)
		}
		if err := <-ended; !errors.Is(err, errStalled) {
			t.Errorf("Run returned %v, want that the terminal takes no output", err)
		}
		if took := time.Since(begun); took != time.Minute+stallGrace {
			t.Errorf("Run returned after %v", took)
		}
		typed.Close()
		close(term.gone)
		settle()
	})
}

func TestLeaveCallsAndQuits(t *testing.T) {
	left := false
	m := shown(declared(t), 0, 80, 24)
	m.opts.Leave = func() { left = true }
	press(m, "a", "y", "ctrl+c")
	_, cmd := m.Update(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("y")})
	if left || cmd == nil {
		t.Fatalf("Update must leave the call to a command; called: %v", left)
	}
	cmd()
	if !m.left || m.canLeaveRun() {
		t.Error("Leave is offered again")
	}
}

// TestEndedWhileAsked: an end takes the question away.
func TestEndedWhileAsked(t *testing.T) {
	tp := failed(t)
	last := tp.events[len(tp.events)-1]
	tp.events = tp.events[:len(tp.events)-1]
	m := shown(tp, 0, 80, 24)
	press(m, "a")
	m.Update(eventsMsg{{event: last, at: m.now, rate: 1}})
	press(m, "y")
	if m.aborted || m.ask != askNothing {
		t.Error("an ended run was aborted")
	}
}

// journal yields events, and then an error if there is one.
func journal(events []drill.Event, last error) iter.Seq2[drill.Event, error] {
	return func(yield func(drill.Event, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
		if last != nil {
			yield(drill.Event{}, last)
		}
	}
}

// TestReplayTakesItsTime: at speed 10, the pauses are a tenth of the recorded
// ones and at most maxPause each.
func TestReplayTakesItsTime(t *testing.T) {
	tp := failed(t)
	var want time.Duration
	for i, e := range tp.events[1:] {
		want += min((e.Mono-tp.events[i].Mono)/10, maxPause)
	}
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		m := newModel(Options{NoColor: true}, false)
		feed(journal(tp.events, nil), 10)(t.Context(), func(msg tea.Msg) { m.Update(msg) })
		if took := time.Since(begin); took != want {
			t.Errorf("the replay took %v, want %v", took, want)
		}
		if !m.over() || m.run.Finished == nil || m.broken != nil {
			t.Errorf("the replay did not end: %v", m.broken)
		}
	})
}

// TestReplayClock: between two events the clock runs as fast as the replay, and
// is right at both, also where the pause was cut.
func TestReplayClock(t *testing.T) {
	tp := &tape{t: t, proc: 1}
	tp.at(0, "", drill.TypeRunStarted, plan())
	tp.at(0, "", drill.TypeInstant, drill.Instant{Name: drill.InstantDeclared})
	tp.at(100*time.Second, "", drill.TypeNote, drill.Note{Text: "a pause of 100 s, shown in 2 s"})
	tp.at(110*time.Second, "", drill.TypeNote, drill.Note{Text: "10 s, shown in 1 s"})
	synctest.Test(t, func(t *testing.T) {
		m := newModel(Options{NoColor: true}, false)
		var mu sync.Mutex
		send := func(msg tea.Msg) { mu.Lock(); defer mu.Unlock(); m.Update(msg) }
		go feed(journal(tp.events, nil), 10)(t.Context(), send)
		for _, c := range []struct{ after, want time.Duration }{
			{time.Second, 50 * time.Second}, {1500 * time.Millisecond, 105 * time.Second}, {time.Second, 110 * time.Second}, {time.Hour, 110 * time.Second},
		} {
			time.Sleep(c.after)
			send(tickMsg(time.Now()))
			synctest.Wait()
			mu.Lock()
			if got, _ := m.run.Elapsed(m.mono()); got != c.want {
				t.Errorf("the clock shows %v, want %v", got, c.want)
			}
			mu.Unlock()
		}
		if got := m.running(); got != "the journal ends without an end" {
			t.Errorf("a killed run reads %q", got)
		}
	})
}

func TestReplayOfBadJournals(t *testing.T) {
	gap := declared(t)
	gap.events = append(gap.events[:3:3], gap.events[4:]...)
	for _, c := range []struct {
		name   string
		events iter.Seq2[drill.Event, error]
		speed  float64
		status errext.Status
		want   string
	}{
		{"a gap", journal(gap.events, nil), 1e9, errext.Evidence, "out of order"},
		{"a line that cannot be read", journal(declared(t).events, errors.New("line 31: not JSON")), 1e9, errext.Evidence, "line 31: not JSON"},
		{"no event", journal(nil, nil), 1, errext.Evidence, "the journal is empty"},
		{"speed 0", journal(nil, nil), 0, errext.Usage, "speed 0"},
		{"a whole journal", journal(failed(t).events, nil), 1e9, errext.Holds, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				keys, typed := io.Pipe()
				term := &terminal{}
				ended := make(chan error, 1)
				go func() {
					ended <- Replay(t.Context(), c.events, c.speed, Options{Input: keys, Output: term, NoColor: true, Abort: func() { t.Error("aborted") }})
				}()
				if c.status != errext.Usage {
					settle()
					typed.Write([]byte("q"))
				}
				err := <-ended
				typed.Close()
				settle()
				if c.status == errext.Holds && err == nil {
					return
				}
				if err == nil || errext.StatusOf(err) != c.status || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v (status %d), want %q with status %d", err, errext.StatusOf(err), c.want, c.status)
				}
				if c.status == errext.Evidence && !strings.Contains(term.String(), "the screen stopped") {
					t.Error("the screen does not say that it stopped")
				}
			})
		})
	}
}
