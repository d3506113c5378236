package standin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"drkit/internal/errext"
)

// config is what config.json says of a Llama, with transformers' defaults.
type config struct {
	Architectures []string        `json:"architectures"`
	ModelType     string          `json:"model_type"`
	Hidden        int             `json:"hidden_size"`
	Intermediate  int             `json:"intermediate_size"`
	Layers        int             `json:"num_hidden_layers"`
	Heads         int             `json:"num_attention_heads"`
	KVHeads       int             `json:"num_key_value_heads"`
	HeadDim       int             `json:"head_dim"`
	Vocab         int             `json:"vocab_size"`
	MaxPosition   int             `json:"max_position_embeddings"`
	Eps           float64         `json:"rms_norm_eps"`
	Act           string          `json:"hidden_act"`
	Tied          bool            `json:"tie_word_embeddings"`
	AttentionBias bool            `json:"attention_bias"`
	MLPBias       bool            `json:"mlp_bias"`
	EOS           idList          `json:"eos_token_id"`
	Quantization  json.RawMessage `json:"quantization_config"`
	RopeTheta     float64         `json:"rope_theta"`
	RopeScaling   *ropeConfig     `json:"rope_scaling"`    // the older field
	RopeParams    *ropeConfig     `json:"rope_parameters"` // transformers 5
}

// ropeConfig are the rotary embedding's parameters.
type ropeConfig struct {
	Type        string  `json:"rope_type"`
	Legacy      string  `json:"type"`
	Theta       float64 `json:"rope_theta"`
	Factor      float64 `json:"factor"`
	LowFreq     float64 `json:"low_freq_factor"`
	HighFreq    float64 `json:"high_freq_factor"`
	OriginalMax int     `json:"original_max_position_embeddings"`
	Partial     float64 `json:"partial_rotary_factor"`
}

// idList is one token id, a list of them, or null.
type idList []int

func (l *idList) UnmarshalJSON(b []byte) error {
	var one int
	*l = nil
	if string(b) == "null" {
		return nil
	}
	if json.Unmarshal(b, &one) == nil {
		*l = idList{one}
		return nil
	}
	return json.Unmarshal(b, (*[]int)(l))
}

func readConfig(dir string) (*config, error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, vllmSays("Repo id must be in the form 'repo_name' or 'namespace/repo_name': '%s': there is no such directory", dir)
	}
	path := filepath.Join(dir, "config.json")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errext.WithHint(vllmSays("Invalid repository ID or local directory specified: '%s': config.json is missing", dir),
			"restore config.json from the release")
	}
	if err != nil {
		return nil, err
	}
	c := &config{}
	if err := json.Unmarshal(text, c); err != nil {
		return nil, vllmSays("It looks like the config file at '%s' is not a valid JSON file: %w", path, err)
	}
	if c.ModelType == "" {
		return nil, vllmSays("Unrecognized model in %s. Should have a `model_type` key in its config.json", dir)
	}
	if err := c.checkKind(); err != nil {
		return nil, err
	}
	c.setDefaults()
	return c, c.checkSizes()
}

// checkKind refuses what this package does not compute.
func (c *config) checkKind() error {
	switch q := string(c.Quantization); {
	case c.ModelType != "llama":
		return unsupported("model type `%s`, only `llama`", c.ModelType)
	case len(c.Architectures) > 0 && !slices.Equal(c.Architectures, []string{"LlamaForCausalLM"}):
		return unsupported("the architectures %q, only LlamaForCausalLM", c.Architectures)
	case c.Act != "" && c.Act != "silu":
		return unsupported("hidden_act %q", c.Act)
	case c.AttentionBias || c.MLPBias:
		return unsupported("attention_bias and mlp_bias")
	case q != "" && q != "null" && q != "{}":
		return unsupported("quantised weights (quantization_config)")
	}
	return nil
}

func (c *config) setDefaults() {
	if c.KVHeads == 0 {
		c.KVHeads = c.Heads
	}
	if c.HeadDim == 0 && c.Heads > 0 {
		c.HeadDim = c.Hidden / c.Heads
	}
	if c.MaxPosition == 0 {
		c.MaxPosition = 2048
	}
	if c.Eps == 0 {
		c.Eps = 1e-6
	}
}

