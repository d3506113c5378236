package standin

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"

	"drkit/internal/openai"
)

// extras are the fields that change an answer in vLLM and are not implemented
// here: a request that sets one to more than its default is refused, because
// an answer that ignores it would be wrong.
type extras struct {
	N                 *int            `json:"n"`
	BestOf            *int            `json:"best_of"`
	Echo              bool            `json:"echo"`
	Suffix            string          `json:"suffix"`
	Stop              json.RawMessage `json:"stop"`
	StopTokenIDs      []int           `json:"stop_token_ids"`
	MinTokens         int             `json:"min_tokens"`
	PromptLogprobs    *int            `json:"prompt_logprobs"`
	LogitBias         map[string]any  `json:"logit_bias"`
	ResponseFormat    json.RawMessage `json:"response_format"`
	StructuredOutputs json.RawMessage `json:"structured_outputs"`
	Tools             []any           `json:"tools"`
	PresencePenalty   float64         `json:"presence_penalty"`
	FrequencyPenalty  float64         `json:"frequency_penalty"`
	RepetitionPenalty *float64        `json:"repetition_penalty"`
	TopP              *float64        `json:"top_p"`
	TopK              *int            `json:"top_k"`
	MinP              *float64        `json:"min_p"`
}

// refused names the first field that cannot be honoured. Top-p, top-k and
// min-p do nothing to a greedy answer and count only with a temperature.
func (x extras) refused(g generationConfig, sampled bool) string {
	x.RepetitionPenalty = or(x.RepetitionPenalty, g.Repetition)
	x.TopP, x.TopK, x.MinP = or(x.TopP, g.TopP), or(x.TopK, g.TopK), or(x.MinP, g.MinP)
	for name, set := range map[string]bool{
		"n": x.N != nil && *x.N != 1, "best_of": x.BestOf != nil && *x.BestOf != 1, "echo": x.Echo, "suffix": x.Suffix != "",
		"stop": given(x.Stop, `[]`, `""`), "stop_token_ids": len(x.StopTokenIDs) > 0, "min_tokens": x.MinTokens > 0, "prompt_logprobs": x.PromptLogprobs != nil,
		"logit_bias": len(x.LogitBias) > 0, "response_format": given(x.ResponseFormat, `{"type":"text"}`), "structured_outputs": given(x.StructuredOutputs),
		"tools": len(x.Tools) > 0, "presence_penalty": x.PresencePenalty != 0, "frequency_penalty": x.FrequencyPenalty != 0,
		"repetition_penalty": x.RepetitionPenalty != nil && *x.RepetitionPenalty != 1,
		"top_p":              sampled && x.TopP != nil && *x.TopP != 1, "top_k": sampled && x.TopK != nil && *x.TopK > 0, "min_p": sampled && x.MinP != nil && *x.MinP != 0,
	} {
		if set {
			return name
		}
	}
	return ""
}

func or[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}

func given(raw json.RawMessage, defaults ...string) bool {
	s := string(raw)
	return s != "" && s != "null" && !slices.Contains(defaults, s)
}

// maxLogprobs is vLLM's default of --max-logprobs.
const maxLogprobs = 20

// noLogprobs is job.top of a request that asks for none.
const noLogprobs = -1

// newJob checks a request's parameters; fallback is the max_tokens of a
// request that names none, nil for all that fits.
func (e *Engine) newJob(ad *adapter, prompt []int, s openai.Sampling, x extras, top int, fallback *int) (job, error) {
	j := job{ad: ad, prompt: prompt, ignoreEOS: s.IgnoreEOS, top: top, temperature: 1}
	if t := or(s.Temperature, e.generation.Temperature); t != nil {
		j.temperature = *t
	}
	if s.Seed != nil {
		j.seed = uint64(*s.Seed)
	} else {
		j.seed = rand.Uint64()
	}
	if f := x.refused(e.generation, j.temperature > 0); f != "" {
		return j, badRequest("the stand-in engine does not support %s", f)
	}
	switch {
	case j.temperature < 0:
		return j, badRequest("temperature must be non-negative, got %v.", j.temperature)
	case top < noLogprobs:
		return j, badRequest("logprobs must be non-negative")
	case top > maxLogprobs:
		return j, badRequest("Requested sample logprobs of %d, which is greater than max allowed: %d", top, maxLogprobs)
	case len(prompt) == 0:
		return j, badRequest("The decoder prompt cannot be empty")
	}
	if err := e.checkIDs(prompt); err != nil {
		return j, err
	}
	var err error
	j.maxTokens, err = e.answerLength(len(prompt), or(s.MaxTokens, fallback))
	return j, err
}

// checkIDs refuses ids that nobody knows. An id that the tokenizer knows and
// the model does not is worse: in vLLM it kills the engine, after which
// /health is 503.
func (e *Engine) checkIDs(prompt []int) error {
	vocab := e.model.cfg.Vocab
	last := max(e.tok.MaxID(), vocab-1)
	for _, id := range prompt {
		if id < 0 || id > last {
			return badRequest("Token id %d is out of vocabulary", id)
		}
		if id >= vocab {
			e.dead.Store(true)
			return &apiError{code: http.StatusInternalServerError, message: errDead.Error()}
		}
	}
	return nil
}

// answerLength is the greatest number of tokens to generate: what was asked
// for, within the model's length and generation_config's max_new_tokens.
func (e *Engine) answerLength(prompt int, asked *int) (int, error) {
	want := 1
	if asked != nil {
		want = *asked
	}
	if asked != nil && want < 1 {
		return 0, badRequest("max_tokens must be at least 1, got %d.", want)
	}
	if prompt > e.maxModelLen-want {
		return 0, badRequest("This model's maximum context length is %d tokens. However, you requested %d output tokens and your prompt contains at least %d input tokens, for a total of at least %d tokens. Please reduce the length of the input prompt or the number of requested output tokens.",
			e.maxModelLen, want, prompt, prompt+want)
	}
	n := e.maxModelLen - prompt
	for _, limit := range []*int{asked, e.generation.MaxNewTokens} {
		if limit != nil && *limit > 0 {
			n = min(n, *limit)
		}
	}
	return n, nil
}

// tokenName is how an answer names a token.
func (e *Engine) tokenName(id int, asID bool) string {
	if asID {
		return fmt.Sprintf("token_id:%d", id)
	}
	return e.tok.Decode([]int{id}, false)
}
