package wrap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v5"

	"drkit/internal/store"
)

// Policy says how often Retry tries and how long it waits. The zero value tries
// five times, waits a tenth of a second at first and ten seconds at most.
type Policy struct {
	Tries         uint
	Initial, Most time.Duration    // pauses grow from Initial to Most, half as long again each time
	Steady        bool             // the pauses are exact; else each is up to half shorter or longer
	Retryable     func(error) bool // nil: the function Retryable
}

func (p Policy) complete() Policy {
	if p.Tries == 0 {
		p.Tries = 5
	}
	if p.Initial == 0 {
		p.Initial = 100 * time.Millisecond
	}
	if p.Most == 0 {
		p.Most = 10 * time.Second
	}
	if p.Retryable == nil {
		p.Retryable = Retryable
	}
	return p
}

// Retryable reports whether an error may be gone when the same is tried again:
// what it says itself in a method Retryable or Temporary, a time-out, a broken
// connection, a body that ended early. What a store says of a key (not found,
// precondition, mismatch, unrepresentable, denied) and a cancelled context are
// final.
func Retryable(err error) bool {
	for _, final := range []error{context.Canceled, context.DeadlineExceeded, store.ErrNotFound, store.ErrPrecondition, store.ErrMismatch,
		store.ErrUnrepresentable, store.ErrDenied, store.ErrUnreachable, store.ErrNoCopy} {
		if errors.Is(err, final) {
			return false
		}
	}
	var says interface{ Retryable() bool }
	if errors.As(err, &says) {
		return says.Retryable()
	}
	var temporary interface{ Temporary() bool }
	if errors.As(err, &temporary) && temporary.Temporary() {
		return true
	}
	var network net.Error
	return errors.As(err, &network) && network.Timeout() || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EPIPE)
}

// Retry repeats operations that failed with a retryable error. A conditional Put
// or Remove is tried once only: when the answer to one that succeeded is lost,
// a second would be refused, and the caller could not tell.
//
// A body that breaks off is resumed where it ended, when it is known to be the
// same object: by its Version, or because Stat says that its ETag still is
// o.ETag. A listing that fails as a whole is begun again after the last key
// that it yielded.
func Retry(p Policy) Decorator {
	return func(s store.Source) store.Source { return decorate(s, retry{p.complete()}) }
}

type retry struct{ p Policy }

func (r retry) do(ctx context.Context, q request, f func(context.Context) error) error {
	if q.conditional {
		return f(ctx)
	}
	return r.repeat(ctx, f)
}

// repeat calls f until it succeeds, fails for good, or has been tried enough.
func (r retry) repeat(ctx context.Context, f func(context.Context) error) error {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = r.p.Initial, r.p.Most
	if r.p.Steady {
		pause.RandomizationFactor = 0
	}
	tries := uint(0)
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		tries++
		err := f(ctx)
		if err != nil && (ctx.Err() != nil || !r.p.Retryable(err)) {
			return struct{}{}, backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(pause), backoff.WithMaxTries(r.p.Tries), backoff.WithMaxElapsedTime(0))
	var permanent *backoff.PermanentError
	if errors.As(err, &permanent) {
		err = permanent.Unwrap()
	}
	if err != nil && tries > 1 {
		return fmt.Errorf("%w (tried %d times)", err, tries)
	}
	return err
}

