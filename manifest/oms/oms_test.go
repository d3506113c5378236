package oms_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"drkit/internal/errext"
	"drkit/manifest/oms"
)

// golden is the folder of what model_signing 1.1.1 wrote (see its README).
const golden = "../../testdata/oms"

const miniRoot = "530a17394552487611d120fa6baf170aa6ed3b4b4d5b1061a8a7c81c8c6a640d"

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(golden, path))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// verified is the statement of a signature of the golden key.
func verified(t *testing.T, name string) *oms.Statement {
	t.Helper()
	key, err := oms.PublicKey(read(t, "key.pub.pem"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := oms.ReadBundle(read(t, name))
	if err != nil {
		t.Fatal(err)
	}
	s, err := b.Verify(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// mini is the golden model in memory, to be changed.
func mini(t *testing.T) fstest.MapFS {
	t.Helper()
	m := fstest.MapFS{}
	root := os.DirFS(filepath.Join(golden, "mini"))
	err := fs.WalkDir(root, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := fs.ReadFile(root, path)
		m[path] = &fstest.MapFile{Data: data, Mode: 0o644}
		return err
	})
	if err != nil || len(m) != 15 {
		t.Fatalf("%d files, %v", len(m), err)
	}
	return m
}

func TestReadsWhatModelSigningWrote(t *testing.T) {
	for _, c := range []struct {
		name, method, hash, root string
		resources                int
	}{
		{"mini.sig", "files", "sha256", miniRoot, 13},
		{"mini-blake2.sig", "files", "blake2b", "293fdfd92fc47ce795c5fb15a89f17cc42b8156ee85b4defe8ec3476a85d7ea6", 13},
		{"mini-blake3.sig", "files", "blake3", "1bb9fc6f6624987e44af643e9c77397c29be0c113d17c35e71e1307452eeb63b", 13},
		{"mini-shards.sig", "shards", "sha256", "b86c454351a9ce2f88b97eb3a2756ada4fdd923e9ab1299229f7f0d0ab4a0fda", 14},
		{"tiny-base.sig", "files", "sha256", "c1b6e864a122002d86cc76abe5e8ccf82b3ab43355903a462259269966d0ebde", 9},
	} {
		s := verified(t, c.name)
		if s.Serialization.Method != c.method || s.Serialization.HashType != c.hash || s.Root != c.root || len(s.Resources) != c.resources {
			t.Errorf("%s: %+v root %s, %d resources", c.name, s.Serialization, s.Root, len(s.Resources))
		}
		ignored := slices.Sorted(slices.Values(s.Serialization.IgnorePaths))
		if !slices.Equal(ignored, oms.GitPaths) {
			t.Errorf("%s ignores %q", c.name, ignored)
		}
	}
}

// What we would sign of a folder is what model_signing signed of it, in its order.
func TestHashAgreesWithModelSigning(t *testing.T) {
	files, err := oms.Hash(t.Context(), mini(t), oms.Options{Ignore: oms.GitPaths})
	if err != nil {
		t.Fatal(err)
	}
	s, err := oms.New("mini", files, false, oms.GitPaths)
	if err != nil {
		t.Fatal(err)
	}
	if want := verified(t, "mini.sig"); s.Root != miniRoot || !slices.Equal(s.Resources, want.Resources) {
		t.Errorf("root %s, resources %v, want %v", s.Root, s.Resources, want.Resources)
	}
}

// The listings were written by sha256sum's digests; order and root must come out
// whatever order they go in.
func TestNewOrdersByComponents(t *testing.T) {
	var listing struct {
		Name  string
		Files []struct{ Path, SHA256 string }
	}
	if err := json.Unmarshal(read(t, "tiny-base.listing.json"), &listing); err != nil {
		t.Fatal(err)
	}
	var files []oms.Resource
	for _, f := range slices.Backward(listing.Files) {
		files = append(files, oms.File(f.Path, f.SHA256))
	}
	s, err := oms.New(listing.Name, files, false, nil)
	if err != nil || s.Root != verified(t, "tiny-base.sig").Root {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := oms.New("empty", nil, false, nil); err == nil {
		t.Error("a model without files was signed")
	}
}

// judge says in one line what a check found.
func judge(r *oms.Result) string {
	var all []string
	for _, m := range r.Mismatch {
		all = append(all, "mismatch "+m.Path)
	}
	for _, m := range r.Missing {
		all = append(all, "missing "+m)
	}
	for _, m := range r.Extra {
		all = append(all, "extra "+m)
	}
	for _, m := range r.Refused {
		all = append(all, "refused "+m.Path)
	}
	for _, m := range r.Unverified {
		all = append(all, "unproven "+m.Path)
	}
	return strings.Join(all, ", ")
}

func file(data string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(data), Mode: 0o644} }

func link(to string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte(to), Mode: fs.ModeSymlink | 0o777}
}

func TestCheckFindsTampering(t *testing.T) {
	for _, c := range []struct {
		name, signature string
		change          func(fstest.MapFS)
		options         oms.Options
		want            string
		tampered        bool
	}{
		{"untouched", "mini.sig", func(fstest.MapFS) {}, oms.Options{}, "", false},
		{"a byte", "mini.sig", func(m fstest.MapFS) { m["a/b"] = file("X") }, oms.Options{}, "mismatch a/b", true},
		{"longer", "mini.sig", func(m fstest.MapFS) { m["a/b"].Data = append(m["a/b"].Data, 0) }, oms.Options{}, "mismatch a/b", true},
		{"emptied", "mini.sig", func(m fstest.MapFS) { m["config.json"] = file("") }, oms.Options{}, "mismatch config.json", true},
		{"an empty file filled", "mini.sig", func(m fstest.MapFS) { m["empty.txt"] = file("x") }, oms.Options{}, "mismatch empty.txt", true},
		{"an empty file gone", "mini.sig", func(m fstest.MapFS) { delete(m, "empty.txt") }, oms.Options{}, "missing empty.txt", true},
		{"gone", "mini.sig", func(m fstest.MapFS) { delete(m, "重み/層.bin") }, oms.Options{}, "missing 重み/層.bin", true},
		{"a folder in its place", "mini.sig", func(m fstest.MapFS) { delete(m, "B"); m["B/x"] = file("x") }, oms.Options{}, "missing B, extra B/x", true},
		{"renamed", "mini.sig", func(m fstest.MapFS) { m["b"] = m["B"]; delete(m, "B") }, oms.Options{}, "missing B, extra b", true},
		{"added", "mini.sig", func(m fstest.MapFS) { m["sub/evil.py"] = file("x") }, oms.Options{}, "extra sub/evil.py", true},
		{"added, hidden and empty", "mini.sig", func(m fstest.MapFS) { m[".hidden"] = file("") }, oms.Options{}, "extra .hidden", true},
		{"added and let pass", "mini.sig", func(m fstest.MapFS) { m["sub/evil.py"] = file("x") }, oms.Options{IgnoreUnsigned: true}, "extra sub/evil.py", false},
		{"added, let pass, and a byte", "mini.sig", func(m fstest.MapFS) { m["x"], m["a.b"] = file("x"), file("other") }, oms.Options{IgnoreUnsigned: true}, "mismatch a.b, extra x", true},
		{"git files changed", "mini.sig", func(m fstest.MapFS) {
			m[".gitattributes"], m[".git/HEAD"], m[".github/y/z"] = file("x"), file("x"), file("x")
		}, oms.Options{}, "", false},
		{"a git file below", "mini.sig", func(m fstest.MapFS) { m["sub/.gitattributes"] = file("x") }, oms.Options{}, "extra sub/.gitattributes", true},
		{"a name that begins like an ignored one", "mini.sig", func(m fstest.MapFS) { m[".gitx"] = file("x") }, oms.Options{}, "extra .gitx", true},
		{"the signature inside", "mini.sig", func(m fstest.MapFS) { m["model.sig"] = file("x") }, oms.Options{Ignore: []string{"model.sig"}}, "", false},
		{"an empty folder", "mini.sig", func(m fstest.MapFS) { m["new"] = &fstest.MapFile{Mode: fs.ModeDir | 0o755} }, oms.Options{}, "", false},
		{"a link added", "mini.sig", func(m fstest.MapFS) { m["l"] = link("B") }, oms.Options{}, "refused l", true},
		{"a link below an ignored path", "mini.sig", func(m fstest.MapFS) { m[".git/l"] = link("../B") }, oms.Options{}, "refused .git/l", true},
		{"a file made a link to its like", "mini.sig", func(m fstest.MapFS) { m["x"] = m["B"]; m["B"] = link("x") }, oms.Options{}, "extra x, refused B", true},
		{"links allowed", "mini.sig", func(m fstest.MapFS) { m[".git/x"] = m["B"]; m["B"] = link(".git/x") }, oms.Options{AllowSymlinks: true}, "", false},
		{"a link allowed and not signed", "mini.sig", func(m fstest.MapFS) { m["l"] = link("B") }, oms.Options{AllowSymlinks: true}, "extra l", true},
		{"a linked folder is not entered", "mini.sig", func(m fstest.MapFS) { m["l"] = link("a") }, oms.Options{AllowSymlinks: true}, "", false},
		{"a dangling link", "mini.sig", func(m fstest.MapFS) { m["B"] = link("nothing") }, oms.Options{AllowSymlinks: true}, "refused B", true},
		{"a pipe", "mini.sig", func(m fstest.MapFS) { m["p"] = &fstest.MapFile{Mode: fs.ModeNamedPipe} }, oms.Options{}, "refused p", true},

		{"shards", "mini-shards.sig", func(m fstest.MapFS) { delete(m, "empty.txt") }, oms.Options{}, "", false},
		{"shards say nothing of empty files", "mini-shards.sig", func(fstest.MapFS) {}, oms.Options{}, "unproven empty.txt", false},
		{"shards, unsigned files let pass", "mini-shards.sig", func(fstest.MapFS) {}, oms.Options{IgnoreUnsigned: true}, "extra empty.txt", false},
		{"shards, a byte", "mini-shards.sig", func(m fstest.MapFS) { delete(m, "empty.txt"); m["big.bin"].Data[170] ^= 1 }, oms.Options{}, "mismatch big.bin", true},
		{"shards, longer", "mini-shards.sig", func(m fstest.MapFS) { delete(m, "empty.txt"); m["big.bin"].Data = append(m["big.bin"].Data, 0) }, oms.Options{}, "mismatch big.bin", true},
		{"shards, shorter by a shard", "mini-shards.sig", func(m fstest.MapFS) { delete(m, "empty.txt"); m["big.bin"].Data = m["big.bin"].Data[:128] }, oms.Options{}, "mismatch big.bin", true},
		{"shards, gone", "mini-shards.sig", func(m fstest.MapFS) { delete(m, "empty.txt"); delete(m, "big.bin") }, oms.Options{}, "missing big.bin", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			model := mini(t)
			c.change(model)
			res, err := verified(t, c.signature).Check(t.Context(), model, c.options)
			if err != nil {
				t.Fatal(err)
			}
			if got := judge(res); got != c.want || res.Tampered(c.options.IgnoreUnsigned) != c.tampered {
				t.Errorf("got %q, tampered %v", got, res.Tampered(c.options.IgnoreUnsigned))
			}
		})
	}
}

func TestCheckCountsWhatItProved(t *testing.T) {
	res, err := verified(t, "mini.sig").Check(t.Context(), mini(t), oms.Options{})
	if err != nil || res.Matched != 13 {
		t.Errorf("%+v, %v", res, err)
	}
	want := []oms.Ignored{{".git", 0}, {".gitattributes", 1}, {".github", 1}, {".gitignore", 0}}
	if !slices.Equal(res.Ignored, want) {
		t.Errorf("ignored %v, want %v", res.Ignored, want)
	}
	big := mini(t)
	big["big.bin"].Data[70] ^= 1
	res, err = verified(t, "mini-shards.sig").Check(t.Context(), big, oms.Options{})
	if err != nil || len(res.Mismatch) != 1 || !strings.HasPrefix(res.Mismatch[0].Why, "bytes 64 to 128: ") {
		t.Errorf("%+v, %v", res, err)
	}
}

// A digest that is not computed must never pass, and what needs no digest is
// still found.
func TestOtherDigestsAreNotProven(t *testing.T) {
	for _, name := range []string{"mini-blake2.sig", "mini-blake3.sig"} {
		model := mini(t)
		delete(model, "B")
		model["evil"] = file("x")
		res, err := verified(t, name).Check(t.Context(), model, oms.Options{})
		if err != nil || res.Matched != 0 || len(res.Unverified) != 12 || !slices.Equal(res.Missing, []string{"B"}) || !slices.Equal(res.Extra, []string{"evil"}) {
			t.Errorf("%s: %s, %v", name, judge(res), err)
		}
	}
}

func TestCheckDigests(t *testing.T) {
	s := verified(t, "mini.sig")
	files := slices.Clone(s.Resources)
	files[4].Digest = strings.Repeat("0", 64)                                                                // a/b
	files = append(files[1:], oms.File(".gitattributes", files[0].Digest), oms.File("new", files[0].Digest)) // without .cache/c
	res, err := s.CheckDigests(files, nil, oms.Options{})
	if err != nil || judge(res) != "mismatch a/b, missing .cache/c, extra new" || res.Matched != 11 {
		t.Errorf("%s, %d matched, %v", judge(res), res.Matched, err)
	}
	res, err = s.CheckDigests(files, []string{".cache"}, oms.Options{})
	if err != nil || judge(res) != "mismatch a/b, extra new, unproven .cache/c" {
		t.Errorf("%s, %v", judge(res), err)
	}
	for _, name := range []string{"mini-shards.sig", "mini-blake2.sig", "mini-blake3.sig"} {
		if _, err := verified(t, name).CheckDigests(files, nil, oms.Options{}); errext.StatusOf(err) != errext.Evidence || errext.Hint(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHashRefusesWhatIsNoFile(t *testing.T) {
	model := mini(t)
	model[".git/l"], model["pipe"] = link("nothing"), &fstest.MapFile{Mode: fs.ModeNamedPipe}
	_, err := oms.Hash(t.Context(), model, oms.Options{Ignore: oms.GitPaths})
	if errext.StatusOf(err) != errext.Refused || errext.Hint(err) == "" || !strings.Contains(err.Error(), `".git/l": it is a symbolic link`) || !strings.Contains(err.Error(), `"pipe": `) {
		t.Error(err)
	}
	delete(model, "pipe")
	if _, err = oms.Hash(t.Context(), model, oms.Options{AllowSymlinks: true}); err == nil || !strings.Contains(err.Error(), "leads nowhere") {
		t.Error(err)
	}
	model = fstest.MapFS{"f": file("x"), "l": link("f"), "d/g": file("y"), "k": link("d")}
	files, err := oms.Hash(t.Context(), model, oms.Options{AllowSymlinks: true})
	if err != nil || len(files) != 3 || files[1].Name != "f" || files[2] != oms.File("l", files[1].Digest) {
		t.Errorf("%v, %v", files, err)
	}
}
