package drill

import "time"

// LogTail is the number of log lines that a Run keeps.
const LogTail = 200

// Run is the state of a run, folded from its events by Apply and by nothing
// else. Read it through its methods where there is one: a figure that was not
// measured has a reason there and is never zero.
type Run struct {
	ID   string
	Seq  uint64 // of the newest event
	Plan RunStarted

	Begun Stamp // when the journal was opened
	Last  Stamp // the newest event

	Steps      []StepState // in the plan's order
	Problems   []ProblemState
	Instants   []InstantState // in the order of the recovery clock's first stamps
	Gates      []GateState
	Proofs     []ProofState
	Components []Component
	Changes    []ChangeState // in the order of their intents
	Phases     []Phase
	Traffic    []TrafficWindow
	Classes    []Class
	Notes      []string
	Memos      []MemoState     // the newest of each step and key, in the order of their events
	Progress   []ProgressState // of each task, in the order in which they began
	Jumps      []ClockJump     // of the machine's clock, against the time that was measured
	Logs       []Log           // the newest LogTail lines
	Approvals  []Approval      // those that count nothing too
	Asked      []AskedState
	Notified   []NotifiedState

	Aborting *RunAborting // nil: not cut short
	Held     *Held        // nil: not held, or gone on with since
	Resumes  []ResumedState
	Finished *RunFinished // nil: still running, or killed
	Ended    Stamp        // of Finished

	TakenBack []TakingBackState // after the end
}

// Stamp is a moment of a run. Mono is exact, but only inside one process.
type Stamp struct {
	Proc int
	Mono time.Duration // nanoseconds since process Proc began
	Wall time.Time     // UTC
}

// IsZero says that nothing was stamped.
func (s Stamp) IsZero() bool { return s.Proc == 0 }

// StepState is a step of the plan and how far it got.
type StepState struct {
	StepPlan
	Result         string // "" while it waits or runs
	Started, Ended Stamp  // first attempt's start, last attempt's end
	Attempts       int
	Error, Hint    string
	Status         int
	Waits          string // what it waited for last, as it said so itself
}

// Running says that an attempt of the step is under way.
func (s StepState) Running() bool {
	return !s.Started.IsZero() && s.Ended.IsZero() && s.Result == ""
}

// Elapsed is the time from the first attempt's start to the last one's end.
func (s StepState) Elapsed() Span {
	switch {
	case s.Started.IsZero():
		return Span{Why: "the step was not reached"}
	case s.Ended.IsZero():
		return Span{Why: "the step has not ended"}
	}
	return Between(s.Started, s.Ended)
}

// ProblemState is a problem and the step whose check found it.
type ProblemState struct {
	Problem
	Step string
}

// InstantState is a moment of the recovery clock.
type InstantState struct {
	Name   string
	At     Stamp
	Cached bool
	Step   string // that stamped it
	steps  int    // how many steps of the plan had begun: the segment's budget counts up to here
}

// GateState is a gate and the step that judged it.
type GateState struct {
	Gate
	Step    string
	Attempt int
	At      Stamp
	Seq     uint64 // of the event that holds it
}

// ProofState is a proof and the step that made it.
type ProofState struct {
	Proof
	Step    string
	Attempt int
}

// ChangeState is a change that a step made or meant to make.
type ChangeState struct {
	Intent
	Step    string
	Attempt int
	At      Stamp
	Done    bool   // the result was journaled and was no error
	Error   string // of the change
	Undone  bool   // taken back, absence proven
	UndoneAs,
	UndoError string // what the undo said; why the absence is not proven
	Half    bool   // an undo began to take it back and broke off: it is neither what was made nor gone
	Adopted string // who took over what it made: the run no longer takes it back
	Kept    string // why it stays on purpose; "": it does not
	Later   *Later // what became of it after the end; nil: nothing
}

// ResumedState is a moment from which another process went on.
type ResumedState struct {
	Resumed
	At    Stamp
	After *Held        // what it had been held for; nil: its process was gone
	Cut   *RunAborting // the abort that had not come to its end
}

// MemoState is a memo and the step that left it.
type MemoState struct {
	Memo
	Step string
}

// Running says that a process should be at it: the run is neither closed nor held.
func (r *Run) Running() bool { return r.ID != "" && r.Finished == nil && r.Held == nil }

// Current is the first step under way, nil between steps.
func (r *Run) Current() *StepState {
	if all := r.RunningSteps(); len(all) > 0 {
		return all[0]
	}
	return nil
}

// RunningSteps are the steps under way, in the plan's order: more than one in a
// group of steps that run side by side.
func (r *Run) RunningSteps() []*StepState {
	var all []*StepState
	for i := range r.Steps {
		if r.Steps[i].Running() {
			all = append(all, &r.Steps[i])
		}
	}
	return all
}

// Instant returns the stamp of a moment of the recovery clock.
func (r *Run) Instant(name string) (InstantState, bool) {
	for _, in := range r.Instants {
		if in.Name == name {
			return in, true
		}
	}
	return InstantState{}, false
}

// Left lists the changes that are not proven to be taken back, then or since, and do
// not stay on purpose, newest first.
func (r *Run) Left() []ChangeState {
	return r.open(func(c ChangeState) bool { return c.Stays() == "" })
}

// Proof says whether the run proved something, and why or why not. A proof
// counts only when it names gates and each of them passed in this run: it never
// comes from a flag.
func (r *Run) Proof(name string) (proven bool, why string) {
	if r.Plan.Mode == ModeTabletop {
		return false, tabletopWhy
	}
	found := false
	for _, p := range r.Proofs {
		if p.Name != name {
			continue
		}
		if !p.Proven {
			return false, p.Why
		}
		if bad := r.unsupported(p); bad != "" {
			return false, bad
		}
		found, why = true, p.Why
	}
	if !found {
		return false, "no step of this run looked at it"
	}
	return true, why
}

// unsupported says why the gates do not carry a proof, "" when they do.
func (r *Run) unsupported(p ProofState) string {
	for _, id := range p.Gates {
		if why := r.unmet("gate "+id, func(g GateState) bool { return g.ID == id }); why != "" {
			return why
		}
	}
	if len(p.Gates) > 0 {
		return ""
	}
	return r.unmet("a gate of step "+p.Step, func(g GateState) bool { return g.Step == p.Step })
}

// unmet says which of the gates that match did not pass, or that there is none.
func (r *Run) unmet(what string, match func(GateState) bool) string {
	why := what + " was not judged in this run"
	for _, g := range r.Gates {
		if !match(g) {
			continue
		}
		if g.Result != Passed {
			return "gate " + g.ID + " is " + g.Result
		}
		why = ""
	}
	return why
}
