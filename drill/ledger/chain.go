package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"strconv"
	"time"

	"drkit/internal/errext"
	"drkit/internal/store"
)

// Retention is how long a record is held where the store can hold it (store.Retainer,
// S3 Object Lock). There a ledger's end cannot be cut off unseen.
const Retention = 400 * 24 * time.Hour

// Chain is the ledger of all runs: one object a record, written on the condition
// that it is not there yet, so that two runs at once cannot write the same place.
type Chain struct {
	store    store.ReadWriter
	location string
	redact   func([]byte) []byte
}

// NewChain is the ledger in a store; location is what people are told. Texts that
// people gave pass redact, which may be nil.
func NewChain(s store.ReadWriter, location string, redact func([]byte) []byte) *Chain {
	if redact == nil {
		redact = func(b []byte) []byte { return b }
	}
	return &Chain{store: s, location: location, redact: redact}
}

// Location is where the ledger lies.
func (c *Chain) Location() string { return c.location }

// Entry is a record in its place.
type Entry struct {
	Record
	SHA256   string    // of its bytes: what the next record holds
	Anchored bool      // it is held by an object lock
	Until    time.Time // until then
}

var recordKey = regexp.MustCompile(`^[0-9]{10}\.json$`)

// Key is the place of a record.
func Key(seq uint64) string { return fmt.Sprintf("%010d.json", seq) }

// maxRecord bounds a record in bytes.
const maxRecord = 1 << 20

// Append writes the next record. Others may append at the same time: whoever comes
// second takes the next place. The error has the status Evidence.
func (c *Chain) Append(ctx context.Context, r Record) (Entry, error) {
	r.Schema, r.At, r.By = RecordSchema, r.At.UTC(), string(c.redact([]byte(r.By)))
	if r.Opened != nil {
		o, err := c.clean(*r.Opened)
		if err != nil {
			return Entry{}, c.failed(err)
		}
		r.Opened = &o
	}
	if err := c.cleanWord(r); err != nil {
		return Entry{}, c.failed(err)
	}
	for range 1000 {
		last, err := c.tail(ctx)
		if err != nil {
			return Entry{}, c.failed(err)
		}
		r.Seq, r.Previous = last.Seq+1, last.SHA256
		e, err := c.put(ctx, r)
		if errors.Is(err, store.ErrPrecondition) {
			continue
		}
		if err != nil {
			return Entry{}, c.failed(err)
		}
		return e, nil
	}
	return Entry{}, c.failed(errors.New("others keep writing to it: its next place was never free"))
}

// clean passes every text of an announcement through the redactor, as the journal
// does with the same texts.
func (c *Chain) clean(o Opened) (Opened, error) {
	raw, err := json.Marshal(o)
	if err == nil {
		raw, err = redactStrings(raw, c.redact)
	}
	if err == nil {
		err = json.Unmarshal(raw, &o)
	}
	return o, err
}

// cleanWord refuses a signed text that the redactor would change: it cannot be
// cleaned and stay signed.
func (c *Chain) cleanWord(r Record) error {
	var word any
	switch {
	case r.Approved != nil:
		word = r.Approved.Statement
	case r.Revoked != nil:
		word = r.Revoked.Statement
	default:
		return nil
	}
	raw, err := json.Marshal(word)
	if err != nil {
		return err
	}
	if clean, err := redactStrings(raw, c.redact); err != nil || !bytes.Equal(clean, raw) {
		return errext.WithHint(errors.Join(errors.New("what was signed holds a secret of this machine's environment"), err), "leave it out of what you type")
	}
	return nil
}

func (c *Chain) failed(err error) error {
	err = fmt.Errorf("writing to the ledger %s: %w", c.location, err)
	if errext.Hint(err) == "" {
		err = errext.WithHint(err, "see that it may be written to and has room; run.ledger in drkit.yaml names another place")
	}
	return lost(err)
}

