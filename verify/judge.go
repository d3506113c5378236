package verify

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"drkit/internal/store"
)

// side is one of the two things that a verdict compares: a file as a manifest
// states it, or an object in a place.
type side struct {
	place  *place // nil for a manifest: its sums are all that is known
	object store.Object
	sums   []store.Sum
}

func placed(p *place, o store.Object) *side { return &side{place: p, object: o, sums: o.Sums} }

// ask adds what the place knows beyond its listing.
func (s *side) ask(ctx context.Context) error {
	if s.place == nil || s.place.claimless() {
		return nil
	}
	o, err := s.place.ask(ctx, s.object)
	if err == nil && len(o.Sums) > 0 {
		s.sums = o.Sums
	}
	return err
}

// read adds the digests of the bytes.
func (s *side) read(ctx context.Context, algorithms []string) error {
	sums, err := s.place.hash(ctx, s.object, algorithms)
	s.sums = slices.Concat(s.sums, sums)
	return err
}

// compare goes as deep as the level allows and as the verdict needs.
func compare(ctx context.Context, want, got *side, o Options) (comparison, error) {
	if o.Level == ByContent {
		return compareRead(ctx, want, got, true)
	}
	c := compareSums(want.sums, got.sums)
	if c.decides(o) {
		return c, nil
	}
	for _, s := range []*side{want, got} {
		if err := s.ask(ctx); err != nil {
			return c, err
		}
	}
	if c = compareSums(want.sums, got.sums); c.decides(o) {
		return c, nil
	}
	return compareRead(ctx, want, got, false)
}

// compareRead reads both sides, or without all only those in places that hold
// no claims.
func compareRead(ctx context.Context, want, got *side, all bool) (comparison, error) {
	var reading []*side
	var said []store.Sum // by the sides that are not read
	for _, s := range []*side{want, got} {
		if s.place != nil && (all || s.place.claimless()) {
			reading = append(reading, s)
		} else {
			said = append(said, s.sums...)
		}
	}
	for _, s := range reading {
		if err := s.read(ctx, algorithms(said)); err != nil {
			return comparison{}, err
		}
	}
	return compareSums(want.sums, got.sums), nil
}

func (c comparison) decides(o Options) bool { return c.differ || c.evidence >= o.Require }

// judge fills in the verdict on two sides that are both there.
func judge(ctx context.Context, g Gap, want, got *side, o Options) (Gap, error) {
	g.WantSize, g.GotSize, g.Evidence = want.object.Size, got.object.Size, store.Size
	switch {
	case g.WantSize != g.GotSize:
		g.Verdict, g.Why = Diverged, fmt.Sprintf("it has %d bytes, want %d", g.GotSize, g.WantSize)
	case o.Level == Presence:
		g.Verdict, g.Why = Present, "only its size was compared: verify at level checksum or content"
	default:
		c, err := compare(ctx, want, got, o)
		if err != nil {
			return g, err
		}
		g.conclude(c, want, got, o)
	}
	if g.Verdict != Match {
		g.Want, g.Got = want.sums, got.sums
	}
	return g, nil
}

func (g *Gap) conclude(c comparison, want, got *side, o Options) {
	switch {
	case c.differ:
		g.Verdict, g.Evidence, g.Why = Diverged, c.evidence, c.why
	case c.evidence >= o.Require:
		g.Verdict, g.Evidence = Match, c.evidence
	case c.evidence > store.Size:
		g.Verdict, g.Evidence = Present, c.evidence
		g.Why = fmt.Sprintf("equal, but only on evidence %s where %s is required: verify at level content", c.evidence, o.Require)
		g.Resolve = []string{"read"}
	default:
		g.Verdict, g.Resolve = NotComparable, []string{"read", "copy"}
		g.Why = fmt.Sprintf("no checksum in common (%s; %s): verify at level content, or copy it again", names(want.sums), names(got.sums))
		if c.doubt {
			g.Why = "its ETag differs, which proves nothing: verify at level content, or copy it again"
		}
	}
}

// names lists the algorithms that a side offers.
func names(sums []store.Sum) string {
	var all []string
	for _, s := range sums {
		name := s.Algorithm
		if s.Parts > 0 {
			name = fmt.Sprintf("%s of %d parts", name, s.Parts)
		}
		all = append(all, name)
	}
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}
