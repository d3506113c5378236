package evidence

import (
	"cmp"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"drkit/drill"
	"drkit/drill/approval"
	"drkit/drill/ledger"
	"drkit/playbooks"
)

// approved is a planned run with what a person said of its plan.
func (w *world) approved(run string, live drill.RunStarted) *drill.Run {
	w.t.Helper()
	j, err := ledger.Create(w.dir, run, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	defer j.Close()
	start := drill.RunStarted{Service: "support", Mode: cmp.Or(live.Mode, drill.ModePlanned), Source: "us", Target: "eu", Release: strings.Repeat("4f", 32), PlanHash: strings.Repeat("ab", 32), Tool: "drkit test", By: "kim@laptop",
		Playbook: "planned", Objectives: drill.Objectives{RTO: time.Minute, ErrorRate: 0.01, MustProve: []string{drill.ProofBoot}},
		Approvals: live.Approvals, Consent: live.Consent, WithoutLedger: live.WithoutLedger, Observers: live.Observers, Participants: live.Participants, Live: true}
	if start.WithoutLedger == "" {
		w.announce(run, &start)
	}
	rn := drill.Runner{Playbook: playbooks.Playbook{Name: "planned", Mode: start.Mode}, Handlers: []drill.Handler{j}, Undo: map[string]drill.UndoFunc{"undo": undoes},
		Steps: map[string]drill.StepHandler{"boot": handler{boot(drill.Passed)}, "steady": handler{steady}}}
	rn.Playbook.Steps = []playbooks.Step{{ID: "boot", Kind: "boot", Budget: time.Minute}, {ID: "steady", Kind: "steady", Budget: time.Minute}}
	r, err := rn.Run(w.t.Context(), run, start)
	if err != nil {
		w.t.Fatal(err)
	}
	chain := w.chain
	if start.WithoutLedger != "" {
		chain = nil
	}
	if _, err := Seal(w.t.Context(), chain, w.dir, run, "kim@laptop"); err != nil {
		w.t.Fatal(err)
	}
	return r
}

// approve puts a signed approval of mei's into the ledger, as it is journaled.
func (w *world) approve(change func(*ledger.Statement)) drill.Approval {
	w.t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		w.t.Fatal(err)
	}
	key, err := ssh.NewSignerFromSigner(private)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.approveWith(key, change)
}

// approveWith is approve with a key that approved before.
func (w *world) approveWith(key ssh.Signer, change func(*ledger.Statement)) drill.Approval {
	w.t.Helper()
	at := time.Now().UTC().Truncate(time.Second)
	s := ledger.Statement{Schema: ledger.StatementSchema, ID: ledger.NewID(at), Service: "support", PlanHash: strings.Repeat("ab", 32), Approver: "mei", ChangeRef: "CHG-7", At: at, Expires: at.Add(time.Hour)}
	if change != nil {
		change(&s)
	}
	e, err := approval.Give(w.t.Context(), w.chain, s, key, "mei@desk")
	if err != nil {
		w.t.Fatal(err)
	}
	w.keys[s.ID] = key
	return drill.Approval{ID: s.ID, Approver: s.Approver, Method: "ssh-ed25519", KeyID: approval.ID(key.PublicKey()), ChangeRef: s.ChangeRef, At: s.At, Expires: s.Expires, Record: e.Seq, SHA256: e.SHA256, AsOf: e.Seq}
}

func (w *world) evidence(run string) (doc map[string]any, raw []byte) {
	w.t.Helper()
	raw = read(w.t, Path(w.dir, run))
	if err := json.Unmarshal(raw, &doc); err != nil {
		w.t.Fatal(err)
	}
	return doc, raw
}

