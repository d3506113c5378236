package verify

import "drkit/internal/store"

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
	Resolve  []string       `json:"resolve,omitempty"` // copy, batch, read
}
