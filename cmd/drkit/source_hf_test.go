package main

import (
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"drkit/internal/errext"
	"drkit/internal/service"
	"drkit/internal/store"
	"drkit/internal/store/dir"
	"drkit/internal/store/hf/hftest"
	"drkit/manifest"
	"drkit/manifest/rules"
)

// hubService is a service whose model and adapter are taken from the given
// places; nothing else is in it.
func hubService(t *testing.T, model, adapter string) *service.Service {
	t.Helper()
	root := t.TempDir()
	text := fmt.Sprintf(`apiVersion: drkit/v1
kind: Service
metadata: {name: support}
model:
  source: %s
  adapters: [{name: billing, source: %s}]
engine: {kind: vllm, version: 0.32.0, args: [--enable-lora, --max-lora-rank, "16", --lora-modules, billing=/adapters/billing]}
regions:
  - {name: us-east-1, role: source, residency: us, store: ./regions/us-east-1}
  - {name: eu-west-1, role: target, residency: eu, store: ./regions/eu-west-1}
`, model, adapter)
	path := filepath.Join(root, "drkit.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	svc, err := service.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return svc
}

// startHub serves a folder of testdata/models as the repository repo.
func startHub(t *testing.T, repo, folder string) *hftest.Hub {
	t.Helper()
	hub := &hftest.Hub{Repo: repo, Token: "hf_atokenfortests", PageSize: 3, Files: map[string][]byte{}}
	root := filepath.Join("..", "..", "testdata", "models", folder)
	names, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		data, err := os.ReadFile(filepath.Join(root, n.Name()))
		if err != nil {
			t.Fatal(err)
		}
		hub.Files[n.Name()] = data
	}
	server := httptest.NewServer(hub)
	t.Cleanup(server.Close)
	t.Setenv("HF_ENDPOINT", server.URL)
	t.Setenv("HF_TOKEN", hub.Token)
	t.Setenv("HF_HUB_OFFLINE", "")
	t.Setenv("TRANSFORMERS_OFFLINE", "")
	return hub
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

// A model on the hub builds, passes the gate, and is copied from there: the same
// release as from a folder, with its commit noted.
func TestModelFromTheHub(t *testing.T) {
	hub := startHub(t, "acme/support-tiny", "support-tiny")
	folder, adapter := absolute(t, "../../testdata/models/support-tiny"), absolute(t, "../../testdata/models/support-tiny-billing")
	m, files, err := buildRelease(t.Context(), hubService(t, "hf://acme/support-tiny@main", adapter), nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := []manifest.Origin{{Tree: "base", Repo: "acme/support-tiny", Commit: hftest.Commit}}; !slices.Equal(m.Annotations.Origins, want) {
		t.Errorf("origins %+v", m.Annotations.Origins)
	}
	fromFolder, _, err := buildRelease(t.Context(), hubService(t, folder, adapter), nil)
	if err != nil || m.Release != fromFolder.Release {
		t.Errorf("from the hub it is release %s, from the folder %s, %v", m.Release, fromFolder.Release, err)
	}
	if got, want := rules.Check(m), rules.Check(fromFolder); len(got) != len(want) {
		t.Errorf("findings %+v, from the folder %+v", got, want)
	}
	target := dir.Plain(t.TempDir())
	for _, f := range m.Contents.Files {
		body, err := files.Body(f)
		if err == nil {
			_, err = target.Put(t.Context(), f.Path, body, store.Cond{})
		}
		if err != nil {
			t.Errorf("copying %s: %v", f.Subject(), err)
		}
	}
	for name, data := range hub.Files {
		if got, err := os.ReadFile(filepath.Join(target.Root(), "base", name)); err != nil || string(got) != string(data) {
			t.Errorf("%s was copied as %d bytes, %v", name, len(got), err)
		}
	}
}

func TestModelFromTheHubThatSendsOtherBytes(t *testing.T) {
	hub := startHub(t, "acme/support-tiny", "support-tiny")
	svc := hubService(t, "hf://acme/support-tiny", absolute(t, "../../testdata/models/support-tiny-billing"))
	hub.Damage = map[string][]byte{"config.json": append([]byte(" "), hub.Files["config.json"][1:]...)}
	if _, _, err := buildRelease(t.Context(), svc, nil); !errors.Is(err, store.ErrMismatch) || !strings.Contains(err.Error(), "config.json") || !strings.Contains(errext.Hint(err), "HF_ENDPOINT") {
		t.Errorf("got %v, hint %q", err, errext.Hint(err))
	}
	t.Setenv("HF_HUB_OFFLINE", "1")
	if _, _, err := buildRelease(t.Context(), svc, nil); err == nil || !strings.Contains(err.Error(), "HF_HUB_OFFLINE") {
		t.Errorf("offline: %v", err)
	}
}

// hubCache lays out the cache that huggingface_hub wrote; in testdata its links
// are files that hold their targets. put places what a link leads to.
func hubCache(t *testing.T, put func(target, at string) error) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "hub")
	if err := os.CopyFS(root, os.DirFS("../../internal/store/hf/testdata/hub")); err != nil {
		t.Fatal(err)
	}
	snapshot := filepath.Join(root, "models--acme--tiny", "snapshots", hftest.Commit)
	for _, name := range []string{"chat_template.jinja", "config.json", "generation_config.json", "model.safetensors", "onnx/README.md", "tokenizer.json", "tokenizer_config.json"} {
		at := filepath.Join(snapshot, name)
		target, err := os.ReadFile(at)
		if err := errors.Join(err, os.Remove(at), put(string(target), at)); err != nil {
			t.Fatal(err)
		}
	}
	return snapshot
}

