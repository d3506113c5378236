package verify_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/internal/store/dir"
	"drkit/internal/store/mem"
	"drkit/manifest"
	"drkit/manifest/digest"
	"drkit/manifest/release"
	"drkit/verify"
)

// newRelease describes files (by subject) as a release.
func newRelease(files map[string]string) *manifest.Manifest {
	m := &manifest.Manifest{Schema: manifest.Schema, Service: "support"}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		part, path, _ := strings.Cut(name, "/")
		f := manifest.File{Part: manifest.Part(part), Path: path, Size: int64(len(files[name])), Role: manifest.Other}
		if rest, ok := strings.CutPrefix(path, "@"); ok {
			f.Region, f.Path, _ = strings.Cut(rest, "/")
		}
		h := digest.NewHasher(f.Size)
		h.Write([]byte(files[name]))
		f.Sums = h.Sums()
		m.Contents.Files = append(m.Contents.Files, f)
	}
	m.Release = manifest.ReleaseID(m.Contents)
	return m
}

// publish puts a whole copy of the release into s and returns it.
func publish(t *testing.T, m *manifest.Manifest, files map[string]string, s store.ReadWriter) verify.Copy {
	t.Helper()
	c := verify.Copy{Region: "eu", Store: s, Prefix: release.Prefix(m.Service, m.Release)}
	data, err := manifest.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, c.Prefix+release.ManifestName, string(data))
	for name, content := range files {
		put(t, s, c.Prefix+name, content)
	}
	return c
}

func put(t *testing.T, s store.ReadWriter, key, content string) {
	t.Helper()
	if _, err := s.Put(t.Context(), key, store.BytesBody([]byte(content)), store.Cond{}); err != nil {
		t.Fatal(err)
	}
}

var small = map[string]string{
	"model/base/config.json":           `{"model_type": "llama"}`,
	"model/base/tokenizer.json":        "tokens",
	"model/base/model.safetensors":     strings.Repeat("weights ", 1000),
	"model/adapters/billing/a b+c.bin": "adapter",
	"engine/vllm.yaml":                 "model: x\n",
	"deploy/@eu/values.yaml":           "replicas: 6\n",
	"deploy/@us/values.yaml":           "replicas: 4\n",
}

func verdicts(r verify.Result) map[string]verify.Verdict {
	all := map[string]verify.Verdict{}
	for _, g := range r.Gaps {
		all[g.Subject] = g.Verdict
	}
	return all
}

