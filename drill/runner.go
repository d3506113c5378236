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
	// open, and drill abort takes the changes back.
	ErrLeft = errors.New("the run was left without undo")
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

	// Leave, when closed, ends the run at once and without undo (a second
	// Ctrl-C). The first one is the cancelling of Run's context; its cause may
	// carry errext.Terminated for SIGTERM.
	Leave <-chan struct{}

	UndoTimeout time.Duration // for one undo; 0: one minute
	StopGrace   time.Duration // for a step to end after its context; 0: 15 seconds
}

// Run checks all steps before anything is changed, then runs them in order, takes
// back what they changed, and judges. The verdict is in Run.Finished. The error
// is for what has no verdict: wrong use (2), a journal that could not be written
// (6, undo has run all the same), a run that was left (8).
//
// start names service, mode, release, regions and objectives; its steps are
// taken from the playbook.
func (rn *Runner) Run(ctx context.Context, id string, start RunStarted) (*Run, error) {
	if err := rn.usable(id, start); err != nil {
		return nil, errext.WithStatus(err, errext.Usage)
	}
	start.Steps = planOf(rn.Playbook)
	if start.Playbook == "" {
		start.Playbook = rn.Playbook.Name
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	x := &exec{
		id: id, proc: 1, run: &Run{}, began: time.Now(), stop: cancel,
		handlers: slices.Clone(rn.Handlers), undo: rn.Undo, leave: rn.Leave,
		undoTimeout: orElse(rn.UndoTimeout, undoTimeout), grace: orElse(rn.StopGrace, stopGrace),
		busy: map[string]chan struct{}{},
	}
	if err := x.emit("", 0, TypeRunStarted, start); err != nil {
		return x.run, err
	}
	if rn.check(ctx, x) {
		rn.steps(ctx, x)
	}
	return x.end(ctx)
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

func planOf(p playbooks.Playbook) []StepPlan {
	var all []StepPlan
	for _, s := range p.Steps {
		all = append(all, StepPlan{ID: s.ID, Kind: s.Kind, Text: s.Text, Budget: s.Budget})
	}
	return all
}

// check asks every step for its problems and journals all of them. It reports
// whether the run may begin.
func (rn *Runner) check(ctx context.Context, x *exec) bool {
	for _, s := range rn.Playbook.Steps {
		if ctx.Err() != nil {
			return false
		}
		for _, err := range rn.problems(ctx, x, s) {
			if errors.Is(err, ErrLeft) || x.emit(s.ID, 0, TypeProblem, Problem{What: err.Error(), Hint: errext.Hint(err)}) != nil {
				return false
			}
		}
	}
	found := 0
	x.look(func(r *Run) { found = len(r.Problems) })
	return found == 0 && ctx.Err() == nil
}

func (rn *Runner) problems(ctx context.Context, x *exec, s playbooks.Step) []error {
	h, known := rn.Steps[s.Kind]
	switch {
	case !known:
		return []error{fmt.Errorf("unknown kind of step %q", s.Kind)}
	case s.OnTimeout != "" && s.OnTimeout != playbooks.Abort:
		return []error{fmt.Errorf("on_timeout: %s is not supported: nothing here can take a held run up again", s.OnTimeout)}
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

// steps runs the steps in order. After one failed, only those that always run
// are left; an interrupt or a failed journal ends all.
func (rn *Runner) steps(ctx context.Context, x *exec) {
	failed := false
	for _, s := range rn.Playbook.Steps {
		if failed && s.When != playbooks.Always {
			continue
		}
		if !x.step(ctx, rn.Steps[s.Kind], s) {
			failed = true
		}
		if ctx.Err() != nil || x.hasLeft() {
			return
		}
	}
}
