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
