package dir

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"drkit/internal/store"
)

// tree makes files (content is the name), and links for names with " -> ".
func tree(t *testing.T, names ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, n := range names {
		name, target, link := strings.Cut(n, " -> ")
		path := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if link {
			err = errors.Join(err, os.Symlink(target, path))
		} else {
			err = errors.Join(err, os.WriteFile(path, []byte(name), 0o644))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// listing is every key in order, errors as "!" and their text.
func listing(t *testing.T, s *Store, prefix string) []string {
	var all []string
	for o, err := range s.List(t.Context(), prefix) {
		if err != nil {
			all = append(all, "! "+err.Error())
		} else {
			all = append(all, o.Key)
		}
	}
	return all
}

func TestListFollowsLinks(t *testing.T) {
	root := tree(t,
		"blobs/abc", "snapshots/rev/config.json -> ../../blobs/abc", "snapshots/rev/onnx -> ../../shared", "shared/model.onnx",
		"snapshots/rev/gone -> ../../blobs/nothing", "snapshots/rev/self -> self", "snapshots/rev/up -> ..", "snapshots/rev/top -> /",
		"snapshots/rev/here -> .", "snapshots/rev/zz",
	)
	want := []string{
		"config.json",
		"! gone: the symbolic link points to ../../blobs/nothing, which does not exist",
		"! here: the symbolic link to . leads back to itself",
		"onnx/model.onnx",
		"! self: the symbolic link to self leads back to itself",
		"! top: the symbolic link to / leads back to itself",
		"! up: the symbolic link to .. leads back to itself",
		"zz",
	}
	snapshot := New(filepath.Join(root, "snapshots/rev"))
	if got := listing(t, snapshot, ""); !slices.Equal(got, want) {
		t.Errorf("listing\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	data, err := store.ReadAll(t.Context(), snapshot, store.Object{Key: "config.json"}, 100)
	if string(data) != "blobs/abc" || err != nil {
		t.Errorf("read %q, %v", data, err)
	}
	for o, err := range snapshot.List(t.Context(), "gone") {
		var link *store.LinkError
		if !errors.As(err, &link) || link.Key != "gone" || link.Loop || !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%+v, %v", o, err)
		}
	}
	if _, err := snapshot.Stat(t.Context(), "self"); err == nil || errors.Is(err, store.ErrNotFound) {
		t.Errorf("Stat of a link to itself: %v", err)
	}
}

func TestLoopThroughTwoFolders(t *testing.T) {
	root := tree(t, "a/file", "b/file", "a/to-b -> ../b", "b/to-a -> ../a")
	want := []string{"a/file", "a/to-b/file", "! a/to-b/to-a: the symbolic link to ../a leads back to itself",
		"b/file", "b/to-a/file", "! b/to-a/to-b: the symbolic link to ../b leads back to itself"}
	if got := listing(t, New(root), ""); !slices.Equal(got, want) {
		t.Errorf("listing %q", got)
	}
	// Beginning inside the loop, the folders on the way count as well.
	if got := listing(t, New(root), "a/to-b/"); !slices.Equal(got, want[1:3]) {
		t.Errorf("listing beneath a prefix %q", got)
	}
}

func TestPlainRefusesLinks(t *testing.T) {
	root := tree(t, "real/file", "folder -> real", "file -> real/file")
	s := Plain(root)
	var refused []string
	for o, err := range s.List(t.Context(), "") {
		var key *store.KeyError
		switch {
		case err == nil && o.Key != "real/file":
			t.Errorf("listed %s", o.Key)
		case err != nil && errors.As(err, &key) && errors.Is(err, store.ErrLink):
			refused = append(refused, key.Key)
		}
	}
	if !slices.Equal(refused, []string{"file", "folder"}) {
		t.Errorf("refused %q", refused)
	}
	for _, key := range []string{"file", "folder/file"} {
		if _, err := s.Stat(t.Context(), key); !errors.Is(err, store.ErrLink) {
			t.Errorf("Stat(%s): %v", key, err)
		}
		if _, err := s.Open(t.Context(), store.Object{Key: key}, 0, -1); !errors.Is(err, store.ErrLink) {
			t.Errorf("Open(%s): %v", key, err)
		}
	}
	for _, err := range s.List(t.Context(), "folder/") {
		if !errors.Is(err, store.ErrLink) {
			t.Errorf("listing behind a link: %v", err)
		}
	}
}

func TestListNamesWhatIsNoFile(t *testing.T) {
	root := tree(t, "a", "z")
	if err := syscall.Mkfifo(filepath.Join(root, "pipe"), 0o644); err != nil {
		t.Skip(err)
	}
	s := New(root)
	want := []string{"a", "! pipe: it is neither a file nor a folder", "z"}
	if got := listing(t, s, ""); !slices.Equal(got, want) {
		t.Errorf("listing %q", got)
	}
	if _, err := s.Open(t.Context(), store.Object{Key: "pipe"}, 0, -1); !errors.Is(err, store.ErrIrregular) { // would hang
		t.Errorf("Open of a pipe: %v", err)
	}
}

func TestRootsThatAreNone(t *testing.T) {
	root := tree(t, "file")
	for _, err := range New(root+"/nothing").List(t.Context(), "") {
		if !errors.Is(err, store.ErrNotFound) || !strings.Contains(err.Error(), root+"/nothing") {
			t.Errorf("a root that is not there: %v", err)
		}
	}
	for _, err := range New(root+"/file").List(t.Context(), "") {
		if err == nil || errors.Is(err, store.ErrNotFound) {
			t.Errorf("a root that is a file: %v", err)
		}
	}
	if got := listing(t, New(root+"/nothing"), "x/"); len(got) != 1 {
		t.Errorf("a root that is not there lists %q", got)
	}
	if err := New(root+"/nothing").Remove(t.Context(), "x", store.Cond{}); err != nil {
		t.Errorf("Remove: %v", err)
	}
	if _, err := os.Stat(root + "/nothing"); err == nil {
		t.Error("reading made the root")
	}
}

func TestRecordsAreListedOnlyOnRequest(t *testing.T) {
	root := tree(t, "support/x", ".drkit/us/support/CURRENT", ".drkit/tmp/.lock", ".drkit/tmp/LEFT", ".drkitten")
	if got := listing(t, New(root), ""); !slices.Equal(got, []string{".drkitten", "support/x"}) {
		t.Errorf("listing %q", got)
	}
	if got := listing(t, New(root), ".drkit/"); !slices.Equal(got, []string{".drkit/us/support/CURRENT"}) {
		t.Errorf("listing of the records %q", got)
	}
}