func mustRelease(t *testing.T, m *manifest.Manifest, c verify.Copy, o verify.Options) verify.Result {
	t.Helper()
	r, err := verify.Release(t.Context(), m, c, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestDirectoryIsHashedAtLevelChecksum(t *testing.T) {
	m := newRelease(small)
	c := publish(t, m, small, dir.Plain(t.TempDir()))
	r := mustRelease(t, m, c, verify.Options{Require: store.Content})
	if !r.Holds() || r.Compared != len(small)+1 || r.CountEvidence(store.Content) != len(small)+1 {
		t.Fatalf("%+v", r)
	}
	want := int64(0)
	for _, content := range small {
		want += int64(len(content))
	}
	if r.BytesRead != want {
		t.Errorf("read %d bytes, want %d", r.BytesRead, want)
	}
}

func TestDamage(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(t *testing.T, s *dir.Store, prefix string)
		want   map[string]verify.Verdict // besides the matches
		status errext.Status
		says   string
	}{
		"nothing": {func(*testing.T, *dir.Store, string) {}, nil, errext.Holds, ""},
		"a file of another region is missing": {func(t *testing.T, s *dir.Store, p string) {
			os.Remove(filepath.Join(s.Root(), p, "deploy/@us/values.yaml"))
		}, map[string]verify.Verdict{"deploy/@us/values.yaml": verify.Missing}, errext.Gate, "not there"},
		"same size, other bytes": {func(t *testing.T, s *dir.Store, p string) {
			put(t, s, p+"model/base/tokenizer.json", "Tokens")
		}, map[string]verify.Verdict{"model/base/tokenizer.json": verify.Diverged}, errext.Gate, "sha256"},
		"truncated": {func(t *testing.T, s *dir.Store, p string) {
			put(t, s, p+"model/base/model.safetensors", "weights ")
		}, map[string]verify.Verdict{"model/base/model.safetensors": verify.Diverged}, errext.Gate, "8 bytes"},
		"an extra template": {func(t *testing.T, s *dir.Store, p string) {
			put(t, s, p+"model/base/chat_template.jinja", "x")
		}, map[string]verify.Verdict{"model/base/chat_template.jinja": verify.Extra}, errext.Gate, "change answers"},
		"a signature is no extra": {func(t *testing.T, s *dir.Store, p string) {
			put(t, s, p+"manifest.json.sigstore.json", "x")
		}, nil, errext.Holds, ""},
		"no manifest": {func(t *testing.T, s *dir.Store, p string) {
			os.Remove(filepath.Join(s.Root(), p, "manifest.json"))
		}, map[string]verify.Verdict{"manifest.json": verify.Missing}, errext.Gate, "not there"},
		"a manifest of other contents": {func(t *testing.T, s *dir.Store, p string) {
			other, _ := manifest.Encode(newRelease(map[string]string{"model/base/x": "y"}))
			put(t, s, p+"manifest.json", string(other))
		}, map[string]verify.Verdict{"manifest.json": verify.Diverged}, errext.Gate, "describes release"},
		"a file is a dangling link": {func(t *testing.T, s *dir.Store, p string) {
			name := filepath.Join(s.Root(), p, "engine/vllm.yaml")
			os.Remove(name)
			os.Symlink("nowhere", name)
		}, nil, errext.Failed, "symbolic link"},
		"the copy is a link to other bytes": {func(t *testing.T, s *dir.Store, p string) {
			name := filepath.Join(s.Root(), p, "model/base")
			os.Rename(name, name+"2")
			os.Symlink("base2", name)
		}, map[string]verify.Verdict{"model/base2/config.json": verify.Extra, "model/base2/tokenizer.json": verify.Extra, "model/base2/model.safetensors": verify.Extra}, errext.Gate, "symbolic link"},
		"the store is not there": {func(t *testing.T, s *dir.Store, p string) {
			os.RemoveAll(s.Root())
		}, func() map[string]verify.Verdict {
			all := map[string]verify.Verdict{"manifest.json": verify.Missing}
			for name := range small {
				all[name] = verify.Missing
			}
			return all
		}(), errext.Gate, "does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newRelease(small)
			s := dir.Plain(t.TempDir() + "/store")
			copy := publish(t, m, small, s)
			c.damage(t, s, copy.Prefix)
			r := mustRelease(t, m, copy, verify.Options{})
			got := verdicts(r)
			maps.DeleteFunc(got, func(_ string, v verify.Verdict) bool { return v == verify.Match })
			if !maps.Equal(got, c.want) || r.Status() != c.status {
				t.Errorf("verdicts %v, status %v; want %v, %v", got, r.Status(), c.want, c.status)
			}
			if said := fmt.Sprintf("%+v", r); !strings.Contains(said, c.says) {
				t.Errorf("nothing says %q: %s", c.says, said)
			}
			if (r.Err() == nil) != (c.status == errext.Holds) || errext.StatusOf(r.Err()) != c.status {
				t.Errorf("Err() = %v", r.Err())
			}
		})
	}
}

