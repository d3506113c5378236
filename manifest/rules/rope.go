package rules

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"drkit/manifest"
	"drkit/manifest/model"
)

var ropeRules = []Rule{
	{"C-8", manifest.Block, "the position scaling is wrong or lost",
		"The rope block names a known type, has what the type needs, and fits the context length.", wrongRope},
	{"C-9", manifest.Block, "the engine asks for a longer context than the model has",
		"max-model-len is at most the length that config.json gives.", contextTooLong},
}

// block is one set of rotary parameters: the only one, or that of a kind of layer.
type block struct {
	label  string
	kind   string // rope_type, else type, else default
	legacy string // type, where rope_type stands too
	fields map[string]any
}

// ropeBlocks reads the effective parameters.
func ropeBlocks(c *model.Config) (out []block) {
	var all map[string]any
	if json.Unmarshal(c.Rope.Effective, &all) != nil {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		inner, nested := all[key].(map[string]any)
		if nested && (slices.Contains(c.Rope.Labels, key) || strings.HasSuffix(key, "attention")) {
			out = append(out, newBlock(key, inner))
		}
	}
	if len(out) == 0 && len(all) > 0 {
		out = append(out, newBlock("", all))
	}
	return out
}

func newBlock(label string, fields map[string]any) block {
	b := block{label: label, fields: fields}
	b.kind, _ = fields["rope_type"].(string)
	old, _ := fields["type"].(string)
	if b.kind == "" {
		b.kind = old
	} else {
		b.legacy = old
	}
	if b.kind == "" {
		b.kind = "default"
	}
	if b.kind == "su" {
		b.kind = "longrope"
	}
	return b
}

func (b block) number(key string) (float64, bool) {
	n, ok := b.fields[key].(float64)
	return n, ok
}

// scaledAlready are the types whose maximum counts as scaled already.
var scaledAlready = []string{"longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling"}

// derivedLength is the context length that vLLM 0.32 derives; 0 when nothing
// says it.
func derivedLength(c *model.Config) int {
	factor := 1.0
	kind := c.ModelType
	if c.Nested {
		kind = c.TextType
	}
	for _, b := range ropeBlocks(c) {
		if n, ok := b.number("factor"); ok && !slices.Contains(scaledAlready, b.kind) && !strings.Contains(kind, "gemma3") {
			factor = n
		}
	}
	if c.Context.Encoder > 0 {
		return c.Context.Encoder
	}
	return int(float64(c.Context.Length) * factor)
}

func contextTooLong(v *view) []manifest.Finding {
	c := v.base.facts.Config
	if c == nil || c.Context.Length == 0 || v.overridden() || v.base.mistral || v.env("VLLM_ALLOW_LONG_MAX_MODEL_LEN") == "1" {
		return nil
	}
	asked, ok := v.integer("max_model_len")
	derived := derivedLength(c)
	if !ok || asked <= derived || c.Context.Maximum > 0 && asked <= c.Context.Maximum {
		return nil
	}
	path, field := "config.json", c.Context.Field
	if c.Context.Encoder > 0 {
		path, field = "sentence_bert_config.json", "max_seq_length"
	}
	return []manifest.Finding{{Path: v.base.path(path), Field: field,
		Message: fmt.Sprintf("the engine asks for max-model-len %d, the model gives %d", asked, derived),
		Seen:    fmt.Sprintf("User-specified max_model_len (%d) is greater than the derived max_model_len (%s=%d …", asked, field, derived),
		Hint:    "lower max-model-len, or restore the rope block and " + field + " of the model's origin"}}
}

// renamed are pairs of an older and a newer name for one scaling, which the
// engine brings together.
var renamed = [][2]string{{"su", "longrope"}, {"mrope", "default"}}

// ropeNeeds are the fields that each type needs; the alternatives of one are
// separated by "|".
var ropeNeeds = map[string][]string{
	"default": nil, "linear": {"factor"}, "ntk": {"factor"}, "dynamic": {"factor|alpha"}, "yarn": {"factor"},
	"deepseek_yarn": {"factor", "original_max_position_embeddings"}, "deepseek_llama_scaling": {"factor", "original_max_position_embeddings"},
	"longrope": {"short_factor", "long_factor"}, "llama3": {"factor", "low_freq_factor", "high_freq_factor"},
	"mrope": {"mrope_section"}, "bailing_mrope": {"mrope_section"}, "mllama4": nil, "proportional": nil, "axial": nil, "telechat3-yarn": {"factor"},
}

