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
	"drkit/internal/openai"
	"drkit/manifest"
	"drkit/manifest/probes"
)

// compare is what the preflight does with production unless it only reports.
const compare = "compare"

// Serving says what runs in production now. A place that cannot be seen has an
// error in its Running; an error of the call says that nothing could be seen at all.
type Serving interface {
	Running(ctx context.Context) ([]Running, error)
}

// Running is one engine or workload of production, as it says of itself. A zero field
// was not said, and is not compared.
type Running struct {
	Where       string // for people: "endpoint http://vllm-0:8000 (us-east-1)"
	Err         error  // why it could not be asked
	Base        string // id of the base model; "": it does not say which one is the base
	Adapters    []string
	MaxModelLen int
	Version     string   // of the engine
	Images      []string // digests of its containers, "sha256:…"
	Differs     []string // from the release, as whoever looked has seen
	Unsaid      []string // what whoever looked could not compare
}

// Endpoints is the Serving of engines that are asked over HTTP.
type Endpoints struct {
	HTTP func(url string) *openai.Client
	All  []Endpoint
}

// Endpoint is an engine in production.
type Endpoint struct{ Region, URL string }

// Running asks all of them at once.
func (e Endpoints) Running(ctx context.Context) ([]Running, error) {
	all := make([]Running, len(e.All))
	var asked sync.WaitGroup
	for i, one := range e.All {
		asked.Go(func() { all[i] = e.ask(ctx, one) })
	}
	asked.Wait()
	return all, nil
}

func (e Endpoints) ask(ctx context.Context, at Endpoint) Running {
	ctx, cancel := question(ctx)
	defer cancel()
	client := e.HTTP(at.URL)
	r := Running{Where: fmt.Sprintf("endpoint %s (%s)", at.URL, at.Region), Adapters: []string{}}
	models, err := client.Models(ctx)
	if err != nil {
		r.Err = err
		return r
	}
	standing := false
	for _, m := range models {
		standing = standing || strings.Contains(m.OwnedBy, standIn)
		if m.Parent != nil {
			r.Adapters = append(r.Adapters, m.ID)
			continue
		}
		if r.Base == "" {
			r.Base = m.ID
		}
		if m.MaxModelLen != nil {
			r.MaxModelLen = *m.MaxModelLen
		}
	}
	if r.Base == "" {
		r.Err = errors.New("it lists no model")
	}
	if version, err := client.Version(ctx); err == nil && !standing { // the stand-in's is drkit's own
		r.Version = version
	}
	return r
}

// compared is what a comparison with production found, and when.
type compared struct {
	at       time.Time
	equal    []string // places that run what the release says
	unknown  []string // places that could not be asked, or do not say something
	problems []error
}

// production compares what runs with the release. Nothing known is no agreement.
func (w *World) production(ctx context.Context) *compared {
	c := &compared{at: time.Now()}
	all := w.runningPods(ctx, c)
	if w.Serving != nil {
		more, err := w.Serving.Running(ctx)
		if err != nil {
			c.unknown = append(c.unknown, err.Error())
		}
		all = append(all, more...)
	} else if len(all) == 0 {
		c.unknown = append(c.unknown, "drkit.yaml names no endpoints of production (regions[].endpoints)")
	}
	for _, r := range all {
		w.compare(c, r)
	}
	return c
}

func (w *World) compare(c *compared, r Running) {
	if r.Err != nil {
		c.unknown = append(c.unknown, fmt.Sprintf("%s: %v", r.Where, r.Err))
		return
	}
	differences, unsaid := w.differs(r)
	for _, d := range differences {
		c.problems = append(c.problems, refuse(fmt.Errorf("production is not the release: %s: %s", r.Where, d),
			"release what production runs, or let production run the release; {production: report} only says what differs"))
	}
	if len(differences) > 0 {
		return
	}
	text := r.Where
	if len(unsaid) > 0 {
		text += ", which does not say " + strings.Join(unsaid, ", ")
	}
	c.equal = append(c.equal, text)
}

