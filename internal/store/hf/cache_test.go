package hf_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/internal/store/hf"
)

// layOut makes the cache that huggingface_hub wrote in a new folder and returns
// the model's folder in it. In testdata each link of a snapshot is a file that
// holds its target, as a version control without links keeps it.
func layOut(t *testing.T) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "hub")
	if err := os.CopyFS(root, os.DirFS("testdata/hub")); err != nil {
		t.Fatal(err)
	}
	repo := filepath.Join(root, "models--acme--tiny")
	each(t, filepath.Join(repo, "snapshots"), func(path string) error {
		target, err := os.ReadFile(path)
		return errors.Join(err, os.Remove(path), os.Symlink(string(target), path))
	})
	return repo
}

func each(t *testing.T, root string, do func(path string) error) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return do(path)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// unlink replaces each link by the file that it leads to.
func unlink(t *testing.T, repo string) {
	t.Helper()
	each(t, filepath.Join(repo, "snapshots"), func(path string) error {
		data, err := os.ReadFile(path)
		return errors.Join(err, os.Remove(path), os.WriteFile(path, data, 0o644))
	})
}

func snapshot(repo string) string { return filepath.Join(repo, "snapshots", commit) }

func local(t *testing.T, path string) *hf.Cache {
	t.Helper()
	c, ok, err := hf.Local(path)
	if err != nil || !ok {
		t.Fatalf("Local(%s) = %v, %v", path, ok, err)
	}
	return c
}

// defects is what a source says is wrong, as "key kind".
func defects(t *testing.T, s store.Source, prefix string) (all []string) {
	t.Helper()
	for _, err := range s.List(t.Context(), prefix) {
		var key *store.KeyError
		var link *store.LinkError
		var defect *store.Defect
		switch {
		case err == nil:
		case errors.As(err, &link):
			all = append(all, link.Key+" link")
		case errors.As(err, &defect) && errors.As(err, &key):
			all = append(all, key.Key+" "+defect.Kind)
			if strings.Contains(defect.What, os.TempDir()) {
				t.Errorf("%s: it names this machine's folders: %s", key.Key, defect.What)
			}
		default:
			all = append(all, "other: "+err.Error())
		}
	}
	return all
}

func TestCacheThatHuggingFaceWrote(t *testing.T) {
	repo := layOut(t)
	want := repoFiles(t)
	unlinked := layOut(t)
	unlink(t, unlinked)
	link := filepath.Join(t.TempDir(), "current")
	if err := os.Symlink(snapshot(repo), link); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"the model's folder": repo, "snapshots": filepath.Join(repo, "snapshots"),
		"the snapshot": snapshot(repo), "a link to it": link, "without links": snapshot(unlinked)} {
		c := local(t, path)
		keys, all := listing(t, c, "")
		if !slices.Equal(keys, wantKeys) {
			t.Errorf("%s: %q", name, keys)
		}
		for _, o := range all {
			if o.Size != int64(len(want[o.Key])) || content(t, c, o, 0, -1) != string(want[o.Key]) {
				t.Errorf("%s: %s is not what was uploaded", name, o.Key)
			}
			expected := c.Expected(o.Key)
			if len(expected) != 1 || (stated[o.Key] != "" && expected[0].String() != stated[o.Key]) {
				t.Errorf("%s: %s is expected to be %v", name, o.Key, expected)
			}
			if stat, err := c.Stat(t.Context(), o.Key); err != nil || stat.Size != o.Size || !stat.ModTime.Equal(o.ModTime) {
				t.Errorf("%s: Stat = %+v, %v", name, stat, err)
			}
		}
		if id, at, err := c.Pin(t.Context()); id != "acme/tiny" || at != commit || err != nil {
			t.Errorf("%s: Pin = %s, %s, %v", name, id, at, err)
		}
	}
}

func TestCacheFolderInASnapshot(t *testing.T) {
	c := local(t, filepath.Join(snapshot(layOut(t)), "onnx"))
	if keys, _ := listing(t, c, ""); !slices.Equal(keys, []string{"README.md"}) {
		t.Errorf("%q", keys)
	}
	if got := c.Expected("README.md"); len(got) != 1 || got[0].String() != stated["onnx/README.md"] {
		t.Errorf("expected %v", got)
	}
}

