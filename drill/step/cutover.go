package step

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"drkit/drill"
	"drkit/drill/traffic"
	"drkit/internal/errext"
	"drkit/internal/openai"
	"drkit/manifest/region"
	"drkit/playbooks"
)

// cutover adds the target to the router, removes the source, and proves by the
// router's list, the engines' counters and the clients' own requests that the
// traffic lands in the target.
type cutover struct{ w *World }

// switched is what the cutover leaves to the steps after it.
type switched struct {
	acknowledged time.Time
	decisions    decisions // of the router's cache policy at the cutover
}

// provingRequests is how many requests must end after a switch before it is judged.
const provingRequests = 20

func (cutover) Check(context.Context, playbooks.Step) []error { return nil }

func (c cutover) Do(ctx context.Context, _ playbooks.Step, sc drill.Scope) error {
	source, target := c.w.replicaOf(&c.w.Source), c.w.replicaOf(&c.w.Target)
	if source == nil || target == nil || c.w.router == nil || c.w.traffic == nil {
		return missing("cutover", "traffic and two of kind boot")
	}
	before := c.w.decisions(ctx)
	m := move{w: c.w, id: "cutover", from: source, to: target}
	err := m.do(ctx, sc)
	c.w.cutover = &switched{acknowledged: m.acknowledged, decisions: before}
	if proof := sc.Emit(drill.TypeProof, drill.Proof{Name: drill.ProofRouter, Proven: err == nil, Why: m.why(err)}); proof != nil {
		return proof
	}
	return err
}

// move takes the traffic from one canary to the other.
type move struct {
	w            *World
	id           string
	from, to     *replica
	began        time.Time // before the change
	acknowledged time.Time // the list showed the change
	drained      time.Time // from had no request left
	results      []traffic.Result
	counted      attribution
}

// attribution is what counters say of the requests after the drain; nil means
// that a counter is not exported.
type attribution struct {
	listed           []string
	toEngine         *float64 // answered by the target engine since before the change
	fromEngine       *float64 // answered by the source engine since it was drained
	toRouter         *uint64  // by the router's own count
	fromRouter       *uint64
	regions          map[string]int // by response header
	answered, failed int
}

func (m *move) do(ctx context.Context, sc drill.Scope) error {
	m.began = time.Now()
	m.w.traffic.SetPhase(m.id)
	toBefore, _ := m.w.answered(ctx, m.to)
	routerBefore, _ := m.w.router.Counters(ctx)
	if err := m.change(ctx, sc); err != nil {
		return err
	}
	m.acknowledged = time.Now()
	if err := m.drain(ctx); err != nil {
		return err
	}
	fromDrained, fromKnown := m.w.answered(ctx, m.from)
	routerDrained, _ := m.w.router.Counters(ctx)
	if err := m.collect(ctx); err != nil {
		return err
	}
	if err := m.count(ctx, toBefore, fromDrained, fromKnown, routerBefore, routerDrained); err != nil {
		return err
	}
	return errors.Join(m.instant(sc), m.judge(sc))
}

func (m *move) change(ctx context.Context, sc drill.Scope) error {
	r := m.w.router
	u, err := undo(UndoRouter, RouterArgs{Driver: m.w.Router.Driver, Admin: r.admin, Metrics: r.metrics, Ephemeral: true,
		Add: []Backed{{URL: m.from.Endpoint(), Region: m.from.region.Name}}, Remove: []string{m.to.Endpoint()}})
	if err != nil {
		return err
	}
	what := fmt.Sprintf("router: %s in, %s out", m.to.region.Name, m.from.region.Name)
	err = sc.Change(ctx, what, u, func(ctx context.Context) error {
		in := drill.Worker{URL: m.to.Endpoint(), Region: m.to.region.Name, Attrs: map[string]string{"residency": string(m.to.region.Residency)}}
		return r.Apply(ctx, drill.Change{Add: []drill.Worker{in}, Remove: []string{m.from.Endpoint()}})
	})
	if err != nil {
		return errext.WithStatus(fmt.Errorf("%s: %w", what, err), errext.Gate)
	}
	return nil
}

// drain waits until the engine that was removed has no request left: a router's
// removal does not end the streams that are in flight.
func (m *move) drain(ctx context.Context) error {
	err := wait(ctx, pollEvery, m.from.name+" to finish its requests", func(ctx context.Context) (bool, error) {
		metrics, err := m.w.metrics(ctx, m.from)
		if err != nil {
			return false, err
		}
		running, known := metrics.Value("vllm:num_requests_running", nil)
		if !known {
			return false, errext.WithStatus(fmt.Errorf("%s does not export vllm:num_requests_running: it is not known when it is idle", m.from.name), errext.Gate)
		}
		return running == 0, nil
	})
	m.drained = time.Now()
	return err
}

