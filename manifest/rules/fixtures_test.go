package rules_test

import (
	"slices"
	"strings"
	"testing"

	"drkit/internal/store"
	"drkit/manifest"
	"drkit/manifest/rules"
)

// fixture breaks one rule; sound is the same without the fault, or the plain
// sound repository when it is nil.
type fixture struct {
	broken, sound func() (repository, func(*manifest.Input))
	problem       *manifest.Problem // instead: what a reader would note
}

type made = func() (repository, func(*manifest.Input))

func args(list ...string) func(*manifest.Input) {
	return func(in *manifest.Input) { in.Engine.Args = list }
}

func plain(r repository, change ...func(*manifest.Input)) made {
	return func() (repository, func(*manifest.Input)) {
		return r, func(in *manifest.Input) {
			for _, c := range change {
				c(in)
			}
		}
	}
}

// configured is the sound repository with other fields in config.json.
func configured(fields map[string]any) repository {
	return llama().with("config.json", text(causal("StableLmForCausalLM", "stablelm", 4, fields)))
}

func typed(arch, kind string, fields map[string]any) repository {
	return llama().with("config.json", text(causal(arch, kind, 4, fields)))
}

func adapterWith(config string, tensors ...string) func(*manifest.Input) {
	return func(in *manifest.Input) {
		r := repository{"adapter_config.json": config}.shard("adapter_model.safetensors", 4, tensors...)
		in.Adapters = []manifest.Tree{{Name: "ad", Source: r.source()}}
		in.Engine.Args = append(in.Engine.Args, "--enable-lora", "--lora-modules", "ad=/a/ad")
	}
}

const soundAdapter = `{"r":4,"lora_alpha":8,"target_modules":["q_proj"],"bias":"none","base_model_name_or_path":"/models/m"}`

var halves = []string{"base_model.model.model.layers.#.self_attn.q_proj.lora_A.weight", "base_model.model.model.layers.#.self_attn.q_proj.lora_B.weight"}

func withTensors(config map[string]any, names ...string) repository {
	return configured(config).shard("model.safetensors", 4, join(attention, dense, outer, names)...)
}

func quantized(format string, tensors ...string) repository {
	return withTensors(map[string]any{"quantization_config": map[string]any{"quant_method": "compressed-tensors", "format": format,
		"config_groups": map[string]any{"group_0": map[string]any{"weights": map[string]any{"num_bits": 4, "type": "int"}}}}}, tensors...)
}

func pod(env string) func(*manifest.Input) {
	return deployFile("", "pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  securityContext: {runAsUser: 1001}\n  containers:\n  - name: engine\n    image: vllm/vllm-openai@sha256:"+
		strings.Repeat("a", 64)+"\n    args: [\"--model\", \"/models/m\"]\n    env: ["+env+"]\n")
}

func draft(r repository, config string) func(*manifest.Input) {
	return func(in *manifest.Input) {
		in.Drafts = []manifest.Tree{{Name: "draft", Source: r.source()}}
		in.Engine.Args = []string{"--speculative-config", config}
	}
}

const pointerText = "version https://git-lfs.github.com/spec/v1\noid sha256:0000000000000000000000000000000000000000000000000000000000000000\nsize 9\n"

