package step

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"drkit/drill"
	"drkit/internal/errext"
	"drkit/playbooks"
)

// cutover adds the target to the router, removes the source, and proves by the
// router's list, the engines' counters and the clients' own requests that the
// traffic lands in the target. In production it does so for every router of a class
// that is moved, on every replica, and then moves the users by the edge.
type cutover struct{ w *World }

// switched is what a move leaves to the steps after it.
type switched struct {
	to, from  engines
	drained   time.Time // from here on no answer can come from where the traffic was
	left      *float64  // requests that the engines which were left had answered by then; nil: not known
	gone      bool      // an emergency: what was left answers nobody
	looked    bool      // a step looked whether it is steady
	steady    time.Time // the end of the last window that made it steady; zero: it was not
	baseline  warmth    // of the prefix cache of what was left, from the traffic's beginning on
	warming   *warming  // of what took over
	decisions decisions // of the routers' cache policies before the move
}

// provingRequests is how many requests must end after a switch before it is judged.
const provingRequests = 20

func (c cutover) Check(ctx context.Context, s playbooks.Step) []error { return c.w.checkRouted(ctx, s) }

// checkRouted checks a step whose only option is the router that it works on.
func (w *World) checkRouted(ctx context.Context, s playbooks.Step) []error {
	live, err := w.live(s)
	if err != nil {
		return []error{err}
	}
	if live {
		return w.checkProduction(ctx)
	}
	return nil
}

func (c cutover) Do(ctx context.Context, s playbooks.Step, sc drill.Scope) error {
	live, err := c.w.live(s)
	if err != nil {
		return err
	}
	if live {
		if err := c.ready(ctx, sc); err != nil {
			return err
		}
	}
	return c.w.take(ctx, sc, "cutover", live, &c.w.Source, &c.w.Target)
}

// ready puts the engines of production that are going to serve through the ladder: the
// canary shows what the copy is worth, and these may serve another.
func (c cutover) ready(ctx context.Context, sc drill.Scope) error {
	var own []*replica
	for _, e := range c.w.home(&c.w.Target).all {
		if _, ok := e.Replica.(deployed); ok {
			own = append(own, e)
		}
	}
	_, err := c.w.climb(ctx, sc, own, "cutover")
	return err
}

// climb asks engines, before anything is sent to them, for their health, the release's
// models and the recorded behaviour. It returns the gates.
func (w *World) climb(ctx context.Context, sc drill.Scope, all []*replica, id string) (gates []string, err error) {
	for i, e := range all {
		if err := w.serves(ctx, e); err != nil {
			return gates, errext.WithStatus(fmt.Errorf("%s is not ready to take over: %w", e.region.Name, err), errext.Gate)
		}
		one := id + "-behaviour"
		if i > 0 {
			one = fmt.Sprintf("%s-%d", one, i+1)
		}
		gates = append(gates, one)
		if err := w.answers(ctx, sc, e, one); err != nil {
			return gates, err
		}
	}
	return gates, nil
}

// take moves the traffic from one region to the other, and says what that proves.
func (w *World) take(ctx context.Context, sc drill.Scope, id string, live bool, from, to *Region) error {
	moves, err := w.moves(id, live, from, to)
	if err != nil {
		return err
	}
	before, baseline := w.decisions(ctx, moves), w.baseline(ctx, moves[0].from)
	proves := id == "cutover" || w.cutover == nil
	err = w.move(ctx, sc, moves, proves)
	if interrupted(ctx) {
		return err
	}
	if proves {
		last := moves[len(moves)-1]
		w.cutover = &switched{to: last.to, from: last.from, drained: last.drained, left: last.left, gone: last.gone, decisions: before, baseline: baseline, warming: w.warming}
		w.routed = moves
		if proof := sc.Emit(drill.TypeProof, drill.Proof{Name: drill.ProofRouter, Proven: err == nil, Why: why(moves, err), Gates: gatesOf(moves)}); proof != nil {
			return proof
		}
	}
	if err != nil || !live {
		return err
	}
	return w.moveUsers(ctx, sc, id, proves, from, to)
}

// moves are what has to be changed: the rehearsal's router, or each of production's.
func (w *World) moves(id string, live bool, from, to *Region) ([]*move, error) {
	if !live {
		source, target := w.replicaOf(&w.Source), w.replicaOf(&w.Target)
		if source == nil || target == nil || w.router == nil || w.traffic == nil {
			return nil, missing(id, "traffic and two of kind boot")
		}
		m := &move{w: w, id: id, router: w.router, info: w.router.info, from: canary(w.replicaOf(from)), to: canary(w.replicaOf(to)), classes: names(w.sent())}
		return []*move{m}, nil
	}
	if w.traffic == nil {
		return nil, missing(id, "traffic (router production)")
	}
	fleets, err := w.fleets()
	if err != nil {
		return nil, err
	}
	left, taken := w.home(from), w.home(to)
	if len(taken.all) == 0 {
		return nil, missing(id+" to region "+to.Name+", of which no endpoint is described", "boot (region target)")
	}
	var all []*move
	for _, f := range fleets {
		m := &move{w: w, id: id, router: f, fleet: f, info: f.info, from: left, to: taken}
		m.classes, _ = w.split(f.Serves)
		if len(fleets) > 1 {
			m.id += "-" + f.Name
		}
		all = append(all, m)
	}
	return all, nil
}

