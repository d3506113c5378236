package replicate_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/internal/store/dir"
	"drkit/internal/store/mem"
	"drkit/manifest/release"
	"drkit/replicate"
	"drkit/verify"
)

// whole is a copy of the small release in memory.
func whole(t *testing.T) (*mem.Store, string) {
	m := newRelease(small)
	s, prefix := mem.New(), release.Prefix("support", m.Release)
	for name, content := range small {
		put(t, s, prefix+name, content)
	}
	return s, prefix
}

func smallSize() (n int64) {
	for _, content := range small {
		n += int64(len(content))
	}
	return n
}

func TestRestore(t *testing.T) {
	m := newRelease(small)
	src, prefix := whole(t)
	root := t.TempDir() + "/restored"
	dst := dir.Plain(root)
	got, err := replicate.Restore(t.Context(), m, src, prefix, dst, replicate.RestoreOptions{})
	if err != nil || got.Files != len(small) || got.Cached != 0 || got.Bytes != smallSize() {
		t.Fatalf("%+v, %v", got, err)
	}
	for name, content := range small {
		if data, err := os.ReadFile(filepath.Join(root, name)); err != nil || string(data) != content {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
	if v, err := verify.Release(t.Context(), m, verify.Copy{Store: dst, Bare: true}, verify.Options{Require: store.Content}); err != nil || !v.Holds() {
		t.Errorf("verify says %v, %v", v.Err(), err)
	}

	// Again: everything is there, but one file has other bytes of the same size.
	os.WriteFile(filepath.Join(root, "engine/vllm.yaml"), []byte("model: y\n"), 0o644)
	got, err = replicate.Restore(t.Context(), m, src, prefix, dst, replicate.RestoreOptions{})
	if err != nil || got.Files != len(small) || got.Cached != len(small)-1 || !slices.Equal(got.Replaced, []string{"engine/vllm.yaml"}) {
		t.Errorf("%+v, %v", got, err)
	}
	if got.CachedBytes != smallSize()-int64(len("model: x\n")) {
		t.Errorf("%d bytes cached", got.CachedBytes)
	}
}

func TestRestoreRefusesDamage(t *testing.T) {
	for name, damage := range map[string]func(s *mem.Store, key string){
		"other bytes": func(s *mem.Store, key string) { s.Damage(key, []byte("Tokens")) },
		"too short":   func(s *mem.Store, key string) { s.Damage(key, []byte("token")) },
		"too long":    func(s *mem.Store, key string) { s.Damage(key, []byte("tokens!")) },
		"missing":     func(s *mem.Store, key string) { s.Remove(t.Context(), key, store.Cond{}) },
	} {
		t.Run(name, func(t *testing.T) {
			m := newRelease(small)
			src, prefix := whole(t)
			damage(src, prefix+"model/base/tokenizer.json")
			root := t.TempDir()
			_, err := replicate.Restore(t.Context(), m, src, prefix, dir.Plain(root), replicate.RestoreOptions{})
			if errext.StatusOf(err) != errext.Gate || !strings.Contains(fmt.Sprint(err), "model/base/tokenizer.json") || errext.Hint(err) == "" {
				t.Errorf("error %v, hint %q", err, errext.Hint(err))
			}
			if name != "missing" && !errors.Is(err, store.ErrMismatch) {
				t.Errorf("error %v is no mismatch", err)
			}
			if _, err := os.Lstat(filepath.Join(root, "model/base/tokenizer.json")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the wrong file is there: %v", err)
			}
		})
	}
}

func TestRestoreRefusesTheFolder(t *testing.T) {
	outside := t.TempDir()
	for name, prepare := range map[string]func(root string){
		"an extra template": func(root string) {
			os.MkdirAll(root+"/model/base", 0o755)
			os.WriteFile(root+"/model/base/chat_template.jinja", nil, 0o644)
		},
		"model is a link":        func(root string) { os.Symlink(outside, root+"/model") },
		"a folder of it is one":  func(root string) { os.Mkdir(root+"/model", 0o755); os.Symlink(outside, root+"/model/base") },
		"a dangling link":        func(root string) { os.Mkdir(root+"/engine", 0o755); os.Symlink("no", root+"/engine/vllm.yaml") },
		"a link to right bytes":  func(root string) { linkToRight(t, root, outside) },
		"a link outside, no end": func(root string) { os.Symlink(outside+"/new", root+"/deploy") },
	} {
		t.Run(name, func(t *testing.T) {
			m := newRelease(small)
			src, prefix := whole(t)
			root := t.TempDir()
			prepare(root)
			_, err := replicate.Restore(t.Context(), m, src, prefix, dir.Plain(root), replicate.RestoreOptions{})
			if errext.StatusOf(err) != errext.Refused || errext.Hint(err) == "" {
				t.Errorf("error %v (%v), hint %q", err, errext.StatusOf(err), errext.Hint(err))
			}
			for o := range dir.New(root).List(t.Context(), "") {
				if strings.HasSuffix(o.Key, "model.safetensors") {
					t.Error("something was written")
				}
			}
		})
	}
	if entries, _ := os.ReadDir(outside); len(entries) > 1 {
		t.Errorf("something was written outside: %v", entries)
	}
}

func linkToRight(t *testing.T, root, outside string) {
	os.MkdirAll(root+"/model/base", 0o755)
	os.WriteFile(outside+"/tokens", []byte("tokens"), 0o644)
	if err := os.Symlink(outside+"/tokens", root+"/model/base/tokenizer.json"); err != nil {
		t.Fatal(err)
	}
}

func TestRestoreReportsOtherExtras(t *testing.T) {
	m := newRelease(small)
	src, prefix := whole(t)
	root := t.TempDir()
	os.MkdirAll(root+"/deploy", 0o755)
	os.WriteFile(root+"/deploy/notes.txt", nil, 0o644)
	got, err := replicate.Restore(t.Context(), m, src, prefix, dir.Plain(root), replicate.RestoreOptions{})
	if err != nil || !slices.Equal(got.Extra, []string{"deploy/notes.txt"}) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestRestoreOfNothing(t *testing.T) {
	if _, err := replicate.Restore(t.Context(), newRelease(nil), mem.New(), "", mem.New(), replicate.RestoreOptions{}); errext.StatusOf(err) != errext.Gate {
		t.Errorf("error %v", err)
	}
}

// Case 09: the framing of a chunked upload is stored in place of the file. What is
// said is what verification says.
func TestRestoreRecognisesFraming(t *testing.T) {
	src, prefix := whole(t)
	const name = "engine/probes.json"
	put(t, src, prefix+name, "6\r\n"+small[name]+"\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n")
	dst := dir.Plain(t.TempDir())
	_, err := replicate.Restore(t.Context(), newRelease(small), src, prefix, dst, replicate.RestoreOptions{})
	if err == nil || !strings.Contains(err.Error(), "chunked upload framing is stored in the object; the right content is inside") ||
		!strings.Contains(errext.Hint(err), "checksums: when-required") || errext.StatusOf(err) != errext.Gate {
		t.Errorf("%v (hint %q)", err, errext.Hint(err))
	}
	if _, err := dst.Stat(t.Context(), name); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("%s is there: %v", name, err)
	}
}
