package store

import (
	"context"
	"errors"
)

// Copier is implemented by places that can copy an object themselves, without
// its bytes passing through drkit.
type Copier interface {
	// CopyFrom copies o, an object of from, to key. What Sink says of Put holds
	// here: b states size and digests of what must arrive, c the condition, and
	// what the place says of the copy's checksums is compared with b.Sums. A copy
	// that the place cannot make, or cannot prove, is ErrNoCopy and leaves nothing
	// wrong behind: the caller then reads and writes instead.
	CopyFrom(ctx context.Context, from Source, o Object, key string, b Body, c Cond) (Object, error)
}

// Unwrapper is implemented by decorators of a place.
type Unwrapper interface{ Unwrap() Source }

// Innermost is the place behind all decorators.
func Innermost(s Source) Source {
	for {
		w, ok := s.(Unwrapper)
		if !ok {
			return s
		}
		s = w.Unwrap()
	}
}

// Errors of places beyond one key.
var (
	// ErrNoCopy says that a Copier cannot do this copy: read and write instead.
	ErrNoCopy = errors.New("this place cannot make or prove that copy by itself")
	// ErrDenied says that the credentials may not do what was asked. It may hold
	// for one prefix, one key or one operation only.
	ErrDenied = errors.New("access denied")
	// ErrUnreachable says that the place as a whole cannot be asked: no such
	// bucket, no or expired credentials, another region, a clock that is off, TLS
	// or DNS. Asking for single keys would fail in the same way. It is no
	// statement about what the place holds.
	ErrUnreachable = errors.New("the place cannot be asked")
)
