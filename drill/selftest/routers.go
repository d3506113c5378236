package selftest

import (
	"encoding/json"
	"net/http"
	"slices"
	"sync"

	"drkit/drill/routing/serve"
)

const workersPath = "/drkit/workers"

// acknowledge answers changes with success and makes none.
func acknowledge(inner http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == workersPath && q.Method != http.MethodGet {
			succeed(w, q)
			return
		}
		inner.ServeHTTP(w, q)
	})
}

func succeed(w http.ResponseWriter, q *http.Request) {
	if q.Method != http.MethodPost {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(map[string]bool{"healthy": true}) // a client that is gone needs no answer
}

// liar is a router that keeps a list for those who ask, and routes by another.
type liar struct {
	mu    sync.Mutex
	added []serve.Worker
	gone  []string
}

func (l *liar) around(inner http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch {
		case q.URL.Path != workersPath || q.Method == http.MethodPut:
			inner.ServeHTTP(w, q)
		case q.Method == http.MethodGet:
			l.list(w, inner)
		default:
			l.note(q)
			succeed(w, q)
		}
	})
}

func (l *liar) note(q *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q.Method == http.MethodDelete {
		l.gone = append(l.gone, q.URL.Query().Get("url"))
		return
	}
	var in serve.Worker
	if json.NewDecoder(q.Body).Decode(&in) == nil {
		l.added = append(l.added, in)
		l.gone = slices.DeleteFunc(l.gone, func(u string) bool { return u == in.URL })
	}
}

func (l *liar) list(w http.ResponseWriter, inner http.Handler) {
	router, ok := inner.(*serve.Router)
	if !ok {
		http.Error(w, "no list", http.StatusInternalServerError)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	all := router.Workers()
	for _, a := range l.added {
		all = append(all, serve.Status{Worker: a, Healthy: true})
	}
	all = slices.DeleteFunc(all, func(s serve.Status) bool { return slices.Contains(l.gone, s.URL) })
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(serve.List{Workers: all}) // as above
}

// fromElsewhere lets every answer name a region outside of the drill.
func fromElsewhere(w http.ResponseWriter) http.ResponseWriter { return &elsewhere{ResponseWriter: w} }

type elsewhere struct{ http.ResponseWriter }

// WriteHeader names the other region in place of the true one.
func (e *elsewhere) WriteHeader(status int) {
	if e.Header().Get(serve.HeaderRegion) != "" {
		e.Header().Set(serve.HeaderRegion, "elsewhere")
	}
	e.ResponseWriter.WriteHeader(status)
}

// Unwrap lets a stream be flushed through.
func (e *elsewhere) Unwrap() http.ResponseWriter { return e.ResponseWriter }
