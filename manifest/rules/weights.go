package rules

import (
	"fmt"
	"maps"
	"path"
	"slices"
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
	{"W-6", manifest.Silent, "a streaming loader finds two layouts",
		"With --load-format runai_streamer, which reads every file below the model, one layout of the weights is there.", twoLayouts},
	{"W-8", manifest.Degraded, "a shard of the older index is missing",
		"Every file that pytorch_model.bin.index.json names is there, where the engine loads .bin files.", missingBin},
	{"W-9", manifest.Block, "pre-sharded weights are incomplete",
		"With --load-format sharded_state there are files model-rank-R-part-P.safetensors for each rank, with the same tensors.", notPresharded},
	{"W-10", manifest.Block, "there are no serialized tensors",
		"With --load-format tensorizer the repository holds a .tensors file, or the loader is told where one is.", noTensorizer},
	{"W-13", manifest.Info, "a download was left unfinished",
		"No file ends in .incomplete, .part, .tmp or .lock.", leftOver},
	{"W-18", manifest.Block, "a GGUF file is damaged",
		"Each GGUF file is whole, and a tokenizer is inside or beside it.", brokenGGUF},
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
	case "", "auto", "hf", "mistral", "safetensors", "fastsafetensors", "instanttensor", "pt", "npcache", "runai_streamer":
		return false
	}
	return true
}

func noWeights(v *view) (out []manifest.Finding) {
	for _, r := range v.repos {
		if v.otherLoader() || r.format != "" || r.ggufOnly() || r.consolidated() != "" || len(r.missingOfIndex()) > 0 || r.draft && r.facts.Config == nil {
			continue
		}
		f := manifest.Finding{Path: r.tree, Message: fmt.Sprintf("there is no weight file directly in %s: neither model.safetensors nor another *.safetensors, *.bin or *.pt", r.tree),
			Seen: "Cannot find any model weights with `…`", Hint: "copy the weights from the model's origin"}
		if ix := r.facts.Weights.Index; ix != nil && len(ix.Files) == 0 && len(r.facts.Weights.Shards) > 0 {
			f.Path, f.Message = r.path(ix.Path), fmt.Sprintf("%s names no file, so that the engine loads none of the %d that are there", ix.Path, len(r.facts.Weights.Shards))
			f.Hint = "copy the index from the model's origin"
		}
		if r.present("params.json") && !r.present("config.json") || v.option("load_format") == "mistral" {
			f.Path = r.path("consolidated.safetensors")
		}
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
	if ix == nil || r.format == ".bin" || r.format == ".pt" || r.consolidated() != "" {
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

func tensorTwice(v *view) []manifest.Finding {
	r := v.base
	if r.format != ".safetensors" || r.facts.Weights.Index != nil || r.consolidated() != "" || v.streams() {
		return nil
	}
	return r.tensorsTwice()
}

// streams reports whether the engine reads the weights by the streaming loader,
// which looks at no index: by option, or because the model lies in a bucket.
func (v *view) streams() bool {
	format := v.option("load_format")
	if format != "" && format != "auto" {
		return format == "runai_streamer"
	}
	return slices.ContainsFunc(v.m.Annotations.Engine, func(e engineFacts) bool {
		scheme, _, ok := strings.Cut(e.Model, "://")
		return ok && (scheme == "s3" || scheme == "gs" || scheme == "az")
	})
}

func twoLayouts(v *view) []manifest.Finding {
	if !v.streams() || v.base.format != ".safetensors" {
		return nil
	}
	out := v.base.tensorsTwice()
	for i := range out {
		out[i].Hint = "keep one layout of the weights: this loader reads no index"
	}
	return out
}

func (r *repo) tensorsTwice() []manifest.Finding {
	if len(r.loaded) < 2 {
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
	if r.sameBytes(slices.Collect(maps.Keys(shares))) {
		return nil // a copy of a file overwrites with what is there already
	}
	most := slices.MinFunc(slices.Sorted(maps.Keys(shares)), func(a, b string) int { return shares[b] - shares[a] })
	return []manifest.Finding{{Path: r.path(most), Field: twice[0],
		Message: fmt.Sprintf("%s stand in more than one file (%s); no index is read, so all are loaded and one overwrites the other",
			count(twice), strings.Join(slices.Sorted(maps.Keys(shares)), ", ")),
		Hint: "keep one layout of the weights, or restore " + model.IndexName}}
}

// sameBytes reports whether files are copies of one another.
func (r *repo) sameBytes(names []string) bool {
	first := r.files[names[0]].Sums["sha256"]
	return first != "" && !slices.ContainsFunc(names, func(n string) bool { return r.files[n].Sums["sha256"] != first })
}

// consolidated is a file that makes the engine load weights in Mistral's form,
// wherever in the repository it lies; "" when there is none.
func (r *repo) consolidated() string { return r.foreign }

func (r *repo) findConsolidated() (first string) {
	for p := range r.files {
		name := path.Base(p)
		if strings.HasPrefix(name, "consolidated") && strings.HasSuffix(name, ".safetensors") && (first == "" || p < first) {
			first = p
		}
	}
	return first
}

func consolidated(v *view) (out []manifest.Finding) {
	format := v.option("load_format")
	for _, r := range v.repos {
		p := r.consolidated()
		if p == "" || r.present("params.json") || !r.present("config.json") || (format != "" && format != "auto" && format != "mistral") {
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

func missingBin(v *view) (out []manifest.Finding) {
	for _, r := range v.repos {
		const index = "pytorch_model.bin.index.json"
		if r.format != ".bin" || r.facts.Weights.BinIndex == nil {
			continue
		}
		for _, name := range r.facts.Weights.BinIndex {
			if !r.present(name) && !slices.Contains(r.missingOfFamily(), name) {
				out = append(out, manifest.Finding{Path: r.path(name), Message: index + " names this file, which is missing; the engine itself does not look at this index",
					Hint: "copy the file from the model's origin"})
			}
		}
	}
	return out
}