// TestRandomDamage compares the verdicts on random trees with the truth that the
// test keeps itself.
func TestRandomDamage(t *testing.T) {
	for seed := range uint64(25) {
		rng := rand.New(rand.NewPCG(seed, 1))
		files, truth := map[string]string{}, map[string]verify.Verdict{"manifest.json": verify.Match}
		for i := range 1 + rng.IntN(30) {
			content := make([]byte, rng.IntN(5000))
			for j := range content {
				content[j] = byte(rng.Uint32())
			}
			files[fmt.Sprintf("model/base/d%d/f%d.bin", rng.IntN(4), i)] = string(content)
		}
		m := newRelease(files)
		s := dir.Plain(t.TempDir())
		c := publish(t, m, nil, s)
		for name, content := range files { // plainly: Put would sync each
			path := filepath.Join(s.Root(), filepath.FromSlash(c.Prefix+name))
			os.MkdirAll(filepath.Dir(path), 0o755)
			os.WriteFile(path, []byte(content), 0o644)
		}
		for i, name := range slices.Sorted(maps.Keys(files)) {
			content := []byte(files[name])
			path := filepath.Join(s.Root(), filepath.FromSlash(c.Prefix+name))
			truth[name] = verify.Match
			switch rng.IntN(8) {
			case 0:
				truth[name] = verify.Missing
				os.Remove(path)
			case 1:
				if len(content) > 0 {
					truth[name] = verify.Diverged
					info, _ := os.Stat(path)
					content[rng.IntN(len(content))] ^= 1 << rng.IntN(8)
					os.WriteFile(path, content, 0o644)
					os.Chtimes(path, info.ModTime(), info.ModTime())
				}
			case 2:
				truth[name] = verify.Diverged
				os.WriteFile(path, append(content, 0), 0o644)
			case 3:
				extra := fmt.Sprintf("engine/x%d", i)
				truth[extra] = verify.Extra
				put(t, s, c.Prefix+extra, "extra")
			}
		}
		for _, level := range []verify.Level{verify.Checksum, verify.ByContent} {
			r := mustRelease(t, m, c, verify.Options{Level: level, Workers: 1 + rng.IntN(4)})
			if got := verdicts(r); !maps.Equal(got, truth) {
				t.Fatalf("seed %d, level %s: verdicts\n%v, truth\n%v", seed, level, got, truth)
			}
			red := false
			for _, v := range truth {
				red = red || v != verify.Match
			}
			if r.Holds() == red {
				t.Fatalf("seed %d: holds %v with truth %v", seed, r.Holds(), truth)
			}
		}
	}
}

// claims is a place like a bucket: it says checksums that it was told.
func claims(algorithms ...string) *mem.Store {
	s := mem.New()
	s.Claims = algorithms
	return s
}

