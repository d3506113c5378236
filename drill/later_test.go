package drill

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"

	"drkit/internal/errext"
)

// keptRun is a planned run that ended incomplete and keeps its cutover with the engine.
func keptRun(t *testing.T) (*Runner, *world, *memory, *Run) {
	t.Helper()
	rn, w, j := live(KeepOnSuccess)
	steady := rn.Steps["steady"].(do)
	rn.Steps["steady"] = do{do: func(ctx context.Context, sc Scope) error {
		return errors.Join(steady.do(ctx, sc), sc.Emit(TypeGate, Gate{ID: "soak", Result: Unmeasured}))
	}}
	r, err := rn.Run(t.Context(), "R1", promise())
	if err != nil || r.Finished.Verdict != Incomplete || r.Finished.Status != 4 || len(r.Kept()) != 2 {
		t.Fatalf("%v %+v, kept %+v", err, r.Finished, r.Kept())
	}
	return rn, w, j, r
}

// TestTakeBackAfterTheEnd: the verdict stays, the take-back is a record of its own with
// who did it, and a replay shows the same.
func TestTakeBackAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, w, j, ended := keptRun(t)
		r, err := AbortAll(t.Context(), j, "mei@desk", w.undos())
		if err != nil {
			t.Fatal(err)
		}
		wantVerdict(t, r, j, w, Incomplete, 4)
		if !reflect.DeepEqual(r.Finished, ended.Finished) || r.Ended != ended.Ended || r.Aborting != nil {
			t.Errorf("the end was changed: %+v at %v", r.Finished, r.Ended)
		}
		if n := len(r.TakenBack); n != 1 || r.TakenBack[0].By != "mei@desk" || len(r.Kept())+len(r.Left()) > 0 {
			t.Fatalf("%+v, kept %+v, left %+v", r.TakenBack, r.Kept(), r.Left())
		}
		for _, c := range r.Changes {
			if c.Kept != "" && (c.Undone || c.Later == nil || !c.Later.Undone || c.Later.By != "mei@desk") {
				t.Errorf("%+v", c)
			}
		}
		lines := len(j.events)
		if _, err := AbortAll(t.Context(), j, "mei@desk", w.undos()); err != nil || len(j.events) != lines {
			t.Errorf("a second one wrote %d lines: %v", len(j.events)-lines, err)
		}
	})
}

// TestTakeBackIsKilled: cut after every event, it is done again by another process, and
// the verdict is the same.
func TestTakeBackIsKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, w, j, _ := keptRun(t)
		before := len(j.events)
		if _, err := AbortAll(t.Context(), j, "mei", w.undos()); err != nil {
			t.Fatal(err)
		}
		for n := before + 1; n < len(j.events); n++ {
			killed, again := &memory{events: slices.Clone(j.events[:n])}, newWorld()
			r, err := AbortAll(t.Context(), killed, "mei", again.undos())
			if err != nil || len(r.Kept())+len(r.Left()) > 0 {
				t.Errorf("%d events: %v, kept %+v", n, err, r.Kept())
			}
			wantVerdict(t, r, killed, again, Incomplete, 4)
		}
	})
}

// TestTakeBackThatIsRefused: an undo that would do harm changes nothing: the cutover and
// what it rests on go on to stay. One that failed half-way leaves something.
func TestTakeBackThatIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		err        error
		kept, left int
	}{
		"refused": {fmt.Errorf("%w: the source is dead", ErrUntouched), 2, 0},
		"failed":  {errors.New("half of it"), 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, w, j, _ := keptRun(t)
				undo := w.undos()
				works := undo["remove"]
				undo["remove"] = func(context.Context, []byte) error { return c.err }
				before := len(w.undone)
				r, err := AbortAll(t.Context(), j, "mei", undo)
				if errext.StatusOf(err) != errext.Unclean || len(r.Kept()) != c.kept || len(r.Left()) != c.left || len(w.undone) > before {
					t.Errorf("%v, kept %d, left %d, undid %v", err, len(r.Kept()), len(r.Left()), w.undone)
				}
				if r.Finished.Status != 4 || Verify(r) != nil {
					t.Errorf("%+v, %v", r.Finished, Verify(r))
				}
				undo["remove"] = works
				if r, err = AbortAll(t.Context(), j, "mei", undo); err != nil || len(r.Kept())+len(r.Left()) > 0 {
					t.Errorf("again: %v, kept %+v, left %+v", err, r.Kept(), r.Left())
				}
			})
		})
	}
}

// TestAbortLeavesWhatStays: an abort that nobody forces takes back what was left, and
// not the cutover that the run kept.
func TestAbortLeavesWhatStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, w, j, r := keptRun(t)
		lines := len(j.events)
		if _, err := Abort(t.Context(), j, "kim", w.undos()); err != nil || len(j.events) != lines || len(w.left()) != 2 {
			t.Errorf("%v, %d lines, left %v, kept %+v", err, len(j.events)-lines, w.left(), r.Kept())
		}
	})
}

