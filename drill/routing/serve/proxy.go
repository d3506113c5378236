package serve

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"drkit/drill/routing"
)

// attempts is how many workers a request is tried at.
const attempts = 3

// proxy handles one path. prompt is nil where no policy needs to see one.
func (r *Router) proxy(prompt promptOf) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		route, err := r.bounds(req.Header)
		if err != nil {
			fail(w, http.StatusBadRequest, "bad_residency", err.Error())
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, r.o.MaxBody))
		if err != nil {
			refuseBody(w, err)
			return
		}
		var blocks []routing.Block
		if prompt != nil {
			blocks = prompt(r.o, body)
		}
		route.Blocks = len(blocks)
		r.forward(w, req, call{route: route, blocks: blocks, body: body, counted: prompt != nil})
	}
}

func refuseBody(w http.ResponseWriter, err error) {
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		fail(w, http.StatusRequestEntityTooLarge, "too_large", fmt.Sprintf("the request has more than %d bytes", large.Limit))
		return
	}
	fail(w, http.StatusBadRequest, "bad_body", "the request's body could not be read")
}

// call is a request on its way to a worker.
type call struct {
	route   routing.Request
	blocks  []routing.Block
	body    []byte
	counted bool // its decision is one of the cache-aware policy
}

// forward tries workers until one begins to answer.
func (r *Router) forward(w http.ResponseWriter, req *http.Request, c call) {
	tried := map[string]bool{}
	var last error
	for range attempts {
		to, why, err := r.choose(c.route, c.blocks, tried)
		if err != nil {
			r.noWorker(w, err, last)
			return
		}
		if c.counted {
			r.decided(why)
		}
		if len(tried) > 0 {
			r.retries.Add(1)
		}
		tried[to.URL] = true
		a := newAttempt(req.Context(), r.o.Stall)
		resp, err := a.send(r.o.Transport, req, to.URL, c.body)
		if err == nil {
			r.relay(w, a, resp, to, c)
			return
		}
		a.end()
		if req.Context().Err() != nil {
			r.done(to, left)
			return
		}
		r.unreachable(to)
		r.done(to, failed)
		last = fmt.Errorf("%s: %w", to.URL, err)
	}
	fail(w, http.StatusBadGateway, "workers_failed", fmt.Sprintf("%d workers failed before they answered, the last one: %v", attempts, last))
}

func (r *Router) decided(why routing.Why) {
	switch why {
	case routing.Hit:
		r.hits.Add(1)
	case routing.Miss:
		r.misses.Add(1)
	case routing.Blind:
		r.blind.Add(1)
	}
}

func (r *Router) noWorker(w http.ResponseWriter, err, last error) {
	switch {
	case errors.Is(err, routing.ErrBorder):
		r.borders.Add(1)
		fail(w, http.StatusServiceUnavailable, "residency_border", err.Error())
	case last != nil:
		fail(w, http.StatusBadGateway, "workers_failed", "every worker that may answer failed before it did, the last one: "+last.Error())
	default:
		r.nobody.Add(1)
		fail(w, http.StatusServiceUnavailable, "no_worker", err.Error())
	}
}

// relay passes an answer on as it comes. One that breaks off breaks the client's
// connection: http.ErrAbortHandler ends it without the final chunk.
func (r *Router) relay(w http.ResponseWriter, a *attempt, resp *http.Response, from *worker, c call) {
	o := failed
	defer func() { r.done(from, o) }()
	defer a.end()
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		r.record(from, c.blocks)
	}
	copyHeader(w.Header(), resp.Header)
	w.Header().Set(HeaderWorker, from.URL)
	w.Header().Set(HeaderRegion, from.Region)
	w.WriteHeader(resp.StatusCode)
	s := stream{events: resp.StatusCode == http.StatusOK && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")}
	broken, gone := s.copy(w, resp.Body, a.alive)
	switch {
	case gone || a.abandoned():
		o = left
	case broken == nil && resp.StatusCode < http.StatusInternalServerError:
		o = ok
	}
	if broken != nil {
		_ = http.NewResponseController(w).Flush() // what there is, with its headers, is the client's
		panic(http.ErrAbortHandler)
	}
}