// move changes all routers first, then proves each: what the last one needs must not
// wait for the proof of the first.
func (w *World) move(ctx context.Context, sc drill.Scope, moves []*move, proves bool) error {
	undos := make([]drill.Undo, len(moves))
	for i, m := range moves { // all lists are known before the first one is changed
		var err error
		if undos[i], err = m.undo(ctx); err != nil {
			return errext.WithHint(errext.WithStatus(fmt.Errorf("nothing was changed: %w", err), errext.Gate), errext.Hint(err))
		}
	}
	for i, m := range moves {
		if err := m.begin(ctx, sc, undos[i]); err != nil {
			return err
		}
	}
	if proves {
		w.warm(ctx, moves[0].to)
	}
	var failed []error
	for _, m := range moves {
		err := m.prove(ctx, sc)
		if interrupted(ctx) {
			return err
		}
		failed = append(failed, err)
	}
	if err := errors.Join(instant(sc, moves), errors.Join(failed...)); err != nil {
		return err
	}
	return remember(sc, moves)
}

// move takes the traffic of one router from one region's engines to the other's.
type move struct {
	w            *World
	id           string
	router       drill.Router
	fleet        *fleet // nil in a rehearsal
	info         drill.RouterInfo
	classes      []string // whose requests go through the router
	from, to     engines
	began        time.Time // before the change
	acknowledged time.Time // the list showed the change
	drained      time.Time // from had no request left, as far as it says
	gone         bool      // an emergency: from answers nothing at all
	left         *float64  // requests that from had answered by then
	before       counts
	seen         attribution
}

// name is that of the router: "" for the rehearsal's.
func (m *move) name() string {
	if m.fleet == nil {
		return ""
	}
	return m.fleet.Name
}

// begin changes the router.
func (m *move) begin(ctx context.Context, sc drill.Scope, u drill.Undo) error {
	m.began = time.Now()
	m.w.traffic.SetPhase(strings.SplitN(m.id, "-", 2)[0])
	m.before = m.look(ctx, engines{})
	if err := m.change(ctx, sc, u); err != nil {
		return err
	}
	m.acknowledged = time.Now()
	return nil
}

// prove waits for the requests that show what the change did.
func (m *move) prove(ctx context.Context, sc drill.Scope) error {
	drain, err := m.empty(ctx)
	if err != nil {
		return err
	}
	drained := m.look(ctx, m.from)
	m.left, m.gone = drained.from, drain == gone
	if err := m.collect(ctx); err != nil {
		return err
	}
	if m.seen, err = m.attribute(ctx, m.before, drained); err != nil {
		return err
	}
	m.seen.drain = drain
	m.seen.gone = m.gone && m.w.gone(ctx, m.from)
	return m.judge(sc)
}

// change moves the router. Its undo is the state before the run, whichever way
// the move goes: taking back a failback must not fail over once more.
func (m *move) change(ctx context.Context, sc drill.Scope, u drill.Undo) error {
	what := fmt.Sprintf("router: %s in, %s out", m.to.region.Name, m.from.region.Name)
	if m.fleet != nil {
		what = fmt.Sprintf("router %s of production (%d replicas): %s in, %s out", m.fleet.Name, len(m.fleet.replicas), m.to.region.Name, m.from.region.Name)
	}
	err := sc.Change(ctx, what, u, func(ctx context.Context) error {
		if err := m.router.Apply(ctx, drill.Change{Add: m.to.workers(), Remove: m.from.urls()}); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	})
	if err != nil {
		return errext.WithStatus(err, errext.Gate)
	}
	return nil
}

// undo is how the router was, as data. In production it is what every replica lists
// now; a planned move stays when all goes well, and an emergency's stays in any case.
func (m *move) undo(ctx context.Context) (drill.Undo, error) {
	if m.fleet == nil {
		r, source, target := m.w.router, m.w.replicaOf(&m.w.Source), m.w.replicaOf(&m.w.Target)
		return undo(UndoRouter, RouterArgs{Driver: m.w.Router.Driver, Admin: r.admin, Metrics: r.metrics, Ephemeral: true,
			Add: []Backed{{URL: source.Endpoint(), Region: source.region.Name}}, Remove: []string{target.Endpoint()}})
	}
	args, err := m.w.snapshot(ctx, m.fleet, append(m.to.urls(), m.from.urls()...))
	if err != nil {
		return drill.Undo{}, err
	}
	if (m.w.Mode == drill.ModePlanned || m.w.Mode == drill.ModeFailback) && !args.lists(m.from.urls()) {
		return drill.Undo{}, errext.WithHint(fmt.Errorf("router %s lists no worker of region %s: there is nothing to move", m.fleet.Name, m.from.region.Name),
			"was it moved already, or does drkit.yaml name other endpoints than the router?")
	}
	u, err := undo(UndoProduction, args)
	u.Keep = m.w.keepMoved()
	return u, err
}

