package report

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"drkit/drill"
	"drkit/drill/forecast"
)

// TestPlainWords: lines of long work at most every 15 seconds, a step of the machine's
// clock when it is seen, and the projection after a step while the clock runs.
func TestPlainWords(t *testing.T) {
	var out bytes.Buffer
	p := NewPlain(&out)
	p.Earlier = forecast.Earlier{"verify": {Took: 90 * time.Second, Runs: 3}, "steady": {Took: 60 * time.Second, Runs: 3}}
	r := &drill.Run{}
	begin := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	event := func(mono, ahead time.Duration, step, typ string, data any) {
		t.Helper()
		raw, err := json.Marshal(data)
		if err != nil {
			t.Fatal(err)
		}
		e := drill.Event{Run: "R1", Seq: r.Seq + 1, Wall: begin.Add(mono + ahead), Mono: mono, Proc: 1, Step: step, Attempt: 1, Type: typ, Data: raw}
		if err := r.Apply(e); err != nil {
			t.Fatal(err)
		}
		if err := p.Event(e, r); err != nil {
			t.Fatal(err)
		}
	}
	event(0, 0, "", drill.TypeRunStarted, drill.RunStarted{Service: "chat", Source: "a", Target: "b", Objectives: drill.Objectives{RTO: 10 * time.Minute},
		Steps: []drill.StepPlan{{ID: "declare", Kind: "declare"}, {ID: "verify", Kind: "verify"}, {ID: "steady", Kind: "steady"}}})
	event(0, 0, "declare", drill.TypeStepStarted, drill.StepStarted{})
	event(0, 0, "declare", drill.TypeInstant, drill.Instant{Name: drill.InstantDeclared})
	event(0, 0, "declare", drill.TypeStepFinished, drill.StepFinished{Result: drill.Passed})
	event(0, 0, "verify", drill.TypeStepStarted, drill.StepStarted{})
	for s := range 41 { // 50 MB a second
		event(time.Duration(s)*time.Second, 0, "verify", drill.TypeProgress, drill.Progress{Task: "b", Done: int64(s) * 50e6, Total: 2e9, Unit: "bytes"})
	}
	event(41*time.Second, -time.Hour, "verify", drill.TypeInstant, drill.Instant{Name: drill.InstantCutover, At: 37500 * time.Millisecond})
	event(41*time.Second, -time.Hour, "verify", drill.TypeStepFinished, drill.StepFinished{Result: drill.Passed})
	// verify's rest at 15 s is 1250 MB, at 30 s 500 MB; after it, 41 s and steady's 60.
	want := `--:--.- ● run R1: chat, a → b, promised within 10m
--:--.- … declare
00:00.0 ● declared
00:00.0 ✓ declare passed in 0s · on track: projected 2:30 by earlier runs, promised 10:00
00:00.0 … verify
00:15.0 … verify: b: 750.0 MB of 2.0 GB, 37 %, 0:25 left at 50.0 MB/s
00:30.0 … verify: b: 1.5 GB of 2.0 GB, 75 %, 0:10 left at 50.0 MB/s
00:41.0 ● the machine's clock went back by 1h0m0s, seen 41s into the process: times of day before and after do not compare, measured times hold
00:41.0 ● cutover at 00:37.5
00:41.0 ✓ verify passed in 41s · on track: projected 1:41 by earlier runs, promised 10:00
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
