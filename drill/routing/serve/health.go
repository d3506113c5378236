package serve

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
)

func (r *Router) checkAll(ctx context.Context) {
	r.mu.Lock()
	all := slices.Clone(r.workers)
	r.mu.Unlock()
	var wait sync.WaitGroup
	for _, w := range all {
		wait.Go(func() { r.check(ctx, w) })
	}
	wait.Wait()
}

// check asks a worker's /health and tells whether the worker is in use then.
func (r *Router) check(ctx context.Context, w *worker) bool {
	err := r.ask(ctx, w.URL)
	if ctx.Err() != nil {
		return false // we were told to end; it says nothing of the worker
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		w.healthy, w.fails = true, 0
		return true
	}
	if w.fails++; w.fails >= r.o.HealthFails {
		w.healthy = false
	}
	return w.healthy
}

func (r *Router) ask(ctx context.Context, u string) error {
	ctx, cancel := context.WithTimeout(ctx, r.o.HealthTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u+"/health", nil)
	if err != nil {
		return err
	}
	resp, err := r.o.Transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("HTTP %d", resp.StatusCode)
	}
	return nil
}
