package manifest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"drkit/internal/errext"
	"drkit/internal/progress"
	"drkit/internal/store"
	"drkit/manifest/digest"
)

// Build reads every file of the input once, takes its digests and what the
// readers make of it, and returns the manifest with access to the files. It
// fails on what cannot be read and on an empty model; malformed content becomes
// a Problem in the manifest, so that the rules can say all of it.
func Build(ctx context.Context, in Input) (*Manifest, *Files, error) {
	c, err := collect(ctx, in)
	if err != nil {
		return nil, nil, err
	}
	if err := c.read(ctx, in); err != nil {
		return nil, nil, err
	}
	m := &Manifest{Schema: Schema, Service: in.Service}
	for _, it := range c.items {
		c.problems = append(c.problems, it.wrong...)
	}
	m.Annotations = annotate(c, in)
	m.Annotations.Origins = c.origins
	for _, it := range c.items {
		m.Contents.Files = append(m.Contents.Files, it.File)
	}
	m.Contents.Images = c.images
	sortContents(&m.Contents)
	m.Release = ReleaseID(m.Contents)
	return m, newFiles(c.items), nil
}

// read hashes the items, the largest first so that no worker is left with it at
// the end.
func (c *collector) read(ctx context.Context, in Input) error {
	slices.SortStableFunc(c.items, func(a, b *item) int {
		return cmp.Or(cmp.Compare(b.Size, a.Size), cmp.Compare(a.Part, b.Part), cmp.Compare(a.Region, b.Region), cmp.Compare(a.Path, b.Path))
	})
	var bytes int64
	for _, it := range c.items {
		bytes += it.Size
	}
	task := progress.Start(in.Progress, "hashing "+in.Service, int64(len(c.items)), bytes)
	defer task.Done()
	g, each := errgroup.WithContext(ctx)
	g.SetLimit(cmp.Or(max(in.Workers, 0), runtime.GOMAXPROCS(0)))
	for _, it := range c.items {
		if each.Err() != nil {
			break
		}
		g.Go(func() error {
			if err := it.read(each, task); err != nil {
				return fmt.Errorf("reading %s: %w", it.Subject(), err)
			}
			task.Add(1, 0)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// read takes the digests of one file and keeps what the readers need, in one pass.
func (it *item) read(ctx context.Context, task *progress.Task) error {
	body := it.body()
	r, err := body.Open(ctx, 0, -1)
	if err != nil {
		return advise(err, "every file of a release must be readable: check its permissions")
	}
	defer r.Close()
	stated := it.stated()
	tee, further := io.Writer(it.capture), stated.further(it.Size)
	if further != nil {
		tee = io.MultiWriter(it.capture, further)
	}
	sums, n, err := digest.Read(counted{r, task}, it.Size, digest.Options{Tee: tee})
	if err != nil {
		return advise(err, "every file of a release must be readable: check its permissions and the disk")
	}
	if err := it.unchanged(ctx, n); err != nil {
		return errext.WithHint(err, "something still writes into the folder: let the copy or download end, then run this again")
	}
	it.Sums = sums
	it.wrong = stated.contradicted(it.File, sums)
	if further != nil {
		it.wrong = append(it.wrong, stated.contradicted(it.File, further.Sums())...)
	}
	return nil
}

// advise adds a hint to an error for which its source has none.
func advise(err error, hint string) error {
	if errext.Hint(err) != "" {
		return err
	}
	return errext.WithHint(err, hint)
}

// unchanged compares the file with what was listed before it was read.
func (it *item) unchanged(ctx context.Context, read int64) error {
	if read != it.Size {
		return fmt.Errorf("it changed while it was read: %d bytes were listed, %d read", it.Size, read)
	}
	stater, ok := it.source.(store.Stater)
	if !ok {
		return nil
	}
	now, err := stater.Stat(ctx, it.object.Key)
	switch {
	case err != nil:
		return fmt.Errorf("it changed while it was read: %w", err)
	case now.Size != it.object.Size:
		return fmt.Errorf("it changed while it was read: it had %d bytes, now %d", it.object.Size, now.Size)
	case !now.ModTime.Equal(it.object.ModTime) || now.Version != it.object.Version:
		return fmt.Errorf("it changed while it was read: it was written again")
	}
	return nil
}
