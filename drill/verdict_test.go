package drill

import (
	"testing"
	"time"

	"drkit/internal/errext"
)

// shown builds a run that recovered in 28 s of a promised minute, changed by each
// case before its events are folded.
type shown struct {
	start     RunStarted
	gate      Gate
	proof     Proof
	engine    *Component
	router    *Component
	result    StepFinished
	skipLast  bool
	instants  []string
	undone    Undone
	undoes    bool
	problem   *Problem
	aborting  *RunAborting
	extraGate *Gate
}

func good() shown {
	return shown{
		start: RunStarted{Steps: []StepPlan{{ID: "a"}, {ID: "b"}}, Objectives: Objectives{RTO: time.Minute, MustProve: []string{ProofBoot, ProofRouter}}},
		gate:  Gate{ID: "g", Expected: "x", Observed: "x", Result: Passed}, proof: Proof{Name: ProofBoot, Proven: true},
		engine: &Component{Role: RoleEngine, Kind: "vllm"}, router: &Component{Role: RoleRouter, Kind: "vllm-router"},
		result: StepFinished{Result: Passed}, instants: []string{InstantDeclared, InstantSteady}, undoes: true,
	}
}

func (x shown) run(t *testing.T) *Run {
	t.Helper()
	s := newScript(t, x.start)
	if x.problem != nil {
		return s.add("a", TypeProblem, *x.problem).r
	}
	s.add("a", TypeStepStarted, StepStarted{})
	s.add("a", TypeIntent, Intent{ID: "change-1", What: "launch", Undo: Undo{Kind: "stop"}})
	if len(x.instants) > 0 {
		s.add("a", TypeInstant, Instant{Name: x.instants[0]})
	}
	s.add("a", TypeGate, x.gate).add("a", TypeProof, x.proof).add("a", TypeProof, Proof{Name: ProofRouter, Proven: true})
	for _, c := range []*Component{x.engine, x.router} {
		if c != nil {
			s.add("a", TypeComponent, *c)
		}
	}
	if x.extraGate != nil {
		s.add("b", TypeGate, *x.extraGate)
	}
	s.add("a", TypeStepFinished, x.result)
	if !x.skipLast {
		s.e.Mono += 20 * time.Second
		s.add("b", TypeStepStarted, StepStarted{})
		for _, in := range x.instants[min(1, len(x.instants)):] {
			s.add("b", TypeInstant, Instant{Name: in})
		}
		s.add("b", TypeStepFinished, StepFinished{Result: Passed})
	}
	if x.aborting != nil {
		s.add("", TypeRunAborting, *x.aborting)
	}
	if x.undoes {
		x.undone.ID = "change-1"
		s.add("a", TypeUndone, x.undone)
	}
	return s.r
}

