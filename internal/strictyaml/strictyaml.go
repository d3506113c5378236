// Package strictyaml reads YAML that people write, and says everything that is
// wrong with it in one go: each error with its line, the path of its key and,
// where one is known, what to do.
//
// Begin with Decode for a whole file. A reader that validates further keeps the
// Document, and its own complaints get lines as well:
//
//	doc := strictyaml.Parse(data, "drkit.yaml")
//	doc.Decode(&service)
//	if service.Name == "" {
//		doc.Report("metadata.name", "is empty", "")
//	}
//	return doc.Err()
//
// Only struct fields with a yaml tag are decoded. A second tag, strict, holds
// rules: "required", "enum=a|b", "min=0", "max=1"; min and max apply to numbers
// and durations, and all but required to each element of a list as well. Values
// of type time.Duration are written "30m"; types with UnmarshalText read their own text.
//
// The walk is over yaml.Node and not through yaml.v3's decoder, which hides a
// mapping's other errors behind one duplicate key and forgets strictness inside
// custom types. Aliases are followed, unless they contain themselves or expand
// to more than a bounded number of values; merge keys and custom tags are refused.
package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"drkit/internal/errext"
)

// Limits that keep hostile input bounded; files that people write stay far below.
const (
	maxBytes  = 1 << 20 // of a file
	maxValues = 50_000  // visited, aliases expanded
	maxDepth  = 100     // mappings and lists inside each other
	maxErrors = 1000    // listed; such a file is not one that somebody wrote
)

// Document is one parsed file, the lines of what was decoded from it, and what
// is wrong with it so far.
type Document struct {
	file   string
	root   *yaml.Node // nil when the file could not be parsed
	places map[string]place
	errs   []Error
	cut    bool // the walk was ended: there were too many values
}

// place is where a value stands, and its text when it is a scalar.
type place struct {
	line int
	text string
}

// Decode reads data strictly into out, a pointer to a struct. The error, if
// any, holds *Errors with everything that is wrong, and the status errext.Usage.
func Decode(data []byte, file string, out any) error {
	d := Parse(data, file)
	d.Decode(out)
	return d.Err()
}

// DecodeNode reads a node that Decode left as a yaml.Node strictly into out.
// Path is the node's place in the file, such as "steps[2].with". The zero node,
// a key that was not written, decodes as an empty mapping.
func DecodeNode(n *yaml.Node, file, path string, out any) error {
	d := &Document{file: file, places: map[string]place{}}
	if n.Kind == 0 {
		n = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: n.Line}
	}
	d.root = n
	d.decode(n, out, path)
	return d.Err()
}

// Parse reads the syntax alone. Its errors are kept for Err.
func Parse(data []byte, file string) *Document {
	d := &Document{file: file, places: map[string]place{}}
	if e, bad := badBytes(data); bad {
		d.errs = append(d.errs, e)
		return d
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		d.add(Error{Line: 1, What: "the file is empty"})
	case err != nil:
		d.errs = append(d.errs, syntaxError(data, err))
	default:
		d.root = doc.Content[0]
		d.refuseMore(dec, data)
	}
	return d
}

// refuseMore reports a second document, or what is malformed after the first.
func (d *Document) refuseMore(dec *yaml.Decoder, data []byte) {
	var next yaml.Node
	err := dec.Decode(&next)
	if errors.Is(err, io.EOF) {
		return
	}
	e := Error{Line: next.Line, What: "a second YAML document begins here", Hint: "keep one document in a file"}
	if err != nil && !strings.Contains(err.Error(), "<document start>") {
		e = syntaxError(data, err)
	} else if err != nil {
		e.Line = syntaxError(data, err).Line
	}
	d.errs = append(d.errs, e)
}

// Decode reads the document strictly into out, a pointer to a struct. Errors are
// kept for Err; what could be decoded is in out all the same.
func (d *Document) Decode(out any) {
	if d.root != nil {
		d.decode(d.root, out, "")
	}
}

