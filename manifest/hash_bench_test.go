package manifest_test

import (
	"crypto/sha256"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// TestSHA256Rate is a yardstick of scripts/bench-hash, which takes its time: two
// goroutines take the SHA-256 of DRKIT_HASH_MIB MiB of memory each.
func TestSHA256Rate(t *testing.T) {
	each, err := strconv.Atoi(os.Getenv("DRKIT_HASH_MIB"))
	if err != nil {
		t.Skip("set DRKIT_HASH_MIB")
	}
	block := make([]byte, 1<<20)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			h := sha256.New()
			for range each {
				h.Write(block)
			}
			h.Sum(nil)
		})
	}
	wg.Wait()
}

// TestSHA256Files is the other yardstick: two goroutines read the files below
// DRKIT_HASH_DIR, 1 MiB at a time, and take nothing but their SHA-256.
func TestSHA256Files(t *testing.T) {
	root := os.Getenv("DRKIT_HASH_DIR")
	if root == "" {
		t.Skip("set DRKIT_HASH_DIR")
	}
	paths := make(chan string)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			buffer := make([]byte, 1<<20)
			for path := range paths {
				f, err := os.Open(path)
				if err != nil {
					t.Error(err)
					continue
				}
				h := sha256.New()
				if _, err := io.CopyBuffer(h, struct{ io.Reader }{f}, buffer); err != nil {
					t.Error(err)
				}
				h.Sum(nil)
				f.Close()
			}
		})
	}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			paths <- path
		}
		return err
	})
	close(paths)
	wg.Wait()
	if err != nil {
		t.Error(err)
	}
}
