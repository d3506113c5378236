package engine

import "fmt"

// Recovery is the part of the options that decides what another region must
// hold and how the engine must be started there. Unset options have the
// engine's defaults.
type Recovery struct {
	Model              string            // path, id or URL
	Tokenizer          string            // "" means: the model's own
	ServedNames        []string          // the names that clients use; the model when none is given
	MaxModelLen        int64             // tokens; 0 means: derived from the model, -1: as much as fits
	EnableLoRA         bool              //
	MaxLoRARank        int64             //
	LoRAModules        map[string]string // adapter name → path
	ChatTemplate       string            // file or template text; "" means: the tokenizer's
	Quantization       string            // "" means: as the model says
	LoadFormat         string            //
	TrustRemoteCode    bool              //
	GenerationConfig   string            // auto, vllm or a directory
	DType              string            //
	KVCacheDType       string            //
	BlockSize          int64             // tokens a cache block; 0 means: the engine decides
	MaxNumSeqs         int64             // 0 means: the engine decides
	TensorParallelSize int64             //
	DraftModel         string            // of speculative decoding
	Revision           string            //
	HFOverrides        bool              // whether hf-overrides changes the model's config
}

// Recovery picks those options out of a result.
func (r Result) Recovery() Recovery {
	rec := Recovery{
		Model:              r.Model,
		Tokenizer:          r.text("tokenizer"),
		MaxModelLen:        r.whole("max_model_len"),
		EnableLoRA:         r.flag("enable_lora"),
		MaxLoRARank:        r.whole("max_lora_rank"),
		LoRAModules:        r.adapters(),
		ChatTemplate:       r.text("chat_template"),
		Quantization:       r.text("quantization"),
		LoadFormat:         r.text("load_format"),
		TrustRemoteCode:    r.flag("trust_remote_code"),
		GenerationConfig:   r.text("generation_config"),
		DType:              r.text("dtype"),
		KVCacheDType:       r.text("kv_cache_dtype"),
		BlockSize:          r.whole("block_size"),
		MaxNumSeqs:         r.whole("max_num_seqs"),
		TensorParallelSize: r.whole("tensor_parallel_size"),
		DraftModel:         r.draft(),
		Revision:           r.text("revision"),
		HFOverrides:        r.Options["hf_overrides"] != nil,
	}
	rec.ServedNames = servedNames(r)
	if len(rec.ServedNames) == 0 && r.Model != "" {
		rec.ServedNames = []string{r.Model}
	}
	return rec
}

// option is the effective value, or the default where none was given.
func (r Result) option(dest string) any {
	if v, ok := r.Options[dest]; ok {
		return v
	}
	if o := r.known().byDest[dest]; o != nil {
		return plain(o.Default)
	}
	return nil
}

// known is the catalogue that the result rests on.
func (r Result) known() *table {
	if r.table == nil {
		return catalogueOf(VLLM, Version)
	}
	return r.table
}

func (r Result) text(dest string) string {
	s, _ := r.option(dest).(string)
	return s
}

func (r Result) whole(dest string) int64 {
	n, _ := r.option(dest).(int64)
	return n
}

func (r Result) flag(dest string) bool {
	b, _ := r.option(dest).(bool)
	return b
}

func (r Result) list(dest string) []any {
	l, _ := r.option(dest).([]any)
	return l
}

func (r Result) adapters() map[string]string {
	var out map[string]string
	for _, m := range r.list("lora_modules") {
		module, ok := m.(map[string]any)
		if !ok {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[fmt.Sprint(module["name"])] = fmt.Sprint(module["path"])
	}
	return out
}

// draft is the model that speculative decoding loads beside the served one.
func (r Result) draft() string {
	if config, ok := r.option("speculative_config").(map[string]any); ok {
		if s, ok := config["model"].(string); ok {
			return s
		}
	}
	return r.text("spec_model")
}

// Facts is what a configuration file says on its own.
type Facts struct {
	Path      string
	Args      []string       // the arguments that the engine makes of it; secrets are masked
	Options   map[string]any // effective options by destination, those that differ from their defaults
	Recovery  Recovery       // Model is "" when the file names none
	WouldExit *int           // as in Result
	Error     string
}

// ReadFile reads an engine configuration file as `vllm serve MODEL --config`
// would. Malformed content is a problem; there is no error.
func ReadFile(path string, data []byte) (Facts, []Problem) {
	const model = "MODEL" // stands for the one that the command line names
	name := "config.yaml"
	argv := []string{"serve", "--config", name}
	if !namesModel(data) {
		argv = []string{"serve", model, "--config", name}
	}
	r := Parse(Command{Argv: argv, Files: map[string][]byte{name: data}})
	facts := Facts{Path: path, Options: r.Options, Recovery: r.Recovery(), WouldExit: r.WouldExit, Error: r.Error}
	delete(facts.Options, "model_tag")
	if facts.Recovery.Model == model {
		facts.Recovery.Model, facts.Recovery.ServedNames = "", servedNames(r)
	}
	if tokens, _, f := catalogueOf(VLLM, Version).flatten(data, path, nil); f == nil {
		facts.Args = maskTokens(tokens)
	}
	for i, p := range r.Problems {
		if p.Path == name {
			r.Problems[i].Path = path
		}
	}
	if suffix, bad := badSuffix(path); bad {
		f := (&parse{t: catalogueOf(VLLM, Version)}).suffixFailure(path, suffix)
		f.path = path
		facts.WouldExit, facts.Error = &f.exit, f.text
		r.Problems = append(r.Problems, f.problem())
	}
	return facts, r.Problems
}

// namesModel reports whether the file has a model: key.
func namesModel(data []byte) bool {
	tokens, _, _ := catalogueOf(VLLM, Version).flatten(data, "", nil)
	for _, t := range tokens {
		if t.text == "--model" {
			return true
		}
	}
	return false
}

func servedNames(r Result) []string {
	var out []string
	for _, name := range r.list("served_model_name") {
		if s, ok := name.(string); ok {
			out = append(out, s)
		}
	}
	return out
}
