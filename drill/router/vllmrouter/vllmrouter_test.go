package vllmrouter

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drkit/drill"
	"drkit/internal/errext"
	"drkit/internal/pipenet"
)

const urlA, urlB = "http://127.0.0.1:8101", "http://127.0.0.1:8102"

func driver(t *testing.T, h http.Handler) *Router {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	r, err := New(srv.URL+"/", srv.URL+"/metrics", srv.Client())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestApplyCutoverAndBack(t *testing.T) {
	f := newFake(urlA, urlB)
	f.urls = []string{urlA}
	r := driver(t, f)
	cutover := drill.Change{Add: []drill.Worker{{URL: urlB + "/"}}, Remove: []string{urlA}}
	back := drill.Change{Add: []drill.Worker{{URL: urlA}}, Remove: []string{urlB}}
	for _, step := range []struct {
		change drill.Change
		want   []string
	}{{cutover, []string{urlB}}, {cutover, []string{urlB}}, {back, []string{urlA}}} {
		if err := r.Apply(t.Context(), step.change); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(f.urls, step.want) {
			t.Errorf("router has %q, want %q", f.urls, step.want)
		}
	}
	if f.fewest == 0 {
		t.Error("the router was without a worker")
	}
}

func TestApplyRemovesByTheRoutersSpelling(t *testing.T) {
	f := newFake(urlA, urlA+"/", urlB)
	f.urls = []string{urlA + "/", urlB}
	if err := driver(t, f).Apply(t.Context(), drill.Change{Remove: []string{urlA}}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(f.urls, []string{urlB}) {
		t.Errorf("router has %q: the worker with a slash was not removed", f.urls)
	}
}

func TestApplyQuotesTheRouter(t *testing.T) {
	f := newFake(urlA)
	f.urls = []string{urlA}
	err := driver(t, f).Apply(t.Context(), drill.Change{Add: []drill.Worker{{URL: urlB}}, Remove: []string{urlA}})
	if err == nil || !strings.Contains(err.Error(), "did not become healthy") || errext.Hint(err) == "" {
		t.Errorf("error = %v (hint %q)", err, errext.Hint(err))
	}
	if !slices.Equal(f.urls, []string{urlA}) {
		t.Errorf("router has %q after a failed add", f.urls)
	}
}

// A router that answers 200 and does nothing, in virtual time.
func TestApplyDeafRouter(t *testing.T) {
	changes := map[string]struct {
		urls   []string
		change drill.Change
		want   string
	}{
		"add":    {[]string{urlA}, drill.Change{Add: []drill.Worker{{URL: urlB}}}, "its list does not show the worker"},
		"remove": {[]string{urlA, urlB}, drill.Change{Remove: []string{urlA}}, "its list still shows the worker"},
	}
	for name, tt := range changes {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var net pipenet.Network
				defer net.Close()
				f := newFake(urlA, urlB)
				f.urls, f.deaf = tt.urls, true
				if _, err := net.Serve("router:30000", f); err != nil {
					t.Fatal(err)
				}
				r, err := New("http://router:30000", "", net.Client())
				if err != nil {
					t.Fatal(err)
				}
				begin := time.Now()
				err = r.Apply(t.Context(), tt.change)
				if err == nil || !strings.Contains(err.Error(), tt.want) || errext.Hint(err) == "" {
					t.Errorf("error = %v (hint %q)", err, errext.Hint(err))
				}
				if took := time.Since(begin); took != 10*time.Second {
					t.Errorf("took %v, want 10s", took)
				}
			})
		})
	}
}

// A router that takes the connection and never answers.
func TestApplyHungRouter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var net pipenet.Network
		defer net.Close()
		f := newFake(urlA, urlB)
		f.urls = []string{urlA}
		hang := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				<-r.Context().Done()
				return
			}
			f.ServeHTTP(w, r)
		})
		if _, err := net.Serve("router:30000", hang); err != nil {
			t.Fatal(err)
		}
		r, err := New("http://router:30000", "", net.Client())
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		err = r.Apply(t.Context(), drill.Change{Add: []drill.Worker{{URL: urlB}}, Remove: []string{urlA}})
		if err == nil || !strings.Contains(err.Error(), "after 10s it has not answered") || time.Since(begin) != 10*time.Second {
			t.Errorf("error = %v after %v", err, time.Since(begin))
		}
		if !slices.Equal(f.urls, []string{urlA}) {
			t.Errorf("router has %q", f.urls)
		}
	})
}

func TestWorkers(t *testing.T) {
	f := newFake(urlB)
	f.urls = []string{urlA, urlB, urlB + "/"}
	got, err := driver(t, f).Workers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(got, func(a, b drill.Worker) int { return strings.Compare(a.URL, b.URL) })
	if len(got) != 2 || got[0].URL != urlA || got[0].Health != drill.No || got[1].URL != urlB {
		t.Errorf("Workers = %+v", got)
	}
	f.broken = true
	if _, err := driver(t, f).Workers(t.Context()); err == nil || !strings.Contains(err.Error(), "HTTP 500") {
		t.Errorf("error = %v", err)
	}
}

