package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"drkit/manifest"
)

var quantizationRules = []Rule{
	{"Q-1", manifest.Block, "packed weights without a quantization config",
		"A repository with packed weights says how they are packed.", noQuantizationConfig},
	{"Q-2", manifest.Block, "the configuration for --quantization awq is missing",
		"With --quantization awq, config.json or exactly one quantize_config.json or quant_config.json says how.", noSideFile("Q-2")},
	{"Q-3", manifest.Block, "the configuration for --quantization gptq is missing",
		"With --quantization gptq, config.json or exactly one quantize_config.json says how.", noSideFile("Q-3")},
	{"Q-4", manifest.Block, "the configuration for --quantization modelopt is missing",
		"With --quantization modelopt, config.json or exactly one hf_quant_config.json says how; a mixed one lists its layers.", noSideFile("Q-4")},
	{"Q-5", manifest.Block, "the configuration for --quantization inc is missing",
		"With --quantization inc, config.json or exactly one quantization_config.json says how.", noSideFile("Q-5")},
	{"Q-6", manifest.Block, "the engine is told another quantization than the model has",
		"--quantization agrees with quant_method in config.json.", otherMethod},
	{"Q-7", manifest.Silent, "the scales of the key-value cache are missing",
		"With an 8 bit key-value cache, the shards hold k_scale and v_scale.", noCacheScales},
	{"Q-11", manifest.Block, "the quantization settings are not those of the weights",
		"quantization_config has the settings that its method needs, with values that the engine has kernels for, and its groups are those of the packed modules.", wrongSettings},
	{"Q-8", manifest.Block, "the file that hf-overrides names is missing",
		"The quantization_config_file of --hf-overrides is part of the release.", noOverrideFile},
	{"Q-9", manifest.Block, "the quantization method is deprecated",
		"A deprecated method is served with --allow-deprecated-quantization.", deprecatedMethod},
	{"C-15", manifest.Block, "the engine does not have the quantization method",
		"quant_method is one that the engine's version has.", unknownMethod},
	{"Q-10", manifest.Silent, "a packed module is incomplete",
		"Each packed module has all tensors of its method in the shapes that the method gives, and a quantization config stands only beside packed weights.", incompleteModules},
}

// packedEndings are endings of tensors that only packed checkpoints have.
var packedEndings = []string{".qweight", ".qzeros", ".g_idx", ".weight_packed", ".weight_scale", ".weight_scale_inv"}

func noQuantizationConfig(v *view) (out []manifest.Finding) {
	for _, r := range v.repos {
		q := r.facts.Quantization
		if r.facts.Config == nil || v.option("quantization") != "" || v.otherLoader() || r.format != ".safetensors" {
			continue
		}
		if q != nil && (q.Source == "config.json" || q.Source == "hf_quant_config.json") && q.Method != "" {
			continue
		}
		name := r.firstPacked()
		if name == "" {
			continue
		}
		f := manifest.Finding{Path: r.path("config.json"), Field: "quantization_config",
			Message: fmt.Sprintf("the shards hold packed tensors such as %s, but config.json has no quantization_config", name),
			Seen:    fmt.Sprintf("There is no module or parameter named '%s' in …", strings.TrimPrefix(name, "model.")),
			Hint:    "restore quantization_config in config.json from the model's origin"}
		if q != nil && len(q.SideFiles) > 0 && q.Method != "" {
			f.Message += "; " + q.SideFiles[0] + " alone is read only with --quantization"
			f.Hint = "give --quantization " + q.Method + ", or restore quantization_config in config.json"
		}
		out = append(out, f)
	}
	return out
}

// firstPacked is the first tensor, by name, that only a packed checkpoint has.
func (r *repo) firstPacked() string {
	for _, name := range slices.Sorted(maps.Keys(r.tensors)) {
		for _, end := range packedEndings {
			if strings.HasSuffix(name, end) {
				return name
			}
		}
	}
	return ""
}

// split divides a tensor's name into module and ending.
func split(name string) (module, ending string) {
	dot := strings.LastIndexByte(name, '.')
	if dot < 0 {
		return name, ""
	}
	return name[:dot], name[dot:]
}

