package step_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drkit/drill"
	"drkit/drill/step"
	"drkit/internal/store"
)

// killedAt runs the drill until a step begins, as a kill -9 ends it there: nothing is
// undone, what runs goes on, and the process's own connections break.
func (l *lab) killedAt(id string) {
	l.t.Helper()
	leave := make(chan struct{})
	runner := l.runner()
	runner.Leave = leave
	l.onStep[id] = func() {
		close(leave)
		delete(l.onStep, id)
	}
	if _, err := runner.Run(l.ctx, runID, l.start); !errors.Is(err, drill.ErrLeft) {
		l.t.Fatalf("killed at %s: %v", id, err)
	}
	if err := l.world.Close(); err != nil {
		l.t.Error(err)
	}
}

// another is the world as another process sees it: wired alike, and knowing nothing.
func (l *lab) another() {
	was, now := reflect.ValueOf(l.world).Elem(), &step.World{}
	for i := range was.NumField() {
		if f := was.Type().Field(i); f.IsExported() {
			reflect.ValueOf(now).Elem().Field(i).Set(was.Field(i))
		}
	}
	l.world = now
}

// resumed goes on with the run as another process.
func (l *lab) resumed() (*drill.Run, error) {
	l.t.Helper()
	l.another()
	l.world.Resumed = runID
	run, err := l.runner().Resume(l.ctx, runID, l.start)
	return run, errors.Join(err, l.world.Close())
}

// TestResumeAtEachStep kills the drill at the beginning of each step, a minute passes,
// and another process goes on: it recovers, all of it is taken back at the end, and
// the minute is part of the recovery.
//
// By hand, from the declaration (at 15.25 s, see TestRecovery): what is killed before
// it takes the 79.75 s that it always takes, or 80 s where the traffic began anew with
// the clock. What is killed up to the cutover takes the minute, 40 s of boot, and the
// three windows from 10 s to 40 s of the new traffic. The steady state that was being
// watched (from 59.5 s) is watched again for 30 s. The end of the open requests, with
// which the kill begins, adds up to 0.4 s. What had been seen steady (at 95 s, so after
// 79.75 s) was recovered then: it is seen again a minute and three windows later, at the
// earliest at 95 s + 60 s + 30 s, 169.75 s after the declaration, and that is another figure.
func TestResumeAtEachStep(t *testing.T) {
	for id, want := range map[string]time.Duration{
		"preflight": 79 * time.Second, "restore-source": 79 * time.Second, "source": 79 * time.Second, "traffic": 79 * time.Second, "declare": 80 * time.Second,
		"verify": 140 * time.Second, "restore": 140 * time.Second, "boot": 140 * time.Second, "behaviour": 140 * time.Second, "cutover": 140 * time.Second,
		"steady": 134 * time.Second, "served-behaviour": 79 * time.Second, "failback": 79 * time.Second, "cleanup": 79 * time.Second,
	} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			p := mustRelease(t)
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, p)
				defer l.net.Close()
				l.killedAt(id)
				time.Sleep(time.Minute)
				run, err := l.resumed()
				if err != nil {
					t.Fatal(err)
				}
				l.wantEnd(run, drill.Recovered, 0)
				l.wantGone(run)
				across := want > 80*time.Second
				if rto, ok, why := run.RTO(); !ok || rto.Truncate(time.Second) != want || across != (why == "by wall clock, across processes") {
					t.Errorf("RTO %v %v %q, want %v", rto, ok, why, want)
				}
				if again, seen := run.Instant(drill.InstantSteadyAgain); seen != (id == "served-behaviour" || id == "failback") {
					t.Errorf("steady again: %v", seen)
				} else if seen {
					from, _ := run.Instant(drill.InstantDeclared)
					if d := drill.Between(from.At, again.At); d.Clock != drill.ClockWall || d.Elapsed < 169750*time.Millisecond || d.Elapsed > 181*time.Second {
						t.Errorf("seen again after %+v", d)
					}
					wantGate(t, run, "steady-again", drill.Passed, "3 windows in a row")
					wantGate(t, run, "steady-again-attribution", drill.Passed, "answered nothing")
				}
				for _, s := range run.Steps { // what is under way is run again
					again := s.ID == id
					if (s.Attempts > 1) != again && s.Attempts > 1 {
						t.Errorf("%s was run %d times", s.ID, s.Attempts)
					}
				}
			})
		})
	}
}

