package dir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/manifest/digest"
)

// Modes before the umask: an engine usually runs as another user and must be
// able to read what a person restored.
const (
	fileMode = 0o644
	dirMode  = 0o755
)

// Put writes an object whole, checked and synced, or leaves the key as it was.
func (s *Store) Put(ctx context.Context, key string, b store.Body, c store.Cond) (store.Object, error) {
	if err := store.CheckKey(key); err != nil {
		return store.Object{}, err
	}
	if isTemp(key) {
		return store.Object{}, fmt.Errorf("key %q is among this store's temporary files: %w", key, store.ErrUnrepresentable)
	}
	root, err := s.openRoot()
	if err != nil {
		return store.Object{}, err
	}
	defer root.Close()
	// Asked again in the last instant; here it spares the copy of what cannot be.
	if err := check(root, key, c); err != nil {
		return store.Object{}, err
	}
	o, err := s.write(ctx, root, key, b, c)
	return o, s.explain(key, b.Size, err)
}

// write copies the body to a temporary file and moves that to the key.
func (s *Store) write(ctx context.Context, root *os.Root, key string, b store.Body, c store.Cond) (o store.Object, err error) {
	t, err := s.newTemp(ctx, root)
	if err != nil {
		return o, err
	}
	defer t.discard()
	var w io.Writer = t.file
	if s.wrap != nil {
		w = s.wrap(w)
	}
	sums, err := store.CopyBody(ctx, w, key, b)
	if err != nil {
		return o, err
	}
	if err := t.file.Sync(); err != nil {
		return o, fmt.Errorf("writing %s: %w", key, err)
	}
	info, err := t.file.Stat()
	if err != nil {
		return o, fmt.Errorf("writing %s: %w", key, err)
	}
	made, err := s.move(ctx, root, t, key, c)
	if err != nil {
		return o, err
	}
	o = store.Object{Key: key, Size: info.Size(), ModTime: info.ModTime()}
	if o.Size <= etagLimit {
		o.ETag = "sha256:" + sums[digest.SHA256]
	}
	return o, syncFolders(root, path.Dir(key), made)
}

// move puts the temporary file in its place. It reports whether it made folders.
func (s *Store) move(ctx context.Context, root *os.Root, t *temp, key string, c store.Cond) (made bool, err error) {
	unlock, err := s.lock(ctx, root)
	if err != nil {
		return false, err
	}
	defer unlock()
	if err := check(root, key, c); err != nil {
		return false, err
	}
	if folder := path.Dir(key); folder != "." {
		_, err := root.Lstat(folder)
		made = err != nil
		if err := root.MkdirAll(folder, dirMode); err != nil {
			return false, fmt.Errorf("making the folder of %s: %w", key, err)
		}
	}
	if c.Absent {
		return made, t.link(key)
	}
	return made, t.rename(key)
}

// check says whether key can be written now under the condition.
func check(root *os.Root, key string, c store.Cond) error {
	for i := range key {
		if key[i] != '/' {
			continue
		}
		info, err := root.Lstat(key[:i])
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return checkCond(root, key, c)
		case err != nil:
			return fmt.Errorf("looking at %s: %w", key[:i], err)
		case info.Mode()&fs.ModeSymlink != 0:
			return errext.WithHint(fmt.Errorf("writing %s: %w", key, &store.KeyError{Key: key[:i], Err: store.ErrLink}),
				"nothing is written through a symbolic link; replace it by a folder")
		case !info.IsDir():
			return fmt.Errorf("key %q: %q is a file: %w", key, key[:i], store.ErrUnrepresentable)
		}
	}
	return checkCond(root, key, c)
}

