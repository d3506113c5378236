package standin

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// job is one request as the model sees it.
type job struct {
	ad          *adapter
	prompt      []int
	maxTokens   int
	temperature float64 // 0: greedy
	seed        uint64
	ignoreEOS   bool
	top         int // likeliest tokens to report for each place; noLogprobs: none are computed
}

// scored is a token with its log probability.
type scored struct {
	id      int
	logprob float64
}

// pick is one generated token.
type pick struct {
	scored
	top    []scored // the likeliest, best first; the picked one is added when it is not among them
	finish string   // "stop" or "length" with the last token
	nan    bool     // log probabilities were asked for and are NaN
}

// outcome counts what a job took.
type outcome struct {
	cached, generated int
	finish            string // stop, length or abort
}

// generate runs a job and calls emit for each token. It ends early when emit
// fails or ctx ends: the client is gone, which counts as an abort.
func (e *Engine) generate(ctx context.Context, j job, emit func(pick) error) (outcome, error) {
	arrived := time.Now()
	if err := e.admit(ctx); err != nil {
		e.metrics.finished("abort")
		return outcome{finish: "abort"}, err
	}
	defer e.leave()
	s := newSession(e.model, j.ad)
	name := j.adapterName()
	out := outcome{cached: e.cache.restore(s, name, j.prompt)}
	e.metrics.prefix(len(j.prompt), out.cached)
	tokens := slices.Clone(j.prompt)
	err := e.decode(ctx, s, j, arrived, &tokens, &out, emit)
	if err == nil {
		e.cache.store(s, name, tokens[:s.length])
	} else {
		out.finish = "abort"
	}
	e.metrics.done(out, len(j.prompt), time.Since(arrived))
	return out, err
}

func (e *Engine) decode(ctx context.Context, s *session, j job, arrived time.Time, tokens *[]int, out *outcome, emit func(pick) error) error {
	for _, t := range j.prompt[s.length:] {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.step(t)
	}
	rng := rand.New(rand.NewPCG(j.seed, 0))
	logits := make([]float32, e.model.cfg.Vocab)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.logits(logits)
		p := choose(logits, j, rng)
		out.generated++
		if out.generated == 1 {
			e.metrics.firstToken(time.Since(arrived))
		}
		switch {
		case !j.ignoreEOS && slices.Contains(e.eos, p.id):
			p.finish = "stop"
		case out.generated == j.maxTokens:
			p.finish = "length"
		}
		*tokens = append(*tokens, p.id)
		out.finish = p.finish
		if err := emit(p); err != nil || p.finish != "" {
			return err
		}
		s.step(p.id)
	}
}

func (j job) adapterName() string {
	if j.ad == nil {
		return ""
	}
	return j.ad.name
}

// choose picks the next token and, when asked, the log probabilities around
// it. They are those of the model, before the temperature, as vLLM reports.
func choose(logits []float32, j job, rng *rand.Rand) pick {
	var p pick
	if j.temperature > 0 {
		p.id = sample(logits, j.temperature, rng)
	} else {
		p.id = argmax(logits)
	}
	if j.top == noLogprobs {
		return p
	}
	norm := logSum(logits, 1)
	at := func(id int) scored { return scored{id, clampLog(float64(logits[id]) - norm)} }
	p.scored = at(p.id)
	p.nan = math.IsNaN(norm)
	for _, id := range best(logits, j.top) {
		p.top = append(p.top, at(id))
	}
	if !slices.ContainsFunc(p.top, func(s scored) bool { return s.id == p.id }) {
		p.top = append(p.top, p.scored)
	}
	return p
}

// clampLog is vLLM's floor: JSON has no infinity.
func clampLog(v float64) float64 {
	if v < -9999 {
		return -9999
	}
	return v
}

// argmax gives the first of the highest; NaN is higher than any, as in torch.
func argmax(x []float32) int {
	at := 0
	for i, v := range x {
		if v != v {
			return i
		}
		if v > x[at] {
			at = i
		}
	}
	return at
}

// logSum is log of the sum of exp(x/temperature).
func logSum(x []float32, temperature float64) float64 {
	most := float64(x[argmax(x)])
	var sum float64
	for _, v := range x {
		sum += math.Exp((float64(v) - most) / temperature)
	}
	return most/temperature + math.Log(sum)
}

// best gives the ids of the n highest, best first, lower ids first among equals.
func best(x []float32, n int) []int {
	var ids []int
	for i, v := range x {
		if len(ids) == n && (n == 0 || !(v > x[ids[n-1]])) {
			continue
		}
		at, _ := slices.BinarySearchFunc(ids, v, func(id int, v float32) int {
			if c := cmp.Compare(v, x[id]); c != 0 {
				return c
			}
			return -1 // after its equals
		})
		ids = slices.Insert(ids, at, i)
		ids = ids[:min(len(ids), n)]
	}
	return ids
}

// sample draws from the whole distribution at a temperature.
func sample(logits []float32, temperature float64, rng *rand.Rand) int {
	norm := logSum(logits, temperature)
	u := rng.Float64()
	for i, v := range logits {
		u -= math.Exp(float64(v)/temperature - norm)
		if u < 0 {
			return i
		}
	}
	return argmax(logits) // rounding, or NaN
}

// admit waits for a slot; a request that gives up meanwhile never ran.
func (e *Engine) admit(ctx context.Context) error {
	e.metrics.waiting.Add(1)
	defer e.metrics.waiting.Add(-1)
	select {
	case e.running <- struct{}{}:
		e.metrics.running.Add(1)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *Engine) leave() {
	e.metrics.running.Add(-1)
	<-e.running
}

// detokenizer turns ids into text as they come; bytes of a character that is
// not complete wait for the rest, and are dropped when none comes.
type detokenizer struct {
	e       *Engine
	pending []int
}

func (d *detokenizer) push(id int) string {
	d.pending = append(d.pending, id)
	text := d.e.tok.Decode(d.pending, true)
	if endsBroken(text) && len(d.pending) < 8 {
		return ""
	}
	d.pending = d.pending[:0]
	return text
}

func endsBroken(s string) bool {
	const replacement = "\ufffd"
	return len(s) >= len(replacement) && s[len(s)-len(replacement):] == replacement
}
