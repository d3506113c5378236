package rules

import (
	"fmt"
	"path"
	"strings"
	"time"

	"drkit/manifest"
)

// Apply marks the findings that a waiver covers: by rule, by path, or by both
// when it names both. A waiver's path may be a path.Match pattern. A waiver that
// has expired by now covers nothing, and the finding's hint says so.
func Apply(findings []manifest.Finding, waivers []manifest.Waiver, now time.Time) []manifest.Finding {
	out := make([]manifest.Finding, len(findings))
	for i, f := range findings {
		for _, w := range waivers {
			if f.Waived != "" || !covers(w, f) {
				continue
			}
			day := w.Expires.Format(time.DateOnly)
			if now.Before(w.Expires) {
				f.Waived = fmt.Sprintf("%s until %s: %s", w.Owner, day, w.Reason)
				continue
			}
			f.Hint = strings.TrimSpace(fmt.Sprintf("%s (the waiver of %s expired on %s)", f.Hint, w.Owner, day))
		}
		out[i] = f
	}
	return out
}

func covers(w manifest.Waiver, f manifest.Finding) bool {
	if w.Rule == "" && w.Path == "" {
		return false
	}
	if w.Rule != "" && w.Rule != f.Rule {
		return false
	}
	if w.Path == "" || w.Path == f.Path || w.Path == f.Part+"/"+f.Path {
		return true
	}
	whole, _ := path.Match(w.Path, f.Part+"/"+f.Path)
	inner, _ := path.Match(w.Path, f.Path)
	return whole || inner
}

// Fails reports whether any finding that is not waived fails the gate.
func Fails(findings []manifest.Finding, strict bool) bool {
	for _, f := range findings {
		if f.Waived == "" && f.Severity.FailsGate(strict) {
			return true
		}
	}
	return false
}

// anchor is the HTML anchor of a rule's section in docs/rules.md.
func anchor(id string) string { return strings.ReplaceAll(strings.ToLower(id), ".", "") }