// oneOf reports whether the module has one of the endings, separated by "|".
func (r *repo) oneOf(module, endings string) bool {
	for end := range strings.SplitSeq(endings, "|") {
		if _, ok := r.tensors[module+end]; ok {
			return true
		}
	}
	return false
}

// plainMethod maps the names of a method's variants to the method, for those
// whose mismatch is certain.
var plainMethod = map[string]string{
	"awq": "awq", "auto_awq": "awq", "awq_marlin": "awq", "gptq": "gptq", "auto_gptq": "gptq", "gptq_marlin": "gptq",
	"compressed-tensors": "compressed-tensors", "fp8": "fp8", "bitsandbytes": "bitsandbytes", "mxfp4": "mxfp4",
}

func otherMethod(v *view) []manifest.Finding {
	q := v.base.facts.Quantization
	asked := v.option("quantization")
	if (q == nil || q.Source == "") && slices.Contains(online, asked) && v.base.format != "" {
		f := v.at("quantization")
		f.Severity = manifest.Info
		f.Message = fmt.Sprintf("the engine is told --quantization %s for plain weights: it packs them while it loads them, which needs a GPU that has the format", asked)
		return []manifest.Finding{f}
	}
	if q == nil || q.Source != "config.json" || plainMethod[asked] == "" || plainMethod[q.Method] == "" || plainMethod[asked] == plainMethod[q.Method] {
		return nil
	}
	return []manifest.Finding{{Path: v.base.path("config.json"), Field: "quantization_config.quant_method",
		Message: fmt.Sprintf("the engine is told --quantization %s, the weights are packed by %s", asked, q.Method),
		Seen:    fmt.Sprintf("Quantization method specified in the model config (%s) does not match the quantization method specified in the `quantization` argument (%s).", q.Method, asked),
		Hint:    "remove --quantization: the engine takes the method from config.json"}}
}

// online are methods that pack plain weights while they are loaded.
var online = []string{"fp8", "mxfp8", "fp8_per_tensor", "fp8_per_block", "fp8_per_channel", "int8_per_channel_weight_only", "nvfp4_per_token"}

// methods are those of vLLM 0.32.0, as its error message lists them.
var methods = strings.Fields(`awq auto_awq fp8 fbgemm_fp8 fp_quant modelopt modelopt_fp4 modelopt_mxfp8 modelopt_mixed auto_gptq gptq
	gptq_marlin awq_marlin humming compressed-tensors experts_int8 quark moe_wna16 torchao inc mxfp4 gpt_oss_mxfp4 deepseek_v4_fp8 online
	fp8_per_tensor fp8_per_block fp8_per_channel int8_per_channel_weight_only nvfp4_per_token mxfp8`)

// alias are names in config.json that the engine turns into one of its methods.
var alias = []string{"auto-round", "intel/auto-round", "modelopt_nvfp4"}

// unknownMethod judges vLLM 0.32 only: the list differs by version.
func unknownMethod(v *view) (out []manifest.Finding) {
	if asked := v.option("quantization"); asked != "" && v.judgedVersion() && !v.onlySGLang() && !slices.Contains(methods, asked) && !slices.Contains(alias, strings.ToLower(asked)) {
		f := v.at("quantization")
		f.Message = fmt.Sprintf("the engine is told --quantization %s, which vLLM 0.32 does not have by itself", asked)
		f.Seen = fmt.Sprintf("Unknown quantization method: %s. Must be one of […]", asked)
		f.Hint = "serve with an image that has the method's plugin and waive this rule, or remove the flag"
		out = append(out, f)
	}
	for _, r := range v.repos {
		q := r.facts.Quantization
		if !v.judgedVersion() || q == nil || q.Source != "config.json" || q.Method == "" || slices.Contains(methods, q.Method) || slices.Contains(alias, strings.ToLower(q.Method)) {
			continue
		}
		out = append(out, manifest.Finding{Path: r.path("config.json"), Field: "quantization_config.quant_method",
			Message: fmt.Sprintf("quant_method is %s, which vLLM 0.32 does not have by itself", q.Method),
			Seen:    fmt.Sprintf("Unknown quantization method: %s. Must be one of […]", q.Method),
			Hint:    "serve with an image that has the method's plugin and waive this rule, or take other weights"})
	}
	return out
}
