package tui

import (
	"encoding/json"
	"testing"
	"time"

	"drkit/drill"
)

// began is when the fixtures' runs begin.
var began = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// tape records events as a runner would: in order, at moments that a test names.
type tape struct {
	t      *testing.T
	events []drill.Event
	proc   int
	base   time.Duration // wall clock of the process's begin
}

// at adds an event at a moment of the present process.
func (tp *tape) at(mono time.Duration, step, typ string, data any) *tape {
	tp.t.Helper()
	raw, err := json.Marshal(data)
	if err != nil {
		tp.t.Fatal(err)
	}
	tp.events = append(tp.events, drill.Event{
		Run: "01JXDEMO7", Seq: uint64(len(tp.events) + 1), Wall: began.Add(tp.base + mono), Mono: mono,
		Proc: tp.proc, Step: step, Attempt: 1, Type: typ, Data: raw,
	})
	return tp
}

// step adds a step that passed.
func (tp *tape) step(from, to time.Duration, id string) *tape {
	tp.at(from, id, drill.TypeStepStarted, drill.StepStarted{Kind: id})
	return tp.at(to, id, drill.TypeStepFinished, drill.StepFinished{Result: drill.Passed})
}

// finish adds the end.
func (tp *tape) finish(mono time.Duration, verdict string, status int, reasons ...drill.Reason) *tape {
	return tp.at(mono, "", drill.TypeRunFinished, drill.RunFinished{Verdict: verdict, Status: status, Reasons: reasons})
}

func (tp *tape) fold() *drill.Run {
	tp.t.Helper()
	r := &drill.Run{}
	for _, e := range tp.events {
		if err := r.Apply(e); err != nil {
			tp.t.Fatal(err)
		}
	}
	return r
}

func plan() drill.RunStarted {
	p := drill.RunStarted{
		Service: "support-chat", Mode: "rehearsal", Playbook: "rehearsal",
		Release: "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
		Source:  "us-east-1", Target: "eu-west-1",
		Objectives: drill.Objectives{RTO: 10 * time.Minute, TTFTP99: 2 * time.Second, MustProve: []string{drill.ProofCopy, drill.ProofBehaviour}},
	}
	for _, s := range []struct {
		id     string
		budget time.Duration
	}{
		{"preflight", time.Minute}, {"source", 4 * time.Minute}, {"traffic", time.Minute}, {"declare", 0},
		{"verify", 3 * time.Minute}, {"boot", 90 * time.Second}, {"behaviour", 2 * time.Minute},
		{"cutover", time.Minute}, {"steady", time.Minute}, {"failback", 2 * time.Minute}, {"cleanup", time.Minute},
	} {
		p.Steps = append(p.Steps, drill.StepPlan{ID: s.id, Kind: s.id, Budget: s.budget})
	}
	return p
}

// beforeClock is a run whose source replica boots: 1m10s in, nothing declared.
func beforeClock(t *testing.T) *tape {
	tp := &tape{t: t, proc: 1}
	tp.at(0, "", drill.TypeRunStarted, plan())
	tp.step(0, 3400*time.Millisecond, "preflight")
	tp.at(4*time.Second, "source", drill.TypeStepStarted, drill.StepStarted{Kind: "source"})
	tp.at(5*time.Second, "source", drill.TypeLog, drill.Log{From: "source", Line: "\x1b[32mINFO\x1b[0m Loading weights\ttook 1.2 s\r"})
	tp.at(30*time.Second, "source", drill.TypePhase, drill.Phase{Replica: "source", Name: "load weights", Length: 12300 * time.Millisecond})
	tp.at(40*time.Second, "source", drill.TypePhase, drill.Phase{Replica: "source", Start: 12 * time.Second, Length: 4 * time.Second, Gap: true})
	return tp.at(70*time.Second, "source", drill.TypeProgress, drill.Progress{Task: "restore", Done: 1_200_000_000, Total: 3_400_000_000, Unit: "bytes"})
}

