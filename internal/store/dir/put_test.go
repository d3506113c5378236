package dir

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/manifest/digest"
)

func put(s *Store, key, content string) error {
	_, err := s.Put(context.Background(), key, store.BytesBody([]byte(content)), store.Cond{})
	return err
}

// temps lists what lies in the folder of temporary files, the lock aside.
func temps(t *testing.T, root string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(root, tempFolder))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != ".lock" {
			names = append(names, e.Name())
		}
	}
	return names
}

func TestNothingIsWrittenThroughLinks(t *testing.T) {
	outside := t.TempDir()
	for _, s := range []*Store{New(tree(t, "real/file", "out -> "+outside, "in -> real")), Plain(tree(t, "real/file", "out -> "+outside, "in -> real"))} {
		for _, key := range []string{"out/file", "in/file", "out/new/file"} {
			if err := put(s, key, "x"); !errors.Is(err, store.ErrLink) || errext.Hint(err) == "" {
				t.Errorf("Put(%s): %v", key, err)
			}
			if err := s.Remove(t.Context(), key, store.Cond{}); !errors.Is(err, store.ErrLink) {
				t.Errorf("Remove(%s): %v", key, err)
			}
		}
		if data, _ := os.ReadFile(filepath.Join(s.Root(), "real/file")); string(data) != "real/file" {
			t.Errorf("the file behind the link holds %q", data)
		}
	}
	if entries, _ := os.ReadDir(outside); len(entries) > 0 {
		t.Errorf("written outside: %v", entries)
	}
}

func TestPutReplacesALinkItself(t *testing.T) {
	root := tree(t, "elsewhere", "key -> elsewhere")
	if err := put(New(root), "key", "new"); err != nil {
		t.Fatal(err)
	}
	if data, _ := os.ReadFile(root + "/elsewhere"); string(data) != "elsewhere" {
		t.Errorf("the link's target holds %q", data)
	}
	if info, err := os.Lstat(root + "/key"); err != nil || !info.Mode().IsRegular() {
		t.Errorf("the key is %v, %v", info, err)
	}
}

func TestARootThatIsALinkServes(t *testing.T) {
	root := tree(t, "real/file", "link -> real")
	if err := put(Plain(root+"/link"), "new", "x"); err != nil {
		t.Fatal(err)
	}
	if got := listing(t, Plain(root+"/link"), ""); len(got) != 2 {
		t.Errorf("listing %q", got)
	}
}

// A weight file that only its writer can read keeps an engine of another user
// from booting.
func TestModes(t *testing.T) {
	old := syscall.Umask(0o027)
	defer syscall.Umask(old)
	root := t.TempDir()
	if err := put(New(root), "a/b/file", "x"); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{"a": 0o750, "a/b": 0o750, "a/b/file": 0o640} {
		if info, err := os.Stat(filepath.Join(root, path)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, %v; want %o", path, info.Mode(), err, want)
		}
	}
}

// failing writes some bytes and then fails as a full disk does.
type failing struct {
	w    io.Writer
	left int
}

func (f *failing) Write(p []byte) (int, error) {
	if len(p) > f.left {
		return 0, &os.PathError{Op: "write", Path: "tmp", Err: syscall.ENOSPC}
	}
	f.left -= len(p)
	return f.w.Write(p)
}

func TestFullDisk(t *testing.T) {
	root := t.TempDir()
	s := New(root)
	if err := put(s, "weights", "as it was"); err != nil {
		t.Fatal(err)
	}
	s.wrap = func(w io.Writer) io.Writer { return &failing{w, 2 << 20} }
	err := put(s, "weights", strings.Repeat("x", 5<<20))
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), root+" is full") || errext.Hint(err) == "" {
		t.Errorf("error %v, hint %q", err, errext.Hint(err))
	}
	if data, _ := os.ReadFile(root + "/weights"); string(data) != "as it was" {
		t.Errorf("the key holds %d bytes", len(data))
	}
	if left := temps(t, root); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestLeftoversOfTheDeadAreRemoved(t *testing.T) {
	root := tree(t, tempFolder+"/DEAD", tempFolder+"/ALIVE", "key")
	alive, err := os.Open(filepath.Join(root, tempFolder, "ALIVE"))
	if err != nil {
		t.Fatal(err)
	}
	if err := flock(alive); err != nil { // as its owner does
		t.Fatal(err)
	}
	if err := put(New(root), "other", "x"); err != nil {
		t.Fatal(err)
	}
	if left := temps(t, root); len(left) != 1 || left[0] != "ALIVE" {
		t.Errorf("left: %v, want the file that is held", left)
	}
	alive.Close()
	if err := put(New(root), "other", "y"); err != nil {
		t.Fatal(err)
	}
	if left := temps(t, root); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestATemporaryFileIsNoKey(t *testing.T) {
	if err := put(New(t.TempDir()), tempFolder+"/x", "x"); !errors.Is(err, store.ErrUnrepresentable) {
		t.Errorf("error %v", err)
	}
	// Of a region that is called tmp, whose state lies in .drkit.
	if err := put(New(t.TempDir()), tempFolder+"/support/CURRENT", "x"); err != nil {
		t.Error(err)
	}
}

func TestWaitingForTheLockEndsWithTheContext(t *testing.T) {
	root := t.TempDir()
	s := New(root)
	r, err := s.openRoot()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	unlock, err := New(root).lock(t.Context(), r) // another process, as it were
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error)
	go func() {
		_, err := s.Put(ctx, "key", store.BytesBody(nil), store.Cond{})
		done <- err
	}()
	cancel(stop)
	if err := <-done; !errors.Is(err, stop) {
		t.Errorf("error %v", err)
	}
}

func TestETagOnlyOfSmallFiles(t *testing.T) {
	s := New(t.TempDir())
	// The SHA-256 of "abc", from FIPS 180-2.
	const abc = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	if o, err := s.Put(t.Context(), "small", store.BytesBody([]byte("abc")), store.Cond{}); err != nil || o.ETag != abc {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err := s.Stat(t.Context(), "small"); err != nil || o.ETag != abc || o.Sums != nil {
		t.Errorf("%+v, %v", o, err)
	}
	large := store.BytesBody(make([]byte, etagLimit+1))
	o, err := s.Put(t.Context(), "large", large, store.Cond{})
	if err != nil || o.ETag != "" {
		t.Errorf("%+v, %v", o, err)
	}
	_, err = s.Put(t.Context(), "large", large, store.Cond{ETag: "sha256:" + large.Sums[digest.SHA256]})
	if !errors.Is(err, store.ErrPrecondition) {
		t.Errorf("a write on condition of a great file's content: %v", err)
	}
}

func TestVersionsAreNotKept(t *testing.T) {
	s := New(tree(t, "a"))
	if _, err := s.Open(t.Context(), store.Object{Key: "a", Version: "7"}, 0, -1); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("error %v", err)
	}
}
