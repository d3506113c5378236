package manifest_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/manifest"
	"drkit/manifest/digest"
)

// memory is a source in memory. broken keys are links; change runs when a key is
// opened, to play a file that is written meanwhile.
type memory struct {
	files  map[string]string
	broken map[string]*store.LinkError
	times  map[string]time.Time
	change func(key string)
	fail   string // a key whose reading fails
}

func (m *memory) object(key string) store.Object {
	return store.Object{Key: key, Size: int64(len(m.files[key])), ModTime: m.times[key]}
}

func (m *memory) List(_ context.Context, prefix string) iter.Seq2[store.Object, error] {
	keys := slices.Sorted(maps.Keys(m.files))
	for k := range m.broken {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return func(yield func(store.Object, error) bool) {
		for _, k := range keys {
			if !strings.HasPrefix(k, prefix) {
				continue
			}
			if e, ok := m.broken[k]; ok {
				if !yield(store.Object{}, e) {
					return
				}
			} else if !yield(m.object(k), nil) {
				return
			}
		}
	}
}

func (m *memory) Open(_ context.Context, o store.Object, off, n int64) (io.ReadCloser, error) {
	if o.Key == m.fail {
		return nil, &store.KeyError{Key: o.Key, Err: fs.ErrPermission}
	}
	if m.change != nil {
		m.change(o.Key)
	}
	data := m.files[o.Key][off:]
	if n >= 0 {
		data = data[:n]
	}
	return io.NopCloser(strings.NewReader(data)), nil
}

func (m *memory) Stat(_ context.Context, key string) (store.Object, error) {
	if _, ok := m.files[key]; !ok {
		return store.Object{}, store.ErrNotFound
	}
	return m.object(key), nil
}

func tiny(t *testing.T) map[string]string {
	t.Helper()
	return folder(t, "../testdata/models/support-tiny")
}

func folder(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(data)
	}
	return files
}

func input(t *testing.T) manifest.Input {
	t.Helper()
	deploy := &memory{files: map[string]string{"k8s/eu.yaml": "apiVersion: v1\nkind: Pod\nspec: {containers: [{name: a, image: \"a/b:1\"}]}\n", "Dockerfile": "FROM scratch\n"}}
	return manifest.Input{
		Service: "support-chat",
		Model:   manifest.Tree{Source: &memory{files: tiny(t)}},
		Adapters: []manifest.Tree{{Name: "billing", Source: &memory{
			files: prefixed("x/", folder(t, "../testdata/models/support-tiny-billing"))}, Prefix: "x/"}},
		Engine: manifest.EngineInput{Kind: "vllm", Version: "0.32.0", Args: []string{"--enable-lora"}, Env: map[string]string{"B": "2", "A": "<1>"}},
		DeployFiles: []manifest.PartFile{
			{Region: "eu-west-1", Path: "k8s/eu.yaml", Source: deploy, Key: "k8s/eu.yaml"},
			{Path: "Dockerfile", Source: deploy, Key: "Dockerfile"}},
		Images:  []string{"z.example/vllm@sha256:" + strings.Repeat("ab", 32)},
		Regions: []manifest.RegionSummary{{Name: "eu-west-1", Role: "target", Residency: "eu"}},
	}
}

func prefixed(p string, files map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range files {
		out[p+k] = v
	}
	return out
}

