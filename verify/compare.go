package verify

import (
	"fmt"

	"drkit/internal/store"
	"drkit/manifest/digest"
)

// comparison is what two lists of checksums of equally long files say together.
type comparison struct {
	differ   bool           // a full-object checksum proves other bytes
	evidence store.Evidence // of the best equal pair, or of the differing one; None without
	doubt    bool           // an ETag differs, which proves nothing
	why      string
}

// compareSums compares full-object checksums of every algorithm that both lists
// hold. One that differs outweighs any that are equal: a place that contradicts
// itself is not trusted. A pair is worth the weaker of its two sides.
func compareSums(want, got []store.Sum) comparison {
	var c comparison
	for _, w := range want {
		for _, g := range got {
			if related(w, g) {
				c.add(w, g, min(w.Evidence, g.Evidence))
			}
		}
	}
	for _, side := range [][]store.Sum{want, got} {
		if why := contradiction(side); why != "" && !c.differ {
			c = comparison{differ: true, evidence: store.Claimed, why: why}
		}
	}
	return c
}

// add takes one more pair into account.
func (c *comparison) add(want, got store.Sum, e store.Evidence) {
	switch equal := want.Hex == got.Hex; {
	case !equal && (want.EqualityOnly || got.EqualityOnly):
		c.doubt = true
	case equal && !c.differ:
		c.evidence = max(c.evidence, e)
	case !equal && (!c.differ || e > c.evidence || (e == c.evidence && got.Algorithm == digest.SHA256)):
		c.differ, c.evidence = true, e
		c.why = fmt.Sprintf("%s is %s, want %s", got.Algorithm, got.Hex, want.Hex)
	}
}

// related reports whether two sums say something about each other: checksums
// of whole objects by one algorithm, both said.
func related(a, b store.Sum) bool {
	return a.Algorithm == b.Algorithm && a.Parts == 0 && b.Parts == 0 && a.Hex != "" && b.Hex != ""
}

// contradiction finds two full-object checksums of one algorithm that differ.
func contradiction(sums []store.Sum) string {
	seen := map[string]string{}
	for _, s := range sums {
		if s.Parts != 0 || s.EqualityOnly || s.Hex == "" {
			continue
		}
		if other, ok := seen[s.Algorithm]; ok && other != s.Hex {
			return fmt.Sprintf("the place says two different %s of it: %s and %s", s.Algorithm, other, s.Hex)
		}
		seen[s.Algorithm] = s.Hex
	}
	return ""
}

// sumsOf turns digests into sums that rest on an evidence.
func sumsOf(set digest.Set, e store.Evidence) []store.Sum {
	var sums []store.Sum
	for _, a := range set.Algorithms() {
		sums = append(sums, store.Sum{Digest: digest.Digest{Algorithm: a, Hex: set[a]}, Evidence: e})
	}
	return sums
}

// algorithms says by which algorithms to hash what is to be compared with sums:
// SHA-256 alone when they have it, or when there are none because both sides
// are read; else every one that they have.
func algorithms(sums []store.Sum) []string {
	all := []string{digest.SHA256}
	for _, s := range sums {
		if s.Parts != 0 || s.Hex == "" {
			continue
		}
		if s.Algorithm == digest.SHA256 && !s.EqualityOnly {
			return all[:1]
		}
		all = append(all, s.Algorithm)
	}
	return all
}
