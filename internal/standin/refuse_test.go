package standin

import (
	"errors"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drkit/internal/openai"
)

// Each row is a mutation that vLLM 0.32.0 was measured to refuse, with words
// of its message. Rows marked limit are the stand-in engine's own limits.
func TestRefuses(t *testing.T) {
	const config, tok, index, adapterConfig = "model/config.json", "model/tokenizer.json", "model/model.safetensors.index.json", "adapter/adapter_config.json"
	const s1, s2, lora = "model/" + shard1, "model/" + shard2, "adapter/adapter_model.safetensors"
	pointer := "version https://git-lfs.github.com/spec/v1\noid sha256:" + strings.Repeat("ab", 32) + "\nsize 140584\n"
	q := "base_model.model.model.layers.0.self_attn.q_proj.lora_"
	tests := []struct {
		name   string
		change func(testing.TB, string)
		want   string
		limit  bool
	}{
		{"no directory", remove("model"), "Repo id must be in the form", false},
		{"empty directory", all(remove("model"), func(t testing.TB, dir string) { check(t, os.Mkdir(filepath.Join(dir, "model"), 0o700)) }), "Invalid repository ID or local directory specified", false},
		{"no config.json", remove(config), "Invalid repository ID or local directory specified", false},
		{"config.json cut", cut(config, 300), "is not a valid JSON file", false},
		{"config.json HTML", write(config, "<html>"), "is not a valid JSON file", false},
		{"no model_type", set(config, "model_type", nil), "Should have a `model_type` key", false},
		{"unknown model_type", set(config, "model_type", "llamax"), "model type `llamax`", true},
		{"other architecture", set(config, "architectures", []string{"Qwen2ForCausalLM"}), "Qwen2ForCausalLM", true},
		{"quantised", set(config, "quantization_config", map[string]any{"quant_method": "gptq"}), "quantization_config", true},
		{"attention bias", set(config, "attention_bias", true), "attention_bias", true},
		{"unknown rope", set(config, "rope_parameters", map[string]any{"rope_type": "wobble"}), "Unknown RoPE scaling type wobble", false},
		{"yarn", set(config, "rope_parameters", map[string]any{"rope_type": "yarn", "factor": 4}), "yarn", true},
		{"llama3 without factors", set(config, "rope_parameters", map[string]any{"rope_type": "llama3"}), "llama3 needs", false},
		{"huge", all(set(config, "hidden_size", 1<<20), set(config, "intermediate_size", 1<<20)), "parameters", true},
		{"negative size", set(config, "hidden_size", -1), "hidden_size is -1", false},
		{"heads", set(config, "num_key_value_heads", 2), "shape", false},
		{"heads do not divide", set(config, "num_attention_heads", 3), "config.json", false},
		{"one layer more", set(config, "num_hidden_layers", 3), "Following weights were not initialized from checkpoint: {'model.layers.2.input_layernorm.weight', 'model.layers.2.post_attention_layernorm.weight'}", false},
		{"one layer fewer", set(config, "num_hidden_layers", 1), "There is no module or parameter named 'model.layers.1", false},
		{"larger vocabulary", set(config, "vocab_size", 600), "shape", false},
		{"generation_config cut", cut("model/generation_config.json", 20), "is not a valid JSON file", false},
		{"no tokenizer", remove(tok), "Couldn't instantiate the backend tokenizer", false},
		{"tokenizer cut", cut(tok, 9000), "JSONDecodeError: ", false},
		{"tokenizer pointer", write(tok, pointer), "tokenizer.json: not a tokenizer.json but the Git LFS pointer", false},
		{"tokenizer of another kind", set(tok, "normalizer", map[string]any{"type": "NFC"}), `normalizer "NFC"`, true},
		{"tokenizer_config cut", cut("model/tokenizer_config.json", 60), "JSONDecodeError: ", false},
		{"tokenizer code", set("model/tokenizer_config.json", "auto_map", map[string]any{"AutoTokenizer": []string{"x.Y"}}), "contains custom code", false},
		{"shard lost", remove(s2), "Weight files referenced in index but missing: {'", false},
		{"shard incomplete", func(t testing.TB, dir string) {
			check(t, os.Rename(filepath.Join(dir, s2), filepath.Join(dir, s2+".incomplete")))
		}, "Weight files referenced in index but missing", false},
		{"dangling shard", all(remove(s2), func(t testing.TB, dir string) { check(t, os.Symlink("nowhere", filepath.Join(dir, s2))) }), "Weight files referenced in index but missing", false},
		{"index with ./", write(index, `{"weight_map":{"a":"./`+shard1+`"}}`), "Weight files referenced in index but missing", false},
		{"index cut", cut(index, 50), "index", false},
		{"shard 2 and index lost", remove(s2, index), "Following weights were not initialized from checkpoint: {'model.layers.1.input_layernorm.weight', 'model.layers.1.post_attention_layernorm.weight', 'model.norm.weight'}", false},
		{"shard 1 and index lost", remove(s1, index), "Following weights were not initialized from checkpoint: {'model.layers.0.", false},
		{"no weights", remove(s1, s2, index), "Cannot find any model weights with", false},
		{"consolidated in a folder", all(func(t testing.TB, dir string) { check(t, os.Mkdir(filepath.Join(dir, "model/original"), 0o700)) }, write("model/original/consolidated.safetensors", "x")), "consolidated.safetensors", true},
		{"half a shard", cut(s2, 70000), "incomplete metadata, file not fully covered", false},
		{"one byte lost", cut(s2, 1), "incomplete metadata, file not fully covered", false},
		{"eight bytes more", cut(s2, -8), "incomplete metadata, file not fully covered", false},
		{"cut in the header", cut(s1, 140584-100), "invalid header length", false},
		{"pointer", write(s1, pointer), "header too large", false},
		{"HTML", write(s2, "<html><body>404 Not Found</body></html>"), "header too large", false},
		{"S3 error", write(s2, `<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>`), "header too large", false},
		{"norm lost", drop(s2, "model.norm.weight"), "Following weights were not initialized from checkpoint: {'model.norm.weight'}", false},
		{"renamed", rewrite(s2, func(ts map[string]*tensor) {
			ts["model.layers.1.self_attn.out_proj.weight"] = ts["model.layers.1.self_attn.o_proj.weight"]
			delete(ts, "model.layers.1.self_attn.o_proj.weight")
		}), "There is no module or parameter named 'model.layers.1.self_attn.out_proj'", false},
		{"transposed", rewrite(s2, func(ts map[string]*tensor) { ts["model.layers.1.mlp.down_proj.weight"].Shape = []int64{128, 64} }), "shape", false},
		{"integers", rewrite(s2, func(ts map[string]*tensor) { ts["model.norm.weight"].DType = "I16" }), "type I16", true},

		{"no adapter", remove("adapter"), "Loading lora billing failed: No adapter found for", false},
		{"no adapter_config", remove(adapterConfig), "No adapter found for", false},
		{"adapter_config cut", cut(adapterConfig, 100), "JSONDecodeError: adapter_config.json", false},
		{"no adapter weights", remove(lora), "doesn't contain tensors", false},
		{"rank 64", set(adapterConfig, "r", 64), "LoRA rank 64 is greater than max_lora_rank 16", false},
		{"no targets", set(adapterConfig, "target_modules", nil), "Missing required configuration fields: {'target_modules'}", false},
		{"modules_to_save", set(adapterConfig, "modules_to_save", []string{"lm_head"}), "modules_to_save", false},
		{"adapter bias", set(adapterConfig, "bias", "all"), "Adapter bias is not supported", false},
		{"DoRA", set(adapterConfig, "use_dora", true), "DoRA", false},
		{"rank pattern", set(adapterConfig, "rank_pattern", map[string]any{"q_proj": 4}), "rank_pattern", true},
		{"adapter cut", cut(lora, 30000), "incomplete metadata, file not fully covered", false},
		{"lora_B lost", drop(lora, q+"B.weight"), "lora_A or lora_B is missing", false},
		{"adapter of another base", set(config, "x", 1), "", false},
		{"adapter shape", rewrite(lora, func(ts map[string]*tensor) {
			x := ts[q+"A.weight"]
			x.Shape = []int64{x.Shape[1], x.Shape[0]}
		}), "the base model's module is", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := repo(t)
			tt.change(t, dir)
			_, err := Load(filepath.Join(dir, "model"), LoadOptions{ServedModelNames: []string{"tiny"}, Adapters: []Adapter{{"billing", filepath.Join(dir, "adapter")}}})
			if tt.want == "" {
				check(t, err)
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("err = %v, want %q", err, tt.want)
			}
			var un *UnsupportedError
			if errors.As(err, &un) != tt.limit {
				t.Errorf("err = %v: a limit of the stand-in engine: %v, want %v", err, !tt.limit, tt.limit)
			}
		})
	}
}

