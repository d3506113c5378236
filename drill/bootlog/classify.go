package bootlog

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Failure is why a boot failed, as the log shows it.
type Failure struct {
	Class string // one word, stable
	Line  string // the line that shows it, without prefixes
	Hint  string // what to look at or do next
}

// ProbeBudget is the class of an engine that was ended from outside while it
// started. Whether a time limit did it, the caller knows: the log does not say.
const ProbeBudget = "ProbeBudget"

// OfflineAsset is the class of an engine that wants something from a model hub.
const OfflineAsset = "OfflineAsset"

// A class is a kind of failure and the lines that show it.
type class struct {
	name string
	line *regexp.Regexp
	hint string
}

// classes are in order of what explains most: a line of an earlier class is the
// cause when lines of several are there. Most commands never need them: compiled,
// they take half a megabyte.
var classes = sync.OnceValue(func() []class {
	return []class{
		{"PortInUse", regexp.MustCompile(`(?i)address already in use`), "another program listens on that port: choose another one or stop it"},
		{"ServiceLinks", regexp.MustCompile(`VLLM_PORT '.*' appears to be a URI`), "a Kubernetes Service called vllm sets VLLM_PORT: set enableServiceLinks: false or rename the Service"},
		{"UnknownUID", regexp.MustCompile(`getpwuid\(\): uid not found`), "set USER in the container's environment, or run as a user that exists in the image"},
		{"DriverMismatch", regexp.MustCompile(`Error 803`), "the GPU driver does not fit the image's CUDA: update the driver or take another image"},
		{"NoKVMemory", regexp.MustCompile(`No available memory for the cache blocks`), "raise gpu-memory-utilization (on a CPU VLLM_CPU_KVCACHE_SPACE) or take a larger device"},
		{"KVTooSmall", regexp.MustCompile(`To serve at least one request with the model's max seq len`), "lower max-model-len or give the KV cache more memory"},
		{"GPUBusy", regexp.MustCompile(`Free memory on device .* is less than desired GPU memory utilization`), "another process holds the device's memory"},
		{"OutOfMemory", regexp.MustCompile(`CUDA out of memory|torch\.OutOfMemoryError`), "the model does not fit: raise tensor-parallel-size or take a larger device"},
		{"QuantUnsupported", regexp.MustCompile(`The quantization method \w+ is not supported for the current GPU|Failed to find a kernel that can implement|Marlin does not support`), "this device cannot run the checkpoint's quantization: compare config.json's quantization_config with the device"},
		{"QuantConfig", regexp.MustCompile(`Unknown quantization method: |does not match the quantization method specified|There is no module or parameter named '[^']*\.(?:weight_scale|g_idx|qweight|qzeros|scales|weight_packed)'`), "the quantization configuration is not the checkpoint's: was quantization_config in config.json, or a file beside it, left behind?"},
		{"TokenizerMissing", regexp.MustCompile(`Couldn't instantiate the backend tokenizer|must be both be from memory or both filenames|Can't load tokenizer for|Error while initializing BPE`), "the copy has no whole tokenizer: verify it and look at tokenizer.json, tokenizer_config.json, vocab and merges"},
		{"TokenizerInvalid", regexp.MustCompile(`mistral_common/tokens/tokenizers/tekken\.py", line \d+`), "the tokenizer file in Mistral's format (tekken.json) is empty or damaged: verify the copy"},
		{"AdapterMissing", regexp.MustCompile(`No adapter found for |doesn't contain tensors`), "the adapter's folder is not at that path or has no weights: adapters are replicated beside the base model"},
		{"AdapterConfig", regexp.MustCompile(`LoRA rank \d+ is greater than max_lora_rank|Missing required configuration fields: |Adapter bias is not supported|only supports modules_to_save`), "the adapter does not fit the engine's flags: see adapter_config.json and --max-lora-rank"},
		{"ShardMissing", regexp.MustCompile(`Weight files referenced in index but missing|Cannot find any model weights with|Could not find checkpoint files`), "a weight file is not in the copy: verify it, then replicate what is missing"},
		{"ShardDamaged", regexp.MustCompile(`SafetensorError: Error while deserializing header|(?:incomplete metadata, file not fully covered|header too large|invalid header length)`), "a weight file is cut short or is no safetensors file (an LFS pointer, an error page): verify the copy"},
		{"WeightsIncomplete", regexp.MustCompile(`Following weights were not initialized from checkpoint|There is no module or parameter named '|exceeds dimension size|loaded_weight\.shape\[output_dim\]`), "the weights do not fit config.json: index, shards and configuration come from different states of the model"},
		{"AdapterDamaged", regexp.MustCompile(`Call to add_lora method failed: |unsupported operand type\(s\) for \*=: 'NoneType' and 'float'`), "the adapter was found and could not be loaded: a matrix of it is missing, or its weights are cut short; verify its files"},
		{"MaxLen", regexp.MustCompile(`User-specified max_model_len \(.*\) is greater`), "lower max-model-len, or carry over the RoPE scaling that made it possible in the source region"},
		{"RopeConfig", regexp.MustCompile(`Unknown RoPE scaling type|Found conflicts between 'rope_type`), "rope_scaling in config.json is not what this engine reads"},
		{"ChatTemplate", regexp.MustCompile(`default chat template is no longer allowed|chat template string \(.*\) appears path-like|jinja2\.exceptions\.`), "the chat template is missing or broken: it belongs to the model's files"},
		{"CustomCode", regexp.MustCompile(`contains custom code which must be executed|does not appear to have a file named \S+\.py|No such file or directory: '[^']+\.py'`), "the model needs its own Python files and --trust-remote-code"},
		{"ProcessorMissing", regexp.MustCompile(`Can't load image processor for|Failed to load the processor`), "preprocessor_config.json or processor_config.json is not in the copy"},
		{"ConfigInvalid", regexp.MustCompile(`is not a valid JSON file|Unrecognized model in |but Transformers does not recognize this architecture`), "config.json is cut short, lacks model_type, or is newer than this engine"},
		{"ModelMissing", regexp.MustCompile(`Invalid repository ID or local directory specified|Repo id must be in the form`), "there is no model with a config.json at that path"},
		{OfflineAsset, regexp.MustCompile(`OfflineModeIsEnabled|LocalEntryNotFoundError|MaxRetryError.*huggingface\.co|OSError: We couldn't connect to 'https://huggingface\.co'|Cannot reach https://huggingface\.co|Failed to (?:resolve|establish a new connection).*huggingface\.co`), "the engine wants a file from the hub that the copy does not have: give a local path, and verify the copy"},
		{"ParallelSize", regexp.MustCompile(`must be divisible by tensor parallel size`), "tensor-parallel-size does not fit the model's heads"},
		{"Arguments", regexp.MustCompile(`error: unrecognized arguments|error: argument |requires --tool-call-parser|Reasoning parser '.*' not found|Unsupported speculative method|engine\.yaml'|No such file or directory: '[^']+\.ya?ml'`), "the command line or the engine's YAML does not fit this version of the engine"},
		{"Unsupported", regexp.MustCompile(`Unsupported CPU attention configuration|expected at most \d+ argument\(s\) but received`), "this build of the engine cannot run the model on this device"},
		{"JSONInvalid", regexp.MustCompile(`json\.decoder\.JSONDecodeError|JSONDecodeError: `), "a JSON file of the copy is cut short or is no JSON (an LFS pointer, an error page): verify the copy"},
		{"EngineReadyTimeout", regexp.MustCompile(`Timed out waiting for engine core processes to start`), "raise VLLM_ENGINE_READY_TIMEOUT_S (600 s unless set) above the time that the weights need"},
		{ProbeBudget, regexp.MustCompile(`KeyboardInterrupt: terminated`), "the engine was ended while it started: its startup probe or time-out is shorter than its boot"},
	}
})