// keepMoved is when a change of production stays.
func (w *World) keepMoved() string {
	if w.Mode == drill.ModeEmergency {
		return drill.KeepHeld
	}
	return drill.KeepOnSuccess
}

// drainage is how the engines that were left came to rest.
type drainage string

const (
	idle drainage = "idle"
	mute drainage = "mute" // they do not say how many requests they have
	busy drainage = "busy" // longer than a request may last: new ones came
	gone drainage = "gone" // an emergency: nothing answers there at all
)

const (
	// quietPolls is how often in a row an engine must say that it is idle: a
	// request that the router placed just before the change may still be on its way.
	quietPolls = 2
	// mutePatience is how long an engine may say nothing of its open requests.
	mutePatience = 10 * time.Second
)

// empty waits until the engines that were removed have no request left: a router's
// removal does not end the streams that are in flight. What is open there for
// longer than a request's own time-out came after the change.
func (m *move) empty(ctx context.Context) (end drainage, err error) {
	told, quiet := time.Now(), 0
	err = wait(ctx, pollEvery, m.from.name()+" to finish its requests", func(ctx context.Context) (bool, error) {
		if _, ended := m.from.ended(); ended {
			end = idle
			return true, nil
		}
		open := m.w.open(ctx, m.from)
		if open != nil {
			told, quiet = time.Now(), quiet+1
		}
		if open == nil || *open > 0 {
			quiet = 0
		}
		switch {
		case quiet >= quietPolls:
			end = idle
		case open == nil && m.w.Mode == drill.ModeEmergency && m.w.gone(ctx, m.from):
			end = gone
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

// collect waits for enough requests that began after the drain.
func (m *move) collect(ctx context.Context) error {
	what := fmt.Sprintf("%d requests after the switch", provingRequests)
	return wait(ctx, pollEvery, what, func(context.Context) (bool, error) {
		return len(m.results(m.drained)) >= provingRequests, nil
	})
}

// instant stamps the first token of a request that could only come from where the
// traffic went: it began after the list showed the change. Of several routers it is
// that of the last one to answer.
func instant(sc drill.Scope, moves []*move) error {
	name := drill.InstantCutover
	if m := moves[0]; m.to.region != &m.w.Target {
		name = drill.InstantSourceBack
	}
	var at time.Time
	for _, m := range moves {
		first := m.firstToken()
		if first.IsZero() {
			return nil
		}
		if first.After(at) {
			at = first
		}
	}
	return sc.Emit(drill.TypeInstant, drill.Instant{Name: name, At: sc.Mono(at)})
}

func (m *move) firstToken() (earliest time.Time) {
	if m.acknowledged.IsZero() {
		return earliest
	}
	for _, r := range m.results(m.acknowledged) {
		if r.OK && !r.FirstToken.IsZero() && (earliest.IsZero() || r.FirstToken.Before(earliest)) {
			earliest = r.FirstToken
		}
	}
	return earliest
}

// judge emits all gates of the move before it returns the red ones.
func (m *move) judge(sc drill.Scope) error {
	return errors.Join(m.landed(sc), m.unharmed(sc), m.inside(sc))
}

// gate emits a gate of this move, which speaks of its classes alone when there are others.
func (m *move) gate(sc drill.Scope, g drill.Gate) error {
	if len(m.classes) < len(m.w.sent()) {
		g.Classes = m.classes
	}
	return gate(sc, g)
}

// gatesOf are the gates that the proof of a move rests on; none: all of its step.
func gatesOf(moves []*move) []string {
	if moves[0].fleet == nil {
		return nil
	}
	var all []string
	for _, m := range moves {
		all = append(all, m.id+"-attribution", m.id+"-errors", m.id+"-residency")
	}
	return all
}

func why(moves []*move, err error) string {
	if err != nil {
		return err.Error()
	}
	var all []string
	for _, m := range moves {
		name := m.info.Kind
		if m.fleet != nil {
			name = m.fleet.Name + " (" + name + ")"
		}
		all = append(all, fmt.Sprintf("%s moved the traffic to %s: %s", name, m.to.region.Name, m.seen.told(m.from, m.to)))
	}
	return strings.Join(all, "; ")
}
