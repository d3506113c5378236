package manifest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"

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
	m.Annotations = annotate(c, in)
	m.Annotations.Origins, m.Annotations.Pins = c.origins, pins(c.items)
	m.Contents.Files = slices.Grow(m.Contents.Files, len(c.items))
	for _, it := range c.items {
		m.Contents.Files = append(m.Contents.Files, it.File)
	}
	m.Contents.Images = c.images
	sortContents(&m.Contents)
	m.Release = ReleaseID(m.Contents)
	return m, newFiles(c.items), nil
}

// pins are the versions that were read, where the source keeps versions.
func pins(items []*item) map[string]string {
	var all map[string]string
	for _, it := range items {
		if it.more == nil || it.more.Version == "" {
			continue
		}
		if all == nil {
			all = map[string]string{}
		}
		all[it.Subject()] = it.more.Version
	}
	return all
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
	var mu sync.Mutex // of c.problems
	g.SetLimit(cmp.Or(max(in.Workers, 0), runtime.GOMAXPROCS(0)))
	for _, it := range c.items {
		if each.Err() != nil {
			break
		}
		g.Go(func() error {
			wrong, err := it.read(each, task)
			if err != nil {
				return fmt.Errorf("reading %s: %w", it.Subject(), err)
			}
			if wrong != nil {
				mu.Lock()
				c.problems = append(c.problems, wrong...)
				mu.Unlock()
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
// It returns how the content contradicts what the source states.
func (it *item) read(ctx context.Context, task *progress.Task) ([]Problem, error) {
	body := it.body()
	r, err := body.Open(ctx, 0, -1)
	if err != nil {
		return nil, advise(err, "every file of a release must be readable: check its permissions")
	}
	defer r.Close()
	stated := it.stated()
	tee, further := io.Writer(it.capture), stated.further(it.Size)
	if further != nil {
		tee = io.MultiWriter(it.capture, further)
	}
	sums, n, err := digest.Read(counted{r, task}, it.Size, digest.Options{Tee: tee})
	if err != nil {
		return nil, advise(err, "every file of a release must be readable: check its permissions and the disk")
	}
	if err := it.unchanged(ctx, n); err != nil {
		return nil, errext.WithHint(err, "something still writes into the folder: let the copy or download end, then run this again")
	}
	it.Sums = sums
	wrong := stated.contradicted(it.File, sums)
	if further != nil {
		wrong = append(wrong, stated.contradicted(it.File, further.Sums())...)
	}
	return wrong, nil
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
	describe := describer(it.source)
	if describe == nil {
		return nil
	}
	was := it.object()
	now, err := describe(ctx, was.Key)
	switch {
	case err != nil:
		return fmt.Errorf("it changed while it was read: %w", err)
	case now.Size != was.Size:
		return fmt.Errorf("it changed while it was read: it had %d bytes, now %d", was.Size, now.Size)
	case !now.ModTime.Equal(was.ModTime) || (was.Version != "" && now.Version != was.Version): // a listing may tell no versions
		return fmt.Errorf("it changed while it was read: it was written again")
	}
	return nil
}

// describer asks a source about one key, as cheaply as it can be asked; nil when it
// cannot.
func describer(s store.Source) func(context.Context, string) (store.Object, error) {
	switch s := s.(type) {
	case store.Glancer:
		return s.Glance
	case store.Stater:
		return s.Stat
	}
	return nil
}
