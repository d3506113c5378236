package drill

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"drkit/internal/errext"
	"drkit/playbooks"
)

// wantHeld checks that a run is held, that nothing was undone, that the journal
// replays to the same, and that the error tells how to go on and how to end it.
func wantHeld(t *testing.T, r *Run, err error, j *memory, w *world, step string, there int) {
	t.Helper()
	if !errors.Is(err, ErrPaused) || errext.StatusOf(err) != errext.Paused {
		t.Fatalf("%v (%d), want it held", err, errext.StatusOf(err))
	}
	for _, command := range []string{"drkit drill resume R1", "drkit drill abort R1"} {
		if !contains(errext.Hint(err), command) {
			t.Errorf("hint %q does not say %q", errext.Hint(err), command)
		}
	}
	if r.Held == nil || r.Held.Step != step || r.Held.Why == "" || r.Running() || r.Finished != nil || len(r.RunningSteps()) > 0 {
		t.Fatalf("held %+v, running %v, finished %v, steps %+v", r.Held, r.Running(), r.Finished, r.RunningSteps())
	}
	if len(w.undone) > 0 || len(w.there) != there {
		t.Errorf("undone %v, there %v", w.undone, w.there)
	}
	replayed, err := Replay(j.Events())
	if err != nil || !reflect.DeepEqual(replayed, r) {
		t.Errorf("replay: %v\n got %.2000v\nwant %.2000v", err, replayed, r)
	}
	if err := Verify(replayed); err != nil {
		t.Error(err)
	}
}

// TestStepHoldsTheRun: a step that waits for a person ends the process's part with
// nothing undone; abort then takes everything back.
func TestStepHoldsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rn, w, j := newRunner()
		rn.Playbook.Steps[5].Who, rn.Playbook.Steps[5].Retries = "the duty officer", 3
		rn.Steps["cutover"] = do{do: func(context.Context, Scope) error {
			return errext.WithHint(fmt.Errorf("nobody has approved: %w", ErrPaused), "drkit drill resume R1 --ack cutover --by NAME")
		}}
		began := time.Now()
		r, err := rn.Run(t.Context(), "R1", promise())
		wantHeld(t, r, err, j, w, "cutover", 3)
		if want := (Held{Why: "step cutover: nobody has approved: the run is held", Step: "cutover", Next: "drkit drill resume R1 --ack cutover --by NAME", By: HeldByTool, For: "the duty officer"}); *r.Held != want {
			t.Errorf("held %+v, want %+v", *r.Held, want)
		}
		if s := r.Steps[5]; s.Result != Unmeasured || s.Attempts != 1 {
			t.Errorf("cutover: %+v", s)
		}
		if took := time.Since(began); took != 10*time.Minute {
			t.Errorf("took %v", took)
		}
		if judged := Judge(r); judged.Verdict == Recovered {
			t.Errorf("a held run is judged %+v", judged)
		}
		r, err = Abort(t.Context(), j, "kim", w.undos())
		if err != nil {
			t.Fatal(err)
		}
		wantVerdict(t, r, j, w, Aborted, 130)
		if r.Held != nil || !contains(r.Aborting.Why, "nobody has approved") {
			t.Errorf("held %+v, aborting %+v", r.Held, r.Aborting)
		}
	})
}

// TestTimeoutHolds: on_timeout: hold does so after the last attempt, and only for the
// step's own time.
func TestTimeoutHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rn, w, j := newRunner()
		s := &rn.Playbook.Steps[3]
		s.Timeout, s.OnTimeout, s.Retries = 2*time.Minute, playbooks.Hold, 1
		r, err := rn.Run(t.Context(), "R1", promise())
		if len(w.undone) != 1 || w.undone[0] != "replica" {
			t.Errorf("the first attempt was not taken back: %v", w.undone)
		}
		w.undone = nil
		wantHeld(t, r, err, j, w, "boot", 3)
		if s := r.Steps[3]; s.Result != Unmeasured || s.Attempts != 2 || !contains(s.Error, "ran out of its time of 2m0s") {
			t.Errorf("boot: %+v", s)
		}
		if r.Held.Next != "drkit drill resume R1" {
			t.Errorf("next %q", r.Held.Next)
		}
	})
	synctest.Test(t, func(t *testing.T) { // a failure is no time-out, although an undo ran out of its own time
		rn, w, j := newRunner()
		s := &rn.Playbook.Steps[3]
		s.Timeout, s.OnTimeout = 2*time.Minute, playbooks.Hold
		rn.Steps["boot"] = do{do: func(context.Context, Scope) error { return fmt.Errorf("undoing: %w", timedOut{time.Minute}) }}
		r, err := rn.Run(t.Context(), "R1", promise())
		if err != nil {
			t.Fatal(err)
		}
		wantVerdict(t, r, j, w, Incomplete, 1)
	})
}

