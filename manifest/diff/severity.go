package diff

import (
	"path"
	"slices"
	"strings"

	"drkit/manifest"
)

// effects is what a file of a role is known to do when it is added, removed or
// changed.
var effects = map[manifest.Role]map[string]manifest.Severity{
	manifest.Weights:       {Added: manifest.Silent, Removed: manifest.Block, Changed: manifest.Silent},
	manifest.Index:         {Added: manifest.Block, Removed: manifest.Block, Changed: manifest.Block},
	manifest.Tokenizer:     {Added: manifest.Silent, Removed: manifest.Block, Changed: manifest.Silent},
	manifest.ChatTemplate:  {Added: manifest.Silent, Removed: manifest.Request, Changed: manifest.Silent},
	manifest.Config:        {Added: manifest.Silent, Removed: manifest.Block, Changed: manifest.Silent},
	manifest.Quantization:  {Added: manifest.Silent, Removed: manifest.Block, Changed: manifest.Block},
	manifest.Generation:    {Added: manifest.Silent, Removed: manifest.Silent, Changed: manifest.Silent},
	manifest.Processor:     {Added: manifest.Silent, Removed: manifest.Block, Changed: manifest.Silent},
	manifest.Code:          {Added: manifest.Silent, Removed: manifest.Block, Changed: manifest.Silent},
	manifest.AdapterFile:   {Added: manifest.Silent, Removed: manifest.Request, Changed: manifest.Silent},
	manifest.Draft:         {Added: manifest.Degraded, Removed: manifest.Block, Changed: manifest.Degraded},
	manifest.EngineConfig:  {Added: manifest.Silent, Removed: manifest.Block, Changed: manifest.Silent},
	manifest.EngineOptions: {Added: manifest.Silent, Removed: manifest.Silent, Changed: manifest.Silent},
	manifest.Probes:        {Added: manifest.Info, Removed: manifest.Info, Changed: manifest.Info},
	manifest.Kubernetes:    {Added: manifest.Block, Removed: manifest.Block, Changed: manifest.Block},
	manifest.Dockerfile:    {Added: manifest.Silent, Removed: manifest.Silent, Changed: manifest.Silent},
	manifest.Lockfile:      {Added: manifest.Silent, Removed: manifest.Silent, Changed: manifest.Silent},
	manifest.Other:         {Added: manifest.Silent, Removed: manifest.Silent, Changed: manifest.Silent},
}

// severityOf is what a change of a file can do. A text for people does nothing.
func severityOf(f *manifest.File, change string) manifest.Severity {
	if forPeople(f) {
		return manifest.Info
	}
	if f.Role == manifest.Draft && change == Changed && path.Ext(f.Path) != ".safetensors" {
		return manifest.Block // a draft that does not fit; other weights of one that does are only slower
	}
	if s, ok := effects[f.Role][change]; ok {
		return s
	}
	return manifest.Silent
}

// forPeople reports whether a file is read by people or by version control only.
// Nothing else that has no role is: an engine reads the strangest files.
func forPeople(f *manifest.File) bool {
	if f.Role != manifest.Other && f.Role != manifest.AdapterFile && f.Role != manifest.Draft {
		return false
	}
	name := strings.ToLower(path.Base(f.Path))
	for _, begin := range []string{"readme", "license", "licence", "notice", "copying", "changelog", "use_policy", "model_card"} {
		if strings.HasPrefix(name, begin) {
			return true
		}
	}
	return name == ".gitattributes" || name == ".gitignore" || slices.Contains([]string{".md", ".rst", ".png", ".jpg", ".jpeg", ".gif", ".svg", ".pdf", ".webp"}, path.Ext(name))
}

// noEffect lists fields that say who wrote a file and how a model was trained.
var noEffect = map[string][]string{
	"config.json": {"transformers_version", "_name_or_path", "_commit_hash", "initializer_range", "use_cache", "attention_dropout", "hidden_dropout",
		"resid_pdrop", "embd_pdrop", "torchscript", "gradient_checkpointing", "unsloth_version"},
	"generation_config.json": {"transformers_version", "_from_model_config"},
	"adapter_config.json":    {"base_model_name_or_path", "inference_mode", "lora_dropout", "revision", "task_type", "peft_version", "auto_mapping"},
	"tokenizer_config.json":  {"name_or_path"},
}

