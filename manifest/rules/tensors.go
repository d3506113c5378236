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

// loss is a set of tensors that no loaded shard holds, in one place.
type loss struct {
	names      []string
	norm       bool
	everywhere bool   // every layer lacks it
	unknown    string // a tensor that the architecture does not have
}

// findable reports whether missing tensors can be judged: the headers of every
// weight file that the engine loads are known.
func (v *view) findable(r *repo) bool {
	return r.format == ".safetensors" && !v.otherLoader() && !r.incomplete() && r.consolidated() == "" && len(r.tensors) > 0
}

func missingTensor(v *view) (out []manifest.Finding) {
	for _, r := range v.repos {
		out = append(out, r.promised(v)...)
		if !v.findable(r) || r.draft {
			continue
		}
		if e := r.expect(); e != nil {
			if f, strange := r.strangePrefix(e); strange {
				out = append(out, f)
				continue
			}
			out = append(out, r.unexpected(e)...)
		} else {
			out = append(out, r.irregular()...)
		}
	}
	return out
}

// strangePrefix finds a plain decoder whose layers stand under another name than
// the engine looks for.
func (r *repo) strangePrefix(e *expectation) (f manifest.Finding, strange bool) {
	if e.stem != "layers." || r.facts.Config.Nested || slices.Contains([]string{"model.", ""}, e.prefix) {
		return f, false
	}
	return manifest.Finding{Severity: manifest.Block, Path: r.path(r.shardOfLayer(e.prefix + e.stem)), Field: e.prefix + e.stem,
		Message: fmt.Sprintf("the layers' tensors are named %s%s…, and %s looks for model.%s…", e.prefix, e.stem, r.facts.Config.Architectures[0], e.stem),
		Seen:    "Following weights were not initialized from checkpoint: {…}", Hint: "the weights were saved from another kind of model, or renamed: copy them again from the model's origin"}, true
}

// promised finds tensors that the index puts in a sound shard, and that neither
// that shard nor another one holds. Those that the architecture is known to need
// are left to unexpected; of the others nobody knows whether they are missed.
func (r *repo) promised(v *view) []manifest.Finding {
	ix := r.facts.Weights.Index
	if ix == nil || r.format != ".safetensors" || r.consolidated() != "" {
		return nil
	}
	e := r.expect()
	at := map[string][]string{}
	for tensor, file := range ix.Elsewhere {
		if _, ok := r.tensors[tensor]; ok || r.broken(file) || !r.present(file) {
			continue
		}
		if e != nil && v.findable(r) && e.needs(tensor) {
			continue
		}
		at[file] = append(at[file], tensor)
	}
	var out []manifest.Finding
	for _, file := range slices.Sorted(maps.Keys(at)) {
		names := at[file]
		slices.Sort(names)
		f := manifest.Finding{Severity: r.lost(isNorm(names[0])), Path: r.path(file), Field: names[0],
			Message: fmt.Sprintf("the index promises %s in this shard, which no shard holds", count(names)),
			Hint:    "copy the shard and the index again from one release of the model"}
		if e != nil || r.beyondLayers(names) {
			f.Severity, f.Hint = manifest.Info, "the model does not need it; the index is of another release"
		}
		out = append(out, f)
	}
	return out
}

// beyondLayers reports whether all names belong to layers past num_hidden_layers.
func (r *repo) beyondLayers(names []string) bool {
	c := r.facts.Config
	return c != nil && c.Layers > 0 && !slices.ContainsFunc(names, func(n string) bool {
		m := layerName.FindStringSubmatch(n)
		if m == nil {
			return true
		}
		i, err := strconv.Atoi(m[3])
		return err != nil || i < c.Layers
	})
}