// TestARedGateStaysRedWhenHeld: what was seen red before the hold is not forgotten.
func TestARedGateStaysRedWhenHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rn, w, j := newRunner()
		rn.Steps["cutover"] = do{do: func(_ context.Context, sc Scope) error {
			return errors.Join(sc.Emit(TypeGate, Gate{ID: "gate-router", Expected: "only eu-west-1", Observed: "both", Result: Failed}), ErrPaused)
		}}
		r, err := rn.Run(t.Context(), "R1", promise())
		wantHeld(t, r, err, j, w, "cutover", 3)
		if r.Steps[5].Result != Failed {
			t.Errorf("cutover: %+v", r.Steps[5])
		}
	})
}

// TestPause: a person holds the run; the step under way ends first.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rn, w, j := newRunner()
		pause := make(chan struct{})
		rn.Pause = pause
		time.AfterFunc(5*time.Minute, func() { close(pause) }) // in the boot
		start := promise()
		start.By = "ada@console"
		r, err := rn.Run(t.Context(), "R1", start)
		wantHeld(t, r, err, j, w, "", 3)
		if r.Steps[3].Result != Passed || !r.Steps[4].Started.IsZero() || r.Held.By != "ada@console" {
			t.Errorf("boot %+v, behaviour %+v, held %+v", r.Steps[3], r.Steps[4], r.Held)
		}
	})
}

// TestInterruptBeatsHold: Ctrl-C while a step that would hold still runs takes
// everything back.
func TestInterruptBeatsHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rn, w, j := newRunner()
		rn.Steps["cutover"] = do{do: func(ctx context.Context, _ Scope) error { return errors.Join(sleep(ctx, time.Hour), ErrPaused) }}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(11*time.Minute, func() { cancel(errors.New("interrupted")) })
		r, err := rn.Run(ctx, "R1", promise())
		if err != nil {
			t.Fatal(err)
		}
		wantVerdict(t, r, j, w, Aborted, 130)
	})
}

// TestHoldInAGroup: the step beside the one that waits goes on to its end; when that
// one fails, the run ends.
func TestHoldInAGroup(t *testing.T) {
	for _, fails := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			rn, w, j := newRunner()
			sideBySide(rn)
			rn.Steps["restore"] = do{do: func(context.Context, Scope) error { return ErrPaused }}
			if fails {
				rn.Steps["boot"] = do{do: func(ctx context.Context, _ Scope) error {
					return errors.Join(sleep(ctx, time.Minute), errext.WithStatus(errors.New("exit status 1"), errext.Gate))
				}}
			}
			r, err := rn.Run(t.Context(), "R1", promise())
			if !fails {
				wantHeld(t, r, err, j, w, "restore", 2)
				if r.Steps[3].Result != Passed {
					t.Errorf("boot: %+v", r.Steps[3])
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			wantVerdict(t, r, j, w, NotRecovered, 4)
		})
	}
}

// TestHoldThatCannotBeJournaled ends with status 6 and everything taken back.
func TestHoldThatCannotBeJournaled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := do{do: func(context.Context, Scope) error { return ErrPaused }}
		rn, _, whole := newRunner()
		rn.Steps["cutover"] = hold
		if _, err := rn.Run(t.Context(), "R1", promise()); !errors.Is(err, ErrPaused) {
			t.Fatal(err)
		}
		rn, w, j := newRunner()
		rn.Steps["cutover"], j.failAt = hold, len(whole.events) // the hold is the last event
		r, err := rn.Run(t.Context(), "R1", promise())
		if errext.StatusOf(err) != errext.Evidence || r.Held != nil || r.Finished == nil || r.Finished.Status != 6 || len(w.there) > 0 {
			t.Errorf("%v; held %v, finished %+v, there %v", err, r.Held, r.Finished, w.there)
		}
	})
}

// TestFoldOfAHeldRun: after the hold only another process may speak.
func TestFoldOfAHeldRun(t *testing.T) {
	held := func() *Run {
		r := &Run{}
		for _, e := range []Event{
			{Type: TypeRunStarted, Data: []byte(`{"steps":[{"id":"a"}]}`)},
			{Type: TypeHeld, Data: []byte(`{"why":"x","next":"y"}`)},
		} {
			e.Run, e.Seq, e.Proc = "R1", r.Seq+1, 1
			if err := r.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
		return r
	}
	for _, tc := range []struct {
		typ  string
		proc int
		fine bool
	}{
		{TypeNote, 1, false}, {TypeRunAborting, 1, false}, {TypeResumed, 1, false}, {TypeRunFinished, 1, false},
		{TypeNote, 2, false}, {TypeStepStarted, 2, false}, {TypeRunAborting, 2, true}, {TypeResumed, 2, true}, {TypeResumed, 3, false},
	} {
		r := held()
		err := r.Apply(Event{Run: "R1", Seq: 3, Proc: tc.proc, Type: tc.typ, Data: []byte(`{"verdict":"incomplete","why":"x"}`)})
		if (err == nil) != tc.fine {
			t.Errorf("%s of process %d: %v", tc.typ, tc.proc, err)
		}
		if (r.Held == nil) != tc.fine {
			t.Errorf("%s of process %d: held %+v", tc.typ, tc.proc, r.Held)
		}
	}
}
