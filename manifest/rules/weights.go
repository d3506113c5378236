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
		Message: fmt.Sprintf("%s stand in more than one file (%s); no index is read, so all are loaded and one overwrites the other",
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

var rankFile = regexp.MustCompile(`^model-rank-(\d+)-part-(\d+)\.safetensors$`)

// ranks are the parts of each rank of pre-sharded weights.
func (r *repo) ranks() map[int][]int {
	out := map[int][]int{}
	for _, name := range r.names() {
		if m := rankFile.FindStringSubmatch(name); m != nil {
			rank, _ := strconv.Atoi(m[1])
			part, _ := strconv.Atoi(m[2])
			out[rank] = append(out[rank], part)
		}
	}
	return out
}

func notPresharded(v *view) (out []manifest.Finding) {
	format := v.option("load_format")
	if format != "sharded_state" && format != "runai_streamer_sharded" || v.base.facts.Config == nil || v.object("model_loader_extra_config")["pattern"] != nil {
		return nil
	}
	ranks := v.base.ranks()
	ways := max(1, v.ways())
	for rank := range min(ways, maxRanks) {
		for _, lost := range lostParts(ranks[rank]) {
			out = append(out, manifest.Finding{Path: v.base.path(fmt.Sprintf("model-rank-%d-part-%d.safetensors", rank, lost)),
				Message: fmt.Sprintf("the engine is told --load-format %s with %d ranks, and part %d of rank %d is missing", format, ways, lost, rank),
				Seen:    fmt.Sprintf("Could not find checkpoint files '…/model-rank-%d-part-*.safetensors', only pre-sharded checkpoints are currently supported!", rank),
				Hint:    "copy the pre-sharded weights of every rank, or remove --load-format"})
		}
	}
	if len(ranks) == 0 && len(out) > 0 {
		out = out[:1]
		out[0].Path = v.base.tree
		out[0].Message = fmt.Sprintf("the engine is told --load-format %s, and no file model-rank-0-part-*.safetensors is there", format)
	}
	if len(out) == 0 {
		out = v.base.unequalRanks(ways)
	}
	return out
}

// maxRanks bounds what is taken for a number of ranks.
const maxRanks = 4096

// ways is the number of ranks that share the weights.
func (v *view) ways() int {
	n, _ := v.integer("tensor_parallel_size")
	return n
}

// lostParts lists the parts that a rank lacks up to its greatest one; part 0
// when it has none.
func lostParts(parts []int) (lost []int) {
	if len(parts) == 0 {
		return []int{0}
	}
	for i := range min(slices.Max(parts), maxMissing) {
		if !slices.Contains(parts, i) {
			lost = append(lost, i)
		}
	}
	return lost
}

// unequalRanks compares the tensors of the ranks: each holds its share of every
// one, so a lost last part shows as missing names.
func (r *repo) unequalRanks(ways int) []manifest.Finding {
	byRank := map[int]map[string]bool{}
	all := map[string]bool{}
	for _, s := range r.facts.Weights.Shards {
		m := rankFile.FindStringSubmatch(s.Path)
		if m == nil {
			continue
		}
		rank, _ := strconv.Atoi(m[1])
		if byRank[rank] == nil {
			byRank[rank] = map[string]bool{}
		}
		for name := range s.Tensors {
			byRank[rank][name], all[name] = true, true
		}
	}
	for rank := range min(ways, maxRanks) {
		var lost []string
		for name := range all {
			if !byRank[rank][name] {
				lost = append(lost, name)
			}
		}
		if len(lost) == 0 || byRank[rank] == nil {
			continue
		}
		slices.Sort(lost)
		next := slices.Max(append(r.ranks()[rank], 0)) + 1
		return []manifest.Finding{{Path: r.path(fmt.Sprintf("model-rank-%d-part-%d.safetensors", rank, next)), Field: lost[0],
			Message: fmt.Sprintf("rank %d lacks %s, which other ranks have", rank, count(lost)),
			Seen:    "Missing keys (…) in loaded state!", Hint: "copy the pre-sharded weights of this rank again: its last part seems to be missing"}}
	}
	return nil
}

func noTensorizer(v *view) []manifest.Finding {
	extra := v.object("model_loader_extra_config")
	if v.option("load_format") != "tensorizer" || extra["tensorizer_uri"] != nil || slices.ContainsFunc(v.base.names(), func(n string) bool { return strings.HasSuffix(n, ".tensors") }) {
		return nil
	}
	return []manifest.Finding{{Path: v.base.path("model.tensors"), Message: "the engine is told --load-format tensorizer, and the repository holds no .tensors file",
		Seen: "FileNotFoundError", Hint: "copy model.tensors, or remove --load-format"}}
}

// unfinished are endings that downloads and copies leave.
var unfinished = []string{".incomplete", ".part", ".tmp", ".lock", ".aria2", ".crdownload"}

func leftOver(v *view) (out []manifest.Finding) {
	for _, r := range v.repos {
		for _, name := range r.names() {
			if slices.Contains(unfinished, path.Ext(name)) {
				out = append(out, manifest.Finding{Path: r.path(name), Message: "a file that an unfinished download or copy left; no engine reads it",
					Hint: "make sure that the download is complete, and remove the file"})
			}
		}
	}
	return out
}

func brokenGGUF(v *view) (out []manifest.Finding) {
	for _, r := range v.repos {
		for _, name := range slices.Sorted(maps.Keys(r.problems)) {
			for _, p := range r.problems[name] {
				if strings.HasPrefix(p.Kind, model.KindGGUF) {
					out = append(out, manifest.Finding{Path: p.Path, Message: p.What, Seen: "ValueError: … is not a valid GGUF file", Hint: "copy the file again from the model's origin"})
				}
			}
		}
		if r.ggufOnly() && len(r.facts.Weights.GGUF) > 0 && !r.ggufTokenizer() && r.facts.Tokenizer.File == "" && v.option("tokenizer") == "" {
			out = append(out, manifest.Finding{Path: r.path("tokenizer.json"), Message: "no GGUF file holds a tokenizer, and none is beside it",
				Seen: "Couldn't instantiate the backend tokenizer from one of: …", Hint: "copy tokenizer.json from the original model, or give --tokenizer"})
		}
	}
	return out
}
