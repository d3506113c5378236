package model

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Config is what the rules need of config.json. For a model with several parts
// the numbers are those of its text model.
type Config struct {
	Architectures []string          `json:"architectures,omitempty"`
	ModelType     string            `json:"model_type,omitempty"`
	Writer        string            `json:"transformers_version,omitempty"` // version of transformers that wrote it
	DType         string            `json:"dtype,omitempty"`
	Layers        int               `json:"num_hidden_layers,omitempty"`
	NextN         int               `json:"num_nextn_predict_layers,omitempty"` // further layers for multi-token prediction
	Hidden        int               `json:"hidden_size,omitempty"`
	Intermediate  int               `json:"intermediate_size,omitempty"`
	Heads         int               `json:"num_attention_heads,omitempty"`
	KVHeads       int               `json:"num_key_value_heads,omitempty"`
	HeadDim       int               `json:"head_dim,omitempty"`
	Vocab         int               `json:"vocab_size,omitempty"`
	Context       Context           `json:"context,omitzero"`
	Tied          *bool             `json:"tie_word_embeddings,omitempty"` // nil: not said
	AttentionBias bool              `json:"attention_bias,omitempty"`
	MLPBias       bool              `json:"mlp_bias,omitempty"`
	EOS           []int             `json:"eos_token_id,omitempty"`
	Rope          Rope              `json:"rope,omitzero"`
	AutoMap       map[string]string `json:"auto_map,omitempty"`
	References    []Reference       `json:"references,omitempty"` // other repositories that it names
	Nested        bool              `json:"nested,omitempty"`     // the numbers come from a text_config
	TextType      string            `json:"text_type,omitempty"`  // its model_type
	Vision        bool              `json:"vision,omitempty"`
	Audio         bool              `json:"audio,omitempty"`
	DualChunk     bool              `json:"dual_chunk_attention,omitempty"`
	Activation    string            `json:"hidden_act,omitempty"`
	Tower         *Tower            `json:"vision_tower,omitempty"`
	// PlainProjector says that what stands between tower and text model has no biases.
	PlainProjector bool     `json:"plain_projector,omitempty"`
	Assumed        []string `json:"assumed,omitempty"`    // numbers that config.json does not state: they are what transformers takes for this model type
	Misfits        []Misfit `json:"misfits,omitempty"`    // values that transformers refuses
	Modules        []Module `json:"modules,omitempty"`    // of modules.json: what sentence-transformers puts after the model
	NoPooling      string   `json:"no_pooling,omitempty"` // the file of a pooling that chooses no kind
}

// Tower is what config.json says of the part that sees; 0 is not known.
type Tower struct {
	Type   string `json:"model_type,omitempty"`
	Layers int    `json:"num_hidden_layers,omitempty"`
	Hidden int    `json:"hidden_size,omitempty"`
	Patch  int    `json:"patch_size,omitempty"`
	Image  int    `json:"image_size,omitempty"`
	// Taken is the layer whose output is used, counted from the last when negative;
	// 0 is not known.
	Taken int `json:"vision_feature_layer,omitempty"`
}

// Used is how many of the layers the engine makes, counted from the first.
func (t *Tower) Used() int {
	switch {
	case t.Taken > 0:
		return t.Taken
	case t.Taken < 0:
		return t.Layers + t.Taken + 1
	}
	return t.Layers
}

// Context is what bounds the length of a prompt, in tokens; 0 is not said.
type Context struct {
	Length   int    `json:"length,omitempty"` // the smallest of the fields that vLLM looks at
	Field    string `json:"field,omitempty"`  // its name
	Maximum  int    `json:"model_max_length,omitempty"`
	Original int    `json:"original_max_position_embeddings,omitempty"` // outside of the rope block
	Encoder  int    `json:"encoder_max_length,omitempty"`               // max_seq_length of sentence_bert_config.json
}

// Rope is what config.json says of rotary positions. Effective is the block that
// transformers takes, rope_scaling before rope_parameters; Ignored the other
// one where both stand and differ.
type Rope struct {
	Effective json.RawMessage `json:"effective,omitempty"`
	Ignored   json.RawMessage `json:"ignored,omitempty"`
	Theta     bool            `json:"theta,omitempty"` // rope_theta stands outside of the blocks
	Partial   float64         `json:"partial_rotary_factor,omitempty"`
	Labels    []string        `json:"labels,omitempty"` // layer_types: keys that a block may be nested under
}

