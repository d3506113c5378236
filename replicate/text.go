package replicate

import (
	"fmt"
	"io"
	"strings"
)

// WriteText writes the plan for people: a paragraph a region, with every file
// that is copied or deleted and why.
func (p Plan) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "release %.12s of %s\n", p.Release, p.Service)
	for _, r := range p.Regions {
		r.text(&b, p.origin(r))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// origin names where a region's files come from.
func (p Plan) origin(r RegionPlan) string {
	if rank(r) == 0 {
		return "their sources"
	}
	return p.Regions[0].Region
}

func (r RegionPlan) text(b *strings.Builder, from string) {
	fmt.Fprintf(b, "\n%s (%s)\n", r.Region, r.Role)
	if r.Blocked != "" {
		fmt.Fprintf(b, "  nothing is done: %s\n", r.Blocked)
		return
	}
	for _, what := range r.Refused {
		fmt.Fprintf(b, "  refused  %s\n", what)
	}
	fmt.Fprintf(b, "  keep     %d files, %d bytes: there and proven\n", r.Keep, r.KeepBytes)
	if len(r.Copy) > 0 {
		fmt.Fprintf(b, "  copy     %d files, %d bytes, from %s, in about %d requests\n", len(r.Copy), r.Bytes, from, r.Requests)
	}
	for _, a := range r.Copy {
		fmt.Fprintf(b, "           %s (%s, %d bytes)\n", a.Subject, a.Reason, a.Bytes)
	}
	for _, key := range r.Delete {
		fmt.Fprintf(b, "  delete   %s (the release does not list it)\n", key)
	}
	switch {
	case !r.Publish:
		fmt.Fprintf(b, "  publish  nothing: CURRENT names this release already\n")
	case r.Replaces == "":
		fmt.Fprintf(b, "  publish  generation 1, the region's first, once the copy is verified\n")
	default:
		fmt.Fprintf(b, "  publish  generation %d in place of release %.12s, once the copy is verified\n", r.seen.Generation+1, r.Replaces)
	}
}
