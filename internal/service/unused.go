package service

import (
	"fmt"
	"regexp"

	"drkit/internal/strictyaml"
)

// Note says that something in the file has no effect in this version.
type Note struct {
	Line int
	Path string // "regions[1].capacity"
	Text string
}

// unused is everything that decodes and that nothing in this version uses. An
// entry goes when the part that uses it is built. Is narrows the entry to one
// value; a mapping or list is named once, without what is inside it.
var unused = []struct{ path, is, text string }{
	{path: "metadata.tier", text: "kept for reports of several services"},
	{path: "regions[].layout", is: "in-place", text: "releases are kept in the drkit layout"},
	{path: "regions[].model_prefix", text: "releases are kept in the drkit layout"},
	{path: "regions[].capacity", text: "capacity is not checked: no run claims full-capacity"},
	{path: "rehearsal.source", is: "endpoints", text: "a rehearsal starts from a canary of the source's copy"},
	{path: "objectives.must_prove[]", is: "full-capacity", text: "no run of this version proves it: every drill will be incomplete"},
}

var index = regexp.MustCompile(`\[\d+\]`)

// findUnused lists the entries of the table that the file writes.
func findUnused(doc *strictyaml.Document) (notes []Note) {
	for path, line := range doc.Paths() {
		for _, u := range unused {
			if index.ReplaceAllString(path, "[]") == u.path && (u.is == "" || doc.Text(path) == u.is) {
				notes = append(notes, Note{line, path, fmt.Sprintf("has no effect in this version: %s", u.text)})
			}
		}
	}
	return notes
}