func wrongRope(v *view) (out []manifest.Finding) {
	for _, r := range v.repos {
		c := r.facts.Config
		if c == nil || len(c.AutoMap) > 0 || v.overridden() || r.mistral {
			continue // remote code may read it in its own way
		}
		field := "rope_parameters"
		for _, b := range ropeBlocks(c) {
			if b.label != "" {
				field = "rope_parameters." + b.label
			}
			for _, judge := range []func(*model.Config, block) (manifest.Finding, bool){ropeConflict, ropeType, ropeNumbers, ropeFields, ropeLengths, ropeRatio} {
				if f, wrong := judge(c, b); wrong {
					f.Path, f.Field = r.path("config.json"), field
					out = append(out, f)
					break
				}
			}
		}
		if f, wrong := ropeTwice(c); wrong {
			f.Path = r.path("config.json")
			out = append(out, f)
		}
		if f, wrong := ropeLost(c); wrong {
			f.Path = r.path("config.json")
			out = append(out, f)
		}
	}
	return out
}

func ropeConflict(_ *model.Config, b block) (f manifest.Finding, wrong bool) {
	if b.legacy == "" || b.legacy == b.fields["rope_type"] || slices.Contains(renamed, [2]string{b.legacy, fmt.Sprint(b.fields["rope_type"])}) {
		return f, false
	}
	f.Message = fmt.Sprintf("rope_type is %s, the older field type is %s", b.kind, b.legacy)
	f.Seen = fmt.Sprintf("Found conflicts between 'rope_type=%s' (modern field) and 'type=%s' (legacy field). You should only specify one of them.", b.kind, b.legacy)
	f.Hint = "keep the one that the model's origin has"
	return f, true
}

func ropeType(_ *model.Config, b block) (f manifest.Finding, wrong bool) {
	if _, ok := ropeNeeds[b.kind]; ok {
		return f, false
	}
	f.Message = fmt.Sprintf("rope_type is %s, which the engine does not have", b.kind)
	f.Seen = "Unknown RoPE scaling type " + b.kind
	f.Hint = "copy config.json again from the model's origin"
	return f, true
}

// ropeNumbers finds text where the engine computes with a number.
func ropeNumbers(_ *model.Config, b block) (f manifest.Finding, wrong bool) {
	for _, field := range []string{"rope_theta", "factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings", "attention_factor", "beta_fast", "beta_slow", "partial_rotary_factor"} {
		switch b.fields[field].(type) {
		case string, []any, map[string]any:
			f.Message = fmt.Sprintf("%s is %s, and must be a number", field, shortJSON(b.fields[field]))
			f.Seen = "TypeError: unsupported operand type(s)"
			f.Hint = "copy config.json again from the model's origin"
			return f, true
		}
	}
	return f, false
}

// shortJSON is the beginning of a value as JSON.
func shortJSON(v any) string {
	text, _ := json.Marshal(v)
	return fmt.Sprintf("%.40s", text)
}

func ropeFields(c *model.Config, b block) (f manifest.Finding, wrong bool) {
	for _, need := range ropeNeeds[b.kind] {
		found := false
		for field := range strings.SplitSeq(need, "|") {
			value, there := b.fields[field]
			found = found || there && value != nil
		}
		if !found {
			f.Message = fmt.Sprintf("rope_type %s needs %s, which is missing", b.kind, strings.ReplaceAll(need, "|", " or "))
			f.Seen = fmt.Sprintf("Missing required keys in `rope_parameters` for 'rope_type'='%s': {'%s'}", b.kind, need)
			f.Hint = "copy config.json again from the model's origin"
			return f, true
		}
	}
	_, stated := b.number("original_max_position_embeddings")
	if slices.Contains([]string{"yarn", "llama3", "longrope"}, b.kind) && !stated && c.Context.Original == 0 {
		f.Severity = manifest.Silent
		f.Message = fmt.Sprintf("rope_type %s without original_max_position_embeddings: the engine takes %d for it, and scales positions wrongly", b.kind, c.Context.Length)
		f.Hint = "copy config.json again from the model's origin"
		return f, true
	}
	return f, false
}