// runningPods looks at production's own pods where canaries are made from the deploy
// files. In an emergency the source is not asked.
func (w *World) runningPods(ctx context.Context, c *compared) (all []Running) {
	for _, r := range []*Region{&w.Source, &w.Target} {
		if r.Deployed == nil || r.Deployed.Running == nil || r == &w.Source && w.Mode == drill.ModeEmergency {
			continue
		}
		s, err := w.deployedSpec(ctx, r, "preflight")
		var found []Running
		if err == nil {
			found, err = r.Deployed.Running(ctx, s)
		}
		if err != nil {
			c.unknown = append(c.unknown, fmt.Sprintf("pods of region %s: %v", r.Name, err))
		}
		for _, one := range found {
			one.Where += " (" + r.Name + ")"
			all = append(all, one)
		}
	}
	return all
}

// differs compares one place with what the release and its recorded probes say.
func (w *World) differs(r Running) (differences, unsaid []string) {
	differences, unsaid = slices.Clone(r.Differs), slices.Clone(r.Unsaid)
	say := func(what string, known, equal bool, want, got any) {
		switch {
		case !known:
			unsaid = append(unsaid, what)
		case !equal:
			differences = append(differences, fmt.Sprintf("%s is %v, the release's %v", what, got, want))
		}
	}
	say("the served model", r.Base != "", r.Base == w.Served, w.Served, r.Base)
	want := adapters(w.manifest)
	got := slices.Sorted(slices.Values(r.Adapters))
	say("the list of adapters", r.Adapters != nil, slices.Equal(got, want), list(want), list(got))
	length := recordedLength(w.probes)
	say("max_model_len", r.MaxModelLen > 0 && length > 0, r.MaxModelLen == length, length, r.MaxModelLen)
	version := releaseVersion(w.manifest)
	say("the engine's version", r.Version != "" && version != "", sameVersion(r.Version, version), version, r.Version)
	images := imageDigests(w.manifest)
	if r.Images != nil {
		for _, digest := range r.Images {
			say("an image", len(images) > 0, slices.Contains(images, digest), list(images), digest)
		}
	}
	return differences, unsaid
}

func list(all []string) string {
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}

func recordedLength(set probes.ProbeSet) int {
	for _, p := range set.Probes {
		if p.Kind == probes.KindModels {
			return p.Want.MaxModelLen
		}
	}
	return 0
}

// releaseVersion is the engine's version where the release says one, and only one.
func releaseVersion(m *manifest.Manifest) (version string) {
	for _, e := range m.Annotations.Engine {
		if version != "" && e.Version != version {
			return ""
		}
		version = e.Version
	}
	return version
}

// sameVersion leaves out what a build adds: 0.32.0+cpu is 0.32.0.
func sameVersion(a, b string) bool {
	plain := func(v string) string {
		v, _, _ = strings.Cut(strings.TrimPrefix(v, "v"), "+")
		return v
	}
	return plain(a) == plain(b)
}

// imageDigests are those that the release's images may have on a node: as pinned, as
// resolved at the build, and of each platform.
func imageDigests(m *manifest.Manifest) (all []string) {
	for _, i := range m.Contents.Images {
		if i.Digest.Hex != "" {
			all = append(all, i.Digest.String())
		}
	}
	for _, i := range m.Annotations.Images {
		all = append(all, i.Resolved.String())
		for _, p := range i.Platforms {
			all = append(all, p.Digest.String())
		}
	}
	return all
}

// noteProduction journals what was compared and how long ago; only what was seen to be
// equal is a gate.
func (w *World) noteProduction(sc drill.Scope, mode string) error {
	c := w.compared
	if c == nil {
		return nil
	}
	age := fmt.Sprintf("compared at %s, %v before this was written", c.at.UTC().Format(time.RFC3339), time.Since(c.at).Round(time.Millisecond))
	var errs []error
	note := func(text string) { errs = append(errs, sc.Emit(drill.TypeNote, drill.Note{Text: text})) }
	for _, u := range c.unknown {
		note("what production runs is not known: " + u)
	}
	if mode == reportOnly {
		for _, p := range c.problems {
			note(p.Error() + "; " + age)
		}
	}
	if len(c.equal) > 0 && len(c.problems) == 0 {
		errs = append(errs, gate(sc, drill.Gate{ID: "production", Title: "production runs the release", Expected: "each place that answers serves the release's model, adapters, length and engine",
			Observed: first(c.equal, 3), Result: drill.Passed, Evidence: "what they say of themselves; " + age}))
	}
	return errors.Join(errs...)
}
