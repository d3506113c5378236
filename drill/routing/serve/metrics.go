package serve

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// metrics writes the counters in Prometheus text. The time of the start tells
// one process of the router from the next: counters begin anew with it.
func (r *Router) metrics(w http.ResponseWriter, _ *http.Request) {
	var b strings.Builder
	r.writeAttempts(&b)
	b.WriteString("# TYPE drkit_router_prefix_decisions_total counter\n")
	fmt.Fprintf(&b, "drkit_router_prefix_decisions_total{outcome=\"hit\"} %d\n", r.hits.Load())
	fmt.Fprintf(&b, "drkit_router_prefix_decisions_total{outcome=\"miss\"} %d\n", r.misses.Load())
	fmt.Fprintf(&b, "drkit_router_prefix_decisions_total{outcome=\"blind\"} %d\n", r.blind.Load())
	counter(&b, "drkit_router_retries_total", r.retries.Load())
	counter(&b, "drkit_router_border_refusals_total", r.borders.Load())
	counter(&b, "drkit_router_no_worker_total", r.nobody.Load())
	fmt.Fprintf(&b, "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds %.6f\n", float64(r.started.UnixMicro())/1e6)
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write([]byte(b.String()))
}

func (r *Router) writeAttempts(b *strings.Builder) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b.WriteString("# TYPE drkit_router_attempts_total counter\n")
	for _, u := range slices.Sorted(maps.Keys(r.counts)) {
		c := r.counts[u]
		fmt.Fprintf(b, "drkit_router_attempts_total{worker=%q,outcome=\"ok\"} %d\n", u, c.ok)
		fmt.Fprintf(b, "drkit_router_attempts_total{worker=%q,outcome=\"failed\"} %d\n", u, c.failed)
		fmt.Fprintf(b, "drkit_router_attempts_total{worker=%q,outcome=\"client_left\"} %d\n", u, c.left)
	}
}

func counter(b *strings.Builder, name string, n uint64) {
	fmt.Fprintf(b, "# TYPE %s counter\n%s %d\n", name, name, n)
}
