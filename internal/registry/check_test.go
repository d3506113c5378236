package registry

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"drkit/manifest"
	"drkit/manifest/digest"
)

// pair is an index in two regions: 1 + 3 manifests, 3 configurations, 6 layers.
func pair(t *testing.T) (east, west *region, index v1.ImageIndex, image Image, m Mapping) {
	t.Helper()
	east, west = newRegion(t), newRegion(t)
	index, _, _ = twoPlatforms()
	reference := east.push(t, "prod/llm/vllm:v1", index)
	west.push(t, "dr/llm/vllm:v1", index)
	return east, west, index, Image{Reference: reference, Digest: sha(index.Digest())}, Mapping{From: east.host + "/prod", To: west.host + "/dr/"}
}

const whole = 1 + 3 + 3 + 6

func TestCheckPresent(t *testing.T) {
	_, west, _, image, m := pair(t)
	got := client().Check(t.Context(), []Image{image}, m, false)[0]
	if got.Verdict != Present || got.Objects != whole || len(got.Faults) > 0 || got.At != west.host+"/dr/llm/vllm@"+image.Digest.String() {
		t.Errorf("%+v", got)
	}
}

// hide makes a region answer 404 for a path's ending.
func (r *region) hide(ending string) {
	r.wrap(func(w http.ResponseWriter, q *http.Request) bool {
		if strings.HasSuffix(q.URL.Path, ending) {
			w.WriteHeader(http.StatusNotFound)
			return true
		}
		return false
	})
}

func TestCheckNamesWhatIsWrong(t *testing.T) {
	parts := func(index v1.ImageIndex) (manifest, config, layer v1.Hash) {
		arm := must(index.IndexManifest()).Manifests[0]
		image := must(index.Image(arm.Digest))
		return arm.Digest, must(image.ConfigName()), must(must(image.Layers())[1].Digest())
	}
	for name, c := range map[string]struct {
		damage func(west *region, index v1.ImageIndex) (object string)
		want   Verdict
		found  int
	}{
		"layer is gone": {func(west *region, index v1.ImageIndex) string {
			_, _, layer := parts(index)
			west.hide("/blobs/" + layer.String())
			return "layer " + layer.String() + " of linux/arm64/v8"
		}, Missing, whole - 1},
		"configuration is gone": {func(west *region, index v1.ImageIndex) string {
			_, config, _ := parts(index)
			west.hide("/blobs/" + config.String())
			return "configuration " + config.String() + " of linux/arm64/v8"
		}, Missing, whole - 1},
		"a platform is gone": {func(west *region, index v1.ImageIndex) string {
			id, _, _ := parts(index)
			west.hide("/manifests/" + id.String())
			return "manifest " + id.String() + " of linux/arm64/v8"
		}, Missing, whole - 4}, // its configuration and layers are not known then
		"layer has another size": {func(west *region, index v1.ImageIndex) string {
			_, _, layer := parts(index)
			west.wrap(func(w http.ResponseWriter, q *http.Request) bool {
				if !strings.HasSuffix(q.URL.Path, layer.String()) {
					return false
				}
				w.Header().Set("Content-Length", "7")
				return true
			})
			return "layer " + layer.String() + " of linux/arm64/v8"
		}, Diverged, whole - 1},
		"configuration is another": {func(west *region, index v1.ImageIndex) string {
			_, config, _ := parts(index)
			west.wrap(func(w http.ResponseWriter, q *http.Request) bool {
				if !strings.HasSuffix(q.URL.Path, config.String()) {
					return false
				}
				fmt.Fprint(w, "{}")
				return true
			})
			return "configuration " + config.String() + " of linux/arm64/v8"
		}, Diverged, whole - 1},
		"manifest is another": {func(west *region, index v1.ImageIndex) string {
			id, _, _ := parts(index)
			west.wrap(func(w http.ResponseWriter, q *http.Request) bool {
				if !strings.HasSuffix(q.URL.Path, id.String()) {
					return false
				}
				w.Header().Set("Content-Type", ociImage)
				fmt.Fprint(w, `{"schemaVersion":2}`)
				return true
			})
			return "manifest " + id.String() + " of linux/arm64/v8"
		}, Diverged, whole - 4},
		"layers may not be read": {func(west *region, index v1.ImageIndex) string {
			_, _, layer := parts(index)
			west.wrap(func(w http.ResponseWriter, q *http.Request) bool {
				if !strings.HasSuffix(q.URL.Path, layer.String()) {
					return false
				}
				w.WriteHeader(http.StatusForbidden)
				return true
			})
			return "layer " + layer.String() + " of linux/arm64/v8"
		}, Unknown, whole - 1},
		"the tag leads elsewhere": {func(west *region, _ v1.ImageIndex) string {
			_ = remote.Write(must(nameOf(west.host+"/dr/llm/vllm:v1")), oneImage("amd64", ""))
			return "tag v1"
		}, Diverged, whole},
	} {
		t.Run(name, func(t *testing.T) {
			_, west, index, image, m := pair(t)
			object := c.damage(west, index)
			got := client().Check(t.Context(), []Image{image}, m, false)[0]
			if got.Verdict != c.want || got.Objects != c.found || len(got.Faults) != 1 || got.Faults[0].Object != object {
				t.Errorf("want %s %q and %d objects, got %+v", c.want, object, c.found, got)
			}
		})
	}
}

