package dir

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"drkit/internal/store"
)

func TestGlance(t *testing.T) {
	root := t.TempDir()
	when := time.Unix(1700000000, 0)
	for _, err := range []error{
		os.WriteFile(filepath.Join(root, "a"), []byte("abc"), 0o600), os.Chtimes(filepath.Join(root, "a"), when, when),
		os.Mkdir(filepath.Join(root, "folder"), 0o700), os.Symlink("a", filepath.Join(root, "link")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if o, err := New(root).Glance(t.Context(), "link"); err != nil || o.Size != 3 || !o.ModTime.Equal(when) || o.ETag != "" {
		t.Errorf("through a link: %+v, %v", o, err)
	}
	for key, want := range map[string]error{"none": store.ErrNotFound, "folder": store.ErrNotFound, "a/b": store.ErrNotFound, "link": store.ErrLink} {
		if o, err := Plain(root).Glance(t.Context(), key); !errors.Is(err, want) {
			t.Errorf("%s: %+v, %v, want %v", key, o, err, want)
		}
	}
}
