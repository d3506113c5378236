package standin

import "math"

// session is one request's forward pass: its KV cache and scratch space.
type session struct {
	m  *model
	ad *adapter // nil: the base model

	length int         // positions in the KV cache
	keys   [][]float32 // one a layer: length × (KV heads × head size)
	values [][]float32

	x, normed, q, attended, projected, gate, up []float32
	cos, sin, scores                            []float32
	low                                         [MaxLoRARank]float32
}

func newSession(m *model, ad *adapter) *session {
	c := m.cfg
	s := &session{m: m, ad: ad, keys: make([][]float32, c.Layers), values: make([][]float32, c.Layers)}
	s.x = make([]float32, c.Hidden)
	s.normed = make([]float32, c.Hidden)
	s.q = make([]float32, c.Heads*c.HeadDim)
	s.attended = make([]float32, c.Heads*c.HeadDim)
	s.projected = make([]float32, c.Hidden)
	s.gate = make([]float32, c.Intermediate)
	s.up = make([]float32, c.Intermediate)
	s.cos = make([]float32, c.HeadDim/2)
	s.sin = make([]float32, c.HeadDim/2)
	return s
}

// step appends one token to the KV cache. The hidden state that it leaves is
// what logits reads.
func (s *session) step(token int) {
	c := s.m.cfg
	copy(s.x, s.m.embed.data[token*c.Hidden:][:c.Hidden])
	s.m.rope.angles(s.length, s.cos, s.sin)
	s.length++
	for i := range s.m.layers {
		l := &s.m.layers[i]
		rmsNorm(s.normed, s.x, l.inputNorm, c.Eps)
		s.attention(i)
		add(s.x, s.projected)
		rmsNorm(s.normed, s.x, l.postNorm, c.Eps)
		s.mlp(i)
		add(s.x, s.projected)
	}
}

// logits scores every token of the vocabulary as the next one.
func (s *session) logits(out []float32) {
	rmsNorm(s.normed, s.x, s.m.norm, s.m.cfg.Eps)
	s.m.head.mul(out, s.normed)
}

// linear applies a module with the adapter's addition to it.
func (s *session) linear(layer, module int, out, in []float32) {
	s.m.layers[layer].linear[module].mul(out, in)
	if s.ad == nil {
		return
	}
	l := s.ad.layers[layer][module]
	if l == nil {
		return
	}
	low := s.low[:l.a.rows]
	l.a.mul(low, in)
	for r := range out {
		out[r] += l.scale * dot(l.b.data[r*l.b.cols:][:l.b.cols], low)
	}
}

func (s *session) attention(layer int) {
	c := s.m.cfg
	width := c.KVHeads * c.HeadDim
	s.keys[layer] = append(s.keys[layer], make([]float32, width)...)
	s.values[layer] = append(s.values[layer], make([]float32, width)...)
	keys, values := s.keys[layer], s.values[layer]
	k, v := keys[len(keys)-width:], values[len(values)-width:]
	s.linear(layer, modQ, s.q, s.normed)
	s.linear(layer, modK, k, s.normed)
	s.linear(layer, modV, v, s.normed)
	for h := range c.KVHeads {
		rotate(k[h*c.HeadDim:][:c.HeadDim], s.cos, s.sin)
	}
	if cap(s.scores) < s.length {
		s.scores = make([]float32, 2*s.length)
	}
	for h := range c.Heads {
		q := s.q[h*c.HeadDim:][:c.HeadDim]
		rotate(q, s.cos, s.sin)
		off := h / (c.Heads / c.KVHeads) * c.HeadDim
		s.head(q, keys[off:], values[off:], width, s.attended[h*c.HeadDim:][:c.HeadDim])
	}
	s.linear(layer, modO, s.projected, s.attended)
}

// head is one query head over all positions; keys and values are strided by width.
func (s *session) head(q, keys, values []float32, width int, out []float32) {
	scores := s.scores[:s.length]
	scale := float32(1 / math.Sqrt(float64(len(q))))
	for p := range scores {
		scores[p] = scale * dot(q, keys[p*width:][:len(q)])
	}
	softmax(scores)
	clear(out)
	for p, w := range scores {
		addScaled(out, w, values[p*width:][:len(out)])
	}
}

func (s *session) mlp(layer int) {
	s.linear(layer, modGate, s.gate, s.normed)
	s.linear(layer, modUp, s.up, s.normed)
	swiGLU(s.gate, s.up)
	s.linear(layer, modDown, s.projected, s.gate)
}