func nameOf(reference string) (name.Reference, error) { return name.ParseReference(reference) }

// TestCheckPlatformCopy: a copy of one platform alone leaves the tag with another
// digest, and the index that was asked for is not there.
func TestCheckPlatformCopy(t *testing.T) {
	east, west := newRegion(t), newRegion(t)
	index, amd, _ := twoPlatforms()
	image := Image{Reference: east.push(t, "llm/vllm:v1", index), Digest: sha(index.Digest())}
	west.push(t, "llm/vllm:v1", amd)
	got := client().Check(t.Context(), []Image{image}, Mapping{From: east.host, To: west.host}, false)[0]
	if got.Verdict != Diverged || len(got.Faults) != 2 || got.Faults[0].Verdict != Missing || got.Faults[1].Object != "tag v1" {
		t.Errorf("%+v", got)
	}
}

func TestCheckUnknown(t *testing.T) {
	r := newRegion(t)
	images := []Image{
		{Reference: r.host + "/llm/vllm:v1"},
		{Reference: "127.0.0.1:1/llm/vllm:v1", Digest: sum(nil, "")},
		{Reference: "Not An Image", Digest: sum(nil, "")},
		{Reference: r.host + "/llm/vllm@" + sum(nil, "").String(), Digest: sum(nil, "")},
	}
	got := client().Check(t.Context(), images, Mapping{}, false)
	for i, want := range []Verdict{Unknown, Unknown, Unknown, Missing} {
		if got[i].Verdict != want || len(got[i].Faults) == 0 || got[i].Faults[0].Why == "" || got[i].Faults[0].Hint == "" {
			t.Errorf("%s: %+v", images[i].Reference, got[i])
		}
	}
}

// TestCheckSaysWhatLiesElsewhere: layers with URLs are in no registry.
func TestCheckSaysWhatLiesElsewhere(t *testing.T) {
	r := newRegion(t)
	foreign := static.NewLayer([]byte("x"), types.DockerForeignLayer)
	image := must(mutate.Append(oneImage("amd64", ""), mutate.Addendum{Layer: foreign, URLs: []string{"https://layers.example/x"}, MediaType: types.DockerForeignLayer}))
	reference := r.push(t, "llm/vllm:v1", image)
	got := client().Check(t.Context(), []Image{{Reference: reference, Digest: sha(image.Digest())}}, Mapping{}, false)[0]
	if want := "layer " + must(foreign.Digest()).String(); got.Verdict != Present || !slices.Equal(got.Elsewhere, []string{want}) || got.Objects != 4 {
		t.Errorf("%+v", got)
	}
}