// ropeLengths compares the number of factors with half of the rotated dimensions.
func ropeLengths(c *model.Config, b block) (f manifest.Finding, wrong bool) {
	partial := 1.0
	if c.Rope.Partial > 0 {
		partial = c.Rope.Partial
	}
	if n, ok := b.number("partial_rotary_factor"); ok {
		partial = n
	}
	if partial <= 0 || partial > 1 {
		f.Message = fmt.Sprintf("partial_rotary_factor is %g, not between 0 and 1", partial)
		f.Seen = fmt.Sprintf("partial_rotary_factor=%g must be between 0.0 and 1.0", partial)
		f.Hint = "copy config.json again from the model's origin"
		return f, true
	}
	dim := c.HeadDim
	if dim == 0 && c.Heads > 0 {
		dim = c.Hidden / c.Heads
	}
	if b.kind != "longrope" || dim == 0 {
		return f, false
	}
	want := int(float64(dim)*partial) / 2
	for _, field := range []string{"short_factor", "long_factor"} {
		if list, ok := b.fields[field].([]any); ok && len(list) != want {
			f.Message = fmt.Sprintf("%s has %d numbers, %d rotated dimensions need %d", field, len(list), int(float64(dim)*partial), want)
			f.Seen = fmt.Sprintf("`rope_parameters`'s %s field must have length %d, got %d", field, want, len(list))
			f.Hint = "copy config.json again from the model's origin"
			return f, true
		}
	}
	return f, false
}

// ropeRatio compares yarn's factor with the lengths. A factor above their ratio
// leaves room, as some documented settings do; one below it is too small for
// the positions that the model claims.
func ropeRatio(c *model.Config, b block) (f manifest.Finding, wrong bool) {
	factor, scaled := b.number("factor")
	original, _ := b.number("original_max_position_embeddings")
	if b.kind != "yarn" || !scaled || original <= 0 || c.Context.Field != "max_position_embeddings" {
		return f, false
	}
	ratio := float64(c.Context.Length) / original
	if ratio <= factor*1.01 {
		return f, false
	}
	f.Severity = manifest.Silent
	f.Message = fmt.Sprintf("yarn's factor is %g, but max_position_embeddings %d is %g times original_max_position_embeddings %g: positions are scaled otherwise than in training",
		factor, c.Context.Length, ratio, original)
	f.Hint = "factor and lengths belong to different versions of config.json: copy it again from the model's origin"
	return f, true
}

func ropeTwice(c *model.Config) (f manifest.Finding, wrong bool) {
	if len(c.Rope.Ignored) == 0 {
		return f, false
	}
	return manifest.Finding{Severity: manifest.Silent, Field: "rope_scaling",
		Message: fmt.Sprintf("rope_scaling (%s) and rope_parameters (%s) both stand in config.json and differ: the engine takes the older one, rope_scaling", c.Rope.Effective, c.Rope.Ignored),
		Hint:    "keep the block that the model's origin has"}, true
}

// alwaysRope are model types for which transformers 5 always writes
// rope_parameters.
var alwaysRope = []string{"llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "gemma", "gemma2", "phi3", "olmo2", "olmo3",
	"granite", "cohere", "stablelm", "starcoder2", "deepseek_v3", "ministral", "glm4", "smollm3"}

func ropeLost(c *model.Config) (f manifest.Finding, wrong bool) {
	kind := c.ModelType
	if c.Nested {
		kind = c.TextType
	}
	if c.Rope.Theta || !strings.HasPrefix(c.Writer, "5.") || !slices.Contains(alwaysRope, kind) {
		return f, false
	}
	for _, b := range ropeBlocks(c) {
		if b.fields["rope_theta"] == nil && len(c.Rope.Ignored) == 0 {
			return manifest.Finding{Severity: manifest.Silent, Field: "rope_parameters",
				Message: fmt.Sprintf("config.json was written by transformers %s, which always states rope_theta for %s, and its rope_parameters have none: the engine takes a base of 10000", c.Writer, kind),
				Hint:    "copy config.json again from the model's origin"}, true
		}
	}
	if len(c.Rope.Effective) > 0 {
		return f, false
	}
	return manifest.Finding{Severity: manifest.Silent, Field: "rope_parameters",
		Message: fmt.Sprintf("config.json was written by transformers %s, which always states rope_parameters for %s, and it has none: the engine takes a base of 10000 and no scaling", c.Writer, kind),
		Hint:    "copy config.json again from the model's origin"}, true
}
