package replicate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"drkit/internal/errext"
	"drkit/internal/progress"
	"drkit/internal/store"
	"drkit/manifest"
	"drkit/manifest/digest"
	"drkit/manifest/release"
	"drkit/verify"
)

// RestoreOptions changes how Restore works.
type RestoreOptions struct {
	Workers  int // files at once; 0: one a core
	Progress progress.Progress
}

// Restored says what Restore did.
type Restored struct {
	Files       int      `json:"files"`              // that are there now
	Cached      int      `json:"cached"`             // of these, already there and proven by hashing
	Bytes       int64    `json:"bytes"`              // of all files
	CachedBytes int64    `json:"cached_bytes"`       // of the cached ones
	Replaced    []string `json:"replaced,omitempty"` // were there with other content
	Extra       []string `json:"extra,omitempty"`    // beside the release in its engine and deploy parts; untouched
}

// Restore pulls a release out of the copy beneath prefix in src into dst, which
// receives {model,engine,deploy}/… Every file is hashed while it is written and
// shown under its name only when it is the manifest's; every file that is there
// already counts only after it was hashed. An error leaves no wrong file under
// a final name, and the same call again goes on where this one stopped.
//
// A file beneath model/ that the release does not list would be read by the
// engine, so it is refused before anything is written (errext.Refused), as is a
// symbolic link. Open a directory to restore into with dir.Plain.
func Restore(ctx context.Context, m *manifest.Manifest, src store.Source, prefix string, dst store.ReadWriter, opts RestoreOptions) (Restored, error) {
	if len(m.Contents.Files) == 0 {
		return Restored{}, errext.WithStatus(errors.New("the release has no files: there is nothing to restore"), errext.Gate)
	}
	there, extra, err := lookAt(ctx, m, dst)
	if err != nil {
		return Restored{}, err
	}
	r := &restoring{src: src, dst: dst, prefix: prefix, there: there, done: Restored{Extra: extra}}
	files := largestFirst(m.Contents.Files)
	r.task = progress.Start(opts.Progress, "restore", int64(len(files)), totalSize(files))
	defer r.task.Done()
	err = eachFile(ctx, files, opts.Workers, r.file)
	slices.Sort(r.done.Replaced)
	return r.done, err
}

// lookAt lists what is in dst already and refuses what may not be there.
func lookAt(ctx context.Context, m *manifest.Manifest, dst store.Source) (there map[string]store.Object, extra []string, err error) {
	wanted := map[string]bool{}
	for _, f := range m.Contents.Files {
		wanted[f.Subject()] = true
	}
	there = map[string]store.Object{}
	var inModel []string
	for _, part := range []manifest.Part{manifest.Deploy, manifest.Engine, manifest.Model} {
		for o, err := range dst.List(ctx, string(part)+"/") {
			switch {
			case errors.Is(err, store.ErrNotFound) && !isLink(err):
				continue // the folder is made when the first file is written
			case err != nil:
				return nil, nil, errext.WithHint(errext.WithStatus(fmt.Errorf("restoring into a folder that cannot be used: %w", err), errext.Refused),
					"restore into an empty folder, or remove what is named here")
			case wanted[o.Key]:
				there[o.Key] = o
			case part == manifest.Model:
				inModel = append(inModel, o.Key)
			default:
				extra = append(extra, o.Key)
			}
		}
	}
	if len(inModel) > 0 {
		return nil, nil, errext.WithHint(errext.WithStatus(fmt.Errorf("restoring into a folder with files that the release does not list: %s", shorten(inModel)), errext.Refused),
			"an extra file beside the model can change answers: restore into an empty folder, or remove it")
	}
	return there, extra, nil
}

func isLink(err error) bool {
	var link *store.LinkError
	return errors.As(err, &link)
}

// shorten joins at most five names.
func shorten(names []string) string {
	if len(names) > 5 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:5], ", "), len(names)-5)
	}
	return strings.Join(names, ", ")
}

