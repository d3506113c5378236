package step_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"gopkg.in/yaml.v3"

	"drkit/drill"
	"drkit/drill/ledger"
	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/manifest/region"
	"drkit/manifest/release"
)

func inBubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, f)
}

// node is a step's options as written in a playbook.
func node(t *testing.T, text string) yaml.Node {
	t.Helper()
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	return *doc.Content[0]
}

// TestRefused: before the clock, without a change, and all problems at once.
func TestRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		arrange func(*lab)
		problem [][]string // words of each
	}{
		"a class may not be answered in the target": {func(l *lab) { l.world.Classes[0].Residency = []region.Residency{"us"} },
			[][]string{{"traffic class us-chat may be answered in [us]", `target eu-west-1 is in "eu"`}}},
		"the target's residency is not known": {func(l *lab) { l.world.Target.Residency = "" },
			[][]string{{"traffic class us-chat", "target eu-west-1"}}},
		"no class may be answered in the source": {func(l *lab) { l.world.Classes[0].Residency = []region.Residency{"eu"} },
			[][]string{{"no traffic class may be answered in source us-east-1"}}},
		"no traffic": {func(l *lab) { l.world.Classes = nil }, [][]string{{"no traffic class is described"}}},
		"no rate": {func(l *lab) { l.promise(func(o *drill.Objectives) { o.Steady.MinRequests = 0 }) },
			[][]string{{"the traffic would have 0 requests a second"}}},
		"a window of no length": {func(l *lab) { l.promise(func(o *drill.Objectives) { o.Steady.Window = 0 }) },
			[][]string{{"the traffic would have +Inf requests a second"}}},
		"the target publishes nothing": {func(l *lab) { remove(l, l.euState, release.CurrentKey("eu-west-1", service)) },
			[][]string{{"reading what region eu-west-1 publishes"}}},
		"the target's manifest is gone": {func(l *lab) { l.remove(release.ManifestName) },
			[][]string{{"loading release", "from region eu-west-1"}}},
		"the probes are gone": {func(l *lab) { l.remove("engine/probes.json") },
			[][]string{{"reading the recorded probes"}}},
		"many at once": {func(l *lab) {
			l.world.Classes[0].Residency = []region.Residency{"us"}
			l.world.Target.StateLocation, l.world.Target.Location = "mem:us", "mem:us"
			l.world.Validate = func(s drill.Spec) error {
				return errext.WithHint(errors.New(s.Name+": no command"), "set canary.command")
			}
			l.remove("engine/probes.json")
		}, [][]string{{"traffic class us-chat"}, {"are the same store (mem:us)"}, {"state lies in the source region's store"}, {"canary command of region us-east-1: source-canary"},
			{"canary command of region eu-west-1: target-canary"}, {"rehearsal router: rehearsal-router: no command"}, {"reading the recorded probes"}}},
	} {
		t.Run(name, func(t *testing.T) {
			drilled(t, tc.arrange, func(l *lab, run *drill.Run) {
				l.wantEnd(run, drill.Refused, 3)
				for _, words := range tc.problem {
					wantReason(t, run, words...)
				}
				if len(run.Problems) != len(tc.problem) || len(run.Changes) > 0 {
					t.Errorf("%d problems, want %d; changes %v; %s", len(run.Problems), len(tc.problem), run.Changes, reasons(run))
				}
				for _, r := range run.Finished.Reasons {
					if r.Hint == "" {
						t.Errorf("no hint: %s", r.What)
					}
				}
			})
		})
	}
}

func remove(l *lab, s store.ReadWriter, key string) {
	if err := s.Remove(l.ctx, key, store.Cond{}); err != nil {
		l.t.Fatal(err)
	}
}

