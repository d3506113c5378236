package step

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"drkit/drill"
	"drkit/drill/bootlog"
	"drkit/internal/errext"
	"drkit/internal/openai"
	"drkit/manifest"
	"drkit/playbooks"
)

// boot starts a canary from what was restored, reads its log into phases, and
// waits until it serves the models that the release has.
type boot struct{ w *World }

// replica is a canary of the run.
type replica struct {
	drill.Replica
	region *Region
	name   string
}

// ended says whether and how a canary ended.
func (r *replica) ended() (how string, ended bool) {
	select {
	case <-r.Exited():
		return r.ExitState(), true
	default:
		return "", false
	}
}

// lastWords quotes the last line of an engine's log, where the launcher has it:
// an end that no class explains is explained there, if anywhere.
func (r *replica) lastWords() string {
	t, ok := r.Replica.(interface{ Tail(n int) []string })
	if !ok {
		return ""
	}
	for _, line := range slices.Backward(t.Tail(20)) {
		if line = strings.TrimSpace(line); line != "" {
			return fmt.Sprintf("; last in its log: %q", line)
		}
	}
	return ""
}

func (b boot) Check(ctx context.Context, s playbooks.Step) []error {
	_, side, err := b.options(s)
	if err != nil {
		return []error{err}
	}
	if side.Deployed != nil {
		if !drill.Live(b.w.Mode) || side == b.w.takesOver() || b.w.manifest == nil { // the preflight has looked, or refused
			return nil
		}
		return b.w.launchableIn(ctx, side)
	}
	if drill.Live(b.w.Mode) && side != b.w.takesOver() { // else the preflight has looked
		if err := b.w.Validate(b.w.spec(side, "preflight", nil)); err != nil {
			return []error{refuse(fmt.Errorf("canary command of region %s: %w", side.Name, err), errext.Hint(err))}
		}
	}
	return nil
}

// spec is what the launcher gets for a region's canary.
func (w *World) spec(r *Region, run string, m *manifest.Manifest) drill.Spec {
	dir := filepath.Join(w.restored(r), "release")
	spec := drill.Spec{
		Run: run, Name: w.replicaName(r), Model: filepath.Join(dir, "model", "base"), Served: w.Served, Command: r.Command, Dir: dir,
		Env: r.Env, Adapters: map[string]string{}, LogPath: filepath.Join(w.WorkDir, w.replicaName(r)+".log"),
	}
	if m == nil {
		m = w.manifest
	}
	names := adapters(m)
	if m == nil {
		names = w.Adapters // before the release is known: those of the service file
	}
	for _, name := range names {
		spec.Adapters[name] = filepath.Join(dir, "model", "adapters", name)
	}
	return spec
}

func (w *World) replicaName(r *Region) string {
	if w.isTarget(r) {
		return "target-canary"
	}
	return "source-canary"
}