// Reference is another repository that a field names.
type Reference struct {
	Field string `json:"field"`
	Name  string `json:"name"`
}

// Module is one step of an embedding model.
type Module struct {
	Path string `json:"path"`
	Type string `json:"type"`
}

// Generation is generation_config.json.
type Generation struct {
	EOS     []int    `json:"eos_token_id,omitempty"`
	Misfits []Misfit `json:"misfits,omitempty"` // sampling defaults with which every request fails
}

// sampling are the defaults that the engine takes from generation_config.json, with
// their bounds; open ones are not reached.
var sampling = []struct {
	field, kinds string // kinds of values, see kindOf
	from, to     float64
	open, free   bool // from is not reached; there is no upper bound
}{
	{"temperature", "if", 0, 2, false, false}, {"top_p", "if", 0, 1, true, false}, {"top_k", "i", -1, 0, false, true}, {"min_p", "if", 0, 1, false, false},
	{"repetition_penalty", "if", 0, 0, true, true}, {"presence_penalty", "if", -2, 2, false, false}, {"frequency_penalty", "if", -2, 2, false, false},
	{"max_new_tokens", "i", 1, 0, false, true},
}

// samplingMisfits are sampling defaults that the engine refuses in every request.
func samplingMisfits(o object) (out []Misfit) {
	for _, s := range sampling {
		var n float64
		kind := kindOf(o[s.field])
		switch {
		case kind == 0 || kind == 'n':
			continue
		case allows(s.kinds, o[s.field]) && o.get(s.field, &n) && n >= s.from && (n > s.from || !s.open) && (s.free || n <= s.to):
			continue
		}
		out = append(out, Misfit{Field: s.field, What: fmt.Sprintf("%s is %s, which the engine refuses in every request", s.field, excerpt(o[s.field])),
			Seen: fmt.Sprintf("%s must be …, got …", strings.Replace(s.field, "max_new_", "max_", 1))})
	}
	if raw := o["eos_token_id"]; kindOf(raw) != 0 && !allows("inIe", raw) {
		out = append(out, Misfit{Field: "eos_token_id", What: fmt.Sprintf("eos_token_id is %s, and must be a whole number or a list of them", excerpt(raw)), Seen: "msgspec.ValidationError: Expected `int`"})
	}
	return out
}

// config reads config.json.
func (r *repository) config() {
	o := r.object("config.json")
	if o == nil {
		return
	}
	text, nested := textConfig(o)
	kind := o.str("model_type")
	if nested {
		kind = textType(o, text)
	}
	known := classOf(kind)
	c := &Config{
		Architectures: o.strings("architectures"), ModelType: o.str("model_type"), DType: text.str("dtype"), Writer: o.str("transformers_version"),
		NextN: nextN(text), Activation: text.str("hidden_act"), AttentionBias: text.truth("attention_bias"), MLPBias: text.truth("mlp_bias"),
		EOS: text.integers("eos_token_id"), Nested: nested, DualChunk: text.object("dual_chunk_attention_config") != nil,
		Vision: o.object("vision_config") != nil, Audio: o.object("audio_config") != nil || slices.Contains(audioTypes, o.str("model_type")),
	}
	if nested {
		c.TextType = kind
	}
	c.shape(known, text)
	c.Tower = tower(o)
	c.PlainProjector = o["multimodal_projector_bias"] != nil && !o.truth("multimodal_projector_bias")
	c.Misfits = slices.Concat(classOf(c.ModelType).misfits(o, "", 0), strictFields(o), c.imageToken(o))
	if c.DType == "" {
		c.DType = firstOf(text.str("torch_dtype"), o.str("dtype"), o.str("torch_dtype"))
	}
	c.Tied, c.Rope, c.Context = tied(o, text), ropeOf(text), contextOf(text, known)
	c.Context.Encoder = r.encoderLength()
	c.AutoMap = autoMap(o)
	c.References = references(o)
	if len(c.EOS) == 0 {
		c.EOS = o.integers("eos_token_id")
	}
	c.Modules = r.modules()
	c.NoPooling = r.poolless
	r.facts.Config = c
}

