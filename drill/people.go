package drill

import (
	"errors"
	"fmt"
	"time"

	"drkit/playbooks"
)

// What people do in a run, and the folds of it.

// Approval is a person's word on the run's plan, as it was judged. It counts when
// Why is empty.
type Approval struct {
	ID        string    `json:"id"` // of the signed statement; "": it was only typed
	Approver  string    `json:"approver"`
	Method    string    `json:"method"`           // kind of key, or how else it was given
	KeyID     string    `json:"key_id,omitempty"` // as ssh-keygen -l prints it
	Self      bool      `json:"self_attested"`    // the operator's own
	ChangeRef string    `json:"change_ref,omitempty"`
	At        time.Time `json:"at"`
	Expires   time.Time `json:"expires,omitzero"`
	Record    uint64    `json:"record,omitempty"` // of the ledger
	SHA256    string    `json:"sha256,omitempty"` // of that record
	Why       string    `json:"why,omitempty"`    // why it counts nothing
}

// MethodTyped is the method of an approval that no key proves.
const MethodTyped = "typed by the operator, not authenticated"

// Person took part, as the operator says.
type Person struct {
	Name string `json:"name"`
	Role string `json:"role"`
}

func checkApproval(_ *Run, _ Event, a Approval) error {
	if a.Approver == "" || a.Method == "" && a.Why == "" {
		return errors.New("the approval names no approver, or no method")
	}
	return nil
}

// foldApproval keeps the newest judgement of each approval.
func foldApproval(r *Run, _ Event, a Approval) {
	for i, old := range r.Approvals {
		if old.Record == a.Record && old.ID == a.ID && old.Approver == a.Approver {
			r.Approvals[i] = a
			return
		}
	}
	r.Approvals = append(r.Approvals, a)
}

// Adopted says that a person took over what a change made: it is no longer the
// run's, and its undo is dropped.
type Adopted struct {
	ID   string `json:"id"` // of the change
	What string `json:"what"`
	By   string `json:"by"`
}

func checkAdopted(r *Run, _ Event, a Adopted) error {
	if c := r.change(a.ID); c != nil && c.Undone {
		return fmt.Errorf("adopts change %q, which was taken back", a.ID)
	}
	return r.knows(a.ID)
}

func foldAdopted(r *Run, _ Event, a Adopted) { r.change(a.ID).Adopted = a.By }

// PlannedChange is what a step would change, for people: what, by which call, and
// how it would be taken back.
type PlannedChange struct {
	What string `json:"what"`
	How  string `json:"how"`
	Undo string `json:"undo"`
}

// Planner is an ability of a StepHandler, found by type assertion: to say what Do
// would change, in order, without reaching anything. Its answer may be better after
// Check. A kind without it is shown as one that does not say.
type Planner interface {
	Plan(s playbooks.Step) []PlannedChange
}
