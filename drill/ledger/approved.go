package ledger

import (
	"errors"
	"fmt"
	"time"
)

// StatementSchema names the version of what an approver signs. 1.1 added the ledger that
// it is given in; statements of 1.0 are read as they were signed.
const (
	StatementSchema      = "drkit.approval/1.1"
	firstStatementSchema = "drkit.approval/1.0"
)

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
	After     string    `json:"after,omitempty"` // SHA-256 of the ledger's newest record then: it counts nothing in another ledger; "": it was empty
}

// Bytes are what is signed: equal statements give equal bytes.
func (s Statement) Bytes() ([]byte, error) {
	raw, err := indented(s)
	if err != nil {
		return nil, fmt.Errorf("encoding the approval of plan %.12s: %w", s.PlanHash, err)
	}
	return raw, nil
}

// RevocationSchema names the version of what is signed to take an approval back.
const RevocationSchema = "drkit.revocation/1.0"

// Revoked is a person's word that an approval counts no more, with its signature.
type Revoked struct {
	Statement Revocation `json:"statement"`
	Key       string     `json:"key"`       // public key, on one line as ssh writes it
	Signature string     `json:"signature"` // SSHSIG of the statement's Bytes, in its armour
}

// Revocation says which approval is taken back: from its record on, and not from runs
// that counted it before.
type Revocation struct {
	Schema   string    `json:"schema"`
	ID       string    `json:"id"` // a ULID
	Service  string    `json:"service"`
	PlanHash string    `json:"plan_hash"`
	Run      string    `json:"run"`      // as in the approval
	Approval string    `json:"approval"` // its id
	By       string    `json:"by"`       // as approvals.keys names the person
	Reason   string    `json:"reason"`   // "": not said
	At       time.Time `json:"at"`
}

// Bytes are what is signed: equal statements give equal bytes.
func (s Revocation) Bytes() ([]byte, error) {
	raw, err := indented(s)
	if err != nil {
		return nil, fmt.Errorf("encoding the revocation of approval %s: %w", s.Approval, err)
	}
	return raw, nil
}

func (r Record) checkRevoked() error {
	s := r.Revoked.Statement
	switch {
	case r.Seq == 0:
		return errors.New("it says that it is record 0, and they count from 1")
	case s.Schema != RevocationSchema:
		return fmt.Errorf("it takes back by a statement of schema %.40q, and this version reads %s", s.Schema, RevocationSchema)
	case s.Run != r.Run:
		return errors.New("its statement is of another run than the record")
	case r.Run != "":
		return errors.Join(checkID(s.ID), checkID(s.Approval), checkID(r.Run))
	}
	return errors.Join(checkID(s.ID), checkID(s.Approval))
}

func (r Record) checkApproved() error {
	s := r.Approved.Statement
	switch {
	case r.Seq == 0:
		return errors.New("it says that it is record 0, and they count from 1")
	case s.Schema != StatementSchema && (s.Schema != firstStatementSchema || s.After != ""):
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