// adapters are the names of a release's adapters, from its file paths.
func adapters(m *manifest.Manifest) []string {
	names := map[string]bool{}
	if m == nil {
		return nil
	}
	for _, f := range m.Contents.Files {
		if rest, ok := strings.CutPrefix(f.Path, "adapters/"); ok && f.Part == manifest.Model {
			name, _, _ := strings.Cut(rest, "/")
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// bootOptions are those of the step.
type bootOptions struct {
	Region    string `yaml:"region" strict:"enum=source|target"`
	Isolation string `yaml:"isolation" strict:"enum=prove|report"`
}

func (b boot) options(s playbooks.Step) (bootOptions, *Region, error) {
	o := bootOptions{Isolation: b.w.asked(prove)}
	if err := s.Decode(&o); err != nil {
		return o, nil, err
	}
	side, err := b.w.side(o.Region)
	return o, side, err
}

func (b boot) Do(ctx context.Context, s playbooks.Step, sc drill.Scope) error {
	o, side, err := b.options(s)
	if err != nil {
		return err
	}
	if b.w.manifest == nil {
		return missing("boot", "preflight")
	}
	if b.w.isTarget(side) {
		if err := b.w.rendered(ctx, sc, o.Isolation); err != nil {
			return err
		}
	}
	r, watch, err := b.launch(ctx, side, sc)
	if err != nil {
		return err
	}
	platform := &platformWatch{replica: r, target: side == b.w.takesOver(), sc: sc}
	err = b.ready(ctx, r, platform)
	ready := time.Now()
	if err == nil && side.Deployed != nil {
		watch.catchUp(ctx, ready)
	}
	watch.settle(err == nil || interrupted(ctx))
	if err != nil {
		return b.red(ctx, sc, r, watch, err)
	}
	if err := errors.Join(watch.report(sc), platform.loaded(ctx, watch, ready), b.component(ctx, r, sc)); err != nil {
		return err
	}
	if err := b.green(sc, r, ready); err != nil || !b.w.isTarget(side) {
		return err
	}
	return b.w.isolated(ctx, sc, r, o.Isolation)
}

func (b boot) launch(ctx context.Context, side *Region, sc drill.Scope) (*replica, *logWatch, error) {
	spec, launcher, u, err := b.w.toLaunch(ctx, side, sc.RunID())
	if err != nil {
		return nil, nil, err
	}
	u = b.w.keepServing(side, u)
	r := &replica{region: side, name: spec.Name}
	launched := time.Now()
	err = sc.Change(ctx, launchOf(spec.Name), u, func(ctx context.Context) (err error) {
		r.Replica, err = launcher.Launch(ctx, spec)
		return err
	})
	if err != nil {
		return nil, nil, errext.WithStatus(fmt.Errorf("launching %s: %w", spec.Name, err), errext.Gate)
	}
	b.w.keep(r)
	return r, watchLog(ctx, r, launched, sc), nil
}

// launchOf is how the change that launches a canary is called.
func launchOf(name string) string { return "canary " + name }

func (w *World) keep(r *replica) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.replicas == nil {
		w.replicas = map[string]*replica{}
	}
	w.replicas[r.region.Name] = r
}

func (w *World) replicaOf(r *Region) *replica {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.replicas[r.Name]
}

// errExited says that the engine ended while it was being waited for.
var errExited = errors.New("the engine ended")

// modelsPatience is how long a healthy engine may list other models than the
// release has. vLLM lists its adapters from the first answer on; what is missing
// after that was never asked for.
const modelsPatience = 30 * time.Second

// errOtherModels says that a healthy engine serves something else.
var errOtherModels = errors.New("the engine is healthy and serves other models than the release has: does the canary's command name every adapter and --served-model-name {{served}}?")

// ready climbs the ladder: all parts of the canary, /health, then the models that the
// release has. A 200 on /health alone proves nothing.
func (b boot) ready(ctx context.Context, r *replica, platform *platformWatch) error {
	last := errors.New("not asked yet")
	var healthy time.Time
	err := wait(ctx, pollEvery, "the engine to serve", func(ctx context.Context) (bool, error) {
		if how, ended := r.ended(); ended {
			return false, fmt.Errorf("%w: %s%s", errExited, how, r.lastWords())
		}
		if err := platform.look(); err != nil {
			return false, err
		}
		if err := r.whole(); err != nil {
			last = err
			return false, nil
		}
		c := b.w.client(r.Endpoint())
		if c.BaseURL == "" { // no address yet
			return false, nil
		}
		asked, cancel := question(ctx)
		defer cancel()
		err := c.Health(asked)
		if err == nil {
			if healthy.IsZero() {
				healthy = time.Now()
			}
			err = b.models(asked, r)
			if err != nil && ctx.Err() == nil && time.Since(healthy) >= modelsPatience {
				return false, fmt.Errorf("%w (%w)", errOtherModels, err)
			}
		}
		if ctx.Err() == nil { // else the step's own end cut the question off
			last = err
		}
		return err == nil, nil
	})
	if err != nil && !errors.Is(err, errExited) && !errors.Is(err, errOtherModels) && !errors.Is(err, errTrouble) {
		return fmt.Errorf("%w (last answer: %v)", err, last)
	}
	return err
}

// models asks for the ids that a canary of this release must serve.
func (b boot) models(ctx context.Context, r *replica) error {
	return lists(ctx, b.w.client(r.Endpoint()), b.expected())
}

// lists says which of some models an engine does not list.
func lists(ctx context.Context, c *openai.Client, models []string) error {
	all, err := c.Models(ctx)
	if err != nil {
		return err
	}
	var served []string
	for _, m := range all {
		served = append(served, m.ID)
	}
	for _, want := range models {
		if !slices.Contains(served, want) {
			return fmt.Errorf("/v1/models lists %v, not %s", served, want)
		}
	}
	if len(served) == 0 {
		return errors.New("/v1/models lists no model")
	}
	return nil
}

func (b boot) expected() []string { return append([]string{b.w.Served}, adapters(b.w.manifest)...) }

// standIn is the word by which drkit's own engine names itself.
const standIn = "stand-in"

// component says which engine answered: drkit's stand-in proves nothing of vLLM.
// An engine that does not tell its version has none here.
func (b boot) component(ctx context.Context, r *replica, sc drill.Scope) error {
	ctx, cancel := question(ctx)
	defer cancel()
	c := b.w.client(r.Endpoint())
	version, err := c.Version(ctx)
	if err != nil {
		version = ""
	}
	models, err := c.Models(ctx)
	if err != nil {
		return errext.WithStatus(fmt.Errorf("asking %s which engine it is: %w", r.name, err), errext.Gate)
	}
	kind := "unknown"
	if len(models) > 0 && models[0].OwnedBy != "" {
		kind = models[0].OwnedBy
	}
	substitute := strings.Contains(kind, standIn)
	if substitute {
		kind, version = standIn, strings.TrimPrefix(version, standIn+" engine ")
	}
	return sc.Emit(drill.TypeComponent, drill.Component{Role: drill.RoleEngine, Name: r.name, Kind: kind, Version: version, Substitute: substitute})
}

func (b boot) green(sc drill.Scope, r *replica, ready time.Time) error {
	g := drill.Gate{ID: "boot-" + r.region.Name, Title: "a canary boots from " + r.region.Name + "'s copy", Expected: fmt.Sprintf("/health 200 and models %v", b.expected()),
		Observed: "/health 200, and these models; how it answers is judged by the gate behaviour", Result: drill.Passed, Evidence: "the engine's own answers"}
	if r.region != b.w.takesOver() {
		return gate(sc, g)
	}
	return errors.Join(
		sc.Emit(drill.TypeInstant, drill.Instant{Name: drill.InstantEngineReady, At: sc.Mono(ready)}),
		sc.Emit(drill.TypeProof, drill.Proof{Name: drill.ProofBoot, Proven: true, Why: b.w.bootedFrom(r.region)}),
		gate(sc, g))
}

// red names the failure by its class with the line of the log. A boot that a
// person cut short did not fail.
func (b boot) red(ctx context.Context, sc drill.Scope, r *replica, watch *logWatch, cause error) error {
	if interrupted(ctx) {
		return cause
	}
	observed, hint := cause.Error(), "the whole log is in "+b.w.spec(r.region, "", nil).LogPath
	f, ok := bootlog.Classify(watch.texts())
	sure := false
	if t, is := r.trouble(); is && (t.Fatal || !ok) { // the platform knows what it did; a log only what was done to it
		f, ok, sure = bootlog.Failure{Class: t.Class, Line: t.Line, Hint: t.Hint}, true, true
	}
	if !ok && outside(r.how()) {
		f, ok = bootlog.Failure{Class: bootlog.ProbeBudget, Line: r.how()}, true
	}
	if ok {
		if !sure {
			f = b.explain(f, watch, errors.Is(cause, errExited))
		}
		observed, hint = fmt.Sprintf("%s: %s: %q", cause, f.Class, f.Line), f.Hint+"; "+hint
	}
	if err := watch.report(sc); err != nil {
		return err
	}
	if r.region == b.w.takesOver() {
		if err := sc.Emit(drill.TypeProof, drill.Proof{Name: drill.ProofBoot, Why: observed}); err != nil {
			return err
		}
	}
	return gate(sc, drill.Gate{ID: "boot-" + r.region.Name, Title: "a canary boots from " + r.region.Name + "'s copy", Expected: fmt.Sprintf("/health 200 and models %v", b.expected()),
		Observed: observed, Result: drill.Failed, Evidence: "the engine's log", Hint: hint})
}
