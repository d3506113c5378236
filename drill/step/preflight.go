package step

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"drkit/drill"
	"drkit/drill/ledger"
	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/manifest"
	"drkit/manifest/probes"
	"drkit/manifest/release"
	"drkit/manifest/rules"
	"drkit/playbooks"
)

// preflight finds all that would stop the drill, before the clock and before any
// change; then it takes the lock in the target.
type preflight struct{ w *World }

// lockExpiry is how long a lock of a run that died keeps others out, unless it
// is released by abort.
const lockExpiry = 2 * time.Hour

// preflightOptions are those of the step.
type preflightOptions struct {
	// MeasuredBoot is how long the release's engine takes to start; without it an
	// earlier run of the same release tells, where there is one.
	MeasuredBoot time.Duration `yaml:"measured_boot"`
	MeasuredPull time.Duration `yaml:"measured_pull"` // of the images, before it
	// Production says whether a production that runs something else than the release
	// refuses the run, or is only noted.
	Production string `yaml:"production" strict:"enum=compare|report"`
}

func (p preflight) Check(ctx context.Context, s playbooks.Step) []error {
	o := preflightOptions{Production: p.w.asked(compare)}
	if err := s.Decode(&o); err != nil {
		return []error{err}
	}
	problems := p.w.borders()
	problems = append(problems, p.w.unkept("the folder of the runs", "name another run.dir in drkit.yaml, or take the part that is a secret out of its path", p.w.WorkDir)...)
	problems = append(problems, p.w.commands()...)
	m, err := p.w.published(ctx)
	if err != nil {
		return append(problems, err)
	}
	p.w.serveAsDeployed(ctx, m)
	set, err := p.w.recorded(ctx, m)
	if err != nil {
		return append(problems, err)
	}
	p.w.manifest, p.w.probes = m, set
	problems = append(problems, p.w.launchable(ctx)...)
	p.w.compared = p.w.production(ctx)
	if o.Production != reportOnly {
		problems = append(problems, p.w.compared.problems...)
	}
	return append(problems, p.w.startLimits(o)...)
}

// unkept refuses a place that an undo has to reach and whose text holds a secret. The
// journal keeps no secret, so nobody could take back from it what was changed there; the
// change itself would be refused too, in the middle of the recovery.
func (w *World) unkept(what, hint string, texts ...string) []error {
	for _, text := range texts {
		if w.Redact.String(text) != text {
			return []error{refuse(fmt.Errorf("%s holds a secret: the journal would not keep it, and nobody could take back after a kill -9 what is changed there", what), hint)}
		}
	}
	return nil
}

// start is the measured start to judge the deploy files' limits by; false where
// there is none.
func (w *World) start(o preflightOptions) (rules.Start, bool) {
	if o.MeasuredBoot > 0 {
		return rules.Start{Took: o.MeasuredBoot, Pull: o.MeasuredPull, From: "measured_boot of the playbook"}, true
	}
	if w.Measured == nil || w.manifest == nil {
		return rules.Start{}, false
	}
	return w.Measured(w.manifest.Release)
}

// startLimits refuses a drill of what would be ended before it is up: a time limit
// in the target's deploy files that is shorter than the engine's start.
func (w *World) startLimits(o preflightOptions) (problems []error) {
	start, measured := w.start(o)
	if !measured {
		return nil
	}
	for _, f := range rules.JudgeStart(w.manifest, w.Target.Name, start) {
		if f.Severity == manifest.Block {
			problems = append(problems, refuse(fmt.Errorf("%s of %s/%s:%d: %s", f.Rule, f.Part, f.Path, f.Line, f.Message), f.Hint))
		}
	}
	return problems
}

// noteLimits says what the limits are, and whether a start was measured.
func (w *World) noteLimits(sc drill.Scope, o preflightOptions) error {
	start, measured := w.start(o)
	findings := rules.Check(w.manifest)
	if measured {
		findings = rules.JudgeStart(w.manifest, w.Target.Name, start)
	}
	for _, f := range findings {
		if f.Rule != "K-PROBE" {
			continue
		}
		if err := sc.Emit(drill.TypeNote, drill.Note{Text: fmt.Sprintf("%s of %s/%s:%d: %s", f.Rule, f.Part, f.Path, f.Line, f.Message)}); err != nil {
			return err
		}
	}
	return nil
}

