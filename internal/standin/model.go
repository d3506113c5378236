package standin

import (
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"drkit/internal/errext"
)

// The linear modules of a layer, in the order of layer.linear.
const (
	modQ = iota
	modK
	modV
	modO
	modGate
	modUp
	modDown
	modules
)

var moduleNames = [modules]string{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"}

// moduleShape gives rows (outputs) and columns (inputs) of a module.
func (c *config) moduleShape(m int) (rows, cols int) {
	switch m {
	case modQ:
		return c.Heads * c.HeadDim, c.Hidden
	case modK, modV:
		return c.KVHeads * c.HeadDim, c.Hidden
	case modO:
		return c.Hidden, c.Heads * c.HeadDim
	case modGate, modUp:
		return c.Intermediate, c.Hidden
	default:
		return c.Hidden, c.Intermediate
	}
}

// model is a Llama's weights in float32.
type model struct {
	cfg    *config
	rope   *rope
	embed  matrix
	head   matrix // lm_head; shares embed's data when tied
	norm   []float32
	layers []layer
	slots  map[string]*slot
}

type layer struct {
	inputNorm, postNorm []float32
	linear              [modules]matrix
}

// slot is where a tensor of the checkpoint goes.
type slot struct {
	rows, cols int // rows 0: a vector of cols elements
	norm       bool
	put        func(data []float32)
	filled     bool
}

func loadModel(dir string, cfg *config, log bootLog) (*model, error) {
	log.printf("Starting to load model %s...", dir)
	start := time.Now()
	m := &model{cfg: cfg, layers: make([]layer, cfg.Layers)}
	var err error
	if m.rope, err = newRope(cfg); err != nil {
		return nil, err
	}
	m.makeSlots()
	files, err := weightFiles(dir)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if err := readWeights(filepath.Join(dir, f), m.place); err != nil {
			return nil, err
		}
	}
	if err := m.finish(); err != nil {
		return nil, err
	}
	took := time.Since(start).Seconds()
	log.printf("Loading weights took %.2f seconds", took)
	log.printf("Model loading took %.2f GiB memory and %.2f seconds", float64(m.bytes())/(1<<30), took)
	return m, nil
}

func (m *model) makeSlots() {
	c := m.cfg
	m.slots = map[string]*slot{
		"model.norm.weight":         {cols: c.Hidden, norm: true, put: func(d []float32) { m.norm = d }},
		"model.embed_tokens.weight": {rows: c.Vocab, cols: c.Hidden, put: func(d []float32) { m.embed = matrix{c.Vocab, c.Hidden, d} }},
		"lm_head.weight":            {rows: c.Vocab, cols: c.Hidden, put: func(d []float32) { m.head = matrix{c.Vocab, c.Hidden, d} }},
	}
	for i := range m.layers {
		l, prefix := &m.layers[i], "model.layers."+strconv.Itoa(i)+"."
		m.slots[prefix+"input_layernorm.weight"] = &slot{cols: c.Hidden, norm: true, put: func(d []float32) { l.inputNorm = d }}
		m.slots[prefix+"post_attention_layernorm.weight"] = &slot{cols: c.Hidden, norm: true, put: func(d []float32) { l.postNorm = d }}
		for k, name := range moduleNames {
			rows, cols := c.moduleShape(k)
			m.slots[prefix+name+".weight"] = &slot{rows: rows, cols: cols, put: func(d []float32) { l.linear[k] = matrix{rows, cols, d} }}
		}
	}
}

var computed = regexp.MustCompile(`rotary_emb\.(inv_freq|cos_cached|sin_cached)$`) // old checkpoints carry these

// place puts one tensor where it belongs. A tensor seen twice overwrites, as in vLLM.
func (m *model) place(name string, shape []int64, data []float32) error {
	s := m.slots[name]
	if s == nil {
		if computed.MatchString(name) {
			return nil
		}
		return vllmSays("There is no module or parameter named '%s' in LlamaForCausalLM", strings.TrimSuffix(name, ".weight"))
	}
	want := []int64{int64(s.cols)}
	if s.rows > 0 {
		want = []int64{int64(s.rows), int64(s.cols)}
	}
	if !slices.Equal(shape, want) {
		return errext.WithHint(fmt.Errorf("tensor %s has shape %v, config.json asks for %v", name, shape, want),
			"weights and config.json do not belong together: compare both with the release")
	}
	s.put(data)
	s.filled = true
	return nil
}

// finish ties the head and judges what the files did not hold: norm weights
// are tracked, everything else is left as it is found, which is NaN here.
func (m *model) finish() error {
	var lost []string
	for name, s := range m.slots {
		switch {
		case s.filled:
		case s.norm:
			lost = append(lost, "'"+name+"'")
		case name == "lm_head.weight" && m.cfg.Tied:
		default:
			s.put(nans(s.rows * s.cols))
		}
	}
	if len(lost) > 0 {
		slices.Sort(lost)
		return errext.WithHint(vllmSays("Following weights were not initialized from checkpoint: {%s}", strings.Join(lost, ", ")),
			"a shard or its index is incomplete: restore the weights from the release")
	}
	// A head of its own wins over tie_word_embeddings, as measured on vLLM.
	if m.cfg.Tied && !m.slots["lm_head.weight"].filled {
		m.head = m.embed
	}
	m.slots = nil
	return nil
}

func nans(n int) []float32 {
	d := make([]float32, n)
	for i := range d {
		d[i] = float32(math.NaN())
	}
	return d
}

func (m *model) bytes() int {
	n := len(m.embed.data) + len(m.head.data) + len(m.norm)
	for _, l := range m.layers {
		n += len(l.inputNorm) + len(l.postNorm)
		for _, x := range l.linear {
			n += len(x.data)
		}
	}
	return 4 * n
}
