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
	switch {
	case e.Proc == r.Last.Proc:
		return errors.New("resumes the run from the process that ran it")
	case r.Aborting != nil:
		return errors.New("resumes a run whose changes are being taken back")
	}
	return nil
}

// foldResumed ends what was under way when the process before ended.
func foldResumed(r *Run, e Event, x Resumed) {
	r.Held = nil
	r.Resumes = append(r.Resumes, ResumedState{x, stamp(e)})
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
