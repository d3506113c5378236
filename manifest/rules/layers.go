package rules

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"drkit/manifest"
	"drkit/manifest/model"
)

func missingHead(v *view) (out []manifest.Finding) {
	r := v.base
	e := r.expect()
	if e == nil || !e.head || !v.findable(r) {
		return nil
	}
	for name := range r.tensors {
		if module, _ := split(name); module == "lm_head" || strings.HasSuffix(module, ".lm_head") {
			return nil
		}
	}
	said, where := "tie_word_embeddings is false", r.whereLost("lm_head.weight")
	if r.facts.Config.Tied == nil {
		said = "config.json does not say tie_word_embeddings, which means false for this architecture"
		where = r.path("config.json")
	}
	return []manifest.Finding{{Path: where, Field: "lm_head.weight",
		Message: fmt.Sprintf("no shard holds lm_head.weight, and %s: the engine boots and answers with garbage", said),
		Hint:    "copy the shards again, or restore tie_word_embeddings in config.json, from the model's origin"}}
}

func missingLayer(v *view) []manifest.Finding {
	return append(missingTextLayer(v), towerLayers(v)...)
}

// towers are the vision towers whose layers are counted, by model type, and what
// their tensors' names hold.
var towers = map[string]string{"clip_vision_model": "vision_model.encoder.", "siglip_vision_model": "vision_model.encoder."}

// towerLayers compares the layers of the part that sees with config.json: which
// layer's output is used is counted from the last one, so that another number gives
// other answers even where no tensor is missing.
func towerLayers(v *view) []manifest.Finding {
	r := v.base
	c := r.facts.Config
	if c == nil || c.Tower == nil || towers[c.Tower.Type] == "" || !v.findable(r) {
		return nil
	}
	have := 0
	for parent, suffixes := range r.families() {
		if strings.Contains(parent, towers[c.Tower.Type]) {
			have = max(have, len(layersOf(suffixes)))
		}
	}
	used := c.Tower.Used()
	if have == 0 || have == c.Tower.Layers || c.Tower.Taken >= 0 && have >= used {
		return nil
	}
	f := manifest.Finding{Severity: manifest.Silent, Path: r.path("config.json"), Field: "vision_config.num_hidden_layers",
		Message: fmt.Sprintf("the vision tower has %d layers by config.json, and there are tensors for %d", c.Tower.Layers, have),
		Hint:    "config.json and weights belong to different models: copy both from one release"}
	if used > have && !r.quantized() {
		f.Severity, f.Seen = manifest.Block, "Following weights were not initialized from checkpoint: {…}"
	}
	return []manifest.Finding{f}
}

func missingTextLayer(v *view) []manifest.Finding {
	r := v.base
	c := r.facts.Config
	if c == nil || c.Layers > maxLayers || !v.findable(r) {
		return nil
	}
	var empty []int
	if e := r.expect(); e != nil {
		if f, found := r.surplusLayers(e); found {
			return []manifest.Finding{f}
		}
		empty = r.emptyLayers(e)
	} else {
		empty = r.missingOfEveryFamily(c)
	}
	if len(empty) == 0 {
		return nil
	}
	f := manifest.Finding{Severity: r.lost(true), Path: r.path("config.json"), Field: "num_hidden_layers",
		Message: fmt.Sprintf("%s, there is no tensor for layer %s", r.says("num_hidden_layers", c.Layers), joinInts(empty)),
		Seen:    "Following weights were not initialized from checkpoint: {…}",
		Hint:    "a shard is missing, or config.json belongs to another model: copy both from one release"}
	if f.Severity == manifest.Silent {
		f.Seen = ""
	}
	return []manifest.Finding{f}
}

// surplusLayers finds layers beyond num_hidden_layers in a decoder that has no
// use for them: the engine refuses tensors that no module takes.
func (r *repo) surplusLayers(e *expectation) (f manifest.Finding, found bool) {
	if e.stem != "layers." || r.facts.Config.NextN > 0 {
		return f, false
	}
	first, beyond := "", map[int]bool{}
	for name := range r.tensors {
		m := layerName.FindStringSubmatch(name)
		if m == nil || m[1] != e.prefix || m[2]+"." != e.stem || strings.Contains(name, "rotary_emb") {
			continue
		}
		if i, err := strconv.Atoi(m[3]); err == nil && i >= e.layers {
			beyond[i] = true
			if first == "" || name < first {
				first = name
			}
		}
	}
	if first == "" {
		return f, false
	}
	return manifest.Finding{Severity: manifest.Block, Path: r.path("config.json"), Field: "num_hidden_layers",
		Message: fmt.Sprintf("%s, and there are tensors for %d more layers, such as %s", r.says("num_hidden_layers", e.layers), len(beyond), first),
		Seen:    fmt.Sprintf("There is no module or parameter named 'layers.%d' in …", e.layers),
		Hint:    "config.json and weights belong to different models: copy both from one release"}, true
}

