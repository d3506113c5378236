package hf_test

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/internal/store/hf"
	"drkit/internal/store/hf/hftest"
)

// serve starts the hub and opens acme/tiny of it.
func serve(t *testing.T, h http.Handler, o hf.Options) *hf.Hub {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	o.Endpoint = server.URL
	return open(t, "acme/tiny", o)
}

func open(t *testing.T, spec string, o hf.Options) *hf.Hub {
	t.Helper()
	hub, err := hf.New(spec, o)
	if err != nil {
		t.Fatal(err)
	}
	return hub
}

// listing is what a source lists: sizes and sums by key, in order.
func listing(t *testing.T, s store.Source, prefix string) (keys []string, all []store.Object) {
	t.Helper()
	for o, err := range s.List(t.Context(), prefix) {
		if err != nil {
			t.Fatalf("List: %v", err)
		}
		keys, all = append(keys, o.Key), append(all, o)
	}
	return keys, all
}

func content(t *testing.T, s store.Source, o store.Object, off, n int64) string {
	t.Helper()
	data, err := readRange(t, s, o, off, n)
	if err != nil {
		t.Fatalf("reading %s: %v", o.Key, err)
	}
	return string(data)
}

func readRange(t *testing.T, s store.Source, o store.Object, off, n int64) ([]byte, error) {
	t.Helper()
	r, err := s.Open(t.Context(), o, off, n)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// wantKeys is what the cache that huggingface_hub wrote holds.
var wantKeys = []string{"chat_template.jinja", "config.json", "generation_config.json", "model.safetensors", "onnx/README.md", "tokenizer.json", "tokenizer_config.json"}

// stated is what the hub and its cache say of two of the Files: the names that
// huggingface_hub gave to their blobs in testdata/hub.
var stated = map[string]string{
	"model.safetensors": "sha256:b448e90341526d2d63e2b29b544cf20fcfd2c85e731366db0d2212d085d9f5a9",
	"onnx/README.md":    "gitsha1:29cc3cd64324f55176d0fb76b093fd5acc983692",
}

func TestHubListsAndReadsTheCommit(t *testing.T) {
	for name, h := range map[string]*hftest.Hub{
		"one page":   newHub(t),
		"many pages": {Files: repoFiles(t), PageSize: 3},
		"no ranges":  {Files: repoFiles(t), NoRanges: true},
		"gated":      {Files: repoFiles(t), Token: "hf_goodtoken"},
	} {
		t.Run(name, func(t *testing.T) {
			hub := serve(t, h, hf.Options{Token: h.Token})
			keys, all := listing(t, hub, "")
			if !slices.Equal(keys, wantKeys) {
				t.Fatalf("List = %q", keys)
			}
			if repo, at, err := hub.Pin(t.Context()); repo != "acme/tiny" || at != commit || hub.Commit() != commit || err != nil {
				t.Errorf("Pin = %s, %s, %v", repo, at, err)
			}
			for _, o := range all {
				whole := string(h.Files[o.Key])
				if o.Size != int64(len(whole)) || o.Version != commit || len(o.Sums) != 1 || o.Sums[0].Evidence != store.Claimed {
					t.Errorf("listed as %+v", o)
				}
				if want := stated[o.Key]; want != "" && o.Sums[0].String() != want {
					t.Errorf("%s: stated %s, want %s", o.Key, o.Sums[0], want)
				}
				if stat, err := hub.Stat(t.Context(), o.Key); err != nil || stat.Size != o.Size || !slices.Equal(stat.Sums, o.Sums) {
					t.Errorf("Stat = %+v, %v", stat, err)
				}
				for _, r := range [][2]int64{{0, -1}, {0, 4}, {3, 5}, {9, -1}, {o.Size - 1, 100}, {o.Size, -1}, {o.Size + 7, 3}, {5, 0}} {
					var want bytes.Buffer
					_, _ = want.ReadFrom(store.Range([]byte(whole), r[0], r[1]))
					if got := content(t, hub, o, r[0], r[1]); got != want.String() {
						t.Errorf("%s from %d, %d bytes: %d bytes that differ", o.Key, r[0], r[1], len(got))
					}
				}
			}
			keys, _ = listing(t, hub, "onnx/")
			if !slices.Equal(keys, []string{"onnx/README.md"}) {
				t.Errorf("beneath onnx/: %q", keys)
			}
		})
	}
}

func TestHubResolvesABranchOnce(t *testing.T) {
	h := newHub(t)
	hub := serve(t, h, hf.Options{})
	for range 2 {
		_, all := listing(t, hub, "")
		content(t, hub, all[0], 0, -1)
	}
	want := []string{"/api/models/acme/tiny/revision/main", "/api/models/acme/tiny/tree/" + commit,
		"/acme/tiny/resolve/" + commit + "/chat_template.jinja", "/acme/tiny/resolve/" + commit + "/chat_template.jinja"}
	if got := h.Requests(); !slices.Equal(got, want) {
		t.Errorf("requests %q", got)
	}
}

func TestHubTakesAFullCommitAsItIs(t *testing.T) {
	h := newHub(t)
	server := httptest.NewServer(h)
	defer server.Close()
	listing(t, open(t, "acme/tiny@"+commit, hf.Options{Endpoint: server.URL + "/"}), "")
	if got := h.Requests(); len(got) != 1 || !strings.Contains(got[0], "/tree/"+commit) {
		t.Errorf("requests %q", got)
	}
}

// The hub redirects to storage on another host, which must not see the token.
func TestHubNeverSendsTheTokenElsewhere(t *testing.T) {
	elsewhere := newHub(t)
	storage := httptest.NewServer(elsewhere)
	defer storage.Close()
	h := newHub(t)
	h.Token, h.Storage = "hf_goodtoken", storage.URL
	hub := serve(t, h, hf.Options{Token: "hf_goodtoken"})
	_, all := listing(t, hub, "")
	for _, o := range all {
		if got := content(t, hub, o, 0, -1); got != string(h.Files[o.Key]) {
			t.Errorf("%s: %d bytes that differ", o.Key, len(got))
		}
	}
	if got := elsewhere.Requests(); len(got) != len(wantKeys) || strings.Contains(strings.Join(got, " "), "Bearer") {
		t.Errorf("the storage saw %q", got)
	}
	if got := h.Requests(); !strings.HasSuffix(got[0], "Bearer hf_goodtoken") {
		t.Errorf("the hub saw %q", got)
	}
}

func TestHubNamesWithOddCharacters(t *testing.T) {
	h := &hftest.Hub{Files: map[string][]byte{}}
	for _, key := range []string{"a b#c?d%20e+f", "é.json", "..hidden", "sub/ö ä", "quote'\"", "a&b=c;d"} {
		h.Files[key] = []byte("content of " + key)
	}
	for name, redirected := range map[string]bool{"at the hub": false, "at its storage": true} {
		if redirected {
			storage := httptest.NewServer(h)
			defer storage.Close()
			h = &hftest.Hub{Files: h.Files, Storage: storage.URL}
		}
		hub := serve(t, h, hf.Options{})
		keys, all := listing(t, hub, "")
		if !slices.Equal(keys, slices.Sorted(maps.Keys(h.Files))) {
			t.Errorf("%s: %q", name, keys)
		}
		for _, o := range all {
			if got := content(t, hub, o, 0, -1); got != "content of "+o.Key {
				t.Errorf("%s: %s holds %q", name, o.Key, got)
			}
		}
	}
}

func TestHubSaysWhatIsNotThere(t *testing.T) {
	hub := serve(t, newHub(t), hf.Options{})
	for _, key := range []string{"nothing", "onnx", "config.json/below"} {
		if _, err := hub.Stat(t.Context(), key); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Stat(%s): %v", key, err)
		}
		if _, err := hub.Open(t.Context(), store.Object{Key: key}, 0, -1); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Open(%s): %v", key, err)
		}
	}
	for _, key := range []string{"", "/abs", "../up", "a//b"} {
		if _, err := hub.Open(t.Context(), store.Object{Key: key}, 0, -1); !errors.Is(err, store.ErrUnrepresentable) {
			t.Errorf("Open(%q): %v", key, err)
		}
	}
	if _, err := hub.Open(t.Context(), store.Object{Key: "config.json", Version: strings.Repeat("0", 40)}, 0, -1); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("another commit: %v", err)
	}
	for _, err := range hub.List(t.Context(), "../") {
		if !errors.Is(err, store.ErrUnrepresentable) {
			t.Errorf("List(../): %v", err)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for spec, o := range map[string]hf.Options{
		"tiny":              {},
		"acme/tiny@":        {},
		"acme/../tiny":      {},
		"acme/tiny/more":    {},
		"acme/tiny?x=1":     {},
		"acme/tiny":         {Offline: true},
		"acme/tiny@main":    {Endpoint: "ftp://host"},
		"acme/tiny@branch":  {Endpoint: "https://user:secretpassword@host"},
		"acme/tiny@v1.0":    {Endpoint: "host"},
		"acme/tiny@refs/pr": {Endpoint: "https://host/?token=secretpassword"},
	} {
		_, err := hf.New(spec, o)
		if err == nil || errext.Hint(err) == "" || errext.StatusOf(err) != errext.Usage || strings.Contains(err.Error(), "secretpassword") {
			t.Errorf("%s %+v: %v, hint %q", spec, o, err, errext.Hint(err))
		}
	}
}

func TestFromEnv(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want hf.Options
	}{
		{nil, hf.Options{}},
		{map[string]string{"HF_ENDPOINT": "https://mirror", "HF_TOKEN": "a\n", "HUGGING_FACE_HUB_TOKEN": "b"}, hf.Options{Endpoint: "https://mirror", Token: "a"}},
		{map[string]string{"HUGGING_FACE_HUB_TOKEN": "b", "HF_HUB_OFFLINE": "0"}, hf.Options{Token: "b"}},
		{map[string]string{"HF_HUB_OFFLINE": "1"}, hf.Options{Offline: true}},
		{map[string]string{"HF_HUB_OFFLINE": "true"}, hf.Options{Offline: true}},
		{map[string]string{"TRANSFORMERS_OFFLINE": "yes"}, hf.Options{Offline: true}},
		{map[string]string{"HF_HUB_OFFLINE": "no", "TRANSFORMERS_OFFLINE": "1"}, hf.Options{}},
	} {
		if got := hf.FromEnv(func(name string) string { return c.env[name] }); got != c.want {
			t.Errorf("%v: %+v", c.env, got)
		}
	}
}
