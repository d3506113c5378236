package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/verify"
)

// Document is the JSON report.
type Document struct {
	Schema  string   `json:"schema"`
	Status  int      `json:"status"`  // the exit status
	Reasons []string `json:"reasons"` // every status that applies
	Copies  []Copy   `json:"copies"`
}

// Copy is one result in the JSON report.
type Copy struct {
	Service   string                 `json:"service,omitempty"`
	Release   string                 `json:"release,omitempty"`
	Region    string                 `json:"region,omitempty"`
	Source    string                 `json:"source,omitempty"` // the other place, when two are compared
	Level     verify.Level           `json:"level"`
	Require   store.Evidence         `json:"require"`
	Holds     bool                   `json:"holds"`   // never of a shard, which says nothing of the others
	Partial   string                 `json:"partial"` // "": everything was looked at; "shard", "sample"
	Shard     verify.Shard           `json:"shard,omitzero"`
	Sample    *Sample                `json:"sample,omitempty"`
	Resumed   *verify.Resumed        `json:"resumed,omitempty"`
	Age       *verify.Age            `json:"age,omitempty"`
	Status    int                    `json:"status"`
	Compared  int                    `json:"compared"`
	Subjects  int                    `json:"subjects"` // that this was to compare
	Total     int                    `json:"total"`    // that all shards were to compare
	Unasked   int                    `json:"unasked,omitempty"`
	Failed    []string               `json:"failed,omitempty"` // subjects without a verdict because of an error
	BytesRead int64                  `json:"bytes_read"`
	Began     time.Time              `json:"began,omitzero"`
	Ended     time.Time              `json:"ended,omitzero"`
	Expected  string                 `json:"expected,omitempty"` // digest over what should be there
	Listing   string                 `json:"listing,omitempty"`  // digest over what was seen to be there
	Facts     []string               `json:"facts"`              // what the text says of evidence and limits
	Notes     []string               `json:"notes,omitempty"`
	Verdicts  map[verify.Verdict]int `json:"verdicts"` // all of them, 0 too
	Evidence  map[string]int         `json:"evidence"` // of the matches
	Accepted  int                    `json:"accepted,omitempty"`
	Gaps      []verify.Gap           `json:"gaps"`
	Errors    []verify.ObjectError   `json:"errors"`
}

// Sample is how a sample was drawn and what it shows.
type Sample struct {
	verify.Sampled
	// Confidence is the probability of finding a rotten object if 1 % of the
	// objects (of the bytes, by size) were rotten.
	Confidence float64 `json:"confidence_at_1_percent"`
}

// NewDocument arranges results for JSON.
func NewDocument(results ...verify.Result) Document {
	d := Document{Schema: verify.Schema, Reasons: []string{}, Copies: []Copy{}}
	var all []errext.Status
	if len(results) == 0 { // no comparison is no success
		all, d.Reasons = append(all, errext.Gate), append(d.Reasons, errext.Gate.String())
	}
	for _, r := range results {
		d.Copies = append(d.Copies, newCopy(r))
		for _, s := range r.Reasons() {
			if !slices.Contains(d.Reasons, s.String()) {
				d.Reasons = append(d.Reasons, s.String())
			}
			all = append(all, s)
		}
	}
	d.Status = int(errext.Combine(all...))
	return d
}

func newCopy(r verify.Result) Copy {
	c := Copy{Service: r.Service, Release: r.Release, Region: r.Region, Source: r.Source, Level: r.Level, Require: r.Require,
		Holds: r.Holds() && r.Shard.IsZero(), Shard: r.Shard, Age: r.Age, Status: int(r.Status()),
		Compared: r.Compared, Subjects: r.Subjects, Total: r.Total, Unasked: r.Unasked, Failed: r.Failed, BytesRead: r.BytesRead,
		Began: r.Began, Ended: r.Ended, Expected: r.Expected, Listing: r.Listing, Facts: Facts(r), Notes: r.Notes,
		Verdicts: map[verify.Verdict]int{}, Evidence: map[string]int{}, Accepted: accepted(r),
		Gaps: append([]verify.Gap{}, r.Gaps...), Errors: append([]verify.ObjectError{}, r.Errors...)}
	if r.Sample != nil {
		c.Partial, c.Sample = "sample", &Sample{*r.Sample, r.Sample.Confidence(0.01)}
	}
	if !r.Shard.IsZero() {
		c.Partial = "shard"
	}
	if r.Resumed.Objects > 0 {
		c.Resumed = &r.Resumed
	}
	for _, v := range verdicts {
		c.Verdicts[v] = r.Count(v)
	}
	for _, e := range evidence {
		c.Evidence[e.String()] = r.CountEvidence(e)
	}
	return c
}

