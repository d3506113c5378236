package drill

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drkit/internal/errext"
	"drkit/playbooks"
)

// redo is a step that can say whether what it made still holds.
type redo struct {
	do
	recheck func(context.Context, Scope) error
}

func (r redo) Recheck(ctx context.Context, _ playbooks.Step, sc Scope) error {
	return r.recheck(ctx, sc)
}

// made lists the steps of the recovery that can be asked, and what each has made.
var made = map[string]string{"preflight": "lock", "restore": "copy", "boot": "replica", "behaviour": "", "cutover": "route"}

// resuming is a runner of the recovery as another process of the same world: its
// steps recheck what they made; asked lists whom it asked, ran whom it ran.
func resuming(w *world, j *memory) (rn *Runner, asked, ran *[]string) {
	p, steps := recovery(w)
	asked, ran = &[]string{}, &[]string{}
	for kind, h := range steps {
		its := h.(do)
		run := do{do: func(ctx context.Context, sc Scope) error {
			*ran = append(*ran, kind)
			return its.do(ctx, sc)
		}}
		steps[kind] = run
		if name, can := made[kind]; can {
			steps[kind] = redo{run, func(context.Context, Scope) error {
				*asked = append(*asked, kind)
				w.mu.Lock()
				defer w.mu.Unlock()
				if name != "" && !w.there[name] {
					return errors.New(name + " is not there")
				}
				return nil
			}}
		}
	}
	p.Steps[7].When = playbooks.Always
	return &Runner{Playbook: p, Handlers: []Handler{j}, Steps: steps, Undo: w.undos()}, asked, ran
}

// worldAt is the world as a journal left it: an intent without a result was carried
// out, or not.
func worldAt(r *Run, carried bool) *world {
	w := newWorld()
	for _, c := range r.Changes {
		if !c.Undone && (c.Done || carried) {
			w.there[c.What[len("make "):]] = true
		}
	}
	return w
}

// TestResumeAfterKill cuts a recovery's journal after every event, as kill -9 does,
// an hour passes, and another process goes on. Its verdict is the truth: recovered,
// and an hour later than promised when the clock ran.
func TestResumeAfterKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rn, _, whole := newRunner()
		if _, err := rn.Run(t.Context(), "R1", promise()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		resumed := 0
		for n := 1; n < len(whole.events); n++ {
			for _, carried := range []bool{false, true} {
				killed := &memory{events: slices.Clone(whole.events[:n])}
				before, err := Replay(killed.Events())
				if err != nil {
					t.Fatalf("%d events: %v", n, err)
				}
				w := worldAt(before, carried)
				rn, _, _ := resuming(w, killed)
				r, err := rn.Resume(t.Context(), "R1", promise())
				if err != nil {
					t.Fatalf("%d events: %v", n, err)
				}
				resumed++
				_, declared := before.Instant(InstantDeclared)
				want, status := Recovered, 0
				if declared && before.step("steady").Result != Passed {
					want, status = ObjectiveMissed, 5
				}
				wantVerdict(t, r, killed, w, want, status)
				if d, ok, why := r.RTO(); declared && want == ObjectiveMissed && (!ok || d < time.Hour || why != "by wall clock, across processes") {
					t.Errorf("%d events: RTO %v %v %q", n, d, ok, why)
				}
				if r.Last.Proc != 2 || len(r.Resumes) != 1 {
					t.Errorf("%d events: process %d, resumes %+v", n, r.Last.Proc, r.Resumes)
				}
			}
		}
		if resumed < 60 {
			t.Errorf("only %d kills were gone on with", resumed)
		}
	})
}

// held runs the recovery up to a step that waits for a person.
func held(t *testing.T, step string) (*world, *memory) {
	t.Helper()
	rn, w, j := newRunner()
	rn.Steps[step] = do{do: func(context.Context, Scope) error { return ErrPaused }}
	if _, err := rn.Run(t.Context(), "R1", promise()); !errors.Is(err, ErrPaused) {
		t.Fatal(err)
	}
	return w, j
}

