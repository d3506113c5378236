package rules

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"drkit/manifest"
)

var numbered = regexp.MustCompile(`^(.+)-(\d{5})-of-(\d{5})\.(safetensors|bin|gguf)$`)

// family is what the numbered names of one set of files have in common.
type family struct{ prefix, total, ending string }

func (f family) name(i int) string {
	return fmt.Sprintf("%s-%05d-of-%s.%s", f.prefix, i, f.total, f.ending)
}

// incompleteFamily is a family with the members that it lacks.
type incompleteFamily struct {
	family
	total   int
	missing []string
	loaded  bool // the engine reads it
}

// incompleteFamilies lists the families that lack members, in every folder of
// the repository, by name. Members that the index names are W-2's.
func (r *repo) incompleteFamilies() []incompleteFamily { return r.gaps }

func (r *repo) findFamilies() (out []incompleteFamily) {
	loaded := map[family]bool{}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(r.files)), slices.Collect(maps.Keys(r.problems))) {
		if m := numbered.FindStringSubmatch(name); m != nil {
			f := family{m[1], m[3], m[4]}
			loaded[f] = loaded[f] || r.loaded[name] || m[4] == "gguf" && r.ggufOnly()
		}
	}
	named := r.missingOfIndex()
	for f, read := range loaded {
		total, _ := strconv.Atoi(f.total)
		inc := incompleteFamily{family: f, total: total, loaded: read}
		for i := 1; i <= total && len(inc.missing) < maxMissing; i++ {
			if name := f.name(i); !r.present(name) && !slices.Contains(named, name) {
				inc.missing = append(inc.missing, name)
			}
		}
		if len(inc.missing) > 0 && !r.leftOfIndex(inc) {
			out = append(out, inc)
		}
	}
	slices.SortFunc(out, func(a, b incompleteFamily) int { return strings.Compare(a.missing[0], b.missing[0]) })
	return out
}

// leftOfIndex reports whether an index stands and names no file of the family:
// then its files are left-overs that nothing reads.
func (r *repo) leftOfIndex(f incompleteFamily) bool {
	return !f.loaded && r.facts.Weights.Index != nil && !strings.Contains(f.prefix, "/")
}

// missingOfFamily lists the members that the families which the engine reads lack.
func (r *repo) missingOfFamily() (out []string) {
	for _, f := range r.incompleteFamilies() {
		if f.loaded {
			out = append(out, f.missing...)
		}
	}
	slices.Sort(out)
	return out
}

// maxMissing bounds the files that are listed as missing from one set.
const maxMissing = 1000

func missingNumber(v *view) (out []manifest.Finding) {
	for _, r := range v.repos {
		for _, f := range r.incompleteFamilies() {
			out = append(out, r.familyFinding(f))
		}
	}
	return out
}

func (r *repo) familyFinding(f incompleteFamily) manifest.Finding {
	index := "no index is there that would tell"
	if r.facts.Weights.Index != nil {
		index = "the index does not say so"
	}
	out := manifest.Finding{Severity: r.lost(true), Path: r.path(f.missing[0]),
		Message: fmt.Sprintf("%d of %d missing (%s): the files are numbered, and %s%s", len(f.missing), f.total, few(f.missing), index, r.almost(f.missing[0])),
		Seen:    "Following weights were not initialized from checkpoint: {…}",
		Hint:    "copy the shard and the index from the model's origin"}
	switch {
	case !f.loaded:
		out.Severity, out.Seen = manifest.Degraded, "" // the engine does not read this folder
	case f.ending == "gguf":
		out.Severity, out.Seen = manifest.Block, "FileNotFoundError"
	case out.Severity == manifest.Silent:
		out.Seen = "" // a quantized model boots without a word
	}
	return out
}

// few lists the base names of up to five files.
func few(files []string) string {
	var names []string
	for _, f := range files[:min(5, len(files))] {
		names = append(names, path.Base(f))
	}
	if len(files) > 5 {
		names = append(names, fmt.Sprintf("and %d more", len(files)-5))
	}
	return strings.Join(names, ", ")
}
