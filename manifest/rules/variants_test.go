package rules_test

import (
	"encoding/json"
	"strings"
	"testing"

	"drkit/manifest"
	"drkit/manifest/internal/boottruth"
)

// variants are further faults of the kinds in testdata/boot-truth, on the same
// bases. What each does follows from the engine's source or from the measured
// case of its kind: want is the gravest severity, or "" when nothing may fail.
var variants = []struct{ name, base, ops, args, want string }{
	{"first shard lost", "llama-sharded", `[{"op":"rm","file":"model/model-00001-of-00003.safetensors"}]`, "", "block"},
	{"k_proj lost", "llama-sharded", `[{"op":"st_del","tensor":"model.layers.0.self_attn.k_proj.weight","anywhere":true,"index":true}]`, "", "silent"},
	{"q_norm lost", "qwen3-bpe", `[{"op":"st_del","file":"model/model.safetensors","tensor":"model.layers.0.self_attn.q_norm.weight"}]`, "", "block"},
	{"a layer fewer in the config", "llama-sharded", `[{"op":"json_set","file":"model/config.json","path":["num_hidden_layers"],"value":2}]`, "", "block"},
	{"a layer fewer, quantized", "llama-w8a8", `[{"op":"json_set","file":"model/config.json","path":["num_hidden_layers"],"value":2}]`, "", "block"},
	{"wider mlp in the config", "llama-sharded", `[{"op":"json_set","file":"model/config.json","path":["intermediate_size"],"value":256}]`, "", "block"},
	{"wider mlp, quantized", "llama-w8a8", `[{"op":"json_set","file":"model/config.json","path":["intermediate_size"],"value":256}]`, "", "block"},
	{"wider mlp, gptq", "llama-gptq", `[{"op":"json_set","file":"model/config.json","path":["intermediate_size"],"value":256}]`, "", "block"},
	{"smaller hidden size", "qwen3-bpe", `[{"op":"json_set","file":"model/config.json","path":["hidden_size"],"value":32}]`, "", "block"},
	{"config with a byte order mark", "llama-sharded", `[{"op":"prepend_hex","file":"model/config.json","hex":"efbbbf"}]`, "", "block"},
	{"generation config is a page", "llama-sharded", `[{"op":"write","file":"model/generation_config.json","text":"<html>"}]`, "", "block"},
	{"generation config empty", "llama-sharded", `[{"op":"truncate","file":"model/generation_config.json","keep_bytes":0}]`, "", "block"},
	{"index is cut", "llama-sharded", `[{"op":"truncate","file":"model/model.safetensors.index.json","keep_fraction":0.5}]`, "", "block"},
	{"index in a sub-folder", "llama-sharded", `[{"op":"index_map_names","file":"model/model.safetensors.index.json","names":{"model-00001-of-00003.safetensors":"./model-00001-of-00003.safetensors","model-00002-of-00003.safetensors":"model-00002-of-00003.safetensors","model-00003-of-00003.safetensors":"model-00003-of-00003.safetensors"}}]`, "", "block"},
	{"template does not end", "llama-sharded", `[{"op":"truncate","file":"model/chat_template.jinja","keep_fraction":0.5}]`, "", "request"},
	{"template raises", "llama-sharded", `[{"op":"write","file":"model/chat_template.jinja","text":"{{ raise_exception('no') }}"}]`, "", "request"},
	{"template calls what is not there", "llama-sharded", `[{"op":"write","file":"model/chat_template.jinja","text":"{% for m in messages %}{{ shout(m['content']) }}{% endfor %}"}]`, "", "request"},
	{"template with an unknown test", "llama-sharded", `[{"op":"write","file":"model/chat_template.jinja","text":"{% for m in messages %}{% if m is loud %}{{ m['content'] }}{% endif %}{% endfor %}"}]`, "", "request"},
	{"template empty", "llama-sharded", `[{"op":"truncate","file":"model/chat_template.jinja","keep_bytes":0}]`, "", "silent"},
	{"template without content", "llama-sharded", `[{"op":"replace","file":"model/chat_template.jinja","find":"{{ m['content'] }}","to":""}]`, "", "silent"},
	{"template without the end of a turn", "llama-sharded", `[{"op":"write","file":"model/chat_template.jinja","text":"{{ bos_token }}{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"}]`, "", ""},
	{"template in tokenizer_config is broken", "qwen3-bpe", `[{"op":"json_set","file":"model/tokenizer_config.json","path":["chat_template"],"value":"{% for m in messages %}{{ m.content "}]`, "", "request"},
	{"tokenizer.json is a list", "llama-sharded", `[{"op":"write","file":"model/tokenizer.json","text":"[]"}]`, "", "block"},
	{"tokenizer without a model", "llama-sharded", `[{"op":"json_del","file":"model/tokenizer.json","path":["model"]}]`, "", "block"},
	{"vocabulary files alone are lost", "qwen3-bpe", `[{"op":"rm","file":"model/vocab.json"},{"op":"rm","file":"model/merges.txt"}]`, "", ""},
	{"every tokenizer file lost", "qwen3-bpe", `[{"op":"rm","file":"model/vocab.json"},{"op":"rm","file":"model/merges.txt"},{"op":"rm","file":"model/tokenizer.json"}]`, "", "block"},
	{"tokenizer lost, others have none", "llama-sharded", `[{"op":"rm","file":"model/tokenizer.json"}]`, "", "block"},
	{"tokenizer lost, vocab.txt stays", "bert-st", `[{"op":"rm","file":"model/tokenizer.json"}]`, "--max-model-len 64", ""},
	{"modules.json is cut", "bert-st", `[{"op":"truncate","file":"model/modules.json","keep_fraction":0.5}]`, "", "block"},
	{"modules.json lost", "bert-st", `[{"op":"rm","file":"model/modules.json"}]`, "", "silent"},
	{"pooling config is cut", "bert-st", `[{"op":"truncate","file":"model/1_Pooling/config.json","keep_fraction":0.5}]`, "", "block"},
	{"longer than the encoder takes", "bert-st", ``, "--max-model-len 4096", "block"},
	{"a query matrix of bert lost", "bert-st", `[{"op":"st_del","file":"model/model.safetensors","tensor":"encoder.layer.0.attention.self.query.weight"}]`, "", "silent"},
	{"processor config is cut", "llava-tiny", `[{"op":"truncate","file":"model/processor_config.json","keep_fraction":0.5}]`, "", "block"},
	{"layers of the tower that are not used are left out", "llava-tiny", `[{"op":"json_set","file":"model/config.json","path":["vision_feature_layer"],"value":1},{"op":"json_set","file":"model/config.json","path":["vision_config","num_hidden_layers"],"value":5}]`, "", ""},
	{"a layer of the tower that is used is left out", "llava-tiny", `[{"op":"json_set","file":"model/config.json","path":["vision_feature_layer"],"value":3},{"op":"json_set","file":"model/config.json","path":["vision_config","num_hidden_layers"],"value":5}]`, "", "block"},
	{"projector lost", "llava-tiny", `[{"op":"st_del","file":"model/model.safetensors","tensor":"multi_modal_projector.linear_1.weight"}]`, "", "silent"},
	{"text matrix of llava lost", "llava-tiny", `[{"op":"st_del","file":"model/model.safetensors","tensor":"language_model.model.layers.1.mlp.up_proj.weight"}]`, "", "silent"},
	{"zero points lost", "llama-gptq", `[{"op":"st_del_suffix","file":"model/model.safetensors","suffix":"mlp.up_proj.qzeros"}]`, "", ""},
	{"group size of other weights", "llama-gptq", `[{"op":"json_set","file":"model/config.json","path":["quantization_config","group_size"],"value":64}]`, "", "block"},
	{"gptq weights called awq", "llama-gptq", `[{"op":"json_set","file":"model/config.json","path":["quantization_config","quant_method"],"value":"awq"}]`, "", "block"},
	{"w8a8 called fp8", "llama-w8a8", `[{"op":"json_set","file":"model/config.json","path":["quantization_config"],"value":{"quant_method":"foo8"}}]`, "", "block"},
	{"other parser of tools", "llama-sharded", ``, "--enable-auto-tool-choice --tool-call-parser tiny_x", "block"},
	{"mistral's tokenizer asked for", "llama-sharded", ``, "--tokenizer-mode mistral", "block"},
	{"mistral's config asked for", "llama-sharded", ``, "--config-format mistral", "block"},
	{"mistral's weights asked for", "llama-sharded", ``, "--load-format mistral", "block"},
	{"npcache of safetensors", "llama-sharded", ``, "--load-format npcache", "block"},
	{"tensorizer of safetensors", "llama-sharded", ``, "--load-format tensorizer", "block"},
	{"gptq of plain weights", "llama-sharded", ``, "--quantization gptq", "block"},
	{"a method that nobody has", "llama-sharded", ``, "--quantization bitsandbytes", "block"},
	{"template by an absolute path that is not there", "llama-sharded", ``, "--chat-template {W}/prod.jinja", "block"},
	{"template of the model itself", "llama-sharded", ``, "--chat-template {W}/model/chat_template.jinja", ""},
	{"tokenizer of the model itself", "llama-sharded", ``, "--tokenizer {W}/model/", ""},
	{"tokenizer by an id", "llama-sharded", ``, "--tokenizer example/tok", "block"},
	{"generation config elsewhere", "llama-sharded", ``, "--generation-config {W}/gen", "silent"},
	{"lora keys of a strange name", "llama-sharded", `[{"op":"add_base","base":"llama-lora","to":"adapter"},{"op":"st_rename","file":"adapter/adapter_model.safetensors","find":"q_proj","to":"query_proj"}]`, "--enable-lora --lora-modules ad={W}/adapter", "block"},
	{"lora half lost", "llama-sharded", `[{"op":"add_base","base":"llama-lora","to":"adapter"},{"op":"st_del","file":"adapter/adapter_model.safetensors","tensor":"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"}]`, "--enable-lora --lora-modules ad={W}/adapter", "silent"},
	{"lora with dora", "llama-sharded", `[{"op":"add_base","base":"llama-lora","to":"adapter"},{"op":"json_set","file":"adapter/adapter_config.json","path":["use_dora"],"value":true}]`, "--enable-lora --lora-modules ad={W}/adapter", "block"},
	{"lora of rank 64 with room for it", "llama-sharded", `[{"op":"add_base","base":"llama-lora","to":"adapter"}]`, "--enable-lora --max-lora-rank 64 --lora-modules ad={W}/adapter", ""},
	{"lora without the switch", "llama-sharded", `[{"op":"add_base","base":"llama-lora","to":"adapter"}]`, "--lora-modules ad={W}/adapter", "block"},
	{"lora config is cut", "llama-sharded", `[{"op":"add_base","base":"llama-lora","to":"adapter"},{"op":"truncate","file":"adapter/adapter_config.json","keep_fraction":0.5}]`, "--enable-lora --lora-modules ad={W}/adapter", "block"},
	{"rope of an older spelling without its factor", "qwen3-bpe", `[{"op":"json_del","file":"model/config.json","path":["rope_parameters","factor"]}]`, "", "block"},
	{"yarn without its original length", "qwen3-bpe", `[{"op":"json_del","file":"model/config.json","path":["rope_parameters","original_max_position_embeddings"]}]`, "", "silent"},
	{"llama3 rope lacks a field", "llama-sharded", `[{"op":"json_set","file":"model/config.json","path":["rope_parameters"],"value":{"rope_type":"llama3","rope_theta":500000.0,"factor":8.0,"original_max_position_embeddings":512,"low_freq_factor":1.0}}]`, "", "block"},
	{"longrope with too few factors", "llama-sharded", `[{"op":"json_set","file":"model/config.json","path":["rope_parameters"],"value":{"rope_type":"longrope","rope_theta":500000.0,"original_max_position_embeddings":512,"short_factor":[1.0],"long_factor":[1.0]}}]`, "", "block"},
	{"retired architecture", "llama-sharded", `[{"op":"json_set","file":"model/config.json","path":["architectures"],"value":["AquilaForCausalLM"]}]`, "", "block"},
	{"unknown architecture", "llama-sharded", `[{"op":"json_set","file":"model/config.json","path":["architectures"],"value":["LlamaxForCausalLM"]}]`, "", "block"},
	{"architectures lost", "llama-sharded", `[{"op":"json_del","file":"model/config.json","path":["architectures"]}]`, "", ""},
	{"eagle of a folder that is not there", "llama-sharded", ``, `--speculative-config {"method":"eagle3","model":"{W}/eagle","num_speculative_tokens":2}`, "block"},
	{"more ranks than weights", "llama-sharded", `[{"op":"copy","file":"model/model-00001-of-00003.safetensors","to":"model/model-rank-0-part-0.safetensors"}]`, "--load-format sharded_state --tensor-parallel-size 2", "block"},
}

func TestVariants(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			c := bootCase{boottruth.Case{ID: v.name, Base: v.base, Model: "{W}/model", Args: append([]string{"--served-model-name", "tiny"}, strings.Fields(v.args)...), Env: map[string]string{}, Dir: corpus}}
			if v.ops != "" {
				if err := json.Unmarshal([]byte(v.ops), &c.Ops); err != nil {
					t.Fatal(err)
				}
			}
			failing, _, err := c.gate(t)
			if err != nil {
				t.Fatal(err)
			}
			got := manifest.Severity("")
			if len(failing) > 0 {
				got = failing[0].Severity
			}
			if string(got) != v.want {
				t.Errorf("got %q, want %q%s", got, v.want, show(failing))
			}
		})
	}
}