func TestClaims(t *testing.T) {
	const victim = "model/base/model.safetensors"
	bad := strings.Repeat("WEIGHTS ", 1000)
	sum := func(a, hex string, e store.Evidence) store.Sum {
		return store.Sum{Digest: digest.Digest{Algorithm: a, Hex: hex}, Evidence: e}
	}
	for name, c := range map[string]struct {
		store    func() *mem.Store
		damage   func(s *mem.Store, key string)
		opts     verify.Options
		verdict  verify.Verdict
		evidence store.Evidence
	}{
		"claimed sha256":        {func() *mem.Store { return claims("sha256") }, nil, verify.Options{}, verify.Match, store.Claimed},
		"claimed crc64nvme":     {func() *mem.Store { return claims("crc64nvme") }, nil, verify.Options{}, verify.Match, store.Claimed},
		"claim is not required": {func() *mem.Store { return claims("sha256") }, nil, verify.Options{Require: store.Content}, verify.Present, store.Claimed},
		"claim, content asked":  {func() *mem.Store { return claims("sha256") }, nil, verify.Options{Level: verify.ByContent, Require: store.Content}, verify.Match, store.Content},
		"bit rot under a claim goes unseen at claimed": {func() *mem.Store { return claims("sha256") }, func(s *mem.Store, key string) {
			s.Damage(key, []byte(bad))
		}, verify.Options{}, verify.Match, store.Claimed},
		"bit rot under a claim is seen at content": {func() *mem.Store { return claims("sha256") }, func(s *mem.Store, key string) {
			s.Damage(key, []byte(bad))
		}, verify.Options{Level: verify.ByContent}, verify.Diverged, store.Content},
		"another claim": {func() *mem.Store { return claims("crc32c") }, func(s *mem.Store, key string) {
			s.Put(context.Background(), key, store.BytesBody([]byte(bad)), store.Cond{})
		}, verify.Options{}, verify.Diverged, store.Claimed},
		"no checksum at all":        {func() *mem.Store { return claims() }, nil, verify.Options{}, verify.NotComparable, store.Size},
		"no checksum, content":      {func() *mem.Store { return claims() }, nil, verify.Options{Level: verify.ByContent}, verify.Match, store.Content},
		"presence is never a match": {func() *mem.Store { return claims("sha256") }, nil, verify.Options{Level: verify.Presence}, verify.Present, store.Size},
		"one of two claims is wrong": {func() *mem.Store { return claims("sha256", "crc32") }, func(s *mem.Store, key string) {
			s.Say(key, func(o *store.Object) { o.Sums[1].Hex = "00000000" })
		}, verify.Options{}, verify.Diverged, store.Claimed},
		"two claims of one algorithm": {func() *mem.Store { return claims("sha256") }, func(s *mem.Store, key string) {
			s.Say(key, func(o *store.Object) {
				o.Sums = append(o.Sums, sum("sha1", "aa", store.Claimed), sum("sha1", "bb", store.Claimed))
			})
		}, verify.Options{}, verify.Diverged, store.Claimed},
		"an empty claim proves nothing": {func() *mem.Store { return claims() }, func(s *mem.Store, key string) {
			s.Say(key, func(o *store.Object) { o.Sums = []store.Sum{sum("sha256", "", store.Claimed)} })
		}, verify.Options{}, verify.NotComparable, store.Size},
		"a composite is no whole": {func() *mem.Store { return claims("crc32") }, func(s *mem.Store, key string) {
			s.Say(key, func(o *store.Object) { o.Sums[0].Parts = 4; o.Sums[0].Hex = "00000000" })
		}, verify.Options{}, verify.NotComparable, store.Size},
		"an ETag that differs proves nothing": {func() *mem.Store { return claims("md5") }, func(s *mem.Store, key string) {
			s.Say(key, func(o *store.Object) {
				o.Sums[0].EqualityOnly, o.Sums[0].Hex = true, "00000000000000000000000000000000"
			})
		}, verify.Options{}, verify.NotComparable, store.Size},
		"an ETag that is equal proves": {func() *mem.Store { return claims("md5") }, func(s *mem.Store, key string) {
			s.Say(key, func(o *store.Object) { o.Sums[0].EqualityOnly = true })
		}, verify.Options{}, verify.Match, store.Claimed},
		"hashed at rest": {func() *mem.Store { return claims("sha256") }, func(s *mem.Store, key string) {
			s.Say(key, func(o *store.Object) { o.Sums[0].Evidence = store.Recomputed })
		}, verify.Options{Require: store.Recomputed}, verify.Match, store.Recomputed},
	} {
		for _, lists := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, listed %v", name, lists), func(t *testing.T) {
				m := newRelease(small)
				s := c.store()
				s.ListsSums = lists
				copy := publish(t, m, small, s)
				if c.damage != nil {
					c.damage(s, copy.Prefix+victim)
				}
				r := mustRelease(t, m, copy, c.opts)
				i := slices.IndexFunc(r.Gaps, func(g verify.Gap) bool { return g.Subject == victim })
				if g := r.Gaps[i]; g.Verdict != c.verdict || g.Evidence != c.evidence {
					t.Errorf("%s on %s (%s), want %s on %s", g.Verdict, g.Evidence, g.Why, c.verdict, c.evidence)
				}
				if c.verdict != verify.Match && (r.Holds() || r.Gaps[i].Why == "") {
					t.Errorf("holds, or says nothing: %+v", r.Gaps[i])
				}
			})
		}
	}
}

func TestOneUnreadableObjectDoesNotStopTheOthers(t *testing.T) {
	m := newRelease(small)
	s := mem.New()
	c := publish(t, m, small, s)
	denied := errors.New("access denied")
	s.Fault = func(op, key string) error {
		if op == "open" && strings.HasSuffix(key, "vllm.yaml") {
			return denied
		}
		return nil
	}
	r := mustRelease(t, m, c, verify.Options{Level: verify.ByContent})
	if len(r.Errors) != 1 || r.Errors[0].Subject != "engine/vllm.yaml" || !errors.Is(r.Errors[0], denied) || r.Count(verify.Match) != len(small) {
		t.Errorf("errors %v, matches %d", r.Errors, r.Count(verify.Match))
	}
	if r.Status() != errext.Failed {
		t.Errorf("errors alone: status %v, want failed", r.Status())
	}
	s.Damage(c.Prefix+"model/base/tokenizer.json", []byte("Tokens"))
	if r = mustRelease(t, m, c, verify.Options{Level: verify.ByContent}); r.Status() != errext.Gate || len(r.Reasons()) != 2 {
		t.Errorf("access denied beside a diverged file: status %v of %v, want gate of two", r.Status(), r.Reasons())
	}
}

