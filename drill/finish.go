package drill

import (
	"context"
	"fmt"
	"time"

	"drkit/internal/errext"
)

// end closes the run: it takes back what is left, judges, and journals the end.
// An undo has its own, fresh context: the run's may be cancelled already.
func (x *exec) end(ctx context.Context) (*Run, error) {
	cause := x.close(ctx)
	if cause == nil && x.holding() {
		if err := x.holdNow(); err != nil {
			return x.run, err
		}
	}
	if cause != nil {
		_ = x.emit("", 0, TypeRunAborting, aborting(cause)) // a failed journal is told below
	}
	if !x.hasLeft() {
		_ = x.undoAll(context.WithoutCancel(ctx), func(ChangeState) bool { return true }) // told by Judge
	}
	if x.hasLeft() {
		err := fmt.Errorf("run %s: %w", x.id, ErrLeft)
		return x.run, errext.WithHint(errext.WithStatus(err, errext.Unclean), "`drkit drill resume "+x.id+"` goes on with it, `drkit drill abort "+x.id+"` takes its changes back")
	}
	return x.run, x.finish()
}

// close refuses further changes, and returns why the run ends early, if it does
// for another reason than its journal.
func (x *exec) close(ctx context.Context) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closing = true
	if x.journalErr != nil || x.left {
		return nil
	}
	return context.Cause(ctx)
}

func (x *exec) hasLeft() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.left
}

func aborting(cause error) RunAborting {
	a := RunAborting{Why: cause.Error(), Signal: SignalInterrupt}
	if errext.StatusOf(cause) == errext.Terminated {
		a.Signal = SignalTerminate
	}
	return a
}

// finish judges and journals the verdict in one go, so that no late event comes
// between. With a failed journal the verdict can only be told, with status 6
// among its reasons.
func (x *exec) finish() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.proc > 1 && x.run.Aborting == nil {
		_ = x.emitLocked("", 0, TypeGate, clockGate(x.run, x.proc, time.Now())) // a failed journal is told below
	}
	if g, seen := sleepGate(x.run); seen && x.run.Aborting == nil {
		_ = x.emitLocked("", 0, TypeGate, g)
	}
	verdict := Judge(x.run)
	if x.journalErr != nil {
		verdict = EvidenceLost(verdict, x.journalErr)
	}
	err := x.emitLocked("", 0, TypeRunFinished, verdict)
	x.over = true
	if err != nil && x.run.Finished != nil {
		lost := EvidenceLost(*x.run.Finished, err)
		x.run.Finished = &lost
	}
	return err
}

// EvidenceLost adds a failure of the journal or the ledger to a verdict, once. What
// nothing recorded was not shown: a recovery becomes incomplete.
func EvidenceLost(v RunFinished, journal error) RunFinished {
	for _, r := range v.Reasons {
		if r.Status == int(errext.Evidence) {
			return v
		}
	}
	if v.Verdict == Recovered || v.Verdict == ObjectiveMissed {
		v.Verdict = Incomplete
	}
	v.Reasons = append(v.Reasons, reason(errext.Evidence, journal.Error(), errext.Hint(journal)))
	v.Status = int(errext.Combine(errext.Status(v.Status), errext.Evidence))
	return v
}
