package standin

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// metrics are the counters that vLLM serves under the same names.
type metrics struct {
	running, waiting atomic.Int64

	mu                      sync.Mutex
	queries, hits           int // prefix cache, in tokens
	promptTokens, generated int
	success                 map[string]int // by finished_reason
	ttft, latency           histogram
}

var finishedReasons = []string{"stop", "length", "abort", "error"}

func (m *metrics) init() {
	m.success = map[string]int{}
	buckets := []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	m.ttft, m.latency = newHistogram(buckets), newHistogram(buckets)
}

func (m *metrics) prefix(queries, hits int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queries += queries
	m.hits += hits
}

func (m *metrics) firstToken(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ttft.observe(d.Seconds())
}

func (m *metrics) finished(reason string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.success[reason]++
}

func (m *metrics) done(out outcome, prompt int, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.success[out.finish]++
	m.promptTokens += prompt
	m.generated += out.generated
	m.latency.observe(took.Seconds())
}

type histogram struct {
	bounds []float64
	counts []int // not cumulative; one more than bounds
	sum    float64
}

func newHistogram(bounds []float64) histogram {
	return histogram{bounds: bounds, counts: make([]int, len(bounds)+1)}
}

func (h *histogram) observe(v float64) {
	i := 0
	for i < len(h.bounds) && v > h.bounds[i] {
		i++
	}
	h.counts[i]++
	h.sum += v
}

func (h *histogram) write(b *bytes.Buffer, name, help, labels string) {
	fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s histogram\n", name, help, name)
	total := 0
	for i, n := range h.counts {
		total += n
		le := "+Inf"
		if i < len(h.bounds) {
			le = fmt.Sprint(h.bounds[i])
		}
		fmt.Fprintf(b, "%s_bucket{%s,le=%q} %d\n", name, labels, le, total)
	}
	fmt.Fprintf(b, "%s_sum{%s} %v\n%s_count{%s} %d\n", name, labels, h.sum, name, labels, total)
}

var labelEscaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func (e *Engine) serveMetrics(w http.ResponseWriter, _ *http.Request) {
	var b bytes.Buffer
	m := &e.metrics
	labels := fmt.Sprintf(`engine="0",model_name="%s"`, labelEscaper.Replace(e.names[0]))
	one := func(kind, name, help string, v any) {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n%s{%s} %v\n", name, help, name, kind, name, labels, v)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	one("gauge", "vllm:num_requests_running", "Requests that compute (stand-in engine).", m.running.Load())
	one("gauge", "vllm:num_requests_waiting", "Requests that wait (stand-in engine).", m.waiting.Load())
	one("counter", "vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.", m.queries)
	one("counter", "vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache.", m.hits)
	one("counter", "vllm:prompt_tokens_total", "Prompt tokens of finished requests.", m.promptTokens)
	one("counter", "vllm:generation_tokens_total", "Generated tokens of finished requests.", m.generated)
	fmt.Fprint(&b, "# HELP vllm:request_success_total Finished requests.\n# TYPE vllm:request_success_total counter\n")
	for _, r := range finishedReasons {
		fmt.Fprintf(&b, "vllm:request_success_total{%s,finished_reason=%q} %d\n", labels, r, m.success[r])
	}
	m.ttft.write(&b, "vllm:time_to_first_token_seconds", "Time to first token.", labels)
	m.latency.write(&b, "vllm:e2e_request_latency_seconds", "Time of a request.", labels)
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(b.Bytes())
}
