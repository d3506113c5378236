package step

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"drkit/drill"
	"drkit/drill/bootlog"
	"drkit/internal/errext"
	"drkit/manifest"
	"drkit/manifest/release"
)

// Deployed is how a region's canary is made from the release's deploy files, by the
// path that production uses: nothing is restored for it.
type Deployed struct {
	Launcher drill.Launcher
	// Check finds all problems of a launch before the clock; notes are what could not
	// be seen.
	Check func(ctx context.Context, s drill.Spec) (notes []string, err error)
	Local bool // the canary is reached from this machine alone: no router of production can
	// Running looks at production's own pods; nil: nobody does.
	Running func(ctx context.Context, s drill.Spec) ([]Running, error)
	Undo    func(run, name, log string) (drill.Undo, error)
	// Serves is the model's name in the command that the canary will run, "" where it
	// says none: a template in the files may hold a placeholder. nil: the files say it.
	Serves func(s drill.Spec) string
	// Images names each image of the release by digest in the region's registry, by
	// its reference in the files.
	Images func(m *manifest.Manifest) (map[string]string, error)

	notes []string
}

// leftOf lists what is left of a run, wherever it launched something.
func (w *World) leftOf(ctx context.Context, run string) ([]drill.Replica, error) {
	all, err := w.Launcher.Find(ctx, run)
	for _, r := range []*Region{&w.Source, &w.Target} {
		if r.Deployed != nil {
			more, failed := r.Deployed.Launcher.Find(ctx, run)
			all, err = append(all, more...), errors.Join(err, failed)
		}
	}
	return all, err
}

// toLaunch is everything that starts a region's canary.
func (w *World) toLaunch(ctx context.Context, r *Region, run string) (s drill.Spec, l drill.Launcher, u drill.Undo, err error) {
	if r.Deployed == nil {
		s = w.spec(r, run, nil)
		u, err = w.UndoLaunch(run, s.Name)
		return s, w.Launcher, u, err
	}
	if s, err = w.deployedSpec(ctx, r, run); err != nil {
		return s, nil, u, err
	}
	u, err = r.Deployed.Undo(run, s.Name, s.LogPath)
	return s, r.Deployed.Launcher, u, err
}

// deployedSpec hands the launcher the deploy files as the region's own copy has them.
func (w *World) deployedSpec(ctx context.Context, r *Region, run string) (drill.Spec, error) {
	return w.deployedFrom(ctx, w.manifest, r, run)
}

func (w *World) deployedFrom(ctx context.Context, m *manifest.Manifest, r *Region, run string) (drill.Spec, error) {
	s := drill.Spec{Run: run, Name: w.replicaName(r), Served: w.Served, Env: r.Env, LogPath: filepath.Join(w.WorkDir, w.replicaName(r)+".log")}
	prefix := release.Prefix(w.Service, m.Release)
	for _, f := range m.Contents.Files {
		if f.Part != manifest.Deploy || f.Role != manifest.Kubernetes || f.Region != "" && f.Region != r.Name {
			continue
		}
		data, err := readAll(ctx, r.Store, release.Key(prefix, f))
		if err != nil {
			return s, fmt.Errorf("reading %s from region %s: %w", f.Subject(), r.Name, err)
		}
		sum := sha256.Sum256(data)
		if hex.EncodeToString(sum[:]) != f.Sums["sha256"] {
			return s, errext.WithHint(errext.WithStatus(fmt.Errorf("%s in region %s is not the release's file", f.Subject(), r.Name), errext.Gate), "drkit verify --level content, then drkit replicate")
		}
		s.Deploy = append(s.Deploy, drill.DeployFile{Region: f.Region, Path: f.Path, Data: data})
	}
	for _, p := range m.Annotations.Pods {
		if p.Region == "" || p.Region == r.Name {
			s.Engines = append(s.Engines, drill.DeployEngine{Path: p.Path, Kind: p.Kind, Name: p.Name, Container: p.Container.Name})
		}
	}
	var err error
	s.Images, err = r.Deployed.Images(m)
	return s, err
}

// launchable checks the launches that are made from deploy files.
func (w *World) launchable(ctx context.Context) (problems []error) {
	for _, r := range []*Region{&w.Source, &w.Target} {
		if r == w.takesOver() || !drill.Live(w.Mode) { // else a step that boots it checks it
			problems = append(problems, w.launchableIn(ctx, r)...)
		}
	}
	return problems
}

func (w *World) launchableIn(ctx context.Context, r *Region) (problems []error) {
	if r.Deployed == nil {
		return nil
	}
	s, err := w.deployedSpec(ctx, r, "preflight")
	if err == nil {
		r.Deployed.notes, err = r.Deployed.Check(ctx, s)
	}
	for _, one := range parts(err) {
		problems = append(problems, refuse(fmt.Errorf("canary of region %s: %w", r.Name, one), errext.Hint(one)))
	}
	if drill.Live(w.Mode) && r.Deployed.Local && r == &w.Target && len(w.Production.Target) == 0 {
		problems = append(problems, refuse(fmt.Errorf("production's routers would be sent to the canary of region %s, which is reached through this machine alone", r.Name), "name the region's endpoints, or write canary.reach: direct where the routers reach pods"))
	}
	return problems
}

// parts are the errors that were joined into one: on one line nothing would stand between
// them.
func parts(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, one := range joined.Unwrap() {
		all = append(all, parts(one)...)
	}
	return all
}

