package rules

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"drkit/manifest"
	"drkit/manifest/model"
)

var weightRules = []Rule{
	{"W-1", manifest.Block, "there are no weights",
		"The repository holds weights in the format that the engine loads.", noWeights},
	{"W-2", manifest.Block, "a shard of the index is missing",
		"Every file that the index names is there, by exactly that name.", missingShard},
	{"W-3", manifest.Block, "a numbered shard is missing",
		"Files named NNNNN-of-MMMMM are all there.", missingNumber},
	{"W-4", manifest.Silent, "a tensor is in no shard",
		"Every tensor that the architecture needs is in a shard, in the shape that config.json gives.", missingTensor},
	{"W-7", manifest.Silent, "a tensor is in two files that are both loaded",
		"Without an index, no tensor stands in two safetensors files.", tensorTwice},
	{"W-9", manifest.Block, "there are no pre-sharded weights",
		"With --load-format sharded_state, the weights are files model-rank-R-part-P.safetensors.", notPresharded},
	{"W-14", manifest.Silent, "the output layer is missing",
		"A model whose embeddings are not tied has lm_head.", missingHead},
	{"W-15", manifest.Silent, "a whole layer is missing",
		"There are tensors for each of num_hidden_layers layers.", missingLayer},
	{"T-5", manifest.Silent, "consolidated weights hide the others",
		"consolidated*.safetensors stands only beside its own params.json.", consolidated},
}

// otherLoader reports whether weights come by a way that these rules do not know.
func (v *view) otherLoader() bool {
	switch v.option("load_format") {
	case "", "auto", "hf", "safetensors", "fastsafetensors", "pt", "runai_streamer":
		return false
	}
	return true
}

func noWeights(v *view) (out []manifest.Finding) {
	for _, r := range v.repos {
		if v.otherLoader() || r.format != "" || r.ggufOnly() || r.consolidated() != "" || len(r.missingOfIndex()) > 0 || r.draft && r.facts.Config == nil {
			continue
		}
		f := manifest.Finding{Path: r.tree, Message: fmt.Sprintf("there is no weight file directly in %s", r.tree),
			Seen: "Cannot find any model weights with `…`", Hint: "copy the weights from the model's origin"}
		if format := v.option("load_format"); format != "" && format != "auto" {
			f.Message = fmt.Sprintf("there is no weight file for --load-format %s directly in %s", format, r.tree)
			f.Hint = "remove --load-format, or copy the weights in that format"
		}
		out = append(out, f)
	}
	return out
}

// missingOfIndex lists the files that the index names and that are not there.
func (r *repo) missingOfIndex() (out []string) {
	ix := r.facts.Weights.Index
	if ix == nil || r.format == ".bin" || r.format == ".pt" {
		return nil
	}
	for _, name := range ix.Files {
		if !r.present(name) {
			out = append(out, name)
		}
	}
	return out
}

func missingShard(v *view) (out []manifest.Finding) {
	for _, r := range v.repos {
		if p, ok := r.problem(model.IndexName, model.KindInvalidIndex); ok {
			out = append(out, manifest.Finding{Path: p.Path, Message: p.What, Seen: "json.decoder.JSONDecodeError", Hint: "copy the index again from the model's origin"})
		}
		for _, name := range r.missingOfIndex() {
			ix := r.facts.Weights.Index
			tensors := 0
			for _, file := range ix.Elsewhere {
				if file == name {
					tensors++
				}
			}
			out = append(out, manifest.Finding{Path: r.path(name), Seen: "Weight files referenced in index but missing: {…}",
				Message: fmt.Sprintf("the index names %d files, this one with %d tensors is missing%s", len(ix.Files), tensors, r.almost(name)),
				Hint:    "copy the shard from the model's origin, under exactly this name"})
		}
	}
	return out
}

// almost names a file that looks like the missing one.
func (r *repo) almost(name string) string {
	for _, n := range r.names() {
		plain := path.Clean(strings.TrimSuffix(strings.TrimSuffix(n, ".incomplete"), ".part"))
		if n != name && strings.EqualFold(plain, path.Clean(name)) {
			return fmt.Sprintf("; there is %s, a name the engine does not take for it", n)
		}
	}
	return ""
}

var numbered = regexp.MustCompile(`^(.+)-(\d{5})-of-(\d{5})\.(safetensors|bin)$`)

// family is what the numbered names of one set of files have in common.
type family struct{ prefix, total, ending string }

func (f family) name(i int) string {
	return fmt.Sprintf("%s-%05d-of-%s.%s", f.prefix, i, f.total, f.ending)
}