// fixtures has one for each rule.
var fixtures = map[string]fixture{
	"C-1": {broken: plain(llama().without("config.json"))}, "C-2": {broken: plain(llama().with("generation_config.json", "{"))},
	"C-3": {broken: plain(llama().with("config.json", `{"num_hidden_layers":4}`))},
	"C-4": {broken: plain(configured(map[string]any{"auto_map": map[string]string{"AutoConfig": "c.C"}}), args("--trust-remote-code")),
		sound: plain(configured(map[string]any{"auto_map": map[string]string{"AutoConfig": "c.C"}}).with("c.py", "from .d import D\n").with("d.py", ""), args("--trust-remote-code"))},
	"C-5": {broken: plain(configured(map[string]any{"auto_map": map[string]string{"AutoConfig": "a/b--c.C"}}), args("--trust-remote-code", "--code-revision", "x")),
		sound: plain(configured(map[string]any{"auto_map": map[string]string{"AutoConfig": "a/b--c.C"}}), args("--trust-remote-code", "--code-revision", "x"), func(in *manifest.Input) {
			in.Repositories = []manifest.Tree{{Name: "a/b", Source: repository{"c.py": ""}.source()}}
		})},
	"C-6": {broken: plain(typed("NewForCausalLM", "brand_new", map[string]any{"auto_map": map[string]string{"AutoConfig": "c.C"}}).with("c.py", "")),
		sound: plain(typed("NewForCausalLM", "brand_new", map[string]any{"auto_map": map[string]string{"AutoConfig": "c.C", "AutoModelForCausalLM": "c.M"}}).with("c.py", ""), args("--trust-remote-code"))},
	"C-7": {broken: plain(typed("UltravoxModel", "ultravox", map[string]any{"text_model_id": "a/text"})),
		sound: plain(typed("UltravoxModel", "ultravox", map[string]any{"text_model_id": "a/text"}), func(in *manifest.Input) {
			in.Repositories = []manifest.Tree{{Name: "a/text", Source: llama().source()}}
		})},
	"C-8": {broken: plain(configured(map[string]any{"rope_scaling": map[string]any{"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "original_max_position_embeddings": 8}})),
		sound: plain(configured(map[string]any{"rope_scaling": map[string]any{"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 8}}))},
	"C-9":  {broken: plain(configured(map[string]any{"n_positions": 512}), args("--max-model-len", "513")), sound: plain(configured(map[string]any{"n_positions": 512}), args("--max-model-len", "512"))},
	"C-11": {broken: plain(llama().without("generation_config.json").with("tokenizer_config.json", `{"eos_token":"a"}`).with("config.json", text(causal("StableLmForCausalLM", "stablelm", 4, map[string]any{"eos_token_id": 0}))))},
	"C-12": {broken: plain(configured(map[string]any{"dual_chunk_attention_config": map[string]any{"chunk_size": 1}})),
		sound: plain(configured(map[string]any{"dual_chunk_attention_config": map[string]any{"chunk_size": 1}}).with("sparse_attention_config.json", "{}"))},
	"C-13": {broken: plain(llama().with("1_Pooling/config.json", "{}"))},
	"C-14": {broken: plain(typed("BgeM3EmbeddingModel", "xlm-roberta", nil)), sound: plain(typed("BgeM3EmbeddingModel", "xlm-roberta", nil).with("sparse_linear.pt", "x").with("colbert_linear.pt", "x"))},
	"C-15": {broken: plain(llama(), args("--quantization", "bitsandbytes"))},
	"C-16": {broken: plain(llama(), args("acme/model")), sound: plain(llama(), args("/models/acme/model"))},
	"E-1":  {broken: plain(typed("StableLmForCausalLM", "kimi_audio", nil)), sound: plain(typed("StableLmForCausalLM", "kimi_audio", nil).with("whisper-large-v3/config.json", "{}"))},
	"T-1": {broken: plain(llama().without("tokenizer.json").with("vocab.txt", "a\n").with("tokenizer_config.json", `{"tokenizer_class":"LlamaTokenizer","eos_token":"<|eot|>"}`)),
		sound: plain(llama().without("tokenizer.json").with("tokenizer.model", "x").with("tokenizer_config.json", `{"tokenizer_class":"LlamaTokenizer","eos_token":"<|eot|>"}`))},
	"T-2":  {broken: plain(llama().without("tokenizer.json").with("vocab.json", `{"a":0}`)), sound: plain(llama().without("tokenizer.json").with("vocab.json", `{"a":0}`).with("merges.txt", "a b\n"))},
	"T-3":  {broken: plain(llama().without("tokenizer_config.json"))},
	"T-4":  {broken: plain(llama().without("tokenizer.json").with("tokenizer.model", "x"))},
	"T-5":  {broken: plain(llama().with("consolidated.safetensors", llama()["model.safetensors"]))},
	"T-6":  {broken: plain(llama().with("chat_template.jinja", "{% for m in messages %}{{ m.content }}")), sound: plain(llama().with("chat_template.jinja", "{% for m in messages %}{{ m.content }}<|eot|>{% endfor %}"))},
	"T-7":  {broken: plain(llama(), args("s3://b/m", "--tokenizer", "/t"))},
	"T-8":  {broken: plain(configured(map[string]any{"vision_config": map[string]any{"a": 1}}).with("chat_template.json", "{}").with("additional_chat_templates/a.jinja", "x"))},
	"T-9":  {broken: plain(llama().without("chat_template.jinja").with("additional_chat_templates/tool_use.jinja", "{{ messages[0].content }}"))},
	"T-10": {broken: plain(llama(), args("--chat-template", "prod.jinja")), sound: plain(llama(), args("--chat-template", "template_chatml.jinja"))},
	"T-11": {broken: plain(typed("WhisperForConditionalGeneration", "whisper", nil).with("processor_config.json", `{"image_processor":{}}`)),
		sound: plain(typed("WhisperForConditionalGeneration", "whisper", nil).with("processor_config.json", `{"feature_extractor":{}}`))},
	"T-12": {broken: plain(typed("GptOssForCausalLM", "gpt_oss", nil), func(in *manifest.Input) { in.Engine.Env = map[string]string{"HF_HUB_OFFLINE": "1"} })},
	"T-14": {broken: plain(configured(map[string]any{"vocab_size": 6})), sound: plain(configured(map[string]any{"vocab_size": 7}))},
	"W-1":  {broken: plain(llama().without("model.safetensors"))},
	"W-2":  {broken: plain(llama().with("model.safetensors.index.json", `{"weight_map":{"a":"b.safetensors"}}`)), sound: plain(llama().with("model.safetensors.index.json", `{"weight_map":{"lm_head.weight":"model.safetensors"}}`))},
	"W-3":  {broken: plain(llama().with("model-00002-of-00002.safetensors", llama()["model.safetensors"]).without("model.safetensors"))},
	"W-4":  {broken: plain(lose(llama(), "model.layers.2.mlp.up_proj.weight"))},
	"W-6":  {broken: plain(llama().with("other.safetensors", lose(llama(), "model.norm.weight")["model.safetensors"]), args("--load-format", "runai_streamer"))},
	"W-7":  {broken: plain(llama().with("other.safetensors", lose(llama(), "model.norm.weight")["model.safetensors"]))},
	"W-8": {broken: plain(llama().without("model.safetensors").with("pytorch_model-00001.bin", "x").with("pytorch_model.bin.index.json", `{"weight_map":{"a":"pytorch_model-00002.bin"}}`)),
		sound: plain(llama().without("model.safetensors").with("pytorch_model-00001.bin", "x").with("pytorch_model.bin.index.json", `{"weight_map":{"a":"pytorch_model-00001.bin"}}`))},
	"W-9": {broken: plain(llama().shard("model-rank-0-part-0.safetensors", 1, "a.weight"), args("--load-format", "sharded_state", "--tensor-parallel-size", "2")),
		sound: plain(llama().shard("model-rank-0-part-0.safetensors", 1, "a.weight").shard("model-rank-1-part-0.safetensors", 1, "a.weight"), args("--load-format", "sharded_state", "--tensor-parallel-size", "2"))},
	"W-10": {broken: plain(llama(), args("--load-format", "tensorizer")), sound: plain(llama().with("model.tensors", "x"), args("--load-format", "tensorizer"))},
	"W-11": {broken: plain(llama().with("model.safetensors", "\x05\x00\x00\x00\x00\x00\x00\x00{"))},
	"W-12": {broken: plain(llama().with("model.safetensors", pointerText))},
	"W-13": {broken: plain(llama().with("model.safetensors.incomplete", "x"))},
	"W-14": {broken: plain(typed("LlamaForCausalLM", "llama", nil).shard("model.safetensors", 4, join(attention, dense, outer[:2])...)), sound: plain(typed("LlamaForCausalLM", "llama", nil))},
	"W-15": {broken: plain(loseLayer(llama(), 3))},
	"W-16": {problem: &manifest.Problem{Path: "base/config.json", Kind: "dangling-symlink"}},
	"W-17": {problem: &manifest.Problem{Path: "base/model.safetensors", Kind: manifest.KindDigest}},
	"W-18": {broken: plain(repository{"m.gguf": ggufText(true)[:90]}), sound: plain(repository{"m.gguf": ggufText(true)})},
	"W-19": {problem: &manifest.Problem{Path: "base/merges.txt", Kind: store.DefectMissing}},
	"W-20": {problem: &manifest.Problem{Path: "base/refs/main", Kind: store.DefectRef}},
	"P-1":  {problem: &manifest.Problem{Path: "base/a", Kind: "path-not-nfc"}},
	"Q-1":  {broken: plain(withTensors(nil, "model.layers.#.mlp.x.qweight:I32"))},
	"Q-2":  {broken: plain(llama(), args("--quantization", "awq")), sound: plain(llama().with("quant_config.json", `{"w_bit":4}`), args("--quantization", "awq"))},
	"Q-3":  {broken: plain(llama(), args("-q", "gptq")), sound: plain(llama().with("quantize_config.json", `{"bits":4}`), args("--quantization=gptq"))},
	"Q-4":  {broken: plain(llama(), args("--quantization", "modelopt")), sound: plain(llama().with("hf_quant_config.json", `{"quantization":{"quant_algo":"FP8"}}`), args("--quantization", "modelopt"))},
	"Q-5":  {broken: plain(llama(), args("--quantization", "inc")), sound: plain(llama().with("quantization_config.json", `{"bits":4}`), args("--quantization", "inc"))},
	"Q-6":  {broken: plain(quantized("pack-quantized", "a.weight_packed:I32", "a.weight_scale", "a.weight_shape"), args("--quantization", "awq")), sound: plain(quantized("pack-quantized", "a.weight_packed:I32", "a.weight_scale", "a.weight_shape"), args("--quantization", "compressed-tensors"))},
	"Q-11": {broken: plain(llama().with("config.json", `{"architectures":["StableLmForCausalLM"],"model_type":"stablelm","num_hidden_layers":4,"eos_token_id":0,"quantization_config":{"quant_method":"gptq","bits":4,"group_size":128,"sym":true}}`)),
		sound: plain(llama().with("config.json", `{"architectures":["StableLmForCausalLM"],"model_type":"stablelm","num_hidden_layers":4,"eos_token_id":0,"quantization_config":{"quant_method":"gptq","bits":4,"group_size":128,"sym":true,"desc_act":false}}`))},
	"Q-7":  {broken: plain(llama(), args("--kv-cache-dtype", "fp8")), sound: plain(withTensors(nil, "model.layers.#.self_attn.k_scale"), args("--kv-cache-dtype", "fp8"))},
	"Q-8":  {broken: plain(llama(), args("--hf-overrides", `{"quantization_config_file":"/x/q.json"}`)), sound: plain(llama().with("q.json", "{}"), args("/models/m", "--hf-overrides", `{"quantization_config_file":"/models/m/q.json"}`))},
	"Q-9":  {broken: plain(configured(map[string]any{"quantization_config": map[string]any{"quant_method": "fp_quant"}})), sound: plain(configured(map[string]any{"quantization_config": map[string]any{"quant_method": "fp_quant"}}), args("--allow-deprecated-quantization"))},
	"Q-10": {broken: plain(quantized("pack-quantized", "a.weight_packed:I32", "a.weight_scale")), sound: plain(quantized("pack-quantized", "a.weight_packed:I32", "a.weight_scale", "a.weight_shape"))},
	"L-1":  {broken: plain(llama(), adapterWith(`{"r":4}`, halves...))},
	"L-2":  {broken: plain(llama(), adapterWith(soundAdapter, halves[0]))},
	"L-3":  {broken: plain(llama(), adapterWith(strings.Replace(soundAdapter, `"r":4`, `"r":4,"rank_pattern":{"q_proj":64}`, 1), halves...))},
	"L-4":  {broken: plain(llama(), adapterWith(strings.Replace(soundAdapter, `{`, `{"init_lora_weights":"pissa",`, 1), halves...)), sound: plain(llama(), adapterWith(strings.Replace(soundAdapter, `{`, `{"init_lora_weights":"gaussian",`, 1), halves...))},
	"L-5":  {broken: plain(llama(), args("/models/other"), adapterWith(soundAdapter, halves...)), sound: plain(llama(), args("/models/m"), adapterWith(soundAdapter, halves...))},
	"L-6":  {broken: plain(llama(), adapterWith(soundAdapter, strings.ReplaceAll(halves[0], "self_attn", "attn"), strings.ReplaceAll(halves[1], "self_attn", "attn"))), sound: plain(llama(), adapterWith(soundAdapter, halves...))},
	"L-7":  {broken: plain(llama(), args("--enable-lora", "--lora-modules", "sql=/a/sql")), sound: plain(llama(), adapterWith(soundAdapter, halves...))},
	"L-8":  {broken: plain(llama(), adapterWith(soundAdapter, halves...), args("--enable-lora")), sound: plain(llama(), adapterWith(soundAdapter, halves...))},
	"L-9": {broken: plain(llama(), func(in *manifest.Input) {
		in.Adapters = []manifest.Tree{{Name: "ad", Source: repository{"adapter_config.json": soundAdapter, "tokenizer.json": "{}"}.source()}}
	}), sound: plain(llama(), func(in *manifest.Input) {
		in.Adapters = []manifest.Tree{{Name: "ad", Source: repository{"adapter_config.json": soundAdapter, "tokenizer.json": tokenizerText}.source()}}
	})},
	"D-1": {broken: plain(llama(), draft(llama(), `{"method":"draft_model","model":"/other/one","num_speculative_tokens":2}`), func(in *manifest.Input) { in.Drafts = nil }),
		sound: plain(llama(), draft(llama(), `{"method":"draft_model","model":"/models/draft","num_speculative_tokens":2}`))},
	"D-2": {broken: plain(llama(), args("--speculative-config", `{"method":"mtp","num_speculative_tokens":1}`)),
		sound: plain(typed("Glm4MoeForCausalLM", "glm4_moe", nil).shard("model.safetensors", 5, join(attention, dense, outer)...), args("--speculative-config", `{"method":"mtp","num_speculative_tokens":1}`))},
	"D-3": {broken: plain(llama(), args("--speculative-config", `{"method":"ngrams","num_speculative_tokens":2}`)),
		sound: plain(llama(), args("--speculative-config", `{"method":"ngram","num_speculative_tokens":2,"prompt_lookup_max":4}`))},
	"E-2": {broken: plain(llama(), args("--no-such-option"))}, "E-3": {broken: plain(llama(), args("--config=/a.yaml"))},
	"C-18": {broken: plain(llama().with("generation_config.json", `{"eos_token_id":0,"top_p":2.0}`)), sound: plain(llama().with("generation_config.json", `{"eos_token_id":0,"top_p":1.0,"temperature":0.6,"top_k":20,"min_p":0,"repetition_penalty":1.05}`))},
	"T-15": {broken: plain(llama().with("tokenizer.json", `{"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"pre_tokenizer":{"type":"ByteLevel"},"decoder":null,"added_tokens":[]}`)),
		sound: plain(llama().with("tokenizer.json", `{"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"pre_tokenizer":{"type":"ByteLevel"},"decoder":{"type":"ByteLevel"},"added_tokens":[]}`))},
	"C-17": {broken: plain(typed("LlamaForCausalLM", "llama", map[string]any{"rms_norm_eps": "1e-6"})), sound: plain(typed("LlamaForCausalLM", "llama", map[string]any{"rms_norm_eps": 1e-6}))},
	"E-4":  {broken: plain(llama(), engineFiles("a.yaml", "seed: 1\n", "b.yaml", "seed: 2\n"))}, "E-5": {broken: plain(llama(), args("--seed", "1", "--seed", "2"))},
	"E-6":   {broken: plain(llama(), func(in *manifest.Input) { in.Engine.Kind = "tgi" })},
	"E-7":   {broken: plain(configured(map[string]any{"num_attention_heads": 4}), args("--tensor-parallel-size", "3")), sound: plain(configured(map[string]any{"num_attention_heads": 4}), args("--tensor-parallel-size", "2"))},
	"E-8":   {broken: plain(llama(), args("--tool-call-parser", "hermez")), sound: plain(llama(), args("--tool-call-parser", "hermes"))},
	"E-9":   {broken: plain(llama(), twoRegions("served-model-name: a\n", "served-model-name: b\n")), sound: plain(llama(), twoRegions("served-model-name: a\n", "served-model-name: [a, b]\n"))},
	"E-10":  {broken: plain(llama(), twoRegions("dtype: bfloat16\n", "dtype: float16\n")), sound: plain(llama(), twoRegions("dtype: float16\nport: 1\n", "dtype: float16\nport: 2\n"))},
	"E-12":  {broken: plain(llama(), args("--load-format", "gguf")), sound: plain(llama(), args("--load-format", "safetensors", "--max-num-seqs", "8", "--gpu-memory-utilization", "0.9", "--tokenizer-mode", "hf"))},
	"E-11":  {broken: plain(typed("LlamaForCausalLM", "llama", map[string]any{"head_dim": 16})), sound: plain(typed("LlamaForCausalLM", "llama", map[string]any{"head_dim": 64}))},
	"B-1":   {problem: &manifest.Problem{Part: manifest.Engine, Path: "probes.json", Kind: manifest.KindProbes}},
	"I-1":   {broken: plain(llama(), func(in *manifest.Input) { in.Images = []string{"1.example/vllm:v1"} }), sound: plain(llama(), func(in *manifest.Input) { in.Images = []string{"1.example/vllm@sha256:" + strings.Repeat("a", 64)} })},
	"I-2":   {broken: plain(llama(), deployFile("", "a.yaml", "a: [\n"))},
	"K-UID": {broken: plain(llama(), pod("")), sound: plain(llama(), pod("{name: USER, value: engine}"))}, "K-PROBE": {broken: plain(llama(), pod(""))},
}

// twoRegions gives two regions a configuration each.
func twoRegions(source, target string) func(*manifest.Input) {
	return func(in *manifest.Input) {
		w := &tree{Files: map[string][]byte{"s": []byte(source), "t": []byte(target)}}
		in.EngineFiles = []manifest.PartFile{{Region: "eu", Path: "v.yaml", Source: w, Key: "s", Role: manifest.EngineConfig}, {Region: "us", Path: "v.yaml", Source: w, Key: "t", Role: manifest.EngineConfig}}
	}
}

// TestEachRule holds every rule against a fixture that breaks it and one that
// does not. What is broken is reported with words and a hint.
func TestEachRule(t *testing.T) {
	of := func(m *manifest.Manifest, id string) (out []manifest.Finding) {
		return slices.DeleteFunc(rules.Check(m), func(f manifest.Finding) bool { return f.Rule != id })
	}
	build := func(t *testing.T, f made) *manifest.Manifest {
		t.Helper()
		r, change := llama(), func(*manifest.Input) {}
		if f != nil {
			r, change = f()
		}
		in := manifest.Input{Model: manifest.Tree{Source: r.source()}, Engine: manifest.EngineInput{Kind: "vllm", Version: "0.32.0"}}
		change(&in)
		m, _, err := manifest.Build(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for _, rule := range rules.All() {
		t.Run(rule.ID, func(t *testing.T) {
			f, ok := fixtures[rule.ID]
			if !ok {
				t.Fatal("the rule has no fixture")
			}
			broken := build(t, f.broken)
			if f.problem != nil {
				p := *f.problem
				if p.Part == "" {
					p.Part = manifest.Model
				}
				p.What = "what is wrong"
				broken.Annotations.Problems = append(broken.Annotations.Problems, p)
			}
			got := of(broken, rule.ID)
			if len(got) == 0 {
				t.Errorf("the broken fixture has no finding:%s", show(rules.Check(broken)))
			}
			for _, one := range got {
				if one.Message == "" || one.Path == "" || one.Severity.FailsGate(false) && one.Hint == "" {
					t.Errorf("a finding without message, path or hint: %+v", one)
				}
			}
			if bad := of(build(t, f.sound), rule.ID); len(bad) > 0 {
				t.Errorf("the sound fixture has a finding:%s", show(bad))
			}
		})
	}
}