// TestApproversInEvidence: who approved, took part and observed stands in the evidence,
// it is valid, and the audit holds each approval against the ledger.
func TestApproversInEvidence(t *testing.T) {
	w, run := newWorld(t), id(1)
	a, void := w.approve(nil), w.approve(nil)
	void.Why = "it expired at noon"
	r := w.approved(run, drill.RunStarted{Approvals: []drill.Approval{a, void}, Observers: []string{"auditor"}, Participants: []drill.Person{{Name: "ada", Role: "lead"}}})
	if r.Finished.Verdict != drill.Recovered {
		t.Fatalf("%+v", r.Finished)
	}
	doc, raw := w.evidence(run)
	if err := validate(t, raw); err != nil {
		t.Error(err)
	}
	got := doc["approvers"].([]any)
	if len(got) != 1 || got[0].(map[string]any)["id"] != "mei" || got[0].(map[string]any)["ledger_record"] != float64(a.Record) || got[0].(map[string]any)["self_attested"] != false {
		t.Errorf("%v", got)
	}
	if doc["schema"] != "drkit.evidence/1.2" || doc["observers"].([]any)[0] != "auditor" || doc["participants"].([]any)[0].(map[string]any)["role"] != "lead" || doc["notified"] != nil {
		t.Errorf("%v %v %v", doc["observers"], doc["participants"], doc["notified"])
	}
	if d := text(doc["deviations"]); !strings.Contains(d, "counts nothing: it expired at noon") {
		t.Errorf("deviations: %s", d)
	}
	if found := w.faults(Options{}); found != "" {
		t.Error(found)
	}
}

// TestUnapprovedIsFound: a live recovery whose approval is of another plan, run, service
// or person, was not in force, or that the ledger does not hold, is a fault.
func TestUnapprovedIsFound(t *testing.T) {
	typed := drill.Approval{Approver: "kim", Method: drill.MethodTyped, Self: true, At: time.Now()}
	for name, c := range map[string]struct {
		approvals func(w *world) []drill.Approval
		want      string
	}{
		"typed, unsaid": {func(*world) []drill.Approval { a := typed; a.Self = false; return []drill.Approval{a} }, "does not say that it is the operator's own"},
		"another plan": {func(w *world) []drill.Approval {
			return []drill.Approval{w.approve(func(s *ledger.Statement) { s.PlanHash = strings.Repeat("cd", 32) })}
		}, "is of another plan, run or person"},
		"another run": {func(w *world) []drill.Approval {
			return []drill.Approval{w.approve(func(s *ledger.Statement) { s.Run = id(9) })}
		}, "is of another plan, run or person"},
		"another person": {func(w *world) []drill.Approval { a := w.approve(nil); a.Approver = "ada"; return []drill.Approval{a} }, "is of another plan, run or person"},
		"another service": {func(w *world) []drill.Approval {
			return []drill.Approval{w.approve(func(s *ledger.Statement) { s.Service = "billing" })}
		}, "is of another plan, run or person"},
		"another ledger": {func(w *world) []drill.Approval {
			return []drill.Approval{w.approve(func(s *ledger.Statement) { s.After = strings.Repeat("ef", 32) })}
		}, "which does not count: it was given in another ledger"},
		"expired": {func(w *world) []drill.Approval {
			return []drill.Approval{w.approve(func(s *ledger.Statement) { s.At = s.At.Add(-2 * time.Hour); s.Expires = s.At.Add(time.Hour) })}
		}, "which does not count: it expired at"},
		"dated ahead": {func(w *world) []drill.Approval {
			return []drill.Approval{w.approve(func(s *ledger.Statement) { s.At = s.At.Add(time.Hour); s.Expires = s.At.Add(time.Hour) })}
		}, "which is not yet"},
		"for a year": {func(w *world) []drill.Approval {
			return []drill.Approval{w.approve(func(s *ledger.Statement) { s.Expires = s.At.AddDate(1, 0, 0) })}
		}, "it was given for longer than"},
		"another key":    {func(w *world) []drill.Approval { a := w.approve(nil); a.KeyID = "SHA256:x"; return []drill.Approval{a} }, "is of another plan, run or person"},
		"no such record": {func(w *world) []drill.Approval { a := w.approve(nil); a.Record = 7; return []drill.Approval{a} }, "is no such approval"},
		"another record": {func(w *world) []drill.Approval {
			a := w.approve(nil)
			a.SHA256 = strings.Repeat("0", 64)
			return []drill.Approval{a}
		}, "is no such approval"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, run := newWorld(t), id(1)
			w.approved(run, drill.RunStarted{Approvals: c.approvals(w)})
			w.judged(w.faults(Options{}))
			if found := w.faults(Options{}); (found == "") != (c.want == "") || !strings.Contains(found, c.want) {
				t.Errorf("%q, want %q", found, c.want)
			}
		})
	}
}