func TestJudge(t *testing.T) {
	for _, tc := range []struct {
		name    string
		change  func(*shown)
		verdict string
		status  errext.Status
		reason  string
	}{
		{"all is shown", func(*shown) {}, Recovered, 0, ""},
		{"just in time", func(x *shown) { x.start.Objectives.RTO = 28 * time.Second }, Recovered, 0, ""},
		{"late", func(x *shown) { x.start.Objectives.RTO = 28*time.Second - 1 }, ObjectiveMissed, 5, "recovered in 28s"},
		{"no promise", func(x *shown) { x.start.Objectives.RTO = 0 }, Incomplete, 4, "promise no recovery time"},
		{"red gate of a step that passed", func(x *shown) { x.gate.Result = Failed }, NotRecovered, 4, "gate g: expected x"},
		{"red gate elsewhere", func(x *shown) { x.extraGate = &Gate{ID: "h", Result: Failed} }, NotRecovered, 4, "gate h"},
		{"red objective", func(x *shown) { x.extraGate = &Gate{ID: "ttft", Result: Failed, Status: 5} }, ObjectiveMissed, 5, "gate ttft"},
		{"red objective and a skipped step", func(x *shown) {
			x.extraGate, x.result.Result = &Gate{ID: "ttft", Result: Failed, Status: 5}, Skipped
		}, Incomplete, 4, "gate ttft"},
		{"red objective that ended the run", func(x *shown) {
			x.extraGate, x.result, x.skipLast = &Gate{ID: "ttft", Result: Failed, Status: 5}, StepFinished{Result: Failed, Status: 5, Error: "slow"}, true
		}, ObjectiveMissed, 5, "gate ttft"},
		{"red objective of a run that proved nothing", func(x *shown) {
			x.extraGate, x.result, x.skipLast = &Gate{ID: "ttft", Result: Failed, Status: 5}, StepFinished{Result: Failed, Status: 5, Error: "slow"}, true
			x.proof.Proven = false
		}, Incomplete, 4, "boot is not proven"},
		{"red clean-up", func(x *shown) { x.extraGate = &Gate{ID: "cleanup", Result: Failed, Status: 8} }, Incomplete, 8, "gate cleanup"},
		{"red clean-up of a failed step", func(x *shown) {
			x.gate, x.result, x.skipLast = Gate{ID: "cleanup", Result: Failed, Status: 8}, StepFinished{Result: Failed, Status: 4, Error: "left"}, true
		}, Incomplete, 8, "gate cleanup"},
		{"unmeasured gate", func(x *shown) { x.extraGate = &Gate{ID: "h", Result: Unmeasured} }, Incomplete, 4, "gate h is unmeasured"},
		{"skipped gate", func(x *shown) { x.extraGate = &Gate{ID: "h", Result: Skipped} }, Incomplete, 4, "gate h is skipped"},
		{"skipped step", func(x *shown) { x.result.Result = Skipped }, Incomplete, 4, "step a is skipped"},
		{"unmeasured step", func(x *shown) { x.result.Result = Unmeasured }, Incomplete, 4, "step a is unmeasured"},
		{"step not reached", func(x *shown) { x.skipLast = true }, Incomplete, 4, "step b is not-reached"},
		{"nothing promised to be proven", func(x *shown) { x.start.Objectives.MustProve = nil }, Incomplete, 4, "must_prove is empty"},
		{"proof not given", func(x *shown) { x.proof = Proof{Name: ProofBoot, Why: "no canary"} }, Incomplete, 4, "boot is not proven: no canary"},
		{"proof by another gate", func(x *shown) { x.proof.Gates = []string{"z"} }, Incomplete, 4, "gate z was not judged"},
		{"steady not stamped", func(x *shown) { x.instants = x.instants[:1] }, Incomplete, 4, "steady was not reached"},
		{"instants out of order", func(x *shown) { x.instants = []string{InstantDeclared, InstantSteady, InstantCutover} }, Incomplete, 4, "cutover was stamped after steady"},
		{"stand-in engine", func(x *shown) { x.engine.Substitute = true }, Incomplete, 4, "the engine was drkit's own"},
		{"reference router", func(x *shown) { x.router.Substitute = true }, Incomplete, 4, "the router was drkit's own"},
		{"stand-in in a demonstration", func(x *shown) { x.engine.Substitute, x.router.Substitute, x.start.Demo = true, true, true }, Recovered, 0, ""},
		{"engine not named", func(x *shown) { x.engine = nil }, Incomplete, 4, "does not say which engine"},
		{"router not named", func(x *shown) { x.router = nil }, Incomplete, 4, "does not say which router"},
		{"undo did not run", func(x *shown) { x.undoes = false }, Incomplete, 8, "its undo did not run"},
		{"undo not proven", func(x *shown) { x.undone.Error = "still there" }, Incomplete, 8, "still there"},
		{"late and unclean", func(x *shown) { x.start.Objectives.RTO, x.undoes = time.Second, false }, Incomplete, 8, "promised were 1s"},
		{"step failed", func(x *shown) {
			x.result, x.skipLast = StepFinished{Result: Failed, Status: 1, Error: "no route"}, true
		}, Incomplete, 1, "step a: no route"},
		{"step failed its gate", func(x *shown) { x.result, x.skipLast = StepFinished{Result: Failed, Status: 4, Error: "no boot"}, true }, NotRecovered, 4, "no boot"},
		{"step failed and unclean", func(x *shown) {
			x.result, x.skipLast, x.undoes = StepFinished{Result: Failed, Status: 4, Error: "no boot"}, true, false
		}, NotRecovered, 8, "no boot"},
		{"evidence was lost", func(x *shown) { x.result, x.skipLast = StepFinished{Result: Failed, Status: 6, Error: "disk"}, true }, Incomplete, 6, "disk"},
		{"refused", func(x *shown) { x.problem = &Problem{What: "no vllm"} }, Refused, 3, "no vllm"},
		{"refused by the first step", func(x *shown) {
			x.result, x.skipLast, x.instants = StepFinished{Result: Failed, Status: 3, Error: "locked"}, true, nil
		}, Refused, 3, "locked"},
		{"refused, not clean", func(x *shown) {
			x.result, x.skipLast, x.instants, x.undoes = StepFinished{Result: Failed, Status: 3, Error: "locked"}, true, nil, false
		}, Incomplete, 8, "locked"},
		{"refused too late", func(x *shown) {
			x.result, x.skipLast = StepFinished{Result: Failed, Status: 3, Error: "no match"}, true
		}, NotRecovered, 4, "no match"},
		{"clean-up failed, the end mended it", func(x *shown) { x.result, x.skipLast = StepFinished{Result: Failed, Status: 8, Error: "busy"}, true }, Incomplete, 1, "took it back"},
		{"Ctrl-C", func(x *shown) { x.aborting = &RunAborting{Why: "Ctrl-C", Signal: SignalInterrupt} }, Aborted, 130, "Ctrl-C"},
		{"SIGTERM", func(x *shown) { x.aborting = &RunAborting{Why: "stop", Signal: SignalTerminate} }, Aborted, 143, "stop"},
		{"Ctrl-C, not clean", func(x *shown) { x.aborting, x.undoes = &RunAborting{Why: "Ctrl-C"}, false }, Aborted, 8, "its undo did not run"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x := good()
			tc.change(&x)
			r := x.run(t)
			got := Judge(r)
			if got.Verdict != tc.verdict || got.Status != int(tc.status) {
				t.Fatalf("got %s (%d): %+v", got.Verdict, got.Status, got.Reasons)
			}
			r.Finished = &got
			if tc.reason != "" {
				wantReason(t, r, tc.reason)
			} else if len(got.Reasons) > 0 {
				t.Errorf("reasons of a recovery: %+v", got.Reasons)
			}
			if err := Verify(r); err != nil {
				t.Errorf("its own verdict is refused: %v", err)
			}
			r.Finished = &RunFinished{Verdict: Recovered}
			if err := Verify(r); (err == nil) != (tc.verdict == Recovered) {
				t.Errorf("a journal that claims recovery: %v", err)
			} else if err != nil && errext.StatusOf(err) != errext.Evidence {
				t.Errorf("status %d", errext.StatusOf(err))
			}
		})
	}
}
