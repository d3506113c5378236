package rules

import (
	"fmt"

	"drkit/manifest"
)

var probeRules = []Rule{
	{"B-1", manifest.Request, "recorded probes are not this release's",
		"Recorded probes can be read, and were recorded from this model with this engine configuration.", otherSubject},
}

func otherSubject(v *view) (out []manifest.Finding) {
	const hint = "record them anew with drkit probe record against a replica that is known to be right"
	for _, p := range v.m.Annotations.Problems {
		if p.Kind == manifest.KindProbes {
			out = append(out, manifest.Finding{Part: string(p.Part), Path: place(p), Line: p.Line, Message: "the probes cannot be read: " + p.What, Hint: hint})
		}
	}
	want := manifest.SubjectOf(v.m)
	for _, p := range v.m.Annotations.Probes {
		if p.Subject != want {
			out = append(out, manifest.Finding{Part: string(manifest.Engine), Path: place(manifest.Problem{Region: p.Region, Path: p.Path}), Field: "subject",
				Message: fmt.Sprintf("the %d probes were recorded from another model or engine configuration (%.19s…) than this release's (%.19s…): they say nothing about it", p.Count, p.Subject, want),
				Hint:    "first see what changed: drkit manifest diff, against the published release. If it was meant, " + hint})
		}
	}
	return out
}
