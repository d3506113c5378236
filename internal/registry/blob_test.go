package registry

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// layerOf is the first layer of an index's first image, and its bytes.
func layerOf(t *testing.T, index v1.ImageIndex) (v1.Hash, []byte) {
	t.Helper()
	image := must(index.Image(must(index.IndexManifest()).Manifests[0].Digest))
	layer := must(image.Layers())[0]
	data := must(io.ReadAll(must(layer.Compressed())))
	return must(layer.Digest()), data
}

// TestCheckContent: what a HEAD cannot see, reading does.
func TestCheckContent(t *testing.T) {
	old := stall
	stall = 200 * time.Millisecond
	t.Cleanup(func() { stall = old })
	for name, c := range map[string]struct {
		serve func(w http.ResponseWriter, q *http.Request, data []byte)
		want  Verdict
		why   string
		head  Verdict // what is seen without reading
	}{
		"whole": {nil, Present, "", Present},
		"rotten": {func(w http.ResponseWriter, _ *http.Request, data []byte) {
			rotten := bytes.Clone(data)
			rotten[len(rotten)/2] ^= 1
			w.Write(rotten)
		}, Diverged, "answers with bytes of sha256", Present},
		"other bytes after it": {func(w http.ResponseWriter, _ *http.Request, data []byte) { w.Write(append(bytes.Clone(data), 'x')) }, Diverged, "more than", Present},
		"too short":            {func(w http.ResponseWriter, _ *http.Request, data []byte) { w.Write(data[1:]) }, Diverged, "of the", Present},
		"broken off": {func(w http.ResponseWriter, _ *http.Request, data []byte) {
			w.Header().Set("Content-Length", strconv.Itoa(len(data)))
			w.Write(data[1:])
		}, Unknown, "broke", Present},
		"silent": {func(w http.ResponseWriter, q *http.Request, data []byte) {
			w.Write(data[1:])
			w.(http.Flusher).Flush()
			<-q.Context().Done() // the client gives up
		}, Unknown, "no byte for", Present},
		"denied": {func(w http.ResponseWriter, _ *http.Request, _ []byte) { w.WriteHeader(http.StatusForbidden) }, Unknown, "refuses", Present},
		"gone":   {func(w http.ResponseWriter, _ *http.Request, _ []byte) { w.WriteHeader(http.StatusNotFound) }, Missing, "does not have it", Present},
	} {
		t.Run(name, func(t *testing.T) {
			_, west, index, image, m := pair(t)
			id, data := layerOf(t, index)
			west.wrap(func(w http.ResponseWriter, q *http.Request) bool {
				if c.serve == nil || q.Method != http.MethodGet || !strings.HasSuffix(q.URL.Path, id.String()) {
					return false
				}
				c.serve(w, q, data)
				return true
			})
			if got := client().Check(t.Context(), []Image{image}, m, false)[0]; got.Verdict != c.head || got.Hashed || got.Bytes != 0 {
				t.Errorf("without reading: %+v", got)
			}
			got := client().Check(t.Context(), []Image{image}, m, true)[0]
			if got.Verdict != c.want || !got.Hashed || (c.why != "") != (len(got.Faults) == 1) {
				t.Fatalf("%+v", got)
			}
			if c.why != "" && (!strings.Contains(got.Faults[0].Why, c.why) || !strings.Contains(got.Faults[0].Object, id.String()) || got.Faults[0].Hint == "") {
				t.Errorf("%+v", got.Faults[0])
			}
			if c.want == Present && (got.Objects != whole || got.Bytes == 0) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestContentIsNotForever: a manifest that never ends is given up as without content,
// and the time for it does not run while layers are read.
func TestContentIsNotForever(t *testing.T) {
	_, west, index, image, m := pair(t)
	id, data := layerOf(t, index)
	c := client()
	c.Timeout = 300 * time.Millisecond
	west.wrap(func(w http.ResponseWriter, q *http.Request) bool {
		if q.Method != http.MethodGet || !strings.HasSuffix(q.URL.Path, id.String()) {
			return false
		}
		select {
		case <-time.After(2 * c.Timeout):
		case <-q.Context().Done():
		}
		w.Write(data)
		return true
	})
	if got := c.Check(t.Context(), []Image{image}, m, true)[0]; got.Verdict != Present {
		t.Errorf("a slow layer: %+v", got)
	}
	west.wrap(func(w http.ResponseWriter, q *http.Request) bool {
		if !strings.Contains(q.URL.Path, "/manifests/") {
			return false
		}
		io.WriteString(w, "{")
		w.(http.Flusher).Flush()
		<-q.Context().Done() // the client gives up
		return true
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if got := c.Check(ctx, []Image{image}, m, true)[0]; got.Verdict != Unknown || ctx.Err() != nil || !strings.Contains(got.Faults[0].Why, "in time") {
		t.Errorf("an endless manifest: %+v", got)
	}
}

// TestForeign: an image outside of the region's registry is looked for where its
// reference says, and that is said.
func TestForeign(t *testing.T) {
	east, west, index, image, m := pair(t)
	other := Image{Reference: east.push(t, "elsewhere/vllm:v1", index), Digest: image.Digest}
	got := client().Check(t.Context(), []Image{image, other}, m, false)
	if got[0].Foreign || !got[1].Foreign || got[1].Verdict != Present {
		t.Errorf("%+v", got)
	}
	if !m.Falls(image) || m.Falls(other) || m.Falls(Image{Reference: west.host + "/dr/llm/vllm:v1"}) || (Mapping{}).Falls(image) {
		t.Error("which images are lost with the source's registry")
	}
}

// TestHTMLInPlaceOfALayer: a login page is no layer.
func TestHTMLInPlaceOfALayer(t *testing.T) {
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>sign in</html>") }))
	t.Cleanup(page.Close)
	_, west, index, image, m := pair(t)
	id, _ := layerOf(t, index)
	west.wrap(func(w http.ResponseWriter, q *http.Request) bool {
		if !strings.HasSuffix(q.URL.Path, id.String()) {
			return false
		}
		http.Redirect(w, q, page.URL, http.StatusTemporaryRedirect)
		return true
	})
	if got := client().Check(t.Context(), []Image{image}, m, true)[0]; got.Verdict != Diverged {
		t.Errorf("%+v", got)
	}
}
