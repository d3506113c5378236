package serve

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

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

// BenchmarkHop is a request through the router, BenchmarkDirect the same without
// it: the difference is what the router costs.
func BenchmarkHop(b *testing.B)    { benchmark(b, true) }
func BenchmarkDirect(b *testing.B) { benchmark(b, false) }

func benchmark(b *testing.B, through bool) {
	engine := httptest.NewServer(&engine{name: "a"})
	defer engine.Close()
	r, err := New(Options{Workers: []Worker{{URL: engine.URL, Region: "us-east-1", Residency: "us"}}})
	if err != nil {
		b.Fatal(err)
	}
	r.checkAll(b.Context())
	router := httptest.NewServer(r)
	defer router.Close()
	url := engine.URL
	if through {
		url = router.URL
	}
	body := `{"model":"m","prompt":"` + strings.Repeat("some words ", 400) + `"}`
	for b.Loop() {
		resp, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}
