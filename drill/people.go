package drill

import (
	"errors"
	"fmt"
	"slices"
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
	AsOf      uint64    `json:"as_of,omitempty"`  // newest record of the ledger when it was weighed
	Why       string    `json:"why,omitempty"`    // why it counts nothing
	Counted   time.Time `json:"-"`                // when it was weighed, as the fold knows it
}

// Consent is who may approve a plan and how many must, as it was fixed before the start.
type Consent struct {
	Required int          `json:"required"`        // different people
	Self     bool         `json:"self_approval"`   // the operator's own approval counts, labelled
	People   []MayApprove `json:"people,omitzero"` // those whose keys count
}

// MayApprove is a person whose key counts.
type MayApprove struct {
	Name  string `json:"name"`
	KeyID string `json:"key_id"` // as ssh-keygen -l prints it
}

// Knows says that the key is the person's.
func (c *Consent) Knows(name, keyID string) bool {
	return slices.Contains(c.People, MayApprove{name, keyID})
}

// proven says that a record of the ledger and a key stand behind an approval.
func (a Approval) proven() bool { return a.KeyID != "" && a.Record > 0 && a.SHA256 != "" }

// unapproved says what a run that moves production lacks of people's approvals: as many
// different people as its plan asks for, each proven by a key, or in an emergency the
// operator's own word, which says that it is only that.
func unapproved(r *Run) []string {
	if !Live(r.Plan.Mode) {
		return nil
	}
	required, people := 1, map[string]bool{}
	if c := r.Plan.Consent; c != nil {
		required = max(c.Required, 1)
	}
	for _, a := range r.Approvals {
		switch {
		case a.Why != "":
		case a.Method == MethodTyped && a.Self && r.Plan.Mode == ModeEmergency:
			return nil
		case a.Method != MethodTyped && a.proven():
			people[a.Approver] = true
		}
	}
	if len(people) >= required {
		return nil
	}
	return []string{fmt.Sprintf("production may be moved, and %d of %d approvals of the plan count", len(people), required)}
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
func foldApproval(r *Run, e Event, a Approval) {
	a.Counted = e.Wall
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

// checkAdopted lets a person take over what is there and not the run's only proof: at
// the end of a run what was not taken back then stays a fault of it.
func checkAdopted(r *Run, _ Event, a Adopted) error {
	if err := r.knows(a.ID); err != nil {
		return err
	}
	switch c := r.change(a.ID); {
	case a.By == "":
		return errors.New("does not say who takes it over")
	case !c.Done:
		return fmt.Errorf("adopts change %q, which was not made", a.ID)
	case c.Gone():
		return fmt.Errorf("adopts change %q, which was taken back", a.ID)
	case r.Finished != nil && c.Stays() == "" && c.Owner() == "":
		return fmt.Errorf("adopts change %q, which the run's end could not take back", a.ID)
	}
	return nil
}

// foldAdopted leaves what the verdict rests on as it was at the end.
func foldAdopted(r *Run, e Event, a Adopted) {
	c := r.change(a.ID)
	if r.Finished == nil || c.Kept != "" {
		c.Adopted = a.By
		return
	}
	l := Later{At: stamp(e)}
	if c.Later != nil {
		l = *c.Later
	}
	l.Adopted, c.Later = a.By, &l
}

// Adopt journals, as a process of its own, that somebody took over what changes of a
// run made: their undo is dropped. The journal's lock tells whether the run's process
// still lives; opening the journal takes it. What the changes made must carry another
// mark before, so that nobody collects it.
func Adopt(j Journal, ids []string, by string, also ...Handler) (*Run, error) {
	run, err := Replay(j.Events())
	if err != nil {
		return run, err
	}
	x := after(run, j, nil, also)
	for _, id := range ids {
		c := run.change(id)
		if c == nil {
			return run, run.knows(id)
		}
		if err := x.emit(c.Step, c.Attempt, TypeAdopted, Adopted{ID: id, What: c.What, By: by}); err != nil {
			return run, err
		}
	}
	return run, nil
}

// CutOver says whether production's traffic was moved by a live run and stays moved,
// as far as its journal says; why not, otherwise.
func (r *Run) CutOver() (moved bool, why string) {
	if !Live(r.Plan.Mode) {
		return false, "a run of mode " + r.Plan.Mode + " moves nothing of production"
	}
	why = "no step of the run moved production's traffic"
	for _, s := range r.Steps {
		for _, c := range r.Changes {
			if c.Step != s.ID || s.Kind != "cutover" || !c.Done {
				continue
			}
			if !c.Gone() {
				return true, ""
			}
			why = "the cutover was taken back"
		}
	}
	return false, why
}

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
