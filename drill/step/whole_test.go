package step_test

import (
	"testing"
	"time"

	"drkit/drill"
	"drkit/drill/forecast"
	"drkit/playbooks"
)

// whole is a drill whose target takes long to boot, as the screen sees it: what was
// projected, and how it stood, at the first line of the engine's log after a time.
type whole struct {
	boot    time.Duration
	timeout time.Duration // of the step boot
	seen    map[string]forecast.State
	told    map[string]time.Duration // the projected finish
}

// TestWholeDrills runs drills of 22 and of 31 minutes against a promise of 30.
//
// By hand: the clock starts at 15.25 s. A canary that opens its port 0.1 s before B
// after its launch there is ready at 15.25 s + B, seen idle 0.75 s later, and steady
// with the end of the third whole window of 10 s, of which one begins at 5 s. With B =
// 21m30s: ready at 21m45.25s, windows from 21m55s to 22m25s, less 15.25 s. The budgets
// ahead of a boot that has passed its own are behaviour 2m, cutover 1m, steady 1m.
func TestWholeDrills(t *testing.T) {
	for name, tc := range map[string]struct {
		whole
		verdict string
		status  int
		rto     time.Duration
		states  map[string]forecast.State // by time of the clock
	}{
		"22 minutes": {whole{boot: 21*time.Minute + 30*time.Second, timeout: 40 * time.Minute}, drill.Recovered, 0, 22*time.Minute + 9750*time.Millisecond,
			map[string]forecast.State{"1m": forecast.OnTrack, "10m": forecast.AtRisk, "20m": forecast.AtRisk, "end": forecast.InTime}},
		"31 minutes": {whole{boot: 30*time.Minute + 30*time.Second, timeout: 40 * time.Minute}, drill.ObjectiveMissed, 5, 31*time.Minute + 9750*time.Millisecond,
			map[string]forecast.State{"1m": forecast.OnTrack, "10m": forecast.AtRisk, "30m30s": forecast.Missed, "end": forecast.Missed}},
		"given up after 20": {whole{boot: 21*time.Minute + 30*time.Second, timeout: 20 * time.Minute}, drill.NotRecovered, 4, 0,
			map[string]forecast.State{"10m": forecast.AtRisk}},
	} {
		t.Run(name, func(t *testing.T) {
			drilled(t, tc.arrange, func(l *lab, run *drill.Run) {
				l.wantEnd(run, tc.verdict, tc.status)
				if rto, ok, _ := run.RTO(); rto != tc.rto || ok != (tc.rto > 0) {
					t.Errorf("RTO %v %v, want %v", rto, ok, tc.rto)
				}
				for at, want := range tc.states {
					if tc.seen[at] != want {
						t.Errorf("at %s it is %q, want %q", at, tc.seen[at], want)
					}
				}
				// To engine-ready the budget is that of the boot alone: 5 minutes.
				if s := run.Segment(drill.InstantWeights, drill.InstantEngineReady); tc.rto > 0 && (s.Elapsed != tc.boot || s.Budget != 5*time.Minute) {
					t.Errorf("boot took %v of %v, want %v of 5m", s.Elapsed, s.Budget, tc.boot)
				} else if slack, ok := s.Slack(); tc.rto > 0 && (!ok || slack != 5*time.Minute-tc.boot) {
					t.Errorf("slack %v", slack)
				}
				if least := 10*time.Minute + 4*time.Minute; tc.told["10m"] < least {
					t.Errorf("after 10 minutes in the boot the end was projected at %v: before what is left can be done (%v)", tc.told["10m"], least)
				}
				if tc.rto == 0 {
					wantReason(t, run, "boot-eu-west-1", "ran out of its time of 20m0s")
				}
			})
		})
	}
}

func (x *whole) arrange(l *lab) {
	x.seen, x.told = map[string]forecast.State{}, map[string]time.Duration{}
	l.launcher.engines["target-canary"].boot = x.boot - 100*time.Millisecond
	l.step("boot").Timeout = x.timeout
	l.step("boot").OnTimeout = playbooks.Abort
	l.onEvent = func(e drill.Event, r *drill.Run) {
		took, running := r.Elapsed(e.Mono)
		if !running {
			return
		}
		f := forecast.Of(r, e.Mono, nil)
		state := forecast.Judge(r, e.Mono, f).State
		for _, at := range []time.Duration{time.Minute, 10 * time.Minute, 20 * time.Minute, 30*time.Minute + 30*time.Second} {
			name := short(at)
			if _, told := x.seen[name]; !told && took >= at && took < at+15*time.Second {
				x.seen[name], x.told[name] = state, f.Finish
			}
		}
		if e.Type == drill.TypeRunFinished {
			x.seen["end"] = state
		}
	}
}

// short writes 10m, not 10m0s.
func short(d time.Duration) string {
	if d%time.Minute == 0 {
		return d.Truncate(time.Minute).String()[:len(d.String())-2]
	}
	return d.String()
}
