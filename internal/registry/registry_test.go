package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	server "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"drkit/internal/errext"
	"drkit/manifest"
	"drkit/manifest/digest"
)

// region is a registry on loopback; wrap changes how it answers from then on.
type region struct {
	host    string
	handler http.Handler
}

func newRegion(t *testing.T) *region {
	t.Helper()
	r := &region{handler: server.New(server.Logger(log.New(io.Discard, "", 0)))}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { r.handler.ServeHTTP(w, q) }))
	t.Cleanup(s.Close)
	r.host = strings.TrimPrefix(s.URL, "http://")
	return r
}

// wrap puts f before the registry: what f answers itself it reports as true.
func (r *region) wrap(f func(w http.ResponseWriter, q *http.Request) bool) {
	next := r.handler
	r.handler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if !f(w, q) {
			next.ServeHTTP(w, q)
		}
	})
}

func client() *Client { return &Client{Keychain: anonymous{}, Timeout: 20 * time.Second} }

// anonymous keeps tests from the credentials of whoever runs them.
type anonymous struct{}

func (anonymous) Resolve(authn.Resource) (authn.Authenticator, error) { return authn.Anonymous, nil }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// oneImage is an image for one platform.
func oneImage(arch, variant string) v1.Image {
	image := must(random.Image(64, 2))
	config := must(image.ConfigFile()).DeepCopy()
	config.OS, config.Architecture, config.Variant = "linux", arch, variant
	return must(mutate.ConfigFile(image, config))
}

// twoPlatforms is an index with an attestation, as buildx pushes it.
func twoPlatforms() (index v1.ImageIndex, amd, arm v1.Image) {
	amd, arm = oneImage("amd64", ""), oneImage("arm64", "v8")
	add := func(i v1.Image, p v1.Platform, notes map[string]string) mutate.IndexAddendum {
		return mutate.IndexAddendum{Add: i, Descriptor: v1.Descriptor{Platform: &p, Annotations: notes}}
	}
	return mutate.AppendManifests(empty.Index,
		add(arm, v1.Platform{OS: "linux", Architecture: "arm64", Variant: "v8"}, nil),
		add(amd, v1.Platform{OS: "linux", Architecture: "amd64"}, nil),
		add(oneImage("unknown", ""), v1.Platform{OS: "unknown", Architecture: "unknown"}, map[string]string{"vnd.docker.reference.type": "attestation-manifest"})), amd, arm
}

func (r *region) push(t *testing.T, repo string, what remote.Taggable) string {
	t.Helper()
	reference := r.host + "/" + repo
	ref := must(name.ParseReference(reference))
	var err error
	switch what := what.(type) {
	case v1.Image:
		err = remote.Write(ref, what)
	case v1.ImageIndex:
		err = remote.WriteIndex(ref, what)
	}
	if err != nil {
		t.Fatal(err)
	}
	return reference
}

func sha(h v1.Hash, err error) digest.Digest { return must(digest.Parse(must(h, err).String())) }

func TestResolveIndex(t *testing.T) {
	r := newRegion(t)
	index, amd, arm := twoPlatforms()
	reference := r.push(t, "llm/vllm:v1", index)
	want := manifest.ImageFacts{Resolved: sha(index.Digest()), MediaType: "application/vnd.oci.image.index.v1+json",
		Platforms: []manifest.ImagePlatform{{Platform: "linux/amd64", Digest: sha(amd.Digest())}, {Platform: "linux/arm64/v8", Digest: sha(arm.Digest())}}}
	for _, reference := range []string{reference, r.host + "/llm/vllm@" + want.Resolved.String(), reference + "@" + want.Resolved.String()} {
		want.Reference = reference
		got, err := client().Resolve(t.Context(), reference)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got  %v, %v\nwant %v", got, err, want)
		}
	}
}

