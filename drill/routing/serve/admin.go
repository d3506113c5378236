package serve

import (
	"encoding/json"
	"errors"
	"net/http"

	"drkit/drill/routing"
	"drkit/internal/openai"
)

// Info is the answer of /drkit/info.
type Info struct {
	Kind       string `json:"kind"`
	Version    string `json:"version,omitempty"`
	Policy     string `json:"policy"`
	Home       string `json:"home,omitempty"`
	SeesText   bool   `json:"sees_text"`
	SeesTokens bool   `json:"sees_tokens"`
}

// Status is one worker in the answer of /drkit/workers.
type Status struct {
	Worker
	Healthy  bool   `json:"healthy"`
	Draining bool   `json:"draining,omitempty"`
	InFlight int    `json:"in_flight"`
	Sent     uint64 `json:"sent"`
}

// List is the answer of /drkit/workers.
type List struct {
	Workers []Status `json:"workers"`
}

func (r *Router) info(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, Info{Kind: Kind, Version: r.o.Version, Policy: routing.Name, Home: r.o.Home, SeesText: true, SeesTokens: true})
}

// Workers lists the workers in the order in which they were added.
func (r *Router) Workers() []Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := []Status{}
	for _, w := range r.workers {
		out = append(out, Status{Worker: w.Worker, Healthy: w.healthy, Draining: w.draining, InFlight: w.inFlight, Sent: w.sent})
	}
	return out
}

func (r *Router) listWorkers(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, List{r.Workers()})
}

// addWorker checks the worker's health before it answers. A worker that fails it
// is in the list all the same, and used once it passes.
func (r *Router) addWorker(w http.ResponseWriter, req *http.Request) {
	var in Worker
	if !decode(w, req, &in) {
		return
	}
	added, err := r.add(in)
	if err != nil {
		refuse(w, err)
		return
	}
	healthy := r.check(req.Context(), added)
	reply(w, http.StatusCreated, map[string]any{"url": added.URL, "healthy": healthy})
}

func (r *Router) drainWorker(w http.ResponseWriter, req *http.Request) {
	var in struct {
		URL      string `json:"url"`
		Draining bool   `json:"draining"`
	}
	if !decode(w, req, &in) {
		return
	}
	if err := r.drain(in.URL, in.Draining); err != nil {
		refuse(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (r *Router) removeWorker(w http.ResponseWriter, req *http.Request) {
	if err := r.remove(req.URL.Query().Get("url")); err != nil {
		refuse(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// health is 200 while one worker can take a request.
func (r *Router) health(w http.ResponseWriter, _ *http.Request) {
	all, up := r.Workers(), 0
	for _, s := range all {
		if s.Healthy && !s.Draining {
			up++
		}
	}
	status := http.StatusOK
	if up == 0 {
		status = http.StatusServiceUnavailable
	}
	reply(w, status, map[string]int{"available": up, "workers": len(all)})
}

func decode(w http.ResponseWriter, req *http.Request, into any) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, req.Body, 1<<20))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		fail(w, http.StatusBadRequest, "bad_request", "the body is not the JSON expected: "+err.Error())
		return false
	}
	return true
}

func refuse(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, errExists):
		fail(w, http.StatusConflict, "exists", err.Error())
	case errors.Is(err, errUnknown):
		fail(w, http.StatusNotFound, "unknown_worker", err.Error())
	default:
		fail(w, http.StatusBadRequest, "bad_request", err.Error())
	}
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client has gone, and nobody else is to be told
}

// fail answers in the form of the OpenAI API.
func fail(w http.ResponseWriter, status int, kind, message string) {
	reply(w, status, openai.ErrorBody{Error: openai.ErrorDetail{Message: message, Type: kind, Code: status}})
}
