package verify

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"drkit/internal/store"
	"drkit/manifest/digest"
)

// side is one of the two things that a verdict compares: a file as a manifest
// states it, or an object in a place.
type side struct {
	place  *place // nil for a manifest: its sums are all that is known
	object store.Object
	sums   []store.Sum
	known  []store.Sum // those of sums that come from elsewhere
	asked  bool        // the place said all that it knows
	slots  chan struct{}
}

func placed(p *place, o store.Object) *side { return &side{place: p, object: o, sums: o.Sums} }

// ask adds what the place knows beyond its listing.
func (s *side) ask(ctx context.Context) error {
	if s.place == nil || s.asked || s.place.claimless() {
		return nil
	}
	o, err := s.place.ask(ctx, s.object)
	if err != nil {
		return err
	}
	if len(o.Sums) == 0 {
		o.Sums = s.object.Sums
	}
	s.object, s.sums, s.asked = o, slices.Concat(o.Sums, s.known), true
	return nil
}

// learn adds what is known of the object from elsewhere.
func (s *side) learn(sums []store.Sum) {
	s.known = slices.Concat(s.known, sums)
	s.sums = slices.Concat(s.sums, sums)
}

// read adds the digests of the bytes, and of those parts in which the other side
// was uploaded, when nothing else can be compared with it.
func (s *side) read(ctx context.Context, other *side, early bool) error {
	parts := other.uploadedIn()
	said := other.statements()
	if len(said) > 0 {
		parts = nil
	}
	by := algorithms(said)
	if s.hashed(by) && parts == nil {
		return nil
	}
	if early {
		by = nil // whatever suits the size: what the other side still says is not known
	}
	defer s.turn()()
	sums, err := s.place.hash(ctx, s.object, by, parts.writer())
	if err != nil {
		return err
	}
	s.learn(sums)
	s.cut(parts)
	return nil
}

// compare goes as deep as the level allows and as the verdict needs.
func compare(ctx context.Context, want, got *side, o Options) (comparison, error) {
	if o.Level == ByContent {
		return compareRead(ctx, want, got, true)
	}
	c := compareSides(want, got)
	if c.decides(o) {
		return c, nil
	}
	if read, err := readEarly(ctx, want, got); err != nil {
		return c, err
	} else if read {
		if c = compareSides(want, got); c.decides(o) {
			return c, nil
		}
	}
	for _, s := range []*side{want, got} {
		if err := s.ask(ctx); err != nil {
			return c, err
		}
	}
	if c = compareSides(want, got); c.decides(o) {
		return c, nil
	}
	return compareRead(ctx, want, got, false)
}

// readEarly reads a small file of a place without claims when the listing of the
// other says something already: reading it costs less than to ask for the other
// by name, and mostly settles it.
func readEarly(ctx context.Context, want, got *side) (bool, error) {
	for _, pair := range [][2]*side{{want, got}, {got, want}} {
		local, other := pair[0], pair[1]
		if local.place != nil && local.place.claimless() && other.place != nil && !other.place.claimless() && len(other.statements()) > 0 && local.object.Size <= digest.SmallFile {
			return true, local.read(ctx, other, true)
		}
	}
	return false, nil
}

// hashed reports whether the bytes were hashed by all these algorithms.
func (s *side) hashed(by []string) bool {
	return !slices.ContainsFunc(by, func(a string) bool {
		return !slices.ContainsFunc(s.sums, func(sum store.Sum) bool {
			return sum.Algorithm == a && sum.Parts == 0 && sum.Evidence == store.Content
		})
	})
}

// compareRead reads both sides, or without all only those in places that hold
// no claims.
func compareRead(ctx context.Context, want, got *side, all bool) (comparison, error) {
	reads := func(s *side) bool { return s.place != nil && (all || s.place.claimless()) }
	if reads(want) && reads(got) {
		return compareBoth(ctx, want, got)
	}
	for _, pair := range [][2]*side{{want, got}, {got, want}} {
		if reads(pair[0]) {
			if err := pair[0].read(ctx, pair[1], false); err != nil {
				return comparison{}, err
			}
		}
	}
	return compareSides(want, got), nil
}

