package standin

import "math"

// The arithmetic of the forward pass. The race detector does not look into it: that
// makes the engine some fifty times slower, and there is nothing to find, since weights
// never change once they are loaded and all else is the one session's own.

//go:norace
func (m matrix) mul(out, in []float32) {
	for r := range out {
		out[r] = dot(m.data[r*m.cols:][:m.cols], in)
	}
}

// dot keeps four sums, so that the additions do not wait for each other.
//
//go:norace
func dot(a, b []float32) float32 {
	var s0, s1, s2, s3 float32
	b = b[:len(a)]
	i := 0
	for ; i+4 <= len(a); i += 4 {
		s0 += a[i] * b[i]
		s1 += a[i+1] * b[i+1]
		s2 += a[i+2] * b[i+2]
		s3 += a[i+3] * b[i+3]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return (s0 + s1) + (s2 + s3)
}

// addScaled adds w times y to x.
//
//go:norace
func addScaled(x []float32, w float32, y []float32) {
	for i, v := range y {
		x[i] += w * v
	}
}

// swiGLU is the activation of Llama's MLP: SiLU of the gate, times up.
//
//go:norace
func swiGLU(gate, up []float32) {
	for i, g := range gate {
		gate[i] = g / (1 + float32(math.Exp(-float64(g)))) * up[i]
	}
}

//go:norace
func add(x, y []float32) {
	for i, v := range y {
		x[i] += v
	}
}

//go:norace
func rmsNorm(out, x, weight []float32, eps float64) {
	var sum float64
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	scale := float32(1 / math.Sqrt(sum/float64(len(x))+eps))
	for i, v := range x {
		out[i] = v * scale * weight[i]
	}
}

//go:norace
func softmax(x []float32) {
	most := float32(math.Inf(-1))
	for _, v := range x {
		most = max(most, v)
	}
	var sum float64
	for i, v := range x {
		e := math.Exp(float64(v - most))
		x[i] = float32(e)
		sum += e
	}
	for i := range x {
		x[i] /= float32(sum)
	}
}
