package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestScratch: a scratch folder goes when it is removed; what a killed process left goes
// with the next one, and neither a folder in use nor anybody else's does.
func TestScratch(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	var told bytes.Buffer
	used, remove, err := scratch("drkit-x", &told)
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(tmp, name) }
	left, young, old, other, linked := at("drkit-x-1"), at("drkit-x-2"), at("drkit-x-3"), at("drkit-y-1"), at("elsewhere")
	for _, dir := range []string{left, young, old, other, linked} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{filepath.Join(left, scratchLock), filepath.Join(left, "shard"), filepath.Join(linked, "mine"), at("drkit-x-file")} {
		fillFile(t, file, "x")
	}
	if err := os.Symlink(linked, at("drkit-x-4")); err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-2 * scratchGrace)
	if err := os.Chtimes(old, long, long); err != nil {
		t.Fatal(err)
	}
	again, removeAgain, err := scratch("drkit-x", &told)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{used, again, young, other, filepath.Join(linked, "mine"), at("drkit-x-file"), at("drkit-x-4")} {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("it was not left by anybody: %v", err)
		}
	}
	for _, path := range []string{left, old} {
		if _, err := os.Lstat(path); err == nil || !strings.Contains(told.String(), path) {
			t.Errorf("%s is still there, or nobody said so: %q", path, told.String())
		}
	}
	for _, f := range []func() error{remove, removeAgain} {
		if err := f(); err != nil {
			t.Error(err)
		}
	}
	for _, path := range []string{used, again} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s was not removed", path)
		}
	}
	t.Setenv("TMPDIR", at("drkit-x-file"))
	if _, _, err := scratch("drkit-x", &told); err == nil {
		t.Error("a scratch folder in a file")
	}
}
