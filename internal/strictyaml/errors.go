package strictyaml

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"drkit/internal/errext"
)

// Error is one thing that is wrong with a file.
type Error struct {
	Line int    // from 1; 0: not known
	Path string // of the key: "regions[1].store"; "" for the file as a whole
	What string // "is not a duration"
	Hint string // what to do about it, or ""
}

// String is the error without the file's name.
func (e Error) String() string {
	var b strings.Builder
	if e.Line > 0 {
		fmt.Fprintf(&b, "line %d: ", e.Line)
	}
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	b.WriteString(e.What)
	if e.Hint != "" {
		b.WriteString(" (" + e.Hint + ")")
	}
	return b.String()
}

// Errors is everything that is wrong with a file, by line.
type Errors struct {
	File string
	List []Error
}

// Error lists all of it, one a line.
func (e *Errors) Error() string {
	if len(e.List) == 1 {
		return e.File + ": " + e.List[0].String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d errors", e.File, len(e.List))
	for _, one := range e.List {
		b.WriteString("\n  " + one.String())
	}
	return b.String()
}

// newErrors sorts by line and drops repetitions, which come from a mistake that
// several aliases show.
func newErrors(file string, list []Error) error {
	if len(list) == 0 {
		return nil
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b Error) int { return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Path, b.Path)) })
	seen := map[Error]bool{}
	list = slices.DeleteFunc(list, func(e Error) bool {
		key := Error{Line: e.Line, Path: lastKey(e.Path), What: e.What}
		repeated := e.Line > 0 && seen[key]
		seen[key] = true
		return repeated
	})
	return errext.WithStatus(&Errors{File: file, List: list}, errext.Usage)
}

// lastKey is the last element of a path.
func lastKey(path string) string { return path[len(parent(path)):] }
