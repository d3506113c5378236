package serve

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drkit/internal/pipenet"
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

func TestPrefixesStayWithTheirWorker(t *testing.T) {
	a, b := newEngine(t, "a"), newEngine(t, "b")
	f := newFront(t, Options{Workers: []Worker{us(a), us(b)}, BlockBytes: 8, BlockTokens: 2})
	first := map[string]string{}
	family := func(i int) string { return strings.Repeat(string(rune('a'+i)), 64) }
	for round := range 3 {
		for i := range 4 {
			got := f.complete(t, "", family(i)+" tail "+string(rune('0'+round)))
			if round == 0 {
				first[family(i)] = got.worker
			} else if got.worker != first[family(i)] {
				t.Errorf("family %d went to %s, before to %s", i, got.worker, first[family(i)])
			}
		}
	}
	if n := f.attempts(t, a, "ok"); n != 6 {
		t.Errorf("worker a had %v of 12: an idle fleet fills evenly", n)
	}
	f.do(t, "POST", "/v1/completions", "", `{"model":"m","prompt":[1,2,3,4]}`)
	f.do(t, "POST", "/v1/completions", "", `{"model":"m","prompt":[1,2,3,4]}`)
	f.do(t, "POST", "/v1/completions", "", `{"model":"m","prompt":["one","two"]}`) // several prompts: not seen
	f.do(t, "POST", "/v1/completions", "", `not JSON`)
	f.do(t, "POST", "/v1/completions", "", `{"model":"m","prompt":"short"}`)
	chat := `{"model":"m","messages":[{"role":"user","content":"a question that is long enough"}]}`
	f.do(t, "POST", "/v1/chat/completions", "", chat)
	f.do(t, "POST", "/v1/chat/completions", "", chat)
	f.do(t, "GET", "/v1/models", "", "")
	m := f.scrape(t)
	for outcome, want := range map[string]float64{"hit": 8 + 1 + 1, "miss": 4 + 1 + 1, "blind": 3} {
		if got, ok := m.Value("drkit_router_prefix_decisions_total", map[string]string{"outcome": outcome}); got != want || !ok {
			t.Errorf("%v %s decisions, want %v", got, outcome, want)
		}
	}
}

func TestRetryBeforeTheFirstByte(t *testing.T) {
	a, b := newEngine(t, "a"), newEngine(t, "b")
	f := newFront(t, Options{Home: "us-east-1", Workers: []Worker{us(a), eu(b)}})
	a.srv.Close()
	for range 2 {
		if got := f.complete(t, "", "hello"); got.status != 200 || got.worker != b.srv.URL {
			t.Errorf("got %+v, want an answer of b", got)
		}
	}
	if n := f.attempts(t, a, "failed"); n != 1 {
		t.Errorf("%v failed attempts at a, want 1: a refused connection takes it out", n)
	}
	if v, _ := f.scrape(t).Value("drkit_router_retries_total", nil); v != 1 {
		t.Errorf("%v retries counted, want 1", v)
	}
}

const streamed = `{"model":"m","prompt":"hello","stream":true}`

func TestStreams(t *testing.T) {
	tests := []struct {
		mode string
		err  error
		done bool
		sort string // how the attempt counts
	}{
		{"", nil, true, "ok"},
		{"cut", io.ErrUnexpectedEOF, false, "failed"},
		{"no-done", io.ErrUnexpectedEOF, false, "failed"},
	}
	for _, tt := range tests {
		t.Run("mode "+tt.mode, func(t *testing.T) {
			a, b := newEngine(t, "a"), newEngine(t, "b")
			f := newFront(t, Options{Home: "us-east-1", Workers: []Worker{us(a), eu(b)}})
			a.set(tt.mode)
			got := f.do(t, "POST", "/v1/completions", "", streamed)
			if got.status != 200 || !errors.Is(got.err, tt.err) || strings.Contains(got.body, "[DONE]") != tt.done {
				t.Errorf("got %+v, want error %v", got, tt.err)
			}
			if n := f.attempts(t, a, tt.sort); n != 1 {
				t.Errorf("%v attempts %s", n, tt.sort)
			}
			if n := f.attempts(t, b, "ok"); n != 0 {
				t.Error("a stream that had begun was retried")
			}
		})
	}
}

func TestShortAnswerIsCut(t *testing.T) {
	a := newEngine(t, "a")
	f := newFront(t, Options{Workers: []Worker{us(a)}})
	a.set("short")
	if got := f.complete(t, "", "hello"); !errors.Is(got.err, io.ErrUnexpectedEOF) {
		t.Errorf("got %+v, want an answer that is cut", got)
	}
}

func TestEngineErrorIsPassedOnAndCounted(t *testing.T) {
	a := newEngine(t, "a")
	f := newFront(t, Options{Workers: []Worker{us(a)}})
	a.set("broken")
	got := f.complete(t, "", "hello")
	if got.status != 500 || !strings.Contains(got.body, "EngineDeadError") || got.worker != a.srv.URL {
		t.Errorf("got %+v", got)
	}
	if n := f.attempts(t, a, "failed"); n != 1 {
		t.Errorf("%v failed attempts", n)
	}
}