// TestBrokenApprovalIsFound: somebody rewrites an approval in the ledger with care, its
// sum and all that follows included, but not its signature.
func TestBrokenApprovalIsFound(t *testing.T) {
	w, run := newWorld(t), id(1)
	a := w.approve(nil)
	raw := string(read(t, w.record(1)))
	changed := strings.Replace(raw, "CHG-7", "CHG-8", 1)
	sum := raw[strings.Index(raw, `"sum": "`)+8:][:64]
	changed = string(ledger.WithSum([]byte(strings.Replace(changed, sum, ledger.NoRecord, 1))))
	put(t, w.record(1), []byte(changed))
	a.SHA256 = ledger.SealOf([]byte(changed)).SHA256
	w.approved(run, drill.RunStarted{Approvals: []drill.Approval{a}})
	if found := w.faults(Options{}); !strings.Contains(found, "whose signature does not hold") {
		t.Errorf("%q", found)
	}
}

// TestWithoutLedger: such a run is never better than status 6, its evidence says why,
// and the ledger's audit does not take it in.
func TestWithoutLedger(t *testing.T) {
	w, run := newWorld(t), id(1)
	r := w.approved(run, drill.RunStarted{Mode: drill.ModeEmergency, WithoutLedger: "its bucket is gone", Approvals: []drill.Approval{{Approver: "kim", Method: drill.MethodTyped, Self: true, At: time.Now()}}})
	if r.Finished.Verdict != drill.Incomplete || r.Finished.Status != 6 {
		t.Errorf("%+v", r.Finished)
	}
	doc, raw := w.evidence(run)
	if err := validate(t, raw); err != nil {
		t.Error(err)
	}
	if doc["without_ledger"] != "its bucket is gone" || doc["ledger"] != nil {
		t.Errorf("%v %v", doc["without_ledger"], doc["ledger"])
	}
	if f := CheckFile(raw); len(f) > 0 {
		t.Errorf("%+v", f)
	}
	if found := w.faults(Options{}); !strings.Contains(found, "it says that it began without, because: its bucket is gone") {
		t.Errorf("%q", found)
	}
	e, err := Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	e.NoLedger, e.Outcome.Verdict, e.Outcome.Status, e.Outcome.Reasons = nil, drill.Recovered, 0, []drill.Reason{}
	data, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if f := CheckFile(data); len(f) == 0 {
		t.Error("its reason can be taken out unseen")
	}
}

// TestApprovalsAreNoRuns: an approval is neither a run nor part of one.
func TestApprovalsAreNoRuns(t *testing.T) {
	w, run := newWorld(t), id(1)
	w.approve(nil)
	w.drill(run, "", boot(drill.Passed), undoes)
	w.approve(func(s *ledger.Statement) { s.Run = run })
	a := w.check(Options{})
	if len(a.Faults) != 0 || len(a.Runs) != 1 || a.Runs[0].State != "closed" || a.Records != 4 {
		t.Errorf("%+v", a)
	}
	if _, err := Seal(t.Context(), w.chain, w.dir, run, "kim"); err != nil {
		t.Error(err)
	}
	if a := w.check(Options{}); a.Records != 4 {
		t.Errorf("an approval after the end makes it close again: %d records", a.Records)
	}
}

// TestPeopleOfTheJournal: who answered for a role took part, and only what was
// delivered was told.
func TestPeopleOfTheJournal(t *testing.T) {
	r := &drill.Run{ID: id(1), Plan: drill.RunStarted{Participants: []drill.Person{{Name: "ada", Role: "lead"}}},
		Asked:    []drill.AskedState{{Step: "call", Who: "on-call", By: "mei"}, {Step: "again", Who: "on-call", By: "mei"}, {Step: "open", Who: "board"}},
		Notified: []drill.NotifiedState{{Notified: drill.Notified{To: "#ops", Text: "begun", Delivered: true}}, {Notified: drill.Notified{To: "#all", Text: "x", Why: "no answer"}}}}
	e := New(r, ledger.Sealed{})
	if got := text(e.People); got != `[{"name":"ada","role":"lead"},{"name":"mei","role":"on-call"}]` {
		t.Error(got)
	}
	if got := text(e.Notified); got != `["#ops: begun"]` {
		t.Error(got)
	}
}
