package verify_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/manifest/digest"
	"drkit/verify"
)

// copying is a bucket whose server hashes what it copies.
type copying struct {
	*bucket
	copyErr, removeErr error
	stays              bool // removing says yes and does nothing
	copied             []string
}

func (c *copying) CopyFrom(_ context.Context, _ store.Source, o store.Object, key string, b store.Body, _ store.Cond) (store.Object, error) {
	if c.copyErr != nil {
		return store.Object{}, c.copyErr
	}
	c.copied = append(c.copied, key)
	c.object(key, c.data[o.Key], nil)
	h := sha256.Sum256(c.data[o.Key])
	if got := hexOf(h[:]); got != b.Sums[digest.SHA256] {
		bad := &store.MismatchError{Key: key, WantSize: b.Size, GotSize: b.Size, Want: digest.Set{digest.SHA256: b.Sums[digest.SHA256]}, Got: digest.Set{digest.SHA256: got}}
		return store.Object{}, fmt.Errorf("%w: %w", store.ErrNoCopy, bad)
	}
	return c.objects[key], nil
}

func (c *copying) Remove(_ context.Context, key string, _ store.Cond) error {
	if c.removeErr == nil && !c.stays {
		delete(c.objects, key)
	}
	return c.removeErr
}

func TestScratch(t *testing.T) {
	denied := errors.New("denied")
	for name, c := range map[string]struct {
		data    []byte
		change  func(*copying)
		verdict verify.Verdict
		status  errext.Status
		says    string
	}{
		"the same":         {right, func(*copying) {}, verify.Match, errext.Holds, ""},
		"other bytes":      {wrong, func(*copying) {}, verify.Diverged, errext.Gate, "sha256 is "},
		"the store cannot": {right, func(c *copying) { c.copyErr = store.ErrNoCopy }, verify.NotComparable, errext.Gate, "no checksum"},
		"it claims to differ": {right, func(c *copying) {
			c.copyErr = fmt.Errorf("%w: %w", store.ErrNoCopy, &store.MismatchError{Key: "model/x"})
		}, verify.NotComparable, errext.Gate, "no checksum"},
		"copying is denied":    {right, func(c *copying) { c.copyErr = denied }, "", errext.Failed, "denied"},
		"writing is denied":    {right, func(c *copying) { c.copyErr, c.removeErr = denied, denied }, "", errext.Failed, "resolving model/x by copy: denied"},
		"removing is denied":   {right, func(c *copying) { c.removeErr = denied }, "", errext.Unclean, "removing the scratch key .drkit/scratch/"},
		"the key remains":      {right, func(c *copying) { c.stays = true }, "", errext.Unclean, "still there"},
		"too large to be sure": {right, func(c *copying) { o := c.objects["model/x"]; o.Size = 5_000_000_001; c.objects["model/x"] = o }, verify.NotComparable, errext.Gate, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := &copying{bucket: newBucket().object("model/x", c.data, nil)}
			c.change(b)
			m, place := oneFile(right, b)
			if b.objects["model/x"].Size > int64(len(right)) {
				m.Contents.Files[0].Size = b.objects["model/x"].Size
			}
			r := mustRelease(t, m, place, verify.Options{Resolve: []string{verify.ByCopy}, Resolver: verify.Scratch{}})
			var got verify.Verdict
			for _, g := range r.Gaps {
				got = g.Verdict
			}
			if got != c.verdict || r.Status() != c.status || !strings.Contains(fmt.Sprintf("%+v", r), c.says) {
				t.Errorf("%s, status %v: %+v", got, r.Status(), r)
			}
			if got == verify.Match && r.Gaps[0].Evidence != store.Recomputed {
				t.Errorf("evidence %v", r.Gaps[0].Evidence)
			}
			if _, left := b.objects["model/x"]; !left || (c.status != errext.Unclean && len(b.objects) != 1) {
				t.Errorf("left behind: %v", b.objects)
			}
		})
	}
	if r := (verify.Scratch{}); true { // a place that cannot copy
		if _, err := r.Resolve(t.Context(), verify.Copy{Store: newBucket()}, store.Object{}, digest.Set{digest.SHA256: "x"}); !errors.Is(err, verify.ErrCannotResolve) {
			t.Error(err)
		}
	}
}