// compareBoth compares the bytes, which settles it, unless a place said before
// that they are others.
func compareBoth(ctx context.Context, want, got *side) (comparison, error) {
	defer got.turn()()
	read, err := compareBytes(ctx, want, got)
	if err != nil || read.differ {
		return read, err
	}
	said := compareSides(want, got)
	if said.differ {
		said.equal = store.Content
		return said, nil
	}
	return read, nil
}

func (c comparison) decides(o Options) bool { return c.differ || c.evidence >= o.Require }

// judge fills in the verdict on two sides that are both there.
func judge(ctx context.Context, g Gap, want, got *side, o Options) (Gap, error) {
	want.slots, got.slots = o.slots, o.slots
	g.WantSize, g.GotSize, g.Evidence = want.object.Size, got.object.Size, store.Size
	if want.place == nil && want.object.Parts == nil {
		want.object.Parts = o.Blocks[g.Subject]
	}
	switch {
	case g.WantSize != g.GotSize:
		g.Verdict, g.Why = Diverged, fmt.Sprintf("it has %d bytes, want %d", g.GotSize, g.WantSize)
		if o.Level != Presence {
			g.recognise(ctx, want, got)
		}
	case o.Level == Presence:
		g.Verdict, g.Why = Present, "only its size was compared: verify at level checksum or content"
	default:
		if err := g.settle(ctx, want, got, o); err != nil {
			return g, err
		}
	}
	if g.Verdict != Match {
		g.Want, g.Got = want.sums, got.sums
	}
	return g, nil
}

// settle compares two sides of one size and concludes.
func (g *Gap) settle(ctx context.Context, want, got *side, o Options) error {
	stale := false
	if k, ok := o.Known[g.Key]; ok {
		if stale = !k.about(got.object); !stale {
			got.learn(k.Sums)
		}
	}
	c, err := compare(ctx, want, got, o)
	if err != nil {
		return err
	}
	if !c.decides(o) {
		if c, err = resolve(ctx, *g, c, want, got, o); err != nil {
			return err
		}
	}
	if err := confirm(ctx, c, want, got); err != nil {
		return err
	}
	g.conclude(c, want, got, o)
	if stale && g.Verdict != Match {
		g.Why += "; the checksum known from elsewhere is of another state of it"
	}
	g.accept(o.Accept)
	return nil
}

func (g *Gap) conclude(c comparison, want, got *side, o Options) {
	switch {
	case c.differ:
		g.Verdict, g.Evidence, g.Why, g.Ranges = Diverged, c.evidence, c.why, c.ranges
		if where := describe(c.ranges); where != "" {
			g.Why += "; " + where
		}
		if c.equal == store.Content && c.evidence < store.Content {
			g.Why = "its bytes are right, but a checksum stored with it is not, and readers that check it refuse it: " + g.Why
		}
	case c.evidence >= o.Require:
		g.Verdict, g.Evidence = Match, c.evidence
	case c.evidence > store.Size:
		g.Verdict, g.Evidence = Present, c.evidence
		g.Why = fmt.Sprintf("equal, but only on evidence %s where %s is required: verify at level content", c.evidence, o.Require)
		g.Resolve = []string{ByRead}
		if o.Require == store.Recomputed && !got.place.claimless() {
			g.Resolve = []string{ByRead, ByCopy, ByBatch}
		}
	default:
		g.Verdict, g.Resolve = NotComparable, []string{ByRead, ByCopy, ByBatch}
		g.Why = c.open(want, got) + ": verify at level content, copy it again with a checksum of the whole, or have S3 Batch Operations hash it"
	}
}

// open says why nothing could be compared.
func (c comparison) open(want, got *side) string {
	switch {
	case c.unlike != "":
		return c.unlike
	case c.doubt:
		return "its ETag differs, which proves nothing"
	}
	return fmt.Sprintf("no checksum in common (%s; %s)", names(want.sums), names(got.sums))
}

// names lists the algorithms that a side offers.
func names(sums []store.Sum) string {
	var all []string
	for _, s := range sums {
		name := s.Algorithm
		if s.Parts > 0 {
			name = fmt.Sprintf("%s of %d parts", name, s.Parts)
		}
		if s.Algorithm == digest.MD5 && s.EqualityOnly {
			name = "ETag"
		}
		all = append(all, name)
	}
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}