// declared goes on to the boot of the target: declared at 2:00, now 5:30.
func declared(t *testing.T) *tape {
	tp := beforeClock(t)
	tp.at(90*time.Second, "source", drill.TypeComponent, drill.Component{Role: drill.RoleEngine, Name: "source engine", Kind: "vllm", Version: "0.32.0"})
	tp.at(90*time.Second, "source", drill.TypeStepFinished, drill.StepFinished{Result: drill.Passed})
	tp.at(91*time.Second, "traffic", drill.TypeStepStarted, drill.StepStarted{Kind: "traffic"})
	tp.at(92*time.Second, "traffic", drill.TypeComponent, drill.Component{Role: drill.RoleRouter, Name: "rehearsal router", Kind: "reference", Substitute: true})
	tp.at(110*time.Second, "traffic", drill.TypeTraffic, drill.TrafficWindow{Class: "us-chat", From: 100 * time.Second, To: 110 * time.Second,
		Sent: 48, OK: 48, TTFTP50: 80 * time.Millisecond, TTFTP99: 120 * time.Millisecond, ByRegion: map[string]int{"us-east-1": 48}, Phase: "baseline"})
	tp.at(111*time.Second, "traffic", drill.TypeGate, drill.Gate{ID: "baseline", Title: "the source serves the traffic", Expected: "no request fails", Observed: "48 sent, 0 failed", Result: drill.Passed})
	tp.at(112*time.Second, "traffic", drill.TypeStepFinished, drill.StepFinished{Result: drill.Passed})
	tp.at(120*time.Second, "", drill.TypeInstant, drill.Instant{Name: drill.InstantDeclared})
	tp.step(120*time.Second, 120*time.Second, "declare")
	tp.at(121*time.Second, "verify", drill.TypeStepStarted, drill.StepStarted{Kind: "verify"})
	tp.at(299*time.Second, "verify", drill.TypeGate, drill.Gate{ID: "copy", Title: "the target holds the release", Expected: "match", Observed: "31 files match, content", Result: drill.Passed})
	tp.at(300*time.Second, "verify", drill.TypeProof, drill.Proof{Name: drill.ProofCopy, Proven: true, Why: "hashed", Gates: []string{"copy"}})
	tp.at(300*time.Second, "verify", drill.TypeStepFinished, drill.StepFinished{Result: drill.Passed})
	tp.at(300*time.Second, "boot", drill.TypeStepStarted, drill.StepStarted{Kind: "boot"})
	tp.at(301*time.Second, "boot", drill.TypeIntent, drill.Intent{ID: "change-1", What: "start the target engine", Undo: drill.Undo{Kind: "stop"}})
	tp.at(301*time.Second, "boot", drill.TypeChanged, drill.Changed{ID: "change-1"})
	return tp.at(330*time.Second, "boot", drill.TypeLog, drill.Log{From: "target", Line: "INFO Starting to load model"})
}

// behaves goes on to a behaviour step under way, at 6:00.
func behaves(t *testing.T) *tape {
	tp := declared(t)
	tp.at(355*time.Second, "boot", drill.TypeInstant, drill.Instant{Name: drill.InstantWeights, At: 310 * time.Second, Cached: true})
	tp.at(355*time.Second, "boot", drill.TypeInstant, drill.Instant{Name: drill.InstantEngineReady})
	tp.at(355*time.Second, "boot", drill.TypeStepFinished, drill.StepFinished{Result: drill.Passed})
	return tp.at(360*time.Second, "behaviour", drill.TypeStepStarted, drill.StepStarted{Kind: "behaviour"})
}

var badBehaviour = drill.Gate{
	ID: "behaviour", Title: "the target answers as recorded", Expected: "token ids 12 88 301 7", Observed: "token ids 12 88 9 9, first difference at position 2 of probe greedy-1 (adapter billing)",
	Result: drill.Failed, Hint: "compare the adapter's files with the release",
}

