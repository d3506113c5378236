// Package verify compares a copy with what it should be and says, for each
// file, the verdict and the evidence that it rests on.
//
// Release compares a region's copy with a manifest, Pair two places with each
// other. Both list first and then go only as deep as the level asks: presence
// compares sizes, checksum compares what the place says of its checksums (and
// reads the bytes where, as in a directory, nothing is said), content reads
// every byte. A verdict is Match only with at least the required evidence.
//
// A Result holds only when something was compared, every verdict is Match and
// no error was met. Errors that concern one object do not stop the others.
package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"drkit/internal/errext"
	"drkit/internal/progress"
	"drkit/internal/store"
)

// Schema names the format of the JSON report.
const Schema = "drkit.verify/1.0"

// Level says how deep a comparison goes.
type Level string

// The levels.
const (
	Presence  Level = "presence" // names and sizes; never a match
	Checksum  Level = "checksum" // checksums that the places hold; read where they hold none
	ByContent Level = "content"  // every byte is read and hashed
)

// ParseLevel reads a level's name.
func ParseLevel(name string) (Level, error) {
	if l := Level(name); l == Presence || l == Checksum || l == ByContent {
		return l, nil
	}
	return "", errext.WithStatus(fmt.Errorf("unknown level %q: want presence, checksum or content", name), errext.Usage)
}

// Copy is one place to verify. Prefix is where the release lies in it:
// release.Prefix(service, id), or "" for a folder that holds only the release.
type Copy struct {
	Region string
	Store  store.Source
	Prefix string
	// Bare says that no manifest.json is expected there: a folder that was
	// restored, or a copy that is not published yet.
	Bare bool
}

// Options changes how deep Release and Pair look. The zero value is level
// checksum with evidence claimed.
type Options struct {
	Level    Level
	Require  store.Evidence // the least evidence of a match; 0 is store.Claimed
	Workers  int            // objects hashed at once; 0: one a core, and more while answers are awaited
	Progress progress.Progress

	// Shard leaves all but one part of the work to others; see Merge.
	Shard Shard
	// Sample reads some objects, chosen by chance, and judges the others at level
	// checksum, which is then the Result's level.
	Sample Sample
	// State remembers proofs and gives those of an interrupted verification.
	State *State

	// Known holds checksums from elsewhere by full key of the copy (of the second
	// place in Pair). Each counts only for the state of the object that it names.
	Known map[string]Known
	// Resolve names the ways that may be taken where the checksums do not suffice:
	// ByRead, ByCopy (through Resolver), ByBatch (its results are Known).
	Resolve  []string
	Resolver Resolver
	// Accept lists what the user takes although it proves nothing. It never
	// becomes a match; Result counts it apart.
	Accept []Acceptance
	// Original opens the right bytes of a subject where they are at hand, so that
	// they can be hashed in the parts in which a copy was uploaded. Nil, or
	// store.ErrNotFound: not at hand.
	Original func(ctx context.Context, subject string) (io.ReadCloser, error)
	// Blocks holds checksums of a subject's successive blocks, to name the range
	// of bytes that differs.
	Blocks map[string][]store.Piece
	// Published says that the manifest was read from the source's store: a copy's
	// manifest.json must then be the same to the byte, annotations too.
	Published bool

	flights int           // objects judged at once: most of the time is spent waiting for answers
	relist  bool          // the places are listed again however short it was
	slots   chan struct{} // one of them is held while a large object is read
}

func (o Options) complete() (Options, error) {
	if o.Level == "" {
		o.Level = Checksum
	}
	if _, err := ParseLevel(string(o.Level)); err != nil {
		return o, err
	}
	if o.Require == store.None {
		o.Require = store.Claimed
	}
	if o.Require < store.Claimed || o.Require > store.Content {
		return o, errext.WithHint(errext.WithStatus(fmt.Errorf("evidence %q cannot be required", o.Require), errext.Usage),
			"a match rests on a checksum at least: require claimed, recomputed or content")
	}
	if err := o.checkResolve(); err != nil {
		return o, err
	}
	if err := o.Shard.check(); err != nil {
		return o, err
	}
	if !o.Sample.IsZero() {
		if o.Level == Presence {
			return o, errext.WithHint(errext.WithStatus(errors.New("a sample is no use at level presence"), errext.Usage), "the objects outside a sample are judged at level checksum")
		}
		o.Level = Checksum
	}
	o.flights = o.Workers
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
		o.flights = o.Workers * waiting
	}
	o.slots = make(chan struct{}, o.Workers)
	return o, nil
}

// ObjectError says why one object, or one part of a place, could not be judged.
type ObjectError struct {
	Subject string // empty when it concerns the place
	Key     string
	Err     error
}

func (e ObjectError) Error() string { return e.Err.Error() }
func (e ObjectError) Unwrap() error { return e.Err }

// errorJSON is an ObjectError in a report.
type errorJSON struct {
	Subject string `json:"subject,omitempty"`
	Key     string `json:"key,omitempty"`
	Error   string `json:"error"`
	Hint    string `json:"hint,omitempty"`
	Status  int    `json:"status,omitempty"`  // the exit status, unless it is 1
	Changed bool   `json:"changed,omitempty"` // the object changed while it was verified
	Absent  bool   `json:"absent,omitempty"`  // the object, or the place, is not there
}

// MarshalJSON writes the error as text, with its hint.
func (e ObjectError) MarshalJSON() ([]byte, error) {
	j := errorJSON{Subject: e.Subject, Key: e.Key, Error: e.Err.Error(), Hint: errext.Hint(e.Err), Changed: errors.Is(e.Err, errChanged), Absent: errors.Is(e.Err, store.ErrNotFound)}
	if s := errext.StatusOf(e.Err); s != errext.Failed {
		j.Status = int(s)
	}
	return json.Marshal(j)
}

