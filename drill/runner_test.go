package drill

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drkit/internal/errext"
	"drkit/playbooks"
)

func contains(s, sub string) bool { return strings.Contains(s, sub) }

func TestRecoveryIsMeasuredAndClean(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rn, w, j := newRunner()
		r, err := rn.Run(t.Context(), "R1", promise())
		if err != nil {
			t.Fatal(err)
		}
		wantVerdict(t, r, j, w, Recovered, 0)
		// preflight's three minutes come before the clock; steady is stamped a
		// second before its event: 1+5+1+1+2 minutes.
		if d, ok, why := r.RTO(); d != 10*time.Minute || !ok || why != "" {
			t.Errorf("RTO %v %v %q", d, ok, why)
		}
		want := []time.Duration{1, 5, 1, 1, 2}
		for i, s := range r.Segments() {
			slack, ok := s.Slack()
			if s.Elapsed != want[i]*time.Minute || s.Budget != 4*time.Minute || !ok || slack != (4-want[i])*time.Minute || s.Clock != ClockMonotonic {
				t.Errorf("%s → %s: %+v slack %v", s.From, s.To, s, slack)
			}
		}
		if order := []string{"route", "replica", "copy", "lock"}; !slices.Equal(w.undone, order) {
			t.Errorf("undone in order %v, want %v", w.undone, order)
		}
		if j.events[0].Type != TypeRunStarted || j.events[len(j.events)-1].Type != TypeRunFinished {
			t.Errorf("journal %v", j.types())
		}
	})
}

func TestChecksOfAllStepsComeFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rn, w, j := newRunner()
		rn.Steps["boot"] = do{check: func() []error {
			return []error{errext.WithHint(errors.New("no such command: vllm"), "install it"), errors.New("port 8000 is taken")}
		}}
		rn.Steps["cleanup"] = do{check: func() []error { panic("oops") }}
		delete(rn.Steps, "steady")
		rn.Playbook.Steps[1].When = "never"
		rn.Playbook.Steps[4].OnTimeout = "continue"
		r, err := rn.Run(t.Context(), "R1", promise())
		if err != nil {
			t.Fatal(err)
		}
		wantVerdict(t, r, j, w, Refused, 3)
		if len(r.Finished.Reasons) != 6 || len(r.Changes) != 0 || !r.Steps[0].Started.IsZero() {
			t.Errorf("reasons %+v, changes %v", r.Finished.Reasons, r.Changes)
		}
		for _, text := range []string{"step boot: no such command: vllm", "port 8000 is taken", "unknown kind", "panic: oops", "when: never", "on_timeout: continue"} {
			wantReason(t, r, text)
		}
		if r.Finished.Reasons[1].Hint != "install it" {
			t.Errorf("hint lost: %+v", r.Finished.Reasons)
		}
	})
}