// JSON writes the report for programs.
func JSON(w io.Writer, results ...verify.Result) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(NewDocument(results...))
}

// Decode reads a JSON report and returns the results in it. It refuses what drkit
// would not have written: unknown verdicts, counts that contradict the gaps, a
// match on less evidence than was required.
func Decode(data []byte) ([]verify.Result, error) {
	var d Document
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, unreadable(fmt.Errorf("it is not the JSON of a verification: %w", err))
	}
	if d.Schema != verify.Schema {
		return nil, unreadable(fmt.Errorf("its schema is %.60q, want %s", d.Schema, verify.Schema))
	}
	if len(d.Copies) == 0 {
		return nil, unreadable(errors.New("it has no result"))
	}
	var all []verify.Result
	for _, c := range d.Copies {
		r, err := c.result()
		if err != nil {
			return nil, unreadable(err)
		}
		all = append(all, r)
	}
	return all, nil
}

func unreadable(err error) error {
	return errext.WithHint(errext.WithStatus(err, errext.Usage), "name a file that drkit verify wrote with --result, --partial or --output json")
}

func (c Copy) result() (verify.Result, error) {
	r := verify.Result{Service: c.Service, Release: c.Release, Region: c.Region, Source: c.Source, Level: c.Level, Require: c.Require,
		Shard: c.Shard, Age: c.Age, Compared: c.Compared, Subjects: c.Subjects, Total: c.Total, Unasked: c.Unasked, Failed: c.Failed, BytesRead: c.BytesRead,
		Began: c.Began, Ended: c.Ended, Expected: c.Expected, Listing: c.Listing, Notes: c.Notes, Gaps: c.Gaps, Errors: c.Errors}
	if c.Sample != nil {
		r.Sample = &c.Sample.Sampled
	}
	if c.Resumed != nil {
		r.Resumed = *c.Resumed
	}
	return r, c.check(r)
}

// maxObjects is how many objects a verification is believed to have had.
const maxObjects = 1 << 24

// check compares what the document says with what its gaps give.
func (c Copy) check(r verify.Result) error {
	if _, err := verify.ParseLevel(string(c.Level)); err != nil {
		return err
	}
	if !c.Shard.IsZero() {
		if _, err := verify.ParseShard(c.Shard.String()); err != nil {
			return err
		}
	}
	if s := c.Sample; s != nil && (s.Objects < 0 || s.Objects > maxObjects || s.Read < 0 || s.Read > s.Draws || s.Draws > maxObjects) {
		return fmt.Errorf("its sample is of %d draws from %d objects", s.Draws, s.Objects)
	}
	subjects := map[string]bool{}
	compared := 0
	for _, g := range c.Gaps {
		switch {
		case g.Subject == "" || subjects[g.Subject]:
			return fmt.Errorf("it names the subject %q twice or not at all", g.Subject)
		case !slices.Contains(verdicts, g.Verdict):
			return fmt.Errorf("it gives %q the unknown verdict %q", g.Subject, g.Verdict)
		case g.Verdict == verify.Match && g.Evidence < max(c.Require, store.Claimed):
			return fmt.Errorf("it calls %q a match on evidence %s, and required was %s", g.Subject, g.Evidence, c.Require)
		}
		subjects[g.Subject] = true
		if g.Verdict != verify.Extra {
			compared++
		}
	}
	again := newCopy(r)
	if compared != c.Compared || again.Holds != c.Holds || again.Status != c.Status || again.Partial != c.Partial || again.Accepted != c.Accepted ||
		!maps.Equal(again.Verdicts, c.Verdicts) || !maps.Equal(again.Evidence, c.Evidence) {
		return fmt.Errorf("it contradicts itself about %s: its counts are not those of its %d gaps", strings.TrimSpace(c.Region+" "+c.Release), len(c.Gaps))
	}
	return nil
}
