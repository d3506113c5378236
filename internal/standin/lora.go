package standin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"drkit/internal/errext"
)

// adapter is a LoRA adapter: for some modules a low-rank addition B·A, scaled.
type adapter struct {
	name, dir string
	layers    [][modules]*lora
}

// lora is one module's addition.
type lora struct {
	a, b  matrix // a: rank × inputs, b: outputs × rank
	scale float32
}

// adapterConfig is PEFT's adapter_config.json.
type adapterConfig struct {
	R            *int            `json:"r"`
	Alpha        *float64        `json:"lora_alpha"`
	Targets      json.RawMessage `json:"target_modules"`
	RSLoRA       bool            `json:"use_rslora"`
	DoRA         bool            `json:"use_dora"`
	Bias         string          `json:"bias"`
	Save         []string        `json:"modules_to_save"`
	RankPattern  map[string]any  `json:"rank_pattern"`
	AlphaPattern map[string]any  `json:"alpha_pattern"`
}

const adapterWeights = "adapter_model.safetensors"

func loadAdapter(a Adapter, cfg *config) (*adapter, error) {
	ad, err := readAdapter(a, cfg)
	if err != nil {
		return nil, errext.WithHint(vllmSays("Loading lora %s failed: %w", a.Name, err),
			"restore the adapter's directory from the release")
	}
	return ad, nil
}

func readAdapter(a Adapter, cfg *config) (*adapter, error) {
	text, err := os.ReadFile(filepath.Join(a.Dir, "adapter_config.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, vllmSays("No adapter found for %s", a.Dir)
	}
	if err != nil {
		return nil, err
	}
	var c adapterConfig
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, jsonError(fmt.Errorf("adapter_config.json: %w", err))
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	path := filepath.Join(a.Dir, adapterWeights)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s doesn't contain tensors: %s is missing", a.Dir, adapterWeights)
	}
	ad := &adapter{name: a.Name, dir: a.Dir, layers: make([][modules]*lora, cfg.Layers)}
	if err := readWeights(path, func(name string, shape []int64, data []float32) error {
		return ad.place(cfg, name, shape, data)
	}); err != nil {
		return nil, err
	}
	return ad, ad.finish(c.scale())
}

// check refuses what vLLM 0.32.0 was measured to refuse.
func (c adapterConfig) check() error {
	var missing []string
	for name, ok := range map[string]bool{"r": c.R != nil, "lora_alpha": c.Alpha != nil, "target_modules": len(c.Targets) > 0} {
		if !ok {
			missing = append(missing, "'"+name+"'")
		}
	}
	slices.Sort(missing)
	switch {
	case len(missing) > 0:
		return vllmSays("Missing required configuration fields: {%s}", strings.Join(missing, ", "))
	case *c.R > MaxLoRARank:
		return fmt.Errorf("LoRA rank %d is greater than max_lora_rank %d", *c.R, MaxLoRARank)
	case *c.R < 1:
		return fmt.Errorf("adapter_config.json: r is %d", *c.R)
	case c.Bias != "" && c.Bias != "none":
		return vllmSays("Adapter bias is not supported")
	case len(c.Save) > 0:
		return vllmSays("vLLM only supports modules_to_save being either None or [\"classifier\", \"score\"] for classification models. Unsupported modules_to_save: %q", c.Save)
	case c.DoRA:
		return vllmSays("vLLM does not yet support DoRA")
	case len(c.RankPattern)+len(c.AlphaPattern) > 0:
		return unsupported("rank_pattern and alpha_pattern in an adapter")
	}
	return nil
}

// scale is alpha/r, or alpha/sqrt(r) with rank stabilisation; r is the
// configuration's, whatever rank the tensors have.
func (c adapterConfig) scale() float32 {
	r := float64(*c.R)
	if c.RSLoRA {
		r = math.Sqrt(r)
	}
	return float32(*c.Alpha / r)
}

// PEFT's prefix base_model.model. may be lost; vLLM does not mind.
var loraKey = regexp.MustCompile(`^(?:base_model\.model\.)?model\.layers\.(\d+)\.(.+)\.lora_([AB])\.weight$`)
var otherLora = regexp.MustCompile(`(?:^|\.)(?:embed_tokens|lm_head)\.|lora_embedding_|lora_magnitude_vector`)

// place puts one tensor. Names that match no module of the base are ignored:
// such an adapter is silently inert, in vLLM too.
func (ad *adapter) place(cfg *config, name string, shape []int64, data []float32) error {
	k := loraKey.FindStringSubmatch(name)
	if k == nil {
		if otherLora.MatchString(name) {
			return unsupported("the adapter tensor %s", name)
		}
		return nil
	}
	layer, err := strconv.Atoi(k[1])
	module := slices.Index(moduleNames[:], k[2])
	if err != nil || layer >= len(ad.layers) || module < 0 {
		return nil
	}
	l := ad.layers[layer][module]
	if l == nil {
		l = &lora{}
		ad.layers[layer][module] = l
	}
	if len(shape) != 2 || shape[0] < 1 || shape[1] < 1 {
		return fmt.Errorf("tensor %s has shape %v", name, shape)
	}
	m := matrix{int(shape[0]), int(shape[1]), data}
	rows, cols := cfg.moduleShape(module)
	if k[3] == "A" && m.cols != cols || k[3] == "B" && m.rows != rows {
		return fmt.Errorf("tensor %s has shape %v, the base model's module is %d by %d", name, shape, rows, cols)
	}
	if k[3] == "A" {
		l.a = m
	} else {
		l.b = m
	}
	return nil
}

func (ad *adapter) finish(scale float32) error {
	for i := range ad.layers {
		for m, l := range ad.layers[i] {
			if l == nil {
				continue
			}
			switch {
			case l.a.data == nil || l.b.data == nil:
				return fmt.Errorf("layer %d, %s: lora_A or lora_B is missing", i, moduleNames[m])
			case l.a.rows != l.b.cols:
				return fmt.Errorf("layer %d, %s: lora_A has rank %d, lora_B %d", i, moduleNames[m], l.a.rows, l.b.cols)
			case l.a.rows > MaxLoRARank:
				return fmt.Errorf("layer %d, %s: LoRA rank %d is greater than max_lora_rank %d", i, moduleNames[m], l.a.rows, MaxLoRARank)
			}
			l.scale = scale
		}
	}
	return nil
}
