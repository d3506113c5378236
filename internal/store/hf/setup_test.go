package hf_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"drkit/internal/store/hf/hftest"
)

// commit is the one that the cache in testdata was downloaded from.
const commit = hftest.Commit

func newHub(t *testing.T) *hftest.Hub { return &hftest.Hub{Files: repoFiles(t)} }

// repoFiles is the repository as it was uploaded.
func repoFiles(t *testing.T) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir("testdata/repo", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel("testdata/repo", path)
		files[filepath.ToSlash(rel)], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
