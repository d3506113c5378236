package report

import (
	"fmt"
	"strings"
	"time"

	"drkit/internal/store"
	"drkit/verify"
)

// Facts are sentences that say what was compared, what the verdicts rest on and
// how to raise that, and whatever limits them: a shard, a sample, proofs that were
// taken over, the age of the copy.
func Facts(r verify.Result) []string {
	facts := []string{compared(r)}
	if text := rests(r); text != "" {
		facts = append(facts, text)
	}
	if text := raise(r); text != "" {
		facts = append(facts, "to raise it: "+text)
	}
	if !r.Shard.IsZero() {
		facts = append(facts, fmt.Sprintf("this is shard %s, %d of %d objects: of the others it says nothing, until drkit verify merge puts all shards together", r.Shard, r.Subjects, r.Total))
	}
	switch {
	case r.Sample == nil:
	case allRead(r):
		facts = append(facts, "directories hold no checksums: every object whose name and size agree was read in full, the sample saves nothing")
	default:
		facts = append(facts, r.Sample.Claim())
	}
	if n := r.Resumed.Objects; n > 0 {
		facts = append(facts, fmt.Sprintf("taken over from an interrupted verification: %d, the first compared at %s; each object's state is what it was then", n, r.Resumed.Since.Format(time.RFC3339)))
	}
	facts = append(facts, age(r.Age)...)
	return append(facts, r.Notes...)
}

// allRead says that every verdict rests on the bytes, or on another name or size,
// though only a sample was asked for: a directory is always read.
func allRead(r verify.Result) bool {
	if len(r.Errors) > 0 || r.Sample.Read >= r.Sample.Objects {
		return false
	}
	read := 0
	for _, g := range r.Gaps {
		switch {
		case g.IsImage() || g.Verdict == verify.Missing || g.Verdict == verify.Extra || g.Verdict == verify.Diverged && g.Evidence == store.Size:
		case g.Evidence == store.Content:
			read++
		default:
			return false
		}
	}
	return read > 0
}

func compared(r verify.Result) string {
	what := "every object of the one place with the other"
	switch {
	case r.Release != "":
		what = "every file of the release's manifest with the copy"
	case r.Source != "":
		what = "every file in " + r.Source + " with " + r.Region
	}
	if r.Level == verify.Presence {
		return "compared: " + what + ", at level presence: names and sizes only, nothing was compared by checksum"
	}
	return fmt.Sprintf("compared: %s, at level %s; a match needs evidence %s", what, r.Level, r.Require)
}

// meanings say what each evidence of a match is worth.
var meanings = map[store.Evidence]string{
	store.Content:    "drkit read the bytes",
	store.Recomputed: "the store hashed the bytes at rest",
	store.Claimed:    "checksums stored at upload: damage since then does not show",
}

func rests(r verify.Result) string {
	var parts []string
	for _, e := range evidence {
		if n := r.CountEvidence(e); n > 0 {
			parts = append(parts, fmt.Sprintf("%s for %d (%s)", e, n, meanings[e]))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "evidence: " + strings.Join(parts, "; ")
}

// raise says how the evidence of what is less than content could be raised.
func raise(r verify.Result) string {
	var n int
	var size int64
	for _, g := range r.Gaps {
		if g.IsImage() && g.Verdict == verify.NotComparable {
			continue // reading does not tell which image should be there
		}
		if g.Verdict != verify.Extra && g.Verdict != verify.Missing && g.Verdict != verify.Diverged && g.Evidence < store.Content {
			n++
			size += g.GotSize
		}
	}
	switch {
	case n == 0:
		return ""
	case r.Level == verify.Presence:
		return fmt.Sprintf("--level checksum compares checksums, --level content reads %s", byteCount(size))
	}
	return fmt.Sprintf("--level content reads the bytes of %d more (%s); --sample reads some of them", n, byteCount(size))
}

// Raise says how the evidence of one gap could be raised, "" where there is nothing
// to raise.
func Raise(g verify.Gap) string {
	switch {
	case g.Verdict == verify.Missing || g.Verdict == verify.Extra || g.Evidence == store.Content:
		return ""
	case g.IsImage() && g.Verdict == verify.NotComparable:
		return g.Hint
	case g.Verdict == verify.Diverged && g.Evidence == store.Size:
		return "" // other sizes need no further proof
	case len(g.Resolve) > 0:
		return fmt.Sprintf("raise its evidence with --level content, or with --resolve %s for such objects alone", strings.Join(g.Resolve, " or "))
	}
	return "raise its evidence with --level content"
}

// age tells how far behind a copy is, and what is not known of that.
func age(a *verify.Age) []string {
	if a == nil {
		return nil
	}
	var parts []string
	switch {
	case a.Seconds == nil:
		parts = append(parts, "whether it is behind, and how long, is not known")
	case *a.Seconds == 0 && a.Since.IsZero():
		parts = append(parts, "it is not behind")
	default:
		parts = append(parts, fmt.Sprintf("behind for %s, since %s", Duration(*a.Seconds), a.Since.Format(time.RFC3339)))
	}
	if a.Releases != nil && *a.Releases > 0 {
		parts = append(parts, fmt.Sprintf("releases behind: %d", *a.Releases))
	}
	if a.Missing != nil && *a.Missing > 0 {
		parts = append(parts, byteCount(*a.Missing)+" missing or different")
	}
	if a.Unproven != nil && *a.Unproven > 0 {
		parts = append(parts, byteCount(*a.Unproven)+" unproven")
	}
	text := "age of the copy: " + strings.Join(parts, ", ")
	if a.Basis != "" {
		text += " (basis: " + a.Basis + ")"
	}
	facts := []string{text}
	if len(a.Why) > 0 {
		facts = append(facts, "not known of its age: "+strings.Join(a.Why, "; "))
	}
	return facts
}

// Duration writes seconds for people, in two units at most.
func Duration(seconds float64) string {
	s := int64(seconds)
	for _, u := range []struct {
		size  int64
		name  string
		below int64
		small string
	}{{86400, "d", 3600, "h"}, {3600, "h", 60, "min"}, {60, "min", 1, "s"}} {
		if s >= u.size {
			return fmt.Sprintf("%d %s %d %s", s/u.size, u.name, s%u.size/u.below, u.small)
		}
	}
	return fmt.Sprintf("%d s", s)
}
