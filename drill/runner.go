package drill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"drkit/internal/errext"
	"drkit/playbooks"
)

// Errors that callers branch on.
var (
	// ErrSkip leaves a step out: its result is skipped, the run goes on, and can
	// be incomplete at best.
	ErrSkip = errors.New("the step was left out")
	// ErrOver answers what comes after the end of a run or of its steps.
	ErrOver = errors.New("the run is over")
	// ErrLeft says that the run was left at once, without undo: the journal is
	// open; drill resume goes on, and drill abort takes the changes back.
	ErrLeft = errors.New("the run was left without undo")
	// ErrPaused holds the run for a person: nothing is undone, nothing more is
	// begun, and drill resume runs the step again. A step's error wraps it; its
	// hint says what the person has to do.
	ErrPaused = errors.New("the run is held")
)

// Names of the signals that a RunAborting carries.
const (
	SignalInterrupt = "interrupt"
	SignalTerminate = "terminated"
)

// The time that one undo gets, and that work gets to end after its context.
const (
	undoTimeout = time.Minute
	stopGrace   = 15 * time.Second
)

// Runner runs a playbook. Playbook, Handlers, Steps and Undo must be set; a
// Runner runs once.
type Runner struct {
	Playbook playbooks.Playbook
	Handlers []Handler              // the journal first
	Steps    map[string]StepHandler // by kind
	Undo     map[string]UndoFunc    // by kind

	// Checks finds what speaks against the run as a whole, before its steps are
	// checked: it changes nothing. nil: nothing to ask.
	Checks func(ctx context.Context) []error

	// Leave, when closed, ends the run at once and without undo (a second
	// Ctrl-C). The first one is the cancelling of Run's context; its cause may
	// carry errext.Terminated for SIGTERM.
	Leave <-chan struct{}
	// Pause, when closed, holds the run before its next step: a person wants it.
	Pause <-chan struct{}

	// Stop is the kill switch: it says why nothing may be changed, "" when nothing
	// speaks against it. Set before the start, it refuses the run; while it runs, it
	// ends it with undo. It is asked between times and before each change. nil: there
	// is none.
	Stop      func(ctx context.Context) (why string, err error)
	StopEvery time.Duration // between two looks at it; 0: 5 seconds

	UndoTimeout time.Duration // for one undo; 0: one minute
	StopGrace   time.Duration // for a step to end after its context; 0: 15 seconds
}

