package serve

import (
	"net/http"
	"strings"
	"testing"

	"drkit/manifest/region"
)

func us(e *engine) Worker { return Worker{URL: e.srv.URL, Region: "us-east-1", Residency: "us"} }
func eu(e *engine) Worker { return Worker{URL: e.srv.URL, Region: "eu-west-1", Residency: "eu"} }

func TestResidencyBorder(t *testing.T) {
	a, b := newEngine(t, "a"), newEngine(t, "b")
	open := newFront(t, Options{Home: "us-east-1", Workers: []Worker{us(a), eu(b)}})
	bound := newFront(t, Options{Home: "us-east-1", Workers: []Worker{us(a), eu(b)}, Residency: []region.Residency{"eu"}})
	onlyUS := newFront(t, Options{Workers: []Worker{us(a)}})
	unknown := newFront(t, Options{Workers: []Worker{{URL: b.srv.URL, Region: "eu-west-1"}}})
	tests := []struct {
		name      string
		f         front
		residency string
		status    int
		region    string
		says      string
	}{
		{"no class: home", open, "", 200, "us-east-1", ""},
		{"eu only", open, "eu", 200, "eu-west-1", ""},
		{"either: home", open, " eu , us ", 200, "us-east-1", ""},
		{"router's class", bound, "", 200, "eu-west-1", ""},
		{"the request's class comes first", bound, "us", 200, "us-east-1", ""},
		{"nobody inside", onlyUS, "eu", 503, "", "residency_border"},
		{"worker of unknown residency", unknown, "eu", 503, "", "residency_border"},
		{"worker of unknown residency, no class", unknown, "", 200, "eu-west-1", ""},
		{"empty part", open, "eu,", 400, "", "bad_residency"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, do := range []func() answer{
				func() answer { return tt.f.complete(t, tt.residency, "hello") },
				func() answer { return tt.f.do(t, "GET", "/v1/models", tt.residency, "") },
				func() answer { return tt.f.do(t, "POST", "/tokenize", tt.residency, `{"prompt":"x"}`) },
			} {
				got := do()
				if got.status != tt.status || got.region != tt.region || !strings.Contains(got.body, tt.says) {
					t.Errorf("got %+v, want %d from %q", got, tt.status, tt.region)
				}
			}
		})
	}
	for _, e := range []*engine{a, b} {
		for _, h := range e.seen {
			if h != "" {
				t.Errorf("the residency header %q reached engine %s", h, e.name)
			}
		}
	}
	if v, _ := onlyUS.scrape(t).Value("drkit_router_border_refusals_total", nil); v != 3 {
		t.Errorf("%v border refusals counted, want 3", v)
	}
}

func TestEmptyResidencyHeaderIsRefused(t *testing.T) {
	f := newFront(t, Options{Workers: []Worker{us(newEngine(t, "a"))}})
	for _, values := range [][]string{{""}, {"us", "eu"}} {
		req, err := http.NewRequestWithContext(t.Context(), "POST", f.url+"/v1/completions", strings.NewReader(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header[HeaderResidency] = values
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%q: HTTP %d, want 400", values, resp.StatusCode)
		}
	}
}

func TestBorderHoldsWhenTheAllowedWorkerDies(t *testing.T) {
	a, b := newEngine(t, "a"), newEngine(t, "b")
	f := newFront(t, Options{Home: "us-east-1", Workers: []Worker{us(a), eu(b)}})
	b.srv.Close()
	got := f.complete(t, "eu", "hello")
	if got.status != http.StatusBadGateway || got.worker != "" {
		t.Errorf("got %+v, want 502", got)
	}
	if got := f.complete(t, "eu", "hello"); got.status != http.StatusServiceUnavailable {
		t.Errorf("got %+v, want 503", got)
	}
	if n := f.attempts(t, a, "ok"); n != 0 {
		t.Errorf("%v requests crossed the border", n)
	}
}