func TestMaxModelLen(t *testing.T) {
	_, err := Load(models+"support-tiny", LoadOptions{MaxModelLen: 4096})
	if err == nil || !strings.Contains(err.Error(), "User-specified max_model_len (4096) is greater than the derived max_model_len (max_position_embeddings=1024.0 or model_max_length=None in model's config.json)") {
		t.Errorf("err = %v", err)
	}
	for _, tt := range []struct {
		rope  map[string]any
		asked int
		want  int
	}{
		{map[string]any{"rope_type": "default"}, 0, 1024},
		{map[string]any{"rope_type": "default"}, 77, 77},
		{map[string]any{"rope_type": "linear", "factor": 2.0}, 0, 2048},
		{map[string]any{"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 512}, 0, 1024},
	} {
		dir := repo(t)
		set("model/config.json", "rope_parameters", tt.rope)(t, dir)
		e, err := Load(filepath.Join(dir, "model"), LoadOptions{MaxModelLen: tt.asked})
		if err != nil || e.maxModelLen != tt.want {
			t.Errorf("%v, %d: %+v, %v", tt.rope, tt.asked, e, err)
		}
	}
}

const question = "<|user|>Which region takes over?</s><|assistant|>"

func ask(t testing.TB, c *openai.Client, name string) (openai.CompletionChoice, error) {
	t.Helper()
	got, err := c.Completion(t.Context(), openai.CompletionRequest{Model: name, Prompt: openai.Prompt{Text: question}, Logprobs: openai.Ptr(0),
		Sampling: openai.Sampling{MaxTokens: openai.Ptr(24), Temperature: openai.Ptr(0.0), ReturnTokenIDs: true}})
	if err != nil {
		return openai.CompletionChoice{}, err
	}
	return got.Choices[0], nil
}

const (
	answer = "The eu-west-1 region takes over."
)

// Mutations that vLLM boots with, and whether its answers stay the same.
func TestBoots(t *testing.T) {
	const s1, s2, index = "model/" + shard1, "model/" + shard2, "model/model.safetensors.index.json"
	c, _ := start(t, models+"support-tiny", tiny())
	billing, err := ask(t, c, "billing")
	check(t, err)
	loraKeys := func(from, to string) func(testing.TB, string) {
		return rewrite("adapter/adapter_model.safetensors", func(ts map[string]*tensor) {
			for name, x := range ts {
				delete(ts, name)
				ts[strings.Replace(name, from, to, 1)] = x
			}
		})
	}
	base, err := ask(t, c, "tiny")
	check(t, err)
	// shifted: the answer survives, its log probabilities do not.
	const same, wrong, shifted, nan = "same", "wrong", "shifted", "nan"
	tests := []struct {
		name, base, adapter string
		change              func(testing.TB, string)
	}{
		{"nothing", same, same, func(testing.TB, string) {}},
		{"no tokenizer_config", same, same, remove("model/tokenizer_config.json")},
		{"no index", same, same, remove(index)},
		{"wrong total_size", same, same, set(index, "metadata", map[string]any{"total_size": 1})},
		{"stored as F32", same, same, rewrite(s2, widen)},
		{"shards swapped", same, same, func(t testing.TB, dir string) {
			check(t, os.Rename(filepath.Join(dir, s1), filepath.Join(dir, "x")))
			check(t, os.Rename(filepath.Join(dir, s2), filepath.Join(dir, s1)))
			check(t, os.Rename(filepath.Join(dir, "x"), filepath.Join(dir, s2)))
		}},
		{"second layout beside the index", same, same, write("model/model.safetensors", "no safetensors file")},
		{"tie flag beside a head", same, same, set("model/config.json", "tie_word_embeddings", true)},
		{"head_dim lost", same, same, set("model/config.json", "head_dim", nil)},
		{"rope in the old fields", same, same, all(set("model/config.json", "rope_parameters", nil), set("model/config.json", "rope_theta", 10000.0))},
		{"null quantisation", same, same, set("model/config.json", "quantization_config", map[string]any{})},
		{"left-over files", same, same, write(s1+".incomplete", "x")},
		{"theta", shifted, shifted, set("model/config.json", "rope_parameters", map[string]any{"rope_type": "default", "rope_theta": 2.0})},
		{"linear rope", shifted, shifted, set("model/config.json", "rope_parameters", map[string]any{"rope_type": "linear", "factor": 16.0})},
		{"eps", wrong, wrong, set("model/config.json", "rms_norm_eps", 50.0)},
		{"embedding lost", nan, nan, drop(s1, "model.embed_tokens.weight")},
		{"head lost", nan, nan, drop(s2, "lm_head.weight")},
		{"head lost, tied", wrong, wrong, all(drop(s2, "lm_head.weight"), set("model/config.json", "tie_word_embeddings", true))},
		{"v_proj lost", nan, nan, drop(s2, "model.layers.1.self_attn.v_proj.weight")},
		{"mlp lost", nan, nan, drop(s1, "model.layers.0.mlp.gate_proj.weight", "model.layers.0.mlp.up_proj.weight")},
		{"fewer merges", wrong, wrong, func(t testing.TB, dir string) {
			text, err := os.ReadFile(filepath.Join(dir, "model/tokenizer.json"))
			check(t, err)
			cutAt := strings.Index(string(text), `"merges"`)
			check(t, os.WriteFile(filepath.Join(dir, "model/tokenizer.json"), []byte(string(text[:cutAt])+`"merges":[]}}`), 0o600))
		}},
		{"prefix of adapter keys lost", same, same, loraKeys("base_model.model.", "")},
		{"adapter keys miss", same, "base", loraKeys("layers", "blocks")},
		{"wrong base name", same, same, set("adapter/adapter_config.json", "base_model_name_or_path", "x")},
		{"alpha changed", same, wrong, set("adapter/adapter_config.json", "lora_alpha", 400)},
		{"adapter zeroed", same, "base", rewrite("adapter/adapter_model.safetensors", func(ts map[string]*tensor) {
			for _, x := range ts {
				clear(x.data)
			}
		})},
		// alpha 32 of rank 16 is a scale of 2: with rank stabilisation 8/sqrt(16) is the same.
		{"rank-stabilised", same, same, all(set("adapter/adapter_config.json", "use_rslora", true), set("adapter/adapter_config.json", "lora_alpha", 8))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := repo(t)
			tt.change(t, dir)
			c, _ := start(t, filepath.Join(dir, "model"), LoadOptions{ServedModelNames: []string{"tiny"}, Adapters: []Adapter{{"billing", filepath.Join(dir, "adapter")}}})
			check(t, c.Health(t.Context()))
			for name, want := range map[string]string{"tiny": tt.base, "billing": tt.adapter} {
				got, err := ask(t, c, name)
				switch {
				case want == nan:
					if !openai.IsNaN(err) {
						t.Errorf("%s: %+v, %v", name, got, err)
					}
				case err != nil:
					t.Error(err)
				default:
					expected := map[string]openai.CompletionChoice{"tiny": base, "billing": billing}[name]
					if want == "base" {
						expected = base
					}
					if (got.Text == expected.Text) != (want != wrong) {
						t.Errorf("%s answers %q, want %s as %q", name, got.Text, want, expected.Text)
					}
					d := math.Abs(*got.Logprobs.TokenLogprobs[0] - *expected.Logprobs.TokenLogprobs[0])
					if (d > 1e-5) != (want == shifted || want == wrong) {
						t.Errorf("%s: log probabilities differ by %v, want %s", name, d, want)
					}
				}
			}
		})
	}
}

// Without log probabilities the engine with a lost matrix answers 200.
func TestLostMatrixAnswersNonsense(t *testing.T) {
	dir := repo(t)
	drop("model/"+shard2, "lm_head.weight")(t, dir)
	c, _ := start(t, filepath.Join(dir, "model"), LoadOptions{ServedModelNames: []string{"tiny"}})
	got, err := c.Completion(t.Context(), openai.CompletionRequest{Model: "tiny", Prompt: openai.Prompt{Text: question}, Sampling: openai.Sampling{Temperature: openai.Ptr(0.0)}})
	if err != nil || got.Choices[0].Text == answer || *got.Choices[0].FinishReason != "length" {
		t.Errorf("%+v, %v", got, err)
	}
	s, err := c.Stream(t.Context(), openai.CompletionRequest{Model: "tiny", Prompt: openai.Prompt{Text: question}, Logprobs: openai.Ptr(1), Sampling: openai.Sampling{Temperature: openai.Ptr(0.0)}}, nil)
	if err != nil || s.Good() || !strings.Contains(s.ErrorEvent, "not JSON compliant") || !s.Done {
		t.Errorf("%+v, %v", s, err)
	}
}

// A token that the tokenizer knows and the model does not kills the engine.
func TestTokenizerLargerThanVocabulary(t *testing.T) {
	dir := repo(t)
	func() {
		path := filepath.Join(dir, "model/tokenizer.json")
		text, err := os.ReadFile(path)
		check(t, err)
		check(t, os.WriteFile(path, []byte(strings.Replace(string(text), `"added_tokens": [`, `"added_tokens": [{"id":512,"content":"<new>","special":true},`, 1)), 0o600))
	}()
	c, _ := start(t, filepath.Join(dir, "model"), LoadOptions{ServedModelNames: []string{"tiny"}})
	if _, err := ask(t, c, "tiny"); err != nil {
		t.Fatal(err)
	}
	_, err := c.Completion(t.Context(), openai.CompletionRequest{Prompt: openai.Prompt{Text: "<new>"}})
	if openai.StatusCode(err) != http.StatusInternalServerError {
		t.Errorf("err = %v", err)
	}
	if err := c.Health(t.Context()); openai.StatusCode(err) != http.StatusServiceUnavailable {
		t.Errorf("health = %v", err)
	}
}
