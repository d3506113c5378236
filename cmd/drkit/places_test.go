package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestLinkedStoresAreOnePlace: a copy that is the source itself, by a link or
// inside it, must not verify as a copy.
func TestLinkedStoresAreOnePlace(t *testing.T) {
	dir := t.TempDir()
	us, eu := filepath.Join(dir, "us"), filepath.Join(dir, "eu")
	for _, d := range []string{filepath.Join(us, "inner"), eu} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"same": us, "nested": filepath.Join(us, "inner"), "apart": eu} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]bool{"same": true, "nested": true, "apart": false, "eu": false, "not-there": false} {
		if got := liesIn(filepath.Join(dir, name), us); got != want {
			t.Errorf("%s lies in us: got %v, want %v", name, got, want)
		}
	}
}
