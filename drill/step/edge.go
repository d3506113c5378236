package step

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"drkit/drill"
	"drkit/internal/errext"
)

// Shares says for each class of traffic which share of its users each region gets.
type Shares map[string]ByRegion

// ByRegion is the share of a class's users that each region gets: parts of 1.
type ByRegion map[string]float64

// Edge is what moves users between regions. Apply's success means nothing: Observe
// has to show it. A class that Observe does not name is not known.
type Edge interface {
	Observe(ctx context.Context) (Shares, error)
	Apply(ctx context.Context, want Shares) error
}

// EdgeAt says how an edge is reached. It is in the journal, as a part of an undo's
// arguments, and holds no secrets.
type EdgeAt struct {
	Driver  string   `json:"driver"`
	Apply   []string `json:"apply"`
	Observe []string `json:"observe"`
	Dir     string   `json:"dir,omitempty"` // working directory of the commands
}

// UndoEdge gives the users that a run moved back to where they were.
const UndoEdge = "edge.restore"

// EdgeArgs are the arguments of UndoEdge: the shares of the classes that are moved,
// as they were, and what has to serve before the users are given back.
type EdgeArgs struct {
	At      EdgeAt   `json:"at"`
	Before  Shares   `json:"before"`
	Engines []string `json:"engines,omitempty"` // of the region that they were moved away from
	Models  []string `json:"models,omitempty"`  // that each of these has to list
}

const (
	edgeEvery    = 2 * time.Second
	edgePatience = 5 * time.Minute // an edge may be as slow as names in caches
)

// checkEdge asks the edge once: what it does not say now it will not show later.
func (w *World) checkEdge(ctx context.Context) []error {
	at := w.Production.Edge
	if at == nil {
		return nil
	}
	e, err := w.Production.OpenEdge(*at)
	if err != nil {
		return []error{err}
	}
	now, err := e.Observe(ctx)
	if err != nil {
		return []error{refuse(fmt.Errorf("observing the edge: %w", err), orHint(err, "run the observe command of the edge by hand"))}
	}
	var problems []error
	for _, class := range names(w.sent()) {
		if now[class] == nil {
			problems = append(problems, refuse(fmt.Errorf("the edge does not say where the users of %s are", class), "the observe command has to name every class that is moved"))
		}
	}
	return problems
}

// moveUsers sends the users of the moved classes to the region that took over, and
// waits until the edge itself shows it. Without an edge nothing is claimed.
func (w *World) moveUsers(ctx context.Context, sc drill.Scope, id string, proves bool, from, to *Region) error {
	at := w.Production.Edge
	if at == nil {
		return sc.Emit(drill.TypeNote, drill.Note{Text: "no edge is described: whether users reach " + to.Name + "'s routers is not known to this run"})
	}
	e, err := w.Production.OpenEdge(*at)
	if err != nil {
		return err
	}
	seen, err := w.steer(ctx, sc, e, from, to)
	if interrupted(ctx) {
		return err
	}
	if proves {
		p := drill.Proof{Name: drill.ProofEdge, Proven: err == nil, Why: seen, Gates: []string{id + "-edge"}}
		if err != nil {
			p.Why = err.Error()
		}
		if failed := sc.Emit(drill.TypeProof, p); failed != nil {
			return failed
		}
	}
	g := drill.Gate{ID: id + "-edge", Title: "users reach " + to.Name, Expected: "the edge shows all users of " + strings.Join(names(w.sent()), ", ") + " in " + to.Name + ", and no others moved",
		Observed: seen, Result: result(err == nil), Evidence: "the edge's own observation", Hint: "run the observe command of the edge by hand; the routers are moved already"}
	if err != nil {
		g.Observed = err.Error()
	}
	return gate(sc, g)
}

