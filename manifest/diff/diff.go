// Package diff compares two manifests, or one release's renderings for two
// regions, and says what the differences mean: first by what was read out of the
// files (a rope factor, an end token, a LoRA rank, an engine's option, a tensor's
// type), then by bytes (files added, removed, changed). It is pure: no file is
// read and nothing is asked for.
//
//	r := diff.Compare(diff.Side{Manifest: a}, diff.Side{Manifest: b})
//	if r.Matters(false) { … r.Differences … r.Files … }
//
// A manifest holds facts, not texts. With Side.Text the comparison goes down to
// the fields of JSON and YAML files and the lines of templates.
//
// The severity of a difference is the gravest that a difference of its kind is
// known to do to the engine and its answers: whether it does so in this release
// is for the rules to say.
package diff

import (
	"cmp"
	"slices"

	"drkit/manifest"
)

// Side is one of the two releases.
type Side struct {
	Manifest *manifest.Manifest
	// Region chooses what one region has: its own files and those of every region.
	// "" compares the whole release, files of all regions.
	Region string
	// Text returns the bytes of a file where they are at hand; false where not. It
	// must have checked them against the file's digests. nil: no bytes are at hand.
	Text func(manifest.File) ([]byte, bool)
}

// The kinds of differences.
const (
	KindField    = "field"         // of a configuration file, or a fact read from one
	KindTemplate = "chat-template" // its text or where it stands
	KindText     = "text"          // lines of a text file
	KindTensors  = "tensors"       // names, types, shapes or places of tensors
	KindModel    = "model"         // an adapter, draft or further repository that only one side has
	KindOption   = "engine-option"
	KindEngine   = "engine" // its kind, version, environment, or an engine that only one side has
	KindImage    = "image"
	KindPackage  = "package" // of a lockfile
	KindPod      = "pod"     // what a deploy file says of an engine's container
	KindOrigin   = "origin"  // the commit of a hub
	KindRegion   = "region"
)

// Difference is one thing that differs, by what it means.
type Difference struct {
	Severity manifest.Severity `json:"severity"`
	Kind     string            `json:"kind"`
	Part     manifest.Part     `json:"part"`
	Region   string            `json:"region,omitempty"`
	Path     string            `json:"path,omitempty"`  // the file that it was read from, where that is one file
	Field    string            `json:"field,omitempty"` // such as rope_scaling.factor
	From     any               `json:"from"`            // null: not there
	To       any               `json:"to"`
	Message  string            `json:"message"`
	Lines    []string          `json:"lines,omitempty"`   // the first lines that differ, with - and +
	Allowed  string            `json:"allowed,omitempty"` // the entry of allowed_differences that it is meant by
}

// The ways in which a file differs.
const (
	Added   = "added"
	Removed = "removed"
	Changed = "changed"
	Renamed = "renamed" // the same bytes under another path
)

// Bytes is what a file holds.
type Bytes struct {
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// File is one file that differs.
type File struct {
	Severity manifest.Severity `json:"severity"`
	Change   string            `json:"change"`
	Part     manifest.Part     `json:"part"`
	Region   string            `json:"region,omitempty"`
	Path     string            `json:"path"` // where To has it, else where From has it
	Role     manifest.Role     `json:"role"`
	From     *Bytes            `json:"from"` // null: not there
	To       *Bytes            `json:"to"`
	Message  string            `json:"message,omitempty"`
	Allowed  string            `json:"allowed,omitempty"`

	whole bool // the differences that name it are all that differs in it
}

// Result is everything that differs, gravest first.
type Result struct {
	Differences []Difference `json:"differences"`
	Files       []File       `json:"files"`
	Equal       int          `json:"files_equal"` // files with the same bytes on both sides
	// Unread are changed files, weights left aside, whose texts were not at hand: of
	// them the facts and the digest are compared, and no further field.
	Unread []string `json:"files_unread"`
}

// Matters reports whether something differs that can change whether the service
// starts or what it answers, and that is not allowed. With strict, what makes it
// slower or less accurate counts too.
func (r Result) Matters(strict bool) bool {
	return slices.ContainsFunc(r.Differences, func(d Difference) bool { return d.Allowed == "" && d.Severity.FailsGate(strict) }) ||
		slices.ContainsFunc(r.Files, func(f File) bool { return f.Allowed == "" && f.Severity.FailsGate(strict) })
}

// comparison is the working state of Compare.
type comparison struct {
	from, to Side
	pairs    []pair
	result   Result
	// read says of a changed file, by its path on the second side, that both texts
	// were compared as a whole: its differences are all that differs in it.
	read map[string]bool
	// sameTemplate says that the texts of the template that requests get are known
	// and equal: where it stands makes no difference.
	sameTemplate bool
	byPath       map[string][]Difference // once all differences are found
}

// Compare says how the second side differs from the first.
func Compare(from, to Side) Result {
	c := &comparison{from: from, to: to, read: map[string]bool{}, result: Result{Differences: []Difference{}, Files: []File{}, Unread: []string{}}}
	c.pair()
	c.template()
	c.engines()
	c.images()
	c.contents()
	c.models()
	c.records()
	c.files()
	c.sort()
	return c.result
}

func (c *comparison) add(d Difference) { c.result.Differences = append(c.result.Differences, d) }

// gravity orders severities, gravest first.
var gravity = map[manifest.Severity]int{manifest.Block: 0, manifest.Request: 1, manifest.Silent: 2, manifest.Degraded: 3, manifest.Info: 4}

var parts = map[manifest.Part]int{manifest.Model: 0, manifest.Engine: 1, manifest.Deploy: 2}

func (c *comparison) sort() {
	slices.SortStableFunc(c.result.Differences, func(x, y Difference) int {
		return cmp.Or(gravity[x.Severity]-gravity[y.Severity], parts[x.Part]-parts[y.Part], cmp.Compare(x.Path, y.Path), cmp.Compare(x.Region, y.Region),
			cmp.Compare(x.Field, y.Field), cmp.Compare(x.Message, y.Message))
	})
	slices.SortStableFunc(c.result.Files, func(x, y File) int {
		return cmp.Or(gravity[x.Severity]-gravity[y.Severity], parts[x.Part]-parts[y.Part], cmp.Compare(x.Path, y.Path), cmp.Compare(x.Region, y.Region))
	})
}

// worse is the graver of two severities; "" is none.
func worse(a, b manifest.Severity) manifest.Severity {
	if a == "" || b != "" && gravity[b] < gravity[a] {
		return b
	}
	return a
}

// Allow marks what is meant: an entry names a field (max_model_len,
// rope_scaling.factor), a kind (image, package), or a file as part/path; see
// docs/diff.md.
func (r *Result) Allow(entries []string) {
	for i := range r.Differences {
		d := &r.Differences[i]
		for _, e := range entries {
			if e == d.Field && d.Field != "" || e == d.Kind || d.Path != "" && matches(e, d.Part, d.Path) {
				d.Allowed = e
			}
		}
	}
	for i := range r.Files {
		f := &r.Files[i]
		for _, e := range entries {
			if matches(e, f.Part, f.Path) {
				f.Allowed = e
			}
		}
		if f.Allowed == "" {
			f.Allowed = r.allowed(f)
		}
	}
}
