// Package probe asks a live endpoint the questions of a probe set: to record the
// answers of an engine that is known to be right, or to compare those of a
// canary with a recording.
//
// A 200 on /health proves nothing about answers; NaN and wrong weights show only
// where log probabilities are asked for. Every completion here asks for them.
package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"drkit/internal/errext"
	"drkit/internal/openai"
	"drkit/manifest/probes"
)

// topTokens is how many top log probabilities each token brings. vLLM allows 20
// by default; five are enough to see a close call.
const topTokens = 5

// questionTimeout bounds one question: an engine that hangs accepts connections.
const questionTimeout = 60 * time.Second

// ErrNaN says that the engine's log probabilities are not numbers.
var ErrNaN = errors.New("the engine's log probabilities are NaN: its weights or configuration are broken")

// Ask puts one probe's request to the endpoint. A nil client's default is used;
// the answer of a completion always has log probabilities.
func Ask(ctx context.Context, c *openai.Client, p probes.Probe) (probes.Answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, questionTimeout, fmt.Errorf("no answer within %s", questionTimeout))
	defer cancel()
	answer, err := ask(ctx, c, p)
	if cause := context.Cause(ctx); err != nil && cause != nil && errors.Is(err, ctx.Err()) {
		err = cause
	}
	if openai.IsNaN(err) {
		err = errext.WithHint(fmt.Errorf("%w (%w)", ErrNaN, err), "compare the weights with the release: drkit verify --level content")
	}
	if err != nil {
		return probes.Answer{}, fmt.Errorf("probe %s: %w", p.ID, err)
	}
	return answer, nil
}

func ask(ctx context.Context, c *openai.Client, p probes.Probe) (probes.Answer, error) {
	switch p.Kind {
	case probes.KindModels:
		return askModels(ctx, c)
	case probes.KindTokenize, probes.KindRender:
		var r openai.TokenizeRequest
		if err := json.Unmarshal(p.Request, &r); err != nil {
			return probes.Answer{}, fmt.Errorf("reading its request: %w", err)
		}
		got, err := c.Tokenize(ctx, r)
		return probes.Answer{PromptIDs: got.Tokens, MaxModelLen: got.MaxModelLen}, err
	case probes.KindCompletion:
		var r openai.CompletionRequest
		if err := json.Unmarshal(p.Request, &r); err != nil {
			return probes.Answer{}, fmt.Errorf("reading its request: %w", err)
		}
		return askCompletion(ctx, c, r)
	case probes.KindTools, probes.KindJSON:
		var r openai.ToolRequest
		if err := json.Unmarshal(p.Request, &r); err != nil {
			return probes.Answer{}, fmt.Errorf("reading its request: %w", err)
		}
		return askChat(ctx, c, r)
	}
	return probes.Answer{}, fmt.Errorf("kind %q is not known to this drkit", p.Kind)
}

func askModels(ctx context.Context, c *openai.Client) (probes.Answer, error) {
	models, err := c.Models(ctx)
	if err != nil {
		return probes.Answer{}, err
	}
	var a probes.Answer
	for _, m := range models {
		a.Models = append(a.Models, m.ID)
		if m.Parent == nil && m.MaxModelLen != nil {
			a.MaxModelLen = *m.MaxModelLen
		}
	}
	return a, nil
}

func askCompletion(ctx context.Context, c *openai.Client, r openai.CompletionRequest) (probes.Answer, error) {
	got, err := c.Completion(ctx, r)
	if err != nil {
		return probes.Answer{}, err
	}
	choice := got.Choices[0]
	a := probes.Answer{PromptIDs: choice.PromptTokenIDs, TokenIDs: choice.TokenIDs, Text: choice.Text}
	if choice.FinishReason != nil {
		a.Finish = *choice.FinishReason
	}
	if choice.Logprobs == nil || len(choice.TokenIDs) == 0 {
		return a, errors.New("the answer has no token ids or no log probabilities, though both were asked for")
	}
	for i, l := range choice.Logprobs.TokenLogprobs {
		if l == nil || math.IsNaN(*l) || math.IsInf(*l, 0) {
			return a, fmt.Errorf("token %d: %w", i, ErrNaN)
		}
		a.Logprobs = append(a.Logprobs, *l)
	}
	a.Top, err = topByID(choice.Logprobs.TopLogprobs)
	return a, err
}

func askChat(ctx context.Context, c *openai.Client, r openai.ToolRequest) (probes.Answer, error) {
	got, err := c.ChatWith(ctx, r)
	if err != nil {
		return probes.Answer{}, err
	}
	choice := got.Choices[0]
	a := probes.Answer{PromptIDs: got.PromptTokenIDs, TokenIDs: choice.TokenIDs, Text: choice.Message.Content}
	if choice.FinishReason != nil {
		a.Finish = *choice.FinishReason
	}
	for _, t := range choice.Message.ToolCalls {
		a.ToolCalls = append(a.ToolCalls, probes.ToolCall{Name: t.Function.Name, Arguments: t.Function.Arguments})
	}
	if choice.Logprobs == nil || len(choice.TokenIDs) == 0 {
		return a, errors.New("the answer has no token ids or no log probabilities, though both were asked for")
	}
	var top []map[string]float64
	for i, l := range choice.Logprobs.Content {
		if math.IsNaN(l.Logprob) || math.IsInf(l.Logprob, 0) {
			return a, fmt.Errorf("token %d: %w", i, ErrNaN)
		}
		a.Logprobs = append(a.Logprobs, l.Logprob)
		likely := map[string]float64{}
		for _, t := range l.TopLogprobs {
			likely[t.Token] = t.Logprob
		}
		top = append(top, likely)
	}
	a.Top, err = topByID(top)
	return a, err
}

// topByID reads the keys "token_id:N" that return_tokens_as_token_ids asks for.
func topByID(top []map[string]float64) ([]map[int]float64, error) {
	var all []map[int]float64
	for i, tokens := range top {
		byID := make(map[int]float64, len(tokens))
		for key, l := range tokens {
			id, err := strconv.Atoi(strings.TrimPrefix(key, "token_id:"))
			if err != nil {
				return nil, fmt.Errorf("top tokens of token %d are not token ids: %q", i, key)
			}
			byID[id] = l
		}
		all = append(all, byID)
	}
	return all, nil
}
