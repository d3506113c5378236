package manifest_test

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"drkit/internal/errext"
	"drkit/internal/store/dir"
	"drkit/manifest"
)

// layOut writes files below a new directory and returns its path.
func layOut(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		p := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(files[name]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func ofDirectory(root string) manifest.Input {
	return manifest.Input{Service: "s", Model: manifest.Tree{Source: dir.New(root)}}
}

func TestSameFolderElsewhereAndLaterGivesTheSameBytes(t *testing.T) {
	files := tiny(t)
	a, b := layOut(t, files), layOut(t, files)
	old := time.Date(2001, 2, 3, 4, 5, 6, 7, time.UTC)
	for name := range files {
		if err := os.Chtimes(filepath.Join(b, name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	first, _ := build(t, ofDirectory(a))
	second, _ := build(t, ofDirectory(b+"/"))
	if !bytes.Equal(encode(t, first), encode(t, second)) {
		t.Error("the same files give two manifests")
	}
	if text := string(encode(t, first)); strings.Contains(text, a) || strings.Contains(text, filepath.Base(filepath.Dir(a))) {
		t.Error("the manifest names the folder that it was built from")
	}
}

// A hub cache's snapshot is links to blobs outside of it: the same release as
// the plain folder.
func TestLinksAreFollowed(t *testing.T) {
	files := tiny(t)
	plain := layOut(t, files)
	snapshot := t.TempDir()
	for name := range files {
		if err := os.Symlink(filepath.Join(plain, name), filepath.Join(snapshot, name)); err != nil {
			t.Fatal(err)
		}
	}
	a, _ := build(t, ofDirectory(plain))
	b, _ := build(t, ofDirectory(snapshot))
	if a.Release != b.Release {
		t.Error("a folder of links is another release than the files")
	}
}

func TestLinksThatLeadNowhereAreSaid(t *testing.T) {
	root := layOut(t, map[string]string{"config.json": "{}", "sub/a.txt": "a", ".git/config": "x", ".cache/huggingface/download/a.metadata": "x", ".gitattributes": "x"})
	for name, target := range map[string]string{"gone.json": "../blobs/0", "itself": "itself", "sub/up": ".."} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	m, _ := build(t, ofDirectory(root))
	var paths, problems []string
	for _, f := range m.Contents.Files {
		paths = append(paths, f.Path)
	}
	for _, p := range m.Annotations.Problems {
		problems = append(problems, p.Path+" "+p.Kind)
	}
	if want := []string{"base/.gitattributes", "base/config.json", "base/sub/a.txt"}; !slices.Equal(paths, want) {
		t.Errorf("files: got %v, want %v", paths, want)
	}
	if want := []string{"base/gone.json dangling-symlink", "base/itself symlink-loop", "base/sub/up symlink-loop"}; !slices.Equal(problems, want) {
		t.Errorf("problems: got %v, want %v", problems, want)
	}
}

func TestFoldersThatHoldNothing(t *testing.T) {
	for name, root := range map[string]string{"empty": t.TempDir(), "absent": filepath.Join(t.TempDir(), "no-such")} {
		_, _, err := manifest.Build(t.Context(), ofDirectory(root))
		if err == nil || errext.Hint(err) == "" {
			t.Errorf("%s: got %v with the hint %q", name, err, errext.Hint(err))
		}
	}
}

func TestUnreadableFileIsNamed(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("the superuser reads every file")
	}
	root := layOut(t, map[string]string{"config.json": "{}", "secret.json": "{}"})
	if err := os.Chmod(filepath.Join(root, "secret.json"), 0); err != nil {
		t.Fatal(err)
	}
	_, _, err := manifest.Build(t.Context(), ofDirectory(root))
	if err == nil || !strings.Contains(err.Error(), "secret.json") || errext.Hint(err) == "" {
		t.Errorf("got %v with the hint %q", err, errext.Hint(err))
	}
}
