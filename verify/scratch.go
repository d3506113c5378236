package verify

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/manifest/digest"
)

// Scratch is a Resolver that has the store copy an object onto a key of its own,
// which makes the store read and hash it, and removes that key again. It writes
// into the place that is verified, so only a user who asked for it gets one.
type Scratch struct {
	// Prefix of the keys, beneath which nothing else lies. Empty: ".drkit/scratch/".
	Prefix string
}

// maxScratch is the greatest object in bytes that stores copy in one request; one
// that is copied in parts is not hashed as a whole.
const maxScratch = 5_000_000_000

// Resolve copies the object and tells the SHA-256 of the copy. A key that could not
// be removed again is an error of status Unclean.
func (s Scratch) Resolve(ctx context.Context, c Copy, o store.Object, want digest.Set) (sums []store.Sum, err error) {
	copier, ok := c.Store.(store.Copier)
	remover, ok2 := c.Store.(interface {
		store.Remover
		store.Stater
	})
	hex, ok3 := want.Get(digest.SHA256)
	if !ok || !ok2 || !ok3 || o.Size > maxScratch {
		return nil, ErrCannotResolve
	}
	key := s.key()
	defer func() {
		if left := remove(context.WithoutCancel(ctx), remover, key); left != nil {
			sums, err = nil, errors.Join(left, err)
		}
	}()
	_, err = copier.CopyFrom(ctx, c.Store, o, key, store.Body{Size: o.Size, Sums: digest.Set{digest.SHA256: hex.Hex}}, store.Cond{})
	var other *store.MismatchError
	switch {
	case err == nil:
		return []store.Sum{{Digest: hex, Evidence: store.Recomputed}}, nil
	case errors.As(err, &other) && other.Key == key && other.Got[digest.SHA256] != "":
		return sumsOf(digest.Set{digest.SHA256: other.Got[digest.SHA256]}, store.Recomputed), nil
	case errors.Is(err, store.ErrNoCopy):
		return nil, fmt.Errorf("%w: %w", ErrCannotResolve, err)
	}
	return nil, err
}

func (s Scratch) key() string {
	prefix := s.Prefix
	if prefix == "" {
		prefix = ".drkit/scratch/"
	}
	return prefix + rand.Text()
}

// remove removes a scratch key and looks whether it is gone.
func remove(ctx context.Context, s interface {
	store.Remover
	store.Stater
}, key string) error {
	err := s.Remove(ctx, key, store.Cond{})
	switch _, gone := s.Stat(ctx, key); {
	case errors.Is(gone, store.ErrNotFound): // whoever may not write may not remove either, and left nothing
		return nil
	case err != nil:
	case gone != nil:
		err = gone
	default:
		err = errors.New("it is still there")
	}
	return errext.WithHint(errext.WithStatus(fmt.Errorf("removing the scratch key %s: %w", key, err), errext.Unclean), "remove it by hand")
}