// refused is a configuration that the engine's own checks refuse without a word of why.
var refused = class{"ConfigRefused", regexp.MustCompile(`^Assertion failed,`), "a check of the engine's configuration failed and gives no reason: does config.json's quantization_config fit this version and device?"}

// python is any other error that ends a traceback.
var python = class{"PythonError", regexp.MustCompile(`^(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception)\b`), "the engine's own error: the traceback above it in its log says where"}

// followers are errors that only repeat that another process failed before.
var followers = regexp.MustCompile(`Engine core initialization failed|Engine core proc .* died|WorkerProc initialization failed`)

// Classify names why a boot failed, from the lines of its log; false when no
// line says it. The class that explains most wins, and within it the first line;
// for an error without a class of its own, the last one, which is the outermost.
func Classify(lines []string) (Failure, bool) {
	for _, c := range append(slices.Clone(classes()), refused) {
		if at := slices.IndexFunc(lines, c.shows); at >= 0 {
			return c.failure(lines[at]), true
		}
	}
	for _, line := range slices.Backward(lines) {
		if python.shows(line) {
			return python.failure(line), true
		}
	}
	return Failure{}, false
}

func (c class) failure(line string) Failure {
	return Failure{Class: c.name, Line: strings.TrimSpace(Strip(line)), Hint: c.hint}
}

func (c class) shows(line string) bool {
	text := strings.TrimSpace(Strip(line))
	return c.line.MatchString(text) && !followers.MatchString(text)
}

// servedModel are the places where vLLM says, while it starts, what it is to serve.
var servedModel = regexp.MustCompile(`'model(?:_tag)?': '([^']+)'|\bmodel='([^']+)'|\bmodel\s+([\w.-]+/[\w.-]+)\s*$`)

// HubModel is the repository of a hub that the engine was told to serve, from its
// own first lines; "" where it was given a path, or no line says it.
func HubModel(lines []string) string {
	for _, line := range lines {
		for _, name := range servedModel.FindStringSubmatch(Strip(line)) {
			if org, repo, ok := strings.Cut(name, "/"); ok && org != "" && repo != "" && !strings.ContainsAny(name, "'= \t") && !strings.Contains(repo, "/") {
				return name
			}
		}
	}
	return ""
}
