// Package dir is a store over a directory: a region on one machine, a mounted
// volume, a model repository or a Hugging Face cache snapshot.
//
// Keys are slash paths below the root. Reading follows symbolic links, as model
// repositories and cache snapshots have them (New), or refuses them, as a copy
// must hold its own bytes (Plain). Writing never passes through a link.
//
// Put writes to a temporary file in .drkit/tmp of the root, hashes on the way,
// syncs, compares, and only then renames, so a key is whole or as it was before,
// also after a kill or a full disk. Writers of one root take turns for that last
// instant by flock, in one process or several. A writer removes the temporary
// files whose owner no longer lives; owners hold a flock on theirs.
//
// A directory keeps no checksums: no object has Sums. Stat gives files of at
// most 1 MiB an ETag, "sha256:…" of their bytes, for conditional writes of small
// records; greater files have none, so a write on condition of an ETag fails.
//
// The root's folder .drkit holds drkit's own records. List shows it only when
// the prefix begins with ".drkit/", and never its temporary files.
package dir

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"drkit/internal/store"
)

// etagLimit is the size in bytes up to which Stat computes an ETag.
const etagLimit = 1 << 20

// Store is a directory as a store.ReadWriter. The root need not exist: until
// the first Put it then has no objects, and List says ErrNotFound.
type Store struct {
	root  string
	plain bool                      // symbolic links are refused on reading too
	turn  chan struct{}             // held by the writer of this process that is in its last instant
	wrap  func(io.Writer) io.Writer // tests make writing fail with it
}

var (
	_ store.ReadWriter = (*Store)(nil)
	_ store.Claimless  = (*Store)(nil)
	_ store.Located    = (*Store)(nil)
	_ store.Glancer    = (*Store)(nil)
)

// New is the directory at root. Reading follows symbolic links, also to outside.
func New(root string) *Store {
	return &Store{root: filepath.Clean(root), turn: make(chan struct{}, 1)}
}

// Plain is the directory at root as a place that must hold the bytes itself: a
// region's store, a folder to restore into. A symbolic link below the root is a
// *store.KeyError with store.ErrLink. The root itself may be one.
func Plain(root string) *Store {
	s := New(root)
	s.plain = true
	return s
}

// Root is the directory's path, as given.
func (s *Store) Root() string { return s.root }

// Location is the directory's absolute path behind all symbolic links, as far as
// it exists.
func (s *Store) Location() string {
	path, err := filepath.Abs(s.root)
	if err != nil {
		path = s.root
	}
	for below := ""; ; {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			return filepath.Join(real, below)
		}
		up := filepath.Dir(path)
		if up == path {
			return filepath.Join(path, below)
		}
		path, below = up, filepath.Join(filepath.Base(path), below)
	}
}

// HoldsNoClaims marks a place whose bytes can only be judged by reading them.
func (s *Store) HoldsNoClaims() {}

// Stat describes one file, with an ETag up to 1 MiB.
func (s *Store) Stat(ctx context.Context, key string) (store.Object, error) {
	name, info, err := s.find(key)
	if err != nil {
		return store.Object{}, err
	}
	o := store.Object{Key: key, Size: info.Size(), ModTime: info.ModTime()}
	if info.Size() > etagLimit {
		return o, nil
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return store.Object{}, describe(key, err)
	}
	o.ETag = etag(data)
	return o, nil
}

// Glance describes one file without reading it.
func (s *Store) Glance(ctx context.Context, key string) (store.Object, error) {
	_, info, err := s.find(key)
	if err != nil {
		return store.Object{}, err
	}
	return store.Object{Key: key, Size: info.Size(), ModTime: info.ModTime()}, nil
}

func etag(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Open reads n bytes from off; n < 0 reads to the end.
func (s *Store) Open(ctx context.Context, o store.Object, off, n int64) (io.ReadCloser, error) {
	if o.Version != "" {
		return nil, fmt.Errorf("%s: version %s: a directory keeps no versions: %w", o.Key, o.Version, store.ErrNotFound)
	}
	name, _, err := s.find(o.Key)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, describe(o.Key, err)
	}
	if _, err := f.Seek(off, io.SeekStart); err != nil {
		f.Close()
		return nil, fmt.Errorf("reading %s from byte %d: %w", o.Key, off, err)
	}
	if n < 0 {
		return f, nil
	}
	return struct {
		io.Reader
		io.Closer
	}{io.LimitReader(f, n), f}, nil
}

// find returns the path and description of a regular file.
func (s *Store) find(key string) (string, fs.FileInfo, error) {
	if err := store.CheckKey(key); err != nil {
		return "", nil, err
	}
	if s.plain {
		if err := s.noLinks(key); err != nil {
			return "", nil, err
		}
	}
	name := filepath.Join(s.root, filepath.FromSlash(key))
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return "", nil, describe(key, err)
	case info.IsDir():
		return "", nil, fmt.Errorf("%s is a folder: %w", key, store.ErrNotFound)
	case !info.Mode().IsRegular():
		return "", nil, &store.KeyError{Key: key, Err: store.ErrIrregular}
	}
	return name, info, nil
}

// noLinks refuses a key that lies behind a symbolic link.
func (s *Store) noLinks(key string) error {
	at := ""
	for part := range strings.SplitSeq(key, "/") {
		at = filepath.Join(at, part)
		info, err := os.Lstat(filepath.Join(s.root, at))
		if err != nil {
			return describe(key, err)
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return &store.KeyError{Key: filepath.ToSlash(at), Err: store.ErrLink}
		}
	}
	return nil
}

// describe turns what the system says of a key into the errors that callers know.
func describe(key string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("%s: %w", key, store.ErrNotFound)
	}
	return &store.KeyError{Key: key, Err: err}
}
