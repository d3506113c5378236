// Package reference drives drkit's reference router (package routing/serve) over
// its admin calls.
//
//	r, err := reference.New("http://127.0.0.1:30000", "", client)
//
// What is proven with it is proven of the reference router, not of the one that
// production runs: its Info says Reference.
package reference

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"drkit/drill"
	"drkit/internal/errext"
	"drkit/internal/openai"
)

// Driver is this driver's name in drkit.yaml, and Kind what the router says.
const (
	Driver = "reference"
	kind   = "drkit reference router"
)

// AttrResidency is the attribute of a drill.Worker that holds its residency.
const AttrResidency = "residency"

// Router is one reference router process.
type Router struct {
	Pace drill.Pace // how long a change may take

	base    string
	http    *http.Client
	metrics *openai.Client
	page    string
}

var (
	_ drill.Router      = (*Router)(nil)
	_ drill.CachePolicy = (*Router)(nil)
)

// New drives the router at adminURL. An empty metricsURL is /metrics there, and
// one without a path its /metrics. A nil client is http.DefaultClient.
func New(adminURL, metricsURL string, c *http.Client) (*Router, error) {
	if c == nil {
		c = http.DefaultClient
	}
	base, err := drill.NormalURL(adminURL)
	if err != nil {
		return nil, fmt.Errorf("admin address of the reference router: %w", err)
	}
	if metricsURL == "" {
		metricsURL = base
	}
	u, err := url.Parse(metricsURL)
	if err != nil || u.Host == "" || u.User != nil {
		return nil, errors.New("metrics address of the reference router: want http://host:port/metrics")
	}
	r := &Router{base: base, http: c, page: u.Path, metrics: &openai.Client{BaseURL: u.Scheme + "://" + u.Host, HTTP: c}}
	if strings.Trim(u.Path, "/") == "" {
		r.page = "/metrics"
	}
	return r, nil
}

// Probe sees that it is the reference router that answers.
func (r *Router) Probe(ctx context.Context) (drill.RouterInfo, error) {
	var info struct {
		Kind       string `json:"kind"`
		Version    string `json:"version"`
		Policy     string `json:"policy"`
		SeesText   *bool  `json:"sees_text"`
		SeesTokens *bool  `json:"sees_tokens"`
	}
	err := r.call(ctx, http.MethodGet, "/drkit/info", nil, &info)
	var other *statusError
	if err == nil && info.Kind != kind || errors.As(err, &other) {
		return drill.RouterInfo{}, errext.WithStatus(errext.WithHint(
			fmt.Errorf("%s is not the %s", r.base, kind), "name the driver that fits the router, or start one with drkit route serve"), errext.Usage)
	}
	if err != nil {
		return drill.RouterInfo{}, errext.WithHint(fmt.Errorf("probing the reference router: %w", err), "see that it runs and that the address is its own")
	}
	return drill.RouterInfo{Kind: Driver, Version: info.Version, Policy: info.Policy,
		SeesText: tri(info.SeesText), SeesTokens: tri(info.SeesTokens), Reference: true}, nil
}

// Workers lists the workers, with their residency among the attributes.
func (r *Router) Workers(ctx context.Context) ([]drill.Worker, error) {
	all, err := r.Registered(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing the workers of %s: %w", r.base, err)
	}
	var out []drill.Worker
	for _, w := range all {
		out = append(out, w.Worker)
	}
	return out, nil
}

// Apply makes a change and returns once the list shows it.
func (r *Router) Apply(ctx context.Context, c drill.Change) error {
	if err := drill.ApplyChange(ctx, r, c, r.Pace); err != nil {
		return fmt.Errorf("%s router at %s: %w", Driver, r.base, err)
	}
	return nil
}

