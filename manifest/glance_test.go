package manifest_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"drkit/internal/store"
	"drkit/internal/store/dir"
	"drkit/manifest"
)

// meddled is a directory in which something happens as a file is opened.
type meddled struct {
	*dir.Store
	t      *testing.T
	meddle func(path string) error
}

func (m meddled) Open(ctx context.Context, o store.Object, off, n int64) (io.ReadCloser, error) {
	r, err := m.Store.Open(ctx, o, off, n)
	if err == nil && m.meddle != nil {
		err = m.meddle(filepath.Join(m.Root(), o.Key))
	}
	return r, err
}

// Stat would read the file a second time.
func (m meddled) Stat(ctx context.Context, key string) (store.Object, error) {
	m.t.Errorf("Stat was asked for %s", key)
	return m.Store.Stat(ctx, key)
}

func TestBuildNoticesChangesInADirectory(t *testing.T) {
	for name, c := range map[string]struct {
		meddle func(path string) error
		want   string // "" when nothing is wrong
	}{
		"untouched": {nil, ""},
		"replaced by as many bytes": {func(path string) error {
			if err := os.WriteFile(path+".new", []byte("[]"), 0o600); err != nil {
				return err
			}
			if err := os.Chtimes(path+".new", time.Time{}, time.Unix(1, 0)); err != nil {
				return err
			}
			return os.Rename(path+".new", path)
		}, "it was written again"},
		"replaced by more": {func(path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.WriteFile(path, []byte("[1]"), 0o600)
		}, "it had 2 bytes, now 3"},
		"removed": {os.Remove, "it changed while it was read"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			if err := os.WriteFile(filepath.Join(root, "config.json"), []byte("{}"), 0o600); err != nil {
				t.Fatal(err)
			}
			_, _, err := manifest.Build(t.Context(), manifest.Input{Model: manifest.Tree{Source: meddled{dir.New(root), t, c.meddle}}})
			if (err == nil) != (c.want == "") || (err != nil && !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
