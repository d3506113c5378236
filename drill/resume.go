package drill

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"drkit/internal/errext"
	"drkit/playbooks"
)

// Resume goes on with a run that was held, left, or whose process is gone, as a new
// process of it. The first handler is its journal, opened anew (Journal). today is
// what would be run today: a run is gone on with only as it was planned.
//
// Nothing of an earlier process is trusted: each finished step is checked again
// (Rechecker), and is run again where it cannot be. What does not hold any more is
// taken back and run again, with every step after it. Its clock went on meanwhile.
//
// Errors are as those of Run; status 3 is a run that cannot be resumed, or not now:
// then nothing was changed, and the journal is as it was.
func (rn *Runner) Resume(ctx context.Context, id string, today RunStarted) (*Run, error) {
	if len(rn.Handlers) == 0 {
		return nil, errext.WithStatus(errors.New("a drill needs a journal"), errext.Usage)
	}
	journal, ok := rn.Handlers[0].(Journal)
	if !ok {
		return nil, errext.WithStatus(errors.New("a run is resumed from its journal, which this handler is not"), errext.Usage)
	}
	run, err := Replay(journal.Events())
	if err != nil {
		return run, err
	}
	plan := inMode(rn.Playbook.Steps, run.Plan.Mode)
	if err := resumable(run, id, today, plan); err != nil {
		return run, errext.WithStatus(err, errext.Refused)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	x := rn.exec(id, run, cancel)
	if err := rn.possible(ctx, x, plan); err != nil {
		return run, err
	}
	defer x.watchStop(ctx, orElse(rn.StopEvery, stopEvery))()
	clock := clockGate(run, run.Last.Proc, x.began)
	if err := errors.Join(x.emit("", 0, TypeResumed, Resumed{By: today.By, Tool: today.Tool, Binary: today.Binary}), x.emit("", 0, TypeGate, clock)); err != nil {
		return run, err
	}
	if todo, ok := rn.recheck(ctx, x, plan); ok {
		rn.steps(ctx, x, todo)
	}
	return x.end(ctx)
}

// resumable says why a run cannot be gone on with.
func resumable(r *Run, id string, today RunStarted, plan []playbooks.Step) error {
	abort := "`drkit drill abort " + id + "` takes back what is left of it"
	switch {
	case r.ID == "":
		return errext.WithHint(errors.New("the journal is empty: the run ended before it began anything"), abort)
	case r.ID != id:
		return fmt.Errorf("the journal is of run %s, not of %s", r.ID, id)
	case r.Finished != nil:
		return errext.WithHint(fmt.Errorf("run %s has ended: %s", id, r.Finished.Verdict), "begin another with drkit drill run")
	case r.Aborting != nil && len(r.Left()) == 0:
		return errext.WithHint(fmt.Errorf("run %s is taken back whole (%s)", id, r.Aborting.Why), abort)
	case len(r.Problems) > 0:
		return errext.WithHint(fmt.Errorf("run %s was being refused: %s", id, r.Problems[0].What), abort)
	case today.PlanHash != r.Plan.PlanHash || !slices.Equal(r.Plan.Steps, planOf(plan)):
		return errext.WithHint(fmt.Errorf("run %s was planned otherwise: its plan is %.12s, today's is %.12s", id, r.Plan.PlanHash, today.PlanHash),
			"put drkit.yaml, playbook and flags back as they were, or end it: "+abort)
	}
	return failedBefore(r, abort)
}

// failedBefore refuses a run that had failed when its process ended: a kill at the
// right moment must not give it a second try. The step at which a run was held is
// tried again.
func failedBefore(r *Run, abort string) error {
	held := ""
	if r.Held != nil {
		held = r.Held.Step
	}
	for _, s := range r.Steps {
		if s.Result == Failed && s.ID != held {
			return errext.WithHint(fmt.Errorf("run %s had failed when its process ended: step %s: %s", r.ID, s.ID, s.Error), abort)
		}
	}
	for _, g := range r.Gates {
		if s := r.step(g.Step); s != nil && g.Attempt < s.Attempts {
			continue // it was being tried again, as playbook or person allowed
		}
		if g.Result == Failed && (held == "" || g.Step != held) {
			return errext.WithHint(fmt.Errorf("run %s had failed when its process ended: gate %s: expected %s, observed %s", r.ID, g.ID, g.Expected, g.Observed), abort)
		}
	}
	return nil
}

// possible asks every step for its problems, as before a run, and journals nothing:
// the run stays as it is when there are any.
func (rn *Runner) possible(ctx context.Context, x *exec, plan []playbooks.Step) error {
	var found []error
	if p := rn.stopped(ctx, x); p != nil {
		found = append(found, errext.WithHint(errors.New(p.What), p.Hint))
	}
	if rn.Checks != nil {
		found = append(found, rn.Checks(ctx)...)
	}
	for _, s := range plan {
		for _, err := range rn.problems(ctx, x, s) {
			found = append(found, errext.WithHint(fmt.Errorf("step %s: %w", s.ID, err), errext.Hint(err)))
		}
		if x.hasLeft() {
			return ErrLeft
		}
		if ctx.Err() != nil {
			return fmt.Errorf("run %s was not gone on with, and is as it was: %w", x.id, context.Cause(ctx))
		}
	}
	if len(found) == 0 {
		return nil
	}
	err := errext.WithStatus(fmt.Errorf("run %s cannot go on: %w", x.id, errors.Join(found...)), errext.Refused)
	return errext.WithHint(err, "mend that and resume again, or end it: drkit drill abort "+x.id)
}

// recheck finds the steps that are to be run, in their groups, and takes back what
// they changed before. ok is false when the run goes on no further.
func (rn *Runner) recheck(ctx context.Context, x *exec, plan []playbooks.Step) (todo [][]playbooks.Step, ok bool) {
	cut := x.run.Resumes[len(x.run.Resumes)-1].Cut
	again, trusted := map[string]bool{}, cut == nil && ending(x.run, plan)
	broken := false
	for _, s := range plan {
		switch {
		case broken || x.result(s.ID) != Passed:
			again[s.ID] = true
			continue
		case trusted:
			continue
		}
		h, can := rn.Steps[s.Kind].(Rechecker)
		if again[s.ID] = !can; !can && !x.leftSomething(s.ID) {
			continue // it is run again alone
		}
		if !can {
			h = unchecked{}
		}
		err := x.recheck(ctx, h, s)
		switch {
		case x.hasLeft() || ctx.Err() != nil:
			return nil, false
		case errext.StatusOf(err) == errext.Refused:
			x.hold(&Held{Why: "step " + s.ID + ": " + err.Error(), Step: "", Next: errext.Hint(err), By: HeldByTool})
			return nil, false
		}
		broken, again[s.ID] = err != nil, err != nil
	}
	for _, g := range groups(plan) {
		todo = append(todo, slices.DeleteFunc(g, func(s playbooks.Step) bool { return !again[s.ID] }))
	}
	return todo, x.anew(ctx, slices.Concat(todo...))
}

// leftSomething says that others may rest on what a step did: it changed something, or
// it stamped the recovery clock.
func (x *exec) leftSomething(id string) (found bool) {
	x.look(func(r *Run) {
		found = slices.ContainsFunc(r.Changes, func(c ChangeState) bool { return c.Step == id && !c.Undone }) ||
			slices.ContainsFunc(r.Instants, func(in InstantState) bool {
				return in.Step == id && in.Name != InstantDeclared && slices.Contains(ladder, in.Name)
			})
	})
	return found
}

// unchecked is a step that cannot say whether what it did still holds.
type unchecked struct{}

func (unchecked) Recheck(context.Context, playbooks.Step, Scope) error {
	return errors.New("nothing can tell whether it still holds")
}

// ending says that the steps had done their work and only the end was missing: what
// they made was being taken back, and checking it again would find it gone.
func ending(r *Run, plan []playbooks.Step) bool {
	rest := slices.DeleteFunc(slices.Clone(plan), func(s playbooks.Step) bool { return r.step(s.ID).Result == Passed })
	return !slices.ContainsFunc(rest, func(s playbooks.Step) bool { return s.When != playbooks.Always }) ||
		slices.ContainsFunc(r.Changes, func(c ChangeState) bool {
			s := r.step(c.Step)
			return c.Undone && s != nil && s.Result == Passed && c.Attempt == s.Attempts
		})
}

func (x *exec) result(id string) (result string) {
	x.look(func(r *Run) { result = r.step(id).Result })
	return result
}

// recheck asks one step, within its own time, and journals the answer.
func (x *exec) recheck(ctx context.Context, h Rechecker, s playbooks.Step) error {
	asked := ctx
	if s.Timeout > 0 {
		var cancel context.CancelFunc
		asked, cancel = context.WithTimeoutCause(ctx, s.Timeout, timedOut{s.Timeout})
		defer cancel()
	}
	n := x.attempts(s.ID)
	err := x.await(asked, func(ctx context.Context) error { return h.Recheck(ctx, s, &scope{x, s.ID, n}) })
	if err == nil {
		err = x.redGate(s.ID, n)
	}
	if ctx.Err() != nil || errext.StatusOf(err) == errext.Refused {
		return err // cut off, or not for us to say
	}
	said := Rechecked{Holds: err == nil}
	if err != nil {
		said.Why = err.Error()
	}
	if lost := x.emit(s.ID, n, TypeRechecked, said); lost != nil && err == nil {
		err = lost
	}
	return err
}

// anew takes back, newest first, what the steps that are to be run changed before.
// What cannot be taken back holds the run again: nobody can run over it.
func (x *exec) anew(ctx context.Context, todo []playbooks.Step) bool {
	err := x.undoAgain(ctx, func(c ChangeState) bool {
		return slices.ContainsFunc(todo, func(s playbooks.Step) bool { return s.ID == c.Step })
	})
	if err != nil && !errors.Is(err, ErrLeft) && ctx.Err() == nil {
		x.hold(&Held{Why: "what has to be run again could not be taken back: " + err.Error(), By: HeldByTool})
	}
	return err == nil && ctx.Err() == nil
}
