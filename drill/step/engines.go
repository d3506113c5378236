package step

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"drkit/drill"
	"drkit/internal/openai"
)

// deployed is an engine of production as a replica: drkit did not start it and
// never stops it.
type deployed struct{ url string }

func (d deployed) ID() string            { return d.url }
func (d deployed) Endpoint() string      { return d.url }
func (deployed) Exited() <-chan struct{} { return nil }
func (deployed) ExitState() string       { return "" }

func (deployed) Log(context.Context) iter.Seq2[string, error] {
	return func(func(string, error) bool) {}
}

func (d deployed) Stop(context.Context) error {
	return fmt.Errorf("%s is production's: drkit does not stop it", d.url)
}

// engines are all workers of a region, between which a move changes: canaries of the
// run, or engines of production.
type engines struct {
	region *Region
	all    []*replica
}

func canary(r *replica) engines { return engines{r.region, []*replica{r}} }

func production(r *Region, urls []string) engines {
	e := engines{region: r}
	for _, u := range urls {
		e.all = append(e.all, &replica{Replica: deployed{u}, region: r, name: u})
	}
	return e
}

func (e engines) urls() []string {
	var all []string
	for _, x := range e.all {
		all = append(all, x.Endpoint())
	}
	slices.Sort(all)
	return all
}

// name is what gates call them.
func (e engines) name() string {
	if len(e.all) == 1 {
		return e.all[0].name
	}
	return fmt.Sprintf("%s's %d engines", e.region.Name, len(e.all))
}

// ended says that no engine of the set is left, and how the last one ended. Of
// production's engines that is not known.
func (e engines) ended() (how string, ended bool) {
	for _, x := range e.all {
		if how, ended = x.ended(); !ended {
			return "", false
		}
	}
	return how, ended
}

// series adds up each series over all engines, asked at the same time and once for all
// series: what does not answer may take all of its deadline. One is nil when an engine
// does not say.
func (w *World) series(ctx context.Context, e engines, names ...string) []*float64 {
	pages := make([]openai.Metrics, len(e.all)) // an empty one where there is none
	var asked sync.WaitGroup
	for i, x := range e.all {
		asked.Go(func() {
			if m, err := w.metrics(ctx, x); err == nil {
				pages[i] = m
			}
		})
	}
	asked.Wait()
	sums := make([]*float64, len(names))
	for i, name := range names {
		sums[i] = total(pages, name)
	}
	return sums
}

func total(pages []openai.Metrics, name string) *float64 {
	sum := 0.0
	for _, m := range pages {
		v, known := m.Value(name, nil)
		if !known || !m.Counts(name) {
			return nil
		}
		sum += v
	}
	return &sum
}

// sum adds up several series of all engines; nil when an engine does not say one.
func (w *World) sum(ctx context.Context, e engines, names ...string) *float64 {
	sum := 0.0
	for _, v := range w.series(ctx, e, names...) {
		if v == nil {
			return nil
		}
		sum += *v
	}
	return &sum
}

// answered is how many requests the engines say they have finished; nil when one of
// them does not say.
func (w *World) answered(ctx context.Context, e engines) *float64 {
	return w.sum(ctx, e, "vllm:request_success_total")
}

// open is how many requests the engines compute or hold back; nil when one does not
// say.
func (w *World) open(ctx context.Context, e engines) *float64 {
	return w.sum(ctx, e, "vllm:num_requests_running", "vllm:num_requests_waiting")
}

// gone says that no engine of the set can be reached from here at all: none of them
// answers anything, be it an error.
func (w *World) gone(ctx context.Context, e engines) bool {
	var there atomic.Int32
	var asked sync.WaitGroup
	for _, x := range e.all {
		asked.Go(func() {
			ctx, cancel := question(ctx)
			defer cancel()
			var status *openai.StatusError
			if err := w.client(x.Endpoint()).Health(ctx); err == nil || errors.As(err, &status) {
				there.Add(1)
			}
		})
	}
	asked.Wait()
	return ctx.Err() == nil && len(e.all) > 0 && there.Load() == 0
}

// serves climbs the ladder of one engine, once: /health, then the release's models.
func (w *World) serves(ctx context.Context, e *replica) error {
	ctx, cancel := question(ctx)
	defer cancel()
	if err := w.client(e.Endpoint()).Health(ctx); err != nil {
		return fmt.Errorf("%s: %w", e.name, err)
	}
	if err := (boot{w}).models(ctx, e); err != nil {
		return fmt.Errorf("%s: %w", e.name, err)
	}
	return nil
}

// worker is an engine as a router's driver takes it.
func (e engines) workers() []drill.Worker {
	var all []drill.Worker
	for _, x := range e.all {
		all = append(all, drill.Worker{URL: x.Endpoint(), Region: e.region.Name, Attrs: map[string]string{"residency": string(e.region.Residency)}})
	}
	return all
}
