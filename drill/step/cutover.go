package step

import (
	"context"
	"errors"
	"fmt"
	"time"

	"drkit/drill"
	"drkit/internal/errext"
	"drkit/playbooks"
)

// cutover adds the target to the router, removes the source, and proves by the
// router's list, the engines' counters and the clients' own requests that the
// traffic lands in the target.
type cutover struct{ w *World }

// switched is what the cutover leaves to the steps after it.
type switched struct {
	drained   time.Time // from here on no answer can be the source's
	source    *float64  // requests that the source's engine had answered by then; nil: not known
	decisions decisions // of the router's cache policy before the cutover
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
	if interrupted(ctx) {
		return err
	}
	c.w.cutover = &switched{drained: m.drained, source: m.left, decisions: before}
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
	drained      time.Time // from had no request left, as far as it says
	left         *float64  // requests that from had answered by then
	seen         attribution
}

func (m *move) do(ctx context.Context, sc drill.Scope) error {
	m.began = time.Now()
	m.w.traffic.SetPhase(m.id)
	before := m.look(ctx)
	if err := m.change(ctx, sc); err != nil {
		return err
	}
	m.acknowledged = time.Now()
	drain, err := m.empty(ctx)
	if err != nil {
		return err
	}
	drained := m.look(ctx)
	m.left = drained.from
	if err := m.collect(ctx); err != nil {
		return err
	}
	if m.seen, err = m.attribute(ctx, before, drained); err != nil {
		return err
	}
	m.seen.drain = drain
	if err := errors.Join(m.instant(sc), m.judge(sc)); err != nil {
		return err
	}
	return m.remember(sc)
}

// change moves the router. Its undo is the state before the run, whichever way
// the move goes: taking back a failback must not fail over once more.
func (m *move) change(ctx context.Context, sc drill.Scope) error {
	r, source, target := m.w.router, m.w.replicaOf(&m.w.Source), m.w.replicaOf(&m.w.Target)
	u, err := undo(UndoRouter, RouterArgs{Driver: m.w.Router.Driver, Admin: r.admin, Metrics: r.metrics, Ephemeral: true,
		Add: []Backed{{URL: source.Endpoint(), Region: source.region.Name}}, Remove: []string{target.Endpoint()}})
	if err != nil {
		return err
	}
	what := fmt.Sprintf("router: %s in, %s out", m.to.region.Name, m.from.region.Name)
	err = sc.Change(ctx, what, u, func(ctx context.Context) error {
		in := drill.Worker{URL: m.to.Endpoint(), Region: m.to.region.Name, Attrs: map[string]string{"residency": string(m.to.region.Residency)}}
		if err := r.Apply(ctx, drill.Change{Add: []drill.Worker{in}, Remove: []string{m.from.Endpoint()}}); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	})
	if err != nil {
		return errext.WithStatus(err, errext.Gate)
	}
	return nil
}

// drainage is how the engine that was left came to rest.
type drainage string

const (
	idle drainage = "idle"
	mute drainage = "mute" // it does not say how many requests it has
	busy drainage = "busy" // longer than a request may last: new ones came
)

const (
	// quietPolls is how often in a row an engine must say that it is idle: a
	// request that the router placed just before the change may still be on its way.
	quietPolls = 2
	// mutePatience is how long an engine may say nothing of its open requests.
	mutePatience = 10 * time.Second
)

// empty waits until the engine that was removed has no request left: a router's
// removal does not end the streams that are in flight. What is open there for
// longer than a request's own time-out came after the change.
func (m *move) empty(ctx context.Context) (end drainage, err error) {
	told, quiet := time.Now(), 0
	err = wait(ctx, pollEvery, m.from.name+" to finish its requests", func(ctx context.Context) (bool, error) {
		if _, ended := m.from.ended(); ended {
			end = idle
			return true, nil
		}
		open, known := m.w.open(ctx, m.from)
		if known {
			told, quiet = time.Now(), quiet+1
		}
		if !known || open > 0 {
			quiet = 0
		}
		switch {
		case quiet >= quietPolls:
			end = idle
		case time.Since(told) >= mutePatience:
			end = mute
		case time.Since(m.acknowledged) >= m.w.traffic.timeout+pollDeadline:
			end = busy
		}
		return end != "", nil
	})
	m.drained = time.Now()
	return end, err
}

// open is how many requests an engine computes or holds back; false when it does
// not say.
func (w *World) open(ctx context.Context, r *replica) (float64, bool) {
	m, err := w.metrics(ctx, r)
	if err != nil {
		return 0, false
	}
	running, known := m.Value("vllm:num_requests_running", nil)
	waiting, alsoKnown := m.Value("vllm:num_requests_waiting", nil)
	return running + waiting, known && alsoKnown
}

// collect waits for enough requests that began after the drain.
func (m *move) collect(ctx context.Context) error {
	what := fmt.Sprintf("%d requests after the switch", provingRequests)
	return wait(ctx, pollEvery, what, func(context.Context) (bool, error) {
		return len(m.w.traffic.Results(m.drained)) >= provingRequests, nil
	})
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

// judge emits all gates of the move before it returns the red ones.
func (m *move) judge(sc drill.Scope) error {
	return errors.Join(m.landed(sc), m.unharmed(sc), m.inside(sc))
}

func (m *move) why(err error) string {
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%s moved the traffic to %s: %s", m.w.router.info.Kind, m.to.region.Name, m.seen)
}