// red is a run whose behaviour gate is red and whose undo has not run yet.
func red(t *testing.T) *tape {
	tp := behaves(t)
	tp.at(370*time.Second, "behaviour", drill.TypeGate, drill.Gate{ID: "long-context", Title: "a long prompt is answered", Expected: "an answer", Observed: "no probe of that length", Result: drill.Unmeasured})
	tp.at(371*time.Second, "behaviour", drill.TypeGate, badBehaviour)
	return tp.at(372*time.Second, "behaviour", drill.TypeStepFinished, drill.StepFinished{
		Result: drill.Failed, Status: 4, Error: "gate behaviour failed: " + badBehaviour.Observed, Hint: badBehaviour.Hint})
}

// failed is red, undone and judged.
func failed(t *testing.T) *tape {
	tp := red(t)
	tp.at(374*time.Second, "boot", drill.TypeUndone, drill.Undone{ID: "change-1", What: "stopped"})
	return tp.finish(375*time.Second, drill.NotRecovered, 4,
		drill.Reason{Status: 4, Name: "gate-failed", What: "gate behaviour: expected " + badBehaviour.Expected + ", observed " + badBehaviour.Observed, Hint: badBehaviour.Hint},
		drill.Reason{Status: 4, Name: "gate-failed", What: "gate long-context is unmeasured: no probe of that length"})
}

// steadied goes on to steady, declared 2:00 → steady 8:30, with the failback under way.
func steadied(t *testing.T) *tape {
	tp := behaves(t)
	tp.at(400*time.Second, "behaviour", drill.TypeGate, drill.Gate{ID: "behaviour", Title: "the target answers as recorded", Expected: "the recorded answers", Observed: "9 of 9 probes equal", Result: drill.Passed})
	tp.at(400*time.Second, "behaviour", drill.TypeProof, drill.Proof{Name: drill.ProofBehaviour, Proven: true, Why: "equal", Gates: []string{"behaviour"}})
	tp.at(401*time.Second, "behaviour", drill.TypeInstant, drill.Instant{Name: drill.InstantCanaryVerified})
	tp.at(401*time.Second, "behaviour", drill.TypeStepFinished, drill.StepFinished{Result: drill.Passed})
	tp.at(402*time.Second, "cutover", drill.TypeStepStarted, drill.StepStarted{Kind: "cutover"})
	tp.at(405*time.Second, "cutover", drill.TypeInstant, drill.Instant{Name: drill.InstantCutover})
	tp.at(410*time.Second, "cutover", drill.TypeStepFinished, drill.StepFinished{Result: drill.Passed})
	tp.at(411*time.Second, "steady", drill.TypeStepStarted, drill.StepStarted{Kind: "steady"})
	tp.at(510*time.Second, "steady", drill.TypeTraffic, drill.TrafficWindow{Class: "us-chat", From: 500 * time.Second, To: 510 * time.Second,
		Sent: 50, OK: 49, Failed: 1, TTFTP99: 1340 * time.Millisecond, ByRegion: map[string]int{"eu-west-1": 49}, Phase: "steady"})
	tp.at(510*time.Second, "steady", drill.TypeInstant, drill.Instant{Name: drill.InstantSteady})
	tp.at(511*time.Second, "steady", drill.TypeStepFinished, drill.StepFinished{Result: drill.Passed})
	return tp.at(512*time.Second, "failback", drill.TypeStepStarted, drill.StepStarted{Kind: "failback"})
}

