package drill

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"drkit/internal/errext"
	"drkit/playbooks"
)

// outcome is how a step ended, for those that come after it.
type outcome int

const (
	stepDone   outcome = iota // passed, left out, or could not be judged
	stepFailed                // or was stopped
	stepHeld                  // waits for a person
)

// step runs one step with its retries.
func (x *exec) step(ctx context.Context, h StepHandler, s playbooks.Step) outcome {
	began := x.attempts(s.ID)
	for attempt := began + 1; ; attempt++ {
		if ctx.Err() != nil || x.leaves() || x.emit(s.ID, attempt, TypeStepStarted, StepStarted{Kind: s.Kind}) != nil {
			return stepFailed
		}
		late, err := x.attempt(ctx, h, s, attempt)
		last := attempt > began+s.Retries
		hold := x.holds(s, err, late && last)
		fin := x.finished(ctx, s.ID, attempt, err, hold != nil)
		if x.emit(s.ID, attempt, TypeStepFinished, fin) != nil || ctx.Err() != nil {
			return stepFailed
		}
		switch {
		case hold != nil:
			x.hold(hold)
			return stepHeld
		case fin.Result != Failed:
			return stepDone
		case last || errors.As(err, new(panicked)):
			return stepFailed
		}
		if x.undoAgain(ctx, func(c ChangeState) bool { return c.Step == s.ID && c.Attempt == attempt }) != nil {
			return stepFailed
		}
	}
}

// attempts is how often a step was begun so far, by this process or another.
func (x *exec) attempts(id string) (n int) {
	x.look(func(r *Run) {
		if s := r.step(id); s != nil {
			n = s.Attempts
		}
	})
	return n
}

// timedOut is the cause of a step's context that ran out of its own time-out.
type timedOut struct{ after time.Duration }

func (t timedOut) Error() string { return fmt.Sprintf("ran out of its time of %v", t.after) }

// Is lets callers ask for context.DeadlineExceeded.
func (t timedOut) Is(target error) bool { return target == context.DeadlineExceeded }

// attempt calls the handler once. A handler that says all is well beside a red
// gate of its own is not believed. late says that the step ran out of its time.
func (x *exec) attempt(ctx context.Context, h StepHandler, s playbooks.Step, n int) (late bool, err error) {
	if s.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, s.Timeout, timedOut{s.Timeout})
		defer cancel()
	}
	err = x.await(ctx, func(ctx context.Context) error { return h.Do(ctx, s, &scope{x, s.ID, n}) })
	var p panicked
	if errors.As(err, &p) {
		x.logStack(s.ID, n, p.stack)
	}
	if err == nil {
		return false, x.redGate(s.ID, n)
	}
	if cause := context.Cause(ctx); errors.As(cause, new(timedOut)) && !errors.Is(err, ErrLeft) {
		return true, outOfTime(cause, err)
	}
	return false, err
}

// outOfTime makes a time-out a failed gate, unless the handler's error says better.
func outOfTime(cause, err error) error {
	status := errext.StatusOf(err)
	if status == errext.Failed {
		status = errext.Gate
	}
	if !errors.As(err, new(timedOut)) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	return errext.WithHint(errext.WithStatus(err, status), errext.Hint(err))
}

func (x *exec) redGate(step string, attempt int) error {
	var err error
	x.look(func(r *Run) {
		for _, g := range r.Gates {
			if g.Step == step && g.Attempt == attempt && g.Result == Failed && err == nil {
				err = fmt.Errorf("gate %s failed: expected %s, observed %s", g.ID, g.Expected, g.Observed)
				err = errext.WithHint(errext.WithStatus(err, gateStatus(g.Gate)), g.Hint)
			}
		}
	})
	return err
}

// unmeasured reports whether a gate of the step could not be judged: the step did
// its work, and yet must not read as passed.
func (x *exec) unmeasured(step string, attempt int) (found bool) {
	x.look(func(r *Run) {
		for _, g := range r.Gates {
			found = found || g.Step == step && g.Attempt == attempt && g.Result == Unmeasured
		}
	})
	return found
}

// logStack keeps the first lines of a panic's stack in the journal.
func (x *exec) logStack(step string, attempt int, stack []byte) {
	for i, line := range strings.Split(string(stack), "\n") {
		if i == 40 || x.emit(step, attempt, TypeLog, Log{From: "panic", Line: strings.TrimSpace(line)}) != nil {
			return
		}
	}
}

// finished turns what a handler returned into the step's result. What was stopped
// from outside or waits for a person is not judged, unless a gate of its own is red.
func (x *exec) finished(ctx context.Context, step string, attempt int, err error, held bool) StepFinished {
	var beside groupFailed
	stopped := ctx.Err() != nil
	switch {
	case err == nil && x.unmeasured(step, attempt):
		return StepFinished{Result: Unmeasured}
	case err == nil:
		return StepFinished{Result: Passed}
	case errors.Is(err, ErrSkip):
		return StepFinished{Result: Skipped, Error: err.Error(), Hint: errext.Hint(err)}
	}
	fin := StepFinished{Result: Failed, Error: err.Error(), Hint: errext.Hint(err), Status: int(errext.StatusOf(err))}
	if (held || stopped) && x.redGate(step, attempt) == nil {
		fin.Result, fin.Status = Unmeasured, 0
	}
	if stopped && errors.As(context.Cause(ctx), &beside) {
		fin.Error = beside.Error()
	}
	return fin
}