func TestCountersAndDecisions(t *testing.T) {
	page, err := os.ReadFile("testdata/metrics-after-crash.txt")
	if err != nil {
		t.Fatal(err)
	}
	f := newFake()
	f.metrics = string(page)
	r := driver(t, f)
	got, err := r.Counters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]drill.Count{urlA: {OK: 260, Failed: 11, Unit: "attempts"}, urlB: {OK: 514, Unit: "attempts"}}
	if len(got) != 2 || got[urlA] != want[urlA] || got[urlB] != want[urlB] {
		t.Errorf("Counters = %+v, want %+v", got, want)
	}
	hits, misses, blind, err := r.CacheDecisions(t.Context())
	if hits != 12 || misses != 4 || blind != 315 || err != nil {
		t.Errorf("CacheDecisions = %d, %d, %d, %v", hits, misses, blind, err)
	}
	info, err := r.Probe(t.Context())
	if err != nil || info.Policy != "cache_aware" || info.SeesText != drill.No || info.SeesTokens != drill.Yes || info.Reference {
		t.Errorf("Probe = %+v, %v", info, err)
	}
}

func TestNothingCountedIsUnknown(t *testing.T) {
	f := newFake()
	f.metrics = "process_start_time_seconds 1.7e9\nvllm_router_cb_outcomes_total{worker=\"http://127.0.0.1:8101\",outcome=\"success\"} 1\n"
	r := driver(t, f)
	got, err := r.Counters(t.Context())
	if err != nil || len(got) != 1 || got[urlA].Epoch != "1700000000" {
		t.Errorf("Counters = %+v, %v", got, err)
	}
	if _, _, _, err := r.CacheDecisions(t.Context()); !errors.Is(err, drill.ErrNotCounted) {
		t.Errorf("CacheDecisions: %v", err)
	}
	if info, err := r.Probe(t.Context()); err != nil || info.Policy != "" || info.SeesText != drill.Unknown || info.SeesTokens != drill.Unknown {
		t.Errorf("Probe = %+v, %v", info, err)
	}
	none, err := New("http://127.0.0.1:1", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := none.Counters(t.Context()); err == nil || errext.Hint(err) == "" {
		t.Errorf("Counters without a metrics address: %v", err)
	}
}

// TestNoCountIsUnknown: an outcome without a series has not happened; one whose series
// holds what no count can be is not known, and is no 0 beside the other.
func TestNoCountIsUnknown(t *testing.T) {
	f := newFake()
	r := driver(t, f)
	for _, no := range []string{"-1", "NaN", "-Inf", "1e300"} {
		f.metrics = "vllm_router_cb_outcomes_total{worker=\"http://127.0.0.1:8101\",outcome=\"success\"} 10\n" +
			"vllm_router_cb_outcomes_total{worker=\"http://127.0.0.1:8101\",outcome=\"failure\"} " + no + "\n" +
			"vllm_router_prefix_routing_decisions_total{policy=\"cache_aware\",outcome=\"prefix_hit\"} 3\n" +
			"vllm_router_prefix_routing_decisions_total{policy=\"cache_aware\",outcome=\"prefix_miss\"} " + no + "\n"
		if got, err := r.Counters(t.Context()); !errors.Is(err, drill.ErrNotCounted) {
			t.Errorf("Counters beside %s = %+v, %v", no, got, err)
		}
		if hits, misses, _, err := r.CacheDecisions(t.Context()); !errors.Is(err, drill.ErrNotCounted) {
			t.Errorf("CacheDecisions beside %s = %d, %d, %v", no, hits, misses, err)
		}
	}
}

func TestProbeNamesWhatIsThere(t *testing.T) {
	tests := []struct{ path, body, want string }{
		{"/get_loads", `{"timestamp":"2026-11-29T19:48:50+00:00","version":"smg-1.13.0","loads":[]}`, "not a vLLM Router but smg"},
		{"/get_server_info", `{"router_manager":true,"routers_count":1,"workers_count":2}`, "but sglang-router"},
		{"/health", `{"status":"healthy","dynamic_config":{"static_backends":"http://127.0.0.1:8101"}}`, "but production-stack's router"},
		{"/drkit/info", `{"kind":"drkit reference router"}`, "but the drkit reference router"},
		{"/v1/models", `{"object":"list","data":[{"id":"tiny"}]}`, "but an engine"},
		{"/", `hello`, "but something that drkit does not know"},
		{"/list_workers", `{"workers":[]}`, "but something that drkit does not know"},
	}
	for _, tt := range tests {
		t.Run(tt.path, func(t *testing.T) {
			r := driver(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				if req.URL.Path != tt.path {
					http.NotFound(w, req)
					return
				}
				_, _ = io.WriteString(w, tt.body)
			}))
			_, err := r.Probe(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.want) || errext.Hint(err) == "" {
				t.Errorf("Probe: %v, want %q", err, tt.want)
			}
		})
	}
}

func TestProbeOfNobody(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	srv.Close()
	r, err := New(srv.URL, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Probe(t.Context()); err == nil || errext.Hint(err) == "" {
		t.Errorf("Probe: %v", err)
	}
}

func TestNewRefusesBadAddresses(t *testing.T) {
	for _, bad := range [][2]string{{"router:30000", ""}, {"http://r:1/admin", ""}, {"http://r:1", "29000"}, {"http://r:1", "http://u:p@r:2/metrics"}} {
		if _, err := New(bad[0], bad[1], nil); err == nil {
			t.Errorf("New(%q, %q) succeeded", bad[0], bad[1])
		}
	}
}
