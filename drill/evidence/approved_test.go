package evidence

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"drkit/drill"
	"drkit/drill/approval"
	"drkit/drill/ledger"
)

// takeBack revokes an approval under a name, with a key; mei's own when it is nil.
func (w *world) takeBack(a drill.Approval, by string, key ssh.Signer) ledger.Entry {
	w.t.Helper()
	if key == nil {
		key = w.keys[a.ID]
	}
	at := time.Now().UTC().Truncate(time.Second)
	e, err := approval.Revoke(w.t.Context(), w.chain, ledger.Revocation{Schema: ledger.RevocationSchema, ID: ledger.NewID(at), Service: "support", PlanHash: strings.Repeat("ab", 32), Approval: a.ID, By: by, At: at}, key, by+"@desk")
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

// knows makes a plan that names the people of these approvals.
func knows(required int, all ...drill.Approval) *drill.Consent {
	c := &drill.Consent{Required: required}
	for _, a := range all {
		c.People = append(c.People, drill.MayApprove{Name: a.Approver, KeyID: a.KeyID})
	}
	return c
}

// TestOneApprovalForTwoRuns: an approval moves production once. A second run that counts
// it is found, by the ledger alone and by the other run's journal; a refused one took
// nothing.
func TestOneApprovalForTwoRuns(t *testing.T) {
	t.Run("the ledger knows both", func(t *testing.T) {
		w := newWorld(t)
		a := w.approve(nil)
		for _, run := range []string{id(1), id(2)} {
			w.approved(run, drill.RunStarted{Approvals: []drill.Approval{a}})
		}
		w.judged(w.faults(Options{}))
		if judge := os.Getenv("DRKIT_JUDGE"); judge != "" { // the two evidences alone say it too
			if out, err := exec.Command("python3", judge, Path(w.dir, w.runs()[0]), Path(w.dir, w.runs()[1])).CombinedOutput(); err == nil || !strings.Contains(string(out), "counts too") {
				t.Errorf("without the ledger: %v %s", err, out)
			}
		}
		for _, o := range []Options{{}, {Runs: w.runs()[1:]}} {
			if found := w.faults(o); strings.Count(found, "\n") != 1 || !strings.Contains(found, "run "+w.runs()[1]+" journal.jsonl: it counts the approval by mei in record 1 of the ledger, which does not count: run "+w.runs()[0]+" took it") {
				t.Errorf("%q", found)
			}
		}
		if found := w.faults(Options{Runs: w.runs()[:1]}); found != "" {
			t.Errorf("the run that it was given to: %q", found)
		}
	})
	t.Run("one stands beside the ledger", func(t *testing.T) {
		w := newWorld(t)
		a := w.approve(nil)
		w.approved(id(1), drill.RunStarted{Mode: drill.ModeEmergency, WithoutLedger: "its bucket is gone", Approvals: []drill.Approval{a}})
		w.approved(id(2), drill.RunStarted{Approvals: []drill.Approval{a}})
		if found := w.faults(Options{}); !strings.Contains(found, "run "+w.runs()[1]+" journal.jsonl: it counts the approval by mei in record 1 of the ledger, which run "+w.runs()[0]+" counts too") {
			t.Errorf("%q", found)
		}
	})
	t.Run("the same statement in two records", func(t *testing.T) {
		w := newWorld(t)
		a := w.approve(nil)
		w.approved(id(1), drill.RunStarted{Approvals: []drill.Approval{a}})
		scan, err := w.chain.Scan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		e, err := w.chain.Append(t.Context(), ledger.Record{Kind: ledger.KindApproved, At: time.Now(), By: "mallory@x", Approved: scan.Entries[0].Approved})
		if err != nil {
			t.Fatal(err)
		}
		a.Record, a.SHA256 = e.Seq, e.SHA256
		w.approved(id(2), drill.RunStarted{Approvals: []drill.Approval{a}})
		w.judged(w.faults(Options{}))
		if found := w.faults(Options{}); !strings.Contains(found, "in record 4 of the ledger, which does not count: it is record 1 again: replayed") {
			t.Errorf("%q", found)
		}
	})
	t.Run("given after the run began", func(t *testing.T) {
		w := newWorld(t)
		w.approved(id(1), drill.RunStarted{})
		a := w.approve(nil)
		path := ledger.Path(w.dir, w.runs()[0])
		if a.Record != 3 || len(read(t, path)) == 0 {
			t.Fatalf("%+v", a)
		}
		c := &checker{audit: &Audit{used: map[string][]use{}}, run: w.runs()[0], dir: w.dir}
		scan, err := w.chain.Scan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c.records = scan.Of(c.run)
		c.journal()
		a.Counted = time.Now()
		if why := c.against(scan, a); !strings.Contains(why, "it was given after the run began, and does not name it") {
			t.Errorf("%q", why)
		}
	})
}

// TestForgedKeyIsFound: a record whose key names mei and signs with another's: a second
// line, as a file of several signers would have it, or what ssh takes for an option.
func TestForgedKeyIsFound(t *testing.T) {
	line := func(k ssh.Signer) string { return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k.PublicKey()))) }
	for name, forge := range map[string]func(mei, eve string) string{
		"two lines": func(mei, eve string) string { return mei + "\nx " + eve },
		"an option": func(mei, eve string) string {
			return "namespaces=\"" + strings.ReplaceAll(mei, "ssh-ed25519", "a") + "\" " + eve
		},
		"no key":         func(string, string) string { return "ssh-ed25519" },
		"a key, and end": func(mei, _ string) string { return mei + "\n" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			honest := w.approve(nil)
			elsewhere := newWorld(t)
			forged := elsewhere.approve(nil)
			scan, err := elsewhere.chain.Scan(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			word := *scan.Entries[0].Approved
			word.Key = forge(line(w.keys[honest.ID]), line(elsewhere.keys[forged.ID]))
			e, err := w.chain.Append(t.Context(), ledger.Record{Kind: ledger.KindApproved, At: time.Now(), By: "eve@x", Approved: &word})
			if err != nil {
				t.Fatal(err)
			}
			forged.KeyID, forged.Record, forged.SHA256 = honest.KeyID, e.Seq, e.SHA256
			w.approved(id(1), drill.RunStarted{Approvals: []drill.Approval{forged}, Consent: knows(1, honest)})
			found := w.faults(Options{})
			w.judged(found)
			if !strings.Contains(found, "the signature is of another key than the record says") {
				t.Errorf("%q", found)
			}
		})
	}
}

