package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"drkit/drill"
	"drkit/drill/launch/kubernetes"
	"drkit/internal/openai"
	"drkit/internal/service"
)

// watchTime is how long an engine's counters are watched for requests.
const watchTime = 2 * time.Second

// askPatience bounds one question to a router or an engine.
const askPatience = 5 * time.Second

// receives says why something that runs receives traffic, or may; "" when it is
// known not to: no router of drkit.yaml lists it, and its engine is idle or does not
// answer at all.
func (g *collector) receives(ctx context.Context, r drill.Replica) string {
	if by, err := g.routed(ctx, r); err != nil {
		return "whether it receives traffic is not known: " + err.Error()
	} else if by != "" {
		return by + " sends requests to it"
	}
	if !strings.HasSuffix(r.ID(), "-canary") {
		return "" // a rehearsal's router: nothing of production knows it
	}
	if pod, ok := r.(*kubernetes.Replica); ok && pod.Over() != "" {
		return "" // a port that leads to it would still take connections
	}
	endpoint := r.Endpoint()
	if endpoint == "" {
		return "" // a pod that has no address yet: nothing can be sent to it
	}
	return g.computes(ctx, endpoint)
}

// addresses are what a router may know something that runs by.
func addresses(r drill.Replica) []string {
	all := []string{r.Endpoint()}
	if pod, ok := r.(*kubernetes.Replica); ok {
		all = append(all, pod.Address())
	}
	return all
}

// routed asks every router of drkit.yaml for its workers, and names the one that lists
// something that runs; "" when none does. One that cannot be asked is an error.
func (g *collector) routed(ctx context.Context, r drill.Replica) (by string, err error) {
	known := addresses(r)
	for _, region := range g.svc.Regions {
		for _, router := range region.Routers {
			for _, replica := range router.Replicas {
				where := "router " + router.Name + " of region " + region.Name + " (" + replica.Admin + ")"
				driver, err := openRouter(replicaAt(g.svc, router, replica))
				var workers []drill.Worker
				if err == nil {
					asked, cancel := context.WithTimeout(ctx, askPatience)
					workers, err = driver.Workers(asked)
					cancel()
				}
				if err != nil {
					return "", fmt.Errorf("%s: %w", where, err)
				}
				for _, w := range workers {
					if slices.ContainsFunc(known, func(a string) bool { return sameEndpoint(w.URL, a) }) {
						return where, nil
					}
				}
			}
		}
	}
	return "", nil
}

// described says that drkit.yaml knows a router at all.
func (g *collector) described() bool {
	return slices.ContainsFunc(g.svc.Regions, func(r service.Region) bool { return len(r.Routers) > 0 })
}

// sameEndpoint compares two base URLs by what they reach.
func sameEndpoint(a, b string) bool { return addressOf(a) != "" && addressOf(a) == addressOf(b) }

func addressOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return ""
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	host := strings.ToLower(u.Hostname())
	if host == "localhost" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// computes watches an engine's counters for a moment.
func (g *collector) computes(ctx context.Context, endpoint string) string {
	c := &openai.Client{BaseURL: endpoint, HTTP: httpClient()}
	before, alive, err := counters(ctx, c)
	if !alive {
		return "" // nothing listens: it can serve nobody
	}
	if err != nil {
		return "its engine answers and does not say what it computes: " + err.Error()
	}
	select {
	case <-ctx.Done():
		return "it was not watched to the end"
	case <-time.After(watchTime):
	}
	after, _, err := counters(ctx, c)
	switch {
	case err != nil:
		return "its engine stopped saying what it computes: " + err.Error()
	case before.open+after.open > 0:
		return fmt.Sprintf("its engine computes %g requests", max(before.open, after.open))
	case before.done != after.done:
		return "its engine's counters move: it answers requests"
	}
	return ""
}

// counted is what an engine says of its requests.
type counted struct{ open, done float64 }

// counters reads an engine's page of metrics. alive is false when nothing listens.
func counters(ctx context.Context, c *openai.Client) (n counted, alive bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	if err := listens(ctx, c.BaseURL); errors.Is(err, syscall.ECONNREFUSED) {
		return n, false, nil
	} else if err != nil {
		return n, true, err
	}
	m, err := c.Metrics(ctx)
	if err != nil {
		return n, true, err
	}
	for name, to := range map[string]*float64{"vllm:num_requests_running": &n.open, "vllm:num_requests_waiting": &n.open,
		"vllm:prompt_tokens_total": &n.done, "vllm:generation_tokens_total": &n.done} {
		v, known := m.Value(name, nil)
		if !known || !m.Counts(name) {
			return n, true, fmt.Errorf("it has no series %s, or one that holds what no count can be", name)
		}
		*to += v
	}
	return n, true, nil
}

func listens(ctx context.Context, endpoint string) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addressOf(endpoint))
	if err != nil {
		return err
	}
	return conn.Close()
}
