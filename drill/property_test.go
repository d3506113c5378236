package drill

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// said is one event before it is stamped.
type said struct {
	step, typ string
	attempt   int
	data      any
}

// recovered is the shortest story of a recovery: two steps, a change, a gate and a
// proof of each kind that is promised.
func recoveredStory() []said {
	return []said{
		{"a", TypeStepStarted, 1, StepStarted{}},
		{"a", TypeIntent, 1, Intent{ID: "change-1", What: "launch", Undo: Undo{Kind: "stop"}}},
		{"a", TypeInstant, 1, Instant{Name: InstantDeclared}},
		{"a", TypeComponent, 1, Component{Role: RoleEngine, Kind: "vllm"}},
		{"a", TypeGate, 1, Gate{ID: "g", Result: Passed}},
		{"a", TypeProof, 1, Proof{Name: ProofBoot, Proven: true}},
		{"a", TypeStepFinished, 1, StepFinished{Result: Passed}},
		{"b", TypeStepStarted, 1, StepStarted{}},
		{"b", TypeComponent, 1, Component{Role: RoleRouter, Kind: "vllm-router"}},
		{"b", TypeGate, 1, Gate{ID: "h", Result: Passed}},
		{"b", TypeProof, 1, Proof{Name: ProofRouter, Proven: true, Gates: []string{"h"}}},
		{"b", TypeInstant, 1, Instant{Name: InstantSteady}},
		{"b", TypeStepFinished, 1, StepFinished{Result: Passed}},
		{"a", TypeUndone, 1, Undone{ID: "change-1"}},
	}
}

// anything is an event that could come at any moment of a run, from a small world in
// which names meet.
func anything(rng *rand.Rand) said {
	one := func(all ...string) string { return all[rng.IntN(len(all))] }
	result := func() string { return one(Passed, Passed, Failed, Skipped, Unmeasured, NotReached) }
	s := said{step: one("a", "b"), attempt: 1 + rng.IntN(3)}
	switch rng.IntN(14) {
	case 0:
		s.typ, s.data = TypeGate, Gate{ID: one("g", "h", "k"), Result: result(), Status: []int{0, 4, 5, 8}[rng.IntN(4)]}
	case 1:
		s.typ, s.data = TypeProof, Proof{Name: one(ProofBoot, ProofRouter), Proven: rng.IntN(2) == 0, Gates: [][]string{nil, {"g"}, {"z"}}[rng.IntN(3)]}
	case 2:
		s.typ, s.data = TypeStepStarted, StepStarted{}
	case 3:
		s.typ, s.data = TypeStepFinished, StepFinished{Result: result(), Error: "x", Status: []int{1, 3, 4, 5, 8}[rng.IntN(5)]}
	case 4:
		s.typ, s.data = TypeInstant, Instant{Name: one(InstantDeclared, InstantWeights, InstantCutover, InstantSteady)}
	case 5:
		s.typ, s.data = TypeIntent, Intent{ID: one("change-2", "change-3"), What: "w", Undo: Undo{Kind: "stop"}}
	case 6:
		s.typ, s.data = TypeUndone, Undone{ID: one("change-1", "change-2", "change-3"), Error: one("", "", "still there")}
	case 7:
		s.step, s.typ, s.data = "", TypeProblem, Problem{What: "p"}
	case 8:
		s.typ, s.data = TypeComponent, Component{Role: one(RoleEngine, RoleRouter), Kind: "k", Substitute: rng.IntN(2) == 0}
	case 9:
		s.step, s.typ, s.data = "", TypeRunAborting, RunAborting{Why: "w"}
	case 10:
		s.step, s.typ, s.data = "", TypeHeld, Held{Why: "w", Next: "n"}
	case 11:
		s.step, s.typ, s.data = "", TypeResumed, Resumed{}
	case 12:
		s.typ, s.data = TypeRechecked, Rechecked{Holds: rng.IntN(2) == 0}
	default:
		s.typ, s.data = TypeMemo, Memo{Key: "k", Data: json.RawMessage("1")}
	}
	return s
}

// foldStory folds a story; what the fold refuses is left out. It returns the events that
// are in the journal.
func foldStory(t *testing.T, rng *rand.Rand, story []said) (*Run, []Event) {
	t.Helper()
	r, proc := &Run{}, 1
	mono, wall := time.Duration(0), time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	var journal []Event
	add := func(s said) {
		took := time.Duration(1+rng.IntN(3)) * time.Second
		mono, wall = mono+took, wall.Add(took)
		now := proc
		if s.typ == TypeResumed || s.typ == TypeRunAborting && rng.IntN(2) == 0 {
			now++
		}
		raw, err := json.Marshal(s.data)
		if err != nil {
			t.Fatal(err)
		}
		e := Event{Run: "R1", Seq: r.Seq + 1, Proc: now, Mono: mono, Wall: wall, Step: s.step, Attempt: s.attempt, Type: s.typ, Data: raw}
		if r.Apply(e) == nil {
			proc, journal = now, append(journal, e)
		}
	}
	add(said{typ: TypeRunStarted, data: RunStarted{Steps: []StepPlan{{ID: "a"}, {ID: "b"}}, Objectives: Objectives{RTO: time.Minute, MustProve: []string{ProofBoot, ProofRouter}}}})
	for _, s := range story {
		add(s)
	}
	return r, journal
}

