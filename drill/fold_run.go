package drill

import (
	"errors"
	"fmt"
	"slices"
)

// Folds of the run itself and of its steps.

func checkStarted(_ *Run, _ Event, s RunStarted) error {
	seen := map[string]bool{}
	for _, p := range s.Steps {
		if p.ID == "" || seen[p.ID] {
			return fmt.Errorf("the plan's step ids must be there and unique: %q", p.ID)
		}
		seen[p.ID] = true
	}
	return nil
}

func foldStarted(r *Run, e Event, s RunStarted) {
	r.Plan, r.Begun = s, stamp(e)
	for _, a := range s.Approvals {
		foldApproval(r, e, a)
	}
	for _, p := range s.Steps {
		r.Steps = append(r.Steps, StepState{StepPlan: p})
	}
}

func checkFinished(_ *Run, _ Event, f RunFinished) error {
	if !slices.Contains(verdicts, f.Verdict) {
		return fmt.Errorf("unknown verdict %q", f.Verdict)
	}
	return nil
}

func foldFinished(r *Run, e Event, f RunFinished) {
	r.Finished, r.Ended = &f, stamp(e)
	for i := range r.Steps {
		s := &r.Steps[i]
		if s.Running() {
			s.Result, s.Error = Unmeasured, "was cut off before its end"
		} else if s.Result == "" {
			s.Result = NotReached
		}
	}
}

func foldAborting(r *Run, _ Event, a RunAborting) {
	r.Aborting, r.Finished, r.Ended, r.Held = &a, nil, Stamp{}, nil
}

func checkHeld(r *Run, _ Event, _ Held) error {
	if now := r.Current(); now != nil {
		return fmt.Errorf("holds the run while step %q runs", now.ID)
	}
	return nil
}

func foldHeld(r *Run, _ Event, h Held) { r.Held = &h }

func checkResumed(r *Run, e Event, _ Resumed) error {
	if e.Proc == r.Last.Proc {
		return errors.New("resumes the run from the process that ran it")
	}
	return nil
}

// foldResumed ends what was under way when the process before ended. An abort that
// did not come to its end is over, too: what it took back is not there any more.
func foldResumed(r *Run, e Event, x Resumed) {
	r.Resumes = append(r.Resumes, ResumedState{x, stamp(e), r.Held, r.Aborting})
	r.Held, r.Aborting = nil, nil
	for _, s := range r.RunningSteps() {
		s.Ended, s.Result, s.Error = stamp(e), Unmeasured, "was cut off when its process ended"
	}
}

func checkStepStarted(r *Run, e Event, _ StepStarted) error {
	if e.Step == "" {
		return errors.New("names no step")
	}
	group := r.step(e.Step).Group
	for _, now := range r.RunningSteps() {
		if group == "" || now.Group != group || now.ID == e.Step {
			return fmt.Errorf("begins while step %q runs", now.ID)
		}
	}
	return nil
}

func foldStepStarted(r *Run, e Event, _ StepStarted) {
	s := r.step(e.Step)
	s.Attempts++
	if s.Started.IsZero() {
		s.Started = stamp(e)
	}
	s.Ended, s.Result, s.Error, s.Hint, s.Status = Stamp{}, "", "", "", 0
	if s.Attempts > 1 {
		r.forget(func(step string) bool { return step == e.Step })
	}
}

// forget takes out what steps showed that are run again: what passed does not count
// any more, and what did not pass stays until it is judged anew.
func (r *Run) forget(of func(step string) bool) {
	r.Gates = slices.DeleteFunc(r.Gates, func(g GateState) bool { return g.Result == Passed && of(g.Step) })
	r.Proofs = slices.DeleteFunc(r.Proofs, func(p ProofState) bool { return p.Proven && of(p.Step) })
}

func checkRechecked(r *Run, e Event, x Rechecked) error {
	switch s := r.step(e.Step); {
	case s == nil:
		return errors.New("names no step")
	case s.Result != Passed:
		return fmt.Errorf("rechecks step %q, which has not passed", s.ID)
	case r.Current() != nil:
		return fmt.Errorf("rechecks a step while step %q runs", r.Current().ID)
	}
	return nil
}

// foldRechecked takes back what the step that does not hold, and those after it, are
// known for. The start of the recovery clock stays: it does not begin anew.
func foldRechecked(r *Run, e Event, x Rechecked) {
	if x.Holds {
		return
	}
	i := slices.IndexFunc(r.Steps, func(s StepState) bool { return s.ID == e.Step })
	anew := map[string]bool{}
	for k := i; k < len(r.Steps); k++ {
		s := &r.Steps[k]
		anew[s.ID] = true
		if !s.Started.IsZero() {
			s.Result, s.Error, s.Hint, s.Status = NotReached, fmt.Sprintf("does not hold any more: step %s: %s", e.Step, x.Why), "", 0
		}
	}
	of := func(step string) bool { return anew[step] }
	r.forget(of)
	r.Instants = slices.DeleteFunc(r.Instants, func(in InstantState) bool { return in.Name != InstantDeclared && of(in.Step) })
	r.Memos = slices.DeleteFunc(r.Memos, func(m MemoState) bool { return of(m.Step) })
}

func checkMemo(_ *Run, _ Event, m Memo) error {
	if m.Key == "" {
		return errors.New("the memo has no key")
	}
	return nil
}

func foldMemo(r *Run, e Event, m Memo) {
	r.Memos = slices.DeleteFunc(r.Memos, func(old MemoState) bool { return old.Step == e.Step && old.Key == m.Key })
	r.Memos = append(r.Memos, MemoState{m, e.Step})
}

// memo is the newest one under a key, of one step or, with "", of any.
func (r *Run) memo(step, key string) *MemoState {
	for i := len(r.Memos) - 1; i >= 0; i-- {
		if m := &r.Memos[i]; m.Key == key && (step == "" || m.Step == step) {
			return m
		}
	}
	return nil
}

func checkStepFinished(r *Run, e Event, f StepFinished) error {
	s := r.step(e.Step)
	if s == nil || !s.Running() {
		return fmt.Errorf("ends step %q, which is not running", e.Step)
	}
	return checkResult(f.Result)
}

func foldStepFinished(r *Run, e Event, f StepFinished) {
	s := r.step(e.Step)
	s.Ended, s.Result, s.Error, s.Hint, s.Status = stamp(e), f.Result, f.Error, f.Hint, f.Status
}

func checkResult(result string) error {
	if !slices.Contains([]string{Passed, Failed, Skipped, NotReached, Unmeasured}, result) {
		return fmt.Errorf("unknown result %q", result)
	}
	return nil
}
