package diff

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"drkit/manifest"
	"drkit/manifest/model"
)

// tensorsOf joins the tensors of all shards.
func tensorsOf(f *model.Facts) map[string]model.Tensor {
	all := map[string]model.Tensor{}
	if f != nil {
		for _, s := range f.Weights.Shards {
			maps.Copy(all, s.Tensors)
		}
	}
	return all
}

// group is tensors that differ in the same way.
type group struct {
	from, to any
	what     string // "dtype BF16 → F32"
	names    []string
	severity manifest.Severity
}

// tensors compares names, types and shapes, and tells of tensors that differ in
// the same way at once.
func (c *comparison) tensors(root string, from, to map[string]model.Tensor) {
	groups := map[string]*group{}
	add := func(name string, g group) {
		if groups[g.what] == nil {
			groups[g.what] = &g
		}
		groups[g.what].names = append(groups[g.what].names, name)
	}
	names := slices.Sorted(maps.Keys(from))
	for n := range to {
		if _, both := from[n]; !both {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	for _, n := range names {
		x, had := from[n]
		y, has := to[n]
		switch {
		case !has:
			add(n, group{what: "gone", severity: manifest.Block})
		case !had:
			add(n, group{what: "new", severity: manifest.Silent})
		case x.DType != y.DType:
			add(n, group{what: fmt.Sprintf("dtype %s → %s", x.DType, y.DType), from: x.DType, to: y.DType, severity: manifest.Silent})
		case !slices.Equal(x.Shape, y.Shape):
			add(n, group{what: fmt.Sprintf("shape %v → %v", x.Shape, y.Shape), from: x.Shape, to: y.Shape, severity: manifest.Block})
		}
	}
	for _, what := range slices.Sorted(maps.Keys(groups)) {
		c.add(groups[what].difference(root))
	}
}

const namedTensors = 3

func (g *group) difference(root string) Difference {
	d := Difference{Severity: g.severity, Kind: KindTensors, Part: manifest.Model, Path: root, Field: g.names[0], From: g.from, To: g.to}
	noun, list := "tensor ", strings.Join(g.names[:min(namedTensors, len(g.names))], ", ")
	if n := len(g.names); n > 1 {
		noun = fmt.Sprintf("%d tensors ", n)
	}
	if len(g.names) > namedTensors {
		list += ", …"
	}
	switch g.what {
	case "gone":
		d.From, d.Message = len(g.names), noun+"gone: "+list
	case "new":
		d.To, d.Message = len(g.names), noun+"new: "+list
	default:
		if d.Message = noun + g.what + ": " + list; len(g.names) == 1 {
			d.Message = noun + list + " " + g.what
		}
	}
	return d
}

// sameTensors reports whether a weight file's header says the same on both sides,
// where both could be read.
func (c *comparison) sameTensors(p pair) bool {
	x, y := c.from.shard(p.from.Path), c.to.shard(p.to.Path)
	same := func(a, b model.Tensor) bool { return a.DType == b.DType && slices.Equal(a.Shape, b.Shape) }
	return x != nil && y != nil && maps.EqualFunc(x, y, same)
}

// shard is what the header of a weight file says, nil where it could not be read.
func (s Side) shard(p string) map[string]model.Tensor {
	a := s.Manifest.Annotations
	for _, one := range a.Adapters {
		if p == "adapters/"+one.Name+"/"+one.Weights {
			return one.Tensors
		}
	}
	roots := map[string]*model.Facts{"base/": a.Model}
	for _, d := range a.Drafts {
		roots["drafts/"+d.Name+"/"] = d.Facts
	}
	for _, f := range a.Further {
		roots["repos/"+f.Name+"/"] = f.Facts
	}
	for root, facts := range roots {
		name, ok := strings.CutPrefix(p, root)
		if !ok || facts == nil {
			continue
		}
		for _, shard := range facts.Weights.Shards {
			if shard.Path == name {
				return shard.Tensors
			}
		}
	}
	return nil
}
