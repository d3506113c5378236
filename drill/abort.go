package drill

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"drkit/internal/errext"
)

// Replay folds a journal's events. On an error it returns the run as far as it
// could be read.
func Replay(events iter.Seq2[Event, error]) (*Run, error) {
	r := &Run{}
	for e, err := range events {
		if err == nil {
			err = r.Apply(e)
		}
		if err != nil {
			return r, errext.WithStatus(fmt.Errorf("reading the journal: %w", err), errext.Evidence)
		}
	}
	return r, nil
}

// Abort ends a run whose process is gone: it reads the journal, takes back what
// is not proven to be taken back, and closes the journal as aborted. A change
// whose result was never journaled is taken back too. A run that has ended clean
// is left as it is. The journal's lock tells whether the process still lives;
// opening the journal takes it.
//
// The verdict is in Run.Finished: status 8 when an absence could not be proven.
//
// What stays on purpose (Undo.Keep) stays; AbortAll takes that back too.
func Abort(ctx context.Context, j Journal, undo map[string]UndoFunc, also ...Handler) (*Run, error) {
	return abort(ctx, j, undo, false, also)
}

// AbortAll is Abort, and takes back what stays on purpose too: the cutover of an
// emergency. A person has to ask for it.
func AbortAll(ctx context.Context, j Journal, undo map[string]UndoFunc, also ...Handler) (*Run, error) {
	return abort(ctx, j, undo, true, also)
}

func abort(ctx context.Context, j Journal, undo map[string]UndoFunc, force bool, also []Handler) (*Run, error) {
	run, err := Replay(j.Events())
	if err != nil {
		return run, err
	}
	if run.ID == "" {
		return run, errext.WithHint(errors.New("the journal is empty: the run ended before it changed anything"), "its folder may be deleted")
	}
	if run.Finished != nil && len(run.Left()) == 0 && !(force && len(run.Kept()) > 0) {
		return run, nil
	}
	x := &exec{
		force: force,
		id:    run.ID, proc: run.Last.Proc + 1, run: run, began: time.Now(), stop: func(error) {},
		handlers: append([]Handler{j}, also...), undo: undo, closing: true,
		undoTimeout: undoTimeout, grace: stopGrace, busy: map[string]chan struct{}{},
	}
	why := "its process ended without undo; aborted afterwards"
	switch {
	case run.Held != nil:
		why = "it was held (" + run.Held.Why + "); aborted afterwards"
	case run.Finished != nil && len(run.Left()) > 0:
		why = "it had ended (" + run.Finished.Verdict + ") with changes that are not proven to be taken back; aborted afterwards"
	case run.Finished != nil:
		why = "it had ended (" + run.Finished.Verdict + "), and what it had kept on purpose was taken back afterwards"
	}
	if err := x.emit("", 0, TypeRunAborting, RunAborting{Why: why}); err != nil && run.Aborting == nil {
		return run, err
	}
	_ = x.undoAll(ctx, func(ChangeState) bool { return true }) // told by Judge
	return run, x.finish()
}
