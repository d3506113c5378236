package dir

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"drkit/internal/store"
)

// A write changes what a file is known by, though its size and time of modification
// are set back; reading does not. A link is known by what it leads to.
func TestIdentity(t *testing.T) {
	root := t.TempDir()
	path, when := filepath.Join(root, "a"), time.Unix(1700000000, 0)
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, when, when); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now().Add(-time.Second) // a file system's clock may be a tick behind
	write("abc")
	if err := os.Symlink("a", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	s := New(root)
	before, changed := s.Identity(store.Object{Key: "a"})
	if before == "" || changed.Before(began) {
		t.Fatalf("%q, changed %v", before, changed)
	}
	if _, err := os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "link"} {
		if again, _ := s.Identity(store.Object{Key: key}); again != before {
			t.Errorf("%s: %q, then %q", key, before, again)
		}
	}
	after := before
	for end := time.Now().Add(5 * time.Second); after == before && time.Now().Before(end); { // the next tick
		write("xyz")
		after, _ = s.Identity(store.Object{Key: "link"})
	}
	if after == before {
		t.Errorf("other bytes are known by %q, too", after)
	}
	if text, _ := s.Identity(store.Object{Key: "none"}); text != "" {
		t.Errorf("what is not there is known by %q", text)
	}
}