func TestFirstTokenComesBeforeTheLast(t *testing.T) {
	a := newEngine(t, "a")
	f := newFront(t, Options{Workers: []Worker{us(a)}})
	a.set("held")
	resp, err := http.Post(f.url+"/v1/completions", "application/json", strings.NewReader(streamed))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	buf := make([]byte, 1000)
	n, err := resp.Body.Read(buf)
	if err != nil || !strings.Contains(string(buf[:n]), `"text":"a"`) {
		t.Fatalf("first read = %q, %v", buf[:n], err)
	}
	// Removed while it answers: the stream goes on to its end.
	if got := f.do(t, "DELETE", "/drkit/workers?url="+a.srv.URL, "", ""); got.status != http.StatusNoContent {
		t.Fatalf("remove: %+v", got)
	}
	if got := f.complete(t, "", "hello"); got.status != http.StatusServiceUnavailable || !strings.Contains(got.body, "no_worker") {
		t.Errorf("without a worker: %+v", got)
	}
	close(a.hold)
	rest, err := io.ReadAll(resp.Body)
	if err != nil || !strings.HasSuffix(string(rest), "data: [DONE]\n\n") {
		t.Errorf("rest = %q, %v", rest, err)
	}
}

func TestClientThatLeavesIsNoFailureOfTheWorker(t *testing.T) {
	a := newEngine(t, "a")
	f := newFront(t, Options{Workers: []Worker{us(a)}})
	a.set("held")
	resp, err := http.Post(f.url+"/v1/completions", "application/json", strings.NewReader(streamed))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = resp.Body.Read(make([]byte, 10))
	resp.Body.Close()
	close(a.hold)
	for f.Workers()[0].InFlight > 0 {
		time.Sleep(time.Millisecond)
	}
	if n := f.attempts(t, a, "failed"); n != 0 {
		t.Errorf("%v failed attempts", n)
	}
	if got := f.complete(t, "", "hello"); got.status != 200 {
		t.Errorf("the worker is out of use: %+v", got)
	}
}

func TestLargeBody(t *testing.T) {
	f := newFront(t, Options{Workers: []Worker{us(newEngine(t, "a"))}, MaxBody: 100})
	if got := f.complete(t, "", strings.Repeat("x", 200)); got.status != http.StatusRequestEntityTooLarge {
		t.Errorf("got %+v", got)
	}
}

// A hung worker and health checks, in virtual time.
func TestHangAndHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var net pipenet.Network
		defer net.Close()
		a, b := &engine{name: "a"}, &engine{name: "b"}
		for addr, e := range map[string]*engine{"a:1": a, "b:1": b} {
			if _, err := net.Serve(addr, e); err != nil {
				t.Fatal(err)
			}
		}
		r, err := New(Options{Home: "us", Transport: net.Client().Transport, Workers: []Worker{
			{URL: "http://a:1", Region: "us", Residency: "us"}, {URL: "http://b:1", Region: "eu", Residency: "eu"}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := net.Serve("router:1", r); err != nil {
			t.Fatal(err)
		}
		client := net.Client()
		post := func() (status int, worker string) {
			resp, err := client.Post("http://router:1/v1/completions", "application/json", strings.NewReader(`{"model":"m","prompt":"x"}`))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			_, _ = io.Copy(io.Discard, resp.Body)
			return resp.StatusCode, resp.Header.Get(HeaderWorker)
		}
		if status, _ := post(); status != http.StatusServiceUnavailable {
			t.Errorf("before the first check: HTTP %d, want 503", status)
		}
		go r.Run(t.Context())
		synctest.Wait()
		time.Sleep(time.Second)
		if status, w := post(); status != 200 || w != "http://a:1" {
			t.Errorf("HTTP %d from %s, want a", status, w)
		}
		a.set("hung") // takes connections and never answers
		begin := time.Now()
		if status, w := post(); status != 200 || w != "http://b:1" || time.Since(begin) != 2*time.Minute {
			t.Errorf("HTTP %d from %s after %v, want b after 2m", status, w, time.Since(begin))
		}
		a.set("sick")
		time.Sleep(5 * time.Second)
		if status, w := post(); status != 200 || w != "http://b:1" {
			t.Errorf("HTTP %d from %s, want b", status, w)
		}
		a.set("")
		time.Sleep(3 * time.Second) // one check every 2 s, one good one is enough
		if status, w := post(); status != 200 || w != "http://a:1" {
			t.Errorf("HTTP %d from %s, want a again", status, w)
		}
		a.set("sick")
		time.Sleep(2 * time.Second) // one failed check is not enough
		if _, w := post(); w != "http://a:1" {
			t.Errorf("after one failed check: %s, want a", w)
		}
		time.Sleep(2 * time.Second)
		if _, w := post(); w != "http://b:1" {
			t.Errorf("after two failed checks: %s, want b", w)
		}
	})
}

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
