package step

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"drkit/drill"
	"drkit/internal/errext"
)

// rehearsalRouter is the router that the run started.
type rehearsalRouter struct {
	drill.Router
	info           drill.RouterInfo
	admin, metrics string
	process        drill.Replica
}

// routerSpec launches the rehearsal router in front of a worker.
func (w *World) routerSpec(run, worker string) drill.Spec {
	return drill.Spec{
		Run: run, Name: "rehearsal-router", Command: w.Router.Command, Dir: w.WorkDir, LogPath: filepath.Join(w.WorkDir, "rehearsal-router.log"),
		Values: map[string]string{"worker": worker, "worker_region": w.Source.Name, "worker_residency": string(w.Source.Residency)},
	}
}

func (t trafficStep) router(ctx context.Context, sc drill.Scope, source *replica) error {
	spec := t.w.routerSpec(sc.RunID(), source.Endpoint())
	u, err := t.w.UndoLaunch(sc.RunID(), spec.Name)
	if err != nil {
		return err
	}
	r := &rehearsalRouter{}
	err = sc.Change(ctx, "rehearsal router", u, func(ctx context.Context) (err error) {
		r.process, err = t.w.Launcher.Launch(ctx, spec)
		return err
	})
	if err != nil {
		return fmt.Errorf("launching the rehearsal router: %w", err)
	}
	if err := t.w.attach(r); err != nil {
		return err
	}
	if r.info, err = t.answering(ctx, r, source); err != nil {
		hint := "its log is " + spec.LogPath
		return errext.WithHint(errext.WithStatus(fmt.Errorf("the rehearsal router does not serve: %w", err), errext.Gate), hint)
	}
	t.w.router = r
	return sc.Emit(drill.TypeComponent, drill.Component{Role: drill.RoleRouter, Name: "rehearsal router", Kind: r.info.Kind, Version: r.info.Version, Substitute: r.info.Reference})
}

// attach makes the driver of a router that runs.
func (w *World) attach(r *rehearsalRouter) (err error) {
	r.admin, r.metrics = r.process.Endpoint(), r.process.Endpoint()
	if m, ok := r.process.(interface{ MetricsEndpoint() string }); ok && m.MetricsEndpoint() != "" {
		r.metrics = m.MetricsEndpoint()
	}
	r.Router, err = w.NewRouter(w.Router.Driver, r.admin, r.metrics)
	return err
}

// answering waits until the router is the kind that was named and lists the
// source canary as its only worker, healthy.
func (t trafficStep) answering(ctx context.Context, r *rehearsalRouter, source *replica) (info drill.RouterInfo, err error) {
	last := errors.New("not asked yet")
	err = wait(ctx, pollEvery, "the rehearsal router", func(ctx context.Context) (bool, error) {
		select {
		case <-r.process.Exited():
			return false, fmt.Errorf("it ended: %s", r.process.ExitState())
		default:
		}
		asked, cancel := question(ctx)
		defer cancel()
		var err error
		info, err = r.inFrontOf(asked, source)
		if ctx.Err() == nil { // else the step's own end cut the question off
			last = err
		}
		return err == nil, nil
	})
	if err != nil {
		err = fmt.Errorf("%w (last answer: %w)", err, last)
	}
	return info, err
}

func (r *rehearsalRouter) inFrontOf(ctx context.Context, source *replica) (drill.RouterInfo, error) {
	info, err := r.Probe(ctx)
	if err != nil {
		return info, err
	}
	workers, err := r.Workers(ctx)
	if err == nil && (len(workers) != 1 || workers[0].URL != source.Endpoint() || workers[0].Health == drill.No) {
		err = fmt.Errorf("it lists %v, not the healthy source canary %s alone", urls(workers), source.Endpoint())
	}
	return info, err
}

func urls(workers []drill.Worker) []string {
	var all []string
	for _, w := range workers {
		all = append(all, w.URL)
	}
	slices.Sort(all)
	return all
}

// routerInfo asks the router again what it is: some say which prompts their
// policy sees only once requests were routed. What was known stands when it
// does not answer. Of several routers it is the first.
func (w *World) routerInfo(ctx context.Context) drill.RouterInfo {
	ctx, cancel := question(context.WithoutCancel(ctx))
	defer cancel()
	if info, err := w.routed[0].router.Probe(ctx); err == nil {
		return info
	}
	return w.routed[0].info
}
