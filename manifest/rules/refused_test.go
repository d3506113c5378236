package rules_test

import (
	"encoding/json"
	"strings"
	"testing"

	"drkit/manifest"
)

// TestRefusedOptions gives options that vLLM 0.32 takes on its command line and then
// refuses, beside ones that it serves with; what it does follows from its own source
// (config/speculative.py, the factory of connectors, the loader of processors).
func TestRefusedOptions(t *testing.T) {
	spec := func(config string) []string { return []string{"--speculative-config", config} }
	transfer := func(config string) []string { return []string{"--kv-transfer-config", config} }
	for name, c := range map[string]struct {
		args []string
		want string // severity and rule of the gravest finding; "" when nothing fails or degrades
	}{
		"ngram without a count":            {spec(`{"method":"ngram"}`), "block D-3"},
		"ngram named as the model":         {spec(`{"model":"ngram","prompt_lookup_max":3}`), "block D-3"},
		"ngram with a count":               {spec(`{"model":"[ngram]","num_speculative_tokens":3}`), ""},
		"ngram on the GPU":                 {spec(`{"method":"ngram_gpu","num_speculative_tokens":3}`), ""},
		"suffix has a count of its own":    {spec(`{"method":"suffix"}`), ""},
		"a count of zero":                  {spec(`{"method":"ngram","num_speculative_tokens":0}`), "block D-3"},
		"a count and no draft":             {spec(`{"num_speculative_tokens":3}`), "block D-3"},
		"eagle without a draft":            {spec(`{"method":"eagle3","num_speculative_tokens":3}`), "block D-3"},
		"lookup upside down":               {spec(`{"method":"ngram","num_speculative_tokens":3,"prompt_lookup_min":5,"prompt_lookup_max":2}`), "block D-3"},
		"an unknown method by dotted form": {[]string{"--speculative-config.method", "ngrm", "--speculative-config.num_speculative_tokens", "2"}, "block D-3"},
		"a connector of vLLM":              {transfer(`{"kv_connector":"NixlConnector","kv_role":"kv_both"}`), ""},
		"an old connector":                 {transfer(`{"kv_connector":"PyNcclConnector","kv_role":"kv_both"}`), "block E-12"},
		"a connector of a module":          {transfer(`{"kv_connector":"Mine","kv_role":"kv_both","kv_connector_module_path":"acme.kv"}`), "degraded E-12"},
		"a connector in another": {transfer(`{"kv_connector":"MultiConnector","kv_role":"kv_both","kv_connector_extra_config":{"connectors":[{"kv_connector":"OffloadingConnector","kv_role":"kv_both"},{"kv_connector":"Nope","kv_role":"kv_both"}]}}`),
			"block E-12"},
		"two connectors":                 {transfer(`{"kv_connector":"MultiConnector","kv_role":"kv_both","kv_connector_extra_config":{"connectors":[{"kv_connector":"OffloadingConnector","kv_role":"kv_both"},{"kv_connector":"NixlConnector","kv_role":"kv_both"}]}}`), ""},
		"a processor of the image":       {[]string{"--logits-processors", "acme.limits:Limit"}, "degraded E-12"},
		"a processor in Python's form":   {[]string{"--logits-processors", "acme.limits.Limit"}, "block E-12"},
		"a processor of vLLM":            {[]string{"--logits-processors", "vllm.v1.sample.logits_processor:MinPLogitsProcessor"}, ""},
		"no speculation":                 {nil, ""},
		"a connector that says no place": {transfer(`{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_producer"}`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			for _, f := range llama().check(t, func(in *manifest.Input) { in.Engine.Args = c.args }) {
				if f.Severity != manifest.Info && got == "" {
					got = string(f.Severity) + " " + f.Rule
				}
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestQuantizationSettings gives settings that vLLM 0.32's readers refuse while they
// read config.json, on any hardware, and those of well-known public repositories.
func TestQuantizationSettings(t *testing.T) {
	gptq := `{"quant_method":"gptq","bits":4,"group_size":128,"desc_act":false,"sym":true}`
	packed := func(weights string) string {
		return `{"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"group_0":{"targets":["Linear"],"weights":{"num_bits":4,"type":"int","strategy":"group","group_size":128,` + weights + `}}},"ignore":["lm_head"]}`
	}
	for name, c := range map[string]struct {
		config string
		args   []string
		bad    bool
	}{
		"gptq":                             {gptq, nil, false},
		"gptq with an order of its groups": {strings.Replace(gptq, `"desc_act":false`, `"desc_act":true`, 1), nil, true},
		"gptq with one group and an order": {strings.NewReplacer(`"desc_act":false`, `"desc_act":true`, "128", "-1").Replace(gptq), nil, false},
		"gptq of three bits":               {strings.Replace(gptq, `"bits":4`, `"bits":3`, 1), nil, true},
		"gptq read by another method":      {strings.Replace(gptq, `"sym":true`, `"sym":false`, 1), []string{"--quantization", "moe_wna16"}, false},
		"gptq asked for by an old name":    {strings.Replace(gptq, `"sym":true`, `"sym":false`, 1), []string{"--quantization", "gptq_marlin"}, true},
		"awq":                              {`{"quant_method":"awq","bits":4,"group_size":128,"zero_point":true,"version":"gemm"}`, nil, false},
		"awq without its zero points":      {`{"quant_method":"awq","bits":4,"group_size":128}`, nil, true},
		"fp8 in blocks":                    {`{"quant_method":"fp8","activation_scheme":"dynamic","fmt":"e4m3","weight_block_size":[128,128]}`, nil, false},
		"packed without an order":          {packed(`"symmetric":true`), nil, false},
		"packed, a null order":             {packed(`"actorder":null`), nil, false},
		"packed, a static order":           {packed(`"actorder":"static"`), nil, false},
		"packed, order of the weights":     {packed(`"actorder":"weight"`), nil, false},
		"packed, order of the groups":      {packed(`"actorder":"group"`), nil, true},
		"packed, order said by true":       {packed(`"actorder":true`), nil, true},
		"packed, order said by false":      {packed(`"actorder":false`), nil, false},
		"packed, a target Go cannot read":  {strings.Replace(packed(`"symmetric":true`), `["Linear"]`, `["re:.*(?<!gate)_proj$"]`, 1), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := llama().with("config.json", strings.Replace(text(causal("StableLmForCausalLM", "stablelm", 4, nil)), "{", `{"quantization_config":`+c.config+`,`, 1)).
				shard("packed.safetensors", 4, "model.layers.#.mlp.up_proj.weight_packed:I32", "model.layers.#.mlp.up_proj.weight_scale:F16")
			bad := false
			for _, f := range r.check(t, args(c.args...)) {
				bad = bad || f.Rule == "Q-11" && f.Severity == manifest.Block
			}
			if bad != c.bad {
				t.Errorf("refused: %v, want %v", bad, c.bad)
			}
		})
	}
}

// TestSamplingDefaults gives defaults that SamplingParams of vLLM 0.32.0 was given:
// what it refuses, or its encoding to the engine's process does, is C-18.
func TestSamplingDefaults(t *testing.T) {
	for text, bad := range map[string]bool{
		`"temperature":2.5`: true, `"temperature":2`: false, `"temperature":-0.1`: true, `"top_p":0`: true, `"top_p":1`: false,
		`"top_k":50`: false, `"top_k":50.0`: true, `"top_k":0.0`: true, `"top_k":-1`: false, `"top_k":-2`: true, `"min_p":1`: false, `"repetition_penalty":true`: true,
		`"max_new_tokens":0`: true, `"max_new_tokens":-1`: true, `"max_new_tokens":512.0`: true, `"max_new_tokens":512`: false, `"max_new_tokens":null`: false,
	} {
		found := false
		for _, f := range llama().with("generation_config.json", `{"eos_token_id":0,`+text+`}`).check(t, nil) {
			found = found || f.Rule == "C-18" && f.Severity == manifest.Request
		}
		if found != bad {
			t.Errorf("%s: refused %v, want %v", text, found, bad)
		}
	}
}

// TestRankPattern gives patterns that vLLM 0.32.0's reader of adapters was given,
// with tensors of rank 4: a rank has to be a whole number above zero, and of two
// names for one module the first counts, whose order a manifest does not keep.
func TestRankPattern(t *testing.T) {
	for pattern, want := range map[string]string{
		`{"q_proj":4}`: "", `{"q_proj":0}`: "block L-3", `{"q_proj":4.0}`: "block L-3", `{"q_proj":"4"}`: "block L-3", `{"q_proj":8}`: "silent L-3",
		`{"self_attn.q_proj":4,"q_proj":8}`: "", `{"self_attn.q_proj":2,"q_proj":8}`: "silent L-3",
	} {
		for range 20 { // the order of a map differs from run to run
			got := ""
			for _, f := range failing(llama().check(t, adapterWith(strings.Replace(soundAdapter, `{`, `{"rank_pattern":`+pattern+`,`, 1), halves...))) {
				got = string(f.Severity) + " " + f.Rule
			}
			if got != want {
				t.Fatalf("%s: got %q, want %q", pattern, got, want)
			}
		}
	}
}

// TestNumbersBeyond64Bits: such a size leaves no memory; a length is only a bound.
func TestNumbersBeyond64Bits(t *testing.T) {
	for field, bad := range map[string]bool{"hidden_size": true, "num_hidden_layers": true, "vocab_size": true, "max_position_embeddings": false} {
		found := false
		for _, f := range typed("LlamaForCausalLM", "llama", map[string]any{field: json.RawMessage("1" + strings.Repeat("0", 30))}).check(t, nil) {
			found = found || f.Rule == "C-17" && f.Field == field
		}
		if found != bad {
			t.Errorf("%s: refused %v, want %v", field, found, bad)
		}
	}
}
