// Package report writes what verification found, as text for a person, as JSON for
// programs, and as rows for the other forms; and reads the JSON back, for Merge and
// for replicate. It judges nothing: every word comes from a verify.Result.
package report

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/verify"
	"drkit/verify/batch"
)

// verdicts in the order in which they are told, gravest first.
var verdicts = []verify.Verdict{verify.Missing, verify.Diverged, verify.Extra, verify.NotComparable, verify.Present, verify.Match}

var evidence = []store.Evidence{store.Content, store.Recomputed, store.Claimed}

// maxLines is how many gaps and errors of one result the text lists. The other
// forms have all of them.
const maxLines = 1000

// Text writes each result: a line that says whether it holds, what was compared on
// what evidence and how to raise it, then whatever does not hold, then what to do
// next.
func Text(w io.Writer, results ...verify.Result) error {
	b := bufio.NewWriter(w)
	if len(results) == 0 {
		fmt.Fprintln(b, "nothing was compared")
	}
	for _, r := range results {
		fmt.Fprintf(b, "%s: %s: %s\n", title(r), strings.Replace(Verdict(r), "does not hold", "DOES NOT HOLD", 1), tally(r))
		for _, line := range Facts(r) {
			fmt.Fprintf(b, "  %s\n", printable(line))
		}
		table(b, r)
	}
	if next := next(results); next != "" {
		fmt.Fprintf(b, "\nnext: %s\n", next)
	}
	return b.Flush()
}

// Verdict is whether a result holds, in a few words.
func Verdict(r verify.Result) string {
	verdict := "does not hold"
	if r.Holds() {
		verdict = "holds"
		if n := accepted(r); n > 0 {
			verdict += fmt.Sprintf(" with %d accepted unproven", n)
		}
	}
	if !r.Shard.IsZero() {
		verdict = fmt.Sprintf("shard %s %s", r.Shard, verdict)
	}
	return verdict
}

func accepted(r verify.Result) (n int) {
	for _, g := range r.Gaps {
		if g.Accepted {
			n++
		}
	}
	return n
}

func title(r verify.Result) string {
	switch {
	case r.Release != "" && r.Region != "":
		return fmt.Sprintf("%s, release %.12s of %s", r.Region, r.Release, r.Service)
	case r.Release != "":
		return fmt.Sprintf("release %.12s of %s", r.Release, r.Service)
	case r.Source != "":
		return fmt.Sprintf("%s against %s", r.Region, r.Source)
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
	return strings.Join(append(parts, byteCount(r.BytesRead)+" read"), ", ")
}

// table lists the gaps that are no match, gravest first, and the errors.
func table(w io.Writer, r verify.Result) {
	open := r.Open()
	slices.SortStableFunc(open, func(a, c verify.Gap) int {
		return cmp.Compare(slices.Index(verdicts, a.Verdict), slices.Index(verdicts, c.Verdict))
	})
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, g := range open[:min(len(open), maxLines)] {
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\n", g.Verdict, printable(g.Subject), on(g), printable(g.Why))
	}
	for _, e := range r.Errors[:min(len(r.Errors), maxLines)] {
		fmt.Fprintf(t, "  error\t%s\t-\t%s\n", printable(cmp.Or(e.Subject, "(the place)")), printable(e.Error()))
	}
	t.Flush()
	if n := max(0, len(open)-maxLines) + max(0, len(r.Errors)-maxLines); n > 0 {
		fmt.Fprintf(w, "  … and %d more: --output json lists all\n", n)
	}
}

// on names the evidence of a gap, "-" where nothing was there to compare.
func on(g verify.Gap) string {
	if g.Evidence == store.None {
		return "-"
	}
	return g.Evidence.String()
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
			for _, g := range r.Gaps {
				if !g.IsImage() && slices.Contains(vs, g.Verdict) {
					n++
				}
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
	case count(verify.Extra) > 0 && release:
		return "remove what is extra, or build a release that lists it"
	case count(verify.Extra) > 0 && count(verify.Match, verify.NotComparable, verify.Present) == 0:
		return "nothing was found in the first place: check its name, and remove nothing before"
	case count(verify.Extra) > 0:
		return "look at what is extra: the first place does not hold it"
	case count(verify.NotComparable, verify.Present) > 0:
		return verifyCommand(results) + " --level content reads the bytes"
	}
	return nextImage(results)
}

// verifyCommand is what verified, so that it can be typed again: two places are named
// as they were given, a release comes from drkit.yaml.
func verifyCommand(results []verify.Result) string {
	for _, r := range results {
		if r.Release == "" && r.Source != "" && len(r.Open()) > 0 {
			return fmt.Sprintf("drkit verify %s %s", batch.Quote(r.Source), batch.Quote(r.Region))
		}
	}
	return "drkit verify"
}

// nextImage is what mends the first image that does not hold.
func nextImage(results []verify.Result) string {
	for _, r := range results {
		for _, g := range r.Open() {
			switch {
			case g.IsImage() && g.Hint != "":
				return g.Hint
			case g.IsImage() && g.Verdict == verify.Present:
				return "drkit verify --level content reads the images' layers"
			}
		}
	}
	return ""
}

// byteCount writes a size for people, in powers of ten.
func byteCount(n int64) string {
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
