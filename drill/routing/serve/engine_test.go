package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"drkit/internal/openai"
)

// engine is a stub behind the router. mode says how it answers completions.
type engine struct {
	name string
	mu   sync.Mutex
	mode string
	seen []string      // residency headers that reached it
	hold chan struct{} // "held": the second half of a stream waits for it
	srv  *httptest.Server
}

func newEngine(t *testing.T, name string) *engine {
	e := &engine{name: name, hold: make(chan struct{})}
	e.srv = httptest.NewServer(e)
	t.Cleanup(e.srv.Close)
	return e
}

func (e *engine) set(mode string) { e.mu.Lock(); e.mode = mode; e.mu.Unlock() }

func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	e.mu.Lock()
	mode := e.mode
	e.seen = append(e.seen, r.Header.Get(HeaderResidency))
	e.mu.Unlock()
	if r.URL.Path == "/health" {
		if mode == "sick" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return
	}
	if r.URL.Path == "/v1/models" {
		fmt.Fprintf(w, `{"object":"list","data":[{"id":%q}]}`, e.name)
		return
	}
	var c struct{ Stream bool }
	_ = json.Unmarshal(body, &c)
	switch {
	case mode == "hung":
		<-r.Context().Done()
	case mode == "broken":
		http.Error(w, `{"error":{"message":"EngineDeadError"}}`, http.StatusInternalServerError)
	case c.Stream:
		e.stream(w, mode)
	case mode == "short":
		w.Header().Set("Content-Length", "1000")
		fmt.Fprint(w, `{"choices":[`)
	default:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"choices":[{"index":0,"text":%q,"finish_reason":"stop"}]}`, e.name)
	}
}

func (e *engine) stream(w http.ResponseWriter, mode string) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"text\":%q,\"finish_reason\":null}]}\n\n", e.name)
	_ = http.NewResponseController(w).Flush()
	switch mode {
	case "cut": // as a killed engine: FIN without the final chunk
		panic(http.ErrAbortHandler)
	case "no-done":
		return
	case "held":
		<-e.hold
	}
	fmt.Fprint(w, "data: {\"choices\":[{\"index\":0,\"text\":\"!\",\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
}

// front is a router with its address.
type front struct {
	*Router
	url string
}

func newFront(t *testing.T, o Options) front {
	t.Helper()
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	r.checkAll(t.Context())
	srv := httptest.NewServer(r)
	t.Cleanup(srv.Close)
	return front{r, srv.URL}
}

// answer is what a client saw.
type answer struct {
	status         int
	worker, region string
	body           string
	err            error // while the body was read
}

func (f front) do(t *testing.T, method, path, residency, body string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, f.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if residency != "" {
		req.Header.Set(HeaderResidency, residency)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	_, err = b.ReadFrom(resp.Body)
	return answer{resp.StatusCode, resp.Header.Get(HeaderWorker), resp.Header.Get(HeaderRegion), b.String(), err}
}

func (f front) complete(t *testing.T, residency, prompt string) answer {
	t.Helper()
	return f.do(t, "POST", "/v1/completions", residency, fmt.Sprintf(`{"model":"m","prompt":%q}`, prompt))
}

func (f front) scrape(t *testing.T) openai.Metrics {
	t.Helper()
	m, err := (&openai.Client{BaseURL: f.url}).Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (f front) attempts(t *testing.T, e *engine, outcome string) float64 {
	t.Helper()
	v, ok := f.scrape(t).Value("drkit_router_attempts_total", map[string]string{"worker": e.srv.URL, "outcome": outcome})
	if !ok {
		t.Fatalf("no attempts counted for %s", e.name)
	}
	return v
}
