package vllmrouter

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
)

// fakeRouter answers as vllm-router 0.1.17 was seen to (docs/routers.md): every
// removal is a 200, a duplicate a 400, URLs are plain strings, the order of the
// list changes. The fields make it worse than the real one.
type fakeRouter struct {
	mu      sync.Mutex
	urls    []string
	healthy map[string]bool // that answer the health check; others make an add fail
	metrics string
	deaf    bool // answers 200 to a change and does nothing
	broken  bool // answers 500 to everything
	reads   int
	fewest  int
}

func newFake(healthy ...string) *fakeRouter {
	f := &fakeRouter{healthy: map[string]bool{}, fewest: 99}
	for _, u := range healthy {
		f.healthy[u] = true
	}
	return f
}

func (f *fakeRouter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken {
		http.Error(w, "boom", http.StatusInternalServerError)
		return
	}
	f.fewest = min(f.fewest, len(f.urls))
	u := r.URL.Query().Get("url")
	switch r.Method + " " + r.URL.Path {
	case "GET /list_workers":
		f.reads++
		list := slices.Clone(f.urls)
		if f.reads%2 == 0 {
			slices.Reverse(list)
		}
		f.json(w, map[string]any{"urls": list})
	case "GET /workers":
		f.json(w, map[string]any{"workers": f.infos(), "total": len(f.urls), "stats": map[string]int{"regular_count": len(f.urls)}})
	case "POST /add_worker":
		f.add(w, u)
	case "POST /remove_worker":
		if !f.deaf {
			f.urls = slices.DeleteFunc(f.urls, func(have string) bool { return have == u })
		}
		fmt.Fprintf(w, "Successfully removed worker: %s", u)
	case "GET /metrics":
		fmt.Fprint(w, f.metrics)
	default:
		http.NotFound(w, r)
	}
}

func (f *fakeRouter) add(w http.ResponseWriter, u string) {
	switch {
	case u == "":
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, "Failed to deserialize query string: missing field `url`")
	case f.deaf:
		fmt.Fprintf(w, "Successfully added worker: %s", u)
	case !f.healthy[u]:
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, "Failed to add worker: %s did not become healthy", u)
	case slices.Contains(f.urls, u):
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, "Worker %s already exists", u)
	default:
		f.urls = append(f.urls, u)
		fmt.Fprintf(w, "Successfully added worker: %s", u)
	}
}

func (f *fakeRouter) infos() []map[string]any {
	out := []map[string]any{}
	for _, u := range f.urls {
		out = append(out, map[string]any{"url": u, "model_id": "unknown", "worker_type": "regular", "is_healthy": f.healthy[u],
			"load": 0, "connection_mode": "Http", "priority": 50, "cost": 1.0})
	}
	return out
}

func (f *fakeRouter) json(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}
