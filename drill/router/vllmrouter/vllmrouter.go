// Package vllmrouter drives vLLM Router (PyPI vllm-router, seen with 0.1.17)
// over its HTTP API.
//
//	r, err := vllmrouter.New("http://router-0:30000", "http://router-0:29000/metrics", client)
//	info, err := r.Probe(ctx)
//
// What shapes this driver: the router compares worker URLs as strings, answers
// 200 to every removal, even of a worker that it never had, and says nothing of
// which worker answered a request. So only its list acknowledges a change, and
// its counters are read by worker from the metrics page. One router serves one
// model: all its workers are candidates for every request.
//
// It does not say its own version: /version is passed on to an engine.
package vllmrouter

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"drkit/drill"
	"drkit/internal/errext"
	"drkit/internal/openai"
)

// Driver is this driver's name in drkit.yaml.
const Driver = "vllm-router"

// Router is one vLLM Router process.
type Router struct {
	// Pace is how long a change may take. The router itself waits up to ten
	// minutes for a worker's health; a drill does not.
	Pace drill.Pace

	admin   api
	metrics *openai.Client // nil: no metrics address
	page    string         // path of the metrics page
}

var (
	_ drill.Router      = (*Router)(nil)
	_ drill.CachePolicy = (*Router)(nil)
)

// New drives the router at adminURL. metricsURL is its Prometheus page, on a
// port of its own (--prometheus-port, 29000 by default); without a path it is
// /metrics, and empty it leaves counters unknown. A nil client is http.DefaultClient.
func New(adminURL, metricsURL string, c *http.Client) (*Router, error) {
	if c == nil {
		c = http.DefaultClient
	}
	base, err := drill.NormalURL(adminURL)
	if err != nil {
		return nil, fmt.Errorf("admin address of the router: %w", err)
	}
	r := &Router{admin: api{base: base, http: c}}
	if metricsURL == "" {
		return r, nil
	}
	u, err := url.Parse(metricsURL)
	if err != nil || u.Host == "" || u.User != nil {
		return nil, errors.New("metrics address of the router: want http://host:port/metrics")
	}
	if r.page = u.Path; strings.Trim(u.Path, "/") == "" {
		r.page = "/metrics"
	}
	r.metrics = &openai.Client{BaseURL: u.Scheme + "://" + u.Host, HTTP: c}
	return r, nil
}

// Workers lists the workers with what the router's own health checks say. The
// order is the router's, which is not stable.
func (r *Router) Workers(ctx context.Context) ([]drill.Worker, error) {
	all, err := r.Registered(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing the workers of %s: %w", r.admin.base, err)
	}
	var out []drill.Worker
	for _, w := range all {
		if !slices.ContainsFunc(out, func(o drill.Worker) bool { return o.URL == w.URL }) {
			out = append(out, w.Worker)
		}
	}
	return out, nil
}

// Apply makes a change and returns once the list shows it.
func (r *Router) Apply(ctx context.Context, c drill.Change) error {
	if err := drill.ApplyChange(ctx, r, c, r.Pace); err != nil {
		return fmt.Errorf("%s at %s: %w", Driver, r.admin.base, err)
	}
	return nil
}

// Names of series, as the router exports them.
const (
	outcomes  = "vllm_router_cb_outcomes_total"              // worker, outcome
	decisions = "vllm_router_prefix_routing_decisions_total" // policy, stage, outcome
	policies  = "vllm_router_policy_decisions_total"         // policy, worker
	began     = "process_start_time_seconds"                 // where exported: tells a restart
	noMetrics = "name the router's metrics address in drkit.yaml (its --prometheus-port)"
)

// Counters counts attempts by worker, retried ones included. It reads the
// circuit breaker's outcomes, which exist with every policy. A worker without a
// series is absent: unknown, not 0. Series of removed workers stay. A page on which one
// holds what no count can be says nothing of any worker.
func (r *Router) Counters(ctx context.Context) (map[string]drill.Count, error) {
	m, err := r.scrape(ctx)
	if err != nil {
		return nil, err
	}
	if !m.Counts(outcomes) {
		return nil, fmt.Errorf("counters of %s: a series of %s holds what no count can be: %w", r.admin.base, outcomes, drill.ErrNotCounted)
	}
	epoch := epochOf(m)
	counts := map[string]drill.Count{}
	for raw := range m.By(outcomes, "worker") {
		u, err := drill.NormalURL(raw)
		if err != nil {
			continue
		}
		ok, okKnown := m.Count(outcomes, map[string]string{"worker": raw, "outcome": "success"})
		failed, failedKnown := m.Count(outcomes, map[string]string{"worker": raw, "outcome": "failure"})
		if !okKnown && !failedKnown {
			continue
		}
		// The router makes a series with its first event: where one outcome of a
		// worker is counted, the other without a series has not happened.
		c := counts[u]
		counts[u] = drill.Count{OK: c.OK + ok, Failed: c.Failed + failed, Unit: "attempts", Epoch: epoch}
	}
	return counts, nil
}

// epochOf tells one process of the router from the next where the page has its
// start; 0.1.17's has not, and a restart then shows only in counters that fall.
func epochOf(m openai.Metrics) string {
	if v, ok := m.Value(began, nil); ok {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return ""
}

// CacheDecisions counts the decisions of the cache-aware policy: with a known
// prefix, with tokens but no known prefix, and without tokens (text prompts, which
// it cannot see). drill.ErrNotCounted says that there is no series yet.
func (r *Router) CacheDecisions(ctx context.Context) (hits, misses, blind uint64, err error) {
	m, err := r.scrape(ctx)
	if err != nil {
		return 0, 0, 0, err
	}
	const policy = "cache_aware"
	if _, ok := m.Value(decisions, map[string]string{"policy": policy}); !ok {
		return 0, 0, 0, fmt.Errorf("%s{policy=%q}: %w", decisions, policy, drill.ErrNotCounted)
	}
	if !m.Counts(decisions) {
		return 0, 0, 0, fmt.Errorf("a series of %s holds what no count can be: %w", decisions, drill.ErrNotCounted)
	}
	count := func(outcome string) uint64 {
		v, _ := m.Count(decisions, map[string]string{"policy": policy, "outcome": outcome})
		return v
	}
	return count("prefix_hit"), count("prefix_miss"), count("missing_tokens"), nil
}

func (r *Router) scrape(ctx context.Context) (openai.Metrics, error) {
	if r.metrics == nil {
		return openai.Metrics{}, errext.WithHint(fmt.Errorf("counters of %s: no metrics address is known", r.admin.base), noMetrics)
	}
	m, err := r.metrics.MetricsAt(ctx, r.page)
	if err != nil {
		return m, errext.WithHint(fmt.Errorf("counters of %s: %w", r.admin.base, err), noMetrics)
	}
	return m, nil
}