// noteDeployed tells what the checks of a launch could not see.
func (w *World) noteDeployed(sc drill.Scope) error {
	for _, r := range []*Region{&w.Source, &w.Target} {
		if r.Deployed == nil {
			continue
		}
		for _, n := range r.Deployed.notes {
			if err := sc.Emit(drill.TypeNote, drill.Note{Text: "canary of region " + r.Name + ": " + n}); err != nil {
				return err
			}
		}
	}
	return nil
}

// serveAsDeployed takes the served model's name from the rendering of the region that
// takes over: that is what its canary will answer to. What cannot be rendered is said by
// the check of the launch.
func (w *World) serveAsDeployed(ctx context.Context, m *manifest.Manifest) {
	over := w.takesOver()
	if over.Deployed == nil {
		return
	}
	if over.Deployed.Serves != nil {
		if s, err := w.deployedFrom(ctx, m, over, "preflight"); err == nil {
			if name := over.Deployed.Serves(s); name != "" {
				w.Served = name
				return
			}
		}
	}
	for _, own := range []string{over.Name, ""} {
		for _, e := range m.Annotations.Engine {
			if e.Region != own || e.Source == "" {
				continue
			}
			if name := servedName(e); name != "" {
				w.Served = name
				return
			}
		}
	}
}

// servedName is what an engine answers to: the first of its served names, else the
// model as it was given.
func servedName(e manifest.EngineFacts) string {
	switch v := e.Options["served_model_name"].(type) {
	case string:
		return v
	case []any:
		if len(v) > 0 {
			name, _ := v[0].(string)
			return name
		}
	}
	return e.Model
}

// bootedFrom says what a boot proves of the copy.
func (w *World) bootedFrom(r *Region) string {
	if r.Deployed != nil {
		return "a canary booted in " + r.Name + " as deployed, with the weights that production's own path gives it there; that they are the release's, its answers show"
	}
	return "a canary booted from what was restored from " + r.Name + "'s copy"
}

// trouble is what the platform says is wrong with a canary.
func (r *replica) trouble() (drill.Trouble, bool) {
	if t, ok := r.Replica.(drill.Troubled); ok {
		return t.Trouble()
	}
	return drill.Trouble{}, false
}

// whole says what a canary of several parts still lacks.
func (r *replica) whole() error {
	if c, ok := r.Replica.(drill.Composite); ok {
		return c.Whole()
	}
	return nil
}

// errTrouble says that the platform will not start the canary.
var errTrouble = errors.New("the canary cannot start")

// platformWatch tells what the platform says while a canary starts.
type platformWatch struct {
	replica *replica
	target  bool // the region whose recovery is timed
	sc      drill.Scope
	told    []string
	last    time.Time // of the instants that were stamped
}

// look stamps the instants that the platform has shown, tells each new trouble once,
// and ends the boot at one that waiting does not change.
func (p *platformWatch) look() error {
	if err := p.stamp(time.Now()); err != nil {
		return err
	}
	t, ok := p.replica.trouble()
	if !ok {
		return nil
	}
	if t.Fatal {
		return fmt.Errorf("%w: %s: %s", errTrouble, t.Class, t.Line)
	}
	if p.once(t.Class) {
		return p.sc.Emit(drill.TypeNote, drill.Note{Text: fmt.Sprintf("%s waits: %s: %s (%s)", p.replica.name, t.Class, t.Line, t.Hint)})
	}
	return nil
}

// stamp stamps the instants that the platform has shown, none later than latest.
func (p *platformWatch) stamp(latest time.Time) error {
	if !p.target {
		return nil
	}
	for _, stone := range p.milestones() {
		if !p.once("instant " + stone.Name) {
			continue
		}
		p.last = earlier(stone.At, latest)
		if err := p.sc.Emit(drill.TypeInstant, drill.Instant{Name: stone.Name, At: p.sc.Mono(p.last), Cached: stone.Cached}); err != nil {
			return err
		}
	}
	return nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func (p *platformWatch) milestones() []drill.Milestone {
	if m, ok := p.replica.Replica.(drill.Milestones); ok {
		return m.Milestones()
	}
	return nil
}

func (p *platformWatch) once(what string) bool {
	if slices.Contains(p.told, what) {
		return false
	}
	p.told = append(p.told, what)
	return true
}

// loaded stamps what a canary as deployed had before it served: its place and images,
// of which the platform's word may come a moment late, and its weights, as its log says.
// None is stamped later than the moment since which it serves, and the weights not
// before the images.
func (p *platformWatch) loaded(ctx context.Context, watch *logWatch, ready time.Time) error {
	if p.replica.region.Deployed == nil {
		return nil
	}
	briefly(ctx, lag, func() bool {
		return slices.ContainsFunc(p.milestones(), func(m drill.Milestone) bool { return m.Name == drill.InstantImage })
	})
	if err := p.stamp(ready); err != nil {
		return err
	}
	if err := p.look(); err != nil {
		return errext.WithStatus(err, errext.Gate)
	}
	if !p.target {
		return nil
	}
	at, ok := watch.endOf(bootlog.PhaseWeights)
	if !ok {
		return p.sc.Emit(drill.TypeNote, drill.Note{Text: "when " + p.replica.name + " had its weights is not known: its log does not say it"})
	}
	if at.Before(p.last) {
		at = p.last
	}
	return p.sc.Emit(drill.TypeInstant, drill.Instant{Name: drill.InstantWeights, At: p.sc.Mono(at)})
}