// demoEnd is a whole demonstration that recovered.
func demoEnd(t *testing.T) *tape {
	tp := steadied(t)
	tp.at(520*time.Second, "failback", drill.TypeStepFinished, drill.StepFinished{Result: drill.Passed})
	tp.at(521*time.Second, "cleanup", drill.TypeStepStarted, drill.StepStarted{Kind: "cleanup"})
	tp.at(522*time.Second, "cleanup", drill.TypeUndone, drill.Undone{ID: "change-1", What: "stopped"})
	tp.at(523*time.Second, "cleanup", drill.TypeStepFinished, drill.StepFinished{Result: drill.Passed})
	p := plan()
	p.Demo = true
	tp.events[0].Data, _ = json.Marshal(p)
	for i, e := range tp.events {
		if e.Type == drill.TypeComponent && e.Step == "source" {
			tp.events[i].Data, _ = json.Marshal(drill.Component{Role: drill.RoleEngine, Name: "source engine", Kind: "stand-in", Substitute: true})
		}
	}
	return tp.finish(524*time.Second, drill.Recovered, 0)
}

// busy is a steady step with a history of windows: a cold cache that fills, a window
// with failures, a slow one, one that says nothing.
func busy(t *testing.T) *tape {
	tp := behaves(t)
	tp.at(400*time.Second, "behaviour", drill.TypeStepFinished, drill.StepFinished{Result: drill.Passed})
	tp.step(402*time.Second, 410*time.Second, "cutover")
	tp.at(411*time.Second, "steady", drill.TypeStepStarted, drill.StepStarted{Kind: "steady"})
	share := func(f float64) *float64 { return &f }
	from := 420 * time.Second
	for i, w := range []drill.TrafficWindow{
		{Sent: 50, OK: 50, TTFTP99: 120 * time.Millisecond, CacheHit: share(0.9), Phase: "cutover"},
		{Sent: 40, OK: 28, Failed: 10, Cut: 2, TTFTP99: 4100 * time.Millisecond, CacheHit: share(0), Phase: "cutover"},
		{Sent: 0, Phase: "steady"},
		{Sent: 48, OK: 45, Failed: 3, TTFTP99: 2 * time.Second, CacheHit: share(0.25), Phase: "steady"},
		{Sent: 50, OK: 49, Failed: 1, TTFTP99: 1340 * time.Millisecond, CacheHit: share(0.62), Phase: "steady", ByRegion: map[string]int{"eu-west-1": 49}},
	} {
		w.Class, w.From = "us-chat", from+time.Duration(10*i)*time.Second
		w.To = w.From + 10*time.Second
		tp.at(w.To, "steady", drill.TypeTraffic, w)
	}
	return tp
}

// slowCopy is a verify step that reads 10 MB/s of 100 GB: 9900 s more, at 3:21.
func slowCopy(t *testing.T) *tape {
	tp := &tape{t: t, proc: 1}
	tp.at(0, "", drill.TypeRunStarted, plan())
	for _, id := range []string{"preflight", "source", "traffic"} {
		tp.step(0, 0, id)
	}
	tp.at(0, "", drill.TypeInstant, drill.Instant{Name: drill.InstantDeclared})
	tp.step(0, 0, "declare")
	tp.at(100*time.Second, "verify", drill.TypeStepStarted, drill.StepStarted{Kind: "verify"})
	tp.at(101*time.Second, "verify", drill.TypeProgress, drill.Progress{Task: "restore", Done: 0, Total: 100_000_000_000, Unit: "bytes"})
	return tp.at(201*time.Second, "verify", drill.TypeProgress, drill.Progress{Task: "restore", Done: 1_000_000_000, Total: 100_000_000_000, Unit: "bytes"})
}

// late is a boot that goes on after the objective has passed: declared 2:00, now
// 12:00, and a minute later 13:00.
func late(t *testing.T) *tape {
	return declared(t).at(720*time.Second, "boot", drill.TypeLog, drill.Log{From: "target", Line: "INFO still loading"})
}

