package rules

import (
	"slices"
	"strings"

	"drkit/manifest"
)

var processorRules = []Rule{
	{"T-8", manifest.Block, "two sources of a processor's chat templates",
		"chat_template.json and additional_chat_templates/ do not stand together.", twoTemplateSources},
	{"T-11", manifest.Block, "the image processor is missing",
		"A model that takes images has preprocessor_config.json, or an image_processor in processor_config.json.", noImageProcessor},
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

// noImageProcessor judges models whose code is the engine's own and that are
// asked for images.
func noImageProcessor(v *view) []manifest.Finding {
	c, p := v.base.facts.Config, v.base.facts.Processor
	takesImages := c != nil && c.Vision && len(c.AutoMap) == 0 && slices.ContainsFunc(c.Architectures, func(a string) bool {
		return strings.HasSuffix(a, "ForConditionalGeneration")
	})
	if !takesImages || p.Image || v.noImages() || v.base.facts.Tokenizer.File == "tekken.json" || v.option("tokenizer_mode") == "mistral" {
		return nil
	}
	for _, name := range []string{"processor_config.json", "preprocessor_config.json"} {
		if v.base.broken(name) {
			return nil
		}
	}
	path := "preprocessor_config.json"
	if len(p.Files) == 0 || v.base.present("processor_config.json") {
		path = "processor_config.json"
	}
	return []manifest.Finding{{Path: v.base.path(path),
		Message: "the model takes images, and neither preprocessor_config.json nor an image_processor in processor_config.json is there",
		Seen:    "Can't load image processor for '…'. … containing a preprocessor_config.json file",
		Hint:    "copy the processor files from the model's origin, or serve text only with --limit-mm-per-prompt '{\"image\": 0}'"}}
}

// noImages reports whether the engine is told to take no images.
func (v *view) noImages() bool {
	value, _ := v.optionValue("limit_mm_per_prompt")
	limits, _ := value.(map[string]any)
	switch n := limits["image"].(type) {
	case int64:
		return n == 0
	case float64:
		return n == 0
	}
	return false
}
