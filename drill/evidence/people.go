package evidence

import (
	"fmt"
	"slices"

	"drkit/drill"
	"drkit/drill/approval"
	"drkit/drill/ledger"
)

// approvers are those whose approval counted; nil: nobody's did.
func approvers(r *drill.Run) *[]Approver {
	var all []Approver
	for _, a := range r.Approvals {
		if a.Why != "" {
			continue
		}
		x := Approver{ID: a.Approver, Method: a.Method, KeyID: said(a.KeyID), Self: a.Self, ChangeRef: a.ChangeRef, At: a.At, SHA256: said(a.SHA256)}
		if !a.Expires.IsZero() {
			x.Expires = &a.Expires
		}
		if a.Record > 0 {
			x.Record = &a.Record
		}
		all = append(all, x)
	}
	if all == nil {
		return nil
	}
	return &all
}

func approversOf(e *Evidence) []Approver {
	if e.Approvers == nil {
		return nil
	}
	return *e.Approvers
}

// approvalDeviations are approvals that count nothing, and those that are the
// operator's own.
func approvalDeviations(r *drill.Run) []string {
	var all []string
	for _, a := range r.Approvals {
		switch {
		case a.Why != "":
			all = append(all, fmt.Sprintf("an approval by %s (record %d of the ledger) counts nothing: %s", a.Approver, a.Record, a.Why))
		case a.Self:
			all = append(all, fmt.Sprintf("the approval by %s is the operator's own (%s)", a.Approver, a.Method))
		}
	}
	return all
}

// notified is what people were told, as far as it was delivered; nil: nothing was.
func notified(r *drill.Run) *[]string {
	var all []string
	for _, n := range r.Notified {
		if n.Delivered {
			all = append(all, n.To+": "+n.Text)
		}
	}
	if all == nil {
		return nil
	}
	return &all
}

// participants are those whom the operator named and those who answered for a role;
// nil: nobody.
func participants(r *drill.Run) *[]drill.Person {
	all := slices.Clone(r.Plan.Participants)
	for _, a := range r.Asked {
		if p := (drill.Person{Name: a.By, Role: a.Who}); a.By != "" && !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	if all == nil {
		return nil
	}
	return &all
}

// by says who carried a step out.
func by(kind string) string {
	if kind == "human" || kind == "approve" {
		return "human"
	}
	return "tool"
}

// checkApprovers refuses a live recovery that nobody approved, and an approval that
// nothing proves and that does not say so. Files of 1.0 knew no approvals.
func (e *Evidence) checkApprovers(add func(field, what string)) {
	if e.Schema != Schema {
		return
	}
	for i, a := range approversOf(e) {
		if (a.KeyID == nil || a.Record == nil || a.SHA256 == nil) && !(a.Self && a.Method == drill.MethodTyped) {
			add(fmt.Sprintf("/approvers/%d", i), "no key and no record of the ledger prove it, and it does not say that it is the operator's own")
		}
	}
	if o := e.Outcome; e.Kind == KindReal && o != nil && (o.Verdict == drill.Recovered || o.Verdict == drill.ObjectiveMissed) && len(approversOf(e)) == 0 {
		add("/approvers", "production was moved, and nobody approved it")
	}
}

// approved holds the approvals of the journal against the ledger's records and their
// signatures.
func (c *checker) approved(scan *ledger.Scan) {
	if c.folded == nil {
		return
	}
	for _, a := range c.folded.Approvals {
		if a.Why != "" || a.Method == drill.MethodTyped && a.Self {
			continue
		}
		i := slices.IndexFunc(scan.Entries, func(e ledger.Entry) bool { return e.Seq == a.Record && e.SHA256 == a.SHA256 && e.Approved != nil })
		if i < 0 {
			c.fault(ledger.FileName, ledger.Fault{Record: a.Record, What: fmt.Sprintf("it counts an approval by %s, and record %d of the ledger is no such approval", a.Approver, a.Record), Hint: hintRun})
			continue
		}
		said := *scan.Entries[i].Approved
		key, err := approval.Proven(said)
		switch st := said.Statement; {
		case err != nil:
			c.fault(ledger.FileName, ledger.Fault{Record: a.Record, What: "it counts an approval whose signature does not hold: " + err.Error(), Hint: hintRun})
		case st.PlanHash != c.folded.Plan.PlanHash || st.Run != "" && st.Run != c.run || st.Approver != a.Approver || approval.ID(key) != a.KeyID:
			c.fault(ledger.FileName, ledger.Fault{Record: a.Record, What: fmt.Sprintf("it counts an approval by %s that is of another plan, run or person", a.Approver), Hint: hintRun})
		}
	}
}
