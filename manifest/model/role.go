package model

import (
	"path"
	"strings"
)

// roles by exact name; Role falls back to patterns.
var roles = map[string]string{
	"config.json": "config", "params.json": "config", "modules.json": "config", "sparse_attention_config.json": "config",
	"config_sentence_transformers.json": "config", "sentence_bert_config.json": "config",
	"generation_config.json": "generation",
	"tokenizer.json":         "tokenizer", "tokenizer.model": "tokenizer", "tokenizer_config.json": "tokenizer", "spiece.model": "tokenizer",
	"sentencepiece.bpe.model": "tokenizer", "spm.model": "tokenizer", "source.spm": "tokenizer", "target.spm": "tokenizer",
	"vocab.json": "tokenizer", "bpe.codes": "tokenizer", "vocab.txt": "tokenizer", "merges.txt": "tokenizer", "added_tokens.json": "tokenizer",
	"special_tokens_map.json": "tokenizer", "tekken.json": "tokenizer", "tiktoken.model": "tokenizer",
	"chat_template.jinja": "chat-template", "chat_template.json": "chat-template",
	"preprocessor_config.json": "processor", "processor_config.json": "processor", "video_preprocessor_config.json": "processor",
	"quantize_config.json": "quantization", "quant_config.json": "quantization", "quantization_config.json": "quantization",
	"hf_quant_config.json": "quantization",
}

// notWeights are files in a weight format that engines skip: left-overs of training.
var notWeights = map[string]bool{
	"training_args.bin": true, "optimizer.bin": true, "optimizer.pt": true, "scheduler.pt": true, "scaler.pt": true,
}

// Role says what a file of a repository is, by its path; the words are those of
// the manifest's roles.
func Role(file string) string {
	name := path.Base(file)
	if r, ok := roles[name]; ok {
		return r
	}
	switch ext := path.Ext(name); {
	case strings.HasSuffix(name, ".index.json"):
		return "index"
	case notWeights[name]:
		return "other"
	case ext == ".safetensors" || ext == ".bin" || ext == ".pt" || ext == ".pth" || ext == ".gguf" || ext == ".tensors":
		return "weights"
	case namedTokenizer(name) || ext == ".tiktoken" || strings.HasPrefix(name, "tokenizer.model."):
		return "tokenizer"
	case ext == ".jinja":
		return "chat-template"
	case ext == ".py":
		return "code"
	case name == "config.json" || strings.HasPrefix(name, "sentence_") && strings.HasSuffix(name, "_config.json"):
		return "config"
	}
	return "other"
}
