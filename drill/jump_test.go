package drill

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// TestClockJumps: the machine's clock is set back by an hour and forward by two
// during a recovery. What was measured does not change; the run says what happened.
func TestClockJumps(t *testing.T) {
	type moment struct {
		mono, wall time.Duration // wall since the begin, as the machine's clock had it
		typ        string
		data       any
	}
	begin := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	fold := func(moments []moment) *Run {
		r := &Run{}
		for i, m := range moments {
			raw, _ := json.Marshal(m.data)
			if err := r.Apply(Event{Run: "R1", Seq: uint64(i + 1), Wall: begin.Add(m.wall), Mono: m.mono, Proc: 1, Type: m.typ, Data: raw}); err != nil {
				t.Fatal(err)
			}
		}
		return r
	}
	r := fold([]moment{
		{0, 0, TypeRunStarted, RunStarted{}},
		{time.Minute, time.Minute, TypeInstant, Instant{Name: InstantDeclared}},
		{2 * time.Minute, 2*time.Minute - time.Hour, TypeNote, Note{Text: "back by an hour"}},
		{3 * time.Minute, 3*time.Minute - time.Hour + 300*time.Millisecond, TypeNote, Note{Text: "steered by 300 ms"}},
		{11 * time.Minute, 11*time.Minute + time.Hour, TypeInstant, Instant{Name: InstantSteady}},
	})
	if d, ok, why := r.RTO(); d != 10*time.Minute || !ok || why != "" {
		t.Errorf("the judged figure is %v (%v, %q), want 10m", d, ok, why)
	}
	if len(r.Jumps) != 2 || r.Jumps[0].By != -time.Hour || r.Jumps[1].By != 2*time.Hour-300*time.Millisecond {
		t.Fatalf("jumps: %+v, want -1h and 2h-300ms", r.Jumps)
	}
	notes := strings.Join(r.Notes, "\n")
	for _, want := range []string{"went back by 1h0m0s, seen 2m0s into the process", "went ahead by 1h59m59.7s, seen 11m0s into the process"} {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes lack %q:\n%s", want, notes)
		}
	}
	still := fold([]moment{{0, 0, TypeRunStarted, RunStarted{}}, {time.Hour, time.Hour + 900*time.Millisecond, TypeNote, Note{Text: "steered"}}})
	if len(still.Jumps) != 0 {
		t.Errorf("a clock that is steered slowly is no jump: %+v", still.Jumps)
	}
}

// TestSleep: ten minutes by the monotonic clock, nine before steady of which the machine's
// clock went ahead. Promised are 18, then 19 minutes and more.
func TestSleep(t *testing.T) {
	for promised, want := range map[time.Duration]string{18 * time.Minute: Unmeasured, 19 * time.Minute: Passed, time.Hour: Passed} {
		begin := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
		r := &Run{}
		for i, m := range []struct {
			mono, wall time.Duration
			typ        string
			data       any
		}{
			{0, 0, TypeRunStarted, RunStarted{Objectives: Objectives{RTO: promised}}},
			{time.Minute, time.Minute, TypeInstant, Instant{Name: InstantDeclared}},
			{5 * time.Minute, 14 * time.Minute, TypeNote, Note{Text: "awake again"}},
			{11 * time.Minute, 20 * time.Minute, TypeInstant, Instant{Name: InstantSteady}},
		} {
			raw, _ := json.Marshal(m.data)
			if err := r.Apply(Event{Run: "R1", Seq: uint64(i + 1), Wall: begin.Add(m.wall), Mono: m.mono, Proc: 1, Type: m.typ, Data: raw}); err != nil {
				t.Fatal(err)
			}
		}
		if g, seen := sleepGate(r); !seen || g.Result != want {
			t.Errorf("%v promised: %v, %+v, want %s", promised, seen, g, want)
		}
	}
	if _, seen := sleepGate(&Run{}); seen {
		t.Error("a run without a recovery")
	}
}
