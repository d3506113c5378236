package step

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

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

// answered is how many requests the engines say they have finished; nil when one of
// them does not say.
func (w *World) answered(ctx context.Context, e engines) *float64 {
	sum := 0.0
	for _, x := range e.all {
		m, err := w.metrics(ctx, x)
		if err != nil {
			return nil
		}
		n, known := m.Value("vllm:request_success_total", nil)
		if !known {
			return nil
		}
		sum += n
	}
	return &sum
}

// open is how many requests the engines compute or hold back; false when one does
// not say.
func (w *World) open(ctx context.Context, e engines) (sum float64, known bool) {
	for _, x := range e.all {
		m, err := w.metrics(ctx, x)
		if err != nil {
			return 0, false
		}
		running, ok := m.Value("vllm:num_requests_running", nil)
		waiting, also := m.Value("vllm:num_requests_waiting", nil)
		if !ok || !also {
			return 0, false
		}
		sum += running + waiting
	}
	return sum, true
}

// gone says that no engine of the set can be reached from here at all: none of them
// answers anything, be it an error.
func (w *World) gone(ctx context.Context, e engines) bool {
	for _, x := range e.all {
		asked, cancel := question(ctx)
		err := w.client(x.Endpoint()).Health(asked)
		cancel()
		var status *openai.StatusError
		if err == nil || errors.As(err, &status) || ctx.Err() != nil {
			return false
		}
	}
	return len(e.all) > 0
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
