package step_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drkit/drill"
	"drkit/drill/traffic"
	"drkit/manifest/region"
)

// drilled runs one drill in a bubble.
func drilled(t *testing.T, arrange func(*lab), judge func(*lab, *drill.Run)) {
	t.Helper()
	t.Parallel()
	p := mustRelease(t)
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, p)
		arrange(l)
		run := l.run()
		judge(l, run)
		l.wantGone(run)
	})
}

// The clock of the whole drill by hand. Canaries open their port 4.9 s (source)
// and 39.9 s (target) after launch and are asked every 0.25 s, so they are ready
// after 5 s and 40 s. The traffic begins at 5 s with 4/3 × 45 requests in 10 s:
// one every sixth of a second, 200 ms to the first token, 400 ms in all. The
// first window ends at 15 s, is told by the next request and seen at 15.25 s.
//
//	15.25 s  declared; the copy is verified and restored in no virtual time
//	55.25 s  engine-ready; probes take no virtual time either
//	55.25 s  the router is changed; the first request after it is sent at
//	         5 s + 302/6 s = 55.333 s: its first token comes at 55.533 s
//	56.00 s  the source was idle at 55.75 s and at 56 s
//	65-95 s  the three windows that begin after that: steady at 95 s
func TestRecovery(t *testing.T) {
	drilled(t, func(*lab) {}, func(l *lab, run *drill.Run) {
		l.wantEnd(run, drill.Recovered, 0)
		want := map[string]time.Duration{
			drill.InstantDeclared: 15250 * time.Millisecond, drill.InstantWeights: 15250 * time.Millisecond, drill.InstantEngineReady: 55250 * time.Millisecond,
			drill.InstantCanaryVerified: 55250 * time.Millisecond, drill.InstantCutover: 55533 * time.Millisecond, drill.InstantSteady: 95 * time.Second,
		}
		for name, at := range want {
			in, ok := run.Instant(name)
			if got := in.At.Mono.Truncate(time.Millisecond); !ok || got != at {
				t.Errorf("%s at %v, want %v", name, got, at)
			}
		}
		if rto, ok, why := run.RTO(); !ok || rto != 79750*time.Millisecond {
			t.Errorf("RTO %v %q, want 95 s - 15.25 s", rto, why)
		}
		declared, _ := run.Instant(drill.InstantDeclared)
		if declared.Step != "declare" || declared.At.Mono != stepOf(run, "declare").Started.Mono {
			t.Errorf("the clock began in step %s at %v", declared.Step, declared.At.Mono)
		}
		for _, name := range []string{drill.ProofCopy, drill.ProofBoot, drill.ProofBehaviour, drill.ProofRouter, drill.ProofCacheAware} {
			if ok, why := run.Proof(name); !ok {
				t.Errorf("%s is not proven: %s", name, why)
			}
		}
		if ok, _ := run.Proof(drill.ProofFullCapacity); ok {
			t.Error("one canary claims full capacity")
		}
		wantGate(t, run, "cutover-attribution", drill.Passed, "20 answers, 0 failed after the drain; engine counters: eu-west-1 +25, us-east-1 +0; router counters: eu-west-1 +27, us-east-1 +0")
		wantGate(t, run, "baseline", drill.Passed, "us-chat: 58 requests, 0 failed")
		if in, ok := run.Instant(drill.InstantSourceBack); !ok || in.At.Mono < 95*time.Second {
			t.Errorf("source-back %+v", in)
		}
		wantPhases(t, run)
	})
}

func stepOf(run *drill.Run, id string) drill.StepState {
	i := slices.IndexFunc(run.Steps, func(s drill.StepState) bool { return s.ID == id })
	return run.Steps[i]
}

// wantPhases checks that both boots were read from the engines' own lines, end
// to end up to the ready engine.
func wantPhases(t *testing.T, run *drill.Run) {
	t.Helper()
	length, names := map[string]time.Duration{}, map[string]bool{}
	for _, p := range run.Phases {
		length[p.Replica] += p.Length
		names[p.Name] = true
	}
	if want := map[string]time.Duration{"source-canary": 4900 * time.Millisecond, "target-canary": 39900 * time.Millisecond}; !maps.Equal(length, want) {
		t.Errorf("phases last %v, want %v", length, want)
	}
	for _, name := range []string{"weights", "server start"} {
		if !names[name] {
			t.Errorf("no phase %q in %v", name, slices.Sorted(maps.Keys(names)))
		}
	}
}

// TestStandInEngineIsNoRecovery: the same drill outside of a demonstration.
func TestStandInEngineIsNoRecovery(t *testing.T) {
	drilled(t, func(l *lab) { l.start.Demo = false }, func(l *lab, run *drill.Run) {
		l.wantEnd(run, drill.Incomplete, 4)
		wantReason(t, run, "the engine was drkit's own (stand-in)")
		if red := redGates(run); len(red) > 0 {
			t.Errorf("red: %v", red)
		}
	})
}

