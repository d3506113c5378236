package evidence

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"drkit/drill"
	"drkit/drill/ledger"
)

// random is a run as nobody planned it: any results in any order.
func random(r *rand.Rand) *drill.Run {
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	mostly := func(usual string, all ...string) string {
		if r.IntN(14) > 0 {
			return usual
		}
		return pick(all...)
	}
	run := &drill.Run{ID: id(r.IntN(50))}
	run.Plan = drill.RunStarted{Service: "s", Mode: "rehearsal", Demo: r.IntN(4) == 0, Objectives: drill.Objectives{RTO: max(0, time.Duration(r.IntN(8))*10-1) * time.Second, MustProve: []string{drill.ProofBoot, drill.ProofRouter}[:(3+r.IntN(4))/3]}}
	for i := range 1 + r.IntN(3) {
		s := drill.StepState{StepPlan: drill.StepPlan{ID: fmt.Sprint("s", i), Kind: "boot"}, Result: mostly(drill.Passed, drill.Failed, drill.Skipped, drill.NotReached, drill.Unmeasured)}
		if s.Result == drill.Failed {
			s.Status, s.Error = []int{0, 1, 3, 4, 5, 6, 8}[r.IntN(7)], "why"
		}
		run.Steps = append(run.Steps, s)
		for range 1 + r.IntN(2) {
			g := drill.Gate{ID: fmt.Sprint("g", r.IntN(3)), Expected: "a", Observed: "b", Result: mostly(drill.Passed, drill.Failed, drill.Skipped, drill.Unmeasured), Status: []int{0, 4, 5, 8}[r.IntN(4)]}
			run.Gates = append(run.Gates, drill.GateState{Gate: g, Step: s.ID})
		}
		if r.IntN(6) > 0 {
			run.Proofs = append(run.Proofs, drill.ProofState{Step: s.ID, Proof: drill.Proof{Name: pick(drill.ProofBoot, drill.ProofRouter), Proven: r.IntN(12) > 0, Why: "w", Gates: []string{"g0", "g1"}[:max(0, r.IntN(6)-3)]}})
		}
		if r.IntN(3) == 0 {
			run.Changes = append(run.Changes, drill.ChangeState{Intent: drill.Intent{ID: fmt.Sprint("c", i), What: "x", Undo: drill.Undo{Kind: "u"}}, Step: s.ID, Undone: r.IntN(8) > 0})
		}
	}
	for _, c := range []drill.Component{{Role: drill.RoleEngine, Kind: "vllm"}, {Role: drill.RoleRouter, Kind: "reference", Substitute: r.IntN(3) == 0}} {
		if r.IntN(14) > 0 {
			run.Components = append(run.Components, c)
		}
	}
	at, proc, began := time.Duration(r.IntN(100))*time.Second, 1, time.Date(2026, 1, 2, 3, 4, 5, r.IntN(1e9), time.UTC)
	for _, name := range []string{drill.InstantDeclared, drill.InstantWeights, drill.InstantSteady} {
		if r.IntN(14) > 0 {
			run.Instants = append(run.Instants, drill.InstantState{Name: name, At: drill.Stamp{Proc: proc, Mono: at, Wall: began.Add(at)}})
		}
		if r.IntN(10) == 0 { // another process goes on, and counts anew
			proc++
			began, at = began.Add(at+time.Duration(r.IntN(40)-4)*time.Second), time.Duration(r.IntN(1e9))
		}
		at += time.Duration(r.IntN(60)-3) * time.Second
		at = max(at, 0)
	}
	if r.IntN(15) == 0 {
		run.Aborting = &drill.RunAborting{Why: "x", Signal: pick("", drill.SignalInterrupt, drill.SignalTerminate)}
	}
	if r.IntN(15) == 0 {
		run.Problems = []drill.ProblemState{{Problem: drill.Problem{What: "locked"}}}
	}
	people(r, run)
	f := drill.Judge(run)
	run.Finished = &f
	return run
}

