package hf_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"drkit/internal/errext"
	"drkit/internal/pipenet"
	"drkit/internal/store"
	"drkit/internal/store/hf"
	"drkit/internal/store/hf/hftest"
)

const secret = "hf_averysecrettoken0123456789"

// inBubble opens the hub over pipes, so that pauses take no time.
func inBubble(t *testing.T, h *hftest.Hub, test func(t *testing.T, hub *hf.Hub)) {
	synctest.Test(t, func(t *testing.T) {
		var n pipenet.Network
		defer n.Close()
		for _, host := range []string{"hub.test:80", "storage.test:80"} {
			if _, err := n.Serve(host, h); err != nil {
				t.Fatal(err)
			}
		}
		test(t, open(t, "acme/tiny", hf.Options{Endpoint: "http://hub.test", Token: secret, Transport: n.Client().Transport}))
	})
}

// first answers the first n requests for a path with the given handler.
func first(n int32, below string, answer http.HandlerFunc) func(http.ResponseWriter, *http.Request) bool {
	var count atomic.Int32
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, below) || count.Add(1) > n {
			return false
		}
		answer(w, r)
		return true
	}
}

func status(code int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		http.Error(w, "{}", code)
	}
}

// short sends the right length and one byte.
func short(h *hftest.Hub) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		data := h.Files["config.json"]
		var from, to int
		if n, _ := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &from, &to); n == 2 {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to, len(data)))
			w.Header().Set("Content-Length", fmt.Sprint(to+1-from))
			w.WriteHeader(http.StatusPartialContent)
			data = data[from : to+1]
		} else {
			w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		}
		_, _ = w.Write(data[:1])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

func TestHubIsAskedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		below  string
		times  int32
		answer func(h *hftest.Hub) http.HandlerFunc
		least  time.Duration
	}{
		"busy listing":      {"/tree/", 3, func(*hftest.Hub) http.HandlerFunc { return status(503) }, time.Second},
		"too many requests": {"/revision/", 1, func(*hftest.Hub) http.HandlerFunc { return status(429, "Retry-After", "30") }, 30 * time.Second},
		"broken gateway":    {"/resolve/", 2, func(*hftest.Hub) http.HandlerFunc { return status(502) }, 500 * time.Millisecond},
		"cut connection": {"/resolve/", 2, func(*hftest.Hub) http.HandlerFunc {
			return func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
		}, 200 * time.Millisecond},
		"bodies that break":     {"/resolve/", 3, func(h *hftest.Hub) http.HandlerFunc { return short(h) }, time.Second},
		"storage's link is old": {"/storage/", 1, func(*hftest.Hub) http.HandlerFunc { return status(403) }, 200 * time.Millisecond},
		"a stall": {"/resolve/", 1, func(h *hftest.Hub) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", fmt.Sprint(len(h.Files["config.json"])))
				w.WriteHeader(200)
				_, _ = w.Write([]byte("{"))
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			}
		}, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			h.Token = secret
			if c.below == "/storage/" {
				h.Token, h.Storage = "", "http://storage.test"
			}
			h.Answer = first(c.times, c.below, c.answer(h))
			inBubble(t, h, func(t *testing.T, hub *hf.Hub) {
				start := time.Now()
				if got := content(t, hub, store.Object{Key: "config.json"}, 0, -1); got != string(h.Files["config.json"]) {
					t.Errorf("read %q", got)
				}
				if took := time.Since(start); took < c.least {
					t.Errorf("it took %s, without the pauses that are due", took)
				}
			})
		})
	}
}

