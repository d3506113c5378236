package reference

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
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

func fakeWith(urls ...string) *fakeRouter {
	f := &fakeRouter{workers: []map[string]any{}}
	for _, u := range urls {
		f.workers = append(f.workers, map[string]any{"url": u, "region": "us-east-1", "residency": "us", "healthy": true})
	}
	return f
}

func driver(t *testing.T, h http.Handler) *Router {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	r, err := New(srv.URL+"/", "", srv.Client())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestProbe(t *testing.T) {
	info, err := driver(t, fakeWith()).Probe(t.Context())
	want := drill.RouterInfo{Kind: "reference", Version: "v1", Policy: "cache-aware-regional", SeesText: drill.Yes, SeesTokens: drill.Yes, Reference: true}
	if err != nil || info != want {
		t.Errorf("Probe = %+v, %v", info, err)
	}
	for name, h := range map[string]http.HandlerFunc{
		"404":        http.NotFound,
		"other JSON": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"kind":"other"}`) },
		"no JSON":    func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `<html>`) },
	} {
		if _, err := driver(t, h).Probe(t.Context()); err == nil || !strings.Contains(err.Error(), "is not the drkit reference router") || errext.StatusOf(err) != errext.Usage {
			t.Errorf("%s: %v", name, err)
		}
	}
	srv := httptest.NewServer(http.NotFoundHandler())
	srv.Close()
	r, err := New(srv.URL, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Probe(t.Context()); err == nil || errext.Hint(err) == "" || errext.StatusOf(err) == errext.Usage {
		t.Errorf("nobody there: %v", err)
	}
}

func TestApplyAndWorkers(t *testing.T) {
	f := fakeWith(urlA)
	r := driver(t, f)
	c := drill.Change{Add: []drill.Worker{{URL: urlB + "/", Region: "eu-west-1", Attrs: map[string]string{"residency": "eu"}}}, Remove: []string{urlA}}
	for range 2 {
		if err := r.Apply(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"add " + urlB + " eu-west-1 eu", "remove " + urlA}; !slices.Equal(f.calls, want) {
		t.Errorf("calls = %q, want %q", f.calls, want)
	}
	got, err := r.Workers(t.Context())
	if err != nil || len(got) != 1 || got[0].URL != urlB || got[0].Region != "eu-west-1" || got[0].Attrs["residency"] != "eu" || got[0].Health != drill.Yes {
		t.Errorf("Workers = %+v, %v", got, err)
	}
	err = r.Apply(t.Context(), drill.Change{Add: []drill.Worker{{URL: urlA}}})
	if err == nil || !strings.Contains(err.Error(), "its region is not stated") {
		t.Errorf("a worker without a region: %v", err)
	}
	err = r.Apply(t.Context(), drill.Change{Remove: []string{urlB}})
	if errext.StatusOf(err) != errext.Refused {
		t.Errorf("removing the last worker: %v", err)
	}
}

func TestApplyToARouterThatLies(t *testing.T) {
	for name, lie := range map[string]func(*fakeRouter){
		"its list does not show the worker": func(f *fakeRouter) { f.deaf = true },
		"but not as healthy":                func(f *fakeRouter) { f.sick = true },
	} {
		synctest.Test(t, func(t *testing.T) {
			var net pipenet.Network
			defer net.Close()
			f := fakeWith(urlA)
			lie(f)
			if _, err := net.Serve("router:1", f); err != nil {
				t.Fatal(err)
			}
			r, err := New("http://router:1", "", net.Client())
			if err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			err = r.Apply(t.Context(), drill.Change{Add: []drill.Worker{{URL: urlB, Region: "eu"}}, Remove: []string{urlA}})
			if err == nil || !strings.Contains(err.Error(), name) || time.Since(begin) != 10*time.Second {
				t.Errorf("%v after %v, want %q after 10s", err, time.Since(begin), name)
			}
		})
	}
}

func TestCounters(t *testing.T) {
	f := fakeWith()
	f.metrics = `# TYPE drkit_router_attempts_total counter
drkit_router_attempts_total{worker="http://127.0.0.1:8101",outcome="ok"} 7
drkit_router_attempts_total{worker="http://127.0.0.1:8101",outcome="failed"} 2
drkit_router_attempts_total{worker="http://127.0.0.1:8101",outcome="client_left"} 1
drkit_router_prefix_decisions_total{outcome="hit"} 5
drkit_router_prefix_decisions_total{outcome="miss"} 3
drkit_router_prefix_decisions_total{outcome="blind"} 2
process_start_time_seconds 1700000000.25
`
	r := driver(t, f)
	got, err := r.Counters(t.Context())
	if err != nil || len(got) != 1 || got[urlA] != (drill.Count{OK: 7, Failed: 2, Unit: "attempts", Epoch: "1700000000.25"}) {
		t.Errorf("Counters = %+v, %v", got, err)
	}
	if h, m, b, err := r.CacheDecisions(t.Context()); h != 5 || m != 3 || b != 2 || err != nil {
		t.Errorf("CacheDecisions = %d, %d, %d, %v", h, m, b, err)
	}
	counted := f.metrics
	for _, no := range []string{"-5", "+Inf", "NaN"} { // left out, the worker would look as if nothing had been sent to it
		f.metrics = counted + `drkit_router_attempts_total{worker="http://127.0.0.1:8102",outcome="ok"} ` + no + "\n"
		if got, err := r.Counters(t.Context()); !errors.Is(err, drill.ErrNotCounted) {
			t.Errorf("a counter of %s: %+v, %v", no, got, err)
		}
	}
	f.metrics = "x 1\n"
	if _, _, _, err := r.CacheDecisions(t.Context()); !errors.Is(err, drill.ErrNotCounted) {
		t.Errorf("CacheDecisions of another page: %v", err)
	}
}
