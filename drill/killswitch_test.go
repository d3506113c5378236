package drill

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"drkit/internal/errext"
)

// switchAt is a kill switch that is set after a time.
func switchAt(d time.Duration) func(context.Context) (string, error) {
	began := time.Now()
	return func(context.Context) (string, error) {
		if time.Since(began) < d {
			return "", nil
		}
		return "/srv/STOP is there", nil
	}
}

func TestKillSwitchBeforeTheStart(t *testing.T) {
	for name, stop := range map[string]func(context.Context) (string, error){
		"the kill switch is set: /srv/STOP is there":         func(context.Context) (string, error) { return "/srv/STOP is there", nil },
		"the kill switch cannot be read: access denied":      func(context.Context) (string, error) { return "", errors.New("access denied") },
		"the kill switch cannot be read: ran out of its tim": func(ctx context.Context) (string, error) { <-ctx.Done(); return "", context.Cause(ctx) },
	} {
		synctest.Test(t, func(t *testing.T) {
			rn, w, j := newRunner()
			rn.Stop = stop
			r, err := rn.Run(t.Context(), "R1", promise())
			if err != nil {
				t.Fatal(err)
			}
			wantVerdict(t, r, j, w, Refused, 3)
			wantReason(t, r, name)
			if len(r.Changes) > 0 {
				t.Errorf("changes %+v", r.Changes)
			}
		})
	}
}

// TestKillSwitchWhileItRuns: set in the boot, it ends the run within seconds, with
// everything taken back.
func TestKillSwitchWhileItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rn, w, j := newRunner()
		began := time.Now()
		rn.Stop = switchAt(6 * time.Minute)
		r, err := rn.Run(t.Context(), "R1", promise())
		if err != nil {
			t.Fatal(err)
		}
		wantVerdict(t, r, j, w, Aborted, 130)
		wantReason(t, r, "the kill switch is set: /srv/STOP is there")
		if took := time.Since(began); took != 6*time.Minute {
			t.Errorf("ended after %v", took)
		}
	})
}

// TestKillSwitchBeforeAChange: between two looks the switch is set, and the change that
// comes next does not begin. What was changed before is taken back all the same.
func TestKillSwitchBeforeAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rn, w, j := newRunner()
		rn.Stop, rn.StopEvery = switchAt(3*time.Minute+30*time.Second), time.Hour
		r, err := rn.Run(t.Context(), "R1", promise())
		if err != nil {
			t.Fatal(err)
		}
		wantVerdict(t, r, j, w, Aborted, 130)
		wantReason(t, r, "the kill switch is set: /srv/STOP is there")
		if len(r.Changes) != 1 || r.Changes[0].What != "make lock" || !r.Changes[0].Undone {
			t.Errorf("changes %+v", r.Changes)
		}
	})
}

// TestKillSwitchThatHangs delays each change by seconds, and stops nothing.
func TestKillSwitchThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rn, w, j := newRunner()
		var asked atomic.Int32
		rn.StopEvery = time.Hour
		rn.Stop = func(ctx context.Context) (string, error) {
			if asked.Add(1) > 1 {
				<-ctx.Done()
				return "", context.Cause(ctx)
			}
			return "", nil
		}
		began := time.Now()
		r, err := rn.Run(t.Context(), "R1", promise())
		if err != nil {
			t.Fatal(err)
		}
		wantVerdict(t, r, j, w, Recovered, 0)
		if took := time.Since(began); took != 14*time.Minute+time.Second+4*3*time.Second { // the recovery's own time, and three seconds for each of its four changes
			t.Errorf("took %v", took)
		}
		if len(r.Notes) != 1 || !contains(r.Notes[0], "ran out of its time of 3s") {
			t.Errorf("notes %q", r.Notes)
		}
	})
}

// TestKillSwitchThatCannotBeRead is no order to stop, and is noted once.
func TestKillSwitchThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rn, w, j := newRunner()
		var asked atomic.Int32 // the look before the start and those meanwhile are of two goroutines
		rn.Stop = func(context.Context) (string, error) {
			if asked.Add(1) > 1 {
				return "", errors.New("no route to host")
			}
			return "", nil
		}
		r, err := rn.Run(t.Context(), "R1", promise())
		if err != nil {
			t.Fatal(err)
		}
		wantVerdict(t, r, j, w, Recovered, 0)
		if len(r.Notes) != 1 || !contains(r.Notes[0], "no route to host") {
			t.Errorf("notes %q", r.Notes)
		}
	})
}

func TestKillSwitchKeepsARunHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rn, w, j := newRunner()
		rn.Steps["cutover"] = do{do: func(context.Context, Scope) error { return ErrPaused }}
		_, err := rn.Run(t.Context(), "R1", promise())
		if !errors.Is(err, ErrPaused) {
			t.Fatal(err)
		}
		lines := len(j.events)
		rn.Stop = switchAt(0)
		_, err = rn.Resume(t.Context(), "R1", promise())
		if errext.StatusOf(err) != errext.Refused || !contains(err.Error(), "kill switch is set") || len(j.events) != lines || len(w.there) != 3 {
			t.Errorf("%v; %d events more, there %v", err, len(j.events)-lines, w.there)
		}
	})
}