func checkCond(root *os.Root, key string, c store.Cond) error {
	info, err := root.Lstat(key)
	there := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("looking at %s: %w", key, err)
	}
	switch {
	case there && info.IsDir():
		return fmt.Errorf("key %q is a folder: %w", key, store.ErrUnrepresentable)
	case c.Absent && there:
		return fmt.Errorf("%s exists already: %w", key, store.ErrPrecondition)
	case c.ETag == "":
		return nil
	case !there || !info.Mode().IsRegular() || info.Size() > etagLimit:
		return fmt.Errorf("%s is not there with ETag %s: %w", key, c.ETag, store.ErrPrecondition)
	}
	data, err := root.ReadFile(key)
	if err != nil {
		return fmt.Errorf("reading %s: %w", key, err)
	}
	if now := etag(data); now != c.ETag {
		return fmt.Errorf("%s has ETag %s, not %s: %w", key, now, c.ETag, store.ErrPrecondition)
	}
	return nil
}

// Remove deletes a file, and the folders that it leaves empty.
func (s *Store) Remove(ctx context.Context, key string, c store.Cond) error {
	if err := store.CheckKey(key); err != nil {
		return err
	}
	if _, err := os.Stat(s.root); errors.Is(err, fs.ErrNotExist) && c.ETag == "" {
		return nil
	}
	root, err := s.openRoot()
	if err != nil {
		return err
	}
	defer root.Close()
	unlock, err := s.lock(ctx, root)
	if err != nil {
		return err
	}
	defer unlock()
	err = check(root, key, store.Cond{ETag: c.ETag})
	if errors.Is(err, store.ErrUnrepresentable) {
		return nil // a folder, or below a file: no such object
	}
	if err != nil {
		return err
	}
	if err := root.Remove(key); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("removing %s: %w", key, err)
	}
	return prune(root, path.Dir(key))
}

// prune removes a folder and those above it while they are empty.
func prune(root *os.Root, folder string) error {
	for folder != "." && root.Remove(folder) == nil {
		folder = path.Dir(folder)
	}
	return syncFolders(root, folder, false)
}

// openRoot opens the root for writing and makes it when it is not there.
func (s *Store) openRoot() (*os.Root, error) {
	if err := os.MkdirAll(s.root, dirMode); err != nil {
		return nil, fmt.Errorf("making the directory %s: %w", s.root, err)
	}
	root, err := os.OpenRoot(s.root)
	if err != nil {
		return nil, fmt.Errorf("opening the directory %s: %w", s.root, err)
	}
	return root, nil
}

// syncFolders makes the entries of a folder durable; with made also those of
// the folders above it.
func syncFolders(root *os.Root, folder string, made bool) error {
	for {
		d, err := root.Open(folder)
		if err != nil {
			return fmt.Errorf("syncing the folder %s: %w", folder, err)
		}
		err = d.Sync()
		d.Close()
		// Some network file systems cannot sync a folder; they write through.
		if err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
			return fmt.Errorf("syncing the folder %s: %w", folder, err)
		}
		if !made || folder == "." {
			return nil
		}
		folder = path.Dir(folder)
	}
}

// explain adds what to do to errors that a person can mend.
func (s *Store) explain(key string, size int64, err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return errext.WithHint(fmt.Errorf("the disk of %s is full: %s (%d bytes) was not written: %w", s.root, key, size, err),
			"free space there and run the same command again: what was copied stays and is not copied again")
	case errors.Is(err, syscall.EROFS):
		return errext.WithHint(err, "the file system of "+s.root+" is mounted read-only")
	case errors.Is(err, syscall.EXDEV):
		return errext.WithHint(err, "a folder below "+s.root+" is another file system: use that as the store itself")
	}
	return err
}

// recordFolder holds drkit's own records in a store's root.
const recordFolder = ".drkit"

// tempFolder holds temporary files and the lock.
const tempFolder = recordFolder + "/tmp"

// isTemp reports whether a key lies directly in a folder of temporary files, of
// this root or of one below it.
func isTemp(key string) bool {
	folder := path.Dir(key)
	return !strings.HasSuffix(key, "/") && (folder == tempFolder || strings.HasSuffix(folder, "/"+tempFolder))
}
