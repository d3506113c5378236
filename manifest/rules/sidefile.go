package rules

import (
	"fmt"
	"slices"
	"strings"

	"drkit/manifest"
)

// sideFile is what a method reads when config.json says nothing: files in the
// root whose names end in one of these.
type sideFile struct {
	rule    string
	endings []string
}

// sideFiles by the value of --quantization.
var sideFiles = map[string]sideFile{
	"awq": {"Q-2", awqFiles}, "auto_awq": {"Q-2", awqFiles}, "awq_marlin": {"Q-2", awqFiles},
	"gptq": {"Q-3", gptqFiles}, "auto_gptq": {"Q-3", gptqFiles}, "gptq_marlin": {"Q-3", gptqFiles}, "moe_wna16": {"Q-3", gptqFiles},
	"modelopt": {"Q-4", modeloptFiles}, "modelopt_fp4": {"Q-4", modeloptFiles}, "modelopt_mxfp8": {"Q-4", modeloptFiles}, "modelopt_mixed": {"Q-4", modeloptFiles},
	"inc": {"Q-5", incFiles}, "auto-round": {"Q-5", incFiles},
}

var (
	awqFiles      = []string{"quant_config.json", "quantize_config.json"}
	gptqFiles     = []string{"quantize_config.json"}
	modeloptFiles = []string{"hf_quant_config.json"}
	incFiles      = []string{"quantization_config.json"}
)

// noSideFile makes the rule for one kind of side file.
func noSideFile(rule string) func(*view) []manifest.Finding {
	return func(v *view) []manifest.Finding {
		asked := v.option("quantization")
		side, q := sideFiles[asked], v.base.facts.Quantization
		if side.rule != rule || v.base.facts.Config == nil || v.otherLoader() || v.object("hf_overrides") != nil {
			return nil
		}
		if q != nil && (q.Source == "config.json" || q.Source == "hf_quant_config.json") && (asked != "modelopt_mixed" || q.Layers) {
			return nil
		}
		found := v.base.endingIn(side.endings)
		if len(found) == 1 {
			return nil
		}
		f := v.at("quantization")
		wanted := strings.Join(side.endings, " or ")
		f.Message = fmt.Sprintf("the engine is told --quantization %s; config.json has no quantization_config, and no file whose name ends in %s is there", asked, wanted)
		f.Seen = "Cannot find the config file for " + asked
		f.Hint = "copy " + side.endings[len(side.endings)-1] + " from the model's origin, or remove --quantization when the weights are plain"
		if len(found) > 1 {
			f.Message = fmt.Sprintf("the engine is told --quantization %s, and takes every file whose name ends in %s: it finds %s and wants just one", asked, wanted, strings.Join(found, " and "))
			f.Seen = fmt.Sprintf("Found multiple config files for %s: ['%s']", asked, strings.Join(found, "', '"))
			f.Hint = "keep the one that belongs to the weights"
		}
		return []manifest.Finding{f}
	}
}

// endingIn lists the JSON files in the root whose names end in one of endings.
func (r *repo) endingIn(endings []string) (found []string) {
	for _, name := range r.names() {
		if strings.HasSuffix(name, ".json") && slices.ContainsFunc(endings, func(e string) bool { return strings.HasSuffix(name, e) }) {
			found = append(found, name)
		}
	}
	return found
}

func noCacheScales(v *view) []manifest.Finding {
	r := v.base
	q, asked := r.facts.Quantization, v.option("kv_cache_dtype")
	automatic := asked == "" || asked == "auto"
	wanted := strings.HasPrefix(asked, "fp8") || automatic && q != nil && q.KVCache
	if !wanted || !v.findable(r) || v.truth("calculate_kv_scales") || r.holdsCacheScales() {
		return nil
	}
	f := v.at("kv_cache_dtype")
	f.Severity = manifest.Degraded // many serve so on purpose
	if automatic {
		// the weights were made with scales: without them answers differ, as was measured
		f = manifest.Finding{Severity: manifest.Silent, Path: r.path("config.json"), Field: "quantization_config.kv_cache_scheme"}
	}
	f.Message = "the key-value cache is kept in 8 bits, and no shard holds k_scale or v_scale: the engine takes 1.0 for them"
	f.Seen = "Using KV cache scaling factor 1.0 for fp8_e4m3. If this is unintended, verify that k/v_scale scaling factors are properly set in the checkpoint."
	f.Hint = "copy the shards with the scales from the model's origin, where it has them"
	return []manifest.Finding{f}
}

func (r *repo) holdsCacheScales() bool {
	for name := range r.tensors {
		for _, end := range []string{".k_scale", ".v_scale", ".kv_scale", "k_proj.output_scale", "v_proj.output_scale"} {
			if strings.HasSuffix(name, end) {
				return true
			}
		}
	}
	return false
}

func noOverrideFile(v *view) []manifest.Finding {
	name, _ := v.object("hf_overrides")["quantization_config_file"].(string)
	if name == "" || v.inRelease(name) || v.base.present(name) {
		return nil
	}
	f := v.at("hf_overrides")
	f.Field = "hf_overrides.quantization_config_file"
	f.Message = fmt.Sprintf("--hf-overrides takes the quantization from %s, which is in no part of the release", name)
	f.Seen, f.Hint = "FileNotFoundError", "put the file into the model's folder"
	return []manifest.Finding{f}
}

// deprecatedMethods are those of vLLM 0.32 that need a flag.
var deprecatedMethods = []string{"fbgemm_fp8", "fp_quant"}

func deprecatedMethod(v *view) []manifest.Finding {
	q := v.base.facts.Quantization
	if q == nil || q.Source != "config.json" || !slices.Contains(deprecatedMethods, q.Method) || v.truth("allow_deprecated_quantization") || !v.judgedVersion() {
		return nil
	}
	return []manifest.Finding{{Path: v.base.path("config.json"), Field: "quantization_config.quant_method",
		Message: fmt.Sprintf("quant_method %s is deprecated, and the engine is not told --allow-deprecated-quantization", q.Method),
		Seen:    fmt.Sprintf("The quantization method %s is deprecated", q.Method), Hint: "give --allow-deprecated-quantization, and plan for other weights"}}
}
