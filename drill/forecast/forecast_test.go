package forecast

import (
	"encoding/json"
	"testing"
	"time"

	"drkit/drill"
)

const s = time.Second

// tape folds events as they come.
type tape struct {
	t   *testing.T
	run *drill.Run
}

func (tp tape) at(mono time.Duration, step, typ string, data any) tape {
	tp.t.Helper()
	raw, err := json.Marshal(data)
	if err != nil {
		tp.t.Fatal(err)
	}
	e := drill.Event{Run: "R1", Seq: tp.run.Seq + 1, Wall: time.Unix(1_700_000_000, 0).Add(mono), Mono: mono, Proc: 1, Step: step, Attempt: 1, Type: typ, Data: raw}
	if err := tp.run.Apply(e); err != nil {
		tp.t.Fatal(err)
	}
	return tp
}

func (tp tape) begin(mono time.Duration, step string) tape {
	return tp.at(mono, step, drill.TypeStepStarted, drill.StepStarted{Kind: step})
}

func (tp tape) end(mono time.Duration, step, result string) tape {
	return tp.at(mono, step, drill.TypeStepFinished, drill.StepFinished{Result: result})
}

func (tp tape) bytes(mono time.Duration, step string, done, total int64) tape {
	return tp.at(mono, step, drill.TypeProgress, drill.Progress{Task: "t", Done: done, Total: total, Unit: "bytes"})
}

func plan() drill.RunStarted {
	return drill.RunStarted{
		Objectives: drill.Objectives{RTO: 10 * time.Minute, Steady: drill.Steady{Windows: 3, Window: 10 * s}},
		Steps: []drill.StepPlan{
			{ID: "preflight", Kind: "preflight", Budget: 60 * s}, {ID: "declare", Kind: "declare"}, {ID: "verify", Kind: "verify", Budget: 60 * s},
			{ID: "boot", Kind: "boot", Budget: 120 * s}, {ID: "steady", Kind: "steady", Budget: 60 * s}, {ID: "cleanup", Kind: "cleanup", Budget: 60 * s},
		},
	}
}

func started(t *testing.T, change func(*drill.RunStarted)) tape {
	p := plan()
	if change != nil {
		change(&p)
	}
	return tape{t, &drill.Run{}}.at(0, "", drill.TypeRunStarted, p)
}

// declared is a run whose clock began at 0:10 and whose verify began at 0:20.
func declared(t *testing.T, change func(*drill.RunStarted)) tape {
	return started(t, change).begin(0, "preflight").end(10*s, "preflight", drill.Passed).begin(10*s, "declare").
		at(10*s, "declare", drill.TypeInstant, drill.Instant{Name: drill.InstantDeclared}).end(10*s, "declare", drill.Passed).begin(20*s, "verify")
}