// needs reports whether a tensor serves one of the needs.
func (e *expectation) needs(tensor string) bool {
	dot := strings.LastIndexByte(tensor, '.')
	if dot < 0 {
		return false
	}
	module := tensor[:dot]
	if e.head && strings.HasSuffix(module, "lm_head") {
		return true
	}
	for _, n := range e.rest {
		if module == e.prefix+n.module {
			return true
		}
	}
	if slices.ContainsFunc(e.other, func(n need) bool { return n.module == module || n.module == tensor }) {
		return true
	}
	for i := range e.layers {
		if inner, ok := strings.CutPrefix(module, e.layerPrefix(i)); ok {
			return slices.ContainsFunc(e.layer, func(n need) bool { return n.module == inner })
		}
	}
	return false
}

// unexpected compares the tensors with what the architecture needs. Whole
// layers and the output layer have rules of their own.
func (r *repo) unexpected(e *expectation) []manifest.Finding {
	var lost, norms loss
	norms.norm = true
	var wrong []string
	shapes := ""
	empty := r.emptyLayers(e)
	lost.unknown = r.unknown(e)
	judge := func(module string, n need) {
		t, name, ok := r.holds(module, n)
		switch {
		case !ok && n.norm:
			norms.names = append(norms.names, strings.TrimSuffix(module+"."+n.kind, "."))
		case !ok:
			lost.names = append(lost.names, module+"."+n.kind)
		case n.shape != nil && !r.vocabularySized(module) && r.otherShape(name, module+"."+n.kind, t, n.shape):
			wrong = append(wrong, name)
			shapes = fmt.Sprintf("%s has the shape %v, config.json makes it %v", wrong[0], r.tensors[wrong[0]].Shape, n.shape)
		}
	}
	for i := range e.layers {
		for _, n := range e.layer {
			if !slices.Contains(empty, i) {
				judge(e.layerPrefix(i)+n.module, n)
			}
		}
	}
	for _, n := range e.rest {
		judge(e.prefix+n.module, n)
	}
	for _, n := range e.other {
		judge(n.module, n)
	}
	lost.everywhere = e.everywhere(lost.names)
	out := append(r.lossFinding(lost), r.lossFinding(norms)...)
	return append(out, r.shapeFinding(wrong, shapes, e)...)
}

// otherShape reports whether a tensor has another shape than a need: as it is,
// or packed as the repository's method packs it. A form that is not known fits.
func (r *repo) otherShape(name, plain string, t model.Tensor, want []int64) bool {
	q := r.facts.Quantization
	switch {
	case name == plain:
		return !slices.Contains([]string{"U8", "I32", "U32"}, t.DType) && !slices.Equal(t.Shape, want)
	case q == nil || q.Mixed || r.bits || len(want) != 2 || len(t.Shape) != 2 || q.Bits <= 0 || q.Bits > 32:
		return false
	}
	bits := int64(q.Bits)
	switch {
	case strings.HasSuffix(name, ".qweight") && strings.Contains(q.Method, "gptq"):
		return t.Shape[0]*32 != want[1]*bits || t.Shape[1] != want[0]
	case strings.HasSuffix(name, ".qweight") && strings.Contains(q.Method, "awq"):
		return t.Shape[0] != want[1] || t.Shape[1]*32 != want[0]*bits
	}
	return false
}

// everywhere reports whether every layer lacks the first lost tensor: then it
// was never there, and config.json names another architecture.
func (e *expectation) everywhere(lost []string) bool {
	if len(lost) == 0 || e.layers < 2 {
		return false
	}
	inner, inLayer := strings.CutPrefix(lost[0], e.layerPrefix(0))
	for i := range e.layers {
		inLayer = inLayer && slices.Contains(lost, e.layerPrefix(i)+inner)
	}
	return inLayer
}

// unknown is a weight in a layer that the architecture does not have; engines
// refuse it. "" when there is none.
func (r *repo) unknown(e *expectation) string {
	for _, name := range slices.Sorted(maps.Keys(r.tensors)) {
		m := layerName.FindStringSubmatch(name)
		if m == nil || m[1] != e.prefix || m[2]+"." != e.stem || strings.Contains(name, "rotary_emb") || !strings.HasSuffix(name, ".weight") {
			continue
		}
		module := strings.TrimSuffix(m[4], ".weight")
		known := slices.ContainsFunc(e.layer, func(n need) bool { return n.module == module })
		for part, joint := range fused {
			known = known || strings.HasSuffix(module, "."+joint) || strings.HasSuffix(module, "."+part)
		}
		if !known {
			return name
		}
	}
	return ""
}

