package serve

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"drkit/drill/routing"
	"drkit/manifest/region"
)

// worker is a Worker with what the router knows of it. Router.mu guards it.
type worker struct {
	Worker
	healthy  bool // false until a check was good
	draining bool
	fails    int // checks failed in a row
	inFlight int
	sent     uint64
}

// counts are attempts at a worker by how they ended. A client that left is
// neither: its answer might have been whole.
type counts struct{ ok, failed, left uint64 }

var (
	errExists  = errors.New("already a worker")
	errUnknown = errors.New("not a worker")
)

// normal gives a worker's URL with scheme, host and port only.
func normal(raw string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil ||
		strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("a worker's URL must be http://host:port")
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port), nil
}

// add puts a worker into the list, not yet healthy.
func (r *Router) add(w Worker) (*worker, error) {
	u, err := normal(w.URL)
	if err != nil {
		return nil, err
	}
	w.URL = u
	if w.Region == "" {
		return nil, fmt.Errorf("worker %s: its region is not stated", u)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.find(u) != nil {
		return nil, fmt.Errorf("%s: %w", u, errExists)
	}
	if w.Residency, err = r.residency(w); err != nil {
		return nil, err
	}
	added := &worker{Worker: w}
	r.workers = append(r.workers, added)
	if r.counts[u] == nil {
		r.counts[u] = &counts{}
	}
	return added, nil
}

// residency of a new worker: a region has one, so a worker that claims another
// is refused, and one that claims none has it.
func (r *Router) residency(w Worker) (region.Residency, error) {
	for _, o := range r.workers {
		if o.Region != w.Region || o.Residency == "" {
			continue
		}
		if w.Residency != "" && w.Residency != o.Residency {
			return "", fmt.Errorf("worker %s: region %s has residency %q, not %q", w.URL, w.Region, o.Residency, w.Residency)
		}
		return o.Residency, nil
	}
	return w.Residency, nil
}

func (r *Router) find(u string) *worker {
	i := slices.IndexFunc(r.workers, func(w *worker) bool { return w.URL == u })
	if i < 0 {
		return nil
	}
	return r.workers[i]
}

// remove takes a worker out. Its answers in flight go on to their end.
func (r *Router) remove(raw string) error {
	u, err := normal(raw)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.find(u)
	if w == nil {
		return fmt.Errorf("%s: %w", u, errUnknown)
	}
	r.workers = slices.DeleteFunc(r.workers, func(o *worker) bool { return o == w })
	r.index.Forget(u)
	return nil
}

// drain keeps new requests from a worker, or lets them come again.
func (r *Router) drain(raw string, on bool) error {
	u, err := normal(raw)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.find(u)
	if w == nil {
		return fmt.Errorf("%s: %w", u, errUnknown)
	}
	w.draining = on
	return nil
}

// choose picks a worker for a request, past those that were tried, and counts
// it as in flight until done.
func (r *Router) choose(req routing.Request, blocks []routing.Block, tried map[string]bool) (*worker, routing.Why, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []routing.Candidate
	for _, w := range r.workers {
		all = append(all, routing.Candidate{
			ID: w.URL, Region: w.Region, Residency: w.Residency, Available: w.healthy && !w.draining && !tried[w.URL],
			Load: w.inFlight, Sent: w.sent, Matched: r.index.Match(w.URL, blocks),
		})
	}
	d, err := r.policy.Choose(req, all)
	if err != nil {
		return nil, 0, err
	}
	w := r.find(d.ID)
	w.inFlight++
	w.sent++
	return w, d.Why, nil
}

// outcome of an attempt.
type outcome int

const (
	ok outcome = iota
	failed
	left // the client went away
)

// done ends an attempt.
func (r *Router) done(w *worker, o outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.inFlight--
	c := r.counts[w.URL]
	switch o {
	case ok:
		c.ok++
	case failed:
		c.failed++
	case left:
		c.left++
	}
}

// record notes what a worker was sent, unless it was removed meanwhile.
func (r *Router) record(w *worker, blocks []routing.Block) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(blocks) > 0 && r.find(w.URL) == w {
		r.index.Record(w.URL, blocks)
	}
}

// unreachable takes a worker out of use at once, until a check is good again.
func (r *Router) unreachable(w *worker) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.healthy, w.fails = false, r.o.HealthFails
}