// withSteps is a run of another plan, declared at 0.
func withSteps(t *testing.T, steps ...drill.StepPlan) *tape {
	p := plan()
	p.Steps, p.PlanHash, p.By = steps, "3f2a9c0d1e2f3a4b5c6d", "ana@ops-1"
	tp := &tape{t: t, proc: 1}
	tp.at(0, "", drill.TypeRunStarted, p)
	tp.at(0, "", drill.TypeInstant, drill.Instant{Name: drill.InstantDeclared})
	return tp.step(0, 0, "declare")
}

var confirmDNS = drill.StepPlan{ID: "confirm-dns", Kind: "human", Who: "network on call", Budget: 5 * time.Minute,
	Text: "Move the record of chat.example to eu-west-1 and\nlook it up from outside. When it is red: see the runbook of the zone."}

// human is a step that waits for a person since 1:40.
func human(t *testing.T) *tape {
	tp := withSteps(t, drill.StepPlan{ID: "declare", Kind: "declare"}, confirmDNS, drill.StepPlan{ID: "steady", Kind: "steady", Budget: time.Minute})
	return tp.at(100*time.Second, "confirm-dns", drill.TypeStepStarted, drill.StepStarted{Kind: "human"})
}

// approval is a step that waits for an approval of the plan.
func approval(t *testing.T) *tape {
	tp := withSteps(t, drill.StepPlan{ID: "declare", Kind: "declare"}, drill.StepPlan{ID: "ok", Kind: "approve"}, drill.StepPlan{ID: "steady", Kind: "steady"})
	return tp.at(100*time.Second, "ok", drill.TypeStepStarted, drill.StepStarted{Kind: "approve"})
}

// held is the same run after its process has given up waiting.
func held(t *testing.T) *tape {
	tp := human(t)
	tp.at(700*time.Second, "confirm-dns", drill.TypeStepFinished, drill.StepFinished{Result: drill.Unmeasured, Error: "nobody confirmed it within 10m"})
	return tp.at(700*time.Second, "", drill.TypeHeld, drill.Held{Why: "step confirm-dns: nobody confirmed it within 10m", Step: "confirm-dns",
		Next: "drkit drill resume 01JXDEMO7", By: drill.HeldByTool, For: "network on call"})
}

// sideBySide runs two steps at once, 30 s into both: 2:30 of the clock at 5:00 - 2:30.
func sideBySide(t *testing.T) *tape {
	tp := withSteps(t, drill.StepPlan{ID: "declare", Kind: "declare"}, drill.StepPlan{ID: "verify", Kind: "verify", Budget: 3 * time.Minute, Group: "copy"},
		drill.StepPlan{ID: "boot", Kind: "boot", Budget: 5 * time.Minute, Group: "copy"}, drill.StepPlan{ID: "steady", Kind: "steady", Budget: time.Minute})
	tp.at(120*time.Second, "verify", drill.TypeStepStarted, drill.StepStarted{Kind: "verify"})
	tp.at(120*time.Second, "boot", drill.TypeStepStarted, drill.StepStarted{Kind: "boot"})
	tp.at(140*time.Second, "verify", drill.TypeProgress, drill.Progress{Task: "eu-west-1", Done: 0, Total: 2_000_000_000, Unit: "bytes"})
	return tp.at(150*time.Second, "verify", drill.TypeProgress, drill.Progress{Task: "eu-west-1", Done: 500_000_000, Total: 2_000_000_000, Unit: "bytes"})
}

// recovered is a whole run that no stand-in took part in.
func recovered(t *testing.T) *tape {
	tp := demoEnd(t)
	p := plan()
	tp.events[0].Data, _ = json.Marshal(p)
	for i, e := range tp.events {
		if e.Type == drill.TypeComponent {
			c := drill.Component{Role: drill.RoleEngine, Name: "source engine", Kind: "vllm", Version: "0.32.0"}
			if e.Step == "traffic" {
				c = drill.Component{Role: drill.RoleRouter, Name: "rehearsal router", Kind: "vllm-router", Version: "0.1.0"}
			}
			tp.events[i].Data, _ = json.Marshal(c)
		}
	}
	return tp
}
