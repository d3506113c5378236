package step

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"drkit/drill"
	"drkit/drill/traffic"
	"drkit/internal/errext"
	"drkit/internal/openai"
	"drkit/playbooks"
)

// trafficStep starts the rehearsal router in front of the source canary and the
// traffic through it, and waits for a baseline.
type trafficStep struct{ w *World }

type trafficOptions struct {
	Rate      float64       `yaml:"rate" strict:"min=0"`     // requests a second over all classes; 0: from the objectives
	Families  int           `yaml:"families" strict:"min=0"` // distinct shared prefixes
	MaxTokens int           `yaml:"max_tokens" strict:"min=0"`
	Timeout   time.Duration `yaml:"request_timeout" strict:"min=0s"`
}

// running is the traffic of a run.
type running struct {
	*traffic.Generator
	rate   float64
	stop   context.CancelFunc
	done   chan struct{}
	mu     sync.Mutex
	closed []traffic.Window
	err    error // of the journal
}

// rehearsalRouter is the router that the run started.
type rehearsalRouter struct {
	drill.Router
	info           drill.RouterInfo
	admin, metrics string
	process        drill.Replica
}

func (t trafficStep) options(s playbooks.Step) (trafficOptions, error) {
	o := trafficOptions{Families: 8, MaxTokens: 8, Timeout: 30 * time.Second}
	if err := s.Decode(&o); err != nil {
		return o, err
	}
	if o.Rate == 0 {
		steady := t.w.Objectives.Steady
		// Enough for the smallest class to reach the least number of requests in a
		// window, with a third to spare.
		o.Rate = 4.0 / 3 * float64(steady.MinRequests) / steady.Window.Seconds() / smallestShare(t.w.Classes)
	}
	return o, nil
}

func smallestShare(classes []traffic.Class) float64 {
	total, smallest := 0.0, 1.0
	for _, c := range classes {
		total += c.Share
	}
	for _, c := range classes {
		smallest = min(smallest, c.Share/total)
	}
	return smallest
}

func (t trafficStep) Check(_ context.Context, s playbooks.Step) []error {
	var problems []error
	if _, err := t.options(s); err != nil {
		problems = append(problems, err)
	}
	if len(t.w.Classes) == 0 {
		problems = append(problems, refuse(errors.New("no traffic class is described"), "add traffic to drkit.yaml"))
	}
	return problems
}

// routerSpec launches the rehearsal router in front of a worker.
func (w *World) routerSpec(run, worker string) drill.Spec {
	return drill.Spec{
		Run: run, Name: "rehearsal-router", Command: w.Router.Command, Dir: w.WorkDir, LogPath: filepath.Join(w.WorkDir, "rehearsal-router.log"),
		Values: map[string]string{"worker": worker, "worker_region": w.Source.Name, "worker_residency": string(w.Source.Residency)},
	}
}

func (t trafficStep) Do(ctx context.Context, s playbooks.Step, sc drill.Scope) error {
	o, err := t.options(s)
	if err != nil {
		return err
	}
	source := t.w.replicaOf(&t.w.Source)
	if source == nil {
		return missing("traffic", "boot (region source)")
	}
	if err := t.router(ctx, sc, source); err != nil {
		return err
	}
	if err := t.start(ctx, o, sc, source); err != nil {
		return err
	}
	return t.baseline(ctx, sc)
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
	r.admin, r.metrics = r.process.Endpoint(), r.process.Endpoint()
	if m, ok := r.process.(interface{ MetricsEndpoint() string }); ok && m.MetricsEndpoint() != "" {
		r.metrics = m.MetricsEndpoint()
	}
	if r.Router, err = t.w.NewRouter(t.w.Router.Driver, r.admin, r.metrics); err != nil {
		return err
	}
	if r.info, err = t.answering(ctx, r, source); err != nil {
		hint := "its log is " + spec.LogPath
		return errext.WithHint(errext.WithStatus(fmt.Errorf("the rehearsal router does not serve: %w", err), errext.Gate), hint)
	}
	t.w.router = r
	return sc.Emit(drill.TypeComponent, drill.Component{Role: drill.RoleRouter, Name: "rehearsal router", Kind: r.info.Kind, Version: r.info.Version, Substitute: r.info.Reference})
}