func TestHubFaultsAreErrors(t *testing.T) {
	garbled := func(data []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(data) }
	}
	for name, c := range map[string]struct {
		below   string
		storage bool
		answer  func(h *hftest.Hub) http.HandlerFunc
		is      error
		says    string
	}{
		"other bytes": {"/resolve/", false, func(h *hftest.Hub) http.HandlerFunc {
			other := append([]byte("X"), h.Files["config.json"][1:]...)
			return garbled(other)
		}, store.ErrMismatch, "gitsha1 is"},
		"a login page":       {"/resolve/", false, func(*hftest.Hub) http.HandlerFunc { return garbled([]byte("<html>")) }, store.ErrMismatch, "6 bytes instead of 403"},
		"a body that breaks": {"/resolve/", false, func(h *hftest.Hub) http.HandlerFunc { return short(h) }, io.ErrUnexpectedEOF, "again and again"},
		"more than it has": {"/resolve/", false, func(h *hftest.Hub) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write(h.Files["config.json"])
				w.(http.Flusher).Flush() // chunked: no length
				_, _ = w.Write([]byte("more"))
			}
		}, store.ErrMismatch, "more than the expected 403"},
		"another range": {"/resolve/", false, func(*hftest.Hub) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Range", "bytes 1-403/404")
				w.WriteHeader(206)
			}
		}, nil, "sent the range"},
		"a redirect loop": {"/resolve/", false, func(*hftest.Hub) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, r.URL.Path+"?X-Amz-Signature=secretsignature", http.StatusFound)
			}
		}, nil, "10 redirects"},
		"a busy hub":      {"/resolve/", false, func(*hftest.Hub) http.HandlerFunc { return status(503) }, nil, "answered 503"},
		"a long pause":    {"/resolve/", false, func(*hftest.Hub) http.HandlerFunc { return status(429, "Retry-After", "86400") }, nil, "wait 86400 seconds"},
		"storage refuses": {"/storage/", true, func(*hftest.Hub) http.HandlerFunc { return status(403) }, nil, "storage.test answered 403"},
		"not the hub":     {"/tree/", false, func(*hftest.Hub) http.HandlerFunc { return garbled([]byte("<html>")) }, nil, "not the hub's"},
		"no commit":       {"/revision/", false, func(*hftest.Hub) http.HandlerFunc { return garbled([]byte(`{"sha":"main"}`)) }, nil, "not 40 digits"},
		"pages in a circle": {"/tree/", false, func(*hftest.Hub) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Link", `<http://hub.test/x?cursor=again>; rel="next"`)
				_, _ = w.Write([]byte("[]"))
			}
		}, nil, "lead back"},
		"pages without end": {"/tree/", false, func(*hftest.Hub) http.HandlerFunc {
			var page atomic.Int64
			return func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Link", fmt.Sprintf(`<http://hub.test/x?cursor=%d>; rel="next"`, page.Add(1)))
				_, _ = w.Write([]byte("[]"))
			}
		}, nil, "more than 10000 pages"},
		"a page without end": {"/tree/", false, func(*hftest.Hub) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				spaces := make([]byte, 1<<20)
				for i := range spaces {
					spaces[i] = ' '
				}
				for {
					if _, err := w.Write(spaces); err != nil {
						return
					}
				}
			}
		}, nil, "larger than"},
		"gated":            {"/revision/", false, func(*hftest.Hub) http.HandlerFunc { return status(403, "X-Error-Code", "GatedRepo") }, nil, "gated"},
		"no token's right": {"/revision/", false, func(*hftest.Hub) http.HandlerFunc { return status(401) }, nil, "token in HF_TOKEN is not valid"},
		"no such revision": {"/revision/", false, func(*hftest.Hub) http.HandlerFunc { return status(404, "X-Error-Code", "RevisionNotFound") }, store.ErrNotFound, "no such revision"},
		"no such model":    {"/revision/", false, func(*hftest.Hub) http.HandlerFunc { return status(404) }, store.ErrNotFound, "answered 404"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			if c.storage {
				h.Storage = "http://storage.test"
			}
			h.Answer = first(1<<30, c.below, c.answer(h))
			inBubble(t, h, func(t *testing.T, hub *hf.Hub) {
				_, err := readRange(t, hub, store.Object{Key: "config.json"}, 0, -1)
				if err == nil || !strings.Contains(err.Error(), c.says) || (c.is != nil && !errors.Is(err, c.is)) {
					t.Errorf("got %v, want %q, %v", err, c.says, c.is)
				}
				if said := fmt.Sprint(err, errext.Hint(err)); strings.Contains(said, secret) || strings.Contains(said, "secretsignature") {
					t.Errorf("it says a secret: %s", said)
				}
				if (c.below == "/revision/" && name != "no commit") && errext.Hint(err) == "" {
					t.Errorf("no hint with %v", err)
				}
			})
		})
	}
}

