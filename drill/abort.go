package drill

import (
	"context"
	"errors"
	"fmt"
	"iter"

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
// whose result was never journaled is taken back too. The journal's lock tells whether
// the process still lives; opening the journal takes it.
//
// The verdict is in Run.Finished: status 8 when an absence could not be proven.
//
// The verdict of a run that had ended stands. What it left is taken back all the same,
// and journaled after the end as a record of its own, with who did it (by); what is not
// proven is then an error of status Unclean. Where nothing is left, nothing is written.
//
// What stays on purpose (Undo.Keep) stays; AbortAll takes that back too.
func Abort(ctx context.Context, j Journal, by string, undo map[string]UndoFunc, also ...Handler) (*Run, error) {
	return abort(ctx, j, by, undo, false, also)
}

// AbortAll is Abort, and takes back what stays on purpose too: the cutover of an
// emergency. A person has to ask for it.
func AbortAll(ctx context.Context, j Journal, by string, undo map[string]UndoFunc, also ...Handler) (*Run, error) {
	return abort(ctx, j, by, undo, true, also)
}

func abort(ctx context.Context, j Journal, by string, undo map[string]UndoFunc, force bool, also []Handler) (*Run, error) {
	run, err := Replay(j.Events())
	if err != nil {
		return run, err
	}
	if run.ID == "" {
		return run, errext.WithHint(errors.New("the journal is empty: the run ended before it changed anything"), "its folder may be deleted")
	}
	if run.Finished != nil {
		if len(run.Left()) == 0 && !(force && len(run.Kept()) > 0) {
			return run, nil
		}
		return takeBack(ctx, run, j, by, force, undo, also)
	}
	x := after(run, j, undo, also)
	x.force = force
	why := "its process ended without undo; aborted afterwards"
	if run.Held != nil {
		why = "it was held (" + run.Held.Why + "); aborted afterwards"
	}
	if err := x.emit("", 0, TypeRunAborting, RunAborting{Why: why}); err != nil && run.Aborting == nil {
		return run, err
	}
	_ = x.undoAll(ctx, func(ChangeState) bool { return true }) // told by Judge
	return run, x.finish()
}