type restoring struct {
	src    store.Source
	dst    store.ReadWriter
	prefix string
	there  map[string]store.Object
	task   *progress.Task

	mu   sync.Mutex
	done Restored
}

// file makes one file right: by proof that it is, or by copying it.
func (r *restoring) file(ctx context.Context, f manifest.File) error {
	name := f.Subject()
	o, there := r.there[name]
	if there && o.Size == f.Size {
		same, err := holds(ctx, r.dst, o, f, r.task)
		if err != nil {
			return fmt.Errorf("restoring %s: checking the file that is there: %w", name, err)
		}
		if same {
			r.count(f, true, false)
			return nil
		}
	}
	key := release.Key(r.prefix, f)
	body := store.ObjectBody(r.src, store.Object{Key: key}, f.Size, f.Sums)
	if _, err := r.dst.Put(ctx, name, counting(body, r.task), store.Cond{}); err != nil {
		return r.explain(ctx, f, key, err)
	}
	r.count(f, false, there)
	return nil
}

func (r *restoring) explain(ctx context.Context, f manifest.File, key string, err error) error {
	err = fmt.Errorf("restoring %s from %s: %w", f.Subject(), key, err)
	switch {
	case errors.Is(err, store.ErrMismatch):
		hint := "the copy is damaged there: drkit verify --level content names all of it, drkit replicate repairs it"
		if what, ok := r.recognise(ctx, f, key); ok {
			err, hint = fmt.Errorf("%w: %s", err, what.What), what.Hint
		}
		return errext.WithHint(errext.WithStatus(err, errext.Gate), hint)
	case errors.Is(err, store.ErrNotFound):
		return errext.WithHint(errext.WithStatus(err, errext.Gate), "the copy is not whole: drkit verify names all that is missing, drkit replicate repairs it")
	}
	return err
}

// recognise says what became of a file whose copy has another size. That it is
// refused stands without.
func (r *restoring) recognise(ctx context.Context, f manifest.File, key string) (verify.Framing, bool) {
	s, ok := r.src.(store.Stater)
	if !ok {
		return verify.Framing{}, false
	}
	o, err := s.Stat(ctx, key)
	if err != nil {
		return verify.Framing{}, false
	}
	sha256 := store.Sum{Digest: digest.Digest{Algorithm: digest.SHA256, Hex: f.Sums[digest.SHA256]}}
	return verify.RecogniseAt(ctx, r.src, o, f.Subject(), f.Size, []store.Sum{sha256})
}

func (r *restoring) count(f manifest.File, cached, replaced bool) {
	r.task.Add(1, 0)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done.Files++
	r.done.Bytes += f.Size
	if cached {
		r.done.Cached++
		r.done.CachedBytes += f.Size
	}
	if replaced {
		r.done.Replaced = append(r.done.Replaced, f.Subject())
	}
}

// holds reads an object and reports whether its bytes are those of f.
func holds(ctx context.Context, s store.Source, o store.Object, f manifest.File, task *progress.Task) (bool, error) {
	_, err := store.CopyBody(ctx, discard{}, o.Key, counting(store.ObjectBody(s, o, f.Size, digest.Set{digest.SHA256: f.Sums[digest.SHA256]}), task))
	if errors.Is(err, store.ErrMismatch) {
		return false, nil
	}
	return err == nil, err
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func largestFirst(files []manifest.File) []manifest.File {
	files = slices.Clone(files)
	slices.SortStableFunc(files, func(a, b manifest.File) int { return cmp.Compare(b.Size, a.Size) })
	return files
}

func totalSize(files []manifest.File) (n int64) {
	for _, f := range files {
		n += f.Size
	}
	return n
}

// eachFile runs do on every file, some at once, and stops at the first error.
func eachFile(ctx context.Context, files []manifest.File, workers int, do func(context.Context, manifest.File) error) error {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for _, f := range files {
		g.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return do(ctx, f)
		})
	}
	return g.Wait()
}