// TestResumeFindsWhatIsAnother: what changed meanwhile is run again, from there on,
// and the drill still ends well.
func TestResumeFindsWhatIsAnother(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*lab)
		step   string // that does not hold
		why    string
	}{
		"the target's canary died": {func(l *lab) { l.launcher.kill("target-canary") }, "boot", "target-canary"},
		"the router died":          {func(l *lab) { l.launcher.kill("rehearsal-router") }, "traffic", "rehearsal"},
		"the copy was written to": {func(l *lab) {
			l.eu.Fill(map[string]string{key(l.release, "engine/probes.json"): l.release.eu[key(l.release, "engine/probes.json")]})
		}, "verify", "were written since"},
		"a restored file was damaged":  {func(l *lab) { l.damageRestored("eu-west-1", shard) }, "restore", shard + " diverged"},
		"the router was moved":         {func(l *lab) { l.router.moveTo(sourceURL) }, "cutover", "the router lists"},
		"the lock is gone":             {func(l *lab) { l.must(l.euState.Remove(l.ctx, "eu-west-1/"+service+"/DRILL", store.Cond{})) }, "preflight", "is gone"},
		"a part of the canary went":    {func(l *lab) { l.launcher.running["target-canary"].parted.Store(true) }, "boot", "target-canary is not whole any more: worker pod chat-1 is not ready"},
		"the canary answers otherwise": {func(l *lab) { l.launcher.engines["target-canary"].failOnce() }, "behaviour", "the canary answers otherwise now"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := mustRelease(t)
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, p)
				defer l.net.Close()
				l.killedAt("steady")
				tc.change(l)
				run, err := l.resumed()
				if err != nil {
					t.Fatal(err)
				}
				l.wantEnd(run, drill.Recovered, 0)
				l.wantGone(run)
				var broken []string
				for _, e := range l.journal.events {
					var x drill.Rechecked
					if e.Type == drill.TypeRechecked && json.Unmarshal(e.Data, &x) == nil && !x.Holds {
						broken = append(broken, e.Step+": "+x.Why)
					}
				}
				if len(broken) != 1 || !containsAll(broken[0], []string{tc.step + ": ", tc.why}) {
					t.Errorf("does not hold: %q, want %s with %q", broken, tc.step, tc.why)
				}
				if s := stepOf(run, tc.step); s.Attempts != 2 {
					t.Errorf("%s was run %d times", s.ID, s.Attempts)
				}
			})
		})
	}
}

// TestResumeHoldsWhatItCannotAsk: another run's lock, and a launcher that does not
// answer, keep the run as it is.
func TestResumeHoldsWhatItCannotAsk(t *testing.T) {
	for name, change := range map[string]func(*lab){
		"took the lock":         func(l *lab) { l.euState.Fill(map[string]string{"eu-west-1/" + service + "/DRILL": `{"run":"R7"}`}) },
		"looking for what runs": func(l *lab) { l.launcher.silent = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := mustRelease(t)
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, p)
				defer l.net.Close()
				l.killedAt("steady")
				change(l)
				run, err := l.resumed()
				if !errors.Is(err, drill.ErrPaused) || run.Held == nil || !strings.Contains(run.Held.Why, name) {
					t.Fatalf("%v; held %+v", err, run.Held)
				}
				if len(run.Left()) != 7 {
					t.Errorf("%d changes are left", len(run.Left()))
				}
				l.launcher.silent = false
				for _, r := range l.launcher.all() { // the bubble's end
					r.end("signal: killed")
				}
			})
		})
	}
}