// missingOfFamily lists the members that a family of numbered files lacks, of
// the families that the engine loads.
func (r *repo) missingOfFamily() (out []string) {
	have, families := map[string]bool{}, map[family]int{}
	for _, name := range r.names() {
		m := numbered.FindStringSubmatch(name)
		if m == nil || "."+m[4] != r.format {
			continue
		}
		have[name] = true
		if total, err := strconv.Atoi(m[3]); err == nil && r.loaded[name] {
			families[family{m[1], m[3], m[4]}] = total
		}
	}
	named := r.missingOfIndex()
	for f, total := range families {
		for i := 1; i <= total && len(out) < maxMissing; i++ {
			if name := f.name(i); !have[name] && !slices.Contains(named, name) {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out
}

// maxMissing bounds the findings on one repository.
const maxMissing = 1000

func missingNumber(v *view) (out []manifest.Finding) {
	for _, r := range v.repos {
		missing := r.missingOfFamily()
		for _, name := range missing {
			f := manifest.Finding{Severity: r.lost(true), Path: r.path(name),
				Message: fmt.Sprintf("%d of the files that are numbered like this one are missing, and the index does not say so%s", len(missing), r.almost(name)),
				Seen:    "Following weights were not initialized from checkpoint: {…}",
				Hint:    "copy the shard and the index from the model's origin"}
			if f.Severity == manifest.Silent {
				f.Seen = "" // a quantized model boots without a word
			}
			out = append(out, f)
		}
	}
	return out
}

func tensorTwice(v *view) []manifest.Finding {
	r := v.base
	if r.format != ".safetensors" || r.facts.Weights.Index != nil || r.consolidated() != "" {
		return nil
	}
	holders := map[string][]string{} // by tensor
	for _, s := range r.facts.Weights.Shards {
		for name := range s.Tensors {
			if r.loaded[s.Path] {
				holders[name] = append(holders[name], s.Path)
			}
		}
	}
	var twice []string
	shares := map[string]int{} // tensors that a file shares with others
	for _, name := range slices.Sorted(maps.Keys(holders)) {
		if files := holders[name]; len(files) > 1 {
			twice = append(twice, name)
			for _, f := range files {
				shares[f]++
			}
		}
	}
	if len(twice) == 0 {
		return nil
	}
	most := slices.MinFunc(slices.Sorted(maps.Keys(shares)), func(a, b string) int { return shares[b] - shares[a] })
	return []manifest.Finding{{Path: r.path(most), Field: twice[0],
		Message: fmt.Sprintf("%s stand in more than one file (%s); there is no index, so all are loaded and one overwrites the other",
			count(twice), strings.Join(slices.Sorted(maps.Keys(shares)), ", ")),
		Hint: "keep one layout of the weights, or restore " + model.IndexName}}
}

// consolidated is a file that makes the engine load weights in Mistral's form,
// wherever in the repository it lies; "" when there is none.
func (r *repo) consolidated() string {
	for _, p := range slices.Sorted(maps.Keys(r.files)) {
		name := path.Base(p)
		if strings.HasPrefix(name, "consolidated") && strings.HasSuffix(name, ".safetensors") {
			return p
		}
	}
	return ""
}

func consolidated(v *view) (out []manifest.Finding) {
	format := v.option("load_format")
	for _, r := range v.repos {
		p := r.consolidated()
		if p == "" || r.present("params.json") || (format != "" && format != "auto" && format != "mistral") {
			continue
		}
		f := manifest.Finding{Path: r.path(p),
			Message: "a consolidated safetensors file without params.json: the engine loads it in Mistral's form instead of the model's own shards",
			Hint:    "remove the file, or serve with --load-format safetensors"}
		if strings.Contains(p, "/") {
			f.Severity = manifest.Block
			f.Seen = "Cannot find any model weights with `…`"
		}
		out = append(out, f)
	}
	return out
}

func notPresharded(v *view) []manifest.Finding {
	if v.option("load_format") != "sharded_state" || v.base.facts.Config == nil {
		return nil
	}
	if slices.ContainsFunc(v.base.names(), func(n string) bool {
		return strings.HasPrefix(n, "model-rank-0-part-") && strings.HasSuffix(n, ".safetensors")
	}) {
		return nil
	}
	return []manifest.Finding{{Path: v.base.tree, Message: "the engine is told --load-format sharded_state, and no file model-rank-0-part-*.safetensors is there",
		Seen: "Could not find checkpoint files '…/model-rank-0-part-*.safetensors', only pre-sharded checkpoints are currently supported!",
		Hint: "remove --load-format, or copy the pre-sharded weights"}}
}
