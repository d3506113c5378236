package main

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	server "github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"drkit/internal/errext"
	"drkit/manifest"
)

// imageService is a service with three images: by tag, by tag and not there, and
// by tag in a registry that does not answer.
func imageService(t *testing.T, host string) (file string) {
	t.Helper()
	root := t.TempDir()
	model := filepath.Join("..", "..", "testdata", "models", "support-tiny")
	if err := os.CopyFS(filepath.Join(root, "model"), os.DirFS(model)); err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(`apiVersion: drkit/v1
kind: Service
metadata: {name: support}
model: {source: ./model}
engine: {kind: vllm, version: 0.32.0}
deploy: {images: ["HOST/llm/vllm:v1", "HOST/llm/vllm:gone", "127.0.0.1:1/llm/vllm:v1"]}
regions:
  - {name: us-east-1, role: source, residency: us, store: ./regions/us-east-1}
`, "HOST", host)
	file = filepath.Join(root, "drkit.yaml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestBuildResolvesImagesWhenAsked(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir()) // not the credentials of whoever runs the tests
	s := httptest.NewServer(server.New(server.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(s.Close)
	host := strings.TrimPrefix(s.URL, "http://")
	ref, err := name.ParseReference(host + "/llm/vllm:v1")
	if err != nil {
		t.Fatal(err)
	}
	image, err := random.Image(32, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, image); err != nil {
		t.Fatal(err)
	}
	want, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	file := imageService(t, host)
	build := func(args ...string) *manifest.Manifest {
		status, out, errs := execute(t, append([]string{"manifest", "build", "-f", file}, args...)...)
		m, err := manifest.Decode([]byte(out))
		if status != errext.Holds || err != nil {
			t.Fatalf("status %d, %v: %s", status, err, errs)
		}
		return m
	}
	plain, resolved := build(), build("--resolve-images")
	if plain.Release != resolved.Release || len(plain.Annotations.Images) != 0 {
		t.Errorf("release %s and %s, images without the flag: %v", plain.Release, resolved.Release, plain.Annotations.Images)
	}
	if facts := resolved.Annotations.ResolvedImage(ref.Name()); facts == nil || facts.Resolved.String() != want.String() {
		t.Errorf("resolved %v, want %s", facts, want)
	}

	saved := filepath.Join(t.TempDir(), "manifest.json")
	execute(t, "manifest", "build", "-f", file, "--resolve-images", "-o", saved)
	first, err1 := manifest.Encode(resolved)
	second, err2 := os.ReadFile(saved)
	if err1 != nil || err2 != nil || string(first) != string(second) {
		t.Errorf("equal answers give other bytes: %v, %v", err1, err2)
	}
	status, out, errs := execute(t, "manifest", "check", saved)
	if status != errext.Gate {
		t.Errorf("check: status %d: %s", status, errs)
	}
	for _, text := range []string{"image " + ref.Name() + " is not pinned", "llm/vllm:gone: " + host + " does not have it (not-found)", "no connection to 127.0.0.1:1 (unreachable)"} {
		if !strings.Contains(out, text) {
			t.Errorf("check does not say %q:\n%s", text, out)
		}
	}
	if _, out, _ := execute(t, "manifest", "show", "--manifest", saved); !strings.Contains(out, "not pinned; was "+want.String()+" at the build") {
		t.Errorf("show:\n%s", out)
	}
}