// Counters counts attempts by worker. Attempts that ended because the client
// left are neither. A page on which a series holds what no count can be says nothing of
// any worker.
func (r *Router) Counters(ctx context.Context) (map[string]drill.Count, error) {
	m, err := r.metrics.MetricsAt(ctx, r.page)
	if err != nil {
		return nil, fmt.Errorf("counters of %s: %w", r.base, err)
	}
	epoch := ""
	if v, ok := m.Value("process_start_time_seconds", nil); ok {
		epoch = strconv.FormatFloat(v, 'f', -1, 64)
	}
	const attempts = "drkit_router_attempts_total"
	if !m.Counts(attempts) {
		return nil, fmt.Errorf("counters of %s: a series of %s holds what no count can be: %w", r.base, attempts, drill.ErrNotCounted)
	}
	counts := map[string]drill.Count{}
	for u := range m.By(attempts, "worker") {
		ok, okKnown := m.Count(attempts, map[string]string{"worker": u, "outcome": "ok"})
		failed, failedKnown := m.Count(attempts, map[string]string{"worker": u, "outcome": "failed"})
		if okKnown && failedKnown {
			counts[u] = drill.Count{OK: ok, Failed: failed, Unit: "attempts", Epoch: epoch}
		}
	}
	return counts, nil
}

// CacheDecisions counts the decisions of the cache-aware regional policy.
func (r *Router) CacheDecisions(ctx context.Context) (hits, misses, blind uint64, err error) {
	m, err := r.metrics.MetricsAt(ctx, r.page)
	if err != nil {
		return 0, 0, 0, fmt.Errorf("counters of %s: %w", r.base, err)
	}
	var n [3]uint64
	for i, outcome := range []string{"hit", "miss", "blind"} {
		v, ok := m.Count("drkit_router_prefix_decisions_total", map[string]string{"outcome": outcome})
		if !ok {
			return 0, 0, 0, fmt.Errorf("prefix decisions of %s: %w", r.base, drill.ErrNotCounted)
		}
		n[i] = v
	}
	return n[0], n[1], n[2], nil
}

// Registered reads the router's list.
func (r *Router) Registered(ctx context.Context) ([]drill.Registered, error) {
	var list struct {
		Workers *[]struct {
			URL       string `json:"url"`
			Region    string `json:"region"`
			Residency string `json:"residency"`
			Healthy   *bool  `json:"healthy"`
			Draining  bool   `json:"draining"`
		} `json:"workers"`
	}
	if err := r.call(ctx, http.MethodGet, "/drkit/workers", nil, &list); err != nil {
		return nil, err
	}
	if list.Workers == nil {
		return nil, fmt.Errorf("GET %s/drkit/workers: the answer has no workers", r.base)
	}
	var out []drill.Registered
	for _, w := range *list.Workers {
		u, err := drill.NormalURL(w.URL)
		if err != nil {
			return nil, fmt.Errorf("GET %s/drkit/workers: %w", r.base, err)
		}
		d := drill.Worker{URL: u, ID: w.URL, Region: w.Region, Health: tri(w.Healthy), Draining: w.Draining}
		if w.Residency != "" {
			d.Attrs = map[string]string{AttrResidency: w.Residency}
		}
		out = append(out, drill.Registered{Worker: d, Raw: w.URL})
	}
	return out, nil
}

// Register adds a worker. Without a residency it has that of its region.
func (r *Router) Register(ctx context.Context, w drill.Worker) error {
	body := map[string]string{"url": w.URL, "region": w.Region}
	if res := w.Attrs[AttrResidency]; res != "" {
		body["residency"] = res
	}
	return r.call(ctx, http.MethodPost, "/drkit/workers", body, nil)
}

// Unregister removes a worker; one that is not there is an error of the router.
func (r *Router) Unregister(ctx context.Context, raw string) error {
	return r.call(ctx, http.MethodDelete, "/drkit/workers?url="+url.QueryEscape(raw), nil, nil)
}

func tri(b *bool) drill.Tri {
	switch {
	case b == nil:
		return drill.Unknown
	case *b:
		return drill.Yes
	}
	return drill.No
}
