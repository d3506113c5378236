package rules

import (
	"slices"

	"drkit/manifest"
)

var regionRules = []Rule{
	{"R-1", manifest.Block, "a file is tied to another region",
		"A region's files name no registry, bucket, endpoint, role or cloud region of another one, and files of every region none of the source.", tiedToRegion},
}

// tiedToRegion blocks where a target could not start at all: its image cannot be
// pulled, or no node fits. Whether the other names are used on the way to the
// first answer, the file alone does not say.
func tiedToRegion(v *view) []manifest.Finding {
	out := v.lockProblems(manifest.Block, "name the image in the target's own registry, in a file of that region", manifest.KindRegionImage)
	for i := range out {
		out[i].Seen = "ImagePullBackOff"
	}
	pinned := v.lockProblems(manifest.Block, "select nodes by what every region has, or give each region a file of its own", manifest.KindRegionTopology)
	for i := range pinned {
		pinned[i].Seen = "0/… nodes are available: … node(s) didn't match Pod's node affinity/selector"
	}
	out = append(out, pinned...)
	for _, p := range v.m.Annotations.Problems {
		if p.Kind == manifest.KindRegionName {
			out = append(out, manifest.Finding{Severity: manifest.Degraded, Part: string(p.Part), Path: place(p), Line: p.Line, Message: p.What,
				Hint: "name the region's own in a file of that region, or waive this rule for the file where it is meant"})
		}
	}
	return out
}

// allows reports whether a difference between two regions is meant: an option of
// the engine, or a kind of difference, that one of them lists.
func (v *view) allows(option string, regions ...string) bool {
	for _, r := range v.m.Annotations.Regions {
		if slices.Contains(regions, r.Name) && (slices.Contains(r.Allowed, option) || slices.Contains(r.Allowed, "engine-option")) {
			return true
		}
	}
	return false
}
