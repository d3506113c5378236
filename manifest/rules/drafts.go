package rules

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"drkit/manifest"
	"drkit/manifest/model"
)

var draftRules = []Rule{
	{"D-1", manifest.Block, "the draft model is not in the release or does not fit",
		"A model that the speculative configuration names is listed under drafts in drkit.yaml, and has the vocabulary of the model that it drafts for.", unfitDraft},
	{"D-2", manifest.Block, "the layers for multi-token prediction are missing",
		"Speculation by the model's own layers is asked only of a model that has them.", noPredictionLayers},
	{"D-3", manifest.Block, "the speculative configuration is refused",
		"--speculative-config names a method that the engine has, the number of tokens, and a draft model where the method needs one.", refusedSpeculation},
}

// withoutDraft are methods that need no further model.
var withoutDraft = []string{"ngram", "[ngram]", "ngram_gpu", "suffix", "extract_hidden_states", "custom_class"}

func unfitDraft(v *view) (out []manifest.Finding) {
	for _, e := range v.m.Annotations.Engine {
		config, _ := e.Options["speculative_config"].(map[string]any)
		name, _ := config["model"].(string)
		method, _ := config["method"].(string)
		if name == "" || slices.Contains(withoutDraft, name) || slices.Contains(withoutDraft, method) || name == e.Model || len(out) > 0 {
			continue
		}
		f := v.at("speculative_config")
		f.Field = "speculative_config.model"
		draft := v.draft(name)
		switch {
		case draft == nil:
			f.Message = fmt.Sprintf("speculative decoding needs the draft model %s, and the release does not hold it", name)
			f.Seen = "Invalid repository ID or local directory specified"
			f.Hint = "list it under model.drafts in drkit.yaml, with the folder it comes from"
		case v.otherVocabulary(draft, method, config):
			f.Message = fmt.Sprintf("the draft model has %d tokens, the model %d", draft.facts.Config.Vocab, v.base.facts.Config.Vocab)
			f.Seen = "Target and draft model should have the same vocabulary size."
			f.Hint = "take a draft of the same family, or set use_heterogeneous_vocab"
		default:
			continue
		}
		out = append(out, f)
	}
	return out
}

// draft finds the draft model that a name of the engine's configuration means:
// the one whose name the path ends in, or the only one.
func (v *view) draft(name string) *repo {
	var drafts []*repo
	for _, r := range v.repos {
		if !r.draft {
			continue
		}
		if strings.TrimPrefix(r.tree, "drafts/") == path.Base(path.Clean(name)) {
			return r
		}
		drafts = append(drafts, r)
	}
	if len(drafts) == 1 {
		return drafts[0]
	}
	return nil
}

// otherVocabulary judges whole models as drafts; heads of other methods have
// their own vocabulary.
func (v *view) otherVocabulary(draft *repo, method string, config map[string]any) bool {
	a, b := draft.facts.Config, v.base.facts.Config
	free, _ := config["use_heterogeneous_vocab"].(bool)
	return (method == "draft_model" || method == "") && !free && a != nil && b != nil && a.Vocab > 0 && b.Vocab > 0 && a.Vocab != b.Vocab &&
		slices.ContainsFunc(a.Architectures, func(arch string) bool { return decoders[arch] != "" })
}

// predicts are the model types and architectures whose own layers vLLM 0.32 can
// use for speculation.
var predicts = strings.Fields(`bailing_hybrid deepseek_v3 deepseek_v32 deepseek_v4 dots3_note ernie4_5_moe exaone4_5 exaone_moe gemma4_assistant
	gemma4_unified_assistant glm5_next glm_moe_dsa hy_v3 hy_v4 inkling_mm_model inkling_model intern_s2_preview interns2_mobius kimi_k3 kimi_k2
	longcat_flash minimax_m3_vl nemotron_h nemotron_h_puzzle pangu_ultra_moe qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen3_5_text qwen3_next qwen4_exp
	qwen4_exp_text step3p5 step3p7 MiMoForCausalLM MiMoV2OmniForCausalLM Glm4MoeForCausalLM BailingMoeV3VLForConditionalGeneration Glm4MoeLiteForCausalLM
	MiMoV2FlashForCausalLM MiniMaxM3SparseForConditionalGeneration BailingMoeV3ForCausalLM Step3p7ForConditionalGeneration Step3p5ForCausalLM
	MistralLarge3ForCausalLM BailingMoeV2_5ForCausalLM MiMoV2ForCausalLM GlmOcrForConditionalGeneration`)

func (v *view) predicts(c *model.Config) bool {
	return slices.Contains(predicts, c.ModelType) || strings.HasSuffix(c.ModelType, "_mtp") ||
		slices.ContainsFunc(c.Architectures, func(a string) bool { return slices.Contains(predicts, a) })
}

func noPredictionLayers(v *view) []manifest.Finding {
	c := v.base.facts.Config
	config := v.object("speculative_config")
	method, _ := config["method"].(string)
	named, _ := config["model"].(string)
	if c == nil || named != "" || method != "mtp" && !strings.HasSuffix(method, "_mtp") {
		return nil
	}
	f := v.at("speculative_config")
	f.Field = "speculative_config.method"
	f.Hint = "remove the speculative configuration, or name a draft model in it"
	switch {
	case !v.predicts(c):
		f.Message = fmt.Sprintf("the engine is told to speculate by the model's own layers (%s), and a %s model has none that it can use", method, c.ModelType)
		f.Seen = fmt.Sprintf("NotImplementedError: Unsupported speculative method: '%s'", method)
		if !v.judgedVersion() {
			f.Severity = manifest.Degraded
		}
	case v.findable(v.base) && !v.base.holdsPrediction():
		f.Part, f.Path, f.Line = string(manifest.Model), v.base.whereLost(fmt.Sprintf("model.layers.%d.eh_proj.weight", c.Layers)), 0
		f.Field = ""
		f.Message = fmt.Sprintf("the engine is told to speculate by the model's own layers (%s), and no shard holds a tensor of them", method)
		f.Seen = "Following weights were not initialized from checkpoint: {…}"
		f.Hint = "copy the shard with these layers from the model's origin: converters often leave it out"
	default:
		return nil
	}
	return []manifest.Finding{f}
}

// holdsPrediction reports whether some tensor belongs to layers for multi-token
// prediction: beyond the last layer, or under a name of their own.
func (r *repo) holdsPrediction() bool {
	for name := range r.tensors {
		if strings.Contains(name, "mtp") || strings.Contains(name, "nextn") {
			return true
		}
		if m := layerName.FindStringSubmatch(name); m != nil {
			if i, err := strconv.Atoi(m[3]); err == nil && i >= r.facts.Config.Layers {
				return true
			}
		}
	}
	return false
}