func copyOfTarget(target, at string) error {
	data, err := os.ReadFile(filepath.Join(filepath.Dir(at), target))
	return errors.Join(err, os.WriteFile(at, data, 0o644))
}

func TestModelFromTheCache(t *testing.T) {
	build := func(source string) *manifest.Manifest {
		t.Helper()
		place, err := openSource(service.Location{Raw: source, Scheme: service.SchemeFile, Path: source})
		if err != nil {
			t.Fatal(err)
		}
		m, _, err := manifest.Build(t.Context(), manifest.Input{Service: "tiny", Model: manifest.Tree{Source: place}})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	encode := func(m *manifest.Manifest) string {
		data, err := manifest.Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	linked := hubCache(t, os.Symlink)
	m := build(linked)
	if len(m.Contents.Files) != 7 || len(m.Annotations.Problems) > 0 || len(m.Annotations.Origins) != 1 {
		t.Errorf("%d files, problems %+v, origins %+v", len(m.Contents.Files), m.Annotations.Problems, m.Annotations.Origins)
	}
	if other := build(hubCache(t, copyOfTarget)); encode(other) != encode(m) {
		t.Error("a copy without links has another manifest")
	}
	if other := build(absolute(t, "../../internal/store/hf/testdata/repo")); other.Release != m.Release {
		t.Error("the repository as it was uploaded is another release")
	}

	blobs := filepath.Join(linked, "..", "..", "blobs")
	flip(t, filepath.Join(blobs, "b448e90341526d2d63e2b29b544cf20fcfd2c85e731366db0d2212d085d9f5a9")) // model.safetensors
	flip(t, filepath.Join(blobs, "8b255eabe6e0c48a15b932a575aba35fc23749e7"))                         // tokenizer.json
	if err := os.Remove(filepath.Join(linked, "chat_template.jinja")); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range build(linked).Annotations.Problems {
		got = append(got, p.Path+" "+p.Kind)
	}
	if want := []string{"base/chat_template.jinja " + store.DefectMissing, "base/model.safetensors " + manifest.KindDigest, "base/tokenizer.json " + manifest.KindDigest}; !slices.Equal(got, want) {
		t.Errorf("problems %q, want %q", got, want)
	}
}

// flip turns the last but two byte of a file over, as a disk does.
func flip(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	end, err := f.Seek(-3, io.SeekEnd)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{0x20}, end); err != nil {
		t.Fatal(err)
	}
}

// A cache without refs/main is complete, and an engine that is given the hub id
// does not find it. Nothing but the source knows.
func TestCacheWithoutItsRef(t *testing.T) {
	check := func(snapshot string) (found []string) {
		t.Helper()
		place, err := openSource(service.Location{Raw: snapshot, Scheme: service.SchemeFile, Path: snapshot})
		if err != nil {
			t.Fatal(err)
		}
		m, _, err := manifest.Build(t.Context(), manifest.Input{Service: "tiny", Model: manifest.Tree{Source: place},
			Engine: manifest.EngineInput{Kind: "vllm", Version: "0.32.0", Args: []string{"acme/tiny"}, Env: map[string]string{"HF_HUB_OFFLINE": "1"}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range rules.Check(m) {
			if f.Rule == "C-16" {
				found = append(found, string(f.Severity)+" "+f.Path)
			}
		}
		return found
	}
	snapshot := hubCache(t, os.Symlink)
	if got := check(snapshot); got != nil {
		t.Errorf("a whole cache: %q", got)
	}
	if err := os.Remove(filepath.Join(snapshot, "..", "..", "refs", "main")); err != nil {
		t.Fatal(err)
	}
	if got := check(snapshot); !slices.Equal(got, []string{"block base/refs/main"}) {
		t.Errorf("without its ref: %q", got)
	}
}

// Declaring the repository that a model takes code from, and nothing less, turns
// the verdict.
func TestRepositoriesOfTheServiceFile(t *testing.T) {
	reports := absolute(t, "../../manifest/rules/testdata/reports/03-code-in-other-repo")
	for _, c := range []struct{ tree, repositories, want string }{
		{"bad", "[]", "C-5 block base/config.json"},
		{"good", "[]", "C-5 block base/config.json"},
		{"good", "[{name: acme/other, source: " + reports + "/good/repos/acme/impl}]", "C-5 block base/config.json"},
		{"good", "[{name: acme/impl, source: " + reports + "/good/repos/acme/impl}]", ""},
	} {
		root := t.TempDir()
		engine, err := os.ReadFile(filepath.Join(reports, c.tree, "engine", "vllm.yaml"))
		if err := errors.Join(err, os.WriteFile(filepath.Join(root, "vllm.yaml"), engine, 0o644),
			os.WriteFile(filepath.Join(root, "drkit.yaml"), []byte("apiVersion: drkit/v1\nkind: Service\nmetadata: {name: support}\nmodel:\n  source: "+filepath.Join(reports, c.tree, "model")+
				"\n  repositories: "+c.repositories+"\nengine: {version: 0.32.0, configs: [vllm.yaml]}\nregions:\n  - {name: us, role: source, store: s}\n"), 0o644)); err != nil {
			t.Fatal(err)
		}
		svc, err := service.Load(filepath.Join(root, "drkit.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		m, _, err := buildRelease(t.Context(), svc, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range rules.Check(m) {
			if f.Severity != manifest.Info {
				got = append(got, fmt.Sprintf("%s %s %s", f.Rule, f.Severity, f.Path))
			}
		}
		if strings.Join(got, "; ") != c.want {
			t.Errorf("%s with %s: %q, want %q", c.tree, c.repositories, got, c.want)
		}
	}
}
