package rules

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"drkit/manifest/model"
)

// need is a tensor that an architecture must have.
type need struct {
	module string // without ".weight"
	kind   string // weight or bias
	shape  []int64
	norm   bool
}

// expectation is everything that an architecture must have: per layer, and
// outside of layers. Names are relative to prefix; layer modules to
// prefix + "layers.N.".
type expectation struct {
	prefix string // of the layers' parent, such as "model."
	stem   string // "layers." or "encoder.layer."
	layers int
	layer  []need
	rest   []need
	other  []need // beside the text model, by full name
	head   bool   // an output layer of its own is needed
}

// decoders are the plain decoder architectures whose tensors follow from
// config.json alone.
var decoders = map[string]string{
	"LlamaForCausalLM": "llama", "MistralForCausalLM": "mistral", "Qwen2ForCausalLM": "qwen2", "Qwen3ForCausalLM": "qwen3",
}

// maxLayers bounds what is taken for a number of layers; real models have some
// hundred at most.
const maxLayers = 10_000

// expect says what the base repository must hold; nil for an architecture that
// is not known this well.
func (r *repo) expect() *expectation {
	c := r.facts.Config
	if c == nil || c.Layers < 1 || c.Layers > maxLayers || len(c.Architectures) != 1 || r.draft || len(c.AutoMap) > 0 {
		return nil
	}
	kind := decoders[c.Architectures[0]]
	if c.Nested && slices.Contains([]string{"llama", "mistral", "qwen2", "qwen3"}, c.TextType) {
		kind = c.TextType
	}
	switch {
	case kind != "":
		e := r.decoder(c, kind)
		if c.Architectures[0] == "LlavaForConditionalGeneration" {
			e.other = r.llava()
		}
		return e
	case c.Architectures[0] == "BertModel":
		return r.bert(c)
	}
	return nil
}

var layerName = regexp.MustCompile(`^(.*?)(layers|encoder\.layer|h|blocks|block|layer)\.(\d+)\.(.+)$`)

// prefix is what stands before stem + "N." in most tensors' names.
func (r *repo) prefix(stem string, wanted func(string) bool) string {
	count := map[string]int{}
	for name := range r.tensors {
		if m := layerName.FindStringSubmatch(name); m != nil && m[2]+"." == stem && wanted(m[1]) {
			count[m[1]]++
		}
	}
	best := ""
	for p, n := range count {
		if n > count[best] || n == count[best] && p < best {
			best = p
		}
	}
	return best
}

func (r *repo) decoder(c *model.Config, kind string) *expectation {
	hidden, inner := int64(c.Hidden), int64(c.Intermediate)
	dim := int64(c.HeadDim)
	if dim == 0 && c.Heads > 0 {
		dim = hidden / int64(c.Heads)
	}
	q, kv := dim*int64(c.Heads), dim*int64(cmp.Or(c.KVHeads, c.Heads))
	e := &expectation{stem: "layers.", layers: c.Layers}
	e.prefix = r.prefix(e.stem, func(p string) bool { return !strings.Contains(p, "vision") && !strings.Contains(p, "audio") })
	e.layer = []need{
		{"input_layernorm", "weight", []int64{hidden}, true}, {"post_attention_layernorm", "weight", []int64{hidden}, true},
		{"self_attn.q_proj", "weight", []int64{q, hidden}, false}, {"self_attn.k_proj", "weight", []int64{kv, hidden}, false},
		{"self_attn.v_proj", "weight", []int64{kv, hidden}, false}, {"self_attn.o_proj", "weight", []int64{hidden, q}, false},
		{"mlp.gate_proj", "weight", []int64{inner, hidden}, false}, {"mlp.up_proj", "weight", []int64{inner, hidden}, false},
		{"mlp.down_proj", "weight", []int64{hidden, inner}, false},
	}
	e.biases(c, kind, hidden, inner, q, kv)
	e.rest = []need{{"embed_tokens", "weight", []int64{int64(c.Vocab), hidden}, false}, {"norm", "weight", []int64{hidden}, true}}
	e.head = (c.Tied == nil || !*c.Tied) && (!c.Nested || c.Architectures[0] == "LlavaForConditionalGeneration") && !r.present("modules.json") // pooling models have none
	return e
}

