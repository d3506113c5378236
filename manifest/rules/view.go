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
	others   []*repo // further repositories that the model takes code or files from
	adapters []*adapter
}

type engineFacts = manifest.EngineFacts

// folder is one folder of the model part.
type folder struct {
	tree     string                        // base, adapters/NAME, drafts/NAME, repos/ORG/NAME
	files    map[string]manifest.File      // by path in the folder
	problems map[string][]manifest.Problem // by path in the folder
	inRoot   []string                      // names directly in the folder, broken ones too, sorted
	sourced  []manifest.Problem            // how the folder contradicts what its source states
}

// repo is a model repository in the model part.
type repo struct {
	folder
	facts   *model.Facts
	draft   bool
	format  string                             // ending of the weights that the engine loads; "" when there are none
	loaded  map[string]bool                    // weight files that the engine loads
	gaps    []incompleteFamily                 // computed once: see incompleteFamilies
	bits    bool                               // packed weights are for other bits than the config states
	foreign string                             // see consolidated
	grouped map[string]map[string]map[int]bool // see families
	// mistral says that the engine reads the repository in Mistral's form:
	// params.json and the consolidated weights.
	mistral bool
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
	for _, f := range m.Annotations.Further {
		if f.Facts != nil {
			v.others = append(v.others, newRepo(m, "repos/"+f.Name, f.Facts, v))
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
		p, ok := strings.CutPrefix(problem.Path, tree+"/")
		switch {
		case !ok || problem.Part != manifest.Model:
		case aboutSource(problem):
			f.sourced = append(f.sourced, problem)
		default:
			f.problems[p] = append(f.problems[p], problem)
		}
	}
	f.inRoot = f.rootNames()
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
func (f folder) names() []string { return f.inRoot }

func (f folder) rootNames() (out []string) {
	for p := range f.files {
		if !strings.Contains(p, "/") {
			out = append(out, p)
		}
	}
	for p := range f.problems {
		if _, file := f.files[p]; !file && !strings.Contains(p, "/") {
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
	r.foreign = r.findConsolidated()
	r.mistral = r.consolidated() != "" && r.present("params.json") && v.mistralAllowed()
	r.load(v.option("load_format"))
	r.gaps = r.findFamilies()
	for _, s := range facts.Weights.Shards {
		if r.loaded[s.Path] {
			for name, t := range s.Tensors {
				r.tensors[name], r.shardOf[name] = t, s.Path
			}
		}
	}
	r.bits = facts.Quantization != nil && len(r.otherBits(facts.Quantization)) > 0
	return r
}

// load decides which weight files the engine reads: safetensors before .bin
// before .pt, in the root only; with an index, of the safetensors files those
// that it names.
func (r *repo) load(format string) {
	if first := r.consolidated(); first != "" && slices.Contains([]string{"", "auto", "mistral"}, format) {
		for _, name := range r.names() {
			if strings.HasPrefix(name, "consolidated") && path.Ext(name) == ".safetensors" {
				r.format, r.loaded[name] = ".safetensors", true
			}
		}
		return
	}
	endings := []string{".safetensors", ".bin", ".pt"}
	switch format {
	case "safetensors", "fastsafetensors", "instanttensor", "runai_streamer":
		endings = endings[:1]
	case "pt":
		endings = endings[2:]
	case "npcache":
		endings = endings[1:2]
	case "mistral":
		endings = nil
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
		if _, named := slices.BinarySearch(ix.Files, name); !named {
			delete(r.loaded, name)
		}
	}
	if len(r.loaded) == 0 {
		r.format = "" // the files that it names lie elsewhere
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

// mistralAllowed reports whether the engine's options leave the choice of
// Mistral's form to the repository.
func (v *view) mistralAllowed() bool {
	config, weights := v.option("config_format"), v.option("load_format")
	return (config == "" || config == "auto" || config == "mistral") && (weights == "" || weights == "auto" || weights == "mistral")
}