// against lists what speaks against a recovery, read from the journal's lines alone:
// no fold, and none of Judge's code.
func against(journal []Event) []string {
	var bad []string
	type gate struct {
		step, id string
	}
	results := map[string]string{}
	gates := map[gate]struct {
		attempt int
		result  string // the worst of the newest attempt
	}{}
	proofs := map[gate]Proof{}
	undone := map[string]bool{}
	instants := map[string]time.Time{}
	roles := map[string]bool{}
	aborting := false
	for _, e := range journal {
		var d struct {
			ID, Name, Result, Role, Error string
			Proven, Substitute, Holds     bool
			Gates                         []string
		}
		_ = json.Unmarshal(e.Data, &d)
		switch e.Type {
		case TypeGate:
			g := gates[gate{e.Step, d.ID}]
			if e.Attempt > g.attempt || e.Attempt == g.attempt && g.result == Passed {
				g.attempt, g.result = e.Attempt, d.Result
			}
			gates[gate{e.Step, d.ID}] = g
		case TypeStepFinished:
			results[e.Step] = d.Result
		case TypeStepStarted:
			results[e.Step] = ""
		case TypeRechecked:
			if !d.Holds {
				results[e.Step] = "does not hold"
			}
		case TypeProof:
			proofs[gate{e.Step, d.Name}] = Proof{Name: d.Name, Proven: d.Proven, Gates: d.Gates}
		case TypeIntent:
			undone[d.ID] = false
		case TypeUndone:
			undone[d.ID] = d.Error == ""
		case TypeInstant:
			if _, known := instants[d.Name]; !known || d.Name != InstantDeclared {
				instants[d.Name] = e.Wall
			}
		case TypeProblem:
			bad = append(bad, "a problem before the start")
		case TypeComponent:
			roles[d.Role] = true
			if d.Substitute {
				bad = append(bad, "a substitute took part")
			}
		case TypeRunAborting:
			aborting = true
		case TypeResumed:
			aborting = false
		}
	}
	for _, step := range []string{"a", "b"} {
		if results[step] != Passed {
			bad = append(bad, fmt.Sprintf("step %s is %q", step, results[step]))
		}
	}
	for g, x := range gates {
		if x.result != Passed {
			bad = append(bad, fmt.Sprintf("gate %s of step %s is %s", g.id, g.step, x.result))
		}
	}
	for _, name := range []string{ProofBoot, ProofRouter} {
		if !slices.ContainsFunc([]string{"a", "b"}, func(s string) bool { return proofs[gate{s, name}].Proven }) {
			bad = append(bad, name+" is not proven")
		}
	}
	for id, gone := range undone {
		if !gone {
			bad = append(bad, id+" is not taken back")
		}
	}
	declared, okD := instants[InstantDeclared]
	steady, okS := instants[InstantSteady]
	if took := steady.Sub(declared); !okD || !okS || took < 0 || took > time.Minute {
		bad = append(bad, fmt.Sprintf("declared → steady is %v", took))
	}
	if aborting {
		bad = append(bad, "it was cut short")
	}
	if !roles[RoleEngine] || !roles[RoleRouter] {
		bad = append(bad, "a component is not named")
	}
	return bad
}

// TestARedGateBesideRecoveredCannotBeConstructed: of many thousand journals that the
// library folds, none is judged recovered while its own lines speak against it, and
// none that claims it all the same is believed. Enough of them do recover.
func TestARedGateBesideRecoveredCannotBeConstructed(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 28))
	recovered, not := 0, 0
	for range 12_000 {
		story := recoveredStory()
		for range rng.IntN(4) {
			story = slices.Insert(story, rng.IntN(len(story)+1), anything(rng))
		}
		if rng.IntN(4) == 0 {
			at := rng.IntN(len(story))
			story = slices.Delete(story, at, at+1)
		}
		r, journal := foldStory(t, rng, story)
		bad := against(journal)
		verdict := Judge(r)
		r.Finished = &RunFinished{Verdict: Recovered}
		believed := Verify(r) == nil
		if (verdict.Verdict == Recovered) != (verdict.Status == 0) || (verdict.Verdict == Recovered) != believed {
			t.Fatalf("judged %+v, a claim of recovery is believed: %v", verdict, believed)
		}
		if verdict.Verdict != Recovered {
			not++
			continue
		}
		recovered++
		if len(bad) > 0 {
			for _, e := range journal {
				t.Logf("%d %s %s %d %s", e.Proc, e.Step, e.Type, e.Attempt, e.Data)
			}
			t.Fatalf("judged recovered, although %v", bad)
		}
	}
	if recovered < 1_000 || not < 1_000 {
		t.Errorf("%d journals recovered and %d did not: the stories are of one kind", recovered, not)
	}
}