// TestResumeOfAHeldRun: what holds is kept, what cannot be asked runs again, and the
// step that waited runs.
func TestResumeOfAHeldRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, j := held(t, "cutover")
		time.Sleep(7 * time.Minute) // 7 minutes of the 10 + 7 that the recovery then took
		rn, asked, ran := resuming(w, j)
		today := promise()
		today.By, today.Tool, today.Binary = "grace@console", "v2", &Binary{SHA256: "b2"}
		r, err := rn.Resume(t.Context(), "R1", today)
		if err != nil {
			t.Fatal(err)
		}
		wantVerdict(t, r, j, w, Recovered, 0)
		if want := []string{"preflight", "restore", "boot", "behaviour"}; !slices.Equal(*asked, want) {
			t.Errorf("asked %v, want %v", *asked, want)
		}
		if want := []string{"declare", "cutover", "steady", "cleanup"}; !slices.Equal(*ran, want) {
			t.Errorf("ran %v, want %v", *ran, want)
		}
		// 7 min to the hold, 7 held, cutover 1, steady 2.
		if d, ok, why := r.RTO(); d != 17*time.Minute || !ok || why != "by wall clock, across processes" {
			t.Errorf("RTO %v %v %q", d, ok, why)
		}
		if x := r.Resumes[0]; x.By != "grace@console" || x.Tool != "v2" || x.Binary == nil || x.Binary.SHA256 != "b2" || x.After == nil || x.After.Step != "cutover" {
			t.Errorf("resumed %+v", x)
		}
		if s := r.Steps[5]; s.Attempts != 2 {
			t.Errorf("cutover: %d attempts", s.Attempts)
		}
	})
}

// TestResumeRunsAgainWhatDoesNotHold: the replica died meanwhile; the boot and all
// after it are taken back and run again, and what they had shown does not count.
func TestResumeRunsAgainWhatDoesNotHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, j := held(t, "steady")
		delete(w.there, "replica")
		rn, asked, ran := resuming(w, j)
		rn.Handlers = append(rn.Handlers, seen(func(e Event, r *Run) {
			if e.Type != TypeRechecked || e.Step != "boot" {
				return
			}
			if _, ok := r.Instant(InstantCutover); ok {
				t.Error("the cutover counts although its canary is gone")
			}
			if ok, _ := r.Proof(ProofRouter); ok || r.step("cutover").Result != NotReached {
				t.Errorf("the router counts as proven: %+v", r.step("cutover"))
			}
			if _, ok := r.Instant(InstantDeclared); !ok {
				t.Error("the clock began anew")
			}
		}))
		r, err := rn.Resume(t.Context(), "R1", promise())
		if err != nil {
			t.Fatal(err)
		}
		wantVerdict(t, r, j, w, Recovered, 0)
		if want := []string{"preflight", "restore", "boot"}; !slices.Equal(*asked, want) {
			t.Errorf("asked %v, want %v", *asked, want)
		}
		if want := []string{"declare", "boot", "behaviour", "cutover", "steady", "cleanup"}; !slices.Equal(*ran, want) {
			t.Errorf("ran %v, want %v", *ran, want)
		}
		if want := []string{"route", "replica"}; !slices.Equal(w.undone[:2], want) {
			t.Errorf("taken back first: %v, want %v", w.undone, want)
		}
		// To the hold 8 min; boot 5, behaviour 1, cutover 1, steady 2 again.
		if d, _, _ := r.RTO(); d != 17*time.Minute {
			t.Errorf("RTO %v, want 17m", d)
		}
		if s := r.Segment(InstantWeights, InstantEngineReady); s.Budget != 4*time.Minute {
			t.Errorf("budget of the boot %v", s.Budget)
		}
	})
}

// TestResumeRefuses leaves journal and world as they were.
func TestResumeRefuses(t *testing.T) {
	for name, change := range map[string]func(rn *Runner, j *memory, w *world, today *RunStarted){
		"its plan is": func(_ *Runner, _ *memory, _ *world, today *RunStarted) { today.PlanHash = "another" },
		"was planned otherwise": func(rn *Runner, _ *memory, _ *world, _ *RunStarted) {
			rn.Playbook.Steps = slices.Delete(rn.Playbook.Steps, 4, 5)
		},
		"cannot go on: step boot: no such command": func(rn *Runner, _ *memory, _ *world, _ *RunStarted) {
			rn.Steps["boot"] = do{check: func() []error { return []error{errors.New("no such command")} }}
		},
		"not of R2": func(_ *Runner, j *memory, _ *world, _ *RunStarted) {
			for i := range j.events {
				j.events[i].Run = "R2"
			}
		},
		"has ended: aborted": func(_ *Runner, j *memory, w *world, _ *RunStarted) {
			_, _ = Abort(context.Background(), j, "kim", newWorld().undos())
		},
		"the journal is empty": func(_ *Runner, j *memory, _ *world, _ *RunStarted) { j.events = nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, j := held(t, "cutover")
				rn, _, ran := resuming(w, j)
				today := promise()
				change(rn, j, w, &today)
				lines, there := len(j.events), len(w.there)
				if name == "not of R2" {
					name = "the journal is of run R2, not of R1"
				}
				_, err := rn.Resume(t.Context(), "R1", today)
				if errext.StatusOf(err) != errext.Refused || !contains(err.Error(), name) {
					t.Errorf("%v (%d), want %q", err, errext.StatusOf(err), name)
				}
				if len(j.events) != lines || len(w.there) != there || len(*ran) > 0 {
					t.Errorf("%d events more, there %v, ran %v", len(j.events)-lines, w.there, *ran)
				}
			})
		})
	}
}