func joinInts(ns []int) string {
	var out []string
	if len(ns) > 20 {
		return joinInts(ns[:20]) + fmt.Sprintf(" and %d more", len(ns)-20)
	}
	for _, n := range ns {
		out = append(out, fmt.Sprint(n))
	}
	return strings.Join(out, ", ")
}

// families groups tensors by what stands before and after the layer's number:
// parent, then suffix, then the layers that have it.
func (r *repo) families() map[string]map[string]map[int]bool {
	if r.grouped == nil {
		r.grouped = r.group()
	}
	return r.grouped
}

func (r *repo) group() map[string]map[string]map[int]bool {
	out := map[string]map[string]map[int]bool{}
	for name := range r.tensors {
		m := layerName.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		i, err := strconv.Atoi(m[3])
		if err != nil {
			continue
		}
		parent := m[1] + m[2] + "."
		if out[parent] == nil {
			out[parent] = map[string]map[int]bool{}
		}
		if out[parent][m[4]] == nil {
			out[parent][m[4]] = map[int]bool{}
		}
		out[parent][m[4]][i] = true
	}
	return out
}

// layersOf is the set of layers of a family.
func layersOf(suffixes map[string]map[int]bool) map[int]bool {
	all := map[int]bool{}
	for _, layers := range suffixes {
		for i := range layers {
			all[i] = true
		}
	}
	return all
}

// missingOfEveryFamily lists layers below num_hidden_layers that are missing
// from the family that comes nearest. A family with less than half of them
// shares layers or numbers something else.
func (r *repo) missingOfEveryFamily(c *model.Config) []int {
	var best []int
	found := false
	for _, suffixes := range r.families() {
		have := layersOf(suffixes)
		var missing []int
		for i := range c.Layers {
			if !have[i] {
				missing = append(missing, i)
			}
		}
		assumed := slices.Contains(c.Assumed, "num_hidden_layers") // then nothing but the weights tells
		if (2*len(missing) <= c.Layers || assumed) && (!found || len(missing) < len(best)) {
			best, found = missing, true
		}
	}
	return best
}

// irregular finds, in an architecture that is not known, a layer that has lost
// tensors: most layers of its family have them, it has nothing in their place,
// and hardly any other layer lacks them.
func (r *repo) irregular() (out []manifest.Finding) {
	var lost, norms loss
	norms.norm = true
	families := r.families()
	for _, parent := range slices.Sorted(maps.Keys(families)) {
		suffixes := families[parent]
		layers := layersOf(suffixes)
		few := max(1, len(layers)/10)
		for suffix, have := range suffixes {
			lacking := len(layers) - len(have)
			if lacking == 0 || lacking > few || 2*len(have) <= len(layers) || optional(suffix) {
				continue
			}
			for i := range layers {
				if have[i] || r.special(suffixes, i, len(layers)) {
					continue
				}
				name := fmt.Sprintf("%s%d.%s", parent, i, suffix)
				if isNorm(suffix) {
					norms.names = append(norms.names, name)
				} else {
					lost.names = append(lost.names, name)
				}
			}
		}
	}
	slices.Sort(lost.names)
	slices.Sort(norms.names)
	return append(r.lossFinding(lost), r.lossFinding(norms)...)
}

// special reports whether a layer holds tensors that most others lack: it is of
// another kind, not damaged.
func (r *repo) special(suffixes map[string]map[int]bool, layer, total int) bool {
	for _, have := range suffixes {
		if have[layer] && 2*len(have) <= total {
			return true
		}
	}
	return false
}

// optional reports whether a tensor may well be absent from single layers.
func optional(suffix string) bool {
	for _, end := range []string{"inv_freq", ".g_idx", "k_scale", "v_scale", "masked_bias", "relative_attention_bias.weight"} {
		if strings.HasSuffix(suffix, end) {
			return true
		}
	}
	return false
}
