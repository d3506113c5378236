package model

import "encoding/json"

// Config is what the rules need of config.json. For a model with several parts
// the numbers are those of its text model.
type Config struct {
	Architectures []string          `json:"architectures,omitempty"`
	ModelType     string            `json:"model_type,omitempty"`
	DType         string            `json:"dtype,omitempty"`
	Layers        int               `json:"num_hidden_layers,omitempty"`
	NextN         int               `json:"num_nextn_predict_layers,omitempty"` // further layers for multi-token prediction
	Hidden        int               `json:"hidden_size,omitempty"`
	Intermediate  int               `json:"intermediate_size,omitempty"`
	Heads         int               `json:"num_attention_heads,omitempty"`
	KVHeads       int               `json:"num_key_value_heads,omitempty"`
	HeadDim       int               `json:"head_dim,omitempty"`
	Vocab         int               `json:"vocab_size,omitempty"`
	MaxPosition   int               `json:"max_position_embeddings,omitempty"`
	Tied          *bool             `json:"tie_word_embeddings,omitempty"` // nil: not said
	AttentionBias bool              `json:"attention_bias,omitempty"`
	MLPBias       bool              `json:"mlp_bias,omitempty"`
	EOS           []int             `json:"eos_token_id,omitempty"`
	Rope          json.RawMessage   `json:"rope,omitempty"` // rope_parameters, else rope_scaling, as written
	AutoMap       map[string]string `json:"auto_map,omitempty"`
	Nested        bool              `json:"nested,omitempty"`    // the numbers come from a text_config
	TextType      string            `json:"text_type,omitempty"` // its model_type
	Vision        bool              `json:"vision,omitempty"`
	Audio         bool              `json:"audio,omitempty"`
	Modules       []Module          `json:"modules,omitempty"` // of modules.json: what sentence-transformers puts after the model
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
		Architectures: o.strings("architectures"), ModelType: o.str("model_type"), DType: text.str("dtype"),
		Layers: text.integer("num_hidden_layers"), NextN: text.integer("num_nextn_predict_layers"),
		Hidden: text.integer("hidden_size"), Intermediate: text.integer("intermediate_size"),
		Heads: text.integer("num_attention_heads"), KVHeads: text.integer("num_key_value_heads"), HeadDim: text.integer("head_dim"),
		Vocab: text.integer("vocab_size"), MaxPosition: text.integer("max_position_embeddings"),
		AttentionBias: text.truth("attention_bias"), MLPBias: text.truth("mlp_bias"),
		EOS: text.integers("eos_token_id"), Nested: nested,
		Vision: o["vision_config"] != nil, Audio: o["audio_config"] != nil,
	}
	if nested {
		c.TextType = text.str("model_type")
	}
	if c.DType == "" {
		c.DType = firstOf(text.str("torch_dtype"), o.str("dtype"), o.str("torch_dtype"))
	}
	c.Tied = tied(o, text)
	o.get("auto_map", &c.AutoMap)
	for _, key := range []string{"rope_parameters", "rope_scaling"} {
		if raw := text[key]; len(c.Rope) == 0 && raw != nil && string(raw) != "null" {
			c.Rope = raw
		}
	}
	if len(c.EOS) == 0 {
		c.EOS = o.integers("eos_token_id")
	}
	c.Modules = r.modules()
	r.facts.Config = c
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
	return list
}

// textConfig is the part of the config that describes the text model.
func textConfig(o object) (object, bool) {
	for _, key := range []string{"text_config", "llm_config", "language_config"} {
		if t := o.object(key); t != nil {
			return t, true
		}
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

// Processor says which preprocessing of images, audio or video the repository holds.
type Processor struct {
	Files []string `json:"files,omitempty"`
	Image bool     `json:"image,omitempty"` // an image processor is described somewhere
}

// processor reads the processor configs.
func (r *repository) processor() {
	p := &r.facts.Processor
	for _, name := range []string{"preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json"} {
		if !r.has(name) {
			continue
		}
		p.Files = append(p.Files, name)
		o := r.object(name)
		p.Image = p.Image || name == "preprocessor_config.json" || o["image_processor"] != nil
	}
}