func (r *repo) vocabularySized(module string) bool {
	return strings.HasSuffix(module, "embed_tokens") || strings.HasSuffix(module, "word_embeddings")
}

func (r *repo) lossFinding(l loss) []manifest.Finding {
	if len(l.names) == 0 {
		return nil
	}
	f := manifest.Finding{Severity: r.lost(l.norm), Path: r.whereLost(l.names[0]), Field: l.names[0],
		Message: fmt.Sprintf("no shard holds %s: the engine boots, answers /health with 200, and answers with garbage", count(l.names)),
		Hint:    "copy the shards and the index again from the model's origin"}
	if f.Severity == manifest.Block {
		f.Message = fmt.Sprintf("no shard holds %s", count(l.names))
		f.Seen = fmt.Sprintf("Following weights were not initialized from checkpoint: {'%s'}", l.names[0])
	}
	if l.unknown != "" && !r.quantized() {
		f.Severity = manifest.Block
		f.Message = fmt.Sprintf("no shard holds %s; there is %s, which the architecture does not have", count(l.names), l.unknown)
		f.Seen = fmt.Sprintf("There is no module or parameter named '%s' in …", strings.TrimSuffix(l.unknown, ".weight"))
	}
	if l.everywhere {
		f.Path = r.path("config.json")
		f.Hint = "config.json names another architecture than the weights have: copy both from one release of the model"
	}
	return []manifest.Finding{f}
}

// shapeFinding reports shapes that disagree with config.json. When all layers
// disagree, config.json is the one to look at.
func (r *repo) shapeFinding(wrong []string, example string, e *expectation) []manifest.Finding {
	if len(wrong) == 0 {
		return nil
	}
	f := manifest.Finding{Severity: manifest.Block, Path: r.path(r.shardOf[wrong[0]]), Field: wrong[0],
		Message: "another shape than config.json gives: " + example,
		Seen:    "RuntimeError: start (…) + length (…) exceeds dimension size (…).",
		Hint:    "weights and config.json belong to different models, or were converted wrongly: copy both from one release"}
	if len(wrong) > 1 {
		f.Message = fmt.Sprintf("%d tensors have %s", len(wrong), f.Message)
	}
	if len(wrong) >= e.layers && e.layers > 1 {
		f.Path = r.path("config.json")
	}
	return []manifest.Finding{f}
}

// vocabularyShape compares the embedding with vocab_size.
func (r *repo) vocabularyShape() []manifest.Finding {
	e := r.expect()
	if e == nil {
		return nil
	}
	for _, n := range e.rest {
		t, name, ok := r.holds(e.prefix+n.module, n)
		if !ok || !strings.HasSuffix(name, ".weight") || strings.HasPrefix(t.DType, "U") || strings.HasPrefix(t.DType, "I") || !r.vocabularySized(n.module) || len(t.Shape) == 0 || t.Shape[0] == int64(r.facts.Config.Vocab) {
			continue
		}
		return []manifest.Finding{{Severity: manifest.Block, Path: r.path("config.json"), Field: "vocab_size",
			Message: fmt.Sprintf("%s, %s has %d rows", r.says("vocab_size", r.facts.Config.Vocab), name, t.Shape[0]),
			Seen:    "AssertionError: assert loaded_weight.shape[output_dim] == self.org_vocab_size",
			Hint:    "weights and config.json belong to different models: copy both from one release"}}
	}
	return nil
}

// count names one tensor or two, or one and how many others.
func count(names []string) string {
	if len(names) < 3 {
		return strings.Join(names, " and ")
	}
	return fmt.Sprintf("%s and %d other tensors", names[0], len(names)-1)
}

func isNorm(tensor string) bool {
	lower := strings.ToLower(tensor)
	return strings.Contains(lower, "norm") || strings.Contains(lower, "ln_")
}
