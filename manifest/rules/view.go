package rules

import (
	"path"
	"slices"
	"strings"

	"drkit/manifest"
	"drkit/manifest/model"
)

// view is a manifest prepared for the rules.
type view struct {
	m        *manifest.Manifest
	base     *repo
	repos    []*repo // base and drafts
	adapters []*adapter
}

// folder is one folder of the model part.
type folder struct {
	tree     string                        // base, adapters/NAME, drafts/NAME
	files    map[string]manifest.File      // by path in the folder
	problems map[string][]manifest.Problem // by path in the folder
}

// repo is a model repository in the model part.
type repo struct {
	folder
	facts  *model.Facts
	draft  bool
	format string          // ending of the weights that the engine loads; "" when there are none
	loaded map[string]bool // weight files that the engine loads
	// tensors of the loaded shards, and the shard of each
	tensors map[string]model.Tensor
	shardOf map[string]string
}

// adapter is a LoRA adapter in the model part.
type adapter struct {
	folder
	facts model.Adapter
}

func newView(m *manifest.Manifest) *view {
	v := &view{m: m}
	facts := m.Annotations.Model
	if facts == nil {
		facts = &model.Facts{}
	}
	v.base = newRepo(m, "base", facts, v)
	v.repos = []*repo{v.base}
	for _, d := range m.Annotations.Drafts {
		if d.Facts != nil {
			r := newRepo(m, "drafts/"+d.Name, d.Facts, v)
			r.draft = true
			v.repos = append(v.repos, r)
		}
	}
	for _, a := range m.Annotations.Adapters {
		v.adapters = append(v.adapters, &adapter{folder: newFolder(m, "adapters/"+a.Name), facts: a})
	}
	return v
}

func newFolder(m *manifest.Manifest, tree string) folder {
	f := folder{tree: tree, files: map[string]manifest.File{}, problems: map[string][]manifest.Problem{}}
	for _, file := range m.Contents.Files {
		if p, ok := strings.CutPrefix(file.Path, tree+"/"); ok && file.Part == manifest.Model {
			f.files[p] = file
		}
	}
	for _, problem := range m.Annotations.Problems {
		if p, ok := strings.CutPrefix(problem.Path, tree+"/"); ok && problem.Part == manifest.Model {
			f.problems[p] = append(f.problems[p], problem)
		}
	}
	return f
}

// path is the path in the model part of a path in the folder.
func (f folder) path(p string) string { return f.tree + "/" + p }

// present reports whether a name is there at all, sound or not: what is there
// but broken has a finding of its own.
func (f folder) present(p string) bool {
	_, ok := f.files[p]
	return ok || f.broken(p)
}

// broken reports whether the file has a problem that keeps it from being read.
func (f folder) broken(p string) bool {
	return slices.ContainsFunc(f.problems[p], func(p manifest.Problem) bool { return p.Kind != "path-not-nfc" })
}

// names lists every name directly in the folder, broken ones too, sorted.
func (f folder) names() []string {
	set := map[string]bool{}
	for p := range f.files {
		set[p] = true
	}
	for p := range f.problems {
		set[p] = true
	}
	var out []string
	for p := range set {
		if !strings.Contains(p, "/") {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

// problem returns the problem of one of the given kinds at a path.
func (f folder) problem(p string, kinds ...string) (manifest.Problem, bool) {
	for _, problem := range f.problems[p] {
		if slices.Contains(kinds, problem.Kind) {
			return problem, true
		}
	}
	return manifest.Problem{}, false
}

func newRepo(m *manifest.Manifest, tree string, facts *model.Facts, v *view) *repo {
	r := &repo{folder: newFolder(m, tree), facts: facts, loaded: map[string]bool{},
		tensors: map[string]model.Tensor{}, shardOf: map[string]string{}}
	r.load(v.option("load_format"))
	for _, s := range facts.Weights.Shards {
		if r.loaded[s.Path] {
			for name, t := range s.Tensors {
				r.tensors[name], r.shardOf[name] = t, s.Path
			}
		}
	}
	return r
}

// load decides which weight files the engine reads: safetensors before .bin
// before .pt, in the root only; with an index, of the safetensors files those
// that it names.
func (r *repo) load(format string) {
	endings := []string{".safetensors", ".bin", ".pt"}
	switch format {
	case "safetensors", "fastsafetensors", "runai_streamer":
		endings = endings[:1]
	case "pt":
		endings = endings[2:]
	}
	for _, ending := range endings {
		for _, name := range r.names() {
			if path.Ext(name) == ending && model.Role(name) == "weights" {
				r.format, r.loaded[name] = ending, true
			}
		}
		if r.format != "" {
			break
		}
	}
	ix := r.facts.Weights.Index
	if r.format != ".safetensors" || ix == nil || format == "runai_streamer" {
		return
	}
	for name := range r.loaded {
		if !slices.Contains(ix.Files, name) {
			delete(r.loaded, name)
		}
	}
}

// incomplete reports whether a weight file that the engine would read is broken
// or missing: then missing tensors have that cause.
func (r *repo) incomplete() bool {
	for name := range r.loaded {
		if r.broken(name) {
			return true
		}
	}
	return len(r.missingOfIndex()) > 0 || len(r.missingOfFamily()) > 0 || r.broken(model.IndexName)
}

// quantized reports whether the engine would load packed weights: then it does
// not track which weights it has initialised, and a loss is silent.
func (r *repo) quantized() bool {
	q := r.facts.Quantization
	return q != nil && q.Source != "" && q.Method != ""
}

// lost is the severity of a tensor that no shard holds. Only the loss of a norm
// in an unquantized model keeps the engine from booting.
func (r *repo) lost(norm bool) manifest.Severity {
	if norm && !r.quantized() {
		return manifest.Block
	}
	return manifest.Silent
}

// option is an engine option as text, of the first region that sets it; "" when
// none does.
func (v *view) option(name string) string {
	value, ok := v.optionValue(name)
	if s, isText := value.(string); ok && isText {
		return s
	}
	return ""
}

func (v *view) optionValue(name string) (any, bool) {
	for _, e := range v.m.Annotations.Engine {
		if value, ok := e.Options[name]; ok && value != nil {
			return value, true
		}
	}
	return nil, false
}

// integer is an engine option as a whole number; engine facts that passed
// through JSON hold float64.
func (v *view) integer(name string) (int, bool) {
	value, ok := v.optionValue(name)
	if !ok {
		return 0, false
	}
	switch n := value.(type) {
	case int:
		return n, true
	case int64:
		return int(n), true
	case float64:
		return int(n), true
	}
	return 0, false
}

func (v *view) truth(name string) bool {
	value, _ := v.optionValue(name)
	b, _ := value.(bool)
	return b
}
