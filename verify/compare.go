package verify

import (
	"cmp"
	"fmt"
	"slices"

	"drkit/internal/store"
	"drkit/manifest/digest"
)

// comparison is what two sides of equally long files say together.
type comparison struct {
	differ   bool           // a checksum proves other bytes
	evidence store.Evidence // of the best equal pair, or of the differing one; None without
	equal    store.Evidence // of the best equal pair, also when another differs
	doubt    bool           // an ETag differs, which proves nothing
	unlike   string         // why checksums of parts could not be compared
	why      string
	ranges   []Range
}

// statement is a checksum that a side makes of the whole file.
type statement struct {
	store.Sum
	combined bool // from the checksums of the parts
}

// compareSides compares all that two sides say. One checksum that differs
// outweighs any that are equal: a place that contradicts itself is not trusted.
// A pair is worth the weaker of its two sides.
func compareSides(want, got *side) comparison {
	var c comparison
	ws, gs := want.statements(), got.statements()
	for _, w := range ws {
		for _, g := range gs {
			if w.Algorithm == g.Algorithm {
				c.add(w, g)
			}
		}
	}
	c.composites(want, got)
	for _, side := range [][]statement{ws, gs} {
		if why := contradiction(side); why != "" && !c.differ {
			c.differ, c.evidence, c.why = true, store.Claimed, why
		}
	}
	if c.differ {
		c.ranges = differing(want.object.Parts, got.object.Parts, got.object.Size)
	}
	return c
}

// statements are the checksums of the whole file, said or combined.
func (s *side) statements() []statement {
	all := make([]statement, 0, len(s.sums)+1)
	for _, sum := range s.sums {
		if sum.Parts == 0 && sum.Hex != "" {
			all = append(all, statement{Sum: sum})
		}
	}
	if len(s.object.Parts) > 0 {
		for _, sum := range combined(s.object.Parts, s.object.Size, s.sums) {
			all = append(all, statement{sum, true})
		}
	}
	return all
}

// add takes one more pair into account.
func (c *comparison) add(want, got statement) {
	e := min(want.Evidence, got.Evidence)
	switch equal := want.Hex == got.Hex; {
	case equal:
		c.same(e)
	case want.EqualityOnly || got.EqualityOnly:
		c.doubt = true
	case !c.differ || e > c.evidence || (e == c.evidence && got.Algorithm == digest.SHA256):
		c.differ, c.evidence = true, e
		c.why = fmt.Sprintf("%s is %s, want %s", got.Algorithm, got.Hex, want.Hex)
		if got.combined {
			c.why = fmt.Sprintf("%s, combined from its parts, is %s, want %s", got.Algorithm, got.Hex, want.Hex)
		}
	}
}

// same takes an equal pair into account.
func (c *comparison) same(e store.Evidence) {
	c.equal = max(c.equal, e)
	if !c.differ {
		c.evidence = c.equal
	}
}

// composites compares checksums of checksums of parts. Equal ones of equally
// many parts prove equal parts. Different ones prove something only where the
// parts are known to have the same sizes: the same bytes cut elsewhere give
// others.
func (c *comparison) composites(want, got *side) {
	ws, gs := want.composites(), got.composites()
	layout := sameLayout(want.object.Parts, got.object.Parts)
	for _, g := range gs {
		for _, w := range ws {
			if w.Algorithm == g.Algorithm {
				c.composite(w, g, layout)
			}
		}
		if c.unlike == "" && len(got.object.Parts) == 0 {
			c.unlike = fmt.Sprintf("its %s is one of %d parts, whose sizes are not told", g.Algorithm, g.Parts)
		}
	}
}

// layoutOf says what is known of two layouts.
type layout int

const (
	layoutUnknown layout = iota
	layoutSame
	layoutOther
)

func sameLayout(a, b []store.Piece) layout {
	switch {
	case len(a) == 0 || len(b) == 0:
		return layoutUnknown
	case slices.EqualFunc(a, b, func(p, q store.Piece) bool { return p.Size == q.Size }):
		return layoutSame
	}
	return layoutOther
}

func (c *comparison) composite(want, got store.Sum, l layout) {
	equal := want.Parts == got.Parts && want.Hex == got.Hex
	switch {
	case want.Parts != got.Parts || l == layoutOther:
		c.unlike = cmp.Or(c.unlike, fmt.Sprintf("%s is one of parts, whose sizes differ (%d parts and %d)", got.Algorithm, want.Parts, got.Parts))
	case equal:
		c.same(min(want.Evidence, got.Evidence))
	case l == layoutUnknown:
		c.unlike = cmp.Or(c.unlike, fmt.Sprintf("%s is one of parts, whose sizes are not told", got.Algorithm))
	case want.EqualityOnly || got.EqualityOnly:
		c.doubt = true
	case !c.differ:
		c.differ, c.evidence = true, min(want.Evidence, got.Evidence)
		c.why = fmt.Sprintf("%s of its %d parts is %s, want %s", got.Algorithm, got.Parts, got.Hex, want.Hex)
	}
}

// contradiction finds two checksums of one algorithm over the whole that differ.
func contradiction(all []statement) string {
	for i, a := range all {
		for _, b := range all[:i] {
			if a.Algorithm == b.Algorithm && a.Hex != b.Hex && !a.EqualityOnly && !b.EqualityOnly {
				return fmt.Sprintf("the place says two different %s of it: %s and %s", a.Algorithm, b.Hex, a.Hex)
			}
		}
	}
	return ""
}

// sumsOf turns digests into sums that rest on an evidence.
func sumsOf(set digest.Set, e store.Evidence) []store.Sum {
	sums := make([]store.Sum, 0, len(set))
	for _, a := range set.Algorithms() {
		sums = append(sums, store.Sum{Digest: digest.Digest{Algorithm: a, Hex: set[a]}, Evidence: e})
	}
	return sums
}

// algorithms says by which algorithms to hash what is to be compared with the
// statements of the other side: by SHA-256 alone when it has that, or nothing;
// else by every one that it has.
func algorithms(said []statement) []string {
	var all []string
	for _, s := range said {
		if s.Algorithm == digest.SHA256 && !s.EqualityOnly {
			return []string{digest.SHA256}
		}
		all = append(all, s.Algorithm)
	}
	if len(all) == 0 {
		return []string{digest.SHA256}
	}
	return all
}