// llava is what LLaVA has beside its text model: the projector, whose loss is
// silent, and what the vision tower holds outside of layers, which is tracked.
func (r *repo) llava() []need {
	const projector, tower = "multi_modal_projector.", "vision_tower.vision_model."
	prefix := ""
	for name := range r.tensors {
		if at := max(strings.Index(name, tower), strings.Index(name, projector)); at >= 0 {
			prefix = name[:at]
		}
	}
	out := []need{{prefix + projector + "linear_1", "weight", nil, false}, {prefix + projector + "linear_2", "weight", nil, false}}
	if !r.facts.Config.PlainProjector {
		out = append(out, need{prefix + projector + "linear_1", "bias", nil, false}, need{prefix + projector + "linear_2", "bias", nil, false})
	}
	out = append(out, r.clipLayers(prefix+tower+"encoder.layers.")...)
	seesCLIP := r.facts.Config.Tower != nil && r.facts.Config.Tower.Type == "clip_vision_model"
	if _, clip := r.tensors[prefix+tower+"embeddings.class_embedding"]; clip || seesCLIP || r.tensors[prefix+tower+"pre_layrnorm.weight"].DType != "" {
		row, patches, places := r.clipShapes()
		out = append(out, need{prefix + tower + "embeddings.class_embedding", "", row, true}, need{prefix + tower + "embeddings.patch_embedding", "weight", patches, true},
			need{prefix + tower + "embeddings.position_embedding", "weight", places, true}, need{prefix + tower + "pre_layrnorm", "weight", row, true})
	}
	return out
}

// clipLayers are the matrices and norms of the layers of a CLIP tower that are used.
func (r *repo) clipLayers(parent string) (out []need) {
	t := r.facts.Config.Tower
	if t == nil || t.Type != "clip_vision_model" {
		return nil
	}
	for i := range min(t.Used(), maxLayers) {
		for _, m := range []string{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.out_proj", "mlp.fc1", "mlp.fc2", "layer_norm1", "layer_norm2"} {
			name := fmt.Sprintf("%s%d.%s", parent, i, m)
			norm := strings.HasPrefix(m, "layer_norm")
			out = append(out, need{name, "weight", nil, norm}, need{name, "bias", nil, norm})
		}
	}
	return out
}

// clipShapes are the shapes of a CLIP tower's embeddings; nil where config.json
// does not give them.
func (r *repo) clipShapes() (row, patches, places []int64) {
	t := r.facts.Config.Tower
	if t == nil || t.Hidden < 1 {
		return nil, nil, nil
	}
	hidden, patch := int64(t.Hidden), int64(t.Patch)
	row = []int64{hidden}
	if patch > 0 {
		patches = []int64{hidden, 3, patch, patch}
		side := int64(t.Image) / patch
		places = []int64{side*side + 1, hidden}
	}
	return row, patches, places
}

func (e *expectation) biases(c *model.Config, kind string, hidden, inner, q, kv int64) {
	if kind == "qwen2" || c.AttentionBias {
		e.layer = append(e.layer, need{"self_attn.q_proj", "bias", []int64{q}, false}, need{"self_attn.k_proj", "bias", []int64{kv}, false},
			need{"self_attn.v_proj", "bias", []int64{kv}, false})
	}
	if kind == "llama" && c.AttentionBias {
		e.layer = append(e.layer, need{"self_attn.o_proj", "bias", []int64{hidden}, false})
	}
	if kind == "llama" && c.MLPBias {
		e.layer = append(e.layer, need{"mlp.gate_proj", "bias", []int64{inner}, false}, need{"mlp.up_proj", "bias", []int64{inner}, false},
			need{"mlp.down_proj", "bias", []int64{hidden}, false})
	}
	if kind == "qwen3" {
		dim := q / max(int64(c.Heads), 1)
		e.layer = append(e.layer, need{"self_attn.q_norm", "weight", []int64{dim}, true}, need{"self_attn.k_norm", "weight", []int64{dim}, true})
	}
}

