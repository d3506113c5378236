package diff

import (
	"path"
	"strings"

	"drkit/manifest"
)

// files lists what differs by bytes.
func (c *comparison) files() {
	c.byPath = map[string][]Difference{}
	for _, d := range c.result.Differences {
		at := string(d.Part) + "/" + d.Path
		c.byPath[at] = append(c.byPath[at], d)
	}
	gone := map[string]*manifest.File{} // by digest
	for _, p := range c.pairs {
		if p.to == nil {
			gone[p.from.Sums["sha256"]] = p.from
		}
	}
	renamed := map[*manifest.File]bool{}
	for _, p := range c.pairs {
		if p.from == nil {
			if old := gone[p.to.Sums["sha256"]]; old != nil && !renamed[old] && p.to.Size > 0 && old.Part == p.to.Part {
				renamed[old] = true
				c.file(pair{old, p.to}, Renamed)
			} else {
				c.file(p, Added)
			}
		}
	}
	for _, p := range c.pairs {
		switch {
		case p.from != nil && p.to != nil && sameBytes(p.from, p.to):
			c.result.Equal++
		case p.changed():
			c.file(p, Changed)
		case p.to == nil && !renamed[p.from]:
			c.file(p, Removed)
		}
	}
}

func (c *comparison) file(p pair, change string) {
	one := p.either()
	f := File{Severity: severityOf(one, change), Change: change, Part: one.Part, Region: one.Region, Path: one.Path, Role: one.Role,
		From: bytesOf(p.from), To: bytesOf(p.to)}
	switch change {
	case Renamed:
		f.Severity = worse(severityOf(p.from, Removed), severityOf(p.to, Added))
		f.Message = "was " + p.from.Path
	case Changed:
		f.Severity, f.Message = c.explain(p, f.Severity)
		f.whole = c.read[p.to.Subject()] || isOptions(p.to) && c.judged()
	}
	if change != Changed && (c.sameTemplate && c.onlyTemplate(p) || isOptions(one) && c.sameEngines()) {
		f.Severity = manifest.Info
	}
	c.result.Files = append(c.result.Files, f)
}

// onlyTemplate reports whether a file that came or went is the place from which
// or to which an equal chat template moved.
func (c *comparison) onlyTemplate(p pair) bool {
	one := p.either()
	return (p.from == nil || p.to == nil) && path.Ext(one.Path) == ".jinja" && (one.Path == "base/"+c.from.templateAt() || one.Path == "base/"+c.to.templateAt())
}

func bytesOf(f *manifest.File) *Bytes {
	if f == nil {
		return nil
	}
	return &Bytes{Path: f.Path, Size: f.Size, SHA256: f.Sums["sha256"]}
}

// explain judges a changed file by the differences that were found in it, where
// they are known to be all; else by what a file of its role can do.
func (c *comparison) explain(p pair, otherwise manifest.Severity) (manifest.Severity, string) {
	told := c.told(p.to)
	switch {
	case c.asOptions(p.to) && told == "" && !c.sameEngines():
		return otherwise, ""
	case c.read[p.to.Subject()] && told == "":
		return manifest.Info, "the same values, written otherwise"
	case c.read[p.to.Subject()]:
		return told, ""
	case isOptions(p.to) && c.sameEngines():
		return manifest.Info, "the engine's options are the same"
	case isOptions(p.to) && c.judged() && told != "":
		return told, "" // what the engine makes of it is all that it does
	case told != "" || otherwise == manifest.Info:
		return worse(otherwise, told), ""
	case p.to.Role == manifest.Weights || path.Ext(p.to.Path) == ".safetensors":
		if c.sameTensors(p) {
			return otherwise, "the same tensors, types and shapes: other values"
		}
		return otherwise, ""
	}
	return otherwise, "no fact that was read from it differs; only its bytes say so"
}

// told is the gravest of the differences that were found in a file; "" for none.
func (c *comparison) told(f *manifest.File) (gravest manifest.Severity) {
	for _, d := range c.byPath[string(f.Part)+"/"+f.Path] {
		if d.Region == f.Region || d.Region == "" || f.Region == "" {
			gravest = worse(gravest, d.Severity)
		}
	}
	return gravest
}

// allowed judges a changed file, of which everything that differs is known, by
// what of that is not allowed. It returns the entry that covers all of it, if any.
func (r *Result) allowed(f *File) string {
	if !f.whole {
		return ""
	}
	entry, left := "", manifest.Severity("")
	for _, d := range r.Differences {
		switch {
		case d.Part != f.Part || d.Path != f.Path:
		case d.Allowed != "":
			entry = d.Allowed
		default:
			left = worse(left, d.Severity)
		}
	}
	if left != "" && entry != "" {
		f.Severity, entry = left, ""
	}
	return entry
}

// matches reports whether an entry names a file: as part/path, with the patterns
// of path.Match, or a folder as part/path/**.
func matches(entry string, part manifest.Part, p string) bool {
	full := string(part) + "/" + p
	if folder, ok := strings.CutSuffix(entry, "/**"); ok {
		return strings.HasPrefix(full, folder+"/")
	}
	ok, err := path.Match(entry, full)
	return err == nil && ok
}