// Damage of every kind, and what the cache says of it.
func TestCacheSaysWhatIsWrong(t *testing.T) {
	const readme, weights = "29cc3cd64324f55176d0fb76b093fd5acc983692", "b448e90341526d2d63e2b29b544cf20fcfd2c85e731366db0d2212d085d9f5a9"
	write := func(t *testing.T, path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(t *testing.T, paths ...string) {
		t.Helper()
		for _, p := range paths {
			if err := os.RemoveAll(p); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		damage func(t *testing.T, repo, snap string)
		want   []string
	}{
		"nothing": {func(*testing.T, string, string) {}, nil},
		"a file that was never downloaded": {func(t *testing.T, repo, snap string) { remove(t, snap+"/tokenizer.json") },
			[]string{"tokenizer.json " + store.DefectMissing}},
		"first and last": {func(t *testing.T, repo, snap string) {
			remove(t, snap+"/chat_template.jinja", snap+"/tokenizer_config.json")
		},
			[]string{"chat_template.jinja " + store.DefectMissing, "tokenizer_config.json " + store.DefectMissing}},
		"a whole folder": {func(t *testing.T, repo, snap string) { remove(t, snap+"/onnx") },
			[]string{"onnx/README.md " + store.DefectMissing}},
		"a download that broke off": {func(t *testing.T, repo, snap string) {
			remove(t, snap+"/model.safetensors", repo+"/blobs/"+weights)
			write(t, repo+"/blobs/"+weights+".incomplete", "half")
		}, []string{"model.safetensors " + store.DefectInterrupted}},
		"one that broke off in a newer version": {func(t *testing.T, repo, snap string) {
			remove(t, snap+"/model.safetensors", repo+"/blobs/"+weights)
			write(t, repo+"/blobs/"+weights+".1f2e3d4c.incomplete", "half")
		}, []string{"model.safetensors " + store.DefectInterrupted}},
		"one that was finished later": {func(t *testing.T, repo, snap string) {
			write(t, repo+"/blobs/"+weights+".incomplete", "half")
		}, nil},
		"another revision's that broke off": {func(t *testing.T, repo, snap string) {
			write(t, repo+"/blobs/"+strings.Repeat("c", 64)+".incomplete", "half")
		}, nil},
		"one that broke off, without a listing": {func(t *testing.T, repo, snap string) {
			remove(t, repo+"/trees")
			write(t, repo+"/blobs/"+strings.Repeat("c", 64)+".incomplete", "half")
		}, []string{"blobs/" + strings.Repeat("c", 64) + " " + store.DefectInterrupted}},
		"a blob that is gone": {func(t *testing.T, repo, snap string) { remove(t, repo+"/blobs/"+readme) },
			[]string{"onnx/README.md link"}},
		"all blobs are gone": {func(t *testing.T, repo, snap string) { remove(t, repo+"/blobs") },
			[]string{"chat_template.jinja link", "config.json link", "generation_config.json link", "model.safetensors link", "onnx/README.md link", "tokenizer.json link", "tokenizer_config.json link"}},
		"a link to elsewhere": {func(t *testing.T, repo, snap string) {
			other := filepath.Join(t.TempDir(), "secret")
			write(t, other, "a secret")
			remove(t, snap+"/config.json")
			if err := os.Symlink(other, snap+"/config.json"); err != nil {
				t.Fatal(err)
			}
		}, []string{"config.json " + store.DefectOutside}},
		"a blob that is a link to elsewhere": {func(t *testing.T, repo, snap string) {
			other := filepath.Join(t.TempDir(), "secret")
			write(t, other, "a secret")
			remove(t, repo+"/blobs/"+readme)
			if err := os.Symlink(other, repo+"/blobs/"+readme); err != nil {
				t.Fatal(err)
			}
		}, []string{"onnx/README.md " + store.DefectOutside}},
		"a linked folder": {func(t *testing.T, repo, snap string) {
			other := t.TempDir()
			write(t, other+"/README.md", "x")
			remove(t, snap+"/onnx")
			if err := os.Symlink(other, snap+"/onnx"); err != nil {
				t.Fatal(err)
			}
		}, []string{"onnx/README.md " + store.DefectOutside}},
		"a ref with a newline": {func(t *testing.T, repo, snap string) { write(t, repo+"/refs/main", commit+"\n") },
			[]string{"refs/main " + store.DefectRef}},
		"a listing that is cut off": {func(t *testing.T, repo, snap string) {
			write(t, repo+"/trees/"+commit+".json", `{"format_version": 1, "files": {"con`)
		},
			[]string{"trees/" + commit + ".json " + store.DefectListing}},
		"a listing of a newer format": {func(t *testing.T, repo, snap string) {
			write(t, repo+"/trees/"+commit+".json", `{"format_version": 2, "files": {}}`)
		},
			[]string{"trees/" + commit + ".json " + store.DefectListing}},
		"a listing that leads out": {func(t *testing.T, repo, snap string) {
			write(t, repo+"/trees/"+commit+".json", fmt.Sprintf(`{"format_version": 1, "files": {"../x": {"size": 1, "blob_id": %q}}}`, readme))
		}, []string{"trees/" + commit + ".json " + store.DefectListing}},
		"markers of what the commit has not": {func(t *testing.T, repo, snap string) {
			write(t, repo+"/.no_exist/"+commit+"/processor_config.json", "")
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			repo := layOut(t)
			c.damage(t, repo, snapshot(repo))
			if got := defects(t, local(t, snapshot(repo)), ""); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestCacheListsBeneathAPrefix(t *testing.T) {
	repo := layOut(t)
	for _, name := range []string{"onnx/README.md", "tokenizer.json"} {
		if err := os.Remove(filepath.Join(snapshot(repo), name)); err != nil {
			t.Fatal(err)
		}
	}
	c := local(t, repo)
	for prefix, want := range map[string]string{"onnx/": "onnx/README.md", "tokenizer": "tokenizer.json", "t": "tokenizer.json", "model": ""} {
		got := defects(t, c, prefix)
		if want != "" && !slices.Equal(got, []string{want + " " + store.DefectMissing}) || want == "" && len(got) > 0 {
			t.Errorf("%s: %q", prefix, got)
		}
	}
	for range c.List(t.Context(), "") {
		break // a reader may stop early
	}
}

func TestCacheNeverReadsThroughALinkToElsewhere(t *testing.T) {
	repo := layOut(t)
	at := filepath.Join(snapshot(repo), "config.json")
	if err := errors.Join(os.Remove(at), os.Symlink("/etc/hostname", at)); err != nil {
		t.Fatal(err)
	}
	var defect *store.Defect
	if _, err := local(t, repo).Open(t.Context(), store.Object{Key: "config.json"}, 0, -1); !errors.As(err, &defect) {
		t.Errorf("got %v", err)
	}
}

// Refs are those that lead to the snapshot, whichever way it was opened.
func TestCacheRefNames(t *testing.T) {
	repo := layOut(t)
	refs := func(c *hf.Cache) string {
		names, err := c.Refs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(names, " ")
	}
	if got := refs(local(t, repo)); got != "main" {
		t.Errorf("as it was downloaded: %q", got)
	}
	for name, text := range map[string]string{"v1": commit, "other": strings.Repeat("0", 40), "untrimmed": commit + "\n"} {
		if err := os.WriteFile(filepath.Join(repo, "refs", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := refs(local(t, snapshot(repo))); got != "main v1" {
		t.Errorf("with others beside it: %q", got)
	}
	if err := os.RemoveAll(filepath.Join(repo, "refs")); err != nil {
		t.Fatal(err)
	}
	if got := refs(local(t, snapshot(repo))); got != "" {
		t.Errorf("without refs: %q", got)
	}
}

// The library reads a ref without trimming it.
func TestCacheRefs(t *testing.T) {
	for name, c := range map[string]struct {
		refs map[string]string
		want bool
		says string
	}{
		"main":            {map[string]string{"main": commit}, true, ""},
		"main of two":     {map[string]string{"main": commit, "refs/pr/1": strings.Repeat("0", 40)}, true, ""},
		"the only one":    {map[string]string{"v1/rc": commit}, true, ""},
		"the one of none": {nil, true, ""},
		"two":             {map[string]string{"v1": commit, "v2": commit}, false, "2 refs and none is main"},
		"a newline":       {map[string]string{"main": commit + "\n"}, false, "not exactly the 40 digits"},
		"empty":           {map[string]string{"main": ""}, false, "not exactly the 40 digits"},
		"a branch":        {map[string]string{"main": "main"}, false, "not exactly the 40 digits"},
		"to nowhere":      {map[string]string{"main": strings.Repeat("0", 40)}, false, "does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			repo := layOut(t)
			if err := os.RemoveAll(filepath.Join(repo, "refs")); err != nil {
				t.Fatal(err)
			}
			for ref, text := range c.refs {
				path := filepath.Join(repo, "refs", ref)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			_, ok, err := hf.Local(repo)
			if ok != c.want || (err == nil) != c.want || (err != nil && (!strings.Contains(err.Error(), c.says) || errext.Hint(err) == "")) {
				t.Errorf("got %v, %v", ok, err)
			}
		})
	}
}

func TestLocalLeavesOtherFoldersAlone(t *testing.T) {
	plain := t.TempDir()
	for _, path := range []string{plain, filepath.Join(plain, "absent"), "testdata/repo", "hf.go"} {
		if c, ok, err := hf.Local(path); c != nil || ok || err != nil {
			t.Errorf("%s: %v, %v", path, ok, err)
		}
	}
	repo := layOut(t)
	if _, ok, err := hf.Local(filepath.Dir(repo)); ok || err == nil || !strings.Contains(errext.Hint(err), "models--acme--tiny") {
		t.Errorf("a whole cache: %v, %v, %q", ok, err, errext.Hint(err))
	}
}

// download lays the repository out with the records that `hf download --local-dir`
// of huggingface_hub 2.4.0 wrote in testdata/download.
func download(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	if err := errors.Join(os.CopyFS(root, os.DirFS("testdata/download")), os.CopyFS(root, os.DirFS("testdata/repo"))); err != nil {
		t.Fatal(err)
	}
	old := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) // before the records say that it was downloaded
	each(t, root, func(path string) error { return os.Chtimes(path, old, old) })
	return root
}

func TestDownloadIntoAFolder(t *testing.T) {
	root := download(t)
	c := local(t, root)
	if keys, _ := listing(t, c, ""); !slices.Equal(keys, wantKeys) {
		t.Errorf("%q", keys)
	}
	for key, want := range stated {
		if got := c.Expected(key); len(got) != 1 || got[0].String() != want {
			t.Errorf("%s is expected to be %v", key, got)
		}
	}
	if repo, at, err := c.Pin(t.Context()); repo != "" || at != commit || err != nil {
		t.Errorf("Pin = %q, %s, %v", repo, at, err)
	}
	part := filepath.Join(root, ".cache/huggingface/download/aBcD=."+strings.TrimPrefix(stated["model.safetensors"], "sha256:")+".1f2e3d4c.incomplete")
	if err := errors.Join(os.Remove(filepath.Join(root, "model.safetensors")), os.Remove(filepath.Join(root, "config.json")), os.WriteFile(part, []byte("half"), 0o644)); err != nil {
		t.Fatal(err)
	}
	if got := defects(t, local(t, root), ""); !slices.Equal(got, []string{"config.json " + store.DefectMissing, "model.safetensors " + store.DefectInterrupted}) {
		t.Errorf("%q", got)
	}
}

// Who edits a downloaded file means it: it is no longer expected to be the hub's.
func TestDownloadThatWasEdited(t *testing.T) {
	root := download(t)
	later := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	if err := os.Chtimes(filepath.Join(root, "config.json"), later, later); err != nil {
		t.Fatal(err)
	}
	c := local(t, root)
	if got := c.Expected("config.json"); got != nil {
		t.Errorf("an edited file is expected to be %v", got)
	}
	if got := c.Expected("tokenizer.json"); len(got) != 1 {
		t.Errorf("another is expected to be %v", got)
	}
}
