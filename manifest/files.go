package manifest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"drkit/internal/errext"
	"drkit/internal/progress"
	"drkit/internal/store"
)

// Files gives access to the bytes of a manifest's files where Build found them.
type Files struct{ items []*item } // by place

// location is where a file lies: what its subject says, without a string of its own.
type location struct {
	part         Part
	region, path string
}

func (f File) location() location { return location{f.Part, f.Region, f.Path} }

// compare orders places as contents are sorted.
func (l location) compare(o location) int {
	return cmp.Or(cmp.Compare(l.part, o.part), cmp.Compare(l.region, o.region), cmp.Compare(l.path, o.path))
}

func byLocation(a, b *File) int { return a.location().compare(b.location()) }

// newFiles takes over the items.
func newFiles(items []*item) *Files {
	for _, it := range items {
		it.capture = nil
	}
	slices.SortFunc(items, func(a, b *item) int { return a.location().compare(b.location()) })
	return &Files{items}
}

// Body returns the bytes of a file, with the digests that its manifest states.
func (f *Files) Body(file File) (store.Body, error) {
	at, ok := slices.BinarySearchFunc(f.items, file.location(), func(it *item, l location) int { return it.location().compare(l) })
	if !ok {
		return store.Body{}, errext.WithHint(fmt.Errorf("%s is no file of this build", file.Subject()),
			"the sources have changed since the manifest was built: build it again")
	}
	b := f.items[at].body()
	b.Size, b.Sums = file.Size, file.Sums
	return b, nil
}

// body opens the item at its source, at exactly the version that was listed.
func (it *item) body() store.Body {
	b := store.Body{Size: it.Size, Sums: it.Sums}
	if it.source == nil {
		b.Open = opener(it.data)
		return b
	}
	source, object := it.source, it.object()
	b.Open = func(ctx context.Context, off, n int64) (io.ReadCloser, error) {
		return source.Open(ctx, object, off, n)
	}
	return b
}

// opener reads from bytes in memory.
func opener(data []byte) func(context.Context, int64, int64) (io.ReadCloser, error) {
	return func(_ context.Context, off, n int64) (io.ReadCloser, error) {
		size := int64(len(data))
		off = min(max(off, 0), size)
		if n < 0 || n > size-off {
			n = size - off
		}
		return io.NopCloser(bytes.NewReader(data[off : off+n])), nil
	}
}

// counted tells a task of the bytes that pass.
type counted struct {
	r    io.Reader
	task *progress.Task
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.task.Add(0, int64(n))
	return n, err
}
