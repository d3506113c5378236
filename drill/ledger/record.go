package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// RecordSchema names the version of a ledger's record. Version 1.1 added the kind
// approved, 1.2 the kind revoked; earlier records are read as they were written.
const (
	RecordSchema = "drkit.ledger/1.2"
	secondSchema = "drkit.ledger/1.1"
	firstSchema  = "drkit.ledger/1.0"
)

// kindsOf are the kinds of records that each version has.
var kindsOf = map[string][]string{
	RecordSchema: {KindOpened, KindClosed, KindApproved, KindRevoked},
	secondSchema: {KindOpened, KindClosed, KindApproved},
	firstSchema:  {KindOpened, KindClosed},
}

// Kinds of records.
const (
	KindOpened   = "opened"   // before a run does anything
	KindClosed   = "closed"   // after its journal has ended
	KindApproved = "approved" // a person's word on a plan
	KindRevoked  = "revoked"  // a person's word that an approval counts no more
)

// Record is one entry of the ledger. Each holds the SHA-256 of the one before it,
// so that none can be changed, taken out or moved without the next one showing it.
type Record struct {
	Schema   string    `json:"schema"`
	Sum      string    `json:"sum"` // SHA-256 of the record's own bytes, with 64 zeros in this place
	Seq      uint64    `json:"seq"` // 1, 2, 3 … without a gap
	Previous string    `json:"previous"`
	Kind     string    `json:"kind"`
	Run      string    `json:"run"` // "" only in an approval of whichever run begins next with its plan, and where one is taken back
	At       time.Time `json:"at"`
	By       string    `json:"by"` // user@host, as the machine says
	Opened   *Opened   `json:"opened,omitempty"`
	Closed   *Closed   `json:"closed,omitempty"`
	Approved *Approved `json:"approved,omitempty"`
	Revoked  *Revoked  `json:"revoked,omitempty"`
}

// Opened is what a run meant to do.
type Opened struct {
	Service  string `json:"service"`
	Mode     string `json:"mode"`
	Demo     bool   `json:"demo"`
	Playbook string `json:"playbook"`
	PlanHash string `json:"plan_hash"`
	Release  string `json:"release"`
	Source   string `json:"source"`
	Target   string `json:"target"`
	Tool     string `json:"tool"`
}

// Closed is how a run ended, with the bytes that say so.
type Closed struct {
	Verdict  string  `json:"verdict"`
	Status   int     `json:"status"`
	Journal  Sealed  `json:"journal"`
	Evidence *Sealed `json:"evidence"` // null: it could not be written, or the run never began
}

// Sealed is a file as it was when the record was made.
type Sealed struct {
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
	Events uint64 `json:"events,omitempty"` // of a journal
}

// SealOf is the seal of a file's bytes.
func SealOf(data []byte) Sealed { return Sealed{SHA256: hexSum(data), Bytes: int64(len(data))} }

// NoRecord stands in the place of the record before the first.
const NoRecord = "0000000000000000000000000000000000000000000000000000000000000000"

func hexSum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// encode writes the record with its own sum. Equal records give equal bytes.
func (r Record) encode() ([]byte, error) {
	r.Sum = NoRecord
	raw, err := indented(r)
	if err != nil {
		return nil, fmt.Errorf("encoding the record of run %s: %w", r.Run, err)
	}
	return WithSum(raw), nil
}

func indented(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(v)
	return b.Bytes(), err
}

const sumField = `"sum": "`

// WithSum puts the SHA-256 of a document's bytes into its first field "sum", which
// must hold 64 zeros.
func WithSum(raw []byte) []byte {
	return bytes.Replace(raw, []byte(sumField+NoRecord+`"`), []byte(sumField+hexSum(raw)+`"`), 1)
}

// CheckSum proves a document's own sum. It finds rot and edits; whoever edits with
// care makes a new one, which the chain and the signature then contradict.
func CheckSum(raw []byte, sum string) error {
	if len(sum) != len(NoRecord) {
		return errors.New("it has no sum of its own")
	}
	field := []byte(sumField + sum + `"`)
	if !bytes.Contains(raw, field) {
		return errors.New("its sum does not stand where it must")
	}
	if hexSum(bytes.Replace(raw, field, []byte(sumField+NoRecord+`"`), 1)) != sum {
		return errors.New("its bytes are not those that its own sum was made of")
	}
	return nil
}

// decodeRecord reads a record strictly: what is not written as drkit writes it was
// not written by drkit.
func decodeRecord(raw []byte) (Record, error) {
	var r Record
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return r, fmt.Errorf("it is no record of a ledger: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return r, errors.New("something follows the record")
	}
	if !slices.Contains(kindsOf[r.Schema], r.Kind) {
		return r, fmt.Errorf("it is of schema %.40q and kind %.20q, and this version reads %s", r.Schema, r.Kind, RecordSchema)
	}
	if err := CheckSum(raw, r.Sum); err != nil {
		return r, err
	}
	if again, err := r.encode(); err != nil || !bytes.Equal(again, raw) {
		return r, errors.Join(err, errors.New("it is not written as drkit writes records"))
	}
	return r, r.check()
}

func (r Record) check() error {
	var holds []string
	for kind, there := range map[string]bool{KindOpened: r.Opened != nil, KindClosed: r.Closed != nil, KindApproved: r.Approved != nil, KindRevoked: r.Revoked != nil} {
		if there {
			holds = append(holds, kind)
		}
	}
	switch {
	case len(holds) == 1 && holds[0] == r.Kind && r.Approved != nil:
		return r.checkApproved()
	case len(holds) == 1 && holds[0] == r.Kind && r.Revoked != nil:
		return r.checkRevoked()
	case len(holds) != 1 || holds[0] != r.Kind:
		return fmt.Errorf("a record of kind %.20q does not hold what it must", r.Kind)
	}
	if r.Seq == 0 {
		return errors.New("it says that it is record 0, and they count from 1")
	}
	if c := r.Closed; c != nil && (c.Journal.Bytes < 0 || c.Evidence != nil && c.Evidence.Bytes < 0) {
		return errors.New("it seals a file of less than no bytes")
	}
	return checkID(r.Run)
}