// shapes are the fields of config.json that the engine builds the model from.
var shapes = []string{"architectures", "model_type", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
	"num_key_value_heads", "head_dim", "vocab_size", "quantization_config", "compression_config", "auto_map", "tie_word_embeddings"}

// lengths are the fields that bound prompts.
var lengths = []string{"max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length", "max_sequence_length", "max_seq_length"}

// fieldSeverity is what another value of a field can do. What is not known may
// change answers.
func fieldSeverity(f *manifest.File, at []string) manifest.Severity {
	if len(at) == 0 {
		return severityOf(f, Changed)
	}
	switch name, last := path.Base(f.Path), at[len(at)-1]; {
	case forPeople(f) || f.Role == manifest.Probes:
		return manifest.Info
	case f.Part == manifest.Engine:
		return optionSeverity(strings.ReplaceAll(at[0], "-", "_"))
	case f.Part == manifest.Deploy:
		return deploySeverity(at)
	case slices.Contains(noEffect[name], last):
		return manifest.Info
	case name == "config.json" && slices.ContainsFunc(at, func(s string) bool { return slices.Contains(shapes, s) }):
		return manifest.Block
	case name == "config.json" && slices.Contains(lengths, last):
		return manifest.Request
	}
	return severityOf(f, Changed)
}

// deploySeverity is what another value in a deploy file can do.
func deploySeverity(at []string) manifest.Severity {
	last := at[len(at)-1]
	switch {
	case slices.Contains(at, "annotations"), strings.HasSuffix(strings.ToLower(last), "replicas"), last == "replicaCount":
		return manifest.Degraded
	case slices.Contains(at, "labels"):
		return manifest.Request // what routes to it may choose by them
	}
	return manifest.Block
}

// Options of engines by what they do; what is in none of the lists may change
// answers.
var (
	optionInfo = []string{"port", "host", "uds", "uvicorn_log_level", "disable_uvicorn_access_log", "disable_log_requests", "enable_log_requests", "disable_log_stats",
		"max_log_len", "root_path", "otlp_traces_endpoint", "collect_detailed_traces", "log_level", "log_level_http", "log_requests", "enable_metrics", "show_time_cost",
		"config", "headless", "enable_log_outputs"}
	optionDegraded = []string{"max_num_seqs", "enable_prefix_caching", "enable_chunked_prefill", "swap_space", "cpu_offload_gb",
		"api_server_count", "scheduling_policy", "async_scheduling", "max_running_requests", "chunked_prefill_size", "schedule_policy", "disable_radix_cache",
		"schedule_conservativeness", "stream_interval"}
	optionRequest = []string{"max_model_len", "context_length", "served_model_name", "api_key", "chat_template", "lora_modules", "lora_paths", "enable_lora", "max_loras",
		"max_lora_rank", "tool_call_parser", "enable_auto_tool_choice", "reasoning_parser", "limit_mm_per_prompt", "max_logprobs", "response_role", "ssl_keyfile", "ssl_certfile"}
	optionBlock = []string{"gpu_memory_utilization", "mem_fraction_static", "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "tp_size", "dp_size",
		"model", "model_tag", "model_path", "tokenizer", "load_format", "quantization", "trust_remote_code", "revision", "kv_cache_memory_bytes",
		"distributed_executor_backend", "tokenizer_mode", "config_format",
		"speculative_config", "max_num_batched_tokens"}
)

func optionSeverity(dest string) manifest.Severity {
	switch {
	case slices.Contains(optionInfo, dest):
		return manifest.Info
	case slices.Contains(optionDegraded, dest):
		return manifest.Degraded
	case slices.Contains(optionRequest, dest):
		return manifest.Request
	case slices.Contains(optionBlock, dest):
		return manifest.Block
	}
	return manifest.Silent
}
