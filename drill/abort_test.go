package drill

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"drkit/internal/errext"
)

// TestAbortAfterKill cuts a recovery's journal after every event, as kill -9
// does, with the world as it was then, and aborts it, twice.
func TestAbortAfterKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rn, _, whole := newRunner()
		if _, err := rn.Run(t.Context(), "R1", promise()); err != nil {
			t.Fatal(err)
		}
		for n := 1; n < len(whole.events); n++ {
			killed := &memory{events: slices.Clone(whole.events[:n])}
			r, err := Replay(killed.Events())
			if err != nil {
				t.Fatalf("%d events: %v", n, err)
			}
			w := newWorld()
			for _, c := range r.Changes { // an intent without a result may or may not have been carried out
				if !c.Undone {
					w.there[c.What[len("make "):]] = true
				}
			}
			left := len(w.there)
			r, err = Abort(t.Context(), killed, "kim", w.undos())
			if err != nil {
				t.Fatalf("%d events: %v", n, err)
			}
			wantVerdict(t, r, killed, w, Aborted, 130)
			if len(w.undone) != left {
				t.Errorf("%d events: undid %v, %d were left", n, w.undone, left)
			}
			lines := len(killed.events)
			if _, err := Abort(t.Context(), killed, "kim", w.undos()); err != nil || len(killed.events) != lines {
				t.Errorf("%d events: the second abort wrote %d lines: %v", n, len(killed.events)-lines, err)
			}
		}
	})
}

// TestAbortIsKilledToo cuts the journal of an abort as well, and aborts again.
func TestAbortIsKilledToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rn, _, whole := newRunner()
		if _, err := rn.Run(t.Context(), "R1", promise()); err != nil {
			t.Fatal(err)
		}
		first := &memory{events: slices.Clone(whole.events[:20])}
		if _, err := Abort(t.Context(), first, "kim", newWorld().undos()); err != nil {
			t.Fatal(err)
		}
		for n := 21; n < len(first.events); n++ {
			again, w := &memory{events: slices.Clone(first.events[:n])}, newWorld()
			r, err := Abort(t.Context(), again, "kim", w.undos())
			if err != nil {
				t.Fatalf("%d events: %v", n, err)
			}
			wantVerdict(t, r, again, w, Aborted, 130)
			if r.Last.Proc != 3 {
				t.Errorf("%d events: process %d", n, r.Last.Proc)
			}
		}
	})
}

// TestAbortMendsAnUncleanEnd: what an undo could not prove is tried again, after the
// end; the verdict stays what it was closed as.
func TestAbortMendsAnUncleanEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rn, w, j := newRunner()
		w.broken["replica"] = true
		if r, err := rn.Run(t.Context(), "R1", promise()); err != nil || r.Finished.Status != 8 {
			t.Fatalf("%v %+v", err, r.Finished)
		}
		r, err := Abort(t.Context(), j, "kim", w.undos())
		if errext.StatusOf(err) != errext.Unclean || r.Finished.Status != 8 || r.Last.Proc != 2 || len(r.Left()) != 1 {
			t.Fatalf("%v %+v", err, r.Finished)
		}
		w.broken["replica"] = false
		r, err = Abort(t.Context(), j, "mei", w.undos())
		if err != nil {
			t.Fatal(err)
		}
		wantVerdict(t, r, j, w, Incomplete, 8)
		if c := r.change("change-3"); r.Last.Proc != 3 || len(r.Left()) > 0 || len(r.LeftAtEnd()) != 1 || c.Undone || c.Later == nil || c.Later.By != "mei" || !c.Gone() {
			t.Errorf("process %d, left %v, %+v", r.Last.Proc, r.Left(), r.Changes)
		}
	})
}

func TestAbortRefuses(t *testing.T) {
	if _, err := Abort(t.Context(), &memory{}, "kim", nil); err == nil || errext.Hint(err) == "" {
		t.Errorf("empty journal: %v", err)
	}
	bad := &memory{events: []Event{{Run: "R1", Seq: 2, Proc: 1, Type: TypeRunStarted, Data: []byte("{}")}}}
	if _, err := Abort(t.Context(), bad, "kim", nil); errext.StatusOf(err) != errext.Evidence {
		t.Errorf("broken journal: %v", err)
	}
}

func TestWallClockAcrossProcesses(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	a := Stamp{Proc: 1, Mono: time.Hour, Wall: at}
	b := Stamp{Proc: 2, Mono: time.Second, Wall: at.Add(90 * time.Second)}
	if s := Between(a, b); !s.Measured || s.Elapsed != 90*time.Second || s.Clock != ClockWall {
		t.Errorf("%+v", s)
	}
	if s := Between(b, a); s.Measured || s.Why == "" {
		t.Errorf("a span of negative length: %+v", s)
	}
	if s := Between(a, Stamp{Proc: 1, Mono: time.Minute, Wall: at.Add(time.Hour)}); s.Measured {
		t.Errorf("the wall clock was believed inside one process: %+v", s)
	}
}
