package discover

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"drkit/internal/errext"
)

// Choice is what becomes the model part of the service.
type Choice struct {
	Model    *Model    `json:"model"`            // nil when it is not in the folder
	Source   string    `json:"source,omitempty"` // hf://…, when it is not
	Why      string    `json:"why"`
	Adapters []Fitting `json:"adapters"`
	Drafts   []Model   `json:"drafts"`
}

// Fitting is an adapter with what is known of its base.
type Fitting struct {
	Adapter
	Fit
	Taken bool `json:"taken"`
}

// Choose says which model is the base. Several are for a person to choose from,
// unless what starts the engine names one. want is a path in the folder, a name, a
// hub id, or a place on the hub (hf://org/name@revision).
func (f *Found) Choose(want string) (*Choice, error) {
	c := &Choice{Adapters: []Fitting{}, Drafts: []Model{}}
	var err error
	switch {
	case strings.HasPrefix(want, "hf://"):
		c.Source, c.Why = want, "given with --model"
	case strings.Contains(want, "://"):
		return nil, usage(fmt.Errorf("--model %s is no place that can be read", want), "name a path in the folder, or hf://org/name@revision")
	case want != "":
		c.Model, err = f.wanted(want)
		c.Why = "given with --model"
	default:
		c.Model, c.Why, err = f.only()
	}
	if err != nil {
		return nil, err
	}
	for _, a := range f.Adapters {
		fit := f.fit(a, c.Model)
		c.Adapters = append(c.Adapters, Fitting{a, fit, fit.Fits == "yes"})
	}
	for _, m := range f.Models {
		if m.Draft && (c.Model == nil || m.Path != c.Model.Path) {
			c.Drafts = append(c.Drafts, m)
		}
	}
	return c, nil
}

func usage(err error, hint string) error {
	return errext.WithHint(errext.WithStatus(err, errext.Usage), hint)
}

func (f *Found) wanted(want string) (*Model, error) {
	rel := filepath.ToSlash(filepath.Clean(want))
	if filepath.IsAbs(want) {
		if r, err := filepath.Rel(f.Folder, want); err == nil {
			rel = filepath.ToSlash(r)
		}
	}
	var found []*Model
	for i := range f.Models {
		if m := &f.Models[i]; m.Path == rel {
			return m, nil
		} else if m.isCalled(want) || m.Name == want {
			found = append(found, m)
		}
	}
	if len(found) == 1 {
		return found[0], nil
	}
	if len(f.Models) == 0 {
		return nil, f.none()
	}
	return nil, usage(fmt.Errorf("--model %s is none of the model repositories in %s", want, f.Folder), "they are "+paths(f.Models))
}

// only is the one model that can be the base.
func (f *Found) only() (*Model, string, error) {
	bases := slices.DeleteFunc(slices.Clone(f.Models), func(m Model) bool { return m.Draft })
	if whole := slices.DeleteFunc(slices.Clone(bases), func(m Model) bool { return m.WeightFiles == 0 }); len(whole) > 0 {
		bases = whole
	}
	why := "the only model repository here"
	if len(bases) > 1 {
		if named := f.started(bases); len(named) == 1 {
			bases, why = named, "an engine is started with it"
		}
	}
	switch len(bases) {
	case 0:
		return nil, "", f.none()
	case 1:
		i := slices.IndexFunc(f.Models, func(m Model) bool { return m.Path == bases[0].Path })
		return &f.Models[i], why, nil
	}
	return nil, "", usage(fmt.Errorf("%s holds %d model repositories: %s", f.Folder, len(bases), paths(bases)), "choose the one that is served with --model PATH; one drkit.yaml describes one")
}

// started are the models that a deploy file starts an engine with.
func (f *Found) started(models []Model) []Model {
	return slices.DeleteFunc(slices.Clone(models), func(m Model) bool {
		return !slices.ContainsFunc(f.Deploy, func(d DeployFile) bool { return slices.ContainsFunc(d.Models, m.isCalled) })
	})
}

// none is the error of a folder without a model. What the engine is started with
// may say where it is.
func (f *Found) none() error {
	hint := "name the folder that holds the model (config.json beside its weights, a hub's cache, GGUF files), or give its place with --model hf://org/name@revision"
	for _, d := range f.Deploy {
		for _, m := range d.Models {
			if hubID.MatchString(m) {
				hint = fmt.Sprintf("%s starts an engine with %s: if that is on the hub, give --model hf://%s@REVISION", d.Path, m, m)
			}
		}
	}
	what := "no model repository"
	if len(f.Engines)+len(f.Deploy)+len(f.Adapters) == 0 {
		what = "nothing that a release is made of"
	}
	text := f.Folder + " holds " + what
	for _, n := range f.Notes {
		text += "; " + n.Path + ": " + n.Why
	}
	return usage(errors.New(text), hint)
}

var hubID = regexp.MustCompile(`^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$`)

func paths(models []Model) string {
	var all []string
	for _, m := range models {
		all = append(all, m.Path)
	}
	return strings.Join(all, ", ")
}

// Served is the name under which the model is served, when all places that name
// one agree; else "".
func (f *Found) Served() string {
	var all []string
	for _, e := range f.Engines {
		all = append(all, first(e.Served)...)
	}
	for _, d := range f.Deploy {
		all = append(all, first(d.Served)...)
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) == 1 {
		return all[0]
	}
	return ""
}

func first(names []string) []string { return names[:min(1, len(names))] }

// Kind is the engine: what deploy files start decides, then the versions that are
// named, then the configuration files. It is "" when they disagree or say nothing.
func (f *Found) Kind() string {
	var starts, versions, configs []string
	for _, d := range f.Deploy {
		starts = append(starts, d.Starts...)
	}
	for _, v := range f.Versions {
		versions = append(versions, v.Kind)
	}
	for _, e := range f.Engines {
		configs = append(configs, e.Kind)
	}
	for _, kinds := range [][]string{starts, versions, configs} {
		slices.Sort(kinds)
		if kinds = slices.Compact(kinds); len(kinds) == 1 {
			return kinds[0]
		} else if len(kinds) > 1 {
			return ""
		}
	}
	return ""
}

// VersionsOf are the different versions of an engine that the files name.
func (f *Found) VersionsOf(kind string) (all []Version) {
	for _, v := range f.Versions {
		if v.Kind == kind && !slices.ContainsFunc(all, func(o Version) bool { return o.Version == v.Version }) {
			all = append(all, v)
		}
	}
	return all
}

// Config is the configuration file that every region's engine is started with:
// the only one, or the only one that a deploy file names. candidates are all.
func (f *Found) Config(kind string) (chosen string, candidates []string) {
	var named []string
	for _, e := range f.Engines {
		if e.Kind != kind || e.Region != "" {
			continue
		}
		candidates = append(candidates, e.Path)
		if slices.ContainsFunc(f.Deploy, func(d DeployFile) bool {
			return slices.ContainsFunc(d.Configs, func(c string) bool { return path.Base(c) == path.Base(e.Path) })
		}) {
			named = append(named, e.Path)
		}
	}
	switch {
	case len(candidates) == 1:
		return candidates[0], candidates
	case len(named) == 1:
		return named[0], candidates
	}
	return "", candidates
}

// RegionNames are the regions that paths name, sorted.
func (f *Found) RegionNames() (names []string) {
	for _, e := range f.Engines {
		names = append(names, e.Region)
	}
	for _, d := range f.Deploy {
		names = append(names, d.Region)
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(s string) bool { return s == "" })
}
