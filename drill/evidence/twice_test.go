package evidence

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drkit/drill/ledger"
	"drkit/internal/errext"
)

// A run that lies in two folders is not judged by one of them, whichever is whole. One
// folder under two names is one.
func TestRunInTwoFolders(t *testing.T) {
	w, runs := three(t)
	backup := t.TempDir()
	if err := os.CopyFS(filepath.Join(backup, "runs"), os.DirFS(filepath.Join(w.dir, "runs"))); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(ledger.Dir(w.dir, runs[0]), FileName), []byte("{}"))
	for _, dirs := range [][]string{{w.dir, backup}, {backup, w.dir}} {
		_, err := Check(t.Context(), w.chain, Options{Dirs: dirs, Runs: runs[:1]})
		if err == nil || !strings.Contains(err.Error(), runs[0]) || errext.StatusOf(err) != errext.Usage {
			t.Errorf("%v: %v", dirs, err)
		}
	}
	alias := filepath.Join(t.TempDir(), "alias")
	if err := os.Symlink(w.dir, alias); err != nil {
		t.Fatal(err)
	}
	if a := w.check(Options{Dirs: []string{w.dir, alias}, Runs: runs[:1]}); len(a.Faults) == 0 {
		t.Error("the changed evidence was not found")
	}
}