const (
	maxContext = 1 << 30 // tokens
	maxSize    = 1 << 20 // bound of any one size, so that products cannot overflow
	maxLayers  = 1024
)

func (c *config) checkSizes() error {
	for _, s := range []struct {
		name string
		n    int
	}{
		{"hidden_size", c.Hidden}, {"intermediate_size", c.Intermediate}, {"num_hidden_layers", c.Layers}, {"num_attention_heads", c.Heads},
		{"num_key_value_heads", c.KVHeads}, {"head_dim", c.HeadDim}, {"vocab_size", c.Vocab}, {"max_position_embeddings", c.MaxPosition},
	} {
		if s.n < 1 || s.n > maxSize && s.name != "max_position_embeddings" {
			return fmt.Errorf("config.json: %s is %d", s.name, s.n)
		}
	}
	switch {
	case c.Layers > maxLayers || c.Heads*c.HeadDim > maxSize:
		return fmt.Errorf("config.json: %d layers with %d heads of %d are out of range", c.Layers, c.Heads, c.HeadDim)
	case c.parameters() > maxParameters:
		return unsupported("a model of %d parameters, at most %d", c.parameters(), maxParameters)
	case c.Heads%c.KVHeads != 0:
		return fmt.Errorf("config.json: %d attention heads are not a multiple of %d key-value heads", c.Heads, c.KVHeads)
	case c.HeadDim%2 != 0:
		return fmt.Errorf("config.json: head_dim %d is odd, rotary embedding needs pairs", c.HeadDim)
	case c.Eps < 0:
		return fmt.Errorf("config.json: rms_norm_eps is %v", c.Eps)
	}
	_, err := newRope(c)
	return err
}

// maxParameters bounds the memory that a configuration can ask for.
const maxParameters = 256 << 20

func (c *config) parameters() int {
	n := 2 * c.Vocab * c.Hidden
	for m := range modules {
		rows, cols := c.moduleShape(m)
		n += c.Layers * rows * cols
	}
	return n
}

// maxModelLen is the length asked for, checked against what the configuration
// derives; 0 asks for the derived one. vLLM multiplies by the factor of linear
// scaling and not of llama3.
func (c *config) maxModelLen(asked int) (int, error) {
	derived := float64(c.MaxPosition)
	if r := c.rope(); r.kind() == "linear" {
		derived *= r.Factor
	}
	if derived < 1 || derived > maxContext {
		return 0, fmt.Errorf("config.json: it derives a length of %g tokens", derived)
	}
	if asked < 0 {
		return 0, fmt.Errorf("max_model_len is %d", asked)
	}
	if float64(asked) > derived {
		return 0, errext.WithHint(vllmSays("User-specified max_model_len (%d) is greater than the derived max_model_len (max_position_embeddings=%.1f or model_max_length=None in model's config.json)", asked, derived),
			"ask for less, or compare rope_parameters in config.json with the source's: a lost scaling block shortens the model")
	}
	if asked == 0 {
		return int(derived), nil
	}
	return asked, nil
}

// generationConfig is the part of generation_config.json that engines use.
type generationConfig struct {
	EOS          idList   `json:"eos_token_id"`
	MaxNewTokens *int     `json:"max_new_tokens"`
	Temperature  *float64 `json:"temperature"`
	TopP         *float64 `json:"top_p"`
	TopK         *int     `json:"top_k"`
	Repetition   *float64 `json:"repetition_penalty"`
	MinP         *float64 `json:"min_p"`
}

// readGeneration falls back to config.json when there is no
// generation_config.json: end tokens that stood only there are lost in
// silence, in vLLM too.
func readGeneration(dir string, c *config) (generationConfig, error) {
	path := filepath.Join(dir, "generation_config.json")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return generationConfig{EOS: c.EOS}, nil
	}
	if err != nil {
		return generationConfig{}, err
	}
	var g generationConfig
	if err := json.Unmarshal(text, &g); err != nil {
		return g, vllmSays("It looks like the config file at '%s' is not a valid JSON file: %w", path, err)
	}
	return g, nil
}
