// Package tui is the screen of a running drill: a large timer against the
// objective, the steps with their budgets, gates, engine boot, traffic, a log
// tail, and the verdict with its reasons at the end.
//
// A Screen is one of the drill's handlers. It folds the events into a run of its
// own, so it never touches the runner's, and it never holds the runner up:
//
//	screen := tui.New(tui.Options{Abort: cancel, Output: os.Stdout})
//	runner.Handlers = append(runner.Handlers, screen)
//	go func() { run, err = runner.Run(ctx, id, start) }()
//	err := screen.Run(ctx)                  // until the person leaves
//	fmt.Fprint(out, tui.Summary(run, 80))   // into the scrollback
//
// Which events may be lost: progress and log lines, the oldest first, when the
// terminal does not keep up. All others arrive, in order.
//
// Replay shows a recorded journal through the same model.
package tui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"drkit/drill"
	"drkit/drill/forecast"
	"drkit/internal/errext"
	"drkit/internal/redact"
	_ "drkit/internal/unasked" // before Bubble Tea asks

	tea "github.com/charmbracelet/bubbletea"
)

// Options say where a screen is drawn and what its keys do. The zero value draws
// on the process's own terminal and offers nothing but leaving.
type Options struct {
	Title  string    // first words of the screen; "" is "drkit drill"
	Input  io.Reader // keys; nil: the terminal
	Output io.Writer // nil: standard output. Only a terminal's own file has a size; others are drawn at 80x24

	// Abort ends the run and starts its undo; it must not block. It is called at
	// most once, after the person has agreed. Nil: there is no such key, and
	// Ctrl-C leaves the screen.
	Abort func()
	// Leave ends a run that is being aborted at once, without the rest of its
	// undo; it must not block. It is called at most once, after the person has
	// agreed. Nil: there is no such key.
	Leave func()

	// Pause holds the run before its next step, Ack confirms a step that asks a
	// person for something, Approve approves the plan for a step that waits for it.
	// None may block; each is called after the person has agreed. Nil: there is no
	// such key.
	Pause        func()
	Ack, Approve func(step string)

	// Seals says that Screen.Sealed will tell what became of the evidence after the run
	// has ended: no verdict is shown as good before.
	Seals bool

	Earlier forecast.Earlier // what earlier runs took, for the projection

	// CloseAfter is how long the screen of a run that has ended stays when nobody
	// presses a key; 0: until somebody does.
	CloseAfter time.Duration

	NoColor bool             // no colour and no other attribute; NO_COLOR in the environment does the same
	Redact  *redact.Redactor // for all text that comes from events; nil knows the shapes of credentials alone

	stop func() error // stops the process's group for Ctrl-Z; nil: stopGroup
	stay func()       // somebody is there
}

// Screen shows one run. It implements drill.Handler.
type Screen struct {
	opts  Options
	queue *queue
	once  sync.Once
	ended chan struct{} // closed when the run has ended
	end   func()        // closes it
	stay  chan struct{} // closed when somebody is there after the end
}

var _ drill.Handler = (*Screen)(nil)

// New returns a screen that is not drawn yet. Events that come before Run wait.
func New(o Options) *Screen {
	s := &Screen{opts: o, queue: newQueue(), ended: make(chan struct{}), stay: make(chan struct{})}
	s.end = sync.OnceFunc(func() { close(s.ended) })
	s.opts.stay = sync.OnceFunc(func() { close(s.stay) })
	return s
}

// Event takes an event to be shown. It returns at once, never fails, and does
// not read the runner's run.
func (s *Screen) Event(e drill.Event, _ *drill.Run) error {
	s.queue.push(arrival{event: e, at: time.Now(), rate: 1})
	if e.Type == drill.TypeRunFinished {
		s.end()
	}
	return nil
}

// Sealed takes the verdict once the evidence is written and the ledger closed, or could
// not be: what no ledger holds was not shown.
func (s *Screen) Sealed(f drill.RunFinished) {
	s.queue.push(arrival{final: &f, at: time.Now(), rate: 1})
}

// stallGrace is how long a terminal gets to take the last frame and to be given back.
const stallGrace = 3 * time.Second

// errStalled: somebody stopped the terminal's output, or its other end is gone.
var errStalled = errors.New("the terminal takes no output: it was left as it is")

// Run draws the screen, on the terminal's alternate page, until the run has ended
// and the person leaves, or nobody has pressed a key for CloseAfter, or until ctx
// ends, which is no error. Then the terminal is as it was before, unless it takes no
// output any more: that is an error, and does not hold Run. It does not stop the
// drill; a Screen runs once.
func (s *Screen) Run(ctx context.Context) error {
	defer s.queue.close()
	err := fmt.Errorf("the screen was shown before")
	s.once.Do(func() { err = s.run(ctx) })
	return err
}

func (s *Screen) run(ctx context.Context) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	go s.closeUnwatched(ctx, leave)
	shown := make(chan error, 1)
	go func() {
		_, err := show(ctx, newModel(s.opts, true), s.opts, s.pump)
		shown <- err
	}()
	select {
	case err := <-shown:
		return err
	case <-ctx.Done():
	}
	grace := time.NewTimer(stallGrace)
	defer grace.Stop()
	select {
	case err := <-shown:
		return err
	case <-grace.C:
		return errStalled
	}
}

// closeUnwatched leaves the screen of a run that has ended when nobody is there.
func (s *Screen) closeUnwatched(ctx context.Context, leave func()) {
	if s.opts.CloseAfter <= 0 {
		return
	}
	select {
	case <-ctx.Done():
		return
	case <-s.ended:
	}
	wait := time.NewTimer(s.opts.CloseAfter)
	defer wait.Stop()
	select {
	case <-ctx.Done():
	case <-s.stay:
	case <-wait.C:
		leave()
	}
}

// pump hands the events to the program in batches until the screen closes.
func (s *Screen) pump(ctx context.Context, send func(tea.Msg)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.queue.ready:
			if batch := s.queue.take(); len(batch) > 0 {
				send(eventsMsg(batch))
			}
		}
	}
}

// show runs the program with a feed beside it, and returns after both have ended.
func show(ctx context.Context, m *model, o Options, feed func(context.Context, func(tea.Msg))) (*model, error) {
	p := tea.NewProgram(m, programOptions(o)...)
	within, done := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { feed(within, p.Send) })
	beside.Go(func() {
		<-within.Done()
		p.Quit() // after the program's own end this does nothing
	})
	_, err := p.Run()
	done()
	beside.Wait()
	if err != nil {
		return m, errext.WithHint(fmt.Errorf("the screen could not be drawn: %w", err), "use --progress plain")
	}
	return m, nil
}

// programOptions leave signals to the process: it ends the screen by its context.
func programOptions(o Options) []tea.ProgramOption {
	all := []tea.ProgramOption{tea.WithAltScreen(), tea.WithoutSignalHandler(), tea.WithoutBracketedPaste()}
	if o.Input != nil {
		all = append(all, tea.WithInput(o.Input))
	}
	if o.Output != nil {
		all = append(all, tea.WithOutput(o.Output))
	}
	return all
}