// TestAStepThatCannotBeAsked is run again, and every step after it, for it stamped the
// clock; declare, which stamped only its start, is run again alone.
func TestAStepThatCannotBeAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, j := held(t, "steady")
		rn, asked, ran := resuming(w, j)
		rn.Steps["behaviour"] = rn.Steps["behaviour"].(redo).do
		r, err := rn.Resume(t.Context(), "R1", promise())
		if err != nil {
			t.Fatal(err)
		}
		wantVerdict(t, r, j, w, Recovered, 0)
		if !slices.Equal(*asked, []string{"preflight", "restore", "boot"}) || !slices.Equal(*ran, []string{"declare", "behaviour", "cutover", "steady", "cleanup"}) {
			t.Errorf("asked %v, ran %v", *asked, *ran)
		}
	})
}

// TestResumeGivesNoSecondTry: a run that had failed is not resumed, however its
// process ended after that.
func TestResumeGivesNoSecondTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rn, _, whole := newRunner()
		rn.Steps["boot"] = do{do: func(_ context.Context, sc Scope) error {
			return sc.Emit(TypeGate, Gate{ID: "gate-boot", Expected: "yes", Observed: "no", Result: Failed})
		}}
		if _, err := rn.Run(t.Context(), "R1", promise()); err != nil {
			t.Fatal(err)
		}
		red := slices.IndexFunc(whole.events, func(e Event) bool { return e.Type == TypeGate && e.Step == "boot" })
		for n := red + 1; n < len(whole.events); n++ {
			killed := &memory{events: slices.Clone(whole.events[:n])}
			before, _ := Replay(killed.Events())
			rn, _, ran := resuming(worldAt(before, true), killed)
			if _, err := rn.Resume(t.Context(), "R1", promise()); errext.StatusOf(err) != errext.Refused || !contains(err.Error(), "had failed") || len(*ran) > 0 {
				t.Errorf("%d events: %v, ran %v", n, err, *ran)
			}
		}
	})
}

// TestResumeOfARetry: a step that was red, and was being tried again when its process
// was killed, is tried again.
func TestResumeOfARetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rn, _, whole := newRunner()
		boot, tries := rn.Steps["boot"].(do), 0
		rn.Playbook.Steps[3].Retries = 1
		rn.Steps["boot"] = do{do: func(ctx context.Context, sc Scope) error {
			if tries++; tries == 1 {
				return sc.Emit(TypeGate, Gate{ID: "gate-" + ProofBoot, Expected: "yes", Observed: "no", Result: Failed})
			}
			return boot.do(ctx, sc)
		}}
		if _, err := rn.Run(t.Context(), "R1", promise()); err != nil {
			t.Fatal(err)
		}
		again := slices.IndexFunc(whole.events, func(e Event) bool { return e.Type == TypeStepStarted && e.Step == "boot" && e.Attempt == 2 })
		killed := &memory{events: slices.Clone(whole.events[:again+1])}
		before, _ := Replay(killed.Events())
		w := worldAt(before, true)
		rn, _, _ = resuming(w, killed)
		r, err := rn.Resume(t.Context(), "R1", promise())
		if err != nil {
			t.Fatal(err)
		}
		wantVerdict(t, r, killed, w, Recovered, 0)
	})
}