// Scalar returns the text of a top-level key, read before anything is decoded:
// a file's apiVersion decides how the rest is read.
func (d *Document) Scalar(key string) (text string, found bool) {
	if d.root == nil || d.root.Kind != yaml.MappingNode {
		return "", false
	}
	for i := 0; i+1 < len(d.root.Content); i += 2 {
		k, v := d.root.Content[i], d.root.Content[i+1]
		if k.Value == key && v.Kind == yaml.ScalarNode {
			d.places[key] = place{v.Line, v.Value}
			return v.Value, true
		}
	}
	return "", false
}

// Has reports whether the path was written in the file: "regions[0].layout".
func (d *Document) Has(path string) bool { return d.places[path].line > 0 }

// Text is the scalar at path as it was written, without quotes; "" for none.
func (d *Document) Text(path string) string { return d.places[path].text }

// Line is the line of the path, or of the nearest enclosing path that was
// written; 0 when the file holds none of them.
func (d *Document) Line(path string) int {
	for ; path != ""; path = parent(path) {
		if n := d.places[path].line; n > 0 {
			return n
		}
	}
	if d.root != nil {
		return d.root.Line
	}
	return 0
}

// Paths yields every path that was decoded, with its line, in the order of the file.
func (d *Document) Paths() iter.Seq2[string, int] {
	return func(yield func(string, int) bool) {
		for _, p := range slices.SortedFunc(maps.Keys(d.places), d.byLine) {
			if !yield(p, d.places[p].line) {
				return
			}
		}
	}
}

func (d *Document) byLine(a, b string) int {
	if n := d.places[a].line - d.places[b].line; n != 0 {
		return n
	}
	return strings.Compare(a, b)
}

// Report adds an error about the value at path; its line is looked up.
func (d *Document) Report(path, what, hint string) {
	d.add(Error{Line: d.Line(path), Path: path, What: what, Hint: hint})
}

// Reportf is Report without a hint, formatted.
func (d *Document) Reportf(path, format string, args ...any) {
	d.Report(path, fmt.Sprintf(format, args...), "")
}

// Join adds the errors of a part of this file that was decoded by its owner, as
// DecodeNode returns them; nil adds nothing.
func (d *Document) Join(err error) {
	if err == nil {
		return
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, part := range joined.Unwrap() {
			d.Join(part)
		}
		return
	}
	var part *Errors
	if !errors.As(err, &part) {
		d.add(Error{What: err.Error(), Hint: errext.Hint(err)})
		return
	}
	for _, e := range part.List {
		d.add(e)
	}
}

// Faulty reports whether something is wrong at path or beneath it, so that a
// check which rests on it can stay silent.
func (d *Document) Faulty(path string) bool {
	return slices.ContainsFunc(d.errs, func(e Error) bool {
		rest, ok := strings.CutPrefix(e.Path, path)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

// Readable reports whether all of the file could be walked, so that checks of
// what was decoded mean something. Ask after Decode.
func (d *Document) Readable() bool { return d.root != nil && !d.cut && !d.tooMany() }

// Err returns everything that is wrong, by line, as an error with the status
// errext.Usage that holds *Errors; nil when nothing is.
func (d *Document) Err() error { return newErrors(d.file, d.errs) }

func (d *Document) add(e Error) {
	switch {
	case len(d.errs) < maxErrors:
		d.errs = append(d.errs, e)
	case !d.tooMany():
		d.errs = append(d.errs, Error{Line: e.Line, What: fmt.Sprintf("there are more than %d errors: the rest is not listed", maxErrors)})
	}
}

// tooMany reports whether errors are no longer listed.
func (d *Document) tooMany() bool { return len(d.errs) > maxErrors }

// parent cuts the last element off a path: "a.b[2]" → "a.b" → "a" → "".
func parent(path string) string {
	if strings.HasSuffix(path, `"]`) { // a quoted key may hold anything
		return path[:max(strings.LastIndex(path, `["`), 0)]
	}
	return path[:max(strings.LastIndexAny(path, ".["), 0)]
}