// TestAfterTheEnd: what may follow the end, and from whom.
func TestAfterTheEnd(t *testing.T) {
	ended := func() *Run {
		return movedRun(t, ModePlanned, of(TypeKept, "cutover", Kept{ID: "change-2", Why: "it was made for it"}), of(TypeRunFinished, "", RunFinished{Verdict: Incomplete, Status: 8}))
	}
	back := of(TypeTakingBack, "", TakingBack{By: "mei", Why: "it was asked for"})
	undone := of(TypeUndone, "cutover", Undone{ID: "change-2"})
	at := func(proc int, e Event) Event { e.Proc = proc; return e }
	for name, c := range map[string]struct {
		events []Event
		ok     bool
	}{
		"an abort":                           {[]Event{at(2, of(TypeRunAborting, "", RunAborting{Why: "x"}))}, false},
		"a note":                             {[]Event{at(1, of(TypeNote, "", Note{Text: "x"}))}, false},
		"an undo without a word":             {[]Event{at(2, undone)}, false},
		"an undo":                            {[]Event{at(2, back), at(2, undone)}, true},
		"an undo by another process":         {[]Event{at(2, back), at(3, undone)}, false},
		"a take-back by the run's process":   {[]Event{at(1, back)}, false},
		"two take-backs":                     {[]Event{at(2, back), at(3, back), at(3, undone)}, true},
		"by nobody":                          {[]Event{at(2, of(TypeTakingBack, "", TakingBack{Why: "x"}))}, false},
		"another verdict":                    {[]Event{at(2, back), at(2, of(TypeRunFinished, "", RunFinished{Verdict: Recovered}))}, false},
		"a gate":                             {[]Event{at(2, back), at(2, of(TypeGate, "boot", Gate{ID: "g", Result: Passed}))}, false},
		"adopted, and then another's undone": {[]Event{at(2, of(TypeAdopted, "cutover", Adopted{ID: "change-2", By: "mei"})), at(3, back), at(3, of(TypeUndone, "boot", Undone{ID: "change-1"}))}, true},
	} {
		r, err := ended(), error(nil)
		for i, e := range c.events {
			e.Run, e.Seq, e.Mono = "r", r.Seq+1, 100
			if err = r.Apply(e); err != nil && i < len(c.events)-1 {
				t.Errorf("%s: event %d: %v", name, i, err)
			}
		}
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
		if r.Finished == nil || r.Finished.Status != 8 || Judge(r).Status != Judge(ended()).Status {
			t.Errorf("%s: the verdict is %+v, judged %+v", name, r.Finished, Judge(r))
		}
	}
	going := movedRun(t, ModePlanned)
	e := at(2, back)
	e.Run, e.Seq = "r", going.Seq+1
	if going.Apply(e) == nil {
		t.Error("a take-back after the end of a run that goes on")
	}
}

// TestTakeBackThatFailedHalfWay: where a person had an emergency's cutover taken back and
// the undo broke off in the middle, nothing is as the run left it. No later look may call
// that staying on purpose: neither an abort that nobody forces, nor an undo that is refused.
func TestTakeBackThatFailedHalfWay(t *testing.T) {
	broken := errors.New("one replica of two was put back")
	refused := fmt.Errorf("%w: the source is dead", ErrUntouched)
	for name, c := range map[string]struct {
		later []error // what the undo says at the abort without force, one after the other
		left  int
	}{
		"and again":              {[]error{broken}, 1},
		"and is refused then":    {[]error{refused}, 1},
		"and is refused twice":   {[]error{refused, refused}, 1},
		"and is taken back then": {[]error{refused, nil}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rn, w, j := live(KeepHeld)
				if r, err := rn.Run(t.Context(), "R1", promise()); err != nil || len(r.Kept()) != 2 {
					t.Fatalf("%v, kept %+v", err, r.Kept())
				}
				undo := w.undos()
				works, says := undo["remove"], broken
				undo["remove"] = func(ctx context.Context, args []byte) error {
					if says == nil {
						return works(ctx, args)
					}
					return says
				}
				if r, err := AbortAll(t.Context(), j, "mei", undo); errext.StatusOf(err) != errext.Unclean || len(r.Left()) != 1 {
					t.Fatalf("%v, left %+v", err, r.Left())
				}
				for i, err := range c.later {
					says = err
					r, got := Abort(t.Context(), j, "kim", undo)
					last := i == len(c.later)-1
					if want := errext.StatusOf(got) == errext.Unclean; want != (err != nil) {
						t.Errorf("abort %d: %v", i, got)
					}
					if last && len(r.Left()) != c.left {
						t.Errorf("left %+v, kept %+v", r.Left(), r.Kept())
					}
				}
			})
		})
	}
}

// TestTakeBackThatIsNotJournaled: what was taken back after the end, and stands nowhere,
// is evidence that is lost: no success.
func TestTakeBackThatIsNotJournaled(t *testing.T) {
	for name, again := range map[string]func(context.Context, *memory, *world, *Run) (*Run, error){
		"abort": func(ctx context.Context, j *memory, w *world, _ *Run) (*Run, error) {
			return AbortAll(ctx, j, "mei", w.undos())
		},
		"release": func(ctx context.Context, j *memory, w *world, r *Run) (*Run, error) {
			var ids []string
			for _, c := range r.Kept() {
				ids = append(ids, c.ID)
			}
			return Release(ctx, j, "mei", ids, w.undos())
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, w, j, r := keptRun(t)
				j.failAt = len(j.events) + 2 // the disk is full right after it said that it takes back
				if _, err := again(t.Context(), j, w, r); errext.StatusOf(err) != errext.Evidence {
					t.Errorf("%v (status %d), undone %v", err, errext.StatusOf(err), w.undone)
				}
			})
		})
	}
}
