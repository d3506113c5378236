package reference

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
)

// fakeRouter answers as the reference router's documentation says
// (docs/routers.md). The whole of both is tested by the drill's own scripts:
// this package may not import the router.
type fakeRouter struct {
	mu      sync.Mutex
	workers []map[string]any
	deaf    bool // answers with success and does nothing
	sick    bool // what is added is not healthy
	calls   []string
	metrics string
}

func (f *fakeRouter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	u := r.URL.Query().Get("url")
	switch r.Method + " " + r.URL.Path {
	case "GET /drkit/info":
		fmt.Fprint(w, `{"kind":"drkit reference router","version":"v1","policy":"cache-aware-regional","sees_text":true,"sees_tokens":true}`)
	case "GET /drkit/workers":
		_ = json.NewEncoder(w).Encode(map[string]any{"workers": f.workers})
	case "POST /drkit/workers":
		f.add(w, r)
	case "DELETE /drkit/workers":
		f.calls = append(f.calls, "remove "+u)
		if !f.deaf {
			f.workers = slices.DeleteFunc(f.workers, func(m map[string]any) bool { return m["url"] == u })
		}
		w.WriteHeader(http.StatusNoContent)
	case "GET /metrics":
		fmt.Fprint(w, f.metrics)
	default:
		http.NotFound(w, r)
	}
}

func (f *fakeRouter) add(w http.ResponseWriter, r *http.Request) {
	var in map[string]any
	_ = json.NewDecoder(r.Body).Decode(&in)
	f.calls = append(f.calls, fmt.Sprintf("add %v %v %v", in["url"], in["region"], in["residency"]))
	if in["region"] == "" {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":{"message":"its region is not stated","type":"bad_request","code":400}}`)
		return
	}
	if !f.deaf {
		in["healthy"] = !f.sick
		f.workers = append(f.workers, in)
	}
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"url":%q,"healthy":true}`, in["url"])
}
