package rules_test

import (
	"encoding/json"
	"maps"
	"testing"
)

// small gives the numbers of a tiny model the names that public configurations use.
func small(arch, kind string, more map[string]any) map[string]any {
	c := map[string]any{"architectures": []string{arch}, "model_type": kind, "num_hidden_layers": 2, "hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 4,
		"num_key_value_heads": 2, "vocab_size": 7, "max_position_embeddings": 4096, "hidden_act": "silu", "rms_norm_eps": 1e-5, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
		"eos_token_id": 5, "rope_theta": 10000.0}
	maps.Copy(c, more)
	return c
}

// decoderShapes are the tensors of a plain decoder with small's numbers.
var decoderShapes = []string{"model.embed_tokens.weight:BF16:7x16", "model.norm.weight:BF16:16", "model.layers.#.input_layernorm.weight:BF16:16", "model.layers.#.post_attention_layernorm.weight:BF16:16",
	"model.layers.#.self_attn.q_proj.weight:BF16:16x16", "model.layers.#.self_attn.k_proj.weight:BF16:8x16", "model.layers.#.self_attn.v_proj.weight:BF16:8x16",
	"model.layers.#.self_attn.o_proj.weight:BF16:16x16", "model.layers.#.mlp.gate_proj.weight:BF16:32x16", "model.layers.#.mlp.up_proj.weight:BF16:32x16", "model.layers.#.mlp.down_proj.weight:BF16:16x32"}

const ownHead = "lm_head.weight:BF16:7x16"

// eightBits are the same layers in FP8, each with a scale for its weight and one for its input.
func eightBits() (names []string) {
	for module, form := range map[string]string{"self_attn.q_proj": "16x16", "self_attn.k_proj": "8x16", "self_attn.v_proj": "8x16", "self_attn.o_proj": "16x16",
		"mlp.gate_proj": "32x16", "mlp.up_proj": "32x16", "mlp.down_proj": "16x32"} {
		p := "model.layers.#." + module
		names = append(names, p+".weight:F8_E4M3:"+form, p+".weight_scale:BF16:1", p+".input_scale:BF16:1")
	}
	return append(names, decoderShapes[0], decoderShapes[1], decoderShapes[2], decoderShapes[3], ownHead)
}

