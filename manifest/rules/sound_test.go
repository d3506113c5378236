package rules_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"drkit/manifest"
	"drkit/manifest/internal/boottruth"
	"drkit/manifest/rules"
)

// repository builds a repository in memory, piece by piece.
type repository map[string]string

// tokenizerText is a byte-level BPE with two added tokens, 5 and 6.
const tokenizerText = `{"model":{"type":"BPE","vocab":{"a":0,"b":1,"c":2,"d":3,"e":4},"merges":[]},
"added_tokens":[{"id":5,"content":"<|eot|>"},{"id":6,"content":"<|assistant|>"}]}`

func newRepository(config map[string]any) repository {
	text, err := json.Marshal(config)
	if err != nil {
		panic(err)
	}
	return repository{"config.json": string(text), "tokenizer.json": tokenizerText,
		"tokenizer_config.json":  `{"eos_token":"<|eot|>"}`,
		"generation_config.json": `{"eos_token_id":[5]}`,
		"chat_template.jinja":    "{% for m in messages %}{{ m['content'] }}<|eot|>{% endfor %}"}
}

// shard writes tensors of 4 rows and 2 columns under a file name; "#" in a name
// stands for each layer, and ":I32" or ":I32:4x1" or ":BF16:8" gives type and shape.
func (r repository) shard(file string, layers int, names ...string) repository {
	tensors := map[string]*boottruth.Entry{}
	for _, n := range names {
		n, dtype, _ := strings.Cut(n, ":")
		dtype, form, _ := strings.Cut(dtype, ":")
		if dtype == "" {
			dtype = "BF16"
		}
		rows, columns := int64(4), int64(2)
		shape := []int64{rows, columns}
		if n, _ := fmt.Sscanf(form, "%dx%d", &rows, &columns); n == 1 {
			columns, shape = 1, []int64{rows}
		} else if n == 2 {
			shape = []int64{rows, columns}
		}
		size := map[string]int64{"BF16": 2, "F16": 2, "I8": 1, "U8": 1, "I32": 4, "F8_E4M3": 1, "F32": 4}[dtype]
		for i := range layers {
			name := strings.ReplaceAll(n, "#", fmt.Sprint(i))
			tensors[name] = &boottruth.Entry{DType: dtype, Shape: shape, Data: make([]byte, rows*columns*size)}
		}
	}
	r[file] = string(boottruth.Pack(tensors))
	return r
}

func (r repository) without(files ...string) repository {
	for _, f := range files {
		delete(r, f)
	}
	return r
}

func (r repository) with(file, text string) repository {
	r[file] = text
	return r
}

func (r repository) source() *tree {
	w := &tree{Files: map[string][]byte{}}
	for name, text := range r {
		w.Files[name] = []byte(text)
	}
	return w
}

