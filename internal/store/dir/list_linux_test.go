package dir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"drkit/internal/store"
)

// asNobody runs f without the rights of root: Linux keeps the user whose rights
// count for files by thread.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	if os.Getuid() != 0 {
		f()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETFSUID, 65534, 0, 0); errno != 0 {
			panic(errno)
		}
		f()
	}()
	<-done
}

func TestUnreadableFolderAndFile(t *testing.T) {
	root := tree(t, "a/x", "locked/y", "secret", "z")
	os.Chmod(filepath.Dir(root), 0o755) // the test's own folder is closed to others
	os.Chmod(filepath.Join(root, "locked"), 0)
	os.Chmod(filepath.Join(root, "secret"), 0)
	defer os.Chmod(filepath.Join(root, "locked"), 0o755)
	var closed error
	asNobody(t, func() {
		if _, closed = os.ReadDir(root); closed != nil {
			return
		}
		got := listing(t, New(root), "")
		want := []string{"a/x", fmt.Sprintf("! locked/: open %s/locked: permission denied", root), "secret", "z"}
		if !slices.Equal(got, want) {
			t.Errorf("listing %q, want %q", got, want)
		}
		_, err := New(root).Open(t.Context(), store.Object{Key: "secret"}, 0, -1)
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "secret") {
			t.Errorf("Open: %v", err)
		}
	})
	if closed != nil {
		t.Skip("the folder for tests lies where others may not look: ", closed)
	}
}