// TestRevokedIsFound: a run that counts an approval which was taken back before is found;
// what is taken back afterwards, or by a key that the plan does not name, changes nothing.
func TestRevokedIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		do         func(w *world, run string)
		want, note string
	}{
		"before the run, by the same key": {func(w *world, run string) {
			a := w.approve(nil)
			w.takeBack(a, "mei", nil)
			w.approved(run, drill.RunStarted{Approvals: []drill.Approval{a}})
		}, "which does not count: mei took it back, in record 2", ""},
		"before the run, by another whom the plan names": {func(w *world, run string) {
			a, b := w.approve(nil), w.approve(func(s *ledger.Statement) { s.Approver = "ada" })
			w.takeBack(a, "ada", w.keys[b.ID])
			w.approved(run, drill.RunStarted{Approvals: []drill.Approval{a}, Consent: knows(1, a, b)})
		}, "which does not count: ada took it back, in record 3", ""},
		"in the run, before it was counted": {func(w *world, run string) {
			a := w.approve(nil)
			a.AsOf = 3
			w.approved(run, drill.RunStarted{Approvals: []drill.Approval{a}})
			w.takeBack(a, "mei", nil) // record 4 by now; the run says that it had read up to 3
		}, "", "record 4 of the ledger takes back the approval by mei in record 1 after run RUN had counted it: it changes nothing"},
		"the run had read the ledger up to it": {func(w *world, run string) {
			a := w.approve(nil)
			a.AsOf = 4
			w.approved(run, drill.RunStarted{Approvals: []drill.Approval{a}})
			w.takeBack(a, "mei", nil)
		}, "which does not count: mei took it back, in record 4", ""},
		"its duplicate, which the run counts": {func(w *world, run string) {
			first := w.approve(nil)
			again := w.approveWith(w.keys[first.ID], nil)
			w.takeBack(first, "mei", nil)
			w.approved(run, drill.RunStarted{Approvals: []drill.Approval{again}})
		}, "the approval by mei in record 2 of the ledger, which does not count: mei took it back, in record 3", ""},
		"an earlier one, and approved anew": {func(w *world, run string) {
			first := w.approve(nil)
			w.takeBack(first, "mei", nil)
			w.approved(run, drill.RunStarted{Approvals: []drill.Approval{w.approveWith(w.keys[first.ID], nil)}})
		}, "", ""},
		"another person's": {func(w *world, run string) {
			a, b := w.approve(nil), w.approve(func(s *ledger.Statement) { s.Approver = "ada" })
			w.takeBack(a, "mei", nil)
			w.approved(run, drill.RunStarted{Approvals: []drill.Approval{b}, Consent: knows(1, a, b)})
		}, "", ""},
		"by somebody whom the plan does not name": {func(w *world, run string) {
			a, b := w.approve(nil), w.approve(func(s *ledger.Statement) { s.Approver = "eve" })
			w.takeBack(a, "eve", w.keys[b.ID])
			w.takeBack(a, "mei", w.keys[b.ID])
			w.approved(run, drill.RunStarted{Approvals: []drill.Approval{a}, Consent: knows(1, a)})
		}, "", ""},
		"by a record whose key is none": {func(w *world, run string) {
			a := w.approve(nil)
			back := w.takeBack(w.approve(nil), "mei", nil)
			word := *back.Revoked
			word.Statement.Approval, word.Key = a.ID, word.Key+"\nx "+word.Key
			if _, err := w.chain.Append(w.t.Context(), ledger.Record{Kind: ledger.KindRevoked, At: time.Now(), By: "eve@x", Revoked: &word}); err != nil {
				w.t.Fatal(err)
			}
			w.approved(run, drill.RunStarted{Approvals: []drill.Approval{a}, Consent: knows(1, a)})
		}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, run := newWorld(t), id(1)
			c.do(w, run)
			a := w.check(Options{})
			found, notes := w.faults(Options{}), strings.Join(a.Notes, "\n")
			w.judged(found)
			if (found == "") != (c.want == "") || !strings.Contains(found, c.want) || !strings.Contains(notes, strings.ReplaceAll(c.note, "RUN", run)) {
				t.Errorf("%q, want %q\n%s", found, c.want, notes)
			}
		})
	}
}