// check builds a manifest of the repository and returns the findings.
func (r repository) check(t *testing.T, change func(*manifest.Input)) []manifest.Finding {
	t.Helper()
	in := manifest.Input{Model: manifest.Tree{Source: r.source()}, Engine: manifest.EngineInput{Kind: "vllm", Version: "0.32.0"}}
	if change != nil {
		change(&in)
	}
	m, _, err := manifest.Build(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return rules.Check(m)
}

func failing(findings []manifest.Finding) (out []manifest.Finding) {
	for _, f := range findings {
		if f.Severity.FailsGate(false) {
			out = append(out, f)
		}
	}
	return out
}

var attention = []string{"model.layers.#.input_layernorm.weight", "model.layers.#.post_attention_layernorm.weight",
	"model.layers.#.self_attn.q_proj.weight", "model.layers.#.self_attn.k_proj.weight", "model.layers.#.self_attn.v_proj.weight", "model.layers.#.self_attn.o_proj.weight"}

var dense = []string{"model.layers.#.mlp.gate_proj.weight", "model.layers.#.mlp.up_proj.weight", "model.layers.#.mlp.down_proj.weight"}

var outer = []string{"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"}

func join(lists ...[]string) (out []string) {
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}

func causal(arch, kind string, layers int, more map[string]any) map[string]any {
	c := map[string]any{"architectures": []string{arch}, "model_type": kind, "num_hidden_layers": layers, "eos_token_id": 5}
	for k, v := range more {
		c[k] = v
	}
	return c
}

// TestSoundLayouts holds the gate against forms of repositories that are sound
// in the wild: none may be refused.
func TestSoundLayouts(t *testing.T) {
	for name, c := range map[string]struct {
		repo   repository
		change func(*manifest.Input)
	}{
		"mixture of experts whose first layer is dense": {repo: mixed()},
		"layers of two kinds in turn":                   {repo: hybrid()},
		"fused projections": {repo: newRepository(causal("Phi3ForCausalLM", "phi3", 4, nil)).
			shard("model.safetensors", 4, join(attention[:2], []string{"model.layers.#.self_attn.qkv_proj.weight", "model.layers.#.self_attn.o_proj.weight",
				"model.layers.#.mlp.gate_up_proj.weight", "model.layers.#.mlp.down_proj.weight"}, outer)...)},
		"gpt2 by its own names, tied": {repo: newRepository(map[string]any{"architectures": []string{"GPT2LMHeadModel"}, "model_type": "gpt2", "n_layer": 3, "vocab_size": 7}).
			shard("model.safetensors", 3, "wte.weight", "wpe.weight", "h.#.attn.c_attn.weight", "h.#.ln_1.weight", "h.#.attn.bias", "ln_f.weight")},
		"layers shared by number": {repo: newRepository(map[string]any{"architectures": []string{"AlbertModel"}, "model_type": "albert", "num_hidden_layers": 12}).
			shard("model.safetensors", 1, "albert.encoder.albert_layer_groups.#.albert_layers.#.ffn.weight").without("chat_template.jinja", "generation_config.json")},
		"relative attention bias in the first block only": {repo: newRepository(map[string]any{"architectures": []string{"T5ForConditionalGeneration"}, "model_type": "t5", "num_layers": 3}).
			shard("model.safetensors", 3, "encoder.block.#.layer.0.SelfAttention.q.weight", "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight")},
		"multi-token prediction layer beyond the last": {repo: newRepository(causal("DeepseekV3ForCausalLM", "deepseek_v3", 3, map[string]any{"num_nextn_predict_layers": 1})).
			shard("model.safetensors", 3, join(attention, dense, outer, []string{"model.layers.3.eh_proj.weight", "model.layers.3.enorm.weight"})...)},
		"block-wise fp8": {repo: newRepository(causal("DeepseekV3ForCausalLM", "deepseek_v3", 3, map[string]any{
			"quantization_config": map[string]any{"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": []int{128, 128}}})).
			shard("model.safetensors", 3, join(attention[:2], []string{"model.layers.#.mlp.gate_proj.weight:F8_E4M3", "model.layers.#.mlp.gate_proj.weight_scale_inv:F32"}, outer)...)},
		"awq with modules left as they are": {repo: newRepository(causal("Qwen2VLForConditionalGeneration", "qwen2_vl", 2, map[string]any{
			"vision_config":       map[string]any{},
			"quantization_config": map[string]any{"quant_method": "awq", "bits": 4, "group_size": 16, "zero_point": true, "modules_to_not_convert": []string{"visual"}}})).
			shard("model.safetensors", 2, "visual.blocks.#.attn.qkv.weight", "model.layers.#.mlp.gate_proj.qweight:I32:16x2", "model.layers.#.mlp.gate_proj.qzeros:I32:1x2", "model.layers.#.mlp.gate_proj.scales:F16:1x16").
			with("preprocessor_config.json", "{}")},
		"one layer of a packed model left unpacked": {repo: unpackedLayer()},
		"gptq with other bits for some modules": {repo: newRepository(causal("StableLmForCausalLM", "stablelm", 2, map[string]any{
			"quantization_config": map[string]any{"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": false, "sym": true, "dynamic": map[string]any{"+:.*down.*": map[string]any{"bits": 8}}}})).
			shard("model.safetensors", 2, "model.layers.#.mlp.up_proj.qweight:I32:8x4", "model.layers.#.mlp.up_proj.qzeros:I32:2x1", "model.layers.#.mlp.up_proj.scales:F16:2x4",
				"model.layers.#.mlp.down_proj.qweight:I32:16x4", "model.layers.#.mlp.down_proj.qzeros:I32:2x1", "model.layers.#.mlp.down_proj.scales:F16:2x4")},
		"gemma's nested scaling": {repo: newRepository(map[string]any{"architectures": []string{"Gemma3ForConditionalGeneration"}, "model_type": "gemma3", "eos_token_id": 5, "vision_config": map[string]any{"a": 1},
			"text_config":                                                                              map[string]any{"model_type": "gemma3_text", "num_hidden_layers": 2, "max_position_embeddings": 131072, "rope_scaling": map[string]any{"factor": 8.0, "rope_type": "linear"}}}).
			shard("model.safetensors", 2, attention...).with("preprocessor_config.json", "{}"), change: func(in *manifest.Input) { in.Engine.Args = []string{"--max-model-len", "131072"} }},
		"phi's partial longrope": {repo: newRepository(causal("Phi3ForCausalLM", "phi3", 2, map[string]any{"hidden_size": 64, "num_attention_heads": 4, "partial_rotary_factor": 0.75,
			"max_position_embeddings": 131072, "original_max_position_embeddings": 4096,
			"rope_scaling": map[string]any{"type": "longrope", "short_factor": []float64{1, 1, 1, 1, 1, 1}, "long_factor": []float64{1, 1, 1, 1, 1, 1}}})).
			shard("model.safetensors", 2, "model.layers.#.self_attn.qkv_proj.weight", "model.layers.#.mlp.gate_up_proj.weight")},
		"yarn with room to spare": {repo: newRepository(causal("StableLmForCausalLM", "stablelm", 2, map[string]any{"max_position_embeddings": 40960,
			"rope_scaling": map[string]any{"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}})).shard("model.safetensors", 2, attention...)},
		"template of instructions without a generation prompt": {repo: newRepository(causal("StableLmForCausalLM", "stablelm", 2, nil)).shard("model.safetensors", 2, attention...).
			with("chat_template.jinja", "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'user' %}{{ '[INST] ' + m['content'] + ' [/INST]' }}{% else %}{{ ' ' + m['content'] + eos_token }}{% endif %}{% endfor %}")},
		"template that takes parts": {repo: newRepository(causal("StableLmForCausalLM", "stablelm", 2, nil)).shard("model.safetensors", 2, attention...).
			with("chat_template.jinja", "{% for m in messages %}{% for c in m['content'] %}{% if c['type'] == 'text' %}{{ c['text'] }}{% endif %}{% endfor %}{{ eos_token }}{% endfor %}")},
		"two engines in each region": {repo: llama(), change: func(in *manifest.Input) {
			w := &tree{Files: map[string][]byte{}}
			for _, region := range []string{"eu", "us"} {
				for _, name := range []string{"prefill", "decode"} {
					key := region + name
					w.Files[key] = []byte("apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: a\n    image: vllm/vllm-openai@sha256:" + strings.Repeat("a", 64) +
						"\n    args: [\"--model\", \"/m\", \"--served-model-name\", \"chat\", \"--load-format\", \"" + map[string]string{"prefill": "auto", "decode": "safetensors"}[name] + "\"]\n")
					in.DeployFiles = append(in.DeployFiles, manifest.PartFile{Region: region, Path: name + ".yaml", Source: w, Key: key})
				}
			}
		}},
		"key-value cache scales only": {repo: newRepository(causal("StableLmForCausalLM", "stablelm", 2, map[string]any{
			"quantization_config": map[string]any{"quant_method": "compressed-tensors", "kv_cache_scheme": map[string]any{"num_bits": 8}, "config_groups": map[string]any{}}})).
			shard("model.safetensors", 2, join(attention, dense, outer, []string{"model.layers.#.self_attn.k_scale", "model.layers.#.self_attn.v_scale"})...)},
		"mistral's own form beside the shards": {repo: newRepository(causal("MistralForCausalLM", "mistral", 0, nil)).
			shard("consolidated.safetensors", 2, "layers.#.attention.wq.weight").shard("model.safetensors", 2, attention...).
			with("params.json", `{"dim":8}`).with("tekken.json", `{"config":{}}`).without("tokenizer.json")},
		"pytorch weights only": {repo: newRepository(causal("LlamaForCausalLM", "llama", 2, nil)).with("pytorch_model.bin", "PK\x03\x04")},
		"gguf only":            {repo: repository{"model-q4.gguf": ggufText(true)}},
		"infinity in config":   {repo: newRepository(causal("MambaForCausalLM", "mamba2", 0, nil)).with("config.json", `{"model_type":"mamba2","architectures":["Mamba2ForCausalLM"],"num_hidden_layers":2,"time_step_limit":[0.0,Infinity]}`).shard("model.safetensors", 2, "backbone.layers.#.norm.weight")},
		"template of the engine": {repo: newRepository(causal("StableLmForCausalLM", "stablelm", 2, nil)).shard("model.safetensors", 2, attention...).without("chat_template.jinja"),
			change: func(in *manifest.Input) {
				in.Engine.Args = []string{"--chat-template", "/etc/vllm/chat.jinja"}
				in.EngineFiles = []manifest.PartFile{{Path: "engine/chat.jinja", Source: single("{% for m in messages %}{{ m.content }}{% endfor %}"), Key: "x"}}
			}},
		"tokenizer from elsewhere": {repo: newRepository(causal("StableLmForCausalLM", "stablelm", 2, nil)).shard("model.safetensors", 2, attention...).without("tokenizer.json"),
			change: func(in *manifest.Input) {
				in.Engine.Args = []string{"--tokenizer", "/models/tokenizer"}
				in.Repositories = []manifest.Tree{{Name: "acme/tokenizer", Source: &tree{Files: map[string][]byte{"tokenizer.json": []byte(tokenizerText)}}}}
			}},
		"user and assistant ends differ": {repo: newRepository(causal("StableLmForCausalLM", "stablelm", 2, nil)).shard("model.safetensors", 2, attention...).
			with("chat_template.jinja", "{% for m in messages %}{% if m['role'] == 'user' %}{{ m['content'] + '<|assistant|>' }}{% else %}{{ m['content'] + eos_token }}{% endif %}{% endfor %}")},
		"pipes in texts of the template": {repo: newRepository(causal("StableLmForCausalLM", "stablelm", 2, nil)).shard("model.safetensors", 2, attention...).
			with("chat_template.jinja", "I'm {{ '<|im_start|>' ~ \"it's |odd\" | trim }}{# x | none #}{% raw %}{{ a | b }}{% endraw %} | other {{ m.content | trim | tojson(indent=2) }}<|eot|>")},
		"files of no engine that are odd": {repo: newRepository(causal("StableLmForCausalLM", "stablelm", 2, nil)).shard("model.safetensors", 2, attention...).
			with("README.md", "<html>a page</html>").with("images/a.svg", "<?xml version='1.0'?><svg/>").with("original/broken.safetensors", "xx").
			with("LICENSE", "version https://git-lfs").with("eval/results.json", "not json").with("docs/x.bin", "version https://git-lfs.github.com/spec/v1\noid sha256:"+strings.Repeat("a", 64)+"\nsize 5\n")},
		"image without a digest but with a tag": {repo: newRepository(causal("StableLmForCausalLM", "stablelm", 2, nil)).shard("model.safetensors", 2, attention...),
			change: func(in *manifest.Input) { in.Images = []string{"1.example:5000/vllm:v0.32.0"} }},
	} {
		t.Run(name, func(t *testing.T) {
			if bad := failing(c.repo.check(t, c.change)); len(bad) > 0 {
				t.Errorf("false alarm:%s", show(bad))
			}
		})
	}
}

func mixed() repository {
	var names []string
	for i := range 12 {
		for _, n := range join(attention, []string{"model.layers.#.mlp.experts.0.gate_proj.weight", "model.layers.#.mlp.gate.weight"}) {
			if i == 0 && strings.Contains(n, "mlp") {
				continue
			}
			names = append(names, strings.ReplaceAll(n, "#", fmt.Sprint(i)))
		}
	}
	names = append(names, "model.layers.0.mlp.gate_proj.weight")
	return newRepository(causal("DeepseekV2ForCausalLM", "deepseek_v2", 12, nil)).shard("model.safetensors", 1, join(names, outer)...)
}

func hybrid() repository {
	var names []string
	for i := range 12 {
		kind := "linear_attn.in_proj.weight"
		if i%4 == 3 {
			kind = "self_attn.q_proj.weight"
		}
		names = append(names, fmt.Sprintf("model.layers.%d.%s", i, kind), fmt.Sprintf("model.layers.%d.mlp.up_proj.weight", i))
	}
	return newRepository(causal("Qwen3NextForCausalLM", "qwen3_next", 12, nil)).shard("model.safetensors", 1, join(names, outer)...)
}

func unpackedLayer() repository {
	var names []string
	for i := range 12 {
		p := fmt.Sprintf("model.layers.%d.mlp.up_proj", i)
		if i == 11 {
			names = append(names, p+".weight")
			continue
		}
		names = append(names, p+".weight_packed:I32", p+".weight_scale", p+".weight_shape:I32")
	}
	return newRepository(causal("StableLmForCausalLM", "stablelm", 12, map[string]any{"quantization_config": map[string]any{
		"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": map[string]any{"group_0": map[string]any{"weights": map[string]any{"num_bits": 4}}}}})).
		shard("model.safetensors", 1, join(names, outer)...)
}

// single is a source of one file, x.
func single(text string) *tree { return &tree{Files: map[string][]byte{"x": []byte(text)}} }

// ggufText is a GGUF file of one tensor of two F32 values, with or without a
// tokenizer inside, as the format's specification lays it out.
func ggufText(tokenizer bool) string {
	u32 := func(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }
	u64 := func(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }
	text := func(s string) []byte { return append(u64(uint64(len(s))), s...) }
	pairs := [][]byte{slices.Concat(text("general.architecture"), u32(8), text("llama"))}
	if tokenizer {
		pairs = append(pairs, slices.Concat(text("tokenizer.ggml.tokens"), u32(9), u32(8), u64(2), text("a"), text("b")))
	}
	b := slices.Concat([]byte("GGUF"), u32(3), u64(1), u64(uint64(len(pairs))), slices.Concat(pairs...),
		text("x"), u32(1), u64(2), u32(0), u64(0))
	for len(b)%32 != 0 {
		b = append(b, 0)
	}
	return string(append(b, make([]byte, 8)...))
}