func TestResolveNestedIndex(t *testing.T) {
	r := newRegion(t)
	inner, amd, _ := twoPlatforms()
	outer := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: inner})
	got, err := client().Resolve(t.Context(), r.push(t, "llm/vllm:nested", outer))
	if err != nil || got.Resolved != sha(outer.Digest()) || len(got.Platforms) != 2 || got.Platforms[0].Digest != sha(amd.Digest()) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestResolveSingleManifest(t *testing.T) {
	r := newRegion(t)
	image := oneImage("arm64", "v8")
	got, err := client().Resolve(t.Context(), r.push(t, "llm/vllm:v1", image))
	if err != nil || got.Resolved != sha(image.Digest()) || len(got.Platforms) != 1 || got.Platforms[0] != (manifest.ImagePlatform{Platform: "linux/arm64/v8", Digest: got.Resolved}) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestTagMovesBetweenTwoResolves(t *testing.T) {
	r, c := newRegion(t), client()
	first, second := oneImage("amd64", ""), oneImage("amd64", "")
	reference := r.push(t, "llm/vllm:v1", first)
	before, err1 := c.Resolve(t.Context(), reference)
	r.push(t, "llm/vllm:v1", second)
	after, err2 := c.Resolve(t.Context(), reference)
	if err1 != nil || err2 != nil || before.Resolved != sha(first.Digest()) || after.Resolved != sha(second.Digest()) {
		t.Errorf("%v %v, then %v %v", before, err1, after, err2)
	}
}

// answers makes a server that answers to manifests as told; other requests get
// an empty 200, as the first one of the sign-in.
func answers(t *testing.T, f http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path != "/v2/" {
			f(w, q)
		}
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://") + "/llm/vllm"
}

const ociImage = "application/vnd.oci.image.manifest.v1+json"

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func TestClassesOfFailures(t *testing.T) {
	plain := strings.Repeat("a", 64)
	body := func(media, text string, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", media)
			for i := 0; i+1 < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			_, _ = io.WriteString(w, text)
		}
	}
	for name, c := range map[string]struct {
		f     http.HandlerFunc
		id    string
		class Class
		text  string
	}{
		"not there":                 {status(404), ":v1", NotFound, "does not have it"},
		"forbidden":                 {status(403), ":v1", Unauthorized, "refuses: status 403"},
		"refused without challenge": {status(401), ":v1", Unauthorized, "refuses: status 401"},
		"server error":              {status(500), ":v1", Unavailable, "status 500"},
		"teapot":                    {status(418), ":v1", Untrue, "status 418"},
		"login page":                {body("text/html", "<html>"), ":v1", Untrue, "no manifest"},
		"other bytes for a digest":  {body(ociImage, `{"schemaVersion":2}`), "@sha256:" + plain, Untrue, "when it is asked for sha256:" + plain},
		"other bytes for a tag":     {body(ociImage, `{"schemaVersion":2}`, "Docker-Content-Digest", "sha256:"+plain), ":v1", Untrue, "says that v1 is sha256:" + plain},
		"neither image nor index":   {body("application/json", `{"schemaVersion":2}`), ":v1", Untrue, "neither an image nor an index"},
		"two claims":                {body(ociImage, `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json"}`), ":v1", Untrue, "its content says"},
		"schema 1":                  {body("application/vnd.docker.distribution.manifest.v1+prettyjws", `{"schemaVersion":1}`), ":v1", Untrue, "schema 1"},
		"endless":                   {body(ociImage, `{"schemaVersion":2,"x":"`+strings.Repeat("x", maxDocument)+`"}`), ":v1", Untrue, "more than 8 MiB"},
		"a digest that is none":     {body("application/vnd.oci.image.index.v1+json", `{"schemaVersion":2,"manifests":[{"digest":"md5:1"}]}`), ":v1", Untrue, "cannot be read"},
		"config is gone": {func(w http.ResponseWriter, q *http.Request) {
			if strings.Contains(q.URL.Path, "/blobs/") {
				w.WriteHeader(404)
				return
			}
			body(ociImage, `{"schemaVersion":2,"config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:`+plain+`","size":2}}`)(w, q)
		}, ":v1", NotFound, "configuration sha256:" + plain},
		"config is another": {func(w http.ResponseWriter, q *http.Request) {
			if strings.Contains(q.URL.Path, "/blobs/") {
				return
			}
			body(ociImage, `{"schemaVersion":2,"config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:`+plain+`","size":2}}`)(w, q)
		}, ":v1", Untrue, "when it is asked for"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reference := answers(t, c.f) + c.id
			_, err := client().Resolve(t.Context(), reference)
			if ClassOf(err) != c.class || !strings.Contains(fmt.Sprint(err), c.text) || !strings.Contains(fmt.Sprint(err), reference) || errext.Hint(err) != hints[c.class] {
				t.Errorf("class %q, hint %q: %v", ClassOf(err), errext.Hint(err), err)
			}
		})
	}
}

func TestUnreachable(t *testing.T) {
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	closed := l.Addr().String()
	l.Close()
	offline := &Client{Keychain: anonymous{}, Transport: &http.Transport{DialContext: func(_ context.Context, _, addr string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: strings.TrimSuffix(addr, ":443"), IsNotFound: true}}
	}}}
	for reference, c := range map[string]struct {
		*Client
		text string
	}{
		closed + "/llm/vllm:v1":      {client(), "no connection to " + closed},
		"registry.invalid/vllm:v1":   {offline, "there is no host registry.invalid"},
		"vllm/vllm-openai:v0.1":      {offline, "there is no host index.docker.io"},
		"10.1.2.3:5000/llm/vllm:v1":  {offline, "there is no host 10.1.2.3:5000"},
		"registry.localhost/vllm:v1": {offline, "there is no host registry.localhost"},
	} {
		_, err := c.Resolve(t.Context(), reference)
		if ClassOf(err) != Unreachable || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: class %q: %v", reference, ClassOf(err), err)
		}
	}
}

func TestInvalidReference(t *testing.T) {
	if _, err := client().Resolve(t.Context(), "Not An Image"); ClassOf(err) != Invalid {
		t.Error(err)
	}
}

