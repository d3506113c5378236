package dir

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"drkit/internal/errext"
	"drkit/internal/store"
)

// List yields the files beneath prefix in byte order of their keys, one folder
// in memory at a time. A dangling link or a link that leads back is yielded as
// a *store.LinkError, an unreadable folder and anything else that is no file as
// a *store.KeyError; the listing goes on after each.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[store.Object, error] {
	return func(yield func(store.Object, error) bool) {
		w := &walk{s: s, ctx: ctx, prefix: prefix, yield: yield}
		if err := store.CheckPrefix(prefix); err != nil {
			yield(store.Object{}, err)
			return
		}
		above, err := s.ancestors()
		if err != nil {
			yield(store.Object{}, err)
			return
		}
		w.base(prefix[:strings.LastIndexByte(prefix, '/')+1], above)
	}
}

// noDirectory is the root that is not there. It is a store.ErrNotFound whose words would
// say it twice.
type noDirectory string

func (d noDirectory) Error() string { return "the directory " + string(d) + " does not exist" }
func (noDirectory) Unwrap() error   { return store.ErrNotFound }

// ancestors describes the root and every folder above it, to which a link would
// be a loop.
func (s *Store) ancestors() ([]fs.FileInfo, error) {
	real, err := filepath.EvalSymlinks(s.root)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errext.WithHint(noDirectory(s.root), "check the path; a place that is to be compared while it is empty has to be made first")
	}
	if err != nil {
		return nil, fmt.Errorf("opening the directory %s: %w", s.root, err)
	}
	info, err := os.Stat(real)
	if err != nil {
		return nil, fmt.Errorf("opening the directory %s: %w", s.root, err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is a file, not a directory", s.root)
	}
	all := []fs.FileInfo{info}
	for at := filepath.Dir(real); ; at = filepath.Dir(at) {
		if info, err := os.Stat(at); err == nil {
			all = append(all, info)
		}
		if at == filepath.Dir(at) {
			return all, nil
		}
	}
}

type walk struct {
	s      *Store
	ctx    context.Context
	prefix string
	yield  func(store.Object, error) bool
}

// base enters the folder that the prefix names ("" or with a slash at its end)
// and lists it; a folder that is not there holds no objects.
func (w *walk) base(folder string, above []fs.FileInfo) {
	for i := range folder {
		if folder[i] != '/' {
			continue
		}
		if w.s.plain {
			var link *store.KeyError
			if err := w.s.noLinks(folder[:i]); errors.As(err, &link) {
				w.yield(store.Object{}, link)
				return
			}
		}
		info, err := os.Stat(w.path(folder[:i]))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || (err == nil && !info.IsDir()) {
			return
		}
		if err != nil {
			w.yield(store.Object{}, &store.KeyError{Key: folder[:i+1], Err: err})
			return
		}
		above = append(above, info)
	}
	w.folder(folder, above)
}

func (w *walk) path(key string) string { return filepath.Join(w.s.root, filepath.FromSlash(key)) }

// entry is one name of a folder, described through a link when it is one.
type entry struct {
	key  string // a folder's ends with a slash
	info fs.FileInfo
	err  error
}

// folder lists one folder; above are those that contain it, itself included.
// It returns false when the reader has had enough.
func (w *walk) folder(folder string, above []fs.FileInfo) bool {
	names, err := os.ReadDir(w.path(folder))
	if err != nil && !w.yield(store.Object{}, &store.KeyError{Key: cmp.Or(folder, "./"), Err: err}) {
		return false
	}
	entries := make([]entry, 0, len(names))
	for _, n := range names {
		if e := w.describe(folder+n.Name(), n, above); w.wanted(e.key) {
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.key, b.key) })
	for _, e := range entries {
		if !w.entry(e, above) {
			return false
		}
	}
	return true
}

func (w *walk) entry(e entry, above []fs.FileInfo) bool {
	if err := context.Cause(w.ctx); err != nil {
		w.yield(store.Object{}, err)
		return false
	}
	switch {
	case e.err != nil:
		return w.yield(store.Object{}, e.err)
	case e.info.IsDir():
		return w.folder(e.key, append(slices.Clip(above), e.info))
	}
	return w.yield(store.Object{Key: e.key, Size: e.info.Size(), ModTime: e.info.ModTime()}, nil)
}

// wanted reports whether a key is beneath the prefix, or a folder on the way to
// it, and no record of drkit's own that was not asked for.
func (w *walk) wanted(key string) bool {
	if own := recordFolder + "/"; strings.HasPrefix(key, own) && !strings.HasPrefix(w.prefix, own) {
		return false
	}
	return !isTemp(key) && strings.HasPrefix(key, w.prefix)
}

func (w *walk) describe(key string, n fs.DirEntry, above []fs.FileInfo) entry {
	link := n.Type()&fs.ModeSymlink != 0
	if link && w.s.plain {
		return entry{key: key, err: &store.KeyError{Key: key, Err: store.ErrLink}}
	}
	info, err := os.Stat(w.path(key))
	switch {
	case errors.Is(err, syscall.ELOOP):
		return entry{key: key, err: w.link(key, true)}
	case link && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)):
		return entry{key: key, err: w.link(key, false)}
	case err != nil:
		return entry{key: key, err: &store.KeyError{Key: key, Err: err}}
	case info.IsDir() && slices.ContainsFunc(above, func(a fs.FileInfo) bool { return os.SameFile(a, info) }):
		return entry{key: key, err: w.link(key, true)}
	case info.IsDir():
		return entry{key: key + "/", info: info}
	case !info.Mode().IsRegular():
		return entry{key: key, err: &store.KeyError{Key: key, Err: store.ErrIrregular}}
	}
	return entry{key: key, info: info}
}

func (w *walk) link(key string, loop bool) error {
	target, _ := os.Readlink(w.path(key)) // only for the message
	return &store.LinkError{Key: key, Target: target, Loop: loop}
}
