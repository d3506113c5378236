package verify

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"drkit/internal/errext"
	"drkit/internal/store"
)

// Verdict is what verification says about one file or image of a copy.
type Verdict string

// The verdicts. Only Match holds; Match needs the required evidence.
const (
	Match         Verdict = "match"
	Present       Verdict = "present"        // there, but on less evidence than required
	Diverged      Verdict = "diverged"       // other bytes
	Missing       Verdict = "missing"        // not there
	Extra         Verdict = "extra"          // there, though the release does not list it
	NotComparable Verdict = "not-comparable" // no common checksum
)

// Gap is the verdict on one subject (part/path, or a path when two places are
// compared without a release) with what it rests on.
type Gap struct {
	Region   string         `json:"region,omitempty"`
	Subject  string         `json:"subject"`
	Key      string         `json:"key,omitempty"` // where the store holds it
	Verdict  Verdict        `json:"verdict"`
	Evidence store.Evidence `json:"evidence"`
	Why      string         `json:"why,omitempty"`
	Want     []store.Sum    `json:"want,omitempty"`
	Got      []store.Sum    `json:"got,omitempty"`
	WantSize int64          `json:"want_size"`
	GotSize  int64          `json:"got_size"`
	Resolve  []string       `json:"resolve,omitempty"`  // copy, batch, read
	Ranges   []Range        `json:"ranges,omitempty"`   // where the bytes differ, as far as checksums tell
	Hint     string         `json:"hint,omitempty"`     // what to do about it
	Accepted bool           `json:"accepted,omitempty"` // the user takes it as it is; it is no match
	Seen     Identity       `json:"seen,omitzero"`      // the state of the object that the verdict is on
	Proven   time.Time      `json:"proven,omitzero"`    // taken over from an interrupted verification, which compared it then
}

// Range is the bytes of an object from From up to and without To.
type Range struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// String names the first and the last byte.
func (r Range) String() string { return fmt.Sprintf("bytes %d to %d", r.From, r.To-1) }

// fails reports whether the gap keeps the copy from holding.
func (g Gap) fails(require store.Evidence) bool {
	return !g.Accepted && (g.Verdict != Match || g.Evidence < require)
}

// Acceptance is what a user takes although it proves nothing.
type Acceptance struct {
	Verdict Verdict
	Subject string // "": of every subject
}

// ParseAcceptance reads "not-comparable", or "not-comparable:SUBJECT" for one
// subject. No other verdict can be accepted: the others say that something is
// wrong or that drkit was not asked to look.
func ParseAcceptance(text string) (Acceptance, error) {
	verdict, subject, named := strings.Cut(text, ":")
	if Verdict(verdict) != NotComparable || (named && subject == "") {
		return Acceptance{}, errext.WithHint(errext.WithStatus(fmt.Errorf("%q cannot be accepted", text), errext.Usage),
			"accept not-comparable for all objects, or not-comparable:PART/PATH for one")
	}
	return Acceptance{NotComparable, subject}, nil
}

// accept marks the gap when the user takes it as it is.
func (g *Gap) accept(all []Acceptance) {
	g.Accepted = slices.ContainsFunc(all, func(a Acceptance) bool {
		return g.Verdict == NotComparable && a.Verdict == g.Verdict && (a.Subject == "" || a.Subject == g.Subject)
	})
}