// steer applies the change and polls until it is seen. What it saw last is in the error.
func (w *World) steer(ctx context.Context, sc drill.Scope, e Edge, from, to *Region) (string, error) {
	before, err := e.Observe(ctx)
	if err != nil {
		return "", fmt.Errorf("nothing was changed: observing the edge: %w", err)
	}
	want, was := Shares{}, Shares{}
	for _, class := range names(w.sent()) {
		if before[class] == nil {
			return "", errext.WithHint(fmt.Errorf("nothing was changed: the edge does not say where the users of %s are", class), "the observe command has to name every class that is moved")
		}
		want[class], was[class] = ByRegion{to.Name: 1}, before[class]
	}
	u, err := undo(UndoEdge, EdgeArgs{At: *w.Production.Edge, Before: was, Engines: w.home(from).urls(), Models: boot{w}.expected()})
	if err != nil {
		return "", err
	}
	u.Keep = w.keepMoved()
	what := fmt.Sprintf("edge: users of %s from %s to %s", strings.Join(names(w.sent()), ", "), from.Name, to.Name)
	if err := sc.Change(ctx, what, u, func(ctx context.Context) error { return e.Apply(ctx, want) }); err != nil {
		return "", err
	}
	return w.observed(ctx, e, want, before)
}

// observed waits for the shares that were asked for. A class that was not to be moved
// and is now elsewhere ends the wait: its users may have crossed a border.
func (w *World) observed(ctx context.Context, e Edge, want, before Shares) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, edgePatience, fmt.Errorf("the edge has not shown it within %v", edgePatience))
	defer cancel()
	last := errors.New("not observed yet")
	err := wait(ctx, edgeEvery, "the edge to show the change", func(ctx context.Context) (bool, error) {
		now, err := e.Observe(ctx)
		if err != nil {
			last = err
			return false, nil
		}
		for class, was := range before {
			if want[class] == nil && !same(now[class], was) {
				return false, fmt.Errorf("the users of %s were not to be moved: they were in %s, and are in %s", class, was.text(), now[class].text())
			}
		}
		last = unlike(now, want)
		return last == nil, nil
	})
	if err != nil && last != nil {
		return "", fmt.Errorf("%w (last: %w)", err, last)
	}
	return want.text(), err
}

// unlike says which class is not where it should be; nil when all are.
func unlike(now, want Shares) error {
	for _, class := range slices.Sorted(maps.Keys(want)) {
		switch got := now[class]; {
		case got == nil:
			return fmt.Errorf("the edge does not say where the users of %s are", class)
		case !same(got, want[class]):
			return fmt.Errorf("the users of %s are in %s, wanted in %s", class, got.text(), want[class].text())
		}
	}
	return nil
}

// undoEdge gives no users back to a region whose engines do not serve.
func undoEdge(ctx context.Context, args []byte, p Production) error {
	var a EdgeArgs
	if err := json.Unmarshal(args, &a); err != nil {
		return err
	}
	e, err := p.OpenEdge(a.At)
	if err != nil {
		return fmt.Errorf("%w: %w", drill.ErrUntouched, err)
	}
	if now, err := e.Observe(ctx); err == nil && unlike(now, a.Before) == nil {
		return nil
	}
	if err := p.serving(ctx, a.Engines, a.Models); err != nil {
		return fmt.Errorf("%w at the edge, which goes on as it is: %w", drill.ErrUntouched, err)
	}
	if err := e.Apply(ctx, a.Before); err != nil {
		return err
	}
	last := errors.New("not observed yet")
	err = wait(ctx, edgeEvery, "the edge to show the users where they were", func(ctx context.Context) (bool, error) {
		now, err := e.Observe(ctx)
		if last = err; err == nil {
			last = unlike(now, a.Before)
		}
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%w (last: %w)", err, last)
	}
	return nil
}

// shareSlack is how far a share may be off: weights are often whole numbers.
const shareSlack = 0.001

// same compares what regions get; one that is not named gets nothing.
func same(a, b ByRegion) bool {
	for _, m := range []ByRegion{a, b} {
		for r := range m {
			if d := a[r] - b[r]; d > shareSlack || d < -shareSlack {
				return false
			}
		}
	}
	return true
}

func (b ByRegion) text() string {
	var all []string
	for _, r := range slices.Sorted(maps.Keys(b)) {
		all = append(all, fmt.Sprintf("%s %g", r, b[r]))
	}
	if len(all) == 0 {
		return "no region"
	}
	return strings.Join(all, ", ")
}

func (s Shares) text() string {
	var all []string
	for _, class := range slices.Sorted(maps.Keys(s)) {
		all = append(all, class+": "+s[class].text())
	}
	return strings.Join(all, "; ")
}
