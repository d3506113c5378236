package drill

import (
	"errors"
	"fmt"
)

// What people are asked and told in the steps of a playbook.

// The types of events and the struct that each carries.
const (
	TypeAsked        = "person.asked"        // Asked: a step waits for a person
	TypeAcknowledged = "person.acknowledged" // Acknowledged: the person's word
	TypeNotified     = "notified"            // Notified
)

// Asked says that a step waits for a person from here on.
type Asked struct {
	Who string `json:"who"` // the role, as the playbook says
}

// Acknowledged is a person's word that what they were asked for is done. It is
// asserted, not authenticated.
type Acknowledged struct {
	Who string `json:"who"` // the role that was asked for
	By  string `json:"by"`  // who said so
	Via string `json:"via"` // screen, command line
}

// Notified says what people were told through a webhook, and whether it was taken.
type Notified struct {
	To        string `json:"to"` // the role, or the name of the variable with the webhook; never its URL
	Text      string `json:"text"`
	Delivered bool   `json:"delivered"`
	Why       string `json:"why,omitempty"` // it was not delivered
}

// AskedState is a question to a person and what came of it.
type AskedState struct {
	Step string
	Who  string // the role that was asked
	At   Stamp  // first asked, however often the step was tried or the run held

	By, Via string // who acknowledged it, and how; "" while nobody has
	Given   Stamp  // of the acknowledgement
}

// Waited is how long the person took, by the wall clock when the run was held meanwhile.
func (a AskedState) Waited() Span {
	if a.Given.IsZero() {
		return Span{Why: "nobody has acknowledged it"}
	}
	return Between(a.At, a.Given)
}

// NotifiedState is a notification and the step that sent it.
type NotifiedState struct {
	Notified
	Step string
	At   Stamp
}

// unanswered is the question of a step that nobody has answered yet.
func (r *Run) unanswered(step string) *AskedState {
	for i := range r.Asked {
		if r.Asked[i].Step == step && r.Asked[i].Given.IsZero() {
			return &r.Asked[i]
		}
	}
	return nil
}

func checkAsked(_ *Run, e Event, a Asked) error {
	if e.Step == "" || a.Who == "" {
		return errors.New("does not say which step asks whom")
	}
	return nil
}

func foldAsked(r *Run, e Event, a Asked) {
	if now := r.unanswered(e.Step); now != nil {
		now.Who = a.Who
		return
	}
	r.Asked = append(r.Asked, AskedState{Step: e.Step, Who: a.Who, At: stamp(e)})
}

func checkAcknowledged(r *Run, e Event, a Acknowledged) error {
	switch {
	case a.By == "":
		return errors.New("does not say who acknowledged it")
	case r.unanswered(e.Step) == nil:
		return fmt.Errorf("acknowledges step %q, which asks nobody", e.Step)
	}
	return nil
}

func foldAcknowledged(r *Run, e Event, a Acknowledged) {
	now := r.unanswered(e.Step)
	now.By, now.Via, now.Given = a.By, a.Via, stamp(e)
}

func checkNotified(_ *Run, _ Event, n Notified) error {
	if n.To == "" || n.Delivered && n.Why != "" {
		return errors.New("does not say who was notified, or contradicts itself")
	}
	return nil
}

func foldNotified(r *Run, e Event, n Notified) {
	r.Notified = append(r.Notified, NotifiedState{n, e.Step, stamp(e)})
}