func TestObjectiveMissed(t *testing.T) {
	drilled(t, func(l *lab) { l.promise(func(o *drill.Objectives) { o.RTO = 79 * time.Second }) }, func(l *lab, run *drill.Run) {
		l.wantEnd(run, drill.ObjectiveMissed, 5)
		wantReason(t, run, "recovered in 1m19.75s, promised were 1m19s")
	})
}

// TestCacheAwareness: what the policy could not see, or does not say, is not proven.
func TestCacheAwareness(t *testing.T) {
	for name, tc := range map[string]struct {
		arrange func(*lab)
		proven  bool
		why     string
	}{
		"text to a policy of token ids": {func(l *lab) { l.router.sees = drill.No }, false, "could not see the prompt of"},
		"token ids":                     {func(l *lab) { l.router.sees = drill.No; l.world.Classes[0].Shape = traffic.TokenIDs }, true, "found a known prefix"},
		"a policy that says nothing":    {func(l *lab) { l.router.blind = true }, false, "does not say what its decisions rest on"},
	} {
		t.Run(name, func(t *testing.T) {
			drilled(t, tc.arrange, func(l *lab, run *drill.Run) {
				l.wantEnd(run, drill.Recovered, 0)
				if ok, why := run.Proof(drill.ProofCacheAware); ok != tc.proven || !strings.Contains(why, tc.why) {
					t.Errorf("proven %v: %s", ok, why)
				}
			})
		})
	}
}

// TestAClassThatTheSourceMayNotAnswer is not sent to it, and is named.
func TestAClassThatTheSourceMayNotAnswer(t *testing.T) {
	phi := traffic.Class{Name: "eu-phi", Residency: []region.Residency{"eu"}, Share: 0.2, Shape: traffic.Text}
	drilled(t, func(l *lab) { l.router.names = true; l.world.Classes = append(l.world.Classes, phi) }, func(l *lab, run *drill.Run) {
		l.wantEnd(run, drill.Recovered, 0)
		for _, w := range run.Traffic {
			if w.Class != "us-chat" {
				t.Fatalf("class %s was sent", w.Class)
			}
		}
		if want := `traffic class eu-phi is not rehearsed: it may be answered in [eu], and source us-east-1, where the traffic starts, is in "us"`; !slices.Contains(run.Notes, want) {
			t.Errorf("notes %q", run.Notes)
		}
		wantGate(t, run, "cutover-residency", drill.Passed, "27 answers name their region, all inside")
	})
}

// TestTwoClasses: every class has its own windows, and the rate lets the smaller
// one reach the least number of requests.
func TestTwoClasses(t *testing.T) {
	second := traffic.Class{Name: "us-batch", Residency: []region.Residency{"eu", "us"}, Share: 1, Shape: traffic.TokenIDs}
	drilled(t, func(l *lab) { l.world.Classes = append(l.world.Classes, second) }, func(l *lab, run *drill.Run) {
		l.wantEnd(run, drill.Recovered, 0)
		wantGate(t, run, "steady", drill.Passed, "us-chat: ", "us-batch: ")
		wantGate(t, run, "baseline", drill.Passed, "us-chat: ", "us-batch: ")
	})
}

// TestRetries: a second attempt starts clean, without the first one's traffic.
func TestRetries(t *testing.T) {
	drilled(t, func(l *lab) {
		l.step("traffic").Retries, l.step("cutover").Retries = 1, 1
		l.router.dark = func(n int) bool { return n <= 30 || n >= 370 && n < 376 }
	}, func(l *lab, run *drill.Run) {
		l.wantEnd(run, drill.Recovered, 0)
		if s := stepOf(run, "traffic"); s.Attempts != 2 {
			t.Errorf("traffic: %d attempts", s.Attempts)
		}
		if s := stepOf(run, "cutover"); s.Attempts != 2 {
			t.Errorf("cutover: %d attempts", s.Attempts)
		}
		for i, a := range run.Traffic {
			for _, b := range run.Traffic[:i] {
				if a.From < b.To && b.From < a.To {
					t.Errorf("two windows at once: %v-%v and %v-%v", a.From, a.To, b.From, b.To)
				}
			}
		}
	})
}

// TestSteadyBeginsAfterTheSourcesLastStream: removal does not end the streams in
// flight; with 9.7 s each the last one that the source had ends at 64.867 s. It is
// seen idle at 65 s and 65.25 s, so the window that began at 65 s does not count.
func TestSteadyBeginsAfterTheSourcesLastStream(t *testing.T) {
	drilled(t, func(l *lab) { l.launcher.engines["source-canary"].slow = 9500 * time.Millisecond }, func(l *lab, run *drill.Run) {
		l.wantEnd(run, drill.Recovered, 0)
		if in, _ := run.Instant(drill.InstantSteady); in.At.Mono != 105*time.Second {
			t.Errorf("steady at %v, want 105 s", in.At.Mono)
		}
	})
}
