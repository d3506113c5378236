package standin

import (
	"fmt"
	"math"
)

// rope rotates pairs of a head's elements by angles that grow with the position.
type rope struct {
	freq []float64 // one a pair: radians per position
}

// rope gives the parameters in effect, from the newer or the older fields.
func (c *config) rope() ropeConfig {
	r := ropeConfig{}
	switch {
	case c.RopeParams != nil:
		r = *c.RopeParams
	case c.RopeScaling != nil:
		r = *c.RopeScaling
	}
	if r.Theta == 0 {
		r.Theta = c.RopeTheta
	}
	if r.Theta == 0 {
		r.Theta = 10000
	}
	return r
}

func (r ropeConfig) kind() string {
	switch {
	case r.Type != "":
		return r.Type
	case r.Legacy != "":
		return r.Legacy
	}
	return "default"
}

func newRope(c *config) (*rope, error) {
	p := c.rope()
	if p.Partial != 0 && p.Partial != 1 {
		return nil, unsupported("partial_rotary_factor %v", p.Partial)
	}
	r := &rope{freq: make([]float64, c.HeadDim/2)}
	for i := range r.freq {
		r.freq[i] = math.Pow(p.Theta, -float64(2*i)/float64(c.HeadDim))
	}
	switch p.kind() {
	case "default":
	case "linear":
		if p.Factor <= 0 {
			return nil, fmt.Errorf("config.json: rope type linear needs a factor, it has %v", p.Factor)
		}
		for i := range r.freq {
			r.freq[i] /= p.Factor
		}
	case "llama3":
		if p.Factor <= 0 || p.LowFreq <= 0 || p.HighFreq <= p.LowFreq || p.OriginalMax <= 0 {
			return nil, fmt.Errorf("config.json: rope type llama3 needs factor, low_freq_factor, high_freq_factor and original_max_position_embeddings")
		}
		for i, f := range r.freq {
			r.freq[i] = llama3Freq(f, p)
		}
	case "dynamic", "yarn", "longrope", "su", "mrope":
		return nil, unsupported("rope type %q", p.kind())
	default:
		return nil, vllmSays("Unknown RoPE scaling type %s", p.kind())
	}
	return r, nil
}

// llama3Freq slows the long waves by the factor, keeps the short ones and
// blends in between (Llama 3.1's scheme).
func llama3Freq(f float64, p ropeConfig) float64 {
	wave := 2 * math.Pi / f
	long := float64(p.OriginalMax) / p.LowFreq
	short := float64(p.OriginalMax) / p.HighFreq
	switch {
	case wave < short:
		return f
	case wave > long:
		return f / p.Factor
	}
	smooth := (float64(p.OriginalMax)/wave - p.LowFreq) / (p.HighFreq - p.LowFreq)
	return (1-smooth)*f/p.Factor + smooth*f
}

// angles fills the cosines and sines of one position.
func (r *rope) angles(position int, cos, sin []float32) {
	for i, f := range r.freq {
		s, c := math.Sincos(float64(position) * f)
		cos[i], sin[i] = float32(c), float32(s)
	}
}

// rotate turns one head in place; its two halves hold the pairs.
func rotate(head, cos, sin []float32) {
	half := len(head) / 2
	for i := range half {
		a, b := head[i], head[half+i]
		head[i] = a*cos[i] - b*sin[i]
		head[half+i] = b*cos[i] + a*sin[i]
	}
}