// shape reads the numbers that decide how many tensors there are, and their shapes.
func (c *Config) shape(known *class, text object) {
	for name, into := range map[string]*int{"num_hidden_layers": &c.Layers, "hidden_size": &c.Hidden, "intermediate_size": &c.Intermediate,
		"num_attention_heads": &c.Heads, "num_key_value_heads": &c.KVHeads, "head_dim": &c.HeadDim, "vocab_size": &c.Vocab} {
		n, assumed := known.number(text, name)
		if *into = n; assumed {
			c.Assumed = append(c.Assumed, name)
		}
	}
	slices.Sort(c.Assumed)
}

// tower reads vision_config; nil without one. LLaVA makes one by itself where there
// is none.
func tower(o object) *Tower {
	v, llava := o.object("vision_config"), o.str("model_type") == "llava"
	switch {
	case v == nil && llava:
		return &Tower{Type: "clip_vision_model", Layers: 24, Hidden: 1024, Patch: 14, Image: 336, Taken: -2}
	case v == nil:
		return nil
	}
	kind := v.str("model_type")
	if part := classOf(o.str("model_type")).Parts["vision_config"]; part != "" {
		kind = part
	}
	t, known := &Tower{Type: kind}, classOf(kind)
	for name, into := range map[string]*int{"num_hidden_layers": &t.Layers, "hidden_size": &t.Hidden, "patch_size": &t.Patch, "image_size": &t.Image} {
		*into, _ = known.number(v, name)
	}
	if t.Taken = o.integer("vision_feature_layer"); llava && o["vision_feature_layer"] == nil {
		t.Taken = -2
	}
	return t
}

// textType is the model type of the text model: what its part of config.json says,
// else what the whole model's class makes of it.
func textType(o, text object) string {
	if part := classOf(o.str("model_type")).Parts["text_config"]; part != "" {
		return part
	}
	return firstOf(text.str("model_type"), map[string]string{"llava": "llama"}[o.str("model_type")])
}

// imageToken judges the place of images in LLaVA's prompts, for which its class has
// a default beyond small vocabularies.
func (c *Config) imageToken(o object) []Misfit {
	const otherwise = 32000
	if c.ModelType != "llava" || o["image_token_index"] != nil || o["image_token_id"] != nil || c.Vocab < 1 || c.Vocab > otherwise {
		return nil
	}
	return []Misfit{{Field: "image_token_index", What: fmt.Sprintf("config.json has no image_token_index, which the engine takes to be %d, and the vocabulary has %d tokens", otherwise, c.Vocab),
		Seen: "AssertionError: Failed to apply prompt replacement for mm_items['image'][0]"}}
}

// strictFields judges what the engine reads before any model type's class does.
func strictFields(o object) (out []Misfit) {
	if raw := o["architectures"]; kindOf(raw) != 0 && !allows("nSe", raw) {
		out = append(out, Misfit{Field: "architectures", What: fmt.Sprintf("architectures is %s, and must be a list of texts", excerpt(raw)), Seen: "1 validation error for ModelConfig: architectures: Input should be a valid list"})
	}
	for _, field := range []string{"dtype", "torch_dtype"} {
		if name := o.str(field); name != "" && !slices.Contains(dtypes, name) {
			out = append(out, Misfit{Field: field, What: fmt.Sprintf("%s is %.40q, which torch does not have", field, name), Seen: fmt.Sprintf("AttributeError: module 'torch' has no attribute '%.40s'", name)})
		}
	}
	return out
}

// dtypes are torch's names of the types that weights may have.
var dtypes = []string{"float32", "float", "float64", "double", "float16", "half", "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
	"float8_e8m0fnu", "float4_e2m1fn_x2", "uint8", "int8", "int16", "short", "int32", "int", "int64", "long", "bool", "uint16", "uint32", "uint64", "complex64", "cfloat", "complex128"}

// audioTypes are models that hear, without an audio_config.
var audioTypes = []string{"whisper"}

// nextN is the number of layers for multi-token prediction, by the names that
// models give it.
func nextN(text object) int {
	for _, key := range []string{"num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules", "num_mtp_layers"} {
		if n := text.integer(key); n > 0 {
			return n
		}
	}
	return 0
}

