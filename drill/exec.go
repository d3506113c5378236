package drill

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"drkit/internal/errext"
)

// exec is one process's part of a run: it stamps, journals and folds events, and
// keeps what an undo needs. Runner and Abort drive it.
type exec struct {
	id    string
	proc  int
	began time.Time
	stop  context.CancelCauseFunc // ends the steps when the journal fails

	undo               map[string]UndoFunc
	leave, pause       <-chan struct{}
	stopSwitch         func(context.Context) (why string, err error) // nil: there is none
	undoTimeout, grace time.Duration

	mu         sync.Mutex
	run        *Run
	handlers   []Handler
	journalErr error
	stopNoted  bool                     // a look at the kill switch that failed is noted
	closing    bool                     // no further changes
	over       bool                     // no further events
	left       bool                     // left without undo
	held       *Held                    // why the run stops here for a person; nil: it does not
	force      bool                     // take back what would stay, too
	changes    int                      // intents so far
	busy       map[string]chan struct{} // changes under way; closed when done
}

// emit stamps, journals and folds one event. After the journal has failed, the
// fold goes on without it, so that undo and verdict are still right.
func (x *exec) emit(step string, attempt int, typ string, data any) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.emitLocked(step, attempt, typ, data)
}

func (x *exec) emitLocked(step string, attempt int, typ string, data any) error {
	if x.over {
		return ErrOver
	}
	raw, err := json.Marshal(bounded(data))
	if err != nil {
		return fmt.Errorf("event %s: %w", typ, err)
	}
	now := time.Now()
	e := Event{
		Run: x.id, Seq: x.run.Seq + 1, Wall: now.UTC().Round(0), Mono: now.Sub(x.began),
		Proc: x.proc, Step: step, Attempt: attempt, Type: typ, Data: raw,
	}
	commit, err := x.run.prepare(e)
	if err != nil {
		return err
	}
	if err := x.journal(e); err != nil && typ == TypeIntent {
		return err // nothing was changed yet: there is no intent
	}
	commit()
	x.show(e)
	return x.journalErr
}

// look reads the run while nothing is folded into it.
func (x *exec) look(f func(*Run)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	f(x.run)
}

func (x *exec) journal(e Event) error {
	if x.journalErr != nil {
		return x.journalErr
	}
	if err := x.handlers[0].Event(e, x.run); err != nil {
		x.journalErr = errext.WithHint(errext.WithStatus(fmt.Errorf("the journal of run %s could not be written: %w", x.id, err), errext.Evidence),
			"free space or mend the disk, then run `drkit drill abort "+x.id+"` to close the journal")
		x.stop(x.journalErr)
	}
	return x.journalErr
}

// show hands the event to the other handlers; one that fails gets no more.
func (x *exec) show(e Event) {
	for i := 1; i < len(x.handlers); i++ {
		if x.handlers[i] != nil && x.handlers[i].Event(e, x.run) != nil {
			x.handlers[i] = nil
		}
	}
}

// await runs f, and returns early when f outlives its context by more than the
// grace, or when the run is left. A panic of f is an error.
func (x *exec) await(ctx context.Context, f func(context.Context) error) error {
	done := make(chan error, 1)
	go func() { done <- calm(ctx, f) }()
	select {
	case err := <-done:
		return err
	case <-x.leave:
		return x.leaveNow()
	case <-ctx.Done():
	}
	grace := time.NewTimer(x.grace)
	defer grace.Stop()
	select {
	case err := <-done:
		return err
	case <-x.leave:
		return x.leaveNow()
	case <-grace.C:
		return fmt.Errorf("%w, and did not stop within another %v", context.Cause(ctx), x.grace)
	}
}

// leaves leaves the run where a person wants that, and says so.
func (x *exec) leaves() bool {
	select {
	case <-x.leave:
		_ = x.leaveNow()
		return true
	default:
		return false
	}
}

func (x *exec) leaveNow() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.over, x.left = true, true
	return ErrLeft
}

// panicked is a caught panic with its stack.
type panicked struct {
	value any
	stack []byte
}

func (p panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

func calm(ctx context.Context, f func(context.Context) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicked{v, debug.Stack()}
		}
	}()
	return f(ctx)
}
