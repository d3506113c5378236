package step_test

import (
	"testing"

	"drkit/drill"
)

// TestAPlaybookThatLeavesAGateOut: whatever proves a promise may be left out, and the
// run is incomplete then, status 4, never recovered.
func TestAPlaybookThatLeavesAGateOut(t *testing.T) {
	for leftOut, why := range map[string]string{
		"verify":    "copy is not proven: no step of this run looked at it",
		"behaviour": "behaviour is not proven: no step of this run looked at it",
		"steady":    "the recovery time was not measured: steady was not reached",
		"declare":   "the recovery time was not measured: declared was not reached",
	} {
		t.Run(leftOut, func(t *testing.T) {
			drilled(t, func(l *lab) { l.without(leftOut) }, func(l *lab, run *drill.Run) {
				l.wantEnd(run, drill.Incomplete, 4)
				wantReason(t, run, why)
				if red := redGates(run); len(red) > 0 {
					t.Errorf("red: %v", red)
				}
			})
		})
	}
	// Without the steps that others rest on, nothing is proven either.
	for leftOut, status := range map[string]int{"boot": 2, "cutover": 2, "traffic": 2, "preflight": 2, "restore": 4} {
		t.Run(leftOut, func(t *testing.T) {
			drilled(t, func(l *lab) { l.without(leftOut) }, func(l *lab, run *drill.Run) {
				if v := run.Finished; v.Verdict == drill.Recovered || v.Verdict == drill.ObjectiveMissed || v.Status != status {
					t.Errorf("%s (%d): %s", v.Verdict, v.Status, reasons(run))
				}
			})
		})
	}
}
