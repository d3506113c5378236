// Package report writes what verification found, as text for a person and as
// JSON for programs. It judges nothing: every word comes from a verify.Result.
package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/verify"
)

// verdicts in the order in which they are told, gravest first.
var verdicts = []verify.Verdict{verify.Missing, verify.Diverged, verify.Extra, verify.NotComparable, verify.Present, verify.Match}

var evidence = []store.Evidence{store.Content, store.Recomputed, store.Claimed}

// Text writes each result: a line that says what was compared and on what
// evidence, then whatever does not hold, then what to do next.
func Text(w io.Writer, results ...verify.Result) error {
	var b strings.Builder
	if len(results) == 0 {
		fmt.Fprintln(&b, "nothing was compared")
	}
	for _, r := range results {
		summary(&b, r)
		table(&b, r)
	}
	if next := next(results); next != "" {
		fmt.Fprintf(&b, "\nnext: %s\n", next)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func summary(b *strings.Builder, r verify.Result) {
	verdict := "holds"
	if !r.Holds() {
		verdict = "DOES NOT HOLD"
	}
	fmt.Fprintf(b, "%s: %s: %s\n", title(r), verdict, tally(r))
	if r.Level == verify.Presence {
		fmt.Fprintln(b, "presence only: nothing was compared by checksum")
	}
}

func title(r verify.Result) string {
	switch {
	case r.Release != "" && r.Region != "":
		return fmt.Sprintf("%s, release %.12s of %s", r.Region, r.Release, r.Service)
	case r.Release != "":
		return fmt.Sprintf("release %.12s of %s", r.Release, r.Service)
	case r.Region != "":
		return r.Region
	}
	return "two places"
}

func tally(r verify.Result) string {
	match := r.Count(verify.Match)
	parts := []string{fmt.Sprintf("%d of %d compared match", match, r.Compared)}
	var on []string
	for _, e := range evidence {
		if n := r.CountEvidence(e); n > 0 {
			on = append(on, fmt.Sprintf("%d on %s", n, e))
		}
	}
	if len(on) > 0 {
		parts[0] += " (" + strings.Join(on, ", ") + ")"
	}
	for _, v := range verdicts {
		if n := r.Count(v); n > 0 && v != verify.Match {
			parts = append(parts, fmt.Sprintf("%d %s", n, v))
		}
	}
	if n := len(r.Errors); n > 0 {
		parts = append(parts, fmt.Sprintf("%d with errors", n))
	}
	if r.Compared == 0 {
		parts = append(parts, "nothing was compared")
	}
	return strings.Join(append(parts, bytes(r.BytesRead)+" read"), ", ")
}

// table lists the gaps that are no match, gravest first, and the errors.
func table(b *strings.Builder, r verify.Result) {
	open := r.Open()
	slices.SortStableFunc(open, func(a, c verify.Gap) int {
		return cmp.Compare(slices.Index(verdicts, a.Verdict), slices.Index(verdicts, c.Verdict))
	})
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, g := range open {
		fmt.Fprintf(t, "  %s\t%s\t%s\n", g.Verdict, printable(g.Subject), printable(g.Why))
	}
	for _, e := range r.Errors {
		fmt.Fprintf(t, "  error\t%s\t%s\n", printable(cmp.Or(e.Subject, "(the place)")), printable(e.Error()))
	}
	t.Flush()
}

// printable keeps a name with control characters from writing to the terminal.
func printable(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) || r == '\ufffd' }) {
		return fmt.Sprintf("%q", s)
	}
	return s
}

// next says what mends the first thing that does not hold.
func next(results []verify.Result) string {
	count := func(vs ...verify.Verdict) (n int) {
		for _, r := range results {
			for _, v := range vs {
				n += r.Count(v)
			}
		}
		return n
	}
	release := slices.ContainsFunc(results, func(r verify.Result) bool { return r.Release != "" })
	for _, r := range results {
		for _, e := range r.Errors {
			if hint := errext.Hint(e.Err); hint != "" {
				return hint
			}
		}
	}
	switch {
	case count(verify.Extra) > 0 && count(verify.Missing, verify.Diverged) > 0 && release:
		return "look at what is extra; drkit replicate --delete-extra removes it and copies what is missing or diverged"
	case count(verify.Missing, verify.Diverged) > 0 && release:
		return "drkit replicate copies what is missing or diverged, and verifies again"
	case count(verify.Missing, verify.Diverged) > 0:
		return "copy what is missing or diverged, and verify again"
	case count(verify.Extra) > 0:
		return "remove what is extra, or build a release that lists it"
	case count(verify.NotComparable, verify.Present) > 0:
		return "drkit verify --level content reads the bytes"
	}
	return ""
}

// bytes writes a size for people, in powers of ten.
func bytes(n int64) string {
	for _, u := range []struct {
		size int64
		name string
	}{{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}} {
		if n >= u.size {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(u.size), u.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}

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
	Level     verify.Level           `json:"level"`
	Require   store.Evidence         `json:"require"`
	Holds     bool                   `json:"holds"`
	Status    int                    `json:"status"`
	Compared  int                    `json:"compared"`
	BytesRead int64                  `json:"bytes_read"`
	Verdicts  map[verify.Verdict]int `json:"verdicts"` // all of them, 0 too
	Evidence  map[string]int         `json:"evidence"` // of the matches
	Gaps      []verify.Gap           `json:"gaps"`
	Errors    []verify.ObjectError   `json:"errors"`
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
	c := Copy{Service: r.Service, Release: r.Release, Region: r.Region, Level: r.Level, Require: r.Require,
		Holds: r.Holds(), Status: int(r.Status()), Compared: r.Compared, BytesRead: r.BytesRead,
		Verdicts: map[verify.Verdict]int{}, Evidence: map[string]int{},
		Gaps: append([]verify.Gap{}, r.Gaps...), Errors: append([]verify.ObjectError{}, r.Errors...)}
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