// answering waits until the router is the kind that was named and lists the
// source canary as its only worker, healthy.
func (t trafficStep) answering(ctx context.Context, r *rehearsalRouter, source *replica) (info drill.RouterInfo, err error) {
	var last error
	err = wait(ctx, pollEvery, "the rehearsal router", func(ctx context.Context) (bool, error) {
		select {
		case <-r.process.Exited():
			return false, fmt.Errorf("it ended: %s", r.process.ExitState())
		default:
		}
		ctx, cancel := context.WithTimeout(ctx, pollDeadline)
		defer cancel()
		if info, last = r.Probe(ctx); last != nil {
			return false, nil
		}
		var workers []drill.Worker
		if workers, last = r.Workers(ctx); last != nil {
			return false, nil
		}
		if len(workers) != 1 || workers[0].URL != source.Endpoint() || workers[0].Health == drill.No {
			last = fmt.Errorf("it lists %v, not the healthy source canary %s", urls(workers), source.Endpoint())
			return false, nil
		}
		return true, nil
	})
	if err != nil && last != nil {
		err = fmt.Errorf("%w (last answer: %w)", err, last)
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

func (t trafficStep) start(ctx context.Context, o trafficOptions, sc drill.Scope, source *replica) error {
	run := &running{rate: o.Rate, done: make(chan struct{})}
	engine := t.w.client(source.Endpoint())
	var err error
	run.Generator, err = traffic.New(ctx, traffic.Options{
		Router: t.w.client(t.w.router.admin), Model: t.w.Served, Classes: t.w.Classes, Rate: o.Rate, Families: o.Families, MaxTokens: o.MaxTokens,
		Window: t.w.Objectives.Steady.Window, Timeout: o.Timeout, Seed: 1, RunID: sc.RunID(),
		Tokenize: func(ctx context.Context, text string) ([]int, error) {
			r, err := engine.Tokenize(ctx, openai.TokenizeRequest{Model: t.w.Served, Prompt: &text})
			return r.Tokens, err
		},
		OnWindow: func(w traffic.Window) { run.close(sc, w) },
	})
	if err != nil {
		return err
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	run.stop = stop
	t.w.traffic = run
	go func() {
		defer close(run.done)
		run.Run(life)
	}()
	return nil
}

// close journals a window and keeps it for the steps that judge windows.
func (r *running) close(sc drill.Scope, w traffic.Window) {
	err := sc.Emit(drill.TypeTraffic, drill.TrafficWindow{
		Class: w.Class, Phase: w.Phase, From: sc.Mono(w.From), To: sc.Mono(w.To), Sent: w.Sent, OK: w.OK, Failed: w.Failed, Cut: w.Cut,
		TTFTP50: w.TTFTP50, TTFTP99: w.TTFTP99, CacheHit: w.CacheHit, ByRegion: w.ByRegion,
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = append(r.closed, w)
	r.err = errors.Join(r.err, err)
}

// windows are those that began at or after a moment.
func (r *running) windows(since time.Time) []traffic.Window {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.closed), func(w traffic.Window) bool { return w.From.Before(since) })
}

// end stops the traffic and waits for its open requests.
func (r *running) end() error {
	r.stop()
	<-r.done
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// baseline waits for one window of each class without a fault.
func (t trafficStep) baseline(ctx context.Context, sc drill.Scope) error {
	began := time.Now()
	var got []traffic.Window
	err := wait(ctx, pollEvery, "a baseline", func(context.Context) (bool, error) {
		got = t.w.traffic.windows(began.Add(-t.w.Objectives.Steady.Window))
		return len(got) >= len(t.w.Classes), nil
	})
	if err != nil {
		return err
	}
	sent, failed := 0, 0
	var problems []string
	for _, w := range got {
		sent, failed, problems = sent+w.Sent, failed+w.Failed, append(problems, w.Problems...)
	}
	observed := fmt.Sprintf("%d requests, %d failed", sent, failed)
	if len(problems) > 0 {
		observed += ": " + first(problems, 2)
	}
	return gate(sc, drill.Gate{ID: "baseline", Title: "the source serves the traffic", Expected: "requests, and none of them failed", Observed: observed,
		Result: result(sent > 0 && failed == 0), Evidence: "the drill's own requests through the router"})
}