// TestLockHeld: another run's lock refuses this one, names the holder, and stays.
func TestLockHeld(t *testing.T) {
	p := mustRelease(t)
	inBubble(t, func(t *testing.T) {
		l := newLab(t, p)
		other := ledger.Holder{Run: "R0", By: "ada@ops", Since: time.Now(), Expires: time.Now().Add(time.Hour)}
		key := "eu-west-1/" + service + "/DRILL"
		if err := ledger.Lock(l.ctx, l.euState, key, other); err != nil {
			t.Fatal(err)
		}
		before := l.euState.Content()[key]
		run := l.run()
		l.wantEnd(run, drill.Refused, 3)
		wantReason(t, run, "run R0 holds it", "taken by ada@ops")
		if l.euState.Content()[key] != before {
			t.Error("the other run's lock was touched")
		}
		if len(l.restored()) > 0 || len(run.Left()) > 0 {
			t.Errorf("changed: %v", run.Changes)
		}
	})
}

// TestInterrupted: Ctrl-C when a step begins, and in its middle.
func TestInterrupted(t *testing.T) {
	p := mustRelease(t)
	for _, tc := range []struct {
		step  string
		after time.Duration
	}{
		{"preflight", 0}, {"restore-source", 0}, {"source", 3 * time.Second}, {"traffic", 0}, {"traffic", 7 * time.Second}, {"declare", 0}, {"verify", 0}, {"restore", 0},
		{"boot", 20 * time.Second}, {"behaviour", 0}, {"cutover", 0}, {"cutover", 600 * time.Millisecond}, {"cutover", 2 * time.Second},
		{"steady", 20 * time.Second}, {"failback", 2 * time.Second}, {"cleanup", 0},
	} {
		t.Run(tc.step+" "+tc.after.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newLab(t, p)
				began := time.Time{}
				stop := func() { began = time.Now(); l.cancel(errext.WithStatus(errors.New("interrupted"), errext.Interrupted)) }
				l.onStep[tc.step] = func() {
					if tc.after > 0 {
						time.AfterFunc(tc.after, stop)
						return
					}
					stop()
				}
				run := l.run()
				l.wantEnd(run, drill.Aborted, 130)
				l.wantGone(run)
				if red := redGates(run); len(red) > 0 {
					t.Errorf("a person's interrupt made gates red: %v", red)
				}
				if took := time.Since(began); began.IsZero() || took > 5*time.Second {
					t.Errorf("ended %v after the interrupt", took)
				}
			})
		})
	}
}

// TestTimeouts: a step that runs out of its time is red, and says what it waited for.
func TestTimeouts(t *testing.T) {
	red{"no traffic ends in time", func(l *lab) { l.step("traffic").Timeout = 3 * time.Second },
		drill.NotRecovered, 4, nil, []string{"step traffic", "waiting for a baseline", "ran out of its time of 3s"}}.run(t)
	red{"the source never comes to rest", func(l *lab) {
		l.launcher.engines["source-canary"].mute = func(page string) string {
			return "vllm:num_requests_running 1\nvllm:num_requests_waiting 0\nvllm:request_success_total 1\n"
		}
	}, drill.NotRecovered, 4, []string{"cutover-attribution"}, []string{"source-canary still had requests when all that began before the change must have ended"}}.run(t)
}

// TestAfterKill: a killed run is undone from its journal, by another world.
func TestAfterKill(t *testing.T) {
	p := mustRelease(t)
	inBubble(t, func(t *testing.T) {
		l := newLab(t, p)
		defer l.net.Close()
		cut := 0
		l.onStep["failback"] = func() { cut = len(l.journal.events) }
		run := l.run()
		l.wantEnd(run, drill.Recovered, 0)
		killed := &journal{events: slices.Clone(l.journal.events[:cut])}
		for range 2 {
			again, err := drill.Abort(context.Background(), killed, "kim", l.undos())
			if err != nil || again.Finished.Verdict != drill.Aborted || again.Finished.Status != 130 {
				t.Fatalf("%+v, %v", again.Finished, err)
			}
			l.wantGone(again)
		}
	})
}
