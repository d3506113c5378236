package drill

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"drkit/internal/errext"
)

// live is the recovery with an engine that the cutover rests on, and a cutover
// that stays as keep says.
func live(keep string) (*Runner, *world, *memory) {
	rn, w, j := newRunner()
	change := func(name, keep string) func(context.Context, Scope) error {
		return func(ctx context.Context, sc Scope) error {
			return sc.Change(ctx, "make "+name, Undo{Kind: "remove", Args: []byte(`"` + name + `"`), Keep: keep}, func(context.Context) error { w.add(name); return nil })
		}
	}
	boot, cutover := rn.Steps["boot"].(do).do, rn.Steps["cutover"].(do).do
	rn.Steps["boot"] = do{do: func(ctx context.Context, sc Scope) error {
		return errors.Join(change("engine", KeepWhileUsed)(ctx, sc), boot(ctx, sc))
	}}
	rn.Steps["cutover"] = do{do: func(ctx context.Context, sc Scope) error {
		return errors.Join(change("production", keep)(ctx, sc), cutover(ctx, sc))
	}}
	return rn, w, j
}

func (w *world) left() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for name := range w.there {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// TestWhatStays: a planned cutover stays when all went well, an emergency's always,
// and the engine only beneath one of them. All else is gone.
func TestWhatStays(t *testing.T) {
	stays := []string{"engine", "production"}
	red := func(_ context.Context, sc Scope) error {
		return sc.Emit(TypeGate, Gate{ID: "steady", Expected: "good", Observed: "bad", Result: Failed})
	}
	for _, tc := range []struct {
		name, keep string
		break_     func(*Runner, context.CancelCauseFunc)
		verdict    string
		status     int
		left       []string
	}{
		{"planned", KeepOnSuccess, func(*Runner, context.CancelCauseFunc) {}, Recovered, 0, stays},
		{"planned, a red gate after it", KeepOnSuccess, func(rn *Runner, _ context.CancelCauseFunc) { rn.Steps["steady"] = do{do: red} }, NotRecovered, 4, nil},
		{"planned, Ctrl-C after it", KeepOnSuccess, func(rn *Runner, stop context.CancelCauseFunc) {
			rn.Steps["steady"] = do{do: func(context.Context, Scope) error {
				stop(errext.WithStatus(errors.New("interrupted"), errext.Interrupted))
				return nil
			}}
		}, Aborted, 130, nil},
		{"planned, Ctrl-C after the clean-up had kept it", KeepOnSuccess, func(rn *Runner, stop context.CancelCauseFunc) {
			clean := rn.Steps["cleanup"].(do).do
			rn.Steps["cleanup"] = do{do: func(ctx context.Context, sc Scope) error {
				err := clean(ctx, sc)
				stop(errext.WithStatus(errors.New("interrupted"), errext.Interrupted))
				return err
			}}
		}, Aborted, 130, nil},
		{"emergency", KeepHeld, func(*Runner, context.CancelCauseFunc) {}, Recovered, 0, stays},
		{"emergency, a red gate after it", KeepHeld, func(rn *Runner, _ context.CancelCauseFunc) { rn.Steps["steady"] = do{do: red} }, NotRecovered, 4, stays},
		{"emergency, nothing cut over", KeepHeld, func(rn *Runner, _ context.CancelCauseFunc) {
			rn.Steps["behaviour"] = do{do: func(context.Context, Scope) error { return errext.WithStatus(errors.New("wrong answers"), errext.Gate) }}
		}, NotRecovered, 4, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rn, w, j := live(tc.keep)
				ctx, stop := context.WithCancelCause(t.Context())
				defer stop(nil)
				tc.break_(rn, stop)
				r, err := rn.Run(ctx, "R1", promise())
				if err != nil {
					t.Fatal(err)
				}
				if got := w.left(); !slices.Equal(got, tc.left) {
					t.Errorf("left %v, want %v", got, tc.left)
				}
				w.there = map[string]bool{}
				wantVerdict(t, r, j, w, tc.verdict, tc.status)
				if len(r.Kept()) != len(tc.left) {
					t.Errorf("kept: %+v", r.Kept())
				}
			})
		})
	}
}

// TestAbortAndWhatStays: abort leaves an emergency's cutover alone unless a person
// asks, and takes a planned one back whose process is gone.
func TestAbortAndWhatStays(t *testing.T) {
	for _, tc := range []struct {
		keep       string
		left       []string // after abort
		afterwards []string // after AbortAll
	}{{KeepOnSuccess, nil, nil}, {KeepHeld, []string{"engine", "production"}, nil}} {
		synctest.Test(t, func(t *testing.T) {
			rn, w, whole := live(tc.keep)
			if _, err := rn.Run(t.Context(), "R1", promise()); err != nil {
				t.Fatal(err)
			}
			at := slices.Index(whole.types(), "steady:step.started")
			killed := &memory{events: slices.Clone(whole.events[:at+1])}
			r, err := Abort(t.Context(), killed, "kim", w.undos())
			if err != nil || r.Finished.Verdict != Aborted || r.Finished.Status != 130 || !slices.Equal(w.left(), tc.left) {
				t.Errorf("%s: %+v, left %v, %v", tc.keep, r.Finished, w.left(), err)
			}
			r, err = AbortAll(t.Context(), killed, "kim", w.undos())
			if err != nil || len(r.Kept()) > 0 || !slices.Equal(w.left(), tc.afterwards) {
				t.Errorf("%s: by force: kept %+v, left %v, %v", tc.keep, r.Kept(), w.left(), err)
			}
			if err := Verify(r); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestWhatIsRestedOnStays: a cutover that cannot be taken back may go on sending to
// the engine, which is left alone; all else is gone, and the status is 8.
func TestWhatIsRestedOnStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rn, w, j := live(KeepOnSuccess)
		rn.Steps["steady"] = do{do: func(context.Context, Scope) error { return errext.WithStatus(errors.New("late"), errext.Gate) }}
		w.broken["production"] = true
		r, err := rn.Run(t.Context(), "R1", promise())
		if err != nil {
			t.Fatal(err)
		}
		if got := w.left(); !slices.Equal(got, []string{"engine", "production"}) || slices.Contains(w.undone, "engine") {
			t.Errorf("left %v, undid %v", got, w.undone)
		}
		w.there = map[string]bool{}
		wantVerdict(t, r, j, w, NotRecovered, 8)
		wantReason(t, r, "could not be taken back")
	})
}

// TestNothingIsKeptByChance: only a change that was announced so stays.
func TestNothingIsKeptByChance(t *testing.T) {
	r := &Run{}
	for i, e := range []Event{
		{Type: TypeRunStarted, Data: []byte(`{}`)},
		{Type: TypeIntent, Data: []byte(`{"id":"c1","undo":{"kind":"x","args":null}}`)},
		{Type: TypeKept, Data: []byte(`{"id":"c1","why":"I like it"}`)},
		{Type: TypeIntent, Data: []byte(`{"id":"c2","undo":{"kind":"x","args":null,"keep":"always"}}`)},
		{Type: TypeKept, Data: []byte(`{"id":"c3","why":"what is it?"}`)},
	} {
		e.Run, e.Seq, e.Proc = "R1", r.Seq+1, 1
		if err := r.Apply(e); (err == nil) != (i < 2) {
			t.Errorf("event %d: %v", i, err)
		}
	}
}
