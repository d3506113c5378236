package drill

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"drkit/playbooks"
)

// TestClassVerdicts: three classes; what speaks of one alone touches one alone, and
// a refused one keeps the run from passing whatever else it shows.
func TestClassVerdicts(t *testing.T) {
	gate := func(result string, classes ...string) func(Scope) error {
		return func(sc Scope) error {
			return sc.Emit(TypeGate, Gate{ID: "steady", Expected: "good", Observed: "as said", Result: result, Classes: classes})
		}
	}
	refused := Class{Name: "us-phi", Refused: "it may be answered in [us] alone"}
	for name, tc := range map[string]struct {
		classes []Class
		gate    func(Scope) error
		verdict string
		status  int
		want    map[string]string
	}{
		"all well":              {[]Class{{Name: "chat"}, {Name: "batch"}}, gate(Passed), Recovered, 0, map[string]string{"chat": Recovered, "batch": Recovered}},
		"one is refused":        {[]Class{{Name: "chat"}, refused}, gate(Passed), Incomplete, 4, map[string]string{"chat": Recovered, "us-phi": Refused}},
		"one is not affected":   {[]Class{{Name: "chat"}, {Name: "eu", Aside: "the source may not answer it"}}, gate(Passed), Recovered, 0, map[string]string{"chat": Recovered, "eu": NotAffected}},
		"one fails":             {[]Class{{Name: "chat"}, {Name: "batch"}}, gate(Failed, "batch"), NotRecovered, 4, map[string]string{"chat": Recovered, "batch": NotRecovered}},
		"one is not measured":   {[]Class{{Name: "chat"}, {Name: "batch"}}, gate(Unmeasured, "batch"), Incomplete, 4, map[string]string{"chat": Recovered, "batch": Incomplete}},
		"all fail":              {[]Class{{Name: "chat"}, {Name: "batch"}}, gate(Failed), NotRecovered, 4, map[string]string{"chat": NotRecovered, "batch": NotRecovered}},
		"a refusal is not lost": {[]Class{{Name: "chat"}, refused, {Name: "us-phi"}}, gate(Passed), Incomplete, 4, map[string]string{"us-phi": Refused}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rn, w, j := newRunner()
				rn.Playbook.Steps[len(rn.Playbook.Steps)-1].When = playbooks.Always // cleanup
				steady := rn.Steps["steady"].(do).do
				rn.Steps["steady"] = do{do: func(ctx context.Context, sc Scope) error {
					err := steady(ctx, sc)
					for _, c := range tc.classes {
						err = errors.Join(err, sc.Emit(TypeClass, c))
					}
					return errors.Join(err, tc.gate(sc))
				}}
				r, err := rn.Run(t.Context(), "R1", promise())
				if err != nil {
					t.Fatal(err)
				}
				wantVerdict(t, r, j, w, tc.verdict, tc.status)
				got := map[string]string{}
				for _, v := range ClassVerdicts(r) {
					got[v.Name] = v.Verdict
					if v.Verdict != Recovered && v.Why == "" {
						t.Errorf("%s is %s without a reason", v.Name, v.Verdict)
					}
				}
				for class, want := range tc.want {
					if got[class] != want {
						t.Errorf("%s is %s, want %s", class, got[class], want)
					}
				}
			})
		})
	}
}

// TestTabletop: whatever its steps claim, it proves nothing and is incomplete.
func TestTabletop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rn, w, j := newRunner()
		start := promise()
		start.Mode = ModeTabletop
		r, err := rn.Run(t.Context(), "R1", start)
		if err != nil {
			t.Fatal(err)
		}
		wantVerdict(t, r, j, w, Incomplete, 4)
		if len(r.Finished.Reasons) != 1 || r.Finished.Reasons[0].What != tabletopWhy {
			t.Errorf("%+v", r.Finished.Reasons)
		}
		if ok, _ := r.Proof(ProofRouter); ok {
			t.Error("a tabletop proves the router")
		}
	})
}
