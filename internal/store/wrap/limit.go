package wrap

import (
	"context"
	"io"
	"iter"
	"sync"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"drkit/internal/store"
)

// Limits bounds what is asked of a store; a zero value of a field does not.
type Limits struct {
	AtOnce    int64      // operations under way; an open body counts until it is closed or has ended
	PerSecond rate.Limit // operations begun
	Burst     int        // operations that may begin at once under PerSecond; 1 when 0
}

// Limit makes operations wait for their turn, or for ctx. A body that a Put or a
// copy reads from the same store needs no turn of its own, and a listing, which
// its reader may interrupt with other operations, only waits for PerSecond.
func Limit(l Limits) Decorator {
	gate := &limit{}
	if l.AtOnce > 0 {
		gate.atOnce = semaphore.NewWeighted(l.AtOnce)
	}
	if l.PerSecond > 0 {
		gate.rate = rate.NewLimiter(l.PerSecond, max(l.Burst, 1))
	}
	return func(s store.Source) store.Source { return decorate(s, gate) }
}

type limit struct {
	atOnce *semaphore.Weighted
	rate   *rate.Limiter
}

// enter waits for a turn. done ends it, inner tells operations beneath that
// they have one.
func (l *limit) enter(ctx context.Context) (inner context.Context, done func(), err error) {
	if ctx.Value(l) != nil {
		return ctx, func() {}, nil
	}
	if err := l.begin(ctx); err != nil {
		return ctx, nil, err
	}
	if l.atOnce == nil {
		return ctx, func() {}, nil
	}
	if err := l.atOnce.Acquire(ctx, 1); err != nil {
		return ctx, nil, context.Cause(ctx)
	}
	return context.WithValue(ctx, l, true), sync.OnceFunc(func() { l.atOnce.Release(1) }), nil
}

// begin waits until another operation may begin.
func (l *limit) begin(ctx context.Context) error {
	if l.rate == nil {
		return nil
	}
	if err := l.rate.Wait(ctx); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err // the deadline is nearer than the turn
	}
	return nil
}

func (l *limit) do(ctx context.Context, _ request, f func(context.Context) error) error {
	inner, done, err := l.enter(ctx)
	if err != nil {
		return err
	}
	defer done()
	return f(inner)
}

func (l *limit) open(ctx context.Context, s store.Source, o store.Object, off, n int64) (io.ReadCloser, error) {
	_, done, err := l.enter(ctx)
	if err != nil {
		return nil, err
	}
	body, err := s.Open(ctx, o, off, n)
	if err != nil {
		done()
		return nil, err
	}
	return &turn{body, done}, nil
}

// turn is a body whose end is the end of its turn.
type turn struct {
	io.ReadCloser
	done func()
}

func (t *turn) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	if err != nil {
		t.done()
	}
	return n, err
}

func (t *turn) Close() error {
	defer t.done()
	return t.ReadCloser.Close()
}

func (l *limit) list(ctx context.Context, s store.Source, prefix string) iter.Seq2[store.Object, error] {
	return func(yield func(store.Object, error) bool) {
		if err := l.begin(ctx); err != nil {
			yield(store.Object{}, err)
			return
		}
		s.List(ctx, prefix)(yield)
	}
}