func TestAManifestThatCannotBeReadIsAnError(t *testing.T) {
	m := newRelease(small)
	s := mem.New()
	s.Claims = []string{digest.SHA256}
	c := publish(t, m, small, s)
	s.Fault = func(op, key string) error {
		if op == "open" && strings.HasSuffix(key, release.ManifestName) {
			return errors.New("connection reset")
		}
		return nil
	}
	r := mustRelease(t, m, c, verify.Options{})
	if r.Status() != errext.Failed || len(r.Errors) != 1 || r.Errors[0].Subject != release.ManifestName {
		t.Errorf("status %v, %+v", r.Status(), r.Errors)
	}
}

func TestFailedListingIsNeverGreen(t *testing.T) {
	m := newRelease(small)
	s := mem.New()
	c := publish(t, m, small, s)
	s.Fault = func(op, key string) error {
		if op == "list" {
			return errors.New("connection reset")
		}
		return nil
	}
	r := mustRelease(t, m, c, verify.Options{Level: verify.ByContent})
	if r.Status() != errext.Failed || len(r.Errors) == 0 {
		t.Errorf("status %v, errors %v", r.Status(), r.Errors)
	}
}

func TestChangeWhileVerifying(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, s *mem.Store, prefix string){
		"another content": func(t *testing.T, s *mem.Store, p string) { put(t, s, p+"engine/vllm.yaml", "model: y\n") },
		"same content":    func(t *testing.T, s *mem.Store, p string) { put(t, s, p+"engine/vllm.yaml", small["engine/vllm.yaml"]) },
		"removed":         func(t *testing.T, s *mem.Store, p string) { s.Remove(t.Context(), p+"engine/vllm.yaml", store.Cond{}) },
		"a new file":      func(t *testing.T, s *mem.Store, p string) { put(t, s, p+"engine/other.yaml", "x") },
	} {
		t.Run(name, func(t *testing.T) {
			m := newRelease(small)
			s := mem.New()
			c := publish(t, m, small, s)
			lists := 0
			s.Fault = func(op, key string) error {
				if op == "list" {
					if lists++; lists == 2 { // everything was compared by now
						s.Fault = nil
						change(t, s, c.Prefix)
					}
				}
				return nil
			}
			r := mustRelease(t, m, c, verify.Options{Level: verify.ByContent})
			if r.Status() != errext.Failed || len(r.Errors) != 1 || !strings.HasPrefix(r.Errors[0].Subject, "engine/") {
				t.Errorf("status %v, errors %v", r.Status(), r.Errors)
			}
			if _, judged := verdicts(r)["engine/vllm.yaml"]; judged && name != "a new file" {
				t.Error("the changed file kept its verdict")
			}
		})
	}
}

func TestNothingComparedIsNotGreen(t *testing.T) {
	if _, err := verify.Release(t.Context(), newRelease(nil), verify.Copy{Store: mem.New()}, verify.Options{}); errext.StatusOf(err) != errext.Gate {
		t.Errorf("a release without files: %v", err)
	}
	r, err := verify.Pair(t.Context(), verify.Copy{Store: mem.New()}, verify.Copy{Store: mem.New()}, verify.Options{})
	if err != nil || r.Status() != errext.Gate {
		t.Errorf("two empty places: %v, %v", r.Status(), err)
	}
	if (verify.Result{}).Holds() {
		t.Error("the zero Result holds")
	}
}

func TestUsage(t *testing.T) {
	m := newRelease(small)
	for _, o := range []verify.Options{{Level: "deep"}, {Require: store.Size}, {Require: 99}} {
		if _, err := verify.Release(t.Context(), m, verify.Copy{Store: mem.New()}, o); errext.StatusOf(err) != errext.Usage {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestCancel(t *testing.T) {
	m := newRelease(small)
	s := mem.New()
	c := publish(t, m, small, s)
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	s.Fault = func(op, key string) error {
		if op == "open" {
			cancel(stop)
		}
		return nil
	}
	if _, err := verify.Release(ctx, m, c, verify.Options{Level: verify.ByContent}); !errors.Is(err, stop) {
		t.Errorf("error %v, want the cause", err)
	}
}
