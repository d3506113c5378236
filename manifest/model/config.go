package model

import (
	"encoding/json"
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
	Modules       []Module          `json:"modules,omitempty"` // of modules.json: what sentence-transformers puts after the model
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
	EOS []int `json:"eos_token_id,omitempty"`
}

// config reads config.json.
func (r *repository) config() {
	o := r.object("config.json")
	if o == nil {
		return
	}
	text, nested := textConfig(o)
	c := &Config{
		Architectures: o.strings("architectures"), ModelType: o.str("model_type"), DType: text.str("dtype"), Writer: o.str("transformers_version"),
		Layers: text.integer("num_hidden_layers"), NextN: nextN(text),
		Hidden: text.integer("hidden_size"), Intermediate: text.integer("intermediate_size"),
		Heads: text.integer("num_attention_heads"), KVHeads: text.integer("num_key_value_heads"), HeadDim: text.integer("head_dim"),
		Vocab: text.integer("vocab_size"), AttentionBias: text.truth("attention_bias"), MLPBias: text.truth("mlp_bias"),
		EOS: text.integers("eos_token_id"), Nested: nested, DualChunk: text.object("dual_chunk_attention_config") != nil,
		Vision: o.object("vision_config") != nil, Audio: o.object("audio_config") != nil || slices.Contains(audioTypes, o.str("model_type")),
	}
	if nested {
		c.TextType = text.str("model_type")
	}
	if c.DType == "" {
		c.DType = firstOf(text.str("torch_dtype"), o.str("dtype"), o.str("torch_dtype"))
	}
	c.Tied, c.Rope, c.Context = tied(o, text), ropeOf(text), contextOf(text)
	c.Context.Encoder = r.encoderLength()
	c.AutoMap = autoMap(o)
	c.References = references(o)
	if len(c.EOS) == 0 {
		c.EOS = o.integers("eos_token_id")
	}
	c.Modules = r.modules()
	r.facts.Config = c
}

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

func contextOf(text object) Context {
	c := Context{Maximum: text.integer("model_max_length"), Original: text.integer("original_max_position_embeddings")}
	for _, field := range lengthFields {
		if n := text.integer(field); n > 0 && (c.Length == 0 || n < c.Length) {
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
		r.object(strings.TrimSuffix(m.Path, "/") + "/config.json")
	}
	return list
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
		r.facts.Generation = &Generation{EOS: o.integers("eos_token_id")}
	}
}
