package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"drkit/internal/errext"
	"drkit/internal/store"
)

// Fault is one thing that is wrong with evidence, and where.
type Fault struct {
	Where  string `json:"where"`            // "ledger record 3", "run 01J… journal line 12"
	Run    string `json:"run,omitempty"`    // the run that it concerns
	Record uint64 `json:"record,omitempty"` // of the ledger
	Line   int    `json:"line,omitempty"`   // of a journal
	Field  string `json:"field,omitempty"`  // of an evidence.json, as a JSON pointer
	What   string `json:"what"`
	Hint   string `json:"hint,omitempty"`
}

// Scan is the whole ledger as it was read.
type Scan struct {
	Location string
	Entries  []Entry // in order; those that cannot be read are left out
	Faults   []Fault
}

// Head is the newest record, nil in an empty ledger.
func (s *Scan) Head() *Entry {
	if len(s.Entries) == 0 {
		return nil
	}
	return &s.Entries[len(s.Entries)-1]
}

// Of lists the records that open and close one run.
func (s *Scan) Of(run string) []Entry {
	var all []Entry
	for _, e := range s.Entries {
		if e.Run == run && e.ofRun() {
			all = append(all, e)
		}
	}
	return all
}

// Runs are the runs that the ledger names, in the order in which they were opened.
func (s *Scan) Runs() []string {
	var all []string
	for _, e := range s.Entries {
		if e.ofRun() && !slices.Contains(all, e.Run) {
			all = append(all, e.Run)
		}
	}
	return all
}

// ofRun says that a record opens or closes a run, and is nobody's word on a plan.
func (e Entry) ofRun() bool { return e.Opened != nil || e.Closed != nil }

func (s *Scan) fault(seq uint64, run, what, hint string) {
	s.Faults = append(s.Faults, Fault{Where: fmt.Sprintf("ledger record %d (%s)", seq, Key(seq)), Record: seq, Run: run, What: what, Hint: hint})
}

// gap tells of records that are missing in a row: each of a few, and of many the first,
// as a single file with a high number would make ten billion.
func (s *Scan) gap(from, to uint64) {
	if to-from >= 16 {
		s.fault(from, "", fmt.Sprintf("it and all up to record %d are missing", to), hintChanged)
		return
	}
	for ; from <= to; from++ {
		s.fault(from, "", "it is missing", hintChanged)
	}
}

const hintChanged = "the ledger was changed or damaged: fetch it from a backup, and find out who could write to it"

// Scan reads every record and finds what was changed, taken out, added or moved. An
// error is for a ledger that cannot be read; it has the status Evidence.
func (c *Chain) Scan(ctx context.Context) (*Scan, error) {
	s := &Scan{Location: c.location}
	previous, next := NoRecord, uint64(1)
	for key, err := range c.keys(ctx) {
		if err != nil {
			return s, lost(fmt.Errorf("reading the ledger %s: %w", c.location, err))
		}
		seq := seqOf(key)
		if next < seq {
			s.gap(next, seq-1)
			previous = ""
		}
		next = seq + 1
		e, err := c.entry(ctx, key)
		if err != nil {
			return s, err
		}
		s.judge(seq, e, previous)
		previous = e.SHA256
		if e.bad {
			previous = "" // what follows a changed record cannot be held against it
		}
	}
	s.order()
	return s, c.held(ctx, s)
}

// entry reads one record; bad and why when it is not sound.
func (c *Chain) entry(ctx context.Context, key string) (scanned, error) {
	raw, err := c.read(ctx, store.Object{Key: key})
	if err != nil {
		return scanned{}, errext.WithHint(lost(fmt.Errorf("reading record %s of the ledger %s: %w", key, c.location, err)), "see that it may be read")
	}
	rec, err := decodeRecord(raw)
	return scanned{Entry: Entry{Record: rec, SHA256: hexSum(raw)}, why: err, bad: err != nil}, nil
}

// scanned is a record that was read and not yet believed.
type scanned struct {
	Entry
	why error
	bad bool
}

func (s *Scan) judge(seq uint64, e scanned, previous string) {
	switch {
	case e.bad:
		s.fault(seq, "", "it was changed: "+e.why.Error(), hintChanged)
		return
	case e.Seq != seq:
		s.fault(seq, e.Run, fmt.Sprintf("it says that it is record %d: records were moved or renamed", e.Seq), hintChanged)
		return
	case previous != "" && e.Previous != previous:
		s.fault(seq, e.Run, fmt.Sprintf("it does not follow record %d: one of the two was replaced", seq-1), hintChanged)
	}
	s.Entries = append(s.Entries, e.Entry)
}

// order finds runs that are opened twice, or closed without having been opened.
func (s *Scan) order() {
	opened := map[string]bool{}
	for _, e := range s.Entries {
		switch {
		case e.Kind == KindOpened && opened[e.Run]:
			s.fault(e.Seq, e.Run, "run "+e.Run+" is opened a second time", hintChanged)
		case e.Kind == KindClosed && !opened[e.Run] && !s.gaps():
			s.fault(e.Seq, e.Run, "run "+e.Run+" is closed and was never opened", hintChanged)
		}
		opened[e.Run] = opened[e.Run] || e.Kind == KindOpened
	}
}

func (s *Scan) gaps() bool { return len(s.Faults) > 0 }

// held compares the ledger with the versions that an object lock holds: a record
// that was hidden or overwritten is still among them.
func (c *Chain) held(ctx context.Context, s *Scan) error {
	r, ok := c.store.(store.Retainer)
	if !ok {
		return nil
	}
	for o, err := range r.Retained(ctx, "") {
		if errors.Is(err, store.ErrNoRetention) {
			return nil
		}
		if err != nil {
			return lost(fmt.Errorf("reading what the object lock of the ledger %s holds: %w", c.location, err))
		}
		if !recordKey.MatchString(o.Key) {
			continue
		}
		raw, err := c.read(ctx, o)
		if err != nil {
			return lost(fmt.Errorf("reading the held version of %s: %w", o.Key, err))
		}
		s.hold(seqOf(o.Key), hexSum(raw))
	}
	return nil
}

func (s *Scan) hold(seq uint64, sum string) {
	i := slices.IndexFunc(s.Entries, func(e Entry) bool { return e.Seq == seq })
	switch {
	case i >= 0 && s.Entries[i].SHA256 == sum:
		s.Entries[i].Anchored = true
	case i >= 0:
		s.fault(seq, s.Entries[i].Run, "the object lock holds another version of it: it was overwritten", hintChanged)
	default:
		s.fault(seq, "", "the object lock holds it, and the ledger does not show it: it was deleted", hintChanged)
	}
}