// TestRecheckThatIsRefused keeps the run held, with nothing taken back.
func TestRecheckThatIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, j := held(t, "cutover")
		rn, _, _ := resuming(w, j)
		preflight := rn.Steps["preflight"].(redo)
		rn.Steps["preflight"] = redo{preflight.do, func(context.Context, Scope) error {
			return errext.WithStatus(errors.New("run R7 holds the lock"), errext.Refused)
		}}
		r, err := rn.Resume(t.Context(), "R1", promise())
		wantHeld(t, r, err, j, w, "", 3)
		if !contains(r.Held.Why, "run R7 holds the lock") {
			t.Errorf("held %+v", r.Held)
		}
		rn.Steps["preflight"] = preflight
		if r, err = rn.Resume(t.Context(), "R1", promise()); err != nil {
			t.Fatal(err)
		}
		wantVerdict(t, r, j, w, Recovered, 0)
		if r.Last.Proc != 3 || len(r.Resumes) != 2 {
			t.Errorf("process %d, %d resumes", r.Last.Proc, len(r.Resumes))
		}
	})
}

// TestARecheckWithARedGateDoesNotHold, whatever it returns, and neither does one that
// hangs or panics.
func TestARecheckThatDoesNotHold(t *testing.T) {
	for name, recheck := range map[string]func(context.Context, Scope) error{
		"a red gate": func(_ context.Context, sc Scope) error {
			return sc.Emit(TypeGate, Gate{ID: "gate-boot", Expected: "alive", Observed: "dead", Result: Failed})
		},
		"a panic": func(context.Context, Scope) error { panic("oops") },
		"a hang":  func(ctx context.Context, _ Scope) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, j := held(t, "cutover")
				rn, _, ran := resuming(w, j)
				rn.Playbook.Steps[3].Timeout = 6 * time.Minute
				rn.Steps["boot"] = redo{rn.Steps["boot"].(redo).do, recheck}
				r, err := rn.Resume(t.Context(), "R1", promise())
				if err != nil {
					t.Fatal(err)
				}
				wantVerdict(t, r, j, w, Recovered, 0)
				if !slices.Contains(*ran, "boot") {
					t.Errorf("ran %v", *ran)
				}
			})
		})
	}
}

// TestResumeHoldsWhatItCannotTakeBack: a step does not run over what an earlier
// attempt left.
func TestResumeHoldsWhatItCannotTakeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, j := held(t, "steady")
		w.broken["route"] = true
		delete(w.there, "replica")
		rn, _, ran := resuming(w, j)
		r, err := rn.Resume(t.Context(), "R1", promise())
		if !errors.Is(err, ErrPaused) || errext.StatusOf(err) != errext.Paused || r.Held == nil || !contains(r.Held.Why, "route is still there") || len(*ran) > 0 {
			t.Errorf("%v; held %+v, ran %v", err, r.Held, *ran)
		}
	})
}

// TestResumeAfterLeaving: the second Ctrl-C left the undo half done; what was taken
// back is run again.
func TestResumeAfterLeaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rn, w, j := newRunner()
		leave := make(chan struct{})
		rn.Leave = leave
		quick := rn.Undo["remove"]
		rn.Undo = map[string]UndoFunc{"remove": func(ctx context.Context, args []byte) error {
			time.Sleep(30 * time.Second)
			return quick(ctx, args)
		}}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(6*time.Minute, func() { cancel(errors.New("interrupted")) })
		time.AfterFunc(6*time.Minute+45*time.Second, func() { close(leave) })
		if _, err := rn.Run(ctx, "R1", promise()); !errors.Is(err, ErrLeft) || !contains(errext.Hint(err), "drill resume R1") {
			t.Fatalf("%v, hint %q", err, errext.Hint(err))
		}
		time.Sleep(time.Minute) // the abandoned undo ends
		rn, asked, ran := resuming(w, j)
		r, err := rn.Resume(t.Context(), "R1", promise())
		if err != nil {
			t.Fatal(err)
		}
		wantVerdict(t, r, j, w, Recovered, 0)
		// The replica was taken back, and the copy by the undo that was left: the
		// journal does not know, the recheck finds it.
		if !slices.Equal(*asked, []string{"preflight", "restore"}) || !slices.Contains(*ran, "restore") || !slices.Contains(*ran, "boot") {
			t.Errorf("asked %v, ran %v", *asked, *ran)
		}
		if r.Resumes[0].Cut == nil || r.Aborting != nil {
			t.Errorf("resumed %+v, aborting %+v", r.Resumes[0], r.Aborting)
		}
	})
}

