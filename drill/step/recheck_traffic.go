package step

import (
	"context"
	"fmt"
	"slices"
	"time"

	"drkit/drill"
	"drkit/playbooks"
)

// Recheck: the rehearsal's router still serves; the traffic through it begins again.
// The baseline stays what it was.
func (t trafficStep) Recheck(ctx context.Context, s playbooks.Step, sc drill.Scope) error {
	o, err := t.options(s)
	if err != nil {
		return err
	}
	if o.live() {
		return t.again(ctx, o, sc)
	}
	source := t.w.replicaOf(&t.w.Source)
	if source == nil {
		return missing("traffic", "boot (region source)")
	}
	r := &rehearsalRouter{}
	if r.process, err = t.w.found(ctx, sc.RunID(), t.w.routerSpec("", "").Name); err != nil {
		return err
	}
	if err := t.w.attach(r); err != nil {
		return err
	}
	asked, cancel := question(ctx)
	defer cancel()
	if r.info, err = r.Probe(asked); err != nil {
		return fmt.Errorf("the rehearsal router does not serve any more: %w", err)
	}
	t.w.router = r
	return t.start(ctx, o, sc, t.all(), t.w.client(source.Endpoint()))
}

// again sends the traffic through production's routers once more.
func (t trafficStep) again(ctx context.Context, o trafficOptions, sc drill.Scope) error {
	fleets, err := t.w.fleets()
	if err != nil {
		return err
	}
	for _, f := range fleets {
		if _, err := f.Probe(ctx); err != nil {
			return refuse(fmt.Errorf("asking production: %w", err), "see that every replica of the router can be reached, then resume again")
		}
	}
	return t.start(ctx, o, sc, t.w.route(fleets), t.tokenizer(fleets))
}

// memoMoved is where the traffic was taken last.
const memoMoved = "moved"

// memoAsked says that the drill itself has asked the source since it was left.
const memoAsked = "asked the source"

type moved struct {
	To     string              `json:"to"`     // region
	Listed map[string][]string `json:"listed"` // what each router listed after it, by name; "": the rehearsal's
	// Left is how many requests the engine that was left had answered by then; nil:
	// not known.
	Left *float64 `json:"left"`
}

// remember leaves proven moves to a later process.
func remember(sc drill.Scope, moves []*move) error {
	last := moves[len(moves)-1]
	m := moved{To: last.to.region.Name, Listed: map[string][]string{}, Left: last.left}
	for _, one := range moves {
		m.Listed[one.name()] = one.seen.listed
	}
	return memo(sc, memoMoved, m)
}

// stillMoved says whether the routers list what the run's last proven move left.
func (w *World) stillMoved(ctx context.Context, sc drill.Scope) (moved, []*move, error) {
	var last moved
	if err := recall(sc, "", memoMoved, &last); err != nil {
		return last, nil, err
	}
	from, to := &w.Source, &w.Target
	if last.To == w.Source.Name {
		from, to = to, from
	}
	_, rehearsed := last.Listed[""] // production's routers have names
	moves, err := w.moves("cutover", !rehearsed, from, to)
	if err != nil {
		return last, nil, err
	}
	for _, m := range moves {
		asked, cancel := question(ctx)
		workers, err := m.router.Workers(asked)
		cancel()
		if err != nil {
			return last, nil, fmt.Errorf("listing the router's workers: %w", err)
		}
		if now := urls(workers); !slices.Equal(now, last.Listed[m.name()]) {
			return last, nil, fmt.Errorf("the router lists %v, and listed %v", now, last.Listed[m.name()])
		}
	}
	return last, moves, nil
}

// Recheck: the router lists what it did. What the source answered since its drain
// still counts against the target; the windows that prove it steady begin anew.
func (c cutover) Recheck(ctx context.Context, s playbooks.Step, sc drill.Scope) error {
	return c.w.rememberMoved(ctx, s, sc, "cutover")
}

func (w *World) rememberMoved(ctx context.Context, s playbooks.Step, sc drill.Scope, phase string) error {
	_, moves, err := w.stillMoved(ctx, sc)
	if err != nil {
		return err
	}
	var own moved
	if err := recall(sc, s.ID, memoMoved, &own); err != nil {
		return err
	}
	w.traffic.SetPhase(phase)
	from, to := &w.Source, &w.Target
	if own.To == w.Source.Name {
		from, to = to, from
	}
	live := moves[0].fleet != nil
	if moves, err = w.moves(phase, live, from, to); err != nil {
		return err
	}
	w.routed = moves
	last, left := moves[0], own.Left
	if from == &w.Source && recall(sc, "", memoAsked, new(bool)) == nil {
		left = w.answered(ctx, last.from) // its count holds the drill's own questions
	}
	w.cutover = &switched{to: last.to, from: last.from, drained: time.Now(), left: left, decisions: w.decisions(ctx, moves),
		gone:     w.Mode == drill.ModeEmergency && w.gone(ctx, last.from),
		baseline: warmth{why: "the baseline was that of an earlier process"}}
	w.warm(ctx, last.to)
	w.cutover.warming = w.warming
	return nil
}

// Recheck: a region that still has the traffic has to be seen steady again, as nobody
// watched since. Where nobody moved the routers, and it still is, the first look keeps its
// place. After the way back there is nothing to be seen of it any more.
func (s steady) Recheck(ctx context.Context, _ playbooks.Step, sc drill.Scope) error {
	last, _, err := s.w.stillMoved(ctx, sc)
	if err != nil || last.To != s.w.takesOver().Name {
		return err
	}
	return s.held(ctx, sc)
}

// Recheck: the router lists what it did.
func (f failback) Recheck(ctx context.Context, s playbooks.Step, sc drill.Scope) error {
	if f.w.Back {
		return f.w.rememberMoved(ctx, s, sc, "failback")
	}
	if _, _, err := f.w.stillMoved(ctx, sc); err != nil {
		return err
	}
	f.w.traffic.SetPhase("failback")
	return nil
}
