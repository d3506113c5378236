package step

import (
	"context"
	"errors"
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
	return t.start(ctx, o, sc, source)
}

// memoMoved is where the traffic was taken last.
const memoMoved = "moved"

type moved struct {
	To     string   `json:"to"`     // region
	Listed []string `json:"listed"` // what the router listed after it
	// Left is how many requests the engine that was left had answered by then; nil:
	// not known.
	Left *float64 `json:"left"`
}

// remember leaves a proven move to a later process.
func (m *move) remember(sc drill.Scope) error {
	return memo(sc, memoMoved, moved{To: m.to.region.Name, Listed: m.seen.listed, Left: m.left})
}

// stillMoved says whether the router lists what the run's last proven move left.
func (w *World) stillMoved(ctx context.Context, sc drill.Scope) (moved, error) {
	var last moved
	if err := recall(sc, "", memoMoved, &last); err != nil {
		return last, err
	}
	if w.router == nil || w.traffic == nil {
		return last, errNotYet
	}
	ctx, cancel := question(ctx)
	defer cancel()
	workers, err := w.router.Workers(ctx)
	if err != nil {
		return last, fmt.Errorf("listing the router's workers: %w", err)
	}
	if now := urls(workers); !slices.Equal(now, last.Listed) {
		return last, fmt.Errorf("the router lists %v, and listed %v", now, last.Listed)
	}
	return last, nil
}

// Recheck: the router lists what it did. What the source answered since its drain
// still counts against the target; the windows that prove it steady begin anew.
func (c cutover) Recheck(ctx context.Context, s playbooks.Step, sc drill.Scope) error {
	if _, err := c.w.stillMoved(ctx, sc); err != nil {
		return err
	}
	var own moved
	if err := recall(sc, s.ID, memoMoved, &own); err != nil {
		return err
	}
	c.w.traffic.SetPhase("cutover")
	c.w.cutover = &switched{drained: time.Now(), source: own.Left, decisions: c.w.decisions(ctx)}
	return nil
}

// Recheck: a target that still has the traffic has to be seen steady again. After the
// way back there is nothing to be seen of it any more.
func (s steady) Recheck(ctx context.Context, _ playbooks.Step, sc drill.Scope) error {
	last, err := s.w.stillMoved(ctx, sc)
	if err == nil && last.To == s.w.Target.Name {
		return errors.New("nobody watched since: it has to be seen steady again")
	}
	return err
}

// Recheck: the router lists what it did.
func (f failback) Recheck(ctx context.Context, _ playbooks.Step, sc drill.Scope) error {
	if _, err := f.w.stillMoved(ctx, sc); err != nil {
		return err
	}
	f.w.traffic.SetPhase("failback")
	return nil
}
