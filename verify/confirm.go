package verify

import (
	"context"
	"errors"
	"fmt"

	"drkit/internal/errext"
	"drkit/internal/store"
)

// errUnsteady is an object that was not the same bytes when it was read twice.
var errUnsteady = errors.New("two readings gave different bytes")

// confirm reads once more what reading found to be other bytes. Without TLS, or
// through a proxy that breaks, bytes may be altered on their way: then the object
// may be right, and no verdict is possible. Files on a disk are not read twice.
func confirm(ctx context.Context, c comparison, want, got *side) error {
	if !c.differ || c.evidence < store.Content || want.claimless() && got.claimless() {
		return nil
	}
	a, b := want.anew(), got.anew()
	again, err := compareRead(ctx, a, b, true)
	switch {
	case err != nil:
		return err
	case again.differ && again.why == c.why:
		return nil
	case again.differ && want.place == nil && !unequalReadings(got, b):
		return nil // named by another checksum, and the same bytes
	}
	return errext.WithHint(fmt.Errorf("reading %s: %w", got.object.Key, errUnsteady),
		"something on the way alters what is read: use https, look at proxies and at the network, and verify again")
}

// claimless reports whether the side can only be read from a disk, or is none.
func (s *side) claimless() bool { return s.place == nil || s.place.claimless() }

// anew is the side without what reading it said.
func (s *side) anew() *side {
	n := &side{place: s.place, object: s.object, sums: s.object.Sums, slots: s.slots}
	if s.place == nil {
		n.sums = s.sums
	}
	return n
}

// unequalReadings reports whether two readings of one object are not proven to
// have given the same bytes.
func unequalReadings(one, two *side) bool {
	proven := false
	for _, a := range one.statements() {
		for _, b := range two.statements() {
			if a.Algorithm != b.Algorithm || a.Evidence != store.Content || b.Evidence != store.Content {
				continue
			}
			if a.Hex != b.Hex {
				return true
			}
			proven = true
		}
	}
	return !proven
}