func TestTLSIsChecked(t *testing.T) {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(s.Close)
	// A name that is not loopback is asked with TLS only.
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, s.Listener.Addr().String())
	}
	for host, text := range map[string]string{"example.com": "unknown authority", "registry.example": "another name"} { // the certificate of httptest is for example.com
		_, err := (&Client{Keychain: anonymous{}, Transport: &http.Transport{DialContext: dial}}).Resolve(t.Context(), host+"/vllm:v1")
		if ClassOf(err) != TLS || !strings.Contains(err.Error(), text) {
			t.Errorf("class %q: %v", ClassOf(err), err)
		}
	}
}

func TestPlainHTTPOnlyOnThisMachine(t *testing.T) {
	asked := false
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(s.Close)
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, s.Listener.Addr().String())
	}
	for _, reference := range []string{"registry.example/vllm:v1", "192.168.7.7:5000/vllm:v1", "registry.localhost:5000/vllm:v1"} {
		_, err := (&Client{Keychain: anonymous{}, Transport: &http.Transport{DialContext: dial}}).Resolve(t.Context(), reference)
		if ClassOf(err) != PlainHTTP || asked {
			t.Errorf("%s: class %q, asked without TLS: %v: %v", reference, ClassOf(err), asked, err)
		}
	}
}

func TestHangMeetsTheDeadline(t *testing.T) {
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	wait := func(q *http.Request) {
		select {
		case <-q.Context().Done():
		case <-release:
		}
	}
	silent := answers(t, func(_ http.ResponseWriter, q *http.Request) { wait(q) })
	half := answers(t, func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "{")
		w.(http.Flusher).Flush()
		wait(q)
	})
	for _, reference := range []string{silent, half} {
		c := client()
		c.Timeout = 300 * time.Millisecond
		if _, err := c.Resolve(t.Context(), reference); ClassOf(err) != TimedOut {
			t.Errorf("class %q: %v", ClassOf(err), err)
		}
	}
	c := &Client{Keychain: stuck{release}, Timeout: 50 * time.Millisecond}
	if _, err := c.Resolve(t.Context(), silent); ClassOf(err) != Credentials {
		t.Errorf("class %q: %v", ClassOf(err), err)
	}
}

// stuck is a credential helper that hangs.
type stuck struct{ release chan struct{} }

func (s stuck) Resolve(authn.Resource) (authn.Authenticator, error) {
	<-s.release
	return authn.Anonymous, nil
}

func jsonText(v any) string { return string(must(json.Marshal(v))) }

func TestAnnotate(t *testing.T) {
	r := newRegion(t)
	index, amd, _ := twoPlatforms()
	tagged := r.push(t, "llm/vllm:v1", index)
	pinned := r.host + "/llm/vllm@" + sha(amd.Digest()).String()
	gone := r.host + "/llm/vllm:gone"
	dead := "registry.localhost:1/vllm:v1"
	m := &manifest.Manifest{Contents: manifest.Contents{Images: []manifest.Image{
		{Reference: tagged, Files: []string{"k8s.yaml:7"}}, {Reference: tagged, Region: "eu", Files: []string{"eu.yaml:3"}},
		{Reference: pinned, Digest: sha(amd.Digest())}, {Reference: "scratch", Files: []string{"Dockerfile:1"}},
		{Reference: gone, Files: []string{"a.yaml:1"}}, {Reference: gone, Region: "eu", Files: []string{"b.yaml:2"}}, {Reference: dead},
	}}}
	m.Release = manifest.ReleaseID(m.Contents)
	if err := Annotate(t.Context(), client(), m, nil); err != nil {
		t.Fatal(err)
	}
	if manifest.ReleaseID(m.Contents) != m.Release || m.Contents.Images[0].Digest.Hex != "" {
		t.Error("resolving pinned a tag")
	}
	if got := m.Annotations.Images; len(got) != 2 || m.Annotations.ResolvedImage(tagged).Resolved != sha(index.Digest()) || m.Annotations.ResolvedImage(pinned).Resolved != sha(amd.Digest()) {
		t.Errorf("resolved: %s", jsonText(got))
	}
	var problems []string
	for _, p := range m.Annotations.Problems {
		problems = append(problems, fmt.Sprintf("%s %s@%s %s:%d", p.Kind, p.Part, p.Region, p.Path, p.Line))
	}
	if want := []string{"image-missing deploy@ a.yaml:1", "image-unresolved deploy@ " + dead + ":0", "image-missing deploy@eu b.yaml:2"}; !slices.Equal(problems, want) {
		t.Errorf("problems: %q", problems)
	}
	again := *m
	again.Annotations = manifest.Annotations{}
	if err := Annotate(t.Context(), client(), &again, nil); err != nil || jsonText(again) != jsonText(m) {
		t.Errorf("a second time: %v\n%s\n%s", err, jsonText(again), jsonText(m))
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Annotate(cancelled, client(), m, nil); err != context.Canceled {
		t.Errorf("cancelled: %v", err)
	}
}