// Run checks all steps before anything is changed, then runs them in order, takes
// back what they changed, and judges. The verdict is in Run.Finished. The error
// is for what has no verdict: wrong use (2), a journal that could not be written
// (6, undo has run all the same), a run that is held for a person (7, Run.Held,
// nothing is undone), a run that was left (8).
//
// start names service, mode, release, regions and objectives; its steps are
// those of the playbook that belong to its mode.
func (rn *Runner) Run(ctx context.Context, id string, start RunStarted) (*Run, error) {
	if err := rn.usable(id, start); err != nil {
		return nil, errext.WithStatus(err, errext.Usage)
	}
	if start.Mode == "" {
		start.Mode = rn.Playbook.Mode
	}
	plan := inMode(rn.Playbook.Steps, start.Mode)
	start.Steps = planOf(plan)
	if start.Playbook == "" {
		start.Playbook = rn.Playbook.Name
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	x := rn.exec(id, &Run{}, cancel)
	if err := x.emit("", 0, TypeRunStarted, start); err != nil {
		return x.run, err
	}
	defer x.watchStop(ctx, orElse(rn.StopEvery, stopEvery))()
	if rn.check(ctx, x, plan) {
		rn.steps(ctx, x, groups(plan))
	}
	return x.end(ctx)
}

// exec is this process's part of a run.
func (rn *Runner) exec(id string, run *Run, stop context.CancelCauseFunc) *exec {
	return &exec{
		id: id, proc: run.Last.Proc + 1, run: run, began: time.Now(), stop: stop,
		handlers: slices.Clone(rn.Handlers), undo: rn.Undo, leave: rn.Leave, pause: rn.Pause, stopSwitch: rn.Stop,
		undoTimeout: orElse(rn.UndoTimeout, undoTimeout), grace: orElse(rn.StopGrace, stopGrace),
		busy: map[string]chan struct{}{},
	}
}

func orElse(d, other time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return other
}

func (rn *Runner) usable(id string, start RunStarted) error {
	switch {
	case id == "":
		return errors.New("the run has no id")
	case len(rn.Handlers) == 0:
		return errors.New("a drill needs a journal")
	case len(rn.Playbook.Steps) == 0:
		return fmt.Errorf("playbook %q has no steps", rn.Playbook.Name)
	case start.Objectives.RTO <= 0:
		return errext.WithHint(errors.New("the objectives promise no recovery time"), "set objectives.rto in drkit.yaml, for example 30m")
	}
	return nil
}

// inMode are the steps of a playbook that belong to a mode; the others are not in
// the plan at all.
func inMode(steps []playbooks.Step, mode string) []playbooks.Step {
	return slices.DeleteFunc(slices.Clone(steps), func(s playbooks.Step) bool {
		return len(s.Modes) > 0 && !slices.Contains(s.Modes, mode)
	})
}

func planOf(steps []playbooks.Step) []StepPlan {
	var all []StepPlan
	for _, s := range steps {
		all = append(all, StepPlan{ID: s.ID, Kind: s.Kind, Text: s.Text, Budget: s.Budget, Group: s.Group, Who: s.Who})
	}
	return all
}

// check asks every step for its problems and journals all of them. It reports
// whether the run may begin.
func (rn *Runner) check(ctx context.Context, x *exec, plan []playbooks.Step) bool {
	if len(plan) == 0 {
		p := Problem{What: fmt.Sprintf("no step of playbook %q belongs to this run's mode", rn.Playbook.Name), Hint: "see its modes with drkit playbook show"}
		_ = x.emit("", 0, TypeProblem, p) // a failed journal is told at the end
		return false
	}
	if p := rn.stopped(ctx, x); p != nil && x.emit("", 0, TypeProblem, *p) != nil {
		return false
	}
	if rn.Checks != nil && !x.problems("", rn.Checks(ctx)) {
		return false
	}
	for _, s := range plan {
		if ctx.Err() != nil {
			return false
		}
		if !x.problems(s.ID, rn.problems(ctx, x, s)) {
			return false
		}
	}
	found := 0
	x.look(func(r *Run) { found = len(r.Problems) })
	return found == 0 && ctx.Err() == nil
}

// problems journals what a check found; false when the run is over.
func (x *exec) problems(step string, found []error) bool {
	for _, err := range found {
		if errors.Is(err, ErrLeft) || x.emit(step, 0, TypeProblem, Problem{What: err.Error(), Hint: errext.Hint(err)}) != nil {
			return false
		}
	}
	return true
}

func (rn *Runner) problems(ctx context.Context, x *exec, s playbooks.Step) []error {
	h, known := rn.Steps[s.Kind]
	switch {
	case !known:
		return []error{fmt.Errorf("unknown kind of step %q", s.Kind)}
	case s.OnTimeout != "" && s.OnTimeout != playbooks.Abort && s.OnTimeout != playbooks.Hold:
		return []error{fmt.Errorf("unknown action on_timeout: %s", s.OnTimeout)}
	case s.When != "" && s.When != playbooks.Passed && s.When != playbooks.Always:
		return []error{fmt.Errorf("unknown condition when: %s", s.When)}
	}
	var found []error
	if err := x.await(ctx, func(ctx context.Context) error {
		found = h.Check(ctx, s)
		return nil
	}); err != nil {
		if ctx.Err() != nil {
			return nil // interrupted: found is not ours to read
		}
		return []error{err}
	}
	return found
}

// steps runs the steps in order, group by group. After one failed, only those
// that always run are left; an interrupt, a hold or a failed journal ends all.
func (rn *Runner) steps(ctx context.Context, x *exec, all [][]playbooks.Step) {
	failed := false
	for _, g := range all {
		if failed {
			g = slices.DeleteFunc(g, func(s playbooks.Step) bool { return s.When != playbooks.Always })
		}
		if len(g) == 0 {
			continue
		}
		if x.wantsPause() {
			x.hold(&Held{Why: "a person paused it", By: byPerson(x.run.Plan)})
			return
		}
		switch rn.group(ctx, x, g) {
		case stepFailed:
			failed = true
			x.unhold()
		case stepHeld:
			return
		}
		if ctx.Err() != nil || x.hasLeft() {
			return
		}
	}
}
