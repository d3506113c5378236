package wrap

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"iter"
	"slices"
	"sync"

	"drkit/internal/store"
)

// ErrFault is every error that Fault makes. It is retryable.
var ErrFault error = fault{}

type fault struct{}

func (fault) Error() string   { return "injected fault" }
func (fault) Retryable() bool { return true }

// Faults says what Fault does. Which operations fail depends on the seed, the
// operation, its key and how often it was asked, so that a run repeats.
type Faults struct {
	Seed   uint64
	Chance float64 // of each operation and of each body, from 0 to 1
	Ops    []Op    // which may fail; none: all
	Lost   bool    // a Put or Remove may also fail after it was done, as when an answer is lost
}

// Fault lets operations fail with ErrFault: before they are done, in the middle
// of a listing or of a body. Bytes that arrive are never others.
func Fault(f Faults) Decorator {
	return func(s store.Source) store.Source {
		return decorate(s, &faulty{Faults: f, asked: map[string]uint64{}})
	}
}

type faulty struct {
	Faults
	mu    sync.Mutex
	asked map[string]uint64
}

// meets decides whether the next such operation fails, and says where.
func (f *faulty) meets(op Op, what, key string) (where uint64, yes bool) {
	if len(f.Ops) > 0 && !slices.Contains(f.Ops, op) {
		return 0, false
	}
	id := fmt.Sprintf("%d %s %s %s", f.Seed, op, what, key)
	f.mu.Lock()
	f.asked[id]++
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d", id, f.asked[id])
	f.mu.Unlock()
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd // mixed: the low bits of FNV are weak
	x ^= x >> 33
	return x >> 8, float64(x>>11)/(1<<53) < f.Chance
}

func (f *faulty) fail(op Op, key string) error {
	return fmt.Errorf("%s of %s: %w", op, key, ErrFault)
}

func (f *faulty) do(ctx context.Context, r request, do func(context.Context) error) error {
	if _, yes := f.meets(r.op, "before", r.key); yes {
		return f.fail(r.op, r.key)
	}
	if err := do(ctx); err != nil {
		return err
	}
	if _, yes := f.meets(r.op, "after", r.key); yes && f.Lost && (r.op == Put || r.op == Remove) {
		return f.fail(r.op, r.key)
	}
	return nil
}

func (f *faulty) open(ctx context.Context, s store.Source, o store.Object, off, n int64) (io.ReadCloser, error) {
	if _, yes := f.meets(Open, "before", o.Key); yes {
		return nil, f.fail(Open, o.Key)
	}
	body, err := s.Open(ctx, o, off, n)
	if err != nil {
		return nil, err
	}
	where, yes := f.meets(Open, "body", o.Key)
	if !yes {
		return body, nil
	}
	return &breaking{body, int64(where % uint64(max(o.Size, 1))), f.fail(Open, o.Key)}, nil
}

// breaking is a body that breaks off after so many bytes.
type breaking struct {
	io.ReadCloser
	left int64
	err  error
}

func (b *breaking) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, b.err
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

func (f *faulty) list(ctx context.Context, s store.Source, prefix string) iter.Seq2[store.Object, error] {
	return func(yield func(store.Object, error) bool) {
		where, yes := f.meets(List, "page", prefix)
		left := int(where % 64)
		for o, err := range s.List(ctx, prefix) {
			if yes && left == 0 {
				yield(store.Object{}, f.fail(List, prefix))
				return
			}
			if left--; !yield(o, err) {
				return
			}
		}
		if yes && left == 0 {
			yield(store.Object{}, f.fail(List, prefix))
		}
	}
}

// IsFault reports whether an error is one that Fault made.
func IsFault(err error) bool { return errors.Is(err, ErrFault) }