// borders refuses a run in which no class of traffic has a lawful target, and a copy
// or a state that would be lost with the source.
func (w *World) borders() []error {
	var problems []error
	problems = append(problems, w.lawless()...)
	if w.Target.Location == w.Source.Location {
		problems = append(problems, refuse(fmt.Errorf("source %s and target %s are the same store (%s): nothing would be proven", w.Source.Name, w.Target.Name, w.Target.Location), "give each region its own store in drkit.yaml"))
	}
	if w.Target.StateLocation == w.Source.Location || w.Target.StateLocation == w.Source.StateLocation {
		problems = append(problems, refuse(fmt.Errorf("the target's state lies in the source region's store (%s): it would be lost with it", w.Target.StateLocation), "set the target's state in drkit.yaml"))
	}
	return problems
}

// commands checks what will be launched, as far as it can be without launching.
func (w *World) commands() []error {
	var problems []error
	for _, r := range []*Region{&w.Source, &w.Target} {
		if r.Deployed != nil {
			continue // see launchable: its deploy files have to be read first
		}
		if drill.Live(w.Mode) && r != w.takesOver() {
			continue // no canary has to stand in for it; a step that boots one checks it
		}
		problems = append(problems, w.fromTheCopy(r)...)
		if err := w.Validate(w.spec(r, "preflight", nil)); err != nil {
			problems = append(problems, refuse(fmt.Errorf("canary command of region %s: %w", r.Name, err), errext.Hint(err)))
		}
	}
	if drill.Live(w.Mode) {
		return problems // no router is started
	}
	if err := w.Validate(w.routerSpec("preflight", "http://127.0.0.1:1")); err != nil {
		problems = append(problems, refuse(fmt.Errorf("rehearsal router: %w", err), errext.Hint(err)))
	}
	return problems
}

// fromTheCopy refuses a canary command that does not name what is restored: it
// would boot from somewhere else, and prove nothing of the copy.
func (w *World) fromTheCopy(r *Region) []error {
	text := strings.Join(r.Command, " ")
	if text == "" || strings.Contains(text, "{{dir}}") {
		return nil // without a command the launcher's own check says so
	}
	var problems []error
	if !strings.Contains(text, "{{model}}") {
		problems = append(problems, refuse(fmt.Errorf("canary command of region %s does not name the restored model", r.Name), "give {{model}} as the model, or {{dir}} for the whole restored release"))
	}
	for _, name := range w.Adapters {
		if placeholder := "{{adapter:" + name + "}}"; !strings.Contains(text, placeholder) {
			problems = append(problems, refuse(fmt.Errorf("canary command of region %s does not name the restored adapter %s", r.Name, name), "give "+placeholder+" as its folder"))
		}
	}
	return problems
}

// published loads the release from the target's own copy. A target that
// publishes another release than the source is behind: the drill says so and
// refuses, unless that release was asked for.
func (w *World) published(ctx context.Context) (*manifest.Manifest, error) {
	id := w.Release
	if id == "" {
		target, err := release.ReadCurrent(ctx, w.Target.State, w.Target.Name, w.Service)
		if err != nil {
			return nil, refuse(fmt.Errorf("reading what region %s publishes: %w", w.Target.Name, err), "drkit replicate publishes a release there")
		}
		if w.Mode == drill.ModeEmergency {
			return w.load(ctx, target.Release) // the source may be gone: it is not asked
		}
		source, err := release.ReadCurrent(ctx, w.Source.State, w.Source.Name, w.Service)
		if err != nil {
			return nil, refuse(fmt.Errorf("reading what region %s publishes: %w", w.Source.Name, err), "name the release with --release")
		}
		if source.Release != target.Release {
			return nil, refuse(fmt.Errorf("region %s publishes release %.12s, the source %.12s", w.Target.Name, target.Release, source.Release), "drkit replicate first, or name the release with --release")
		}
		id = target.Release
	}
	return w.load(ctx, id)
}

func (w *World) load(ctx context.Context, id string) (*manifest.Manifest, error) {
	m, err := release.Load(ctx, w.Target.Store, w.Service, id)
	if err != nil {
		return nil, refuse(fmt.Errorf("loading release %.12s from region %s: %w", id, w.Target.Name, err), "drkit verify names what is missing there")
	}
	return m, nil
}