// bert is the plain BERT encoder; its pooler is not needed.
func (r *repo) bert(c *model.Config) *expectation {
	hidden, inner := int64(c.Hidden), int64(c.Intermediate)
	e := &expectation{stem: "encoder.layer.", layers: c.Layers}
	e.prefix = r.prefix(e.stem, func(string) bool { return true })
	for _, m := range []struct {
		module string
		out    int64
		shape  []int64
		norm   bool
	}{
		{"attention.self.query", hidden, []int64{hidden, hidden}, false}, {"attention.self.key", hidden, []int64{hidden, hidden}, false},
		{"attention.self.value", hidden, []int64{hidden, hidden}, false}, {"attention.output.dense", hidden, []int64{hidden, hidden}, false},
		{"attention.output.LayerNorm", hidden, []int64{hidden}, true}, {"intermediate.dense", inner, []int64{inner, hidden}, false},
		{"output.dense", hidden, []int64{hidden, inner}, false}, {"output.LayerNorm", hidden, []int64{hidden}, true},
	} {
		if m.norm && r.oldNorms() {
			continue // gamma and beta, which transformers renames on loading
		}
		e.layer = append(e.layer, need{m.module, "weight", m.shape, m.norm}, need{m.module, "bias", []int64{m.out}, m.norm})
	}
	e.rest = []need{
		{"embeddings.word_embeddings", "weight", []int64{int64(c.Vocab), hidden}, false},
		{"embeddings.position_embeddings", "weight", nil, false}, {"embeddings.token_type_embeddings", "weight", nil, false},
	}
	if !r.oldNorms() {
		e.rest = append(e.rest, need{"embeddings.LayerNorm", "weight", []int64{hidden}, true}, need{"embeddings.LayerNorm", "bias", []int64{hidden}, true})
	}
	return e
}

func (r *repo) oldNorms() bool {
	for name := range r.tensors {
		if strings.HasSuffix(name, ".gamma") {
			return true
		}
	}
	return false
}

// packed are the endings under which a weight may stand when it is quantized.
var packed = []string{".weight", ".qweight", ".weight_packed", ".W_q", ".codes", ".blocks"}

// fused are modules that some checkpoints store in one, by the last part of
// the module's name.
var fused = map[string]string{
	"q_proj": "qkv_proj", "k_proj": "qkv_proj", "v_proj": "qkv_proj", "gate_proj": "gate_up_proj", "up_proj": "gate_up_proj",
}

// holds finds the tensor that serves a need, by its module's full name.
func (r *repo) holds(module string, n need) (model.Tensor, string, bool) {
	endings := packed
	switch n.kind {
	case "bias":
		endings = []string{".bias"}
	case "":
		endings = []string{""}
	}
	for _, ending := range endings {
		if t, ok := r.tensors[module+ending]; ok {
			return t, module + ending, true
		}
	}
	at := strings.LastIndexByte(module, '.') + 1
	if joint := fused[module[at:]]; joint != "" {
		for _, ending := range endings {
			if t, ok := r.tensors[module[:at]+joint+ending]; ok {
				return t, "", len(t.Shape) >= 0
			}
		}
	}
	return model.Tensor{}, "", false
}

// layerPrefix is the name of a layer, with a dot at its end.
func (e *expectation) layerPrefix(i int) string { return fmt.Sprintf("%s%s%d.", e.prefix, e.stem, i) }

// emptyLayers lists the layers of which no tensor is there.
func (r *repo) emptyLayers(e *expectation) (out []int) {
	seen := map[string]bool{}
	for name := range r.tensors {
		if m := layerName.FindStringSubmatch(name); m != nil {
			seen[m[1]+m[2]+"."+m[3]+"."] = true
		}
	}
	for i := range e.layers {
		if !seen[e.layerPrefix(i)] {
			out = append(out, i)
		}
	}
	return out
}
