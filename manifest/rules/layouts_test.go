package rules_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"drkit/manifest"
	"drkit/manifest/digest"
	"drkit/manifest/internal/boottruth"
	"drkit/manifest/rules"
)

// layout is a form of repository that is published in the wild, rebuilt tiny by
// hand: the files and fields are those of its documentation, the numbers are not.
// needed lists the files without which it does not boot or answers otherwise.
type layout struct {
	files  repository // base/… and adapters/NAME/…
	change func(*manifest.Input)
	patch  func(*manifest.Manifest)
	needed []string
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// sharded spreads tensors over shards of a number, with an index.
func (r repository) sharded(layers, shards int, names ...string) repository {
	one := repository{}.shard("x", layers, names...)
	all := boottruth.Load([]byte(one["x"]))
	weightMap := map[string]string{}
	parts := make([]map[string]*boottruth.Entry, shards)
	for i, name := range slices.Sorted(maps.Keys(all)) {
		n := i * shards / len(all)
		if parts[n] == nil {
			parts[n] = map[string]*boottruth.Entry{}
		}
		parts[n][name] = all[name]
		weightMap[name] = fmt.Sprintf("model-%05d-of-%05d.safetensors", n+1, shards)
	}
	for n, part := range parts {
		r[fmt.Sprintf("model-%05d-of-%05d.safetensors", n+1, shards)] = string(boottruth.Pack(part))
	}
	r["model.safetensors.index.json"] = text(map[string]any{"metadata": map[string]any{"total_size": 1}, "weight_map": weightMap})
	return r
}

const chatML = "{%- for message in messages %}{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"

const chatTokens = `{"model":{"type":"BPE","vocab":{"a":0,"b":1,"c":2},"merges":[]},"added_tokens":[{"id":3,"content":"<|im_start|>"},{"id":4,"content":"<|im_end|>"}]}`

// awqWithAdapters is a 70B Llama in AWQ, its template in tokenizer_config.json,
// with five LoRA adapters.
func awqWithAdapters() layout {
	var names []string
	for m, form := range map[string][2]int{"self_attn.q_proj": {16, 16}, "self_attn.k_proj": {16, 8}, "self_attn.v_proj": {16, 8}, "self_attn.o_proj": {16, 16},
		"mlp.gate_proj": {16, 32}, "mlp.up_proj": {16, 32}, "mlp.down_proj": {32, 16}} {
		p := "model.layers.#." + m
		names = append(names, fmt.Sprintf("%s.qweight:I32:%dx%d", p, form[0], form[1]/8), fmt.Sprintf("%s.qzeros:I32:1x%d", p, form[1]/8), fmt.Sprintf("%s.scales:F16:1x%d", p, form[1]))
	}
	names = join(names, []string{"model.layers.#.input_layernorm.weight:F16:16", "model.layers.#.post_attention_layernorm.weight:F16:16",
		"model.norm.weight:F16:16", "model.embed_tokens.weight:F16:5x16", "lm_head.weight:F16:5x16"})
	r := repository{
		"config.json": text(map[string]any{"architectures": []string{"LlamaForCausalLM"}, "model_type": "llama", "num_hidden_layers": 4, "hidden_size": 16, "intermediate_size": 32,
			"num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 5, "max_position_embeddings": 131072, "rope_theta": 500000.0, "eos_token_id": []int{3, 4},
			"rope_scaling":        map[string]any{"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"},
			"tie_word_embeddings": false, "torch_dtype": "float16", "transformers_version": "4.43.3",
			"quantization_config": map[string]any{"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm", "zero_point": true, "modules_to_not_convert": nil}}),
		"generation_config.json": `{"eos_token_id":[3,4],"temperature":0.6}`, "tokenizer.json": chatTokens, "special_tokens_map.json": `{"eos_token":"<|im_end|>"}`,
		"tokenizer_config.json": text(map[string]any{"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "chat_template": chatML}),
		"README.md":             "# 70B\n", ".gitattributes": "*.safetensors filter=lfs\n",
	}.sharded(4, 9, names...)
	l := layout{files: repository{}, needed: []string{"base/config.json", "base/tokenizer.json", "base/tokenizer_config.json", "base/generation_config.json"}}
	for f, t := range r {
		l.files["base/"+f] = t
		if strings.HasSuffix(f, ".safetensors") {
			l.needed = append(l.needed, "base/"+f)
		}
	}
	args := []string{"--enable-lora", "--max-loras", "5", "--max-lora-rank", "64", "--lora-modules"}
	var adapters []string
	for i := range 5 {
		name := fmt.Sprintf("task-%d", i+1)
		adapters, args = append(adapters, name), append(args, fmt.Sprintf("%s=/adapters/%s", name, name))
		a := repository{}.shard("adapter_model.safetensors", 4, "base_model.model.model.layers.#.self_attn.q_proj.lora_A.weight", "base_model.model.model.layers.#.self_attn.q_proj.lora_B.weight")
		a["adapter_config.json"] = text(map[string]any{"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": []string{"q_proj"}, "bias": "none", "base_model_name_or_path": "m", "modules_to_save": nil})
		for f, t := range a {
			l.files["adapters/"+name+"/"+f] = t
			l.needed = append(l.needed, "adapters/"+name+"/"+f)
		}
	}
	l.change = func(in *manifest.Input) {
		in.Engine.Args = args
		for _, name := range adapters {
			in.Adapters = append(in.Adapters, manifest.Tree{Name: name, Source: in.Model.Source, Prefix: "adapters/" + name + "/"})
		}
	}
	return l
}

// mistralForm is a repository in Mistral's own form alone.
func mistralForm(args ...string) layout {
	r := repository{
		"params.json":       `{"dim":8,"n_layers":2,"head_dim":4,"hidden_dim":16,"n_heads":2,"n_kv_heads":1,"norm_eps":1e-05,"vocab_size":5,"rope_theta":1000000.0}`,
		"tekken.json":       `{"config":{"pattern":"x","num_vocab_tokens":3,"default_vocab_size":5,"default_num_special_tokens":2,"version":"v7"},"vocab":[],"special_tokens":[]}`,
		"SYSTEM_PROMPT.txt": "You are a model.", "README.md": "# m\n",
	}.shard("consolidated.safetensors", 2, "layers.#.attention.wq.weight", "layers.#.attention.wo.weight", "tok_embeddings.weight", "norm.weight", "output.weight")
	return layout{files: based(r), needed: []string{"base/params.json", "base/tekken.json", "base/consolidated.safetensors"},
		change: func(in *manifest.Input) { in.Engine.Args = args }}
}

func based(r repository) repository {
	out := repository{}
	for f, t := range r {
		out["base/"+f] = t
	}
	return out
}

// multimodal is a Qwen2.5-VL: a flat configuration, two templates, image and
// video prepared by one file.
func multimodal() layout {
	r := repository{
		"config.json": text(map[string]any{"architectures": []string{"Qwen2_5_VLForConditionalGeneration"}, "model_type": "qwen2_5_vl", "num_hidden_layers": 3, "hidden_size": 8,
			"num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 5, "max_position_embeddings": 128000, "eos_token_id": 4, "tie_word_embeddings": false, "rope_theta": 1000000.0,
			"rope_scaling": map[string]any{"type": "mrope", "mrope_section": []int{16, 24, 24}}, "vision_config": map[string]any{"depth": 2, "hidden_size": 4},
			"image_token_id": 2, "video_token_id": 1, "transformers_version": "4.41.2", "sliding_window": 32768, "use_sliding_window": false}),
		"generation_config.json": `{"eos_token_id":[4,3],"do_sample":true}`, "tokenizer.json": chatTokens,
		"tokenizer_config.json": text(map[string]any{"tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|im_end|>", "chat_template": chatML}),
		"chat_template.json":    text(map[string]any{"chat_template": chatML}), "preprocessor_config.json": `{"image_processor_type":"Qwen2VLImageProcessor","patch_size":14}`,
	}.sharded(3, 2, join(attention, dense, outer, []string{"model.layers.#.self_attn.q_proj.bias", "visual.blocks.#.attn.qkv.weight", "visual.patch_embed.proj.weight"})...)
	return layout{files: based(r), needed: []string{"base/config.json", "base/tokenizer.json", "base/generation_config.json", "base/preprocessor_config.json",
		"base/model-00001-of-00002.safetensors", "base/model-00002-of-00002.safetensors"}}
}

// gptOSS has experts in MXFP4 and needs a vocabulary of tiktoken beside its own.
func gptOSS() layout {
	var names []string
	for _, m := range []string{"q_proj", "k_proj", "v_proj", "o_proj"} {
		names = append(names, "model.layers.#.self_attn."+m+".weight", "model.layers.#.self_attn."+m+".bias")
	}
	for _, m := range []string{"gate_up_proj", "down_proj"} {
		names = append(names, "model.layers.#.mlp.experts."+m+"_blocks:U8", "model.layers.#.mlp.experts."+m+"_scales:U8", "model.layers.#.mlp.experts."+m+"_bias")
	}
	names = join(names, []string{"model.layers.#.self_attn.sinks", "model.layers.#.mlp.router.weight", "model.layers.#.mlp.router.bias", "model.layers.#.input_layernorm.weight",
		"model.layers.#.post_attention_layernorm.weight"}, outer)
	r := repository{
		"config.json": text(map[string]any{"architectures": []string{"GptOssForCausalLM"}, "model_type": "gpt_oss", "num_hidden_layers": 4, "hidden_size": 8, "head_dim": 64,
			"num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 5, "max_position_embeddings": 131072, "initial_context_length": 4096, "eos_token_id": 4,
			"layer_types": []string{"sliding_attention", "full_attention", "sliding_attention", "full_attention"}, "rope_theta": 150000, "sliding_window": 128,
			"rope_scaling":        map[string]any{"beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0, "original_max_position_embeddings": 4096, "rope_type": "yarn", "truncate": false},
			"tie_word_embeddings": false, "transformers_version": "4.55.0.dev0",
			"quantization_config": map[string]any{"quant_method": "mxfp4", "modules_to_not_convert": []string{"model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"}}}),
		"generation_config.json": `{"eos_token_id":[4,3]}`, "tokenizer.json": chatTokens, "special_tokens_map.json": "{}",
		"tokenizer_config.json": `{"tokenizer_class":"PreTrainedTokenizerFast","eos_token":"<|im_end|>"}`, "chat_template.jinja": chatML,
		"encodings/o200k_base.tiktoken": "YQ== 0\n",
	}.sharded(4, 3, names...)
	l := layout{files: based(r), needed: []string{"base/config.json", "base/tokenizer.json", "base/generation_config.json", "base/chat_template.jinja", "base/encodings/o200k_base.tiktoken",
		"base/model-00001-of-00003.safetensors", "base/model-00002-of-00003.safetensors", "base/model-00003-of-00003.safetensors"}}
	l.change = func(in *manifest.Input) {
		in.Engine.Env = map[string]string{"TIKTOKEN_ENCODINGS_BASE": "/models/gpt-oss/encodings", "HF_HUB_OFFLINE": "1"}
	}
	// The published vocabulary has 3.4 MB; here its digest stands in for it.
	l.patch = func(m *manifest.Manifest) {
		for i, f := range m.Contents.Files {
			if strings.HasSuffix(f.Path, "o200k_base.tiktoken") {
				m.Contents.Files[i].Sums = digest.Set{digest.SHA256: "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"}
			}
		}
	}
	return l
}

// embedding is a model of sentence-transformers with pooling and a dense layer.
func embedding() layout {
	r := repository{
		"config.json": text(map[string]any{"architectures": []string{"XLMRobertaModel"}, "model_type": "xlm-roberta", "num_hidden_layers": 3, "hidden_size": 4, "num_attention_heads": 2,
			"vocab_size": 5, "max_position_embeddings": 514, "transformers_version": "4.29.2"}),
		"modules.json": text([]map[string]any{{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
			{"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
			{"idx": 2, "name": "2", "path": "2_Dense", "type": "sentence_transformers.models.Dense"},
			{"idx": 3, "name": "3", "path": "3_Normalize", "type": "sentence_transformers.models.Normalize"}}),
		"1_Pooling/config.json": `{"word_embedding_dimension":4,"pooling_mode_mean_tokens":true}`, "2_Dense/config.json": `{"in_features":4,"out_features":4,"bias":false}`,
		"config_sentence_transformers.json": `{"__version__":{}}`, "sentence_bert_config.json": `{"max_seq_length":512,"do_lower_case":false}`,
		"tokenizer.json": chatTokens, "tokenizer_config.json": `{"tokenizer_class":"XLMRobertaTokenizer"}`, "special_tokens_map.json": "{}",
	}.shard("model.safetensors", 3, "encoder.layer.#.attention.self.query.weight", "encoder.layer.#.output.dense.weight", "embeddings.word_embeddings.weight")
	for f, t := range (repository{}).shard("model.safetensors", 1, "linear.weight") {
		r["2_Dense/"+f] = t
	}
	return layout{files: based(r), needed: []string{"base/config.json", "base/modules.json", "base/1_Pooling/config.json", "base/2_Dense/config.json", "base/2_Dense/model.safetensors",
		"base/model.safetensors", "base/tokenizer.json"},
		change: func(in *manifest.Input) { in.Engine.Args = []string{"--runner", "pooling", "--max-model-len", "512"} }}
}

func (l layout) check(t *testing.T, without string) []manifest.Finding {
	t.Helper()
	files := maps.Clone(l.files)
	delete(files, without)
	in := manifest.Input{Model: manifest.Tree{Source: files.source(), Prefix: "base/"}, Engine: manifest.EngineInput{Kind: "vllm", Version: "0.32.0"}}
	if l.change != nil {
		l.change(&in)
	}
	m, _, err := manifest.Build(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if l.patch != nil {
		l.patch(m)
	}
	return rules.Check(m)
}

// TestLayouts builds five forms of repositories that are published in the wild:
// none has a finding that fails the gate, and when a needed file is taken away,
// a finding names it.
func TestLayouts(t *testing.T) {
	for name, l := range map[string]layout{
		"70B AWQ with five adapters": awqWithAdapters(), "mistral form": mistralForm(),
		"mistral form by options": mistralForm("--tokenizer-mode", "mistral", "--config-format", "mistral", "--load-format", "mistral"),
		"multimodal":              multimodal(), "gpt-oss in mxfp4": gptOSS(), "embedding model with modules": embedding(),
	} {
		t.Run(name, func(t *testing.T) {
			whole := l.check(t, "")
			for _, f := range whole {
				if f.Severity != manifest.Info {
					t.Errorf("false alarm:%s", show([]manifest.Finding{f}))
				}
			}
			for _, lost := range l.needed {
				if l.files[lost] == "" {
					t.Fatalf("%s is not in the layout", lost)
				}
				got := l.check(t, lost)
				if !slices.ContainsFunc(got, func(f manifest.Finding) bool { return names(f, lost) }) {
					t.Errorf("without %s no finding names it:%s", lost, show(got))
				}
			}
		})
	}
}

// names reports whether a finding above info is about a file, by path or words.
func names(f manifest.Finding, file string) bool {
	base := file[strings.LastIndexByte(file, '/')+1:]
	return f.Severity != manifest.Info && (f.Path == file || strings.Contains(f.Message, base))
}