// TestPublicTrees are whole tiny repositories in the forms of well-known public
// models, names and settings as their documentation shows them: nothing may fail.
func TestPublicTrees(t *testing.T) {
	tree := func(config map[string]any, names ...string) repository {
		return newRepository(config).shard("model.safetensors", 2, names...)
	}
	llama3 := map[string]any{"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 1024}
	static := map[string]any{"quant_method": "compressed-tensors", "format": "float-quantized", "ignore": []string{"lm_head"}, "kv_cache_scheme": nil, "quantization_status": "frozen",
		"config_groups": map[string]any{"group_0": map[string]any{"targets": []string{"Linear"},
			"weights":           map[string]any{"num_bits": 8, "type": "float", "strategy": "tensor", "symmetric": true, "dynamic": false, "actorder": nil},
			"input_activations": map[string]any{"num_bits": 8, "type": "float", "strategy": "tensor", "symmetric": true, "dynamic": false}}}}
	experts := []string{"model.layers.#.block_sparse_moe.gate.weight:BF16:2x16"}
	for _, e := range []string{"0", "1"} {
		for name, form := range map[string]string{"w1": "32x16", "w2": "16x32", "w3": "32x16"} {
			experts = append(experts, "model.layers.#.block_sparse_moe.experts."+e+"."+name+".weight:BF16:"+form)
		}
	}
	bert := map[string]any{"architectures": []string{"BertModel"}, "model_type": "bert", "num_hidden_layers": 2, "hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 4,
		"vocab_size": 7, "max_position_embeddings": 512, "type_vocab_size": 2, "hidden_act": "gelu", "layer_norm_eps": 1e-12, "pad_token_id": 0, "position_embedding_type": "absolute"}
	layer := "encoder.layer.#."
	encoder := []string{"embeddings.word_embeddings.weight:F32:7x16", "embeddings.position_embeddings.weight:F32:512x16", "embeddings.token_type_embeddings.weight:F32:2x16",
		"embeddings.LayerNorm.weight:F32:16", "embeddings.LayerNorm.bias:F32:16", "pooler.dense.weight:F32:16x16", "pooler.dense.bias:F32:16"}
	for module, form := range map[string][2]string{"attention.self.query": {"16x16", "16"}, "attention.self.key": {"16x16", "16"}, "attention.self.value": {"16x16", "16"}, "attention.output.dense": {"16x16", "16"},
		"attention.output.LayerNorm": {"16", "16"}, "intermediate.dense": {"32x16", "32"}, "output.dense": {"16x32", "16"}, "output.LayerNorm": {"16", "16"}} {
		encoder = append(encoder, layer+module+".weight:F32:"+form[0], layer+module+".bias:F32:"+form[1])
	}
	for name, r := range map[string]repository{
		"Llama 3.1":                      tree(small("LlamaForCausalLM", "llama", map[string]any{"rope_scaling": llama3, "eos_token_id": []int{5, 6}}), join(decoderShapes, []string{ownHead})...),
		"Llama 3.2, tied, own head size": tree(small("LlamaForCausalLM", "llama", map[string]any{"rope_scaling": llama3, "tie_word_embeddings": true, "head_dim": 4}), decoderShapes...),
		"Llama 2 with its inverse frequencies": tree(small("LlamaForCausalLM", "llama", map[string]any{"rope_scaling": nil, "pretraining_tp": 1}),
			join(decoderShapes, []string{ownHead, "model.layers.#.self_attn.rotary_emb.inv_freq:F32:2"})...),
		"Qwen 2.5": tree(small("Qwen2ForCausalLM", "qwen2", map[string]any{"use_sliding_window": false, "sliding_window": 131072, "max_window_layers": 2}),
			join(decoderShapes, []string{ownHead, "model.layers.#.self_attn.q_proj.bias:BF16:16", "model.layers.#.self_attn.k_proj.bias:BF16:8", "model.layers.#.self_attn.v_proj.bias:BF16:8"})...),
		"Qwen 3": tree(small("Qwen3ForCausalLM", "qwen3", map[string]any{"head_dim": 4, "tie_word_embeddings": true, "attention_bias": false, "sliding_window": nil}),
			join(decoderShapes, []string{"model.layers.#.self_attn.q_norm.weight:BF16:4", "model.layers.#.self_attn.k_norm.weight:BF16:4"})...),
		"Mistral 7B": tree(small("MistralForCausalLM", "mistral", map[string]any{"sliding_window": 4096}), join(decoderShapes, []string{ownHead})...),
		"Gemma 2": tree(small("Gemma2ForCausalLM", "gemma2", map[string]any{"head_dim": 4, "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 256,
			"sliding_window": 4096, "attn_logit_softcapping": json.RawMessage("50.0"), "final_logit_softcapping": json.RawMessage("30.0"), "tie_word_embeddings": true}),
			join(decoderShapes, []string{"model.layers.#.pre_feedforward_layernorm.weight:BF16:16", "model.layers.#.post_feedforward_layernorm.weight:BF16:16"})...),
		"Mixtral":                           tree(small("MixtralForCausalLM", "mixtral", map[string]any{"num_local_experts": 2, "num_experts_per_tok": 2, "sliding_window": nil}), join(decoderShapes[:8], experts, []string{ownHead})...),
		"FP8 of compressed-tensors, static": tree(small("LlamaForCausalLM", "llama", map[string]any{"quantization_config": static}), eightBits()...),
		"FP8 of AutoFP8": tree(small("LlamaForCausalLM", "llama", map[string]any{"quantization_config": map[string]any{"quant_method": "fp8", "activation_scheme": "static", "ignored_layers": []string{"lm_head"}}}),
			eightBits()...),
		"BGE": newRepository(bert).shard("model.safetensors", 2, encoder...).without("chat_template.jinja", "generation_config.json").
			with("modules.json", `[{"idx":0,"name":"0","path":"","type":"sentence_transformers.models.Transformer"},{"idx":1,"name":"1","path":"1_Pooling","type":"sentence_transformers.models.Pooling"},{"idx":2,"name":"2","path":"2_Normalize","type":"sentence_transformers.models.Normalize"}]`).
			with("1_Pooling/config.json", `{"word_embedding_dimension":16,"pooling_mode_cls_token":true,"pooling_mode_mean_tokens":false,"pooling_mode_max_tokens":false}`).
			with("sentence_bert_config.json", `{"max_seq_length":512,"do_lower_case":true}`).with("config_sentence_transformers.json", `{"__version__":{"sentence_transformers":"2.2.2"}}`),
		"Whisper": newRepository(map[string]any{"architectures": []string{"WhisperForConditionalGeneration"}, "model_type": "whisper", "encoder_layers": 2, "decoder_layers": 2, "num_hidden_layers": 2,
			"d_model": 16, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "vocab_size": 7, "num_mel_bins": 128, "max_source_positions": 1500,
			"max_target_positions": 448, "is_encoder_decoder": true, "activation_function": "gelu", "eos_token_id": 5, "torch_dtype": "float16"}).without("chat_template.jinja").
			with("preprocessor_config.json", `{"feature_extractor_type":"WhisperFeatureExtractor","feature_size":128}`).
			shard("model.safetensors", 2, "model.encoder.layers.#.fc1.weight:F16:32x16", "model.decoder.layers.#.fc1.weight:F16:32x16", "model.decoder.embed_tokens.weight:F16:7x16"),
		"Qwen2-VL": tree(small("Qwen2VLForConditionalGeneration", "qwen2_vl", map[string]any{"rope_scaling": map[string]any{"type": "mrope", "mrope_section": []int{1, 1, 0}}, "vision_start_token_id": 3, "image_token_id": 4,
			"vision_config": map[string]any{"depth": 2, "embed_dim": 16, "mlp_ratio": 4, "num_heads": 4, "in_chans": 3, "hidden_size": 16, "patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2}}),
			join(decoderShapes, []string{ownHead, "visual.blocks.#.attn.qkv.weight:BF16:48x16", "visual.merger.mlp.0.weight:BF16:16x64"})...).
			with("preprocessor_config.json", `{"image_processor_type":"Qwen2VLImageProcessor"}`).with("chat_template.json", `{"chat_template":"{% for m in messages %}{{ m.content }}<|eot|>{% endfor %}"}`),
	} {
		t.Run(name, func(t *testing.T) {
			if bad := failing(r.check(t, nil)); len(bad) > 0 {
				t.Errorf("false alarm:%s", show(bad))
			}
		})
	}
}
