package verify

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/manifest/digest"
)

// pieceSize is one read in bytes of one stream of the two that are compared.
const pieceSize = 256 << 10

// waiting is how many objects a core judges at once: small ones cost it little,
// and the time goes by until the place answers.
const waiting = 8

// small is up to how many bytes an object is read without a slot.
const small = 256 << 10

// turn waits until a large object may be read, and gives the way to end that.
func (s *side) turn() (done func()) {
	if s.slots == nil || s.object.Size <= small {
		return func() {}
	}
	s.slots <- struct{}{}
	return func() { <-s.slots }
}

// open begins to read an object from its first byte. The body gives exactly the
// object's size or an error that names it.
func (p *place) open(ctx context.Context, o store.Object) (*body, error) {
	r, err := p.Store.Open(ctx, o, 0, -1)
	if err != nil {
		return nil, err
	}
	return &body{ctx: ctx, ReadCloser: r, p: p, o: o}, nil
}

// body is an object while it is read. It tells progress of the bytes that pass,
// stops when ctx does, and watches that they are as many as the object has.
type body struct {
	io.ReadCloser
	ctx context.Context
	p   *place
	o   store.Object
	n   int64

	quiet bool // it is no content of the copy: progress and counts leave it out
}

func (b *body) Read(to []byte) (int, error) {
	if b.ctx.Err() != nil {
		return 0, context.Cause(b.ctx)
	}
	n, err := b.ReadCloser.Read(to)
	more := b.n+int64(n) > b.o.Size
	if more { // not handed on: io.ReadFull would drop the error beside a full buffer
		n = int(b.o.Size - b.n)
	}
	b.n += int64(n)
	if b.quiet {
		return n, b.end(more, err)
	}
	b.p.read.Add(int64(n))
	b.p.task.Add(0, int64(n))
	return n, b.end(more, err)
}

// end is the error after a read: nil, io.EOF at the right place, or what is wrong.
func (b *body) end(more bool, err error) error {
	switch {
	case more:
		return b.wrong("has more than the %d bytes that were listed", b.o.Size)
	case errors.Is(err, io.EOF) && b.n < b.o.Size:
		return b.wrong("ended after %d of %d bytes", b.n, b.o.Size)
	case err != nil && !errors.Is(err, io.EOF):
		return fmt.Errorf("reading %s: %w", b.o.Key, err)
	case err != nil:
		return io.EOF
	}
	return nil
}

// wrong asks whether the object was written to, which explains the length, or
// whether the place gives other bytes than it lists.
func (b *body) wrong(format string, args ...any) error {
	if _, err := b.p.ask(b.ctx, b.o); errors.Is(err, errChanged) {
		return err
	}
	return errext.WithHint(fmt.Errorf("reading %s: its body %s", b.o.Key, fmt.Sprintf(format, args...)),
		"the place, or something on the way to it, cut or padded the answer: verify again")
}

// hash reads an object and takes its digests.
func (p *place) hash(ctx context.Context, o store.Object, algorithms []string, also io.Writer) ([]store.Sum, error) {
	r, err := p.open(ctx, o)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	set, _, err := digest.Read(r, o.Size, digest.Options{Algorithms: algorithms, Tee: also})
	if err != nil {
		return nil, err
	}
	return sumsOf(set, store.Content), nil
}

// compareBytes reads both sides side by side and compares every byte. That is
// cheaper than to hash both, and says where they part.
func compareBytes(ctx context.Context, want, got *side) (comparison, error) {
	var readers [2]io.ReadCloser
	defer func() {
		for _, r := range readers {
			if r != nil {
				r.Close()
			}
		}
	}()
	var g errgroup.Group
	for i, s := range []*side{want, got} {
		g.Go(func() error {
			r, err := s.place.open(ctx, s.object)
			if err == nil {
				readers[i] = r // not a nil in an interface
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return comparison{}, err
	}
	at, err := firstDifference(readers[0], readers[1], want.object.Size)
	c := comparison{evidence: store.Content, equal: store.Content}
	if at >= 0 {
		c.differ, c.why = true, fmt.Sprintf("its bytes are others from byte %d on", at)
	}
	return c, err
}

// firstDifference is the offset of the first byte in which two streams of size
// bytes differ, -1 without one. Both are read to their end unless they differ.
func firstDifference(a, b io.Reader, size int64) (int64, error) {
	n := int(min(size, pieceSize)) + 1 // one more, to see that nothing follows
	bufA, bufB := make([]byte, n), make([]byte, n)
	for at := int64(0); ; {
		na, errA := io.ReadFull(a, bufA)
		nb, errB := io.ReadFull(b, bufB)
		if err := cmp.Or(broken(errA), broken(errB)); err != nil {
			return -1, err
		}
		if !bytes.Equal(bufA[:na], bufB[:nb]) {
			i := 0
			for i < min(na, nb) && bufA[i] == bufB[i] {
				i++
			}
			return at + int64(i), nil
		}
		if at += int64(na); errA != nil {
			if at != size {
				return -1, fmt.Errorf("%d bytes were compared where there are %d", at, size)
			}
			return -1, nil
		}
	}
}

// broken is an error of io.ReadFull that is not its own word for the end: a body
// that breaks off may end with an error that wraps io.ErrUnexpectedEOF.
func broken(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil
	}
	return err
}

// partHasher takes a checksum of each successive part of a stream.
type partHasher struct {
	algorithm string
	sizes     []int64
	parts     []store.Piece
	now       *digest.Hasher
}

// Write adds bytes. What exceeds the parts is ignored: the reader of the stream
// watches its length.
func (h *partHasher) Write(p []byte) (int, error) {
	written := len(p)
	for len(p) > 0 && len(h.parts) < len(h.sizes) {
		size := h.sizes[len(h.parts)]
		if h.now == nil {
			h.now = digest.NewHasher(size, h.algorithm)
		}
		n := min(int64(len(p)), size-h.now.Size())
		h.now.Write(p[:n])
		p = p[n:]
		if h.now.Size() == size {
			h.parts, h.now = append(h.parts, store.Piece{Size: size, Sums: h.now.Sums()}), nil
		}
	}
	return written, nil
}

// sum is the composite of the parts, when all were seen.
func (h *partHasher) sum() (store.Sum, bool) {
	d, ok := compositeOf(h.parts, h.algorithm)
	return store.Sum{Digest: d, Parts: len(h.parts), Evidence: store.Content}, ok && len(h.parts) == len(h.sizes)
}