// recorded reads the probes of the release and refuses a set that was recorded
// from another model or engine.
func (w *World) recorded(ctx context.Context, m *manifest.Manifest) (probes.ProbeSet, error) {
	for _, f := range m.Contents.Files {
		if f.Role != manifest.Probes {
			continue
		}
		data, err := readAll(ctx, w.Target.Store, release.Key(release.Prefix(w.Service, m.Release), f))
		if err != nil {
			return probes.ProbeSet{}, refuse(fmt.Errorf("reading the recorded probes: %w", err), "drkit replicate copies them")
		}
		set, err := probes.Decode(data)
		if err != nil {
			return set, refuse(fmt.Errorf("recorded probes %s: %w", f.Path, err), "record them anew with drkit probe record")
		}
		if subject := manifest.SubjectOf(m); set.Subject != subject {
			return set, refuse(fmt.Errorf("recorded probes %s belong to another model or engine (%.12s, this release is %.12s)", f.Path, set.Subject.Hex, subject.Hex), "record them anew with drkit probe record")
		}
		return set, errors.Join(w.sameName(set), everyAdapter(set, adapters(m)), beyondOriginal(set, m.Annotations.Model.OriginalLength()))
	}
	return probes.ProbeSet{}, refuse(errors.New("the release has no recorded probes: nobody could tell whether the answers are right"), "name a file as engine.probes, record it with drkit probe record, then release it: drkit manifest build -o m.json, drkit replicate --manifest m.json")
}

// sameName refuses probes that ask for a model under another name than the
// canaries will serve: every question would be answered 404.
func (w *World) sameName(set probes.ProbeSet) error {
	for _, p := range set.Probes {
		if p.Kind == probes.KindModels && !slices.Contains(p.Want.Models, w.Served) {
			return refuse(fmt.Errorf("the recorded probes ask for %v, the canaries serve %s", p.Want.Models, w.Served),
				"start the canary with --served-model-name and the name that production serves, or record the probes from an engine that serves "+w.Served)
		}
	}
	return nil
}

// everyAdapter refuses probes that never ask an adapter a question that it
// answers unlike its base: an adapter that is not applied would not be noticed.
func everyAdapter(set probes.ProbeSet, names []string) error {
	var missing []string
	for _, name := range names {
		if !slices.ContainsFunc(set.Probes, func(p probes.Probe) bool {
			return p.Kind == probes.KindCompletion && p.Model == name && p.DiffersFrom != ""
		}) {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return refuse(fmt.Errorf("the recorded probes do not show that these adapters are applied: %s", strings.Join(missing, ", ")),
		"record them anew with drkit probe record from an engine that serves every adapter, with questions that the adapter answers unlike its base")
}

// beyondOriginal refuses probes that stay within the length of unscaled positions: a
// scaling that is lost shows only beyond it. An engine that serves no longer prompts
// than that has nothing to lose.
func beyondOriginal(set probes.ProbeSet, original int) error {
	longest, served := 0, 0
	for _, p := range set.Probes {
		served = max(served, p.Want.MaxModelLen)
		if p.Kind == probes.KindCompletion && p.DiffersFrom == "" {
			longest = max(longest, len(p.Want.PromptIDs))
		}
	}
	if original == 0 || longest > original || served > 0 && served-1 <= original { // a prompt of served-1 tokens is the longest
		return nil
	}
	return refuse(fmt.Errorf("the model's positions are scaled beyond %d tokens, and the longest recorded prompt has %d: a lost scaling would not be noticed", original, longest),
		"record the probes anew with drkit probe record")
}

// readAll reads a small object whole.
func readAll(ctx context.Context, s store.ReadWriter, key string) ([]byte, error) {
	o, err := s.Stat(ctx, key)
	if err != nil {
		return nil, err
	}
	r, err := s.Open(ctx, o, 0, -1)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(io.LimitReader(r, 64<<20))
}

// refuse is a problem found before any change.
func refuse(err error, hint string) error {
	return errext.WithHint(errext.WithStatus(err, errext.Refused), hint)
}

// LockKey is the lock of a service's drills in a region. Replication has its own.
func LockKey(region, service string) string { return region + "/" + service + "/DRILL" }

func (p preflight) Do(ctx context.Context, s playbooks.Step, sc drill.Scope) error {
	o := preflightOptions{Production: p.w.asked(compare)}
	if err := errors.Join(s.Decode(&o), p.w.noteLimits(sc, o), p.w.noteDeployed(sc), p.w.sayClasses(sc), p.w.noteProduction(sc, o.Production), p.w.sayRemarks(sc)); err != nil {
		return err
	}
	key := LockKey(p.w.Target.Name, p.w.Service)
	u, err := ledger.LockArgs{Store: p.w.Target.StateLocation, Key: key, Run: sc.RunID()}.Undo()
	if err != nil {
		return err
	}
	began := time.Now().UTC()
	holder := ledger.Holder{Run: sc.RunID(), By: p.w.By, Since: began, Expires: began.Add(lockExpiry)}
	err = sc.Change(ctx, "lock of "+p.w.Service+" in region "+p.w.Target.Name, u, func(ctx context.Context) error {
		return ledger.Lock(ctx, p.w.Target.State, key, holder)
	})
	if err != nil {
		return refuse(err, errext.Hint(err))
	}
	return nil
}