// ropeOf reads both blocks. transformers takes rope_scaling where it is not
// empty, else rope_parameters.
func ropeOf(text object) Rope {
	scaling, parameters := text.object("rope_scaling"), text.object("rope_parameters")
	r := Rope{Theta: text["rope_theta"] != nil || text["rotary_emb_base"] != nil, Labels: text.strings("layer_types")}
	slices.Sort(r.Labels)
	r.Labels = slices.Compact(r.Labels)
	text.get("partial_rotary_factor", &r.Partial)
	switch {
	case len(scaling) > 0:
		r.Effective = text["rope_scaling"]
		if len(parameters) > 0 && !maps.EqualFunc(parameters, scaling, sameValue) {
			r.Ignored = text["rope_parameters"]
		}
	case len(parameters) > 0:
		r.Effective = text["rope_parameters"]
	}
	return r
}

// sameValue compares two JSON values by their text without spaces.
func sameValue(a, b json.RawMessage) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	left, _ := json.Marshal(x)
	right, _ := json.Marshal(y)
	return string(left) == string(right)
}

// lengthFields are those that vLLM takes the smallest of.
var lengthFields = []string{"max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length",
	"max_target_positions", "max_sequence_length", "max_seq_length", "seq_len"}

func contextOf(text object, known *class) Context {
	c := Context{Maximum: text.integer("model_max_length"), Original: text.integer("original_max_position_embeddings")}
	for _, field := range lengthFields {
		if n, _ := known.number(text, field); n > 0 && (c.Length == 0 || n < c.Length) {
			c.Length, c.Field = n, field
		}
	}
	if c.Maximum > 0 {
		c.Length, c.Field = c.Maximum, "model_max_length"
	}
	return c
}

// encoderLength is max_seq_length of the configuration that sentence-transformers
// writes beside the model, sentence_bert_config.json or one of its siblings.
func (r *repository) encoderLength() int {
	for _, name := range r.inRoot("sentence_*_config.json") {
		if n := r.object(name).integer("max_seq_length"); n > 0 {
			return n
		}
	}
	return 0
}

// autoMap reads which code makes which class. tokenizer_config.json has lists
// there: the slow class and the fast one.
func autoMap(o object) map[string]string {
	out := map[string]string{}
	m := o.object("auto_map")
	for key := range m {
		if list := m.pointers(key); len(list) > 0 {
			out[key] = list[len(list)-1]
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// references finds fields that name other repositories.
func references(o object) (out []Reference) {
	add := func(field, name string) {
		if name != "" {
			out = append(out, Reference{field, name})
		}
	}
	verifier := o.object("speculators_config").object("verifier")
	add("speculators_config.verifier.name_or_path", verifier.str("name_or_path"))
	for _, field := range []string{"text_model_id", "audio_model_id", "mm_vision_tower", "vision_tower"} {
		add(field, o.str(field))
	}
	return out
}

// modules reads modules.json, a list.
func (r *repository) modules() []Module {
	f, ok := r.files["modules.json"]
	if !ok || r.broken("modules.json") {
		return nil
	}
	var list []Module
	if err := json.Unmarshal(f.Content, &list); err != nil {
		r.problem("modules.json", KindInvalidJSON, 0, "it is not a JSON list of modules: "+err.Error())
	}
	for _, m := range list {
		file := strings.TrimSuffix(m.Path, "/") + "/config.json"
		if o := r.object(file); strings.HasSuffix(m.Type, "Pooling") && noMode(o) {
			r.poolless = file
		}
	}
	return list
}

// noMode reports whether a pooling has switches for its kinds and none is on.
func noMode(o object) bool {
	switches := 0
	for key := range o {
		if strings.HasPrefix(key, "pooling_mode_") {
			switches++
			if o.truth(key) {
				return false
			}
		}
	}
	return switches > 0 && o.str("pooling_mode") == ""
}

// textConfig is the part of the config that describes the text model.
func textConfig(o object) (object, bool) {
	for _, key := range []string{"text_config", "llm_config", "language_config"} {
		if t := o.object(key); t != nil {
			return t, true
		}
	}
	if t := o.object("thinker_config").object("text_config"); t != nil {
		return t, true
	}
	if o.str("model_type") == "llava" { // it makes one by itself
		return object{}, true
	}
	return o, false
}

func tied(o, text object) *bool {
	for _, from := range []object{o, text} {
		var b bool
		if from.get("tie_word_embeddings", &b) {
			return &b
		}
	}
	return nil
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// generation reads generation_config.json.
func (r *repository) generation() {
	if o := r.object("generation_config.json"); o != nil {
		r.facts.Generation = &Generation{EOS: o.integers("eos_token_id"), Misfits: samplingMisfits(o)}
	}
}
