package drill

import (
	"fmt"
	"slices"
	"time"

	"drkit/playbooks"
)

// The clocks that a figure can rest on.
const (
	ClockMonotonic = "monotonic"
	ClockWall      = "wall clock" // across processes: as right as the machine's clock
)

// Span is a measured stretch of time, or the reason why there is none.
type Span struct {
	Elapsed  time.Duration // nanoseconds; means nothing unless Measured
	Measured bool
	Why      string // why it was not measured
	Clock    string // which clock it rests on
}

// Between measures from a to b: exactly inside one process, by the wall clock
// across two.
func Between(a, b Stamp) Span {
	d, clock := b.Mono-a.Mono, ClockMonotonic
	if a.Proc != b.Proc {
		d, clock = b.Wall.Sub(a.Wall), ClockWall
	}
	if d < 0 {
		return Span{Why: fmt.Sprintf("ends before it begins by the %s", clock)}
	}
	return Span{Elapsed: d, Measured: true, Clock: clock}
}

// Since is a moment counted from the beginning of the run: exact in its first process,
// by the wall clock in a later one.
func (r *Run) Since(s Stamp) time.Duration {
	if s.Proc == r.Begun.Proc {
		return s.Mono - r.Begun.Mono
	}
	return s.Wall.Sub(r.Begun.Wall)
}

// ladder lists the instants of the recovery clock in the order that they come in.
var ladder = []string{InstantDeclared, InstantCapacity, InstantImage, InstantWeights, InstantEngineReady, InstantCanaryVerified, InstantCutover, InstantSteady}

// rungs are the instants that this run's clock is cut at: capacity and image are
// waited for on some platforms only, and are no gap where they are not.
func (r *Run) rungs() []string {
	return slices.DeleteFunc(slices.Clone(ladder), func(name string) bool {
		_, stamped := r.Instant(name)
		return !stamped && (name == InstantCapacity || name == InstantImage)
	})
}

// Segment is a stretch of the recovery clock between two instants.
type Segment struct {
	From, To string
	Span
	Cached bool          // served from what was already there
	Budget time.Duration // nanoseconds, of the steps that lead there; 0: none
}

// Slack is what is left of the budget; negative when it was overrun. It is not
// known without a measurement and a budget.
func (s Segment) Slack() (time.Duration, bool) {
	return s.Budget - s.Elapsed, s.Measured && s.Budget > 0
}

// Segments returns the stretches of the recovery clock, measured or not.
func (r *Run) Segments() []Segment {
	var all []Segment
	rungs := r.rungs()
	for i, to := range rungs[1:] {
		all = append(all, r.Segment(rungs[i], to))
	}
	return all
}

// Segment measures from one instant to another. Its budget is the sum of the
// budgets of the steps that began after from was stamped, up to the one that stamped to.
func (r *Run) Segment(from, to string) Segment {
	s := Segment{From: from, To: to}
	a, okA := r.Instant(from)
	b, okB := r.Instant(to)
	switch {
	case !okA:
		s.Why = from + " was not reached"
	case !okB:
		s.Why = to + " was not reached"
	default:
		s.Span, s.Cached = Between(a.At, b.At), b.Cached
		if !s.Measured {
			s.Why = fmt.Sprintf("%s was stamped after %s", from, to)
		}
		s.Budget = budgetOf(r.Steps[min(a.steps, b.steps):b.steps]) // of one group: none that both could share
	}
	return s
}

// budgetOf is the budget of steps in a row.
func budgetOf(steps []StepState) time.Duration {
	return playbooks.SumBudgets(steps, func(s StepState) (string, time.Duration) { return s.Group, s.Budget })
}

// RTO is the judged figure: declared → steady. Without one, ok is false and why
// says the reason; with one that rests on the wall clock, why says that.
func (r *Run) RTO() (d time.Duration, ok bool, why string) {
	s := r.Segment(InstantDeclared, InstantSteady)
	if !s.Measured {
		return 0, false, s.Why
	}
	if why = r.disorder(); why != "" {
		return 0, false, why
	}
	if s.Clock == ClockWall {
		why = "by wall clock, across processes"
	}
	return s.Elapsed, true, why
}

// disorder says which instants contradict the order of a recovery, "" if none do.
func (r *Run) disorder() string {
	var last *InstantState
	for _, name := range ladder {
		in, ok := r.Instant(name)
		if !ok {
			continue
		}
		if last != nil && !Between(last.At, in.At).Measured {
			return fmt.Sprintf("%s was stamped after %s", last.Name, in.Name)
		}
		last = &in
	}
	return ""
}

// Elapsed is how long the recovery clock has run at a moment of the run's own
// process: since "declared", and standing still from "steady" or the end on.
func (r *Run) Elapsed(now time.Duration) (time.Duration, bool) {
	from, ok := r.Instant(InstantDeclared)
	if !ok {
		return 0, false
	}
	to := Stamp{Proc: r.Last.Proc, Mono: now, Wall: r.Last.Wall.Add(now - r.Last.Mono)}
	if in, ok := r.Instant(InstantSteady); ok {
		to = in.At
	} else if !r.Ended.IsZero() {
		to = r.Ended
	}
	s := Between(from.At, to)
	return s.Elapsed, s.Measured
}
