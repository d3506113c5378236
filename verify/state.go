package verify

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"drkit/internal/errext"
	"drkit/internal/store"
)

// StateSchema names the format of the file that an interrupted verification leaves.
const StateSchema = "drkit.verify.state/1.0"

// ProofAge is how long a proof counts for the verification that goes on from it:
// what was read longer ago may have rotten since.
const ProofAge = 12 * time.Hour

// racy is how much older than the reading a file's last change must be: within the
// clock's grain a second write would not show.
const racy = 2 * time.Second

// StateKey says which verification a State belongs to. Proofs of another one are
// never taken over.
type StateKey struct {
	Service string         `json:"service,omitempty"`
	Release string         `json:"release,omitempty"`
	Region  string         `json:"region,omitempty"`
	Place   string         `json:"place,omitempty"` // where the copy lies
	Source  string         `json:"source,omitempty"`
	Level   Level          `json:"level"`
	Require store.Evidence `json:"require"`
}

// Proof is one match with the state of the objects for which it was found.
type Proof struct {
	Subject  string         `json:"subject"`
	Want     Identity       `json:"want,omitzero"` // of the other place's object, or a list's digest as its version; none for a release, whose id pins it
	Got      Identity       `json:"got"`
	WantSize int64          `json:"want_size"`
	Evidence store.Evidence `json:"evidence"`
	At       time.Time      `json:"at"` // when the comparison began
}

// State remembers what a verification has proven, so that one that was interrupted
// need not read it again. A proof is taken over only for an object whose Identity
// is still the same, on evidence no weaker than now asked for, and for ProofAge at
// most. A nil State remembers nothing.
type State struct {
	key StateKey

	mu     sync.Mutex
	proofs map[string]Proof
	w      io.Writer
	err    error
}

// NewState is an empty state of a verification.
func NewState(key StateKey) *State { return &State{key: key, proofs: map[string]Proof{}} }

type stateHeader struct {
	Schema string   `json:"schema"`
	Key    StateKey `json:"verification"`
}

// ErrOtherState is a state file of another verification.
var ErrOtherState = errors.New("it belongs to another verification")

// Load takes over the proofs that a file holds and that are not older than
// ProofAge. A line that was cut off when the writer was killed ends the file.
func (s *State) Load(r io.Reader, now time.Time) error {
	lines := bufio.NewReaderSize(io.LimitReader(r, 1<<30), 64<<10)
	line, err := lines.ReadBytes('\n')
	var h stateHeader
	if err != nil || strictJSON(line, &h) != nil || h.Schema != StateSchema {
		return errext.WithHint(fmt.Errorf("it is not the state of a verification (%s)", StateSchema), "name another file, or remove it to begin anew")
	}
	if h.Key != s.key {
		return errext.WithHint(fmt.Errorf("%w: of release %.12s in %q at level %s", ErrOtherState, h.Key.Release, h.Key.Region, h.Key.Level),
			"give every verification a file of its own, or remove it to begin anew")
	}
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return nil
		}
		var p Proof
		if strictJSON(line, &p) != nil || p.Subject == "" || p.Evidence < store.Claimed {
			return fmt.Errorf("it is damaged at %.60q", line)
		}
		if age := now.Sub(p.At); age >= 0 && age <= ProofAge {
			s.proofs[p.Subject] = p
		}
	}
}

// strictJSON decodes one value with no unknown fields.
func strictJSON(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	return dec.Decode(v)
}

// Record writes what is known so far to w in one write, and from then on every new proof as one
// line in one write: a killed process loses no more than what was in flight.
func (s *State) Record(w io.Writer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	if err := enc.Encode(stateHeader{StateSchema, s.key}); err != nil {
		return err
	}
	for _, p := range s.proofs {
		if err := enc.Encode(p); err != nil {
			return err
		}
	}
	s.w = w
	_, err := w.Write(b.Bytes())
	return err
}

// Len is how many proofs there are.
func (s *State) Len() int {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.proofs)
}

// Err is the first error of writing a proof; verification goes on without.
func (s *State) Err() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// known returns a proof that still counts.
func (s *State) known(subject string, want, got Identity, least store.Evidence) (Proof, bool) {
	if s == nil {
		return Proof{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.proofs[subject]
	return p, ok && p.Evidence >= least && p.Got.Same(got) && (p.Want == want || p.Want.Same(want))
}

// prove remembers a match, unless what it rests on could have changed unseen.
func (s *State) prove(p Proof) {
	if s == nil || !p.Got.Same(p.Got) || (p.Want != Identity{} && !p.Want.Same(p.Want)) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proofs[p.Subject] = p
	if s.w == nil || s.err != nil {
		return
	}
	line, err := json.Marshal(p)
	if err == nil {
		_, err = s.w.Write(append(line, '\n'))
	}
	s.err = err
}
