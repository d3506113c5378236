package rules

import (
	"fmt"
	"slices"
	"strings"

	"drkit/manifest"
)

// loadFormats and tokenizerModes are those that vLLM 0.32 has by itself. Any word
// passes its parser; another one ends the engine later.
var (
	loadFormats = strings.Fields("auto hf dummy fastsafetensors instanttensor ipc_cache mistral modelexpress npcache pt runai_streamer runai_streamer_sharded safetensors sharded_state tensorizer")
	tokenModes  = strings.Fields("auto hf cohere deepseek_v32 deepseek_v4 deepseek_v41 kimi_audio kimi_k3 mistral inkling custom")
)

// positive are options that must be whole numbers above zero.
var positive = []string{"max_num_seqs", "max_loras", "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "max_num_batched_tokens", "block_size"}

// refusedValue finds values that pass the parser and end the engine afterwards, or
// that keep it from answering. Each is what vLLM 0.32 was seen to do.
func refusedValue(v *view) (out []manifest.Finding) {
	if !v.judgedVersion() || v.onlySGLang() {
		return nil
	}
	add := func(option string, s manifest.Severity, seen, format string, args ...any) {
		f := v.at(option)
		f.Severity, f.Message, f.Seen = s, fmt.Sprintf(format, args...), seen
		f.Hint = "correct the option, or leave it out"
		out = append(out, f)
	}
	if name := v.option("load_format"); name == "dummy" {
		add("load_format", manifest.Silent, "", "--load-format dummy gives the engine random weights: it boots, and answers with garbage")
	} else if name != "" && !slices.Contains(loadFormats, name) {
		add("load_format", manifest.Block, fmt.Sprintf("ValueError: Load format `%s` is not supported", name), "--load-format %s is none that vLLM 0.32 has by itself; with a plugin in the image, waive this rule", name)
	}
	if mode := v.option("tokenizer_mode"); mode != "" && !slices.Contains(tokenModes, mode) {
		add("tokenizer_mode", manifest.Block, fmt.Sprintf("ValueError: No tokenizer registered for tokenizer_mode='%s'.", mode), "--tokenizer-mode %s is none that vLLM 0.32 has", mode)
	}
	if v.truth("skip_tokenizer_init") {
		add("skip_tokenizer_init", manifest.Request, "Tokenizer not available when `skip_tokenizer_init=True`", "--skip-tokenizer-init leaves the engine without a tokenizer: requests with text fail")
	}
	for _, option := range positive {
		if n, set := v.integer(option); set && n < 1 {
			add(option, manifest.Block, "Input should be greater than or equal to 1", "%s is %d, and must be at least 1", option, n)
		}
	}
	if share, ok := v.number("gpu_memory_utilization"); ok && (share <= 0 || share > 1) {
		add("gpu_memory_utilization", manifest.Block, "Input should be less than or equal to 1", "gpu_memory_utilization is %g, and must be above 0 and at most 1", share)
	}
	c, stages := v.base.facts.Config, 0
	if stages, _ = v.integer("pipeline_parallel_size"); c != nil && c.Layers > 0 && stages > c.Layers {
		add("pipeline_parallel_size", manifest.Block, "ZeroDivisionError: integer division or modulo by zero", "%d pipeline stages share %d layers", stages, c.Layers)
	}
	out = append(out, pluggedIn(v)...)
	return append(out, v.twoAdapters()...)
}

// twoAdapters finds one name for two adapters of a command line.
func (v *view) twoAdapters() (out []manifest.Finding) {
	for _, e := range v.m.Annotations.Engine {
		modules, _ := e.Options["lora_modules"].([]any)
		seen := map[string]bool{}
		for _, m := range modules {
			module, _ := m.(map[string]any)
			name, _ := module["name"].(string)
			if name != "" && seen[name] {
				f := v.at("lora_modules")
				f.Message, f.Seen = fmt.Sprintf("--lora-modules names two adapters %s", name), fmt.Sprintf("The lora adapter '%s' has already been loaded.", name)
				f.Hint = "give each adapter a name of its own"
				return append(out, f)
			}
			seen[name] = true
		}
	}
	return out
}
