package evidence

import (
	"fmt"
	"maps"
	"slices"
	"time"

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
		x := Approver{ID: a.Approver, Method: a.Method, KeyID: said(a.KeyID), Self: a.Self, ChangeRef: a.ChangeRef, At: a.At, SHA256: said(a.SHA256), AsOf: a.AsOf}
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

// approval is the approver as a run's outcome needs it.
func (a Approver) approval() drill.Approval {
	x := drill.Approval{Approver: a.ID, Method: a.Method, Self: a.Self}
	if a.KeyID != nil && a.Record != nil && a.SHA256 != nil {
		x.KeyID, x.Record, x.SHA256 = *a.KeyID, *a.Record, *a.SHA256
	}
	return x
}

// checkApprovers refuses an approval that nothing proves and that does not say so, and
// one of a person whom the plan did not name. That a live recovery needs approvals at
// all is judged with the outcome.
func (e *Evidence) checkApprovers(add func(field, what string)) {
	for i, a := range approversOf(e) {
		x, field := a.approval(), fmt.Sprintf("/approvers/%d", i)
		typed := a.Self && a.Method == drill.MethodTyped
		switch c := e.Consent; {
		case x.KeyID == "" && !typed:
			add(field, "no key and no record of the ledger prove it, and it does not say that it is the operator's own")
		case c != nil && !typed && !c.Knows(a.ID, x.KeyID):
			add(field, "the plan did not name this person and key among those who may approve")
		case c != nil && !typed && a.Self && !c.Self:
			add(field, "it is the operator's own, and the plan refuses those")
		}
	}
}

// journaled is how long after it was weighed an approval may be journaled: the run is
// announced in the ledger meanwhile.
const journaled = 5 * time.Minute

// approved holds the approvals that the journal counts against the ledger's records and
// their signatures.
func (c *checker) approved(scan *ledger.Scan) {
	if c.folded == nil {
		return
	}
	for _, a := range c.folded.Approvals {
		if a.Why != "" || a.Method == drill.MethodTyped && a.Self {
			continue
		}
		if why := c.against(scan, a); why != "" {
			c.fault(ledger.FileName, ledger.Fault{Record: a.Record, What: why, Hint: hintRun})
		}
	}
}

// against says why a counted approval should not have been; "" when nothing speaks
// against it.
func (c *checker) against(scan *ledger.Scan, a drill.Approval) string {
	i := slices.IndexFunc(scan.Entries, func(e ledger.Entry) bool { return e.Seq == a.Record && e.SHA256 == a.SHA256 && e.Approved != nil })
	if i < 0 {
		return fmt.Sprintf("it counts an approval by %s, and record %d of the ledger is no such approval", a.Approver, a.Record)
	}
	e, plan := scan.Entries[i], c.folded.Plan
	key, err := approval.Proven(*e.Approved)
	st := e.Approved.Statement
	switch {
	case err != nil:
		return "it counts an approval whose signature does not hold: " + err.Error()
	case st.PlanHash != plan.PlanHash || st.Service != plan.Service || st.Run != "" && st.Run != c.run || st.Approver != a.Approver || st.ID != a.ID || approval.ID(key) != a.KeyID:
		return fmt.Sprintf("it counts an approval by %s that is of another plan, run or person", a.Approver)
	}
	if c.verdict == drill.Refused {
		return "" // it changed nothing, and left the approval to the next
	}
	why := approval.Dated(st, a.Counted, journaled)
	if why == "" && len(c.records) > 0 {
		why = approval.Against(scan, e, c.run)
	}
	if why == "" {
		why = c.takenBack(scan, e, a)
	}
	if why == "" {
		c.audit.used[st.ID] = append(c.audit.used[st.ID], use{c.run, a.Record, a.Approver})
		return ""
	}
	return fmt.Sprintf("it counts the approval by %s in record %d of the ledger, which does not count: %s", a.Approver, a.Record, why)
}

// takenBack says who took an approval back before the run counted it. What was taken
// back later is a note: it changes nothing of this run.
func (c *checker) takenBack(scan *ledger.Scan, e ledger.Entry, a drill.Approval) string {
	back, ok := approval.TakenBack(scan, e, func(name, keyID string) bool {
		return name == a.Approver && keyID == a.KeyID || c.folded.Plan.Consent != nil && c.folded.Plan.Consent.Knows(name, keyID)
	})
	if !ok {
		return ""
	}
	counted := a.AsOf // at least up to its announcement: then a run weighs once more
	if len(c.records) > 0 {
		counted = max(counted, c.records[0].Seq)
	}
	if back.Seq <= counted {
		return fmt.Sprintf("%s took it back, in record %d", back.Revoked.Statement.By, back.Seq)
	}
	c.audit.note("record %d of the ledger takes back the approval by %s in record %d after run %s had counted it: it changes nothing of that run", back.Seq, a.Approver, a.Record, c.run)
	return ""
}

// use is a run that counts an approval.
type use struct {
	run      string
	record   uint64
	approver string
}

// usedTwice finds an approval that more than one run counts.
func (a *Audit) usedTwice() {
	for _, id := range slices.Sorted(maps.Keys(a.used)) {
		all := a.used[id]
		for _, u := range all[min(1, len(all)):] {
			a.fault(ledger.Fault{Where: "run " + u.run + " " + ledger.FileName, Run: u.run, Record: u.record, Hint: hintRun,
				What: fmt.Sprintf("it counts the approval by %s in record %d of the ledger, which run %s counts too: one approval moves production once", u.approver, u.record, all[0].run)})
		}
	}
}
