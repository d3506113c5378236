package serve

import (
	"strings"
	"testing"

	"drkit/manifest/region"
)

func TestNewRefuses(t *testing.T) {
	good := Worker{URL: "http://a:1", Region: "us", Residency: "us"}
	tests := map[string]Options{
		"same twice":          {Workers: []Worker{good, {URL: "http://A:1/", Region: "us"}}},
		"no region":           {Workers: []Worker{{URL: "http://a:1"}}},
		"no URL":              {Workers: []Worker{{URL: "a:1", Region: "us"}}},
		"two residencies":     {Workers: []Worker{good, {URL: "http://b:1", Region: "us", Residency: "eu"}}},
		"an empty residency":  {Workers: []Worker{good}, Residency: []region.Residency{""}},
		"a password in a URL": {Workers: []Worker{{URL: "http://u:p@a:1", Region: "us"}}},
	}
	for name, o := range tests {
		if _, err := New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	r, err := New(Options{Workers: []Worker{good, {URL: "http://b:1", Region: "us"}}})
	if err != nil || r.Workers()[1].Residency != "us" {
		t.Errorf("a worker without residency = %+v, %v, want its region's", r.Workers(), err)
	}
}

func TestAdmin(t *testing.T) {
	a, b := newEngine(t, "a"), newEngine(t, "b")
	f := newFront(t, Options{Workers: []Worker{us(a)}})
	tests := []struct {
		name, method, path, body string
		status                   int
		says                     string
	}{
		{"info", "GET", "/drkit/info", "", 200, `"kind":"drkit reference router"`},
		{"health", "GET", "/health", "", 200, `"available":1`},
		{"add", "POST", "/drkit/workers", `{"url":"` + b.srv.URL + `/","region":"us-east-1"}`, 201, `"healthy":true`},
		{"add twice", "POST", "/drkit/workers", `{"url":"` + b.srv.URL + `","region":"us-east-1"}`, 409, "already a worker"},
		{"add nonsense", "POST", "/drkit/workers", `{"uri":"x"}`, 400, "unknown field"},
		{"add without a region", "POST", "/drkit/workers", `{"url":"http://x:1"}`, 400, "region"},
		{"list", "GET", "/drkit/workers", "", 200, `"residency":"us","healthy":true`},
		{"drain", "PUT", "/drkit/workers", `{"url":"` + a.srv.URL + `","draining":true}`, 204, ""},
		{"drained", "POST", "/v1/completions", `{"model":"m","prompt":"x"}`, 200, `"text":"b"`},
		{"drain b", "PUT", "/drkit/workers", `{"url":"` + b.srv.URL + `","draining":true}`, 204, ""},
		{"all drained", "GET", "/health", "", 503, `"available":0`},
		{"back", "PUT", "/drkit/workers", `{"url":"` + a.srv.URL + `","draining":false}`, 204, ""},
		{"a again", "POST", "/v1/completions", `{"model":"m","prompt":"x"}`, 200, `"text":"a"`},
		{"drain nobody", "PUT", "/drkit/workers", `{"url":"http://x:1","draining":true}`, 404, "not a worker"},
		{"remove", "DELETE", "/drkit/workers?url=" + a.srv.URL, "", 204, ""},
		{"remove twice", "DELETE", "/drkit/workers?url=" + a.srv.URL, "", 404, "not a worker"},
		{"remove nothing", "DELETE", "/drkit/workers", "", 400, "URL"},
		{"no such path", "GET", "/v1/embeddings", "", 404, ""},
	}
	for _, tt := range tests {
		if got := f.do(t, tt.method, tt.path, "", tt.body); got.status != tt.status || !strings.Contains(got.body, tt.says) {
			t.Errorf("%s: %+v, want %d with %q", tt.name, got, tt.status, tt.says)
		}
	}
}