func (r retry) open(ctx context.Context, s store.Source, o store.Object, off, n int64) (body io.ReadCloser, err error) {
	err = r.repeat(ctx, func(ctx context.Context) error {
		body, err = s.Open(ctx, o, off, n)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &resumed{ReadCloser: body, ctx: ctx, retry: r, s: s, o: o, off: off, left: expected(o, off, n), n: n}, nil
}

// expected is how many bytes a body should have, below 0 when nobody said.
func expected(o store.Object, off, n int64) int64 {
	if o.Size <= 0 || (o.Version == "" && o.ETag == "") {
		return -1
	}
	left := max(o.Size-off, 0)
	if n >= 0 {
		left = min(left, n)
	}
	return left
}

// resumed is a body that goes on where it broke off.
type resumed struct {
	io.ReadCloser
	ctx   context.Context
	retry retry
	s     store.Source
	o     store.Object
	off   int64 // of the next byte
	n     int64 // that were asked for and did not come yet, below 0: to the end
	left  int64 // that should still come, below 0: not known
	stuck uint  // bodies in a row that broke off without a byte
	err   error
}

// Read reads on, in another body when this one breaks off or ends early.
func (b *resumed) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.ReadCloser.Read(p)
	b.count(n)
	if errors.Is(err, io.EOF) && b.left > 0 {
		err = fmt.Errorf("%s: the body ended %d bytes early: %w", b.o.Key, b.left, io.ErrUnexpectedEOF)
	}
	if err != nil && (b.left == 0 || b.n == 0) {
		err = io.EOF // all of it has come, however it ended
	}
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	if b.err = b.resume(err); b.err != nil {
		return n, b.err
	}
	return n, nil
}

func (b *resumed) count(n int) {
	b.off += int64(n)
	if n > 0 {
		b.stuck = 0
	}
	if b.n >= 0 {
		b.n = max(b.n-int64(n), 0)
	}
	if b.left >= 0 {
		b.left = max(b.left-int64(n), 0)
	}
}

// resume opens the rest, unless that may be of another object.
func (b *resumed) resume(cause error) error {
	if b.stuck++; b.stuck >= b.retry.p.Tries || !b.retry.p.Retryable(cause) || (b.o.Version == "" && !b.checkable()) {
		return cause
	}
	var rest io.ReadCloser
	err := b.retry.repeat(b.ctx, func(ctx context.Context) (err error) {
		rest, err = b.s.Open(ctx, b.o, b.off, b.n)
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: going on at byte %d after %w: %w", b.o.Key, b.off, cause, err)
	}
	b.ReadCloser.Close()
	b.ReadCloser = rest
	return b.unchanged(cause)
}

func (b *resumed) checkable() bool {
	_, ok := b.s.(store.Stater)
	return ok && b.o.ETag != ""
}

// unchanged asks, after the rest was opened, whether the object is still the one
// that was begun.
func (b *resumed) unchanged(cause error) error {
	if b.o.Version != "" {
		return nil
	}
	var now store.Object
	err := b.retry.repeat(b.ctx, func(ctx context.Context) (err error) {
		now, err = b.s.(store.Stater).Stat(ctx, b.o.Key)
		return err
	})
	switch {
	case err != nil:
		return fmt.Errorf("%s: going on at byte %d after %w: %w", b.o.Key, b.off, cause, err)
	case now.ETag != b.o.ETag:
		return fmt.Errorf("%s: it changed while it was read, which broke off: %w", b.o.Key, cause)
	}
	return nil
}

func (r retry) list(ctx context.Context, s store.Source, prefix string) iter.Seq2[store.Object, error] {
	return func(yield func(store.Object, error) bool) {
		l := &listing{yield: yield, retryable: r.p.Retryable, told: map[string]bool{}}
		err := r.repeat(ctx, func(ctx context.Context) error { return l.pass(s.List(ctx, prefix)) })
		if err != nil && !l.stopped {
			yield(store.Object{}, err)
		}
	}
}

// listing yields each object and each error of a key once, in several passes.
type listing struct {
	yield     func(store.Object, error) bool
	retryable func(error) bool
	last      string // key that was yielded
	told      map[string]bool
	stopped   bool
}

// pass ends with an error that another pass may not meet.
func (l *listing) pass(all iter.Seq2[store.Object, error]) error {
	for o, err := range all {
		switch {
		case err == nil && (o.Key > l.last || l.last == ""):
			l.last = o.Key
			l.stopped = !l.yield(o, nil)
		case err != nil && !ofKey(err) && l.retryable(err):
			return err
		case err != nil && !l.told[err.Error()]:
			l.told[err.Error()] = true
			l.stopped = !l.yield(o, err)
		}
		if l.stopped {
			return nil
		}
	}
	return nil
}

// ofKey reports whether an error concerns one key, so that a listing goes on.
func ofKey(err error) bool {
	var key *store.KeyError
	var link *store.LinkError
	return errors.As(err, &key) || errors.As(err, &link)
}
