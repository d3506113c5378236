// Package standin is the stand-in engine: a small inference server that loads
// a tiny Llama-type repository for real and speaks the part of vLLM's HTTP API
// that a recovery drill uses. It is for demos and tests on machines without
// vLLM and says "stand-in engine" wherever it shows; it is no engine for
// production.
//
// What it does is the real thing in small: weights from safetensors (F32, F16,
// BF16), byte-level BPE, the repository's chat template, PEFT LoRA adapters,
// RoPE, grouped-query attention with a KV cache, a prefix cache of 32-token
// blocks, greedy decoding with log probabilities. On the model in
// testdata/models/support-tiny it gives the token ids that vLLM 0.32.0 gave.
// Temperatures above 0 sample from the whole distribution with the request's
// seed; the numbers drawn are not vLLM's, so only greedy answers compare.
//
// It refuses to load where vLLM 0.32.0 was measured to refuse, and, like vLLM,
// it boots without a lost matrix: only norm weights are tracked. What stands in
// place of a lost matrix is NaN, which is what vLLM's uninitialised memory
// mostly came to: requests for log probabilities fail with HTTP 400, others
// answer 200 and nonsense. Repositories that vLLM would load and this package
// cannot are refused by an *UnsupportedError.
//
// Begin with Run, which serves until its context ends, or with Load and
// Handler inside a test. The package must not import the manifest or its
// rules: else the completeness gate would judge itself.
package standin

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"drkit/internal/chattemplate"
	"drkit/internal/tokenizer"
)

// Version is what /version answers.
const Version = "stand-in engine (the API of vLLM 0.32.0)"

// MaxLoRARank is vLLM's default of --max-lora-rank.
const MaxLoRARank = 16

// Adapter is a LoRA adapter to serve under a name of its own.
type Adapter struct{ Name, Dir string }

// LoadOptions say how a repository is served.
type LoadOptions struct {
	ServedModelNames []string  // none: the model directory as given
	Adapters         []Adapter // in the order in which /v1/models lists them
	MaxModelLen      int       // tokens of prompt and answer; 0: what config.json derives
	Log              io.Writer // boot lines in vLLM's spelling; nil: none
}

// UnsupportedError says that a repository needs something that the stand-in
// engine lacks. It says nothing about vLLM, which may load it.
type UnsupportedError struct{ What string }

func (e *UnsupportedError) Error() string {
	return "the stand-in engine does not support " + e.What + " (vLLM may)"
}

func unsupported(format string, args ...any) error {
	return &UnsupportedError{What: fmt.Sprintf(format, args...)}
}

// vllmSays makes an error in the words that vLLM or its libraries were seen to
// use, capital letter and all: an operator greps for them.
func vllmSays(format string, args ...any) error { return fmt.Errorf(format, args...) }

// Engine is a loaded repository. It is safe for concurrent use.
type Engine struct {
	dir         string
	names       []string
	model       *model
	adapters    []*adapter
	tok         *tokenizer.Tokenizer
	template    *chattemplate.Template // nil: chats are refused, as in vLLM
	templateErr error                  // why the template that is there cannot be parsed
	tokens      chattemplate.TokenizerConfig
	generation  generationConfig
	eos         []int // ids that end an answer
	maxModelLen int
	created     int64
	fingerprint string

	cache   *blockCache
	metrics metrics
	running chan struct{} // one slot a running request
	dead    atomic.Bool   // a request killed the engine: /health is 503
}

// maxRunning is how many requests compute at once; more wait, as in vLLM.
const maxRunning = 8

// Load reads the repository in dir. An error says what vLLM says at this
// point, where that was measured.
func Load(dir string, opts LoadOptions) (*Engine, error) {
	log := bootLog{opts.Log}
	e := &Engine{dir: dir, names: opts.ServedModelNames, created: time.Now().Unix(), running: make(chan struct{}, maxRunning)}
	if len(e.names) == 0 {
		e.names = []string{dir}
	}
	cfg, err := readConfig(dir)
	if err != nil {
		return nil, err
	}
	if e.maxModelLen, err = cfg.maxModelLen(opts.MaxModelLen); err != nil {
		return nil, err
	}
	if err := e.readText(cfg); err != nil {
		return nil, err
	}
	log.printf("vLLM server version 0.32.0-stand-in, serving model %s", dir)
	log.printf("Initializing a V1 LLM engine (v0.32.0-stand-in) with config: model='%s', dtype=float32, max_seq_len=%d, quantization=None", dir, e.maxModelLen)
	start := time.Now()
	if e.model, err = loadModel(dir, cfg, log); err != nil {
		return nil, err
	}
	if err := e.loadAdapters(opts.Adapters); err != nil {
		return nil, err
	}
	e.cache = newBlockCache()
	e.metrics.init()
	if e.fingerprint, err = e.makeFingerprint(); err != nil {
		return nil, err
	}
	log.printf("GPU KV cache size: %d tokens, Maximum concurrency for %d tokens per request: %.2fx", maxBlocks*blockSize, e.maxModelLen, float64(maxBlocks*blockSize)/float64(e.maxModelLen))
	log.printf("init engine (profile, create kv cache, warmup model) took %.2f s", time.Since(start).Seconds())
	return e, nil
}

func (e *Engine) loadAdapters(list []Adapter) error {
	seen := map[string]bool{}
	for _, n := range e.names {
		seen[n] = true
	}
	for _, a := range list {
		if a.Name == "" || seen[a.Name] {
			return fmt.Errorf("the adapter name %q is empty or taken", a.Name)
		}
		seen[a.Name] = true
		ad, err := loadAdapter(a, e.model.cfg)
		if err != nil {
			return err
		}
		e.adapters = append(e.adapters, ad)
	}
	return nil
}

// makeFingerprint condenses what an answer's system_fingerprint stands for:
// configuration and serving limits, not the place of the files, so that two
// copies of a release served alike give the same.
func (e *Engine) makeFingerprint() (string, error) {
	text, err := json.Marshal(e.model.cfg)
	if err != nil {
		return "", fmt.Errorf("encoding the configuration: %w", err)
	}
	h := sha256.New()
	fmt.Fprintf(h, "%q %d %d %s", e.names, len(e.adapters), e.maxModelLen, text)
	return "stand-in-engine-" + hex.EncodeToString(h.Sum(nil))[:8], nil
}

// find gives the adapter served under name, nil for the base model.
func (e *Engine) find(name string) (*adapter, bool) {
	if name == "" {
		return nil, true
	}
	for _, n := range e.names {
		if n == name {
			return nil, true
		}
	}
	for _, a := range e.adapters {
		if a.name == name {
			return a, true
		}
	}
	return nil, false
}

// bootLog writes lines that begin as this engine's, whatever they say.
type bootLog struct{ w io.Writer }

func (l bootLog) printf(format string, args ...any) {
	if l.w != nil {
		fmt.Fprintf(l.w, "(stand-in engine) INFO "+time.Now().Format("01-02 15:04:05")+" "+format+"\n", args...)
	}
}

var errDead = vllmSays("%s", "EngineCore encountered an issue. See stack trace (above) for the root cause.")