// TestConsent: the evidence says who might approve and how many had to; fewer, or others,
// are no recovery. Evidence that claims one all the same contradicts itself.
func TestConsent(t *testing.T) {
	w, run := newWorld(t), id(1)
	a, b := w.approve(nil), w.approve(func(s *ledger.Statement) { s.Approver = "ada" })
	r := w.approved(run, drill.RunStarted{Approvals: []drill.Approval{a}, Consent: knows(2, a, b)})
	if r.Finished.Verdict != drill.Incomplete || r.Finished.Status != 4 || r.Finished.Reasons[0].What != "production may be moved, and 1 of 2 approvals of the plan count" {
		t.Fatalf("%+v", r.Finished)
	}
	_, raw := w.evidence(run)
	if err := validate(t, raw); err != nil {
		t.Error(err)
	}
	if found := w.faults(Options{}); found != "" {
		t.Error(found)
	}
	w.judged("")
	e, err := Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	lie := func(change func(e *Evidence)) string {
		l := *e
		o := *e.Outcome
		l.Outcome = &o
		o.Verdict, o.Status, o.Reasons = drill.Recovered, 0, []drill.Reason{}
		change(&l)
		data, err := l.Encode()
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, f := range CheckFile(data) {
			all = append(all, f.Field+": "+f.What)
		}
		return strings.Join(all, "\n")
	}
	for name, c := range map[string]struct {
		change func(e *Evidence)
		want   string
	}{
		"one of two":            {func(*Evidence) {}, "/outcome/verdict: it says recovered, and the rest of it says incomplete: production may be moved, and 1 of 2"},
		"the same person twice": {func(l *Evidence) { l.Approvers = &[]Approver{(*e.Approvers)[0], (*e.Approvers)[0]} }, "/outcome/verdict"},
		"an older version":      {func(l *Evidence) { l.Schema, l.Consent, l.Approvers = "drkit.evidence/1.0", nil, nil }, "/outcome/verdict"},
		"a stranger": {func(l *Evidence) {
			x := (*e.Approvers)[0]
			x.ID = "eve"
			l.Approvers = &[]Approver{(*e.Approvers)[0], x}
		}, "/approvers/1: the plan did not name this person and key"},
		"the operator's own": {func(l *Evidence) {
			x := (*e.Approvers)[0]
			x.Self = true
			l.Approvers = &[]Approver{x}
		}, "/approvers/0: it is the operator's own, and the plan refuses those"},
	} {
		if got := lie(c.change); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestAnotherVersion: evidence that says it is of another version is held against the
// journal too, also when its seal in the ledger was made anew with it.
func TestAnotherVersion(t *testing.T) {
	for name, c := range map[string]struct {
		change func(e *Evidence)
		want   string
	}{
		"as it was":        {func(*Evidence) {}, ""},
		"another verdict":  {func(e *Evidence) { e.Outcome.Verdict, e.Outcome.Status = drill.Refused, 3 }, "evidence.json /outcome"},
		"another run":      {func(e *Evidence) { e.RunID = id(9) }, "evidence.json /run_id"},
		"another plan":     {func(e *Evidence) { e.Plan.SHA256 = strings.Repeat("cd", 32) }, "evidence.json /plan/sha256"},
		"no demonstration": {func(e *Evidence) { e.Kind = KindReal }, "evidence.json /kind"},
		"another journal":  {func(e *Evidence) { e.Journal.Bytes++ }, "evidence.json /journal"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, run := newWorld(t), id(1)
			w.drill(run, "", boot(drill.Passed), undoes)
			run = w.runs()[0]
			e, err := Decode(read(t, Path(w.dir, run)))
			if err != nil {
				t.Fatal(err)
			}
			e.Schema = "drkit.evidence/1.0"
			c.change(e)
			data, err := e.Encode()
			if err != nil {
				t.Fatal(err)
			}
			put(t, Path(w.dir, run), data)
			w.closeAnew(run, data)
			if found := w.faults(Options{}); (found == "") != (c.want == "") || !strings.Contains(found, c.want) {
				t.Errorf("%q, want %q", found, c.want)
			}
		})
	}
}

// closeAnew makes the closing record of the only run again, so that it seals this evidence.
func (w *world) closeAnew(run string, data []byte) {
	w.t.Helper()
	scan, err := w.chain.Scan(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	c, seal := *scan.Entries[1].Closed, ledger.SealOf(data)
	c.Evidence = &seal
	remove(w.t, w.record(2))
	if _, err := w.chain.Append(w.t.Context(), ledger.Record{Kind: ledger.KindClosed, Run: run, At: time.Now(), By: "kim@laptop", Closed: &c}); err != nil {
		w.t.Fatal(err)
	}
}