// collect waits for enough requests that began after the drain.
func (m *move) collect(ctx context.Context) error {
	what := fmt.Sprintf("%d requests after the switch", provingRequests)
	return wait(ctx, pollEvery, what, func(context.Context) (bool, error) {
		m.results = m.w.traffic.Results(m.drained)
		return len(m.results) >= provingRequests, nil
	})
}

func (m *move) count(ctx context.Context, toBefore float64, fromDrained float64, fromKnown bool, routerBefore, routerDrained map[string]drill.Count) error {
	workers, err := m.w.router.Workers(ctx)
	if err != nil {
		return fmt.Errorf("listing the router's workers: %w", err)
	}
	m.counted.listed = urls(workers)
	if now, ok := m.w.answered(ctx, m.to); ok {
		m.counted.toEngine = openai.Ptr(now - toBefore)
	}
	if now, ok := m.w.answered(ctx, m.from); ok && fromKnown {
		m.counted.fromEngine = openai.Ptr(now - fromDrained)
	}
	after, err := m.w.router.Counters(ctx)
	if err == nil {
		m.counted.toRouter = delta(routerBefore, after, m.to.Endpoint())
		m.counted.fromRouter = delta(routerDrained, after, m.from.Endpoint())
	}
	m.counted.regions = map[string]int{}
	for _, r := range m.results {
		if r.Region != "" {
			m.counted.regions[r.Region]++
		}
		if r.OK {
			m.counted.answered++
		} else {
			m.counted.failed++
		}
	}
	return nil
}

// delta is how far a worker's count rose; nil when it is not known. A worker that
// had no series before began at nothing.
func delta(before, after map[string]drill.Count, url string) *uint64 {
	now, ok := after[url]
	if !ok {
		return nil
	}
	was := before[url]
	if was.Epoch != "" && was.Epoch != now.Epoch || now.OK+now.Failed < was.OK+was.Failed {
		return nil
	}
	return openai.Ptr(now.OK + now.Failed - was.OK - was.Failed)
}

// instant stamps the first token of a request that could only be the target's:
// it began after the list showed the change.
func (m *move) instant(sc drill.Scope) error {
	name := drill.InstantCutover
	if m.id != "cutover" {
		name = drill.InstantSourceBack
	}
	var earliest time.Time
	for _, r := range m.w.traffic.Results(m.acknowledged) {
		if r.OK && !r.FirstToken.IsZero() && (earliest.IsZero() || r.FirstToken.Before(earliest)) {
			earliest = r.FirstToken
		}
	}
	if earliest.IsZero() {
		return nil
	}
	return sc.Emit(drill.TypeInstant, drill.Instant{Name: name, At: sc.Mono(earliest)})
}

// judge emits all gates of the move before it returns the first red one.
func (m *move) judge(sc drill.Scope) error {
	return errors.Join(m.landed(sc), m.unharmed(sc), m.inside(sc))
}

func (m *move) landed(sc drill.Scope) error {
	a := m.counted
	var wrong, unknown []string
	if !slices.Equal(a.listed, []string{m.to.Endpoint()}) {
		wrong = append(wrong, fmt.Sprintf("the router lists %v", a.listed))
	}
	switch {
	case a.toEngine == nil:
		unknown = append(unknown, "the engine that took over exports no request count")
	case *a.toEngine < float64(a.answered):
		wrong = append(wrong, fmt.Sprintf("the engine that took over counted %.0f of %d answers", *a.toEngine, a.answered))
	}
	switch {
	case a.fromEngine == nil:
		unknown = append(unknown, "the engine that was left exports no request count")
	case *a.fromEngine != 0:
		wrong = append(wrong, fmt.Sprintf("the engine that was left still answered %.0f requests", *a.fromEngine))
	}
	if a.fromRouter != nil && *a.fromRouter != 0 {
		wrong = append(wrong, fmt.Sprintf("the router still sent %d requests to the region that was left", *a.fromRouter))
	}
	if a.toRouter != nil && *a.toRouter == 0 {
		wrong = append(wrong, "the router counted no request to the region that took over")
	}
	for name, n := range a.regions {
		if name != m.to.region.Name {
			wrong = append(wrong, fmt.Sprintf("%d answers name region %s", n, name))
		}
	}
	if a.answered == 0 {
		wrong = append(wrong, "no request was answered after the switch")
	}
	g := drill.Gate{ID: m.id + "-attribution", Title: "requests land in " + m.to.region.Name, Expected: "only " + m.to.region.Name + " listed, its engine counts every answer, the other engine none",
		Observed: a.String(), Result: drill.Passed, Evidence: "the router's list and counters, the engines' vllm:request_success_total, the drill's own requests", Hint: "the router's log says where it sends; see the run's folder"}
	switch {
	case len(wrong) > 0:
		g.Result, g.Observed = drill.Failed, strings.Join(wrong, "; ")
	case len(unknown) > 0:
		g.Result, g.Observed = drill.Unmeasured, strings.Join(unknown, "; ")
	}
	return gate(sc, g)
}

