package ledger

import (
	"errors"
	"fmt"
	"time"
)

// StatementSchema names the version of what an approver signs.
const StatementSchema = "drkit.approval/1.0"

// Approved is a person's word on a plan, with the signature that proves whose it
// is. drill/approval makes and judges it; the ledger only keeps it.
type Approved struct {
	Statement Statement `json:"statement"`
	Key       string    `json:"key"`       // public key, on one line as ssh writes it
	Signature string    `json:"signature"` // SSHSIG of the statement's Bytes, in its armour
}

// Statement is what is approved. It holds for one plan, and for one run: the one
// that it names, or else the first that is opened with that plan after it.
type Statement struct {
	Schema    string    `json:"schema"`
	ID        string    `json:"id"` // a ULID: the same statement never counts twice
	Service   string    `json:"service"`
	PlanHash  string    `json:"plan_hash"`
	Run       string    `json:"run"` // "": the next one
	Approver  string    `json:"approver"`
	ChangeRef string    `json:"change_ref"` // the ticket of the change; "": not said
	Self      bool      `json:"self_attested"`
	At        time.Time `json:"at"`
	Expires   time.Time `json:"expires"`
}

// Bytes are what is signed: equal statements give equal bytes.
func (s Statement) Bytes() ([]byte, error) {
	raw, err := indented(s)
	if err != nil {
		return nil, fmt.Errorf("encoding the approval of plan %.12s: %w", s.PlanHash, err)
	}
	return raw, nil
}

func (r Record) checkApproved() error {
	s := r.Approved.Statement
	switch {
	case r.Seq == 0:
		return errors.New("it says that it is record 0, and they count from 1")
	case s.Schema != StatementSchema:
		return fmt.Errorf("it approves by a statement of schema %.40q, and this version reads %s", s.Schema, StatementSchema)
	case s.PlanHash == "":
		return errors.New("it approves no plan")
	case s.Run != r.Run:
		return errors.New("its statement is of another run than the record")
	case r.Run != "":
		return errors.Join(checkID(s.ID), checkID(r.Run))
	}
	return checkID(s.ID)
}