// people makes some runs live, with what people said and did, and others tabletops.
func people(r *rand.Rand, run *drill.Run) {
	switch r.IntN(8) {
	case 0:
		run.Plan.Mode = drill.ModeTabletop
	case 1, 2:
		run.Plan.Mode, run.Plan.Live = []string{drill.ModePlanned, drill.ModeEmergency, drill.ModeFailback}[r.IntN(3)], true
		run.Plan.Consent = &drill.Consent{Required: 1 + r.IntN(2), People: []drill.MayApprove{{Name: "mei", KeyID: "SHA256:m"}, {Name: "ada", KeyID: "SHA256:a"}}}
		all := []drill.Approval{{Approver: "kim", Method: drill.MethodTyped, Self: true}, {Approver: "eve", Method: "ssh-ed25519", Record: 3, Why: "it expired"},
			{Approver: "mei", Method: "ssh-ed25519", KeyID: "SHA256:m", Record: 4, SHA256: "x", AsOf: 4}, {Approver: "ada", Method: "ssh-ed25519", KeyID: "SHA256:a", Record: 5, SHA256: "x"}}
		for _, a := range all {
			if a.SHA256 != "" { // a record that another run counts too would be a fault
				a.SHA256 = fmt.Sprintf("%016x", r.Uint64())
			}
			if a.Record > 0 {
				a.Expires = time.Date(2026, 1, 3, 0, 0, 0, 0, time.UTC)
			}
			if r.IntN(4) > 0 {
				run.Approvals = append(run.Approvals, a)
			}
		}
	}
	if r.IntN(8) == 0 {
		run.Plan.WithoutLedger = "its bucket is gone"
	}
	for i := range run.Changes {
		switch c := &run.Changes[i]; r.IntN(6) {
		case 0:
			c.Undone, c.Adopted = false, "mei"
		case 1:
			c.Undone, c.Kept = false, "it is what the run was made for"
		}
	}
	if r.IntN(10) == 0 {
		run.Classes = []drill.Class{{Name: "chat", Residency: []string{"us"}, Share: 1, Refused: "the target is in eu"}}
	}
}

// TestRandomRuns: whatever a run holds, its evidence gives its verdict again, and
// no recovery stands beside something red. DRKIT_EVIDENCE names a folder for them,
// where another program recomputes the verdicts.
func TestRandomRuns(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	verdicts := map[string]int{}
	runs := 200
	if os.Getenv("DRKIT_EVIDENCE") != "" {
		runs = 600
	}
	for i := range runs {
		run := random(r)
		e := New(run, ledger.SealOf(nil))
		data, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if f := CheckFile(data); len(f) > 0 {
			t.Fatalf("run %d: %+v\n%s", i, f, data)
		}
		verdicts[e.Outcome.Verdict]++
		if e.Outcome.Verdict == drill.Recovered {
			sound(t, i, e)
		}
		if dir := os.Getenv("DRKIT_EVIDENCE"); dir != "" {
			put(t, filepath.Join(dir, fmt.Sprintf("%03d.json", i)), data)
		}
	}
	for _, v := range []string{drill.Recovered, drill.ObjectiveMissed, drill.NotRecovered, drill.Incomplete, drill.Refused, drill.Aborted} {
		if verdicts[v] < 2 {
			t.Errorf("only %d runs are %s: %v", verdicts[v], v, verdicts)
		}
	}
}

func sound(t *testing.T, i int, e Evidence) {
	t.Helper()
	for _, g := range e.Gates {
		if g.Result != drill.Passed {
			t.Errorf("run %d recovered beside gate %+v", i, g)
		}
	}
	for _, s := range e.Steps {
		if s.Result != drill.Passed {
			t.Errorf("run %d recovered beside step %+v", i, s)
		}
	}
	if e.Kind == KindReal && e.Approvers == nil {
		t.Errorf("run %d recovered, and nobody approved it", i)
	}
	if e.Outcome.Status != 0 || e.Cleanup.Status == CleanIncomplete || e.Measured["rto"].Value == nil || len(e.Problems) > 0 {
		t.Errorf("run %d: %+v", i, e)
	}
}
