package wrap

import (
	"context"
	"io"
	"iter"
	"maps"
	"sync"

	"drkit/internal/store"
)

// Count is what was asked by one kind of operation.
type Count struct {
	Calls  int64
	Failed int64
	Bytes  int64 // read from bodies by Open, and from the given body by Put
	Keys   int64 // yielded by List
}

// Counter counts the operations of the stores that it decorates. The zero value
// is ready; it is safe for concurrent use.
type Counter struct {
	mu  sync.Mutex
	ops map[Op]Count
}

// Decorate is a Decorator that counts into c.
func (c *Counter) Decorate(s store.Source) store.Source { return decorate(s, counting{c}) }

// Counts returns a snapshot by operation; one that was never asked is absent.
func (c *Counter) Counts() map[Op]Count {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.ops)
}

// add counts; failed is one more failure when err is not nil.
func (c *Counter) add(op Op, more Count, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ops == nil {
		c.ops = map[Op]Count{}
	}
	n := c.ops[op]
	n.Calls, n.Bytes, n.Keys = n.Calls+more.Calls, n.Bytes+more.Bytes, n.Keys+more.Keys
	if err != nil {
		n.Failed++
	}
	c.ops[op] = n
}

type counting struct{ c *Counter }

func (l counting) do(ctx context.Context, r request, f func(context.Context) error) error {
	err := f(ctx)
	l.c.add(r.op, Count{Calls: 1}, err)
	return err
}

// put lets the bytes be counted that a Put reads.
func (l counting) put(b store.Body) store.Body {
	open := b.Open
	b.Open = func(ctx context.Context, off, n int64) (io.ReadCloser, error) {
		body, err := open(ctx, off, n)
		if err != nil {
			return nil, err
		}
		return &counted{body, l.c, Put}, nil
	}
	return b
}

func (l counting) open(ctx context.Context, s store.Source, o store.Object, off, n int64) (io.ReadCloser, error) {
	body, err := s.Open(ctx, o, off, n)
	l.c.add(Open, Count{Calls: 1}, err)
	if err != nil {
		return nil, err
	}
	return &counted{body, l.c, Open}, nil
}

// counted counts the bytes of a body.
type counted struct {
	io.ReadCloser
	c  *Counter
	op Op
}

func (b *counted) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	failed := err
	if err == io.EOF {
		failed = nil
	}
	b.c.add(b.op, Count{Bytes: int64(n)}, failed)
	return n, err
}

func (l counting) list(ctx context.Context, s store.Source, prefix string) iter.Seq2[store.Object, error] {
	return func(yield func(store.Object, error) bool) {
		l.c.add(List, Count{Calls: 1}, nil)
		for o, err := range s.List(ctx, prefix) {
			if err == nil {
				l.c.add(List, Count{Keys: 1}, nil)
			} else {
				l.c.add(List, Count{}, err)
			}
			if !yield(o, err) {
				return
			}
		}
	}
}
