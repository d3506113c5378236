package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"drkit/manifest/digest"
)

// Claimless is implemented by places that keep no checksums of their own, such
// as a directory: what they say of a file's bytes can only come from reading it.
type Claimless interface{ HoldsNoClaims() }

// Located is implemented by places that can say where they are: two that say the
// same are one place, and a file in both is one copy, not two.
type Located interface{ Location() string }

// SamePlace reports whether two places are known to be one.
func SamePlace(a, b Source) bool {
	la, ok := a.(Located)
	lb, ok2 := b.(Located)
	return ok && ok2 && la.Location() == lb.Location()
}

// MismatchError says which object's bytes are not the expected ones. It is an
// ErrMismatch.
type MismatchError struct {
	Key       string
	Want, Got digest.Set // the digests that differ
	WantSize  int64
	GotSize   int64 // -1: more bytes than WantSize, not counted to the end
}

// Error names the object and the first difference.
func (e *MismatchError) Error() string {
	switch {
	case e.GotSize < 0:
		return fmt.Sprintf("%s: content does not match: more than the expected %d bytes", e.Key, e.WantSize)
	case e.GotSize != e.WantSize:
		return fmt.Sprintf("%s: content does not match: %d bytes instead of %d", e.Key, e.GotSize, e.WantSize)
	}
	for _, a := range slices.Sorted(maps.Keys(e.Want)) {
		return fmt.Sprintf("%s: content does not match: %s is %s instead of %s", e.Key, a, e.Got[a], e.Want[a])
	}
	return e.Key + ": content does not match"
}

// Is makes every MismatchError an ErrMismatch.
func (e *MismatchError) Is(target error) bool { return target == ErrMismatch }

// copyBuffer is one read in bytes.
const copyBuffer = 1 << 20

// CopyBody copies a body to w, hashes it on the way and compares size and every
// given digest. It returns the digests it took: SHA-256 always, those that b.Sums
// names, and those of also. The error is a *MismatchError when the bytes are others. A Sink
// writes with it to where nobody looks, and shows the object afterwards.
func CopyBody(ctx context.Context, w io.Writer, key string, b Body, also ...string) (digest.Set, error) {
	if err := b.Sums.Check(); err != nil {
		return nil, fmt.Errorf("expected digests of %s: %w", key, err)
	}
	r, err := b.Open(ctx, 0, -1)
	if err != nil {
		return nil, fmt.Errorf("reading the content of %s: %w", key, err)
	}
	defer r.Close()
	h := digest.NewHasher(b.Size, slices.Concat(b.Sums.Algorithms(), also, []string{digest.SHA256})...)
	if err := copyAtMost(ctx, io.MultiWriter(h, w), r, key, b.Size); err != nil {
		return nil, err
	}
	return h.Sums(), compare(key, b, h)
}

// copyAtMost copies at most size bytes and looks whether more would come.
func copyAtMost(ctx context.Context, w io.Writer, r io.Reader, key string, size int64) error {
	buf := make([]byte, copyBuffer)
	for n := int64(0); ; {
		if err := context.Cause(ctx); err != nil {
			return fmt.Errorf("copying %s: %w", key, err)
		}
		got, err := r.Read(buf)
		if n += int64(got); n > size {
			return &MismatchError{Key: key, WantSize: size, GotSize: -1}
		}
		if got > 0 {
			if _, err := w.Write(buf[:got]); err != nil {
				return fmt.Errorf("writing %s: %w", key, err)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the content of %s: %w", key, err)
		}
	}
}

func compare(key string, b Body, h *digest.Hasher) error {
	bad := &MismatchError{Key: key, WantSize: b.Size, GotSize: h.Size(), Want: digest.Set{}, Got: digest.Set{}}
	got := h.Sums()
	for a, want := range b.Sums {
		if got[a] != want {
			bad.Want[a], bad.Got[a] = want, got[a]
		}
	}
	if len(bad.Want) > 0 || bad.GotSize != bad.WantSize {
		return bad
	}
	return nil
}

// ReadAll reads a whole small object of at most limit bytes. A greater one is an error.
func ReadAll(ctx context.Context, s Source, o Object, limit int64) ([]byte, error) {
	r, err := s.Open(ctx, o, 0, -1)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", o.Key, err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("reading %s: it is larger than %d bytes", o.Key, limit)
	}
	return data, nil
}
