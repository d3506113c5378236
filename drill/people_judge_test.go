package drill

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// approvedStory is a recovery of a live run with these approvals.
func approvedStory(t *testing.T, mode string, required int, all ...Approval) *Run {
	t.Helper()
	r, _ := foldStory(t, rand.New(rand.NewPCG(1, 1)), recoveredStory())
	r.Plan.Mode, r.Approvals = mode, all
	if required != 0 {
		r.Plan.Consent = &Consent{Required: required}
	}
	return r
}

// TestALiveRecoveryIsApproved: a run that may move production recovers only with as many
// different people's approvals as its plan asks for, each proven by a key; the operator's
// own word is enough in an emergency and nowhere else.
func TestALiveRecoveryIsApproved(t *testing.T) {
	key := func(who string) Approval {
		return Approval{ID: "1", Approver: who, Method: "ssh-ed25519", KeyID: "SHA256:" + who, Record: 1, SHA256: "ab"}
	}
	but := func(a Approval, change func(*Approval)) Approval { change(&a); return a }
	typed := Approval{Approver: "kim", Method: MethodTyped, Self: true}
	for name, c := range map[string]struct {
		mode     string
		required int
		all      []Approval
		want     string // verdict and what is missing
	}{
		"rehearsal":                    {ModeRehearsal, 0, nil, Recovered},
		"planned, nobody":              {ModePlanned, 0, nil, "0 of 1"},
		"emergency, nobody":            {ModeEmergency, 0, nil, "0 of 1"},
		"planned, one":                 {ModePlanned, 0, []Approval{key("mei")}, Recovered},
		"planned, one of two":          {ModePlanned, 2, []Approval{key("mei")}, "1 of 2"},
		"planned, two of two":          {ModePlanned, 2, []Approval{key("mei"), key("ada")}, Recovered},
		"the same person twice":        {ModePlanned, 2, []Approval{key("mei"), but(key("mei"), func(a *Approval) { a.ID, a.Record = "2", 2 })}, "1 of 2"},
		"typed in an emergency":        {ModeEmergency, 2, []Approval{typed}, Recovered},
		"typed in a planned run":       {ModePlanned, 1, []Approval{typed}, "0 of 1"},
		"typed, and not said to be so": {ModeEmergency, 1, []Approval{but(typed, func(a *Approval) { a.Self = false })}, "0 of 1"},
		"one that counts nothing":      {ModePlanned, 1, []Approval{but(key("mei"), func(a *Approval) { a.Why = "it expired" })}, "0 of 1"},
		"without a record":             {ModePlanned, 1, []Approval{but(key("mei"), func(a *Approval) { a.Record = 0 })}, "0 of 1"},
		"without a key":                {ModePlanned, 1, []Approval{but(key("mei"), func(a *Approval) { a.KeyID = "" })}, "0 of 1"},
		"required says none":           {ModePlanned, -1, nil, "0 of 1"},
	} {
		r := approvedStory(t, c.mode, c.required, c.all...)
		got := Judge(r)
		if c.want == Recovered && (got.Verdict != Recovered || got.Status != 0) {
			t.Errorf("%s: %+v", name, got)
		}
		if c.want != Recovered && (got.Verdict != Incomplete || got.Status != 4 || !strings.Contains(got.Reasons[0].What, c.want+" approvals of the plan count")) {
			t.Errorf("%s: %+v, want %s", name, got, c.want)
		}
		r.Finished = &RunFinished{Verdict: Recovered}
		if believed := Verify(r) == nil; believed != (c.want == Recovered) {
			t.Errorf("%s: a claim of recovery is believed: %v", name, believed)
		}
	}
}
