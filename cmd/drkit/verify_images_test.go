package main

import (
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	server "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"drkit/internal/errext"
	"drkit/internal/registry"
	"drkit/internal/service"
	"drkit/manifest"
	"drkit/manifest/digest"
	"drkit/verify"
)

// imageRegistry is a registry on loopback. before may answer in its place.
type imageRegistry struct {
	host   string
	before func(w http.ResponseWriter, q *http.Request) bool
}

func newImageRegistry(t *testing.T) *imageRegistry {
	t.Helper()
	r := &imageRegistry{}
	inner := server.New(server.Logger(log.New(io.Discard, "", 0)))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if r.before == nil || !r.before(w, q) {
			inner.ServeHTTP(w, q)
		}
	}))
	t.Cleanup(s.Close)
	r.host = strings.TrimPrefix(s.URL, "http://")
	return r
}

func (r *imageRegistry) push(t *testing.T, repo string, image v1.Image) {
	t.Helper()
	ref, err := name.ParseReference(r.host + "/" + repo)
	if err == nil {
		err = remote.Write(ref, image)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// imageCopies is a service whose release names one image, published in two regions.
type imageCopies struct {
	file       string
	east, west *imageRegistry
	image      v1.Image
	digest     string // of the image
	layer      string // digest of its first layer
}

// newImageCopies writes a drkit.yaml; its words EAST, WEST and DIGEST are replaced
// by hosts and the image's digest.
func newImageCopies(t *testing.T, images, east, west string) imageCopies {
	t.Helper()
	t.Setenv("DOCKER_CONFIG", t.TempDir()) // not the credentials of whoever runs the tests
	c := imageCopies{east: newImageRegistry(t), west: newImageRegistry(t)}
	var err error
	if c.image, err = random.Image(64, 2); err != nil {
		t.Fatal(err)
	}
	hash, err1 := c.image.Digest()
	layers, err2 := c.image.Layers()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	layer, err := layers[0].Digest()
	if err != nil {
		t.Fatal(err)
	}
	c.digest, c.layer = hash.String(), layer.String()
	c.east.push(t, "llm/vllm:v1", c.image)
	root := t.TempDir()
	if err := os.CopyFS(filepath.Join(root, "model"), os.DirFS(filepath.Join("..", "..", "testdata", "models", "support-tiny"))); err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("EAST", c.east.host, "WEST", c.west.host, "DIGEST", c.digest).Replace(`apiVersion: drkit/v1
kind: Service
metadata: {name: support}
model: {source: ./model}
engine: {kind: vllm, version: 0.32.0}
deploy: {images: [` + images + `]}
regions:
  - {name: us-east-1, role: source, residency: us, store: ./regions/us-east-1` + east + `}
  - {name: eu-west-1, role: target, residency: us, store: ./regions/eu-west-1` + west + `}
`)
	c.file = filepath.Join(root, "drkit.yaml")
	if err := os.WriteFile(c.file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if status, out, errs := execute(t, "replicate", "-f", c.file, "--yes"); status != errext.Holds {
		t.Fatalf("replicate: status %d: %s%s", status, out, errs)
	}
	return c
}

const (
	pinnedImage  = `"EAST/llm/vllm@DIGEST"`
	eastRegistry = ", registry: EAST/llm"
	westRegistry = ", registry: WEST/dr"
)

func refuseBlob(digest string, status int) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, q *http.Request) bool {
		if strings.HasSuffix(q.URL.Path, digest) {
			w.WriteHeader(status)
			return true
		}
		return false
	}
}

// TestVerifyLooksForImages: what the target's registry holds decides, with the files.
func TestVerifyLooksForImages(t *testing.T) {
	for name, c := range map[string]struct {
		images, east, west string
		change             func(t *testing.T, c imageCopies)
		args               []string
		want               errext.Status
		says               []string // on stdout; LAYER and DIGEST are replaced
	}{
		"held":         {pinnedImage, eastRegistry, westRegistry, nil, nil, errext.Holds, []string{"holds", "images are among what was compared: 1, looked for in WEST/dr"}},
		"held, read":   {pinnedImage, eastRegistry, westRegistry, nil, []string{"--level", "content", "--require", "content"}, errext.Holds, []string{"holds"}},
		"never pushed": {pinnedImage, eastRegistry, ", registry: WEST/other", nil, nil, errext.Gate, []string{"missing", "manifest DIGEST", "does not have it"}},
		"a layer is gone": {pinnedImage, eastRegistry, westRegistry, func(t *testing.T, c imageCopies) {
			c.west.before = refuseBlob(c.layer, http.StatusNotFound)
		}, nil, errext.Gate, []string{"missing", "image/EAST/llm/vllm@DIGEST", "layer LAYER"}},
		"a layer is rotten":                          {pinnedImage, eastRegistry, westRegistry, rotLayer, []string{"--level", "content"}, errext.Gate, []string{"diverged", "layer LAYER"}},
		"a rotten layer is not seen without reading": {pinnedImage, eastRegistry, westRegistry, rotLayer, nil, errext.Holds, []string{"holds"}},
		"denied": {pinnedImage, eastRegistry, westRegistry, func(t *testing.T, c imageCopies) {
			c.west.before = refuseBlob(c.layer, http.StatusForbidden)
		}, nil, errext.Failed, []string{"layer LAYER", "refuses"}},
		"no registry answers": {pinnedImage, eastRegistry, ", registry: 127.0.0.1:1/dr", nil, nil, errext.Failed, []string{"no connection to 127.0.0.1:1"}},
		"target names none":   {pinnedImage, eastRegistry, "", nil, nil, errext.Gate, []string{"not-comparable", "region eu-west-1 names no registry"}},
		"source names none":   {pinnedImage, "", westRegistry, nil, nil, errext.Gate, []string{"not-comparable", "source region us-east-1 names no registry"}},
		"left out by name":    {pinnedImage, eastRegistry, "", nil, []string{"--images", "skip"}, errext.Holds, []string{"images were not looked for"}},
		"a tag":               {`"EAST/llm/vllm:v1"`, eastRegistry, westRegistry, nil, nil, errext.Gate, []string{"not-comparable", "tag that was not resolved"}},
		"of a third registry": {`"EAST/elsewhere/vllm@DIGEST"`, eastRegistry, westRegistry, func(t *testing.T, c imageCopies) { c.east.push(t, "elsewhere/vllm:v1", c.image) }, nil, errext.Holds, []string{"eu-west-1 depends on registries other than its own", "EAST/elsewhere/vllm"}},
		"gone from a third":   {`"EAST/elsewhere/vllm@DIGEST"`, eastRegistry, westRegistry, nil, nil, errext.Gate, []string{"missing"}},
		"presence only":       {pinnedImage, eastRegistry, westRegistry, nil, []string{"--level", "presence"}, errext.Gate, []string{"present", "image/"}},
		"more is required":    {pinnedImage, eastRegistry, westRegistry, nil, []string{"--require", "content"}, errext.Gate, []string{"present", "evidence claimed where content is required"}},
		"no images":           {"", "", "", nil, nil, errext.Holds, []string{"the release names no images"}},
		"missing beside an error": {pinnedImage, eastRegistry, westRegistry, func(t *testing.T, c imageCopies) {
			config, _ := c.image.ConfigName()
			gone, denied := refuseBlob(c.layer, http.StatusNotFound), refuseBlob(config.String(), http.StatusForbidden)
			c.west.before = func(w http.ResponseWriter, q *http.Request) bool { return gone(w, q) || denied(w, q) }
		}, nil, errext.Gate, []string{"missing", "layer LAYER", "error", "configuration"}},
	} {
		t.Run(name, func(t *testing.T) {
			copies := newImageCopies(t, c.images, c.east, c.west)
			copies.west.push(t, "dr/vllm:v1", copies.image)
			if c.change != nil {
				c.change(t, copies)
			}
			status, out, errs := execute(t, append([]string{"verify", "-f", copies.file}, c.args...)...)
			if status != c.want {
				t.Errorf("status %d, want %d\n%s%s", status, c.want, out, errs)
			}
			for _, text := range c.says {
				text = strings.NewReplacer("EAST", copies.east.host, "WEST", copies.west.host, "LAYER", copies.layer, "DIGEST", copies.digest).Replace(text)
				if !strings.Contains(out, text) {
					t.Errorf("does not say %q:\n%s", text, out)
				}
			}
		})
	}
}

// rotLayer answers with other bytes of the same size.
func rotLayer(t *testing.T, c imageCopies) {
	layers, err := c.image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	size, err := layers[0].Size()
	if err != nil {
		t.Fatal(err)
	}
	c.west.before = func(w http.ResponseWriter, q *http.Request) bool {
		if q.Method != http.MethodGet || !strings.HasSuffix(q.URL.Path, c.layer) {
			return false
		}
		w.Write(make([]byte, size))
		return true
	}
}

// TestVerifyImagesInJSON: an image is a subject with its evidence; its layers count
// as bytes that were read at level content.
func TestVerifyImagesInJSON(t *testing.T) {
	c := newImageCopies(t, pinnedImage, eastRegistry, westRegistry)
	c.west.push(t, "dr/vllm:v1", c.image)
	for level, want := range map[string]string{"checksum": "claimed", "content": "content"} {
		_, out, _ := execute(t, "verify", "-f", c.file, "--level", level, "--output", "json")
		var doc struct {
			Copies []struct {
				Holds     bool  `json:"holds"`
				Subjects  int   `json:"subjects"`
				Total     int   `json:"total"`
				BytesRead int64 `json:"bytes_read"`
				Gaps      []struct{ Subject, Key, Verdict, Evidence string }
			}
		}
		if err := json.Unmarshal([]byte(out), &doc); err != nil || len(doc.Copies) != 1 {
			t.Fatalf("%v: %s", err, out)
		}
		got := doc.Copies[0]
		at := slices.IndexFunc(got.Gaps, func(g struct{ Subject, Key, Verdict, Evidence string }) bool {
			return g.Subject == "image/"+c.east.host+"/llm/vllm@"+c.digest
		})
		if at < 0 || got.Gaps[at].Verdict != "match" || got.Gaps[at].Evidence != want || got.Gaps[at].Key != c.west.host+"/dr/vllm@"+c.digest || !got.Holds || got.Subjects != got.Total || got.Subjects != len(got.Gaps) {
			t.Errorf("%s: %+v", level, got)
		}
	}
}

// TestShardsLookForImagesOnce: one shard of two does, and the merged result is whole.
func TestShardsLookForImagesOnce(t *testing.T) {
	c := newImageCopies(t, pinnedImage, eastRegistry, westRegistry)
	c.west.push(t, "dr/vllm:v1", c.image)
	c.west.before = refuseBlob(c.layer, http.StatusNotFound)
	dir := t.TempDir()
	for i, want := range []errext.Status{errext.Gate, errext.Holds} {
		if status, out, errs := execute(t, "verify", "-f", c.file, "--shard", []string{"0/2", "1/2"}[i], "--partial", dir); status != want {
			t.Errorf("shard %d: status %d, want %d: %s%s", i, status, want, out, errs)
		}
	}
	status, out, errs := execute(t, "verify", "merge", dir)
	if status != errext.Gate || strings.Count(out, "layer "+c.layer) != 1 {
		t.Errorf("status %d: %s%s", status, out, errs)
	}
	c.west.before = nil
	execute(t, "verify", "-f", c.file, "--shard", "0/2", "--partial", dir)
	if status, out, errs := execute(t, "verify", "merge", dir); status != errext.Holds {
		t.Errorf("status %d: %s%s", status, out, errs)
	}
}

// TestReplicateFromAResultWithImages: images in a result are no business of the
// copying of files.
func TestReplicateFromAResultWithImages(t *testing.T) {
	c := newImageCopies(t, pinnedImage, eastRegistry, "")
	result := filepath.Join(t.TempDir(), "result.json")
	if status, _, errs := execute(t, "verify", "-f", c.file, "--result", result); status != errext.Gate {
		t.Fatalf("status %d: %s", status, errs)
	}
	if status, out, errs := execute(t, "replicate", "-f", c.file, "--yes", "--from", result); status != errext.Holds {
		t.Errorf("status %d: %s%s", status, out, errs)
	}
}

func TestImagesOfARegionsOwnFiles(t *testing.T) {
	d, err := digest.Parse("sha256:" + strings.Repeat("a", 64))
	if err != nil {
		t.Fatal(err)
	}
	svc := &service.Service{File: "drkit.yaml", Regions: []service.Region{
		{Name: "us", Role: "source", Registry: "1.example/llm"}, {Name: "eu", Role: "target", Registry: "2.example/dr"}}}
	need := []registry.Image{{Reference: "1.example/llm/vllm@" + d.String(), Digest: d, Own: true}}
	found := imageGaps(t.Context(), &registry.Client{}, svc, need, &svc.Regions[1], verify.Options{})
	if len(found.gaps) != 1 || found.gaps[0].Verdict != verify.Missing || !strings.Contains(found.gaps[0].Why, "lost with the source") {
		t.Errorf("%+v", found)
	}
}

// TestImagesThatOnlyBuild: a base image of a Dockerfile is not needed to recover.
func TestImagesThatOnlyBuild(t *testing.T) {
	m := &manifest.Manifest{Contents: manifest.Contents{Images: []manifest.Image{
		{Reference: "a:1", Files: []string{"deploy/Dockerfile:1"}},
		{Reference: "b:1", Files: []string{"deploy/Dockerfile:1", "deploy/pod.yaml:9"}},
		{Reference: "c:1", Files: []string{}},
		{Reference: "d:1", Region: "eu", Files: []string{"Containerfile.gpu:3"}},
		{Reference: "e:1", Files: []string{"deploy/dockerfile-runner.yaml:7"}},
	}, Files: []manifest.File{
		{Part: manifest.Deploy, Path: "deploy/Dockerfile", Role: manifest.Dockerfile},
		{Part: manifest.Deploy, Path: "deploy/pod.yaml", Role: manifest.Kubernetes},
		{Part: manifest.Deploy, Path: "deploy/dockerfile-runner.yaml", Role: manifest.Kubernetes},
		{Part: manifest.Deploy, Path: "Containerfile.gpu", Region: "eu", Role: manifest.Dockerfile},
	}}}
	need, builds := neededImages(m, "eu")
	var names []string
	for _, i := range need {
		names = append(names, i.Reference)
	}
	if !slices.Equal(names, []string{"b:1", "c:1", "e:1"}) || !slices.Equal(builds, []string{"a:1", "d:1"}) {
		t.Errorf("%v, %v", names, builds)
	}
}
