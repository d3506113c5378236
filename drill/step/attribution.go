package step

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"drkit/drill"
	"drkit/internal/openai"
)

// counts are what one look at all counters showed. What is nil is not exported
// or could not be read: not known, never 0.
type counts struct {
	to, from *float64               // requests that each engine has answered
	router   map[string]drill.Count // by worker
}

// look reads them; those of the engines that are left only where they are asked for:
// in an emergency nothing waits for these before the change.
func (m *move) look(ctx context.Context, from engines) counts {
	c := counts{to: m.w.answered(ctx, m.to)}
	if len(from.all) > 0 {
		c.from = m.w.answered(ctx, from)
	}
	ctx, cancel := question(ctx)
	defer cancel()
	if counted, err := m.router.Counters(ctx); err == nil {
		c.router = counted
	}
	return c
}

// attribution is what the counters say of a move; nil means not known.
type attribution struct {
	listed           []string
	drain            drainage // of the engine that was left
	toEngine         *float64 // answered by the engine that took over since before the change
	fromEngine       *float64 // answered by the engine that was left since it was drained
	toRouter         *uint64  // likewise, by the router's own count
	fromRouter       *uint64
	sent             *int           // a rehearsal: requests of which the engine that took over can have answered one each; nil: others ask it too
	regions          map[string]int // by response header
	answered, failed int            // requests that began after the drain
	gone             bool           // an emergency: the engines that were left answer nothing, at the drain and now
	shared           []string       // classes that stay on the engines that were left: their counters move for these
}

func (m *move) attribute(ctx context.Context, before, drained counts) (attribution, error) {
	a := attribution{regions: map[string]int{}}
	if m.fleet != nil {
		a.shared = m.w.staying()
	}
	for _, r := range m.results(m.drained) {
		if r.Region != "" {
			a.regions[r.Region]++
		}
		if r.OK {
			a.answered++
		} else {
			a.failed++
		}
	}
	// The counters after the requests: they must hold at least these.
	now := m.look(ctx, m.from)
	a.toEngine, a.fromEngine = rise(before.to, now.to), rise(drained.from, now.from)
	if m.fleet == nil {
		open := m.w.traffic.Open() // first: a request that ends meanwhile counts twice rather than not at all
		a.sent = openai.Ptr(open + len(m.touched()))
	}
	a.toRouter = delta(before.router, now.router, m.to.urls())
	a.fromRouter = delta(drained.router, now.router, m.from.urls())
	workers, err := m.router.Workers(ctx)
	if err != nil {
		return a, fmt.Errorf("listing the router's workers: %w", err)
	}
	a.listed = urls(workers)
	return a, nil
}

// rise is how far an engine's counter rose; nil when it is not known, or fell
// because the engine began anew.
func rise(before, now *float64) *float64 {
	if before == nil || now == nil || *now < *before {
		return nil
	}
	return openai.Ptr(*now - *before)
}

// delta is how far the count of some workers rose; nil when it is not known. A worker
// without a series in a list that was read had not been asked yet; one that had a series
// is not known any more.
func delta(before, after map[string]drill.Count, workers []string) *uint64 {
	if before == nil || after == nil {
		return nil
	}
	var rose uint64
	counted := false
	for _, url := range workers {
		now, ok := after[url]
		was, known := before[url]
		if !ok && known {
			return nil
		}
		if !ok {
			continue
		}
		if known && was.Epoch != now.Epoch || now.OK+now.Failed < was.OK+was.Failed {
			return nil
		}
		counted, rose = true, rose+now.OK+now.Failed-was.OK-was.Failed
	}
	if !counted {
		return nil
	}
	return &rose
}

