package report

import (
	"fmt"
	"strings"

	"drkit/drill"
)

// Asked is a step that waited for a person.
type Asked struct {
	Step   string   `json:"step"`
	Who    string   `json:"who"`            // the role
	By     string   `json:"by,omitempty"`   // who said that it is done: asserted, not authenticated
	Via    string   `json:"via,omitempty"`  // how
	Waited *float64 `json:"waited_seconds"` // null: nobody has said so
	Clock  string   `json:"clock,omitempty"`
}

// Notified is what people were told through a webhook.
type Notified struct {
	Step      string `json:"step"`
	To        string `json:"to"`
	Text      string `json:"text"`
	Delivered bool   `json:"delivered"`
	Why       string `json:"why,omitempty"`
}

// Approval is a person's word on the plan, as it was judged; Why is why it counts nothing.
type Approval struct {
	Approver  string `json:"approver"`
	Method    string `json:"method"`
	KeyID     string `json:"key_id,omitempty"`
	Self      bool   `json:"self_attested"`
	ChangeRef string `json:"change_ref,omitempty"`
	Record    uint64 `json:"ledger_record,omitempty"`
	Why       string `json:"why,omitempty"`
}

func approvals(r *drill.Run) (all []Approval) {
	for _, a := range r.Approvals {
		all = append(all, Approval{Approver: a.Approver, Method: a.Method, KeyID: a.KeyID, Self: a.Self, ChangeRef: a.ChangeRef, Record: a.Record, Why: a.Why})
	}
	return all
}

// Proof is how the approval is known, for people.
func (a Approval) Proof() string {
	text := strings.TrimSpace(a.Method + " " + a.KeyID)
	if a.Record > 0 {
		text += fmt.Sprintf(", record %d of the ledger", a.Record)
	}
	if a.Self {
		text += "; the operator's own"
	}
	return text
}

// Counts says whether it counted, for people.
func (a Approval) Counts() string {
	if a.Why != "" {
		return "counts nothing: " + a.Why
	}
	return "counts"
}

func asked(r *drill.Run) (all []Asked) {
	for _, a := range r.Asked {
		took := a.Waited()
		all = append(all, Asked{Step: a.Step, Who: a.Who, By: a.By, Via: a.Via, Waited: SecondsIf(took.Elapsed, took.Measured), Clock: took.Clock})
	}
	return all
}

func notified(r *drill.Run) (all []Notified) {
	for _, n := range r.Notified {
		all = append(all, Notified{Step: n.Step, To: n.To, Text: n.Text, Delivered: n.Delivered, Why: n.Why})
	}
	return all
}

// who is who said so, for people.
func (a Asked) who() string {
	if a.By == "" {
		return "nobody yet"
	}
	return a.By + " (" + a.Via + ")"
}

func (n Notified) outcome() string {
	if n.Delivered {
		return "the webhook took it"
	}
	return "not delivered: " + n.Why
}

// people writes who was asked and told; nothing when nobody was.
func (d *doc) people() {
	if len(d.res.Approvals) > 0 {
		d.title("Approvals")
		d.header("by", "change", "known by", "")
		for _, a := range d.res.Approvals {
			d.row(a.Approver, a.ChangeRef, a.Proof(), a.Counts())
		}
	}
	if len(d.res.Asked) > 0 {
		d.title("People")
		d.header("step", "for", "said to be done by", "after")
		for _, a := range d.res.Asked {
			after := span(a.Waited)
			if a.Clock == drill.ClockWall {
				after += ", by the wall clock"
			}
			d.row(a.Step, a.Who, a.who(), after)
		}
	}
	if len(d.res.Notified) > 0 {
		d.title("Notifications")
		d.header("step", "to", "message", "outcome")
		for _, n := range d.res.Notified {
			d.row(n.Step, n.To, n.Text, n.outcome())
		}
	}
}
