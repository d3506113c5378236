package step

import (
	"context"
	"fmt"

	"drkit/drill"
	"drkit/internal/errext"
	"drkit/playbooks"
)

// failback puts the source through the same ladder as the target, then moves the
// traffic back and proves it.
type failback struct{ w *World }

func (failback) Check(context.Context, playbooks.Step) []error { return nil }

func (f failback) Do(ctx context.Context, _ playbooks.Step, sc drill.Scope) error {
	source, target := f.w.replicaOf(&f.w.Source), f.w.replicaOf(&f.w.Target)
	if f.w.cutover == nil || source == nil || target == nil {
		return missing("failback", "cutover")
	}
	f.w.traffic.SetPhase("failback")
	if err := f.serves(ctx, source); err != nil {
		return errext.WithStatus(fmt.Errorf("the source is not ready to take over again: %w", err), errext.Gate)
	}
	if err := f.w.answers(ctx, sc, source, "failback-behaviour"); err != nil {
		return err
	}
	m := move{w: f.w, id: "failback", from: target, to: source}
	return m.do(ctx, sc)
}

// serves asks what a boot waits for, once: the source has served all the time.
func (f failback) serves(ctx context.Context, source *replica) error {
	ctx, cancel := question(ctx)
	defer cancel()
	if err := f.w.client(source.Endpoint()).Health(ctx); err != nil {
		return err
	}
	return boot(f).models(ctx, source)
}

// cleanup ends the traffic, takes back every change in reverse order, and proves
// by listing that nothing of the run is left.
type cleanup struct{ w *World }

func (cleanup) Check(context.Context, playbooks.Step) []error { return nil }

func (c cleanup) Do(ctx context.Context, _ playbooks.Step, sc drill.Scope) error {
	if err := c.w.Close(); err != nil {
		return errext.WithStatus(fmt.Errorf("journaling the traffic: %w", err), errext.Evidence)
	}
	cleaner, ok := sc.(drill.Cleaner)
	if !ok {
		return errext.WithStatus(fmt.Errorf("the run cannot take back its changes"), errext.Unclean)
	}
	if err := cleaner.UndoAll(ctx); err != nil {
		return err
	}
	left, err := c.w.leftOf(ctx, sc.RunID())
	if err != nil {
		return errext.WithStatus(fmt.Errorf("listing what is left of the run: %w", err), errext.Unclean)
	}
	observed := "nothing carries the run's label"
	if len(left) > 0 {
		observed = fmt.Sprintf("%d processes or pods are left", len(left))
	}
	return gate(sc, drill.Gate{ID: "cleanup", Title: "nothing of the run is left", Expected: "no process and no pod with the run's label, every change taken back", Observed: observed,
		Result: result(len(left) == 0), Evidence: "the launcher's own listing", Status: int(errext.Unclean), Hint: "drkit drill abort " + sc.RunID()})
}

// Close ends the traffic, if it runs. It may be called more than once; the error
// is that of journaling the traffic's windows.
func (w *World) Close() error {
	if w.traffic == nil {
		return nil
	}
	return w.traffic.end()
}
