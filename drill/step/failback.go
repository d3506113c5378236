package step

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"drkit/drill"
	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/manifest/release"
	"drkit/playbooks"
	"drkit/verify"
)

// failback puts the source through the same ladder as the target, then moves the
// traffic back and proves it.
type failback struct{ w *World }

func (f failback) Check(ctx context.Context, s playbooks.Step) []error {
	return f.w.checkRouted(ctx, s)
}

func (f failback) Do(ctx context.Context, s playbooks.Step, sc drill.Scope) error {
	live, err := f.w.live(s)
	if err != nil {
		return err
	}
	source, err := f.source(live)
	if err != nil {
		return err
	}
	f.w.traffic.SetPhase("failback")
	if err := memo(sc, memoAsked, true); err != nil {
		return err
	}
	if err := f.ladder(ctx, sc, source, live); err != nil {
		return err
	}
	return f.w.take(ctx, sc, "failback", live, &f.w.Target, &f.w.Source)
}

// source are the engines that the traffic goes back to.
func (f failback) source(live bool) (engines, error) {
	switch source := f.w.replicaOf(&f.w.Source); {
	case live && (f.w.traffic == nil || f.w.manifest == nil):
		return engines{}, missing("failback", "preflight and traffic (router production)")
	case live:
		return f.w.home(&f.w.Source), nil
	case f.w.cutover == nil || source == nil:
		return engines{}, missing("failback", "cutover")
	default:
		return canary(source), nil
	}
}

// ladder asks of the source what was asked of the target. In production that begins
// with its copy: what it serves may have been damaged with it.
func (f failback) ladder(ctx context.Context, sc drill.Scope, source engines, live bool) error {
	if live {
		if err := f.copy(ctx, sc); err != nil {
			return err
		}
	}
	copied := drill.Proof{Name: drill.ProofCopy, Proven: true, Why: "the source's copy was hashed and compared with the release", Gates: []string{"failback-copy"}}
	behaved := drill.Proof{Name: drill.ProofBehaviour, Proven: true, Why: fmt.Sprintf("%d engines of %s answer as recorded", len(source.all), f.w.Source.Name)}
	var err error
	if behaved.Gates, err = f.w.climb(ctx, sc, source.all, "failback"); err != nil {
		return err
	}
	if !f.w.Back {
		return nil
	}
	for _, p := range []drill.Proof{copied, behaved} {
		if err := sc.Emit(drill.TypeProof, p); err != nil {
			return err
		}
	}
	return sc.Emit(drill.TypeInstant, drill.Instant{Name: drill.InstantCanaryVerified})
}

// copy compares every file of the source's copy with the release.
func (f failback) copy(ctx context.Context, sc drill.Scope) error {
	r, m := &f.w.Source, f.w.manifest
	told := tell(sc)
	defer told.close()
	opts := verify.Options{Level: verify.ByContent, Require: store.Content, Progress: told}
	_, g, err := JudgeCopy(ctx, m, verify.Copy{Region: r.Name, Store: r.Store, Prefix: release.Prefix(f.w.Service, m.Release)}, opts)
	if err != nil {
		return err
	}
	g.ID = "failback-copy"
	return gate(sc, g)
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
	if kept := cleaner.Kept(); len(kept) > 0 {
		left = slices.DeleteFunc(left, func(r drill.Replica) bool { return slices.Contains(kept, launchOf(r.ID())) })
		observed = "stays on purpose: " + strings.Join(kept, "; ") + "; nothing else carries the run's label"
	}
	if len(left) > 0 {
		observed = fmt.Sprintf("%d processes or pods are left", len(left))
	}
	return gate(sc, drill.Gate{ID: "cleanup", Title: "nothing of the run is left", Expected: "no process and no pod with the run's label, every change taken back", Observed: observed,
		Result: result(len(left) == 0), Evidence: "the launcher's own listing", Status: int(errext.Unclean), Hint: "drkit drill abort " + sc.RunID()})
}

// Close ends the traffic, if it runs. It may be called more than once; the error
// is that of journaling the traffic's windows.
func (w *World) Close() error {
	w.warming.end()
	if w.traffic == nil {
		return nil
	}
	return w.traffic.end()
}
