// Package serve is drkit's reference router: a proxy for OpenAI-compatible
// engines in several regions that runs the policy of package routing. It is there
// for rehearsals, demonstrations and to check policies against real engines;
// production traffic belongs on a production router.
//
//	r, err := serve.New(serve.Options{Home: "us-east-1", Workers: []serve.Worker{
//		{URL: "http://127.0.0.1:8101", Region: "us-east-1", Residency: "us"}}})
//	go r.Run(ctx) // health checks; a worker is used from its first good one on
//	http.Serve(listener, r)
//
// A request says where it may be answered in X-Drkit-Residency ("eu" or "eu,us").
// Without the header it is of the class in Options.Residency, and with neither it
// may go anywhere. The router believes the header: whoever can reach it may set it.
// A border is never crossed, not when the allowed workers are down either.
//
// Answers name their worker in X-Drkit-Worker and X-Drkit-Region. A request that
// fails before the first byte of an answer goes to another worker; an answer that
// has begun is never retried, and one that breaks off is broken off for the client
// too, so that it cannot be taken for a whole one.
package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"drkit/drill/routing"
	"drkit/manifest/region"
)

// Kind is what the router calls itself at /drkit/info.
const Kind = "drkit reference router"

// Headers of requests and answers.
const (
	HeaderResidency = "X-Drkit-Residency"
	HeaderWorker    = "X-Drkit-Worker"
	HeaderRegion    = "X-Drkit-Region"
)

// Options configure a router. A zero value takes the default.
type Options struct {
	Workers   []Worker
	Home      string             // region to prefer; "": none
	Residency []region.Residency // class of requests without the header; empty: they may go anywhere
	Version   string             // drkit's own, shown at /drkit/info

	BlockTokens int // tokens a prefix block; default 16, vLLM's
	BlockBytes  int // bytes a prefix block of text; default 64
	Blocks      int // prefix blocks remembered a worker; default 1<<18

	MatchShare float64 // share of a prompt that must be known; default 0.5
	BalanceAbs int     // see routing.Regional; default 64
	BalanceRel float64 // default 1.5

	HealthEvery   time.Duration // default 2 s
	HealthTimeout time.Duration // default 5 s
	HealthFails   int           // failed checks in a row until a worker is out; default 2
	Stall         time.Duration // without a byte from the worker; default 2 min, longer than a whole answer that is not streamed
	MaxBody       int64         // bytes of a request; default 64 MiB

	Transport http.RoundTripper // to the workers; default: one of its own, without a proxy
}

// Worker is an engine behind the router. Without a Residency it has that of
// other workers of its Region; unknown, it gets no request that is bound.
type Worker struct {
	URL       string           `json:"url"`
	Region    string           `json:"region"`
	Residency region.Residency `json:"residency,omitempty"`
}

// Router is the reference router. It serves the proxy, its admin calls below
// /drkit/ and /metrics.
type Router struct {
	o       Options
	policy  routing.Regional
	index   *routing.Index
	mux     *http.ServeMux
	started time.Time

	mu      sync.Mutex // guards the two below
	workers []*worker
	counts  map[string]*counts // by URL; those of removed workers stay

	hits, misses, blind, retries, borders, nobody atomic.Uint64
}

// New makes a router. Its workers get requests once Run has seen them healthy.
func New(o Options) (*Router, error) {
	o = withDefaults(o)
	r := &Router{
		o: o, index: routing.NewIndex(o.Blocks), started: time.Now(), counts: map[string]*counts{},
		policy: routing.Regional{Home: o.Home, MatchShare: o.MatchShare, BalanceAbs: o.BalanceAbs, BalanceRel: o.BalanceRel},
	}
	var errs []error
	for _, w := range o.Workers {
		if _, err := r.add(w); err != nil {
			errs = append(errs, err)
		}
	}
	for _, res := range o.Residency {
		if res == "" {
			errs = append(errs, errors.New("an empty residency among the router's own"))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("reference router: %w", err)
	}
	r.routes()
	return r, nil
}

func withDefaults(o Options) Options {
	def(&o.BlockTokens, 16)
	def(&o.BlockBytes, 64)
	def(&o.Blocks, 1<<18)
	def(&o.MatchShare, 0.5)
	def(&o.BalanceAbs, 64)
	def(&o.BalanceRel, 1.5)
	def(&o.HealthEvery, 2*time.Second)
	def(&o.HealthTimeout, 5*time.Second)
	def(&o.HealthFails, 2)
	def(&o.Stall, 2*time.Minute)
	def(&o.MaxBody, 64<<20)
	if o.Transport == nil {
		o.Transport = &http.Transport{MaxIdleConnsPerHost: 256, IdleConnTimeout: 90 * time.Second}
	}
	return o
}

func def[T int | int64 | float64 | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

func (r *Router) routes() {
	m := http.NewServeMux()
	m.HandleFunc("POST /v1/completions", r.proxy(completionPrompt))
	m.HandleFunc("POST /v1/chat/completions", r.proxy(chatPrompt))
	m.HandleFunc("POST /tokenize", r.proxy(nil))
	m.HandleFunc("GET /v1/models", r.proxy(nil))
	m.HandleFunc("GET /health", r.health)
	m.HandleFunc("GET /metrics", r.metrics)
	m.HandleFunc("GET /drkit/info", r.info)
	m.HandleFunc("GET /drkit/workers", r.listWorkers)
	m.HandleFunc("POST /drkit/workers", r.addWorker)
	m.HandleFunc("PUT /drkit/workers", r.drainWorker)
	m.HandleFunc("DELETE /drkit/workers", r.removeWorker)
	r.mux = m
}

// ServeHTTP serves proxy, admin calls and metrics.
func (r *Router) ServeHTTP(w http.ResponseWriter, req *http.Request) { r.mux.ServeHTTP(w, req) }

// Run checks the workers' health until ctx ends.
func (r *Router) Run(ctx context.Context) {
	t := time.NewTicker(r.o.HealthEvery)
	defer t.Stop()
	for {
		r.checkAll(ctx)
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}
