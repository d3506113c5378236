package drill

import (
	"fmt"
	"time"
)

// clockTolerance is how far a machine's clock may lag behind a monotonic one before
// figures across processes are not measured: clocks are slewed, too.
const clockTolerance = time.Second

// clockGate judges whether the machine's clock went on evenly from the first event of
// a process to now: only then can it measure across processes. A clock that was put
// back would make a recovery look faster than it was. One that was put forward makes
// it look slower, and passes. now is of the same process, or of the one after it.
func clockGate(r *Run, proc int, now time.Time) Gate {
	g := Gate{ID: fmt.Sprintf("wall-clock-%d", proc), Title: "the machine's clock measures across processes", Expected: "it was not put back",
		Observed: "it went on evenly", Result: Passed, Evidence: "this clock against the monotonic one of each process",
		Hint: "the recovery time of this run is not known; see why the clock was put back, and drill again"}
	from, last := r.beganProc(proc), r.Last
	lag := (last.Mono - from.Mono) - last.Wall.Sub(from.Wall)
	gap := now.Sub(last.Wall)
	switch {
	case lag > clockTolerance:
		g.Result, g.Observed = Unmeasured, fmt.Sprintf("it was put back by about %v while process %d ran", lag.Round(time.Second), proc)
	case gap < 0 && -gap > clockTolerance:
		g.Result, g.Observed = Unmeasured, fmt.Sprintf("it was put back by at least %v after process %d had ended", (-gap).Round(time.Second), proc)
	}
	return g
}

// beganProc is the first stamp of a process that began or resumed the run.
func (r *Run) beganProc(proc int) Stamp {
	for _, x := range r.Resumes {
		if x.At.Proc == proc {
			return x.At
		}
	}
	return r.Begun
}

// sleepGate judges a recovery that one process timed while the machine's clock went
// ahead: a machine that sleeps stops the monotonic clock, so the recovery may have taken
// that much longer. false: nothing of the kind was seen while the clock ran.
func sleepGate(r *Run) (Gate, bool) {
	took, measured, _ := r.RTO()
	from, _ := r.Instant(InstantDeclared)
	to, _ := r.Instant(InstantSteady)
	if !measured || from.At.Proc != to.At.Proc {
		return Gate{}, false // across processes the machine's clock counts, sleep and all
	}
	var ahead time.Duration
	for _, j := range r.Jumps { // seen at the first event after it, which may be that of the last window
		if j.By > 0 && j.At.Proc == from.At.Proc && j.At.Mono > from.At.Mono && j.At.Mono <= to.At.Mono+r.Plan.Objectives.Steady.Window {
			ahead += j.By
		}
	}
	if ahead == 0 {
		return Gate{}, false
	}
	g := Gate{ID: "slept", Title: "the recovery is in time also if the machine slept", Expected: fmt.Sprintf("declared → steady within %v, with all by which the machine's clock went ahead", r.Plan.Objectives.RTO),
		Observed: fmt.Sprintf("%v measured, and %v by which the clock went ahead: it was set, or the machine slept", took.Round(time.Millisecond), ahead.Round(time.Millisecond)), Result: Passed,
		Evidence: "the machine's clock against the monotonic one", Hint: "keep the machine awake and its clock alone, and drill again"}
	if took+ahead > r.Plan.Objectives.RTO {
		g.Result = Unmeasured
	}
	return g, true
}
