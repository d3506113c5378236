package diff

import (
	"path"
	"regexp"
	"slices"

	"drkit/manifest"
)

// pair is a file on both sides; one of them is nil where only the other has it.
type pair struct{ from, to *manifest.File }

// either is the file, as the second side has it if it does.
func (p pair) either() *manifest.File {
	if p.to != nil {
		return p.to
	}
	return p.from
}

func (p pair) changed() bool { return p.from != nil && p.to != nil && !sameBytes(p.from, p.to) }

func sameBytes(a, b *manifest.File) bool {
	return a.Size == b.Size && a.Sums["sha256"] == b.Sums["sha256"]
}

// files are those that the side has.
func (s Side) files() (all []*manifest.File) {
	for i := range s.Manifest.Contents.Files {
		if f := &s.Manifest.Contents.Files[i]; s.Region == "" || f.Region == "" || f.Region == s.Region {
			all = append(all, f)
		}
	}
	return all
}

// key is what a file is found by on the other side.
func (s Side) key(f *manifest.File) string {
	if s.Region == "" {
		return f.Subject()
	}
	return string(f.Part) + "/" + s.neutral(f.Region, f.Path)
}

// neutral replaces the region's name in a path of the region's own: between two
// regions it stands for whichever region it is.
func (s Side) neutral(owner, p string) string {
	if s.Region == "" || owner != s.Region {
		return p
	}
	name := regexp.MustCompile(`(^|[^A-Za-z0-9])` + regexp.QuoteMeta(s.Region) + `($|[^A-Za-z0-9])`)
	return name.ReplaceAllString(p, "${1}{region}${2}")
}

// pair finds for each file its counterpart: by its path; for what is left of two
// regions' own files, by its name where only one file has it.
func (c *comparison) pair() {
	left := map[string]*manifest.File{}
	var order []string
	for _, f := range c.from.files() {
		left[c.from.key(f)] = f
		order = append(order, c.from.key(f))
	}
	var added []*manifest.File
	for _, f := range c.to.files() {
		if other, ok := left[c.to.key(f)]; ok {
			c.pairs = append(c.pairs, pair{other, f})
			delete(left, c.to.key(f))
		} else {
			added = append(added, f)
		}
	}
	for _, f := range added {
		p := pair{to: f}
		if key := c.byName(f, left, added); key != "" {
			p.from = left[key]
			delete(left, key)
		}
		c.pairs = append(c.pairs, p)
	}
	for _, key := range order {
		if f := left[key]; f != nil {
			c.pairs = append(c.pairs, pair{from: f})
		}
	}
}

func (c *comparison) byName(f *manifest.File, left map[string]*manifest.File, added []*manifest.File) string {
	if f.Region == "" || c.to.Region == "" {
		return ""
	}
	alike := func(g *manifest.File) bool {
		return g.Region != "" && g.Part == f.Part && g.Role == f.Role && path.Base(g.Path) == path.Base(f.Path)
	}
	var found []string
	for key, g := range left {
		if alike(g) {
			found = append(found, key)
		}
	}
	twins := slices.DeleteFunc(slices.Clone(added), func(g *manifest.File) bool { return !alike(g) })
	if len(found) == 1 && len(twins) == 1 {
		return found[0]
	}
	return ""
}

// texts are the bytes of both files of a pair.
func (c *comparison) texts(p pair) (from, to []byte, ok bool) {
	from, ok = c.from.text(p.from)
	if !ok {
		return nil, nil, false
	}
	to, ok = c.to.text(p.to)
	return from, to, ok
}

func (s Side) text(f *manifest.File) ([]byte, bool) {
	if f == nil || s.Text == nil {
		return nil, false
	}
	return s.Text(*f)
}

// file finds a file of the model part.
func (s Side) file(p string) *manifest.File {
	for _, f := range s.files() {
		if f.Part == manifest.Model && f.Path == p {
			return f
		}
	}
	return nil
}