func build(t *testing.T, in manifest.Input) (*manifest.Manifest, *manifest.Files) {
	t.Helper()
	m, files, err := manifest.Build(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return m, files
}

func encode(t *testing.T, m *manifest.Manifest) []byte {
	t.Helper()
	b, err := manifest.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBuildListsEveryFileWithDigestsAndRole(t *testing.T) {
	m, files := build(t, input(t))
	got := map[string]manifest.Role{}
	for _, f := range m.Contents.Files {
		got[f.Subject()] = f.Role
		body, err := files.Body(f)
		if err != nil {
			t.Fatal(err)
		}
		r, err := body.Open(t.Context(), 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		sums, n, err := digest.Read(r, f.Size, digest.Options{})
		if err != nil || n != f.Size || !maps.Equal(sums, f.Sums) || !maps.Equal(body.Sums, f.Sums) {
			t.Errorf("%s: body gives %d bytes, %v, %v; the manifest says %d, %v", f.Subject(), n, sums, err, f.Size, f.Sums)
		}
	}
	want := map[string]manifest.Role{
		"model/base/config.json": manifest.Config, "model/base/generation_config.json": manifest.Generation,
		"model/base/tokenizer.json": manifest.Tokenizer, "model/base/tokenizer_config.json": manifest.Tokenizer,
		"model/base/chat_template.jinja": manifest.ChatTemplate, "model/base/model.safetensors.index.json": manifest.Index,
		"model/base/model-00001-of-00002.safetensors": manifest.Weights, "model/base/model-00002-of-00002.safetensors": manifest.Weights,
		"model/adapters/billing/adapter_config.json": manifest.AdapterFile, "model/adapters/billing/adapter_model.safetensors": manifest.AdapterFile,
		"engine/drkit-engine.json": manifest.EngineOptions, "deploy/Dockerfile": manifest.Dockerfile,
		"deploy/@eu-west-1/k8s/eu.yaml": manifest.Kubernetes,
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if len(m.Annotations.Problems) != 0 {
		t.Errorf("problems in a whole model: %v", m.Annotations.Problems)
	}
	if i := m.Contents.Images; len(i) != 2 || i[1].Reference != "a/b:1" || i[1].Region != "eu-west-1" || !slices.Equal(i[1].Files, []string{"k8s/eu.yaml:3"}) || i[0].Digest.Hex != strings.Repeat("ab", 32) {
		t.Errorf("images: %+v", i)
	}
	facts := m.Annotations.Model
	if facts.Template.Source != "chat_template.jinja" || facts.Tokenizer.File != "tokenizer.json" || facts.Config.Layers != 2 || len(facts.Weights.Shards) != 2 {
		t.Errorf("facts: %+v", facts)
	}
	if a := m.Annotations.Adapters; len(a) != 1 || a[0].Rank == 0 || len(a[0].Tensors) == 0 {
		t.Errorf("adapters: %+v", a)
	}
}

// The digests of one file, computed by sha256sum.
func TestDigestIsThatOfTheFile(t *testing.T) {
	m, _ := build(t, manifest.Input{Model: manifest.Tree{Source: &memory{files: map[string]string{"config.json": "{}\n"}}}})
	const want = "ca3d163bab055381827226140568f3bef7eaac187cebd76878e0b63e9e442356"
	if got := m.Contents.Files[0].Sums[digest.SHA256]; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestBuildIsDeterministic(t *testing.T) {
	first, _ := build(t, input(t))
	other := input(t)
	other.Model = manifest.Tree{Prefix: "some/where/else/", Source: &memory{files: prefixed("some/where/else/", tiny(t)), times: map[string]time.Time{}}}
	other.Workers = 7
	slices.Reverse(other.DeployFiles)
	t.Setenv("LC_ALL", "tr_TR.UTF-8")
	t.Setenv("TZ", "Asia/Kathmandu")
	second, _ := build(t, other)
	if a, b := encode(t, first), encode(t, second); !bytes.Equal(a, b) {
		t.Errorf("two builds of one release differ:\n%s\n%s", a, b)
	}
}

// The expected id was computed by the Python script of docs/formats.md.
func TestReleaseIDAsDocumented(t *testing.T) {
	data, err := os.ReadFile("testdata/small.json")
	if err != nil {
		t.Fatal(err)
	}
	var m manifest.Manifest
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	const want = "ba8bf83f61c0b7d5c54daa6b36e85bcf5a1e3eb030fb5fc00e4e59b39c33d4f8"
	if got := manifest.ReleaseID(m.Contents); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	slices.Reverse(m.Contents.Files)
	if got := manifest.ReleaseID(m.Contents); got != want {
		t.Error("the id depends on the order of the files")
	}
	if got, want := manifest.SubjectOf(&m).String(), "sha256:1e45bf66cdabf995336a40fce15a1f5b1a123c34f2be345e0a2a9b3355a05c34"; got != want {
		t.Errorf("subject: got %s, want %s", got, want)
	}
}

func TestReleaseIDCoversContents(t *testing.T) {
	base, _ := build(t, input(t))
	for name, change := range map[string]func(*manifest.Contents){
		"part":   func(c *manifest.Contents) { c.Files[0].Part = manifest.Engine },
		"region": func(c *manifest.Contents) { c.Files[0].Region = "x" },
		"path":   func(c *manifest.Contents) { c.Files[0].Path += "x" },
		"size":   func(c *manifest.Contents) { c.Files[0].Size++ },
		"sha256": func(c *manifest.Contents) { c.Files[0].Sums = digest.Set{digest.SHA256: strings.Repeat("0", 64)} },
		"lost":   func(c *manifest.Contents) { c.Files = c.Files[1:] },
		"image":  func(c *manifest.Contents) { c.Images[0].Digest.Hex = strings.Repeat("cd", 32) },
	} {
		c := manifest.Contents{Files: slices.Clone(base.Contents.Files), Images: slices.Clone(base.Contents.Images)}
		change(&c)
		if manifest.ReleaseID(c) == base.Release {
			t.Errorf("the id does not cover %s", name)
		}
	}
	noted := *base
	noted.Annotations.Tool = "another version"
	if manifest.ReleaseID(noted.Contents) != base.Release {
		t.Error("the id covers an annotation")
	}
}

func TestSubjectIgnoresProbesAndDeploy(t *testing.T) {
	in := input(t)
	base, _ := build(t, in)
	probes := &memory{files: map[string]string{"probes.json": "{}"}}
	in.EngineFiles = []manifest.PartFile{{Path: "probes.json", Role: manifest.Probes, Source: probes, Key: "probes.json"}}
	in.DeployFiles = nil
	more, _ := build(t, in)
	if manifest.SubjectOf(base) != manifest.SubjectOf(more) {
		t.Error("recording probes or changing deployment changed what they are bound to")
	}
	in.Engine.Args = append(in.Engine.Args, "--max-model-len=64")
	other, _ := build(t, in)
	if manifest.SubjectOf(base) == manifest.SubjectOf(other) {
		t.Error("other engine flags kept the subject")
	}
}

func TestDecodeReadsWhatEncodeWrote(t *testing.T) {
	m, _ := build(t, input(t))
	text := encode(t, m)
	back, err := manifest.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	if again := encode(t, back); !bytes.Equal(again, text) {
		t.Errorf("decoding and encoding changed the text:\n%s", again)
	}
}

func TestDecodeRefuses(t *testing.T) {
	m, _ := build(t, input(t))
	text := string(encode(t, m))
	first := `"path": "Dockerfile"`
	for name, c := range map[string]struct{ old, new, want string }{
		"newer major schema": {"drkit.manifest/1.0", "drkit.manifest/2.0", "major version"},
		"foreign schema":     {"drkit.manifest/1.0", "other/1.0", "schema"},
		"changed contents":   {`"size": 13,`, `"size": 14,`, "claims to be release"},
		"path upwards":       {first, `"path": "../Dockerfile"`, `".."`},
		"absolute path":      {first, `"path": "/Dockerfile"`, "absolute"},
		"backslash":          {first, `"path": "a\\b"`, "backslash"},
		"control character":  {first, `"path": "a\tb"`, "control character"},
		"region mark":        {first, `"path": "@eu/Dockerfile"`, "begins with @"},
		"unknown part":       {`"part": "deploy"`, `"part": "other"`, "unknown part"},
		"short digest":       {`"crc32": "`, `"crc32": "0`, "hexadecimal"},
		"cut off":            {text[len(text)/2:], "", "JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(text, c.old) {
				t.Fatalf("the manifest has no %s", c.old)
			}
			_, err := manifest.Decode([]byte(strings.Replace(text, c.old, c.new, 1)))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want it to say %q", err, c.want)
			}
		})
	}
	twice := *m
	twice.Contents.Files = append(slices.Clone(m.Contents.Files), m.Contents.Files[0])
	twice.Release = manifest.ReleaseID(twice.Contents)
	if _, err := manifest.Decode(encode(t, &twice)); err == nil || !strings.Contains(err.Error(), "stands twice") {
		t.Errorf("a file twice: got %v", err)
	}
}

// A schema of another major version may have other types everywhere: the version is
// what is told of it.
func TestDecodeOfOtherTypes(t *testing.T) {
	for text, want := range map[string]string{
		`{"schema": "drkit.manifest/2.0", "service": {"name": "a"}, "contents": []}`: "major version",
		`{"service": 3, "schema": "other/1.0"}`:                                      "its schema is",
		`{"schema": "drkit.manifest/1.0", "service": 3}`:                             "service",
		`{"schema": 3}`: "JSON",
	} {
		if _, err := manifest.Decode([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want it to say %q", text, err, want)
		}
	}
}

func TestDecodeTakesANewerMinorSchema(t *testing.T) {
	m, _ := build(t, input(t))
	text := strings.Replace(string(encode(t, m)), "drkit.manifest/1.0", "drkit.manifest/1.7", 1)
	if _, err := manifest.Decode(resum(strings.Replace(text, "{", `{"later": 1,`, 1))); err != nil {
		t.Error(err)
	}
}

// resum writes the checksum as docs/formats.md describes it.
func resum(text string) []byte {
	open := regexp.MustCompile(`"sum": "[0-9a-f]{64}"`).ReplaceAllString(text, `"sum": "`+strings.Repeat("0", 64)+`"`)
	return []byte(strings.Replace(open, strings.Repeat("0", 64), fmt.Sprintf("%x", sha256.Sum256([]byte(open))), 1))
}

// TestARottenByteAnywhereIsFound: the release id does not cover annotations, by
// which the gate judges; the checksum does.
func TestARottenByteAnywhereIsFound(t *testing.T) {
	m, _ := build(t, input(t))
	data := encode(t, m)
	for at := 0; at < len(data); at += 1 + len(data)/400 {
		rotten := bytes.Clone(data)
		rotten[at] ^= 1
		if _, err := manifest.Decode(rotten); err == nil {
			t.Errorf("byte %d (%q) rotten: accepted", at, data[max(0, at-20):min(len(data), at+20)])
		}
	}
}

// Same is to say so of the very bytes alone, whichever of them is another.
func TestSame(t *testing.T) {
	built, _ := build(t, input(t))
	data := encode(t, built)
	read, err := manifest.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	same := func(m *manifest.Manifest, text []byte) bool {
		t.Helper()
		ok, err := manifest.Same(bytes.NewReader(text), m)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	if !same(read, data) || same(built, data) {
		t.Errorf("the bytes that it was read from: %t; one that was built: %t", same(read, data), same(built, data))
	}
	for at := 0; at < len(data); at += 1 + len(data)/400 {
		rotten := bytes.Clone(data)
		rotten[at] ^= 1
		if same(read, rotten) {
			t.Errorf("byte %d rotten: the same", at)
		}
	}
	built.Service += "2"
	for name, other := range map[string][]byte{"empty": nil, "cut": data[:len(data)-1], "in its head": data[:100], "more": append(bytes.Clone(data), '\n'), "sealed anew": encode(t, built)} {
		if same(read, other) {
			t.Errorf("%s: the same", name)
		}
	}
	broken := errors.New("broken")
	if _, err := manifest.Same(io.MultiReader(bytes.NewReader(data), iotest.ErrReader(broken)), read); !errors.Is(err, broken) {
		t.Errorf("a reader that fails gives %v", err)
	}
}

func TestBuildFailsOnIO(t *testing.T) {
	for name, c := range map[string]struct {
		files  map[string]string
		spoil  func(*memory)
		want   string
		hinted bool
	}{
		"empty folder": {map[string]string{}, nil, "model/base holds no file", true},
		"only git":     {map[string]string{".git/config": "x"}, nil, "holds no file", true},
		"unreadable":   {map[string]string{"a.json": "{}"}, func(m *memory) { m.fail = "a.json" }, "model/base/a.json", true},
		"grows": {map[string]string{"a.json": "{}"}, func(m *memory) {
			m.change = func(k string) { m.files[k] = "{}  " }
		}, "2 bytes were listed, 4 read", true},
		"written again": {map[string]string{"a.json": "{}"}, func(m *memory) {
			m.times = map[string]time.Time{}
			m.change = func(k string) { m.times[k] = time.Unix(9, 0) }
		}, "changed while it was read", true},
		"removed": {map[string]string{"a.json": ""}, func(m *memory) {
			m.change = func(k string) { delete(m.files, k) }
		}, "changed while it was read", true},
		"backslash":         {map[string]string{`a\b`: "x"}, nil, "backslash", true},
		"upwards":           {map[string]string{"../b": "x"}, nil, `".."`, true},
		"control character": {map[string]string{"a\nb": "x"}, nil, "control character", true},
	} {
		t.Run(name, func(t *testing.T) {
			m := &memory{files: c.files}
			if c.spoil != nil {
				c.spoil(m)
			}
			_, _, err := manifest.Build(t.Context(), manifest.Input{Model: manifest.Tree{Source: m}})
			if err == nil || !strings.Contains(err.Error(), c.want) || (errext.Hint(err) != "") != c.hinted {
				t.Errorf("got %v (hint %q), want it to say %q", err, errext.Hint(err), c.want)
			}
		})
	}
}

func TestBuildStopsWhenCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := manifest.Build(ctx, input(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestBrokenLinksAreProblems(t *testing.T) {
	src := &memory{files: tiny(t), broken: map[string]*store.LinkError{
		"extra.json": {Key: "extra.json", Target: "../blobs/1"},
		"loop":       {Key: "loop", Target: ".", Loop: true},
		".git/x":     {Key: ".git/x", Target: "y"},
	}}
	m, _ := build(t, manifest.Input{Model: manifest.Tree{Source: src}})
	var got []string
	for _, p := range m.Annotations.Problems {
		got = append(got, p.Path+" "+p.Kind)
	}
	if want := "[base/extra.json dangling-symlink base/loop symlink-loop]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func TestDecomposedNamesAreNoted(t *testing.T) {
	m, _ := build(t, manifest.Input{Model: manifest.Tree{Source: &memory{files: map[string]string{"e\u0301.txt": "x"}}}})
	if p := m.Annotations.Problems; len(p) != 1 || p[0].Kind != "path-not-nfc" {
		t.Errorf("got %v", p)
	}
	if m.Contents.Files[0].Path != "base/e\u0301.txt" {
		t.Errorf("the name was changed to %q", m.Contents.Files[0].Path)
	}
}

func TestSamePlaceTwiceIsAnError(t *testing.T) {
	in := input(t)
	in.DeployFiles = append(in.DeployFiles, in.DeployFiles[1])
	if _, _, err := manifest.Build(t.Context(), in); errext.StatusOf(err) != errext.Usage || !strings.Contains(err.Error(), "deploy/Dockerfile") {
		t.Errorf("got %v", err)
	}
}

func TestMissingPartFileIsNamed(t *testing.T) {
	in := input(t)
	in.EngineFiles = []manifest.PartFile{{Path: "vllm.yaml", Source: &memory{}, Key: "vllm.yaml"}}
	_, _, err := manifest.Build(t.Context(), in)
	if !errors.Is(err, store.ErrNotFound) || !strings.Contains(err.Error(), "vllm.yaml") || errext.Hint(err) == "" {
		t.Errorf("got %v", err)
	}
}
