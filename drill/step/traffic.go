package step

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	Router    string        `yaml:"router" strict:"enum=rehearsal|production"`
	Rate      float64       `yaml:"rate" strict:"min=0,max=10000"` // requests a second over all classes; 0: from the objectives
	Families  int           `yaml:"families" strict:"min=1"`       // distinct shared prefixes
	MaxTokens int           `yaml:"max_tokens" strict:"min=1"`
	Timeout   time.Duration `yaml:"request_timeout" strict:"min=1s"`
}

func (o trafficOptions) live() bool { return o.Router == "production" }

// maxRate is the most requests a second that one process is trusted to send.
const maxRate = 10000

// running is the traffic of a run.
type running struct {
	*traffic.Generator
	rate    float64
	timeout time.Duration // of one request
	cache   tokens        // of the engines that serve, before the first request
	stop    context.CancelFunc
	done    chan struct{}
	mu      sync.Mutex
	closed  []traffic.Window
	err     error // of the journal
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
		o.Rate = 4.0 / 3 * float64(steady.MinRequests) / steady.Window.Seconds() / smallestShare(t.w.sent())
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

func (t trafficStep) Check(ctx context.Context, s playbooks.Step) []error {
	var problems []error
	o, err := t.options(s)
	if err != nil {
		problems = append(problems, err)
	}
	switch {
	case err == nil && !(o.Rate > 0 && o.Rate <= maxRate):
		problems = append(problems, refuse(fmt.Errorf("the traffic would have %g requests a second: want more than 0 and at most %d", o.Rate, maxRate),
			"set objectives.steady (window, min_requests) in drkit.yaml, or rate in the playbook"))
	case len(t.w.Classes) == 0:
		problems = append(problems, refuse(errors.New("no traffic class is described"), "add traffic to drkit.yaml"))
	case len(t.w.sent()) == 0 && t.w.Back:
		problems = append(problems, refuse(fmt.Errorf("no traffic class may be answered in both %s and %s: nothing was moved, and nothing goes back", t.w.Source.Name, t.w.Target.Name),
			"state the classes' residency in drkit.yaml"))
	case len(t.w.sent()) == 0 && len(t.w.lawless()) == 0: // else the preflight says so
		problems = append(problems, refuse(fmt.Errorf("no traffic class may be answered in source %s (%q): there is nothing to move away from it", t.w.Source.Name, t.w.Source.Residency),
			"drill with a source inside the border of a class, or state the classes' residency in drkit.yaml"))
	case o.live():
		problems = append(problems, t.w.checkProduction(ctx)...)
	}
	return problems
}

func (t trafficStep) Do(ctx context.Context, s playbooks.Step, sc drill.Scope) error {
	o, err := t.options(s)
	if err != nil {
		return err
	}
	source := t.w.replicaOf(&t.w.Source)
	if source == nil && !o.live() {
		return missing("traffic", "boot (region source)")
	}
	if err := t.w.Close(); err != nil { // the traffic of an attempt that failed
		return err
	}
	if err := t.w.sayClasses(sc); err != nil {
		return err
	}
	if o.live() {
		return t.production(ctx, o, sc)
	}
	if err := t.router(ctx, sc, source); err != nil {
		return err
	}
	if err := t.start(ctx, o, sc, t.all(), t.w.client(source.Endpoint())); err != nil {
		return err
	}
	return t.baseline(ctx, sc)
}

// all sends every class through the rehearsal's router.
func (t trafficStep) all() func(class string) *openai.Client {
	router := t.w.client(t.w.router.admin)
	return func(string) *openai.Client { return router }
}

// production sends the drill's own requests through production's routers, each class
// through every replica of its own. In an emergency there is no baseline: the source
// is gone, and its requests fail until the traffic is moved.
func (t trafficStep) production(ctx context.Context, o trafficOptions, sc drill.Scope) error {
	fleets, err := t.w.fleets()
	if err != nil {
		return err
	}
	for _, f := range fleets {
		info, err := f.Probe(ctx)
		if err != nil {
			return errext.WithHint(errext.WithStatus(err, errext.Gate), errext.Hint(err))
		}
		c := drill.Component{Role: drill.RoleRouter, Name: "production router " + f.Name, Kind: info.Kind, Version: info.Version, Substitute: info.Reference}
		if err := sc.Emit(drill.TypeComponent, c); err != nil {
			return err
		}
	}
	if err := t.start(ctx, o, sc, t.w.route(fleets), t.tokenizer(fleets)); err != nil {
		return err
	}
	if t.w.Mode == drill.ModeEmergency {
		return sc.Emit(drill.TypeNote, drill.Note{Text: "no baseline was taken: in an emergency the source answers nothing, and requests fail until the traffic is moved"})
	}
	return t.baseline(ctx, sc)
}

// tokenizer is what turns texts into token ids: an engine of the target, else a router
// that passes the question on.
func (t trafficStep) tokenizer(fleets []*fleet) *openai.Client {
	if all := t.w.home(&t.w.Target).all; len(all) > 0 {
		return t.w.client(all[0].Endpoint())
	}
	return t.w.client(fleets[0].Replicas[0].requests())
}

func (t trafficStep) start(ctx context.Context, o trafficOptions, sc drill.Scope, route func(class string) *openai.Client, engine *openai.Client) error {
	run := &running{rate: o.Rate, timeout: o.Timeout, done: make(chan struct{})}
	var err error
	run.Generator, err = traffic.New(ctx, traffic.Options{
		Route: route, Model: t.w.Served, Classes: t.w.sent(), Rate: o.Rate, Families: o.Families, MaxTokens: o.MaxTokens,
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
	run.cache = t.w.tokens(ctx, t.serving(o))
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	run.stop = stop
	t.w.traffic = run
	go func() {
		defer close(run.done)
		run.Run(life)
	}()
	return nil
}

// serving are the engines that the traffic reaches before it is moved.
func (t trafficStep) serving(o trafficOptions) engines {
	if t.w.Mode == drill.ModeEmergency {
		return engines{} // they answer nothing, and nobody waits for that
	}
	from := &t.w.Source
	if t.w.Back {
		from = &t.w.Target
	}
	if r := t.w.replicaOf(from); r != nil && !o.live() {
		return canary(r)
	}
	return t.w.home(from)
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
	if !errors.Is(err, drill.ErrOver) { // a window that closes after the run is none of its own
		r.err = errors.Join(r.err, err)
	}
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

// baseline waits until requests of every class have ended; none of them may have
// failed.
func (t trafficStep) baseline(ctx context.Context, sc drill.Scope) error {
	var got []traffic.Window
	err := wait(ctx, pollEvery, "a baseline", func(context.Context) (bool, error) {
		// A window in which no request ended shows nothing: a cold engine answers late.
		got = slices.DeleteFunc(t.w.traffic.windows(time.Time{}), func(w traffic.Window) bool { return w.Sent == 0 })
		return classesIn(got) == len(t.w.sent()), nil
	})
	if err != nil {
		return err
	}
	ok := true
	var seen []string
	for _, w := range got {
		text := fmt.Sprintf("%s: %d requests, %d failed", w.Class, w.Sent, w.Failed)
		if len(w.Problems) > 0 {
			text += ": " + first(w.Problems, 2)
		}
		ok, seen = ok && w.Failed == 0, append(seen, text)
	}
	return gate(sc, drill.Gate{ID: "baseline", Title: "the source serves the traffic", Expected: "requests of every class, and none of them failed", Observed: strings.Join(seen, "; "),
		Result: result(ok), Evidence: "the drill's own requests through the router"})
}

func classesIn(windows []traffic.Window) int {
	names := map[string]bool{}
	for _, w := range windows {
		names[w.Class] = true
	}
	return len(names)
}