// TestProjectionByHand: the wanted texts are reckoned in the comments.
func TestProjectionByHand(t *testing.T) {
	noBudgets := func(p *drill.RunStarted) {
		for i := range p.Steps {
			p.Steps[i].Budget = 0
		}
	}
	fives := func(p *drill.RunStarted) {
		for i := range p.Steps {
			p.Steps[i].Budget = 5 * s
		}
	}
	three := func(took ...time.Duration) Earlier {
		return Earlier{"verify": {took[0], 3}, "boot": {took[1], 3}, "steady": {took[2], 3}}
	}
	for _, c := range []struct {
		name    string
		run     tape
		now     time.Duration
		earlier Earlier
		want    string
		state   State
	}{
		// 60 + 120 + 60: cleanup comes after steady, preflight before the clock.
		{"before the clock", started(t, nil), 0, nil, "projected 4:00 by budgets", OnTrack},
		// 0:50 - 0:10 have passed; verify has 30 of 60 left; 120 + 60 to come.
		{"inside a budget", declared(t, nil), 50 * s, nil, "projected 4:10 by budgets", OnTrack},
		// verify began 0:10 after declared: 10 + 45 + 100 + 35.
		{"earlier runs beat budgets", declared(t, nil), 50 * s, three(45*s, 100*s, 35*s), "projected 3:10 by earlier runs", OnTrack},
		// and also where they are longer than promised: 10 + 45 + 600 + 35 = 11:30.
		{"earlier runs were too slow", declared(t, nil), 50 * s, three(45*s, 600*s, 35*s), "projected 11:30 by earlier runs", AtRisk},
		// 100 bytes a second since 0:25; at 0:35 1000 are done, 9000 need 90 s: 25 + 90 + 120 + 60.
		{"this run's rate", declared(t, nil).bytes(25*s, "verify", 0, 10000).bytes(35*s, "verify", 1000, 10000), 35 * s, nil, "projected 4:55 by this run's rate, budgets", OnTrack},
		// ten seconds without a word change nothing: the end is the same.
		{"the rate between two words", declared(t, nil).bytes(25*s, "verify", 0, 10000).bytes(35*s, "verify", 1000, 10000), 45 * s, nil, "projected 4:55 by this run's rate, budgets", OnTrack},
		// the rate says 90 s more; earlier runs say 300 - 15 s more, and count: 25 + 285 + 100 + 35.
		{"the longer one counts", declared(t, nil).bytes(25*s, "verify", 0, 10000).bytes(35*s, "verify", 1000, 10000), 35 * s, three(300*s, 100*s, 35*s), "projected 7:25 by earlier runs", OnTrack},
		// 1 byte a second: 9990 s and more, far over 10:00. 25 + 9990 + 180 = 10195 s.
		{"a slow copy", declared(t, nil).bytes(25*s, "verify", 0, 10000).bytes(35*s, "verify", 10, 10000), 35 * s, nil, "projected 2:49:55 by this run's rate, budgets", AtRisk},
		// nothing moved: the budget stands in. 25 + 45 + 180.
		{"a copy that stands still", declared(t, nil).bytes(25*s, "verify", 7, 10000).bytes(35*s, "verify", 7, 10000), 35 * s, nil, "projected 4:10 by budgets", OnTrack},
		// verify runs for 80 s of 60: 90 + 180 at least.
		{"over its budget", declared(t, nil), 100 * s, nil, "at least 4:30: verify takes longer than is known of it", AtRisk},
		{"nothing is known", declared(t, noBudgets), 50 * s, nil, "no projection: there is no rate, no earlier run and no budget of verify, boot, steady", NotKnown},
		// 40 + 3 windows of 10 s are sure; 100 s of boot are known.
		{"some is known", declared(t, noBudgets), 50 * s, Earlier{"boot": {100 * s, 1}}, "at least 2:50: nothing is known of verify, steady", NotKnown},
		// budgets of 5 s each: the windows of 10 s begin after the cutover, which is still to come. 12 + 3 of verify + 5 of boot + 30.
		{"steady cannot be sooner than its windows", declared(t, fives), 22 * s, nil, "projected 0:50 by budgets, the steady windows", OnTrack},
		// the cutover was at 0:10 of the clock: 10 + 30.
		{"windows begin after the cutover", declared(t, fives).at(20*s, "verify", drill.TypeInstant, drill.Instant{Name: drill.InstantCutover}), 22 * s, nil, "projected 0:40 by budgets, the steady windows", OnTrack},
		{"no step stops the clock", started(t, func(p *drill.RunStarted) { p.Steps = p.Steps[:4] }), 0, nil, "no projection: the playbook has no step of kind steady, which stops the clock", NotKnown},
		{"no step starts it", started(t, func(p *drill.RunStarted) { p.Steps = p.Steps[2:] }), 0, nil, "no projection: the playbook has no step of kind declare, which starts the clock", NotKnown},
		{"a failed step", declared(t, nil).end(30*s, "verify", drill.Failed), 30 * s, nil, "no projection: verify failed", AtRisk},
		{"a red gate", declared(t, nil).at(30*s, "verify", drill.TypeGate, drill.Gate{ID: "copy", Result: drill.Failed}), 30 * s, nil, "projected 4:10 by budgets", AtRisk},
		{"the objective has passed", declared(t, nil), 10*s + 10*time.Minute + 1, nil, "at least 13:00: verify takes longer than is known of it", Missed},
		{"aborting", declared(t, nil).at(30*s, "", drill.TypeRunAborting, drill.RunAborting{Why: "interrupted"}), 30 * s, nil, "no projection: the run is being taken back", AtRisk},
		{"held", declared(t, nil).end(30*s, "verify", drill.Unmeasured).at(30*s, "", drill.TypeHeld, drill.Held{Why: "w", Next: "n", By: "b"}), 30 * s, nil, "no projection: the run waits for a person", NotKnown},
		// verify and boot side by side: 40 + the longer of 30 and 120 + 60.
		{"side by side", declared(t, func(p *drill.RunStarted) { p.Steps[2].Group, p.Steps[3].Group = "g", "g" }), 50 * s, nil, "projected 3:40 by budgets", OnTrack},
		{"nothing has begun", tape{t, &drill.Run{}}, 0, nil, "no projection: the run has not begun", NotKnown},
		{"nothing is promised", started(t, func(p *drill.RunStarted) { p.Objectives.RTO = 0 }), 0, nil, "projected 4:00 by budgets", NotKnown},
		{"steady in time", declared(t, nil).at(610*s, "verify", drill.TypeInstant, drill.Instant{Name: drill.InstantSteady}), 700 * s, nil, "no projection: steady is reached", InTime},
		{"steady too late", declared(t, nil).at(611*s, "verify", drill.TypeInstant, drill.Instant{Name: drill.InstantSteady}), 700 * s, nil, "no projection: steady is reached", Missed},
	} {
		f := Of(c.run.run, c.now, c.earlier)
		if got := f.String(); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if got := Judge(c.run.run, c.now, f); got.State != c.state {
			t.Errorf("%s: %s (%s), want %s", c.name, got.State, got.Why, c.state)
		}
	}
}

// TestProgressBeginsAnew: another attempt and a task that starts over have their own rate.
func TestProgressBeginsAnew(t *testing.T) {
	run := declared(t, nil).bytes(21*s, "verify", 0, 1000).bytes(22*s, "verify", 900, 1000).bytes(30*s, "verify", 0, 1000).bytes(40*s, "verify", 100, 1000)
	p := run.run.Progress[0]
	if left, ok := p.Left(); !ok || left != 90*s || p.Rate() != 10 {
		t.Errorf("left %v (%v), rate %v: want 90 s at 10 a second", left, ok, p.Rate())
	}
}