func (a attribution) String() string {
	text := fmt.Sprintf("%d answers, %d failed after the drain", a.answered, a.failed)
	if a.toEngine != nil && a.fromEngine != nil {
		text += fmt.Sprintf("; engine counters +%.0f and +%.0f", *a.toEngine, *a.fromEngine)
	}
	if a.toRouter != nil {
		text += fmt.Sprintf("; router counter +%d", *a.toRouter)
	} else {
		text += "; the router's own count is not known"
	}
	return text
}

// unharmed judges what clients saw from the beginning of the change on.
func (m *move) unharmed(sc drill.Scope) error {
	sum := traffic.Summarize(m.w.traffic.Results(m.began))
	rate := 0.0
	if sum.Sent > 0 {
		rate = float64(sum.Failed) / float64(sum.Sent)
	}
	limit := m.w.Objectives.ErrorRate
	observed := fmt.Sprintf("%d requests, %d failed (%.3g), %d streams cut", sum.Sent, sum.Failed, rate, sum.Cut)
	if len(sum.Problems) > 0 {
		observed += ": " + first(sum.Problems, 2)
	}
	return gate(sc, drill.Gate{ID: m.id + "-errors", Title: "clients are not harmed by the switch", Expected: fmt.Sprintf("error rate at most %g, no stream cut", limit),
		Observed: observed, Result: result(sum.Sent > 0 && rate <= limit && sum.Cut == 0), Evidence: "the drill's own requests through the router"})
}

// inside judges the border: where the answers name their region, by each answer,
// otherwise by the regions that the router could choose from.
func (m *move) inside(sc drill.Scope) error {
	homes := map[string]region.Residency{m.w.Source.Name: m.w.Source.Residency, m.w.Target.Name: m.w.Target.Residency}
	classes := map[string]traffic.Class{}
	var outside []string
	for _, c := range m.w.Classes {
		classes[c.Name] = c
		for name, home := range homes {
			if !region.Allows(c.Residency, home) {
				outside = append(outside, fmt.Sprintf("class %s could be sent to region %s (%s)", c.Name, name, home))
			}
		}
	}
	named := 0
	for _, r := range m.w.traffic.Results(m.began) {
		if r.Region == "" {
			continue
		}
		named++
		if !region.Allows(classes[r.Class].Residency, homes[r.Region]) {
			outside = append(outside, fmt.Sprintf("request %s of class %s was answered in %s", r.ID, r.Class, r.Region))
		}
	}
	observed, evidence := fmt.Sprintf("%d answers name their region, all inside", named), "the answers' own headers"
	if named == 0 {
		observed, evidence = "every region that the router could choose lies inside", "the residencies of the router's workers"
	}
	if len(outside) > 0 {
		observed = first(outside, 3)
	}
	return gate(sc, drill.Gate{ID: m.id + "-residency", Title: "no request leaves its border", Expected: "each class is answered only where its residency allows", Observed: observed, Result: result(len(outside) == 0), Evidence: evidence})
}

func (m *move) why(err error) string {
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%s moved the traffic to %s: %s", m.w.router.info.Kind, m.to.region.Name, m.counted)
}

// metrics scrapes an engine, with a deadline.
func (w *World) metrics(ctx context.Context, r *replica) (openai.Metrics, error) {
	ctx, cancel := context.WithTimeout(ctx, pollDeadline)
	defer cancel()
	return w.client(r.Endpoint()).Metrics(ctx)
}

// answered is how many requests an engine says it has finished; false when it
// does not say.
func (w *World) answered(ctx context.Context, r *replica) (float64, bool) {
	m, err := w.metrics(ctx, r)
	if err != nil {
		return 0, false
	}
	return m.Value("vllm:request_success_total", nil)
}

// decisions are the counts of a router's cache policy.
type decisions struct {
	hits, misses, blind uint64
	known               bool
}

func (w *World) decisions(ctx context.Context) decisions {
	p, ok := w.router.Router.(drill.CachePolicy)
	if !ok {
		return decisions{}
	}
	ctx, cancel := context.WithTimeout(ctx, pollDeadline)
	defer cancel()
	hits, misses, blind, err := p.CacheDecisions(ctx)
	return decisions{hits, misses, blind, err == nil}
}
