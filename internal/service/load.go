package service

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"drkit/internal/errext"
	"drkit/internal/strictyaml"
)

// Load reads the drkit.yaml at path. Its error carries the status errext.Usage
// and holds *strictyaml.Errors when the content is wrong.
func Load(path string) (*Service, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		hint := "give the file with -f"
		if errors.Is(err, fs.ErrNotExist) {
			hint = "drkit init writes one for what is in a folder; else go to its folder, or name it with -f (docs/drkit-yaml.md)"
		}
		err = fmt.Errorf("reading the service file: %w", err)
		return nil, errext.WithStatus(errext.WithHint(err, hint), errext.Usage)
	}
	return Parse(data, path)
}

// Parse reads data as the drkit.yaml at path; relative paths start from path's folder.
func Parse(data []byte, path string) (*Service, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("finding the folder of %s: %w", path, err)
	}
	doc := strictyaml.Parse(data, path)
	if !rightHeader(doc) {
		return nil, doc.Err()
	}
	s := &Service{File: path, Dir: filepath.Dir(abs)}
	doc.Decode(s)
	if doc.Readable() {
		s.setDefaults(doc)
		s.resolve()
		validate(doc, s)
	}
	if err := doc.Err(); err != nil {
		return nil, err
	}
	s.unused = findUnused(doc)
	return s, nil
}

// rightHeader refuses a file of another version or kind before the rest is read:
// what follows would only be noise.
func rightHeader(doc *strictyaml.Document) bool {
	if v, ok := doc.Scalar("apiVersion"); ok && v != APIVersion {
		doc.Report("apiVersion", fmt.Sprintf("%q is not a version that this drkit reads", v), "it reads "+APIVersion)
		return false
	}
	switch k, ok := doc.Scalar("kind"); {
	case !ok || k == "Service":
		return true
	case k == "Fleet":
		doc.Report("kind", "Fleet is reserved for a later version", "write one file of kind Service for each service, and give several with -f")
	case k == "Playbook":
		doc.Report("kind", "this is a playbook, not a service", "name it under playbook: in drkit.yaml")
	default:
		doc.Report("kind", fmt.Sprintf("%q is not Service", k), "is this the right file?")
	}
	return false
}

// setDefaults fills in what docs/drkit-yaml.md states as defaults.
func (s *Service) setDefaults(doc *strictyaml.Document) {
	fill(&s.Engine.Kind, "vllm")
	fill(&s.Rehearsal.Source, "canary")
	fill(&s.Rehearsal.Router.Driver, "vllm-router")
	fill(&s.Playbook, "rehearsal")
	fill(&s.Approvals.Required, 1)
	fill(&s.Approvals.Self, "refused")
	for i := range s.Approvals.Keys {
		fill(&s.Approvals.Keys[i].User, s.Approvals.Keys[i].Name)
	}
	if s.Run.Dir.IsZero() {
		s.Run.Dir = Location{Raw: ".drkit", Scheme: SchemeFile, Path: ".drkit"}
	}
	s.Objectives.setDefaults(doc)
	for i := range s.Regions {
		s.Regions[i].setDefaults()
	}
	for i := range s.Traffic {
		fill(&s.Traffic[i].Shape, ShapeText)
	}
	if len(s.Traffic) == 1 && !doc.Has("traffic[0].share") {
		s.Traffic[0].Share = 1
	}
	for i := range s.Waivers {
		s.Waivers[i].Line = doc.Line(fmt.Sprintf("waivers[%d]", i))
	}
}

// setDefaults leaves alone what was written: an error rate of 0 is a promise.
func (o *Objectives) setDefaults(doc *strictyaml.Document) {
	fill(&o.RTO, 30*time.Minute)
	if !doc.Has("objectives.error_rate") {
		o.ErrorRate = 0.01
	}
	fill(&o.Steady.Windows, 3)
	fill(&o.Steady.Window, 10*time.Second)
	fill(&o.Steady.MinRequests, 100)
	if !doc.Has("objectives.steady.load") {
		o.Steady.Load = 0.2
	}
	if !doc.Has("objectives.must_prove") {
		o.MustProve = []string{"copy", "boot", "behaviour", "router"}
	}
}

func (r *Region) setDefaults() {
	fill(&r.Layout, "drkit")
	fill(&r.S3.Checksums, "auto")
	fill(&r.Canary.Launcher, "process")
	if r.Canary.Launcher == "kubernetes" {
		fill(&r.Canary.Weights, "as-deployed")
		fill(&r.Canary.Reach, "port-forward")
	}
	fill(&r.Canary.Weights, "restore")
	if r.State.IsZero() && (r.Store.Scheme == SchemeFile || r.Store.Scheme == SchemeS3) {
		r.State = r.Store.Join(".drkit")
	}
	r.reach()
}

// fill sets a value that was not written.
func fill[T comparable](v *T, otherwise T) {
	var zero T
	if *v == zero {
		*v = otherwise
	}
}

// resolve makes the file's paths absolute.
func (s *Service) resolve() {
	all := []*Location{&s.Model.Source, &s.Engine.Probes, &s.Run.Dir, &s.Run.Ledger}
	for _, list := range [][]Extra{s.Model.Adapters, s.Model.Drafts} {
		for i := range list {
			all = append(all, &list[i].Source)
		}
	}
	for i := range s.Model.Repositories {
		all = append(all, &s.Model.Repositories[i].Source)
	}
	for i := range s.Regions {
		all = append(all, &s.Regions[i].Store, &s.Regions[i].State)
	}
	for _, l := range all {
		l.resolve(s.Dir)
	}
}

// Unused lists what the file says and nothing in this version uses, by line.
func (s *Service) Unused() []Note { return slices.Clone(s.unused) }