// TestMemos: what a step left is known to its recheck in another process.
func TestMemos(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rn, w, j := newRunner()
		boot := rn.Steps["boot"].(do)
		rn.Steps["boot"] = do{do: func(ctx context.Context, sc Scope) error {
			return errors.Join(boot.do(ctx, sc), sc.Emit(TypeMemo, Memo{Key: "at", Data: []byte(`"old"`)}), sc.Emit(TypeMemo, Memo{Key: "at", Data: []byte(`"http://10.0.0.1"`)}))
		}}
		rn.Steps["cutover"] = do{do: func(context.Context, Scope) error { return ErrPaused }}
		if _, err := rn.Run(t.Context(), "R1", promise()); !errors.Is(err, ErrPaused) {
			t.Fatal(err)
		}
		rn, _, _ = resuming(w, j)
		told := map[string]bool{}
		rn.Steps["boot"] = redo{rn.Steps["boot"].(redo).do, func(_ context.Context, sc Scope) error {
			at, known := sc.(Recaller).Recall("boot", "at")
			_, other := sc.(Recaller).Recall("boot", "else")
			told[string(at)], told["else"] = known, other
			return nil
		}}
		r, err := rn.Resume(t.Context(), "R1", promise())
		if err != nil {
			t.Fatal(err)
		}
		wantVerdict(t, r, j, w, Recovered, 0)
		if !maps.Equal(told, map[string]bool{`"http://10.0.0.1"`: true, "else": false}) {
			t.Errorf("told %v", told)
		}
	})
}

// TestClockPutBack: a machine's clock that went back would make a recovery faster
// than it was; its time is then not measured, and the run is no recovery.
func TestClockPutBack(t *testing.T) {
	for name, shift := range map[string]func(i int, e *Event){
		"while the first process ran":  func(i int, e *Event) { e.Wall = e.Wall.Add(-time.Duration(i) * time.Minute) },
		"between the two processes":    func(_ int, e *Event) { e.Wall = e.Wall.Add(20 * time.Minute) },
		"not at all":                   func(int, *Event) {},
		"forward, which is to its ill": func(_ int, e *Event) { e.Wall = e.Wall.Add(-10 * time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, j := held(t, "cutover")
				for i := range j.events {
					shift(i, &j.events[i])
				}
				rn, _, _ := resuming(w, j)
				r, err := rn.Resume(t.Context(), "R1", promise())
				if err != nil {
					t.Fatal(err)
				}
				if strings.HasPrefix(name, "not") || strings.HasPrefix(name, "forward") {
					wantVerdict(t, r, j, w, Recovered, 0)
					return
				}
				wantVerdict(t, r, j, w, Incomplete, 4)
				wantReason(t, r, "gate wall-clock-1 is unmeasured: it was put back by")
			})
		})
	}
}

// TestResumeInterrupted: Ctrl-C while it is rechecked takes everything back; before
// that nothing was begun.
func TestResumeInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, j := held(t, "cutover")
		rn, _, _ := resuming(w, j)
		ctx, cancel := context.WithCancelCause(t.Context())
		boot := rn.Steps["boot"].(redo)
		rn.Steps["boot"] = redo{boot.do, func(ctx context.Context, _ Scope) error {
			cancel(errors.New("interrupted"))
			return sleep(ctx, time.Hour)
		}}
		r, err := rn.Resume(ctx, "R1", promise())
		if err != nil {
			t.Fatal(err)
		}
		wantVerdict(t, r, j, w, Aborted, 130)
	})
	synctest.Test(t, func(t *testing.T) {
		w, j := held(t, "cutover")
		rn, _, _ := resuming(w, j)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errext.WithStatus(errors.New("interrupted"), errext.Interrupted))
		lines := len(j.events)
		_, err := rn.Resume(ctx, "R1", promise())
		if errext.StatusOf(err) != errext.Interrupted || len(j.events) != lines || len(w.there) != 3 {
			t.Errorf("%v; %d events more, there %v", err, len(j.events)-lines, w.there)
		}
	})
}

// TestJournalFailureOfAResume: status 6, and everything taken back.
func TestJournalFailureOfAResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for more := 1; more < 12; more++ {
			w, j := held(t, "cutover")
			j.failAt = len(j.events) + more
			rn, _, _ := resuming(w, j)
			r, err := rn.Resume(t.Context(), "R1", promise())
			if errext.StatusOf(err) != errext.Evidence || !errors.Is(err, errDisk) {
				t.Fatalf("event %d: %v", more, err)
			}
			if more > 2 && (len(w.there) > 0 || r.Finished == nil || r.Finished.Status != 6) {
				t.Errorf("event %d: there %v, finished %+v", more, w.there, r.Finished)
			}
		}
	})
}
