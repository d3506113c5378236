package verify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/manifest/release"
)

// ErrStale is a result whose objects are no longer what they were.
var ErrStale = errors.New("the copy is not what it was when it was verified")

// Unchanged lists a copy and says in what it differs from what a result was found
// on. What the place gives no identity for counts as changed.
func Unchanged(ctx context.Context, c Copy, r Result) error {
	p, err := listRelease(ctx, c)
	if err != nil {
		return err
	}
	if p.partial && !p.absent {
		return p.errs[0]
	}
	said := map[string]bool{}
	for _, g := range r.Gaps {
		o, there := p.objects[g.Subject]
		said[g.Subject] = true
		if (g.Verdict == Missing) == there || there && !g.Seen.Same(identityOf(c.Store, o)) {
			return stale(c, g.Subject)
		}
	}
	for _, name := range r.Failed {
		said[name] = true
	}
	for below := range p.objects {
		if !said[below] && !release.IsRecord(below) {
			return stale(c, below)
		}
	}
	return nil
}

func stale(c Copy, subject string) error {
	return errext.WithHint(errext.WithStatus(fmt.Errorf("%w: %s in %s", ErrStale, subject, c.Region), errext.Refused), "verify again")
}

// Take remembers the matches of a result as proofs, those alone that drkit read
// and whose objects have an identity that a second write cannot keep.
func (s *State) Take(r Result, now time.Time) {
	for _, g := range r.Gaps {
		at := g.Proven
		if at.IsZero() {
			at = r.Began
		}
		if age := now.Sub(at); g.Verdict != Match || g.Evidence < store.Content || g.Seen.File != "" || age < 0 || age > ProofAge {
			continue
		}
		s.prove(Proof{Subject: g.Subject, Got: g.Seen, WantSize: g.WantSize, Evidence: g.Evidence, At: at})
	}
}
