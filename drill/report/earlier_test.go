package report

import (
	"testing"
	"time"

	"drkit/drill"
	"drkit/drill/forecast"
)

// TestEarlierSteps: medians by hand, of runs of the same kind and playbook that
// recovered, and of steps that passed inside one process.
func TestEarlierSteps(t *testing.T) {
	plan := func(playbook, mode string) drill.RunStarted {
		return drill.RunStarted{Service: "chat", Source: "a", Target: "b", Mode: mode, Playbook: playbook}
	}
	run := func(start drill.RunStarted, verdict string, boot time.Duration, proc int, result string) *drill.Run {
		return &drill.Run{Plan: start, Finished: &drill.RunFinished{Verdict: verdict}, Steps: []drill.StepState{{
			StepPlan: drill.StepPlan{ID: "boot", Kind: "boot"}, Result: result,
			Started: drill.Stamp{Proc: 1, Mono: time.Minute}, Ended: drill.Stamp{Proc: proc, Mono: time.Minute + boot},
		}}}
	}
	start := plan("rehearsal", "rehearsal")
	got := EarlierSteps([]*drill.Run{
		run(start, drill.Recovered, 100*time.Second, 1, drill.Passed),
		run(start, drill.ObjectiveMissed, 300*time.Second, 1, drill.Passed),
		run(start, drill.Recovered, 130*time.Second, 1, drill.Passed),
		run(start, drill.Recovered, 110*time.Second, 1, drill.Passed),
		run(start, drill.NotRecovered, time.Second, 1, drill.Passed),
		run(start, drill.Recovered, time.Second, 2, drill.Passed),
		run(start, drill.Recovered, time.Second, 1, drill.Unmeasured),
		run(plan("own", "rehearsal"), drill.Recovered, time.Second, 1, drill.Passed),
		run(plan("rehearsal", "planned"), drill.Recovered, time.Second, 1, drill.Passed),
		{Plan: start},
	}, start)
	// 100, 110, 130, 300: the median is 120.
	if want := (forecast.Past{Took: 120 * time.Second, Runs: 4}); len(got) != 1 || got["boot"] != want {
		t.Errorf("got %v, want boot %v", got, want)
	}
}
