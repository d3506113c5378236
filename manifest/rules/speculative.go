package rules

import (
	"fmt"
	"slices"
	"strings"

	"drkit/manifest"
)

// speculators are the speculative methods of vLLM 0.32 beside those that end in mtp.
var speculators = strings.Fields("ngram [ngram] ngram_gpu medusa mlp_speculator draft_model suffix custom_class eagle eagle3 extract_hidden_states dflash dspark")

// refusedSpeculation finds speculative configurations that vLLM 0.32 refuses by
// themselves, whatever the models are.
func refusedSpeculation(v *view) []manifest.Finding {
	value, set := v.optionValue("speculative_config")
	config, object := value.(map[string]any)
	if !set || !object || !v.judgedVersion() || v.onlySGLang() {
		return nil
	}
	c := speculation{}
	c.method, _ = config["method"].(string)
	c.model, _ = config["model"].(string)
	c.tokens, c.counted = wholeNumber(config["num_speculative_tokens"])
	least, low := wholeNumber(config["prompt_lookup_min"])
	most, high := wholeNumber(config["prompt_lookup_max"])
	f := v.at("speculative_config")
	f.Hint = "correct --speculative-config, or leave it out"
	switch {
	case c.method != "" && !slices.Contains(speculators, c.method) && !strings.HasSuffix(c.method, "mtp"):
		f.Field, f.Seen = "speculative_config.method", "1 validation error for SpeculativeConfig: method: Input should be 'ngram', 'medusa', …"
		f.Message = fmt.Sprintf("%.40q is no speculative method of vLLM 0.32", c.method)
	case c.counted && c.tokens < 1:
		f.Field, f.Seen = "speculative_config.num_speculative_tokens", "num_speculative_tokens: Input should be greater than 0"
		f.Message = fmt.Sprintf("num_speculative_tokens is %d, and must be at least 1", c.tokens)
	case !c.counted && c.needsCount():
		f.Field, f.Seen = "speculative_config.num_speculative_tokens", "num_speculative_tokens must be provided with speculative model unless the draft model config contains an n_predict parameter."
		f.Message = "the speculative configuration has no num_speculative_tokens, and there is no draft model that would state it"
	case c.counted && c.model == "" && c.needsModel():
		f.Field, f.Seen = "speculative_config.model", "num_speculative_tokens was provided but without speculative model."
		f.Message = fmt.Sprintf("the speculative method %s needs a draft model, and none is named", c.name())
	case strings.HasPrefix(c.method, "ngram") && low && high && least > most:
		f.Field, f.Seen = "speculative_config.prompt_lookup_min", fmt.Sprintf("prompt_lookup_min=%d must be <= prompt_lookup_max=%d", least, most)
		f.Message = fmt.Sprintf("prompt_lookup_min is %d, above prompt_lookup_max, which is %d", least, most)
	default:
		return nil
	}
	return []manifest.Finding{f}
}

// speculation is what a speculative configuration says.
type speculation struct {
	method, model string
	tokens        int
	counted       bool // tokens is said
}

// name is the method, as the engine takes it to be.
func (c speculation) name() string {
	if c.method == "" {
		return "draft_model"
	}
	return c.method
}

// needsCount reports whether nothing but num_speculative_tokens gives the number of
// tokens. A draft model's own configuration may, and suffix decoding has a default.
func (c speculation) needsCount() bool {
	word := strings.Trim(c.model, "[]") == "ngram" || strings.Trim(c.method, "[]") == "ngram" || c.method == "ngram_gpu" || c.method == "custom_class"
	return word || c.model == "" && c.method != "suffix"
}

// needsModel reports whether the method drafts with a model of its own.
func (c speculation) needsModel() bool {
	return slices.Contains([]string{"draft_model", "eagle", "eagle3", "medusa", "mlp_speculator", "dflash"}, c.name())
}

// wholeNumber reads a number of a JSON option.
func wholeNumber(v any) (n int, ok bool) {
	number, ok := asNumber(v)
	n = int(number)
	return n, ok && number == float64(n)
}