// A listing that names a file outside of the repository, or one twice, is
// refused as a whole: nobody knows what else is wrong with it.
func TestHubRefusesHostileListings(t *testing.T) {
	good := hftest.Item("config.json", []byte("{}"))
	for name, bad := range map[string]map[string]any{
		"parent":          {"type": "file", "path": "../etc/passwd", "size": 1, "oid": strings.Repeat("a", 40)},
		"inside parent":   {"type": "file", "path": "a/../../b", "size": 1, "oid": strings.Repeat("a", 40)},
		"absolute":        {"type": "file", "path": "/etc/passwd", "size": 1, "oid": strings.Repeat("a", 40)},
		"empty":           {"type": "file", "path": "", "size": 1, "oid": strings.Repeat("a", 40)},
		"NUL":             {"type": "file", "path": "a\x00b", "size": 1, "oid": strings.Repeat("a", 40)},
		"twice":           good,
		"negative":        {"type": "file", "path": "a", "size": -1, "oid": strings.Repeat("a", 40)},
		"too large":       {"type": "file", "path": "a", "size": 1e19, "oid": strings.Repeat("a", 40)},
		"no digest":       {"type": "file", "path": "a", "size": 1},
		"short digest":    {"type": "file", "path": "a", "size": 1, "oid": "abc"},
		"sha256 of git":   {"type": "file", "path": "a", "size": 1, "oid": strings.Repeat("a", 64)},
		"sha1 of LFS":     {"type": "file", "path": "a", "size": 1, "oid": strings.Repeat("a", 40), "lfs": map[string]any{"oid": strings.Repeat("a", 40), "size": 1}},
		"LFS, no digest":  {"type": "file", "path": "a", "size": 1, "oid": strings.Repeat("a", 40), "lfs": map[string]any{"size": 1}},
		"unknown kind":    {"type": "submodule", "path": "a", "size": 1, "oid": strings.Repeat("a", 40)},
		"upper-case hash": {"type": "file", "path": "a", "size": 1, "oid": strings.Repeat("A", 40)},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			h.Answer = first(1<<30, "/tree/", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode([]any{good, bad}) })
			hub := serve(t, h, hf.Options{})
			for o, err := range hub.List(t.Context(), "") {
				if err == nil {
					t.Errorf("it was listed: %+v", o)
				}
			}
		})
	}
}

func TestHubStopsWhenItsCallerDoes(t *testing.T) {
	stop := errors.New("the operator said stop")
	h := newHub(t)
	h.Answer = first(1<<30, "/revision/", status(503))
	inBubble(t, h, func(t *testing.T, hub *hf.Hub) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(stop) })
		if _, _, err := hub.Pin(ctx); !errors.Is(err, stop) {
			t.Errorf("got %v", err)
		}
	})
}

func TestHubThatIsNotThere(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	synctest.Test(t, func(t *testing.T) {
		var n pipenet.Network
		defer n.Close()
		hub := open(t, "acme/tiny", hf.Options{Endpoint: "http://hub.test", Transport: n.Client().Transport})
		if _, _, err := hub.Pin(t.Context()); err == nil || !strings.Contains(err.Error(), "asking hub.test") {
			t.Errorf("got %v", err)
		}
	})
}
