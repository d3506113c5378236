package ledger

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"drkit/internal/errext"
)

// TestOnlyFilesAreJournals: a pipe that nobody writes to would block whoever reads all
// runs of a folder, the next drill too.
func TestOnlyFilesAreJournals(t *testing.T) {
	dir, run := t.TempDir(), id(t, 1)
	path := Path(dir, run)
	for name, put := range map[string]func() error{
		"pipe":   func() error { return syscall.Mkfifo(path, 0o600) },
		"folder": func() error { return os.Mkdir(path, 0o700) },
		"device": func() error { return os.Symlink("/dev/zero", path) },
	} {
		if err := errors.Join(os.RemoveAll(Dir(dir, run)), os.MkdirAll(Dir(dir, run), 0o700), put()); err != nil {
			t.Fatal(err)
		}
		if Live(dir, run) {
			t.Errorf("%s: it is live", name)
		}
		_, loaded := Load(dir, run)
		_, opened := Open(dir, run, nil)
		for _, err := range []error{loaded, opened} {
			if errext.StatusOf(err) != errext.Evidence || !strings.Contains(err.Error(), "no regular file") {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, err := range Read(path) {
			if err == nil {
				t.Errorf("%s: it has an event", name)
			}
		}
	}
}

// TestACopyIsNotAnotherRun: whoever copies the folder of a run to another name, as a
// backup, has not made a second run, and must not take the first one back by it.
func TestACopyIsNotAnotherRun(t *testing.T) {
	dir, run, backup := t.TempDir(), id(t, 1), id(t, 2)
	killed(t, dir, run)
	raw, err := os.ReadFile(Path(dir, run))
	if err == nil {
		err = errors.Join(os.MkdirAll(filepath.Dir(Path(dir, backup)), 0o700), os.WriteFile(Path(dir, backup), raw, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	if r, err := Load(dir, run); err != nil || r.ID != run {
		t.Errorf("the run itself: %v %v", r.ID, err)
	}
	r, loaded := Load(dir, backup)
	_, opened := Open(dir, backup, nil)
	for _, err := range []error{loaded, opened} {
		if !errors.Is(err, ErrCopied) || !strings.Contains(err.Error(), "journal of run "+run) || errext.StatusOf(err) != errext.Evidence || errext.Hint(err) == "" {
			t.Errorf("the copy: %v", err)
		}
	}
	if r.ID != "" {
		t.Errorf("the copy is given as run %s", r.ID)
	}
}
