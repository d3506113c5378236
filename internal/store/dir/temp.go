package dir

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"drkit/internal/errext"
	"drkit/internal/store"
)

// temp is a temporary file that this process owns: it holds a flock on it, which
// ends with the process however that ends.
type temp struct {
	root *os.Root
	name string // "" once it has moved to its key
	file *os.File
}

// newTemp makes a temporary file and removes those of the dead.
func (s *Store) newTemp(ctx context.Context, root *os.Root) (*temp, error) {
	unlock, err := s.lock(ctx, root)
	if err != nil {
		return nil, err
	}
	defer unlock()
	sweep(root)
	name := tempFolder + "/" + rand.Text()
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, fileMode)
	if err != nil {
		return nil, fmt.Errorf("making a temporary file: %w", err)
	}
	if err := flock(f); err != nil {
		f.Close()
		root.Remove(name)
		return nil, fmt.Errorf("locking a temporary file: %w", err)
	}
	return &temp{root: root, name: name, file: f}, nil
}

// sweep removes the temporary files that nobody holds. It is called under the
// lock, so a file that was just made is already held. What cannot be removed
// stays for the next writer: it is never listed and does no harm.
func sweep(root *os.Root) {
	entries, err := fs.ReadDir(root.FS(), tempFolder)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || tempFolder+"/"+e.Name() == lockName {
			continue
		}
		f, err := root.OpenFile(tempFolder+"/"+e.Name(), os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if flock(f) == nil {
			root.Remove(tempFolder + "/" + e.Name())
		}
		f.Close()
	}
}

// rename moves the file to its key, over what is there.
func (t *temp) rename(key string) error {
	if err := t.root.Rename(t.name, key); err != nil {
		return fmt.Errorf("moving %s into place: %w", key, err)
	}
	t.name = ""
	return nil
}

// link moves the file to its key when nothing is there. A hard link decides it
// in one step, also against writers that know no lock; where a file system has
// none, the lock alone decides.
func (t *temp) link(key string) error {
	err := t.root.Link(t.name, key)
	switch {
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%s exists already: %w", key, store.ErrPrecondition)
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.EMLINK):
		return t.rename(key)
	case err != nil:
		return fmt.Errorf("moving %s into place: %w", key, err)
	}
	return nil // discard removes the temporary name
}

// discard closes the file and removes its temporary name.
func (t *temp) discard() {
	if t.name != "" {
		t.root.Remove(t.name)
	}
	t.file.Close()
}

// lockName is the file whose flock the writers of a root take in turn.
const lockName = tempFolder + "/.lock"

// lock waits for the root's lock and returns what releases it.
func (s *Store) lock(ctx context.Context, root *os.Root) (unlock func(), err error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	f, err := lockFile(ctx, root)
	if err != nil {
		<-s.turn
		return nil, err
	}
	return func() { f.Close(); <-s.turn }, nil
}

func lockFile(ctx context.Context, root *os.Root) (*os.File, error) {
	if err := root.MkdirAll(tempFolder, dirMode); err != nil {
		return nil, fmt.Errorf("making the folder %s for temporary files: %w", tempFolder, err)
	}
	f, err := root.OpenFile(lockName, os.O_CREATE|os.O_RDWR, fileMode)
	if err != nil {
		return nil, fmt.Errorf("opening the lock of %s: %w", root.Name(), err)
	}
	for {
		err := flock(f)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			f.Close()
			return nil, errext.WithHint(fmt.Errorf("locking %s/%s: %w", root.Name(), lockName, err),
				"the store must lie on a file system with flock")
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			f.Close()
			return nil, context.Cause(ctx)
		}
	}
}

// flock takes an exclusive lock that ends when the file is closed, or fails with
// EWOULDBLOCK when another holds it.
func flock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