// tail is the newest record; a zero one that NoRecord stands for in an empty ledger.
func (c *Chain) tail(ctx context.Context) (Entry, error) {
	last := Entry{SHA256: NoRecord}
	n := uint64(0)
	for key, err := range c.keys(ctx) {
		if err != nil {
			return last, err
		}
		if n++; key != Key(n) {
			return last, c.broken(fmt.Errorf("record %d is missing", n))
		}
	}
	if n == 0 {
		return last, nil
	}
	raw, err := c.read(ctx, store.Object{Key: Key(n)})
	if err != nil {
		return last, err
	}
	rec, err := decodeRecord(raw)
	if err == nil && rec.Seq != n {
		err = fmt.Errorf("it says that it is record %d", rec.Seq)
	}
	if err != nil {
		return last, c.broken(fmt.Errorf("record %d: %w", n, err))
	}
	return Entry{Record: rec, SHA256: hexSum(raw)}, nil
}

func (c *Chain) broken(err error) error {
	return errext.WithHint(fmt.Errorf("it is damaged: %w", err),
		"`drkit drill verify-evidence` says what is wrong; keep it as it is, and begin a new one at another run.ledger")
}

// keys yields the keys of records in their order.
func (c *Chain) keys(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for o, err := range c.store.List(ctx, "") {
			switch {
			case errors.Is(err, store.ErrNotFound): // no ledger yet
				return
			case err != nil:
				yield("", err)
				return
			case recordKey.MatchString(o.Key) && !yield(o.Key, nil):
				return
			}
		}
	}
}

func (c *Chain) read(ctx context.Context, o store.Object) ([]byte, error) {
	if o.Version == "" {
		var err error
		if o, err = c.store.Stat(ctx, o.Key); err != nil {
			return nil, err
		}
	}
	return store.ReadAll(ctx, c.store, o, maxRecord)
}

// put writes one record. It counts only after a second write to the same place was
// seen refused: a store that overwrites keeps no ledger. ErrPrecondition: another
// record has the place.
func (c *Chain) put(ctx context.Context, r Record) (Entry, error) {
	raw, err := r.encode()
	if err != nil {
		return Entry{}, err
	}
	r, err = decodeRecord(raw)
	if err != nil {
		return Entry{}, fmt.Errorf("the record would not be sound: %w", err)
	}
	e, err := c.write(ctx, Entry{Record: r, SHA256: hexSum(raw)}, raw)
	if errors.Is(err, store.ErrPrecondition) {
		return e, c.mine(ctx, r.Seq, raw)
	}
	if err != nil {
		return e, err
	}
	_, err = c.store.Put(ctx, Key(r.Seq), store.BytesBody(raw), store.Cond{Absent: true})
	switch {
	case err == nil:
		return e, errext.WithHint(errors.New("its store wrote a record twice although it had to be absent: no ledger can be kept there"),
			"use a store that honours conditional writes for run.ledger")
	case !errors.Is(err, store.ErrPrecondition):
		return e, fmt.Errorf("proving record %d: %w", r.Seq, err)
	}
	return e, c.mine(ctx, r.Seq, raw)
}

func (c *Chain) write(ctx context.Context, e Entry, raw []byte) (Entry, error) {
	key, body, absent := Key(e.Seq), store.BytesBody(raw), store.Cond{Absent: true}
	if r, ok := c.store.(store.Retainer); ok {
		until := time.Now().UTC().Add(Retention).Truncate(time.Second)
		_, err := r.PutRetained(ctx, key, body, absent, until)
		if !errors.Is(err, store.ErrNoRetention) {
			e.Anchored, e.Until = err == nil, until
			return e, err
		}
	}
	_, err := c.store.Put(ctx, key, body, absent)
	return e, err
}

// mine reads the place back. An answer that got lost makes a record of ours look
// like another's.
func (c *Chain) mine(ctx context.Context, seq uint64, want []byte) error {
	got, err := c.read(ctx, store.Object{Key: Key(seq)})
	if err != nil {
		return fmt.Errorf("reading record %d back: %w", seq, err)
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("record %d: %w", seq, store.ErrPrecondition)
	}
	return nil
}

// seqOf is the number that a key stands for.
func seqOf(key string) uint64 {
	n, _ := strconv.ParseUint(key[:10], 10, 64)
	return n
}