// landed judges where the requests went. All that contradicts is red; without a
// contradiction, one count that is not known leaves the gate unmeasured.
func (m *move) landed(sc drill.Scope) error {
	wrong, unknown := m.seen.wrong(m.from, m.to), m.seen.unknown(m.from, m.to)
	g := drill.Gate{ID: m.id + "-attribution", Title: "requests land in " + m.to.region.Name, Expected: "only " + m.to.region.Name + " listed, its engine counts every answer, the other engine none",
		Observed: m.seen.told(m.from, m.to), Result: drill.Passed, Evidence: "the router's list and counters, the engines' vllm:request_success_total, the drill's own requests", Hint: "the router's log says where it sends; see the run's folder"}
	switch {
	case len(wrong) > 0:
		g.Result, g.Observed = drill.Failed, strings.Join(wrong, "; ")
	case len(unknown) > 0:
		g.Result, g.Observed = drill.Unmeasured, strings.Join(unknown, "; ")
	}
	return m.gate(sc, g)
}

// wrong lists what contradicts that every request landed on to.
func (a attribution) wrong(from, to engines) []string {
	var wrong []string
	say := func(is bool, format string, args ...any) {
		if is {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	say(!slices.Equal(a.listed, to.urls()), "the router lists %v", a.listed)
	say(a.drain == busy && len(a.shared) == 0, "%s still had requests when all that began before the change must have ended", from.name())
	say(a.answered == 0, "no request was answered after the switch")
	say(a.toEngine != nil && *a.toEngine < float64(a.answered), "the engine that took over counted %.0f of %d answers", value(a.toEngine), a.answered)
	say(value(a.fromEngine) > 0 && len(a.shared) == 0, "the engine that was left still answered %.0f requests", value(a.fromEngine))
	say(a.toRouter != nil && *a.toRouter == 0, "the router counted no request to the region that took over")
	say(value(a.fromRouter) > 0, "the router still sent %d requests to the region that was left", value(a.fromRouter))
	for name, n := range a.regions {
		say(name != to.region.Name, "%d answers name region %s", n, name)
	}
	slices.Sort(wrong)
	return wrong
}

// unknown lists what has to be known before the switch counts as proven. Engines that
// went down with their region say nothing, and can answer nothing.
func (a attribution) unknown(from, to engines) []string {
	var unknown []string
	if a.toEngine == nil {
		unknown = append(unknown, to.name()+" exports no count of its requests")
	}
	if a.sent != nil && value(a.toEngine) > float64(*a.sent) {
		unknown = append(unknown, fmt.Sprintf("%s counted %.0f answers to at most %d requests: they were sent more than once, or somebody else asks it", to.name(), *a.toEngine, *a.sent))
	}
	if a.fromEngine == nil && !a.gone {
		unknown = append(unknown, from.name()+" exports no count of its requests")
	}
	if value(a.fromEngine) > 0 && len(a.shared) > 0 {
		unknown = append(unknown, fmt.Sprintf("%s still answered %.0f requests: they may be those of %s, which stay there", from.name(), value(a.fromEngine), strings.Join(a.shared, ", ")))
	}
	if a.drain == mute {
		unknown = append(unknown, from.name()+" does not say when it is idle (vllm:num_requests_running, vllm:num_requests_waiting)")
	}
	if a.toRouter == nil {
		unknown = append(unknown, "the router's own count is not known")
	}
	return unknown
}

// value is 0 for what is not known: only for texts, and where 0 accuses nobody.
func value[T float64 | uint64](v *T) T {
	if v == nil {
		return 0
	}
	return *v
}

// told is what was counted, with the region of each count.
func (a attribution) told(from, to engines) string {
	text := fmt.Sprintf("%d answers, %d failed after the drain; engine counters: %s %s, %s %s; router counters: %s %s, %s %s", a.answered, a.failed,
		to.region.Name, known(a.toEngine), from.region.Name, known(a.fromEngine), to.region.Name, known(a.toRouter), from.region.Name, known(a.fromRouter))
	if a.gone {
		text += "; the engines that were left cannot be reached from here"
	}
	return text
}

func known[T float64 | uint64](v *T) string {
	if v == nil {
		return "not known"
	}
	return "+" + fmt.Sprint(*v)
}

// metrics scrapes an engine, with a deadline.
func (w *World) metrics(ctx context.Context, r *replica) (openai.Metrics, error) {
	ctx, cancel := question(ctx)
	defer cancel()
	return w.client(r.Endpoint()).Metrics(ctx)
}
