package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/manifest/digest"
)

// Ways to resolve what the checksums leave open, as in Gap.Resolve.
const (
	ByRead  = "read"  // drkit reads that object
	ByCopy  = "copy"  // the store hashes it while it copies it onto a scratch key
	ByBatch = "batch" // S3 Batch Operations hash it; the report's sums are Options.Known
)

// Known is what was found out about one state of an object elsewhere, such as by
// a batch job in its store. Version, or without one ETag, must be those of the
// object today: a report about an object that was overwritten since says nothing.
type Known struct {
	Version, ETag string
	Sums          []store.Sum
}

// Resolver lets the store of a copy hash an object without drkit reading it, such
// as Scratch. It is told what the object should be (checksums of the whole, maybe
// none), returns what the store found, and leaves nothing behind. ErrCannotResolve
// means that it cannot, and that the object stays not-comparable.
type Resolver interface {
	Resolve(ctx context.Context, c Copy, o store.Object, want digest.Set) ([]store.Sum, error)
}

// ErrCannotResolve is that of an object which a Resolver cannot hash.
var ErrCannotResolve = errors.New("the store cannot hash it by itself")

func (o Options) checkResolve() error {
	for _, way := range o.Resolve {
		if !slices.Contains([]string{ByRead, ByCopy, ByBatch}, way) {
			return errext.WithStatus(fmt.Errorf("unknown way to resolve %q: want copy, batch or read", way), errext.Usage)
		}
	}
	if slices.Contains(o.Resolve, ByCopy) && o.Resolver == nil {
		return errext.WithHint(errext.WithStatus(errors.New("this place cannot resolve by copy"), errext.Usage), "resolve by read, or by batch")
	}
	return nil
}

// about reports whether k speaks of the object as it is now.
func (k Known) about(o store.Object) bool {
	if numbered(k.Version) && numbered(o.Version) {
		return k.Version == o.Version
	}
	return k.ETag != "" && strings.Trim(k.ETag, `"`) == strings.Trim(o.ETag, `"`)
}

// resolve takes the ways that the user allows, the cheapest first, until one
// decides. The right bytes, where they are at hand, cost nothing in the target.
func resolve(ctx context.Context, g Gap, c comparison, want, got *side, o Options) (comparison, error) {
	for _, way := range []func(context.Context, Gap, *side, *side, Options) (bool, error){byOriginal, byCopy} {
		taken, err := way(ctx, g, want, got, o)
		if err != nil {
			return c, err
		}
		if !taken {
			continue
		}
		if c = compareSides(want, got); c.decides(o) {
			return c, nil
		}
	}
	if slices.Contains(o.Resolve, ByRead) {
		return compareRead(ctx, want, got, true)
	}
	return c, nil
}

// byOriginal hashes the right bytes in the parts in which the copy was uploaded.
// Bytes that are not those of the manifest are of no use.
func byOriginal(ctx context.Context, g Gap, want, got *side, o Options) (bool, error) {
	parts := got.uploadedIn()
	if want.place != nil || o.Original == nil || parts == nil || len(got.statements()) > 0 {
		return false, nil
	}
	r, err := o.Original(ctx, g.Subject)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the original of %s: %w", g.Subject, err)
	}
	defer r.Close()
	set, n, err := digest.Read(io.LimitReader(r, want.object.Size+1), want.object.Size, digest.Options{Algorithms: []string{digest.SHA256}, Tee: parts})
	if err != nil {
		return false, fmt.Errorf("reading the original of %s: %w", g.Subject, err)
	}
	right := slices.ContainsFunc(want.sums, func(s store.Sum) bool { return s.Algorithm == digest.SHA256 && s.Hex == set[digest.SHA256] })
	if !right || n != want.object.Size {
		return false, nil
	}
	want.cut(parts)
	return true, nil
}

func byCopy(ctx context.Context, g Gap, want, got *side, o Options) (bool, error) {
	if !slices.Contains(o.Resolve, ByCopy) || got.place.claimless() {
		return false, nil
	}
	known := digest.Set{}
	for _, s := range want.statements() {
		if !s.EqualityOnly {
			known[s.Algorithm] = s.Hex
		}
	}
	sums, err := o.Resolver.Resolve(ctx, got.place.Copy, got.object, known)
	if errors.Is(err, ErrCannotResolve) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("resolving %s by copy: %w", g.Key, err)
	}
	got.learn(sums)
	return true, nil
}

// uploadedIn prepares to hash what is compared with s in the parts in which s was
// uploaded, by a checksum that s has of them. It is nil when that is not known.
func (s *side) uploadedIn() *partHasher {
	for _, sum := range s.composites() {
		if sum.Parts == len(s.object.Parts) && digest.Hashes(sum.Algorithm) {
			h := &partHasher{algorithm: sum.Algorithm}
			for _, p := range s.object.Parts {
				h.sizes = append(h.sizes, p.Size)
			}
			return h
		}
	}
	return nil
}

// writer is what is written to while reading; nil for nil.
func (h *partHasher) writer() io.Writer {
	if h == nil {
		return nil
	}
	return h
}

// cut gives the side the parts that were hashed.
func (s *side) cut(h *partHasher) {
	if h == nil {
		return
	}
	if sum, ok := h.sum(); ok {
		s.object.Parts = h.parts
		s.learn([]store.Sum{sum})
	}
}