func TestPlace(t *testing.T) {
	m := Mapping{From: "1.example/llm", To: "2.example/dr"}
	hub := Mapping{From: "docker.io/vllm", To: "2.example/mirror/vllm"}
	for _, c := range []struct {
		m         Mapping
		i         Image
		want      string
		wantClass Class
	}{
		{m, Image{Reference: "1.example/llm/vllm:v1"}, "2.example/dr/vllm", ""},
		{m, Image{Reference: "1.example/llm/a/b@sha256:" + strings.Repeat("a", 64)}, "2.example/dr/a/b", ""},
		{m, Image{Reference: "1.example/llm-other/vllm:v1"}, "1.example/llm-other/vllm", ""},
		{m, Image{Reference: "3.example/llm/vllm:v1"}, "3.example/llm/vllm", ""},
		{m, Image{Reference: "1.example/llm/vllm:v1", Own: true}, "1.example/llm/vllm", ""},
		{m, Image{Reference: "1.example/llm:v1"}, "1.example/llm", ""},
		{Mapping{From: "1.example"}, Image{Reference: "1.example/vllm"}, "1.example/vllm", ""},
		{Mapping{To: "2.example"}, Image{Reference: "vllm"}, "index.docker.io/library/vllm", ""},
		{hub, Image{Reference: "vllm/vllm-openai:v1"}, "2.example/mirror/vllm/vllm-openai", ""},
		{Mapping{From: "1.example", To: "2 example"}, Image{Reference: "1.example/vllm"}, "", Invalid},
	} {
		repo, err := c.m.Place(c.i)
		if ClassOf(err) != c.wantClass || (err == nil && repo.Name() != c.want) {
			t.Errorf("%v %s: %s, %v", c.m, c.i.Reference, repo, err)
		}
	}
}

func TestNeeded(t *testing.T) {
	d, resolved := sum([]byte("a"), ""), sum([]byte("b"), "")
	m := &manifest.Manifest{Contents: manifest.Contents{Images: []manifest.Image{
		{Reference: "scratch"}, {Reference: "a@" + d.String(), Digest: d}, {Reference: "b:v1"}, {Reference: "b:v1", Region: "eu"}, {Reference: "c:v1"}, {Reference: "d:v1", Region: "us"},
	}}}
	m.Annotations.AddImages([]manifest.ImageFacts{{Reference: "b:v1", Resolved: resolved}, {Reference: "a@" + d.String(), Resolved: d}}, nil)
	want := []Image{{"a@" + d.String(), d, false}, {"b:v1", resolved, false}, {"b:v1", resolved, true}, {"c:v1", digest.Digest{}, false}}
	if got := Needed(m, "eu"); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

func TestTooDeepIndexes(t *testing.T) {
	r := newRegion(t)
	index := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: oneImage("amd64", "")})
	for range maxDepth + 1 {
		index = mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: index})
	}
	reference := r.push(t, "llm/vllm:v1", index)
	_, err := client().Resolve(t.Context(), reference)
	got := client().Check(t.Context(), []Image{{Reference: reference, Digest: sha(index.Digest())}}, Mapping{}, false)[0]
	if ClassOf(err) != Untrue || got.Verdict != Diverged {
		t.Errorf("%v, %+v", err, got)
	}
}

// TestCheckAsksOnceForWhatIsShared: two platforms of one index may be one image.
func TestCheckAsksOnceForWhatIsShared(t *testing.T) {
	r := newRegion(t)
	image := oneImage("arm64", "v8")
	twice := mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "arm64"}}}
	index := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: image}, twice)
	reference := r.push(t, "llm/vllm:v1", index)
	requests := map[string]int{}
	r.wrap(func(_ http.ResponseWriter, q *http.Request) bool { requests[q.URL.Path]++; return false })
	got := client().Check(t.Context(), []Image{{Reference: reference, Digest: sha(index.Digest())}}, Mapping{}, false)[0]
	if got.Verdict != Present || got.Objects != 1+1+1+2 {
		t.Errorf("%+v", got)
	}
	for path, n := range requests {
		if n > 1 && strings.Contains(path, "sha256:") {
			t.Errorf("%s was asked for %d times", path, n)
		}
	}
}