// TestEndings runs the recovery with one thing changed.
func TestEndings(t *testing.T) {
	for _, tc := range []struct {
		name    string
		change  func(rn *Runner, w *world, s *RunStarted)
		verdict string
		status  int
		reason  string
	}{
		{"a step cannot be done", func(rn *Runner, w *world, _ *RunStarted) {
			rn.Steps["boot"] = do{do: func(ctx context.Context, sc Scope) error {
				return errors.Join(w.make(ctx, sc, "replica"), errors.New("access denied"))
			}}
		}, Incomplete, 1, "step boot: access denied"},
		{"a canary does not boot", func(rn *Runner, _ *world, _ *RunStarted) {
			rn.Steps["boot"] = do{do: func(context.Context, Scope) error {
				return errext.WithStatus(errors.New("exit status 1"), errext.Gate)
			}}
		}, NotRecovered, 4, "exit status 1"},
		{"a handler is silent about its red gate", func(rn *Runner, _ *world, _ *RunStarted) {
			rn.Steps["boot"] = do{do: func(_ context.Context, sc Scope) error {
				return sc.Emit(TypeGate, Gate{ID: "g", Expected: "a", Observed: "b", Result: Failed})
			}}
		}, NotRecovered, 4, "gate g: expected a, observed b"},
		{"a panic", func(rn *Runner, w *world, _ *RunStarted) {
			rn.Steps["cutover"] = do{do: func(ctx context.Context, sc Scope) error {
				_ = w.make(ctx, sc, "route")
				panic("index out of range")
			}}
		}, Incomplete, 1, "step cutover: panic: index out of range"},
		{"a time-out", func(rn *Runner, _ *world, _ *RunStarted) { rn.Playbook.Steps[3].Timeout = 2 * time.Minute },
			NotRecovered, 4, "step boot: ran out of its time of 2m0s"},
		{"a step that ignores its time-out", func(rn *Runner, _ *world, _ *RunStarted) {
			rn.Playbook.Steps[4].Timeout = time.Second
			rn.Steps["behaviour"] = do{do: func(context.Context, Scope) error { time.Sleep(time.Hour); return nil }}
		}, NotRecovered, 4, "did not stop within another 15s"},
		{"a step that leaves itself out", func(rn *Runner, _ *world, _ *RunStarted) {
			rn.Steps["behaviour"] = do{do: func(context.Context, Scope) error { return ErrSkip }}
		}, Incomplete, 4, "step behaviour is skipped"},
		{"later than promised", func(_ *Runner, _ *world, s *RunStarted) { s.Objectives.RTO = 9 * time.Minute },
			ObjectiveMissed, 5, "recovered in 10m0s, promised were 9m0s"},
		{"nothing was to be proven", func(_ *Runner, _ *world, s *RunStarted) { s.Objectives.MustProve = nil },
			Incomplete, 4, "must_prove is empty"},
		{"a promise that nothing proves", func(_ *Runner, _ *world, s *RunStarted) {
			s.Objectives.MustProve = append(s.Objectives.MustProve, ProofEdge)
		}, Incomplete, 4, "edge is not proven: no step of this run looked at it"},
		{"an undo that does not work", func(_ *Runner, w *world, _ *RunStarted) {
			w.broken["copy"] = true
		}, Incomplete, 8, `"make copy" is not proven to be taken back: copy is still there`},
		{"refused before the clock", func(rn *Runner, w *world, _ *RunStarted) {
			rn.Steps["preflight"] = do{do: func(ctx context.Context, sc Scope) error {
				return errors.Join(w.make(ctx, sc, "lock"), errext.WithStatus(errors.New("the source is the target"), errext.Refused))
			}}
		}, Refused, 3, "the source is the target"},
		{"no step declares", func(rn *Runner, _ *world, _ *RunStarted) {
			rn.Steps["declare"] = do{}
		}, Incomplete, 4, "the recovery time was not measured: declared was not reached"},
		{"refused after the clock began", func(rn *Runner, _ *world, _ *RunStarted) {
			rn.Steps["restore"] = do{do: func(context.Context, Scope) error {
				return errext.WithStatus(errors.New("shard 2 does not match"), errext.Refused)
			}}
		}, NotRecovered, 4, "shard 2 does not match"},
		{"an undo that nobody knows", func(rn *Runner, _ *world, _ *RunStarted) {
			rn.Steps["cutover"] = do{do: func(ctx context.Context, sc Scope) error {
				return sc.Change(ctx, "move users", Undo{Kind: "magic"}, func(context.Context) error { panic("must not be done") })
			}}
		}, Incomplete, 1, `move users: nothing was changed, for nobody knows how to undo "magic"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rn, w, j := newRunner()
				start := promise()
				tc.change(rn, w, &start)
				r, err := rn.Run(t.Context(), "R1", start)
				if err != nil {
					t.Fatal(err)
				}
				if len(w.broken) > 0 {
					w.there = nil
				}
				wantVerdict(t, r, j, w, tc.verdict, tc.status)
				wantReason(t, r, tc.reason)
				time.Sleep(2 * time.Hour) // a step that ignored its context ends inside the bubble
			})
		})
	}
}

// TestAlwaysRunsAfterAFailure: a clean-up step has its say also when the run failed.
func TestAlwaysRunsAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rn, w, j := newRunner()
		rn.Steps["boot"] = do{do: func(context.Context, Scope) error { return errors.New("access denied") }}
		rn.Playbook.Steps[7].When = playbooks.Always
		r, err := rn.Run(t.Context(), "R1", promise())
		if err != nil {
			t.Fatal(err)
		}
		wantVerdict(t, r, j, w, Incomplete, 1)
		var got []string
		for _, s := range r.Steps {
			got = append(got, s.Result)
		}
		want := []string{Passed, Passed, Passed, Failed, NotReached, NotReached, NotReached, Passed}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		rn, w, j = newRunner()
		rn.Steps["boot"] = do{do: func(context.Context, Scope) error { return errors.New("access denied") }}
		rn.Steps["cleanup"] = do{do: func(_ context.Context, sc Scope) error {
			return sc.Emit(TypeGate, Gate{ID: "cleanup", Expected: "nothing", Observed: "1 process", Result: Failed})
		}}
		rn.Playbook.Steps[7].When = playbooks.Always
		if r, err = rn.Run(t.Context(), "R1", promise()); err != nil {
			t.Fatal(err)
		}
		wantVerdict(t, r, j, w, NotRecovered, 4)
		wantReason(t, r, "access denied")
	})
}

func TestRetryStartsClean(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rn, w, j := newRunner()
		boot, tries := rn.Steps["boot"].(do), 0
		rn.Playbook.Steps[3].Retries = 2
		rn.Steps["boot"] = do{do: func(ctx context.Context, sc Scope) error {
			if tries++; tries < 3 {
				return errors.Join(w.make(ctx, sc, "replica"), sc.Emit(TypeGate, Gate{ID: "gate-boot", Result: Failed}))
			}
			if w.there["replica"] {
				t.Error("the failed attempt's replica is still there")
			}
			return boot.do(ctx, sc)
		}}
		r, err := rn.Run(t.Context(), "R1", promise())
		if err != nil {
			t.Fatal(err)
		}
		wantVerdict(t, r, j, w, Recovered, 0)
		if s := r.Steps[3]; s.Attempts != 3 || s.Elapsed().Elapsed != 5*time.Minute {
			t.Errorf("%+v", s)
		}
	})
}

func TestInterrupt(t *testing.T) {
	for _, tc := range []struct {
		cause  error
		broken bool
		status int
	}{
		{errext.WithStatus(errors.New("interrupted"), errext.Interrupted), false, 130},
		{errext.WithStatus(errors.New("terminated"), errext.Terminated), false, 143},
		{errors.New("cancelled"), false, 130},
		{errext.WithStatus(errors.New("interrupted"), errext.Interrupted), true, 8},
	} {
		synctest.Test(t, func(t *testing.T) {
			rn, w, j := newRunner()
			w.broken["copy"] = tc.broken
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(6*time.Minute, func() { cancel(tc.cause) }) // in the boot
			r, err := rn.Run(ctx, "R1", promise())
			if err != nil {
				t.Fatal(err)
			}
			if tc.broken {
				w.there = nil
			}
			wantVerdict(t, r, j, w, Aborted, tc.status)
			if want := []string{"replica", "copy", "lock"}; !slices.Equal(w.undone, want) {
				t.Errorf("undone %v, want %v", w.undone, want)
			}
			if r.Steps[4].Result != NotReached {
				t.Errorf("behaviour is %q", r.Steps[4].Result)
			}
			if _, ok, why := r.RTO(); ok || why != "steady was not reached" {
				t.Errorf("RTO %v %q", ok, why)
			}
		})
	}
}

// TestInterruptOfTheCleanup: what the clean-up step could not do any more, the
// end of the run does.
func TestInterruptOfTheCleanup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rn, w, j := newRunner()
		quick := rn.Undo["remove"]
		rn.Undo = map[string]UndoFunc{"remove": func(ctx context.Context, args []byte) error {
			if err := sleep(ctx, 20*time.Second); err != nil {
				return err
			}
			return quick(ctx, args)
		}}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(14*time.Minute+11*time.Second, func() { cancel(errors.New("interrupted")) }) // in the first undo
		r, err := rn.Run(ctx, "R1", promise())
		if err != nil {
			t.Fatal(err)
		}
		wantVerdict(t, r, j, w, Aborted, 130)
		if len(w.undone) != 4 {
			t.Errorf("undone %v", w.undone)
		}
	})
}

// TestAStuckUndoIsNotProven: an undo that does not come back ends as unclean.
func TestAStuckUndoIsNotProven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rn, _, _ := newRunner()
		rn.Steps["cleanup"] = do{}
		rn.Undo = map[string]UndoFunc{"remove": func(context.Context, []byte) error { time.Sleep(time.Hour); return nil }}
		began := time.Now()
		r, err := rn.Run(t.Context(), "R1", promise())
		if err != nil || r.Finished.Status != 8 || r.Finished.Verdict != Incomplete {
			t.Fatalf("%v %+v", err, r.Finished)
		}
		wantReason(t, r, "ran out of its time of 1m0s, and did not stop within another 15s")
		if took := time.Since(began); took != 13*time.Minute+time.Second+4*75*time.Second {
			t.Errorf("took %v", took)
		}
		time.Sleep(time.Hour)
	})
}

// TestBusyChange: an undo waits for its own change, and says so when it could not.
func TestBusyChange(t *testing.T) {
	for _, tc := range []struct {
		takes  time.Duration
		status int
	}{{10 * time.Second, 130}, {time.Hour, 8}} {
		synctest.Test(t, func(t *testing.T) {
			rn, w, j := newRunner()
			rn.StopGrace = 15 * time.Second
			rn.Steps["boot"] = do{do: func(ctx context.Context, sc Scope) error {
				go func() {
					_ = sc.Change(ctx, "make late", Undo{Kind: "remove", Args: []byte(`"late"`)}, func(context.Context) error {
						time.Sleep(5*time.Second + tc.takes)
						w.add("late")
						return nil
					})
				}()
				return sleep(ctx, time.Hour)
			}}
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(4*time.Minute+5*time.Second, func() { cancel(errors.New("interrupted")) })
			r, err := rn.Run(ctx, "R1", promise())
			if err != nil {
				t.Fatal(err)
			}
			wantVerdict(t, r, j, w, Aborted, tc.status)
			time.Sleep(2 * time.Hour)
		})
	}
}

// TestSecondInterruptLeaves: the run ends at once, and abort mends it.
func TestSecondInterruptLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rn, w, j := newRunner()
		leave := make(chan struct{})
		rn.Leave = leave
		quick := w.undo
		rn.Undo = map[string]UndoFunc{"remove": func(ctx context.Context, args []byte) error {
			time.Sleep(30 * time.Second)
			return quick(ctx, args)
		}}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(6*time.Minute, func() { cancel(errors.New("interrupted")) })
		time.AfterFunc(6*time.Minute+45*time.Second, func() { close(leave) })
		began := time.Now()
		r, err := rn.Run(ctx, "R1", promise())
		if !errors.Is(err, ErrLeft) || errext.StatusOf(err) != errext.Unclean || !contains(errext.Hint(err), "drill abort R1") {
			t.Fatalf("%v (%d)", err, errext.StatusOf(err))
		}
		if took := time.Since(began); took != 6*time.Minute+45*time.Second || r.Finished != nil {
			t.Errorf("left after %v, finished %v", took, r.Finished)
		}
		r, err = Abort(t.Context(), j, "kim", map[string]UndoFunc{"remove": quick})
		if err != nil {
			t.Fatal(err)
		}
		wantVerdict(t, r, j, w, Aborted, 130)
		time.Sleep(time.Minute) // the abandoned undo ends inside the bubble
	})
}

func TestJournalFailureUndoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rn, _, whole := newRunner()
		if _, err := rn.Run(t.Context(), "R1", promise()); err != nil {
			t.Fatal(err)
		}
		for at := 1; at <= len(whole.events); at++ {
			rn, w, j := newRunner()
			j.failAt = at
			r, err := rn.Run(t.Context(), "R1", promise())
			if !errors.Is(err, errDisk) || errext.StatusOf(err) != errext.Evidence {
				t.Fatalf("event %d: %v", at, err)
			}
			if len(w.there) > 0 {
				t.Errorf("event %d: left behind %v", at, w.there)
			}
			if at > 1 && (r.Finished == nil || r.Finished.Status != 6 || r.Finished.Verdict == Recovered) {
				t.Errorf("event %d: %+v", at, r.Finished)
			}
		}
	})
}

func TestLateEventsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rn, w, j := newRunner()
		steady, late := rn.Steps["steady"].(do), make(chan error, 2)
		rn.Steps["steady"] = do{do: func(ctx context.Context, sc Scope) error {
			time.AfterFunc(time.Hour, func() {
				late <- sc.Emit(TypeNote, Note{Text: "late"})
				late <- w.make(context.Background(), sc, "late")
			})
			return steady.do(ctx, sc)
		}}
		r, err := rn.Run(t.Context(), "R1", promise())
		if err != nil {
			t.Fatal(err)
		}
		wantVerdict(t, r, j, w, Recovered, 0)
		for range 2 {
			if err := <-late; !errors.Is(err, ErrOver) {
				t.Errorf("got %v, want ErrOver", err)
			}
		}
		wantVerdict(t, r, j, w, Recovered, 0)
	})
}

func TestWrongUse(t *testing.T) {
	for name, change := range map[string]func(*Runner, *RunStarted){
		"no journal": func(rn *Runner, _ *RunStarted) { rn.Handlers = nil },
		"no steps":   func(rn *Runner, _ *RunStarted) { rn.Playbook.Steps = nil },
		"no promise": func(_ *Runner, s *RunStarted) { s.Objectives.RTO = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			rn, _, _ := newRunner()
			s := promise()
			change(rn, &s)
			if _, err := rn.Run(t.Context(), "R1", s); errext.StatusOf(err) != errext.Usage {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestHandlers: a screen that fails is dropped, and the run goes on.
func TestHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rn, w, j := newRunner()
		screen := &memory{failAt: 5}
		rn.Handlers = append(rn.Handlers, screen)
		r, err := rn.Run(t.Context(), "R1", promise())
		if err != nil {
			t.Fatal(err)
		}
		wantVerdict(t, r, j, w, Recovered, 0)
		if len(screen.events) != 4 {
			t.Errorf("the screen saw %d events", len(screen.events))
		}
	})
}

func TestStepMayNotPretend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rn, w, j := newRunner()
		rn.Steps["boot"] = do{do: func(_ context.Context, sc Scope) error {
			for _, typ := range []string{TypeRunFinished, TypeStepFinished, TypeUndone} {
				if sc.Emit(typ, struct{}{}) == nil {
					t.Errorf("a step emitted %s", typ)
				}
			}
			n := len(j.events)
			if sc.Emit(TypeInstant, Instant{Name: InstantSteady, At: time.Hour}) == nil || len(j.events) != n {
				t.Error("an instant of the future was journaled")
			}
			return errext.WithStatus(errors.New("enough"), errext.Gate)
		}}
		r, err := rn.Run(t.Context(), "R1", promise())
		if err != nil {
			t.Fatal(err)
		}
		wantVerdict(t, r, j, w, NotRecovered, 4)
	})
}
