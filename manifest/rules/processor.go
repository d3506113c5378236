package rules

import (
	"fmt"
	"slices"
	"strings"

	"drkit/manifest"
)

var processorRules = []Rule{
	{"T-8", manifest.Block, "two sources of a processor's chat templates",
		"chat_template.json and additional_chat_templates/ do not stand together.", twoTemplateSources},
	{"T-11", manifest.Block, "the preparation of images, audio or video is missing",
		"A model that takes images, audio or video has preprocessor_config.json, or what they need in processor_config.json.", noProcessor},
}

func twoTemplateSources(v *view) []manifest.Finding {
	c, t := v.base.facts.Config, v.base.facts.Template
	if c == nil || !c.Vision && !c.Audio || !t.LegacyJSON || !t.Additional {
		return nil
	}
	return []manifest.Finding{{Path: v.base.path("chat_template.json"),
		Message: "chat_template.json and additional_chat_templates/ stand together, which a processor refuses",
		Seen:    "Cannot load chat template due to conflicting files",
		Hint:    "keep chat_template.jinja with additional_chat_templates/, and remove chat_template.json"}}
}

// videoTypes are models whose processor prepares videos apart from images.
var videoTypes = []string{"qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen2_5_omni", "llava_next_video", "llava_onevision", "video_llava", "glm4v", "glm4v_moe"}

// kindOf is what a model takes beside text, with where its preparation stands.
type kindOf struct {
	name, key, file, class string
	takes, has             bool
}

// noProcessor judges models whose code is the engine's own and that are asked
// for more than text.
func noProcessor(v *view) []manifest.Finding {
	c, p := v.base.facts.Config, v.base.facts.Processor
	if c == nil || len(c.AutoMap) > 0 || v.base.mistralTokenizer() || v.option("tokenizer_mode") == "mistral" {
		return nil
	}
	for _, name := range []string{"processor_config.json", "preprocessor_config.json", "video_preprocessor_config.json"} {
		if v.base.broken(name) {
			return nil
		}
	}
	conditional := slices.ContainsFunc(c.Architectures, func(a string) bool { return strings.HasSuffix(a, "ForConditionalGeneration") })
	for _, k := range []kindOf{
		{"image", "image_processor", "preprocessor_config.json", "image processor", c.Vision && conditional, p.Image},
		{"audio", "feature_extractor", "preprocessor_config.json", "feature extractor", c.Audio && conditional, p.Audio},
		{"video", "video_processor", "video_preprocessor_config.json", "video processor", slices.Contains(videoTypes, c.ModelType), p.Video},
	} {
		if !k.takes || k.has || v.without(k.name) {
			continue
		}
		path := k.file
		if len(p.Files) == 0 || v.base.present("processor_config.json") {
			path = "processor_config.json"
		}
		return []manifest.Finding{{Path: v.base.path(path), Field: k.key,
			Message: fmt.Sprintf("the model takes %s, and neither %s nor processor_config.json with %s is there", k.name, k.file, k.key),
			Seen:    fmt.Sprintf("Can't load %s for '…'. … containing a %s file", k.class, k.file),
			Hint:    fmt.Sprintf("copy the processor files from the model's origin, or serve without with --limit-mm-per-prompt '{\"%s\": 0}'", k.name)}}
	}
	return nil
}

// without reports whether the engine is told to take none of a kind of input.
func (v *view) without(kind string) bool {
	if v.truth("language_model_only") {
		return true
	}
	switch n := v.object("limit_mm_per_prompt")[kind].(type) {
	case int64:
		return n == 0
	case float64:
		return n == 0
	}
	return false
}