// UnmarshalJSON reads what MarshalJSON wrote, for Merge and for replicate.
func (e *ObjectError) UnmarshalJSON(data []byte) error {
	var j errorJSON
	if err := strictJSON(data, &j); err != nil {
		return err
	}
	if j.Error == "" {
		return errors.New("an error without a text")
	}
	*e = ObjectError{Subject: j.Subject, Key: j.Key, Err: errors.New(j.Error)}
	switch {
	case j.Changed:
		e.Err = readError{j.Error, errChanged}
	case j.Absent:
		e.Err = readError{j.Error, store.ErrNotFound}
	}
	if j.Hint != "" {
		e.Err = errext.WithHint(e.Err, j.Hint)
	}
	if j.Status != 0 {
		e.Err = errext.WithStatus(e.Err, errext.Status(j.Status))
	}
	return nil
}

// readError is an error that was read back, and what it is.
type readError struct {
	text string
	is   error
}

func (e readError) Error() string { return e.text }
func (e readError) Unwrap() error { return e.is }

// Result is what one comparison found.
type Result struct {
	Service, Release, Region string // of a release; empty for two places
	Level                    Level
	Require                  store.Evidence
	Gaps                     []Gap // one a subject, sorted by subject: the matches too
	Errors                   []ObjectError
	Compared                 int      // subjects that should be there and got a verdict
	BytesRead                int64    // by drkit, on all sides
	Notes                    []string // what a reader should know, and what is no fault of the copy

	Source   string   // the other place, when two are compared
	Shard    Shard    // the part that was looked at; zero: everything
	Sample   *Sampled // what was read by chance; nil: no sample was asked for
	Resumed  Resumed
	Age      *Age     // how far the copy is behind its source; nil: not asked
	Subjects int      // units of work in this shard
	Total    int      // units of work in all shards
	Unasked  int      // of Subjects, those not asked for because the place gave nothing
	Failed   []string // of Subjects, those without a verdict because of an error
	Expected string
	Listing  string // digests over what should be there and what was seen to be there
	Began    time.Time
	Ended    time.Time
}

// Resumed counts what was taken over from an interrupted verification.
type Resumed struct {
	Objects int       `json:"objects"`
	Since   time.Time `json:"since,omitzero"` // when the first of them was compared
}

// Count returns how many subjects got a verdict.
func (r Result) Count(v Verdict) int {
	n := 0
	for _, g := range r.Gaps {
		if g.Verdict == v {
			n++
		}
	}
	return n
}

// CountEvidence returns how many matches rest on an evidence.
func (r Result) CountEvidence(e store.Evidence) int {
	n := 0
	for _, g := range r.Gaps {
		if g.Verdict == Match && g.Evidence == e {
			n++
		}
	}
	return n
}

// Open returns the gaps that are no match.
func (r Result) Open() []Gap {
	return slices.DeleteFunc(slices.Clone(r.Gaps), func(g Gap) bool { return g.Verdict == Match })
}

// Holds reports whether everything was compared and matches.
func (r Result) Holds() bool { return r.Status() == errext.Holds }

// Reasons lists every status that applies, as in errext.Combine.
func (r Result) Reasons() []errext.Status {
	var all []errext.Status
	nothing := r.Compared == 0 && len(r.Errors) == 0 && (r.Shard.IsZero() || r.Subjects > 0) // more shards than objects leave some empty
	if nothing || slices.ContainsFunc(r.Gaps, func(g Gap) bool { return g.fails(r.Require) }) {
		all = append(all, errext.Gate)
	}
	for _, e := range r.Errors {
		if s := errext.StatusOf(e.Err); !slices.Contains(all, s) && s != errext.Holds {
			all = append(all, s)
		}
	}
	if unjudged := len(r.Failed) > 0 || r.Unasked > 0; (len(r.Errors) > 0 || unjudged) && len(all) == 0 {
		all = append(all, errext.Failed)
	}
	return all
}

// Status is the exit status: Gate when anything is no match or nothing was
// compared, Failed when only errors stand in the way.
func (r Result) Status() errext.Status { return errext.Combine(r.Reasons()...) }

// Err is nil when the result holds; otherwise it says in a line what does not.
func (r Result) Err() error {
	if r.Holds() {
		return nil
	}
	what := "two places"
	if r.Release != "" {
		what = fmt.Sprintf("release %.12s of %s in %s", r.Release, r.Service, r.Region)
	}
	return errext.WithStatus(fmt.Errorf("%s does not hold: %s", what, r.tally()), r.Status())
}

// tally counts what is not a match, and names the first of it.
func (r Result) tally() string {
	if r.Compared == 0 && len(r.Errors) == 0 && len(r.Gaps) == 0 {
		return "nothing was compared"
	}
	var parts []string
	for _, v := range []Verdict{Missing, Diverged, Extra, NotComparable, Present} {
		if n := r.Count(v); n > 0 {
			i := slices.IndexFunc(r.Gaps, func(g Gap) bool { return g.Verdict == v })
			parts = append(parts, fmt.Sprintf("%d %s (%s)", n, v, example(r.Gaps[i].Subject, n)))
		}
	}
	if n := len(r.Errors); n > 0 {
		parts = append(parts, fmt.Sprintf("%d could not be read (%s)", n, example(r.Errors[0].Error(), n)))
	}
	return strings.Join(parts, ", ")
}

func example(first string, n int) string {
	if n > 1 {
		return first + ", …"
	}
	return first
}
