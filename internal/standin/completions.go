package standin

import (
	"crypto/rand"
	"net/http"
	"strings"
	"time"

	"drkit/internal/openai"
)

// defaultMaxTokens is what /v1/completions generates when not told; a chat
// goes on to the model's length.
const defaultMaxTokens = 16

func (e *Engine) serveCompletion(w http.ResponseWriter, r *http.Request) {
	var body struct {
		openai.CompletionRequest
		extras
	}
	if err := readJSON(r, &body); err != nil {
		writeError(w, err)
		return
	}
	ad, err := e.pickModel(body.Model)
	if err != nil {
		writeError(w, err)
		return
	}
	prompt := body.Prompt.IDs
	if prompt == nil {
		prompt = e.tok.Encode(body.Prompt.Text, true)
	}
	top := noLogprobs
	if body.Logprobs != nil {
		top = asked(*body.Logprobs)
	}
	j, err := e.newJob(ad, prompt, body.Sampling, body.extras, top, openai.Ptr(defaultMaxTokens))
	if err != nil {
		writeError(w, err)
		return
	}
	c := &completion{e: e, job: j, req: body.CompletionRequest, text: detokenizer{e: e}}
	c.head = openai.Completion{ID: answerID("cmpl-", r), Object: "text_completion", Created: time.Now().Unix(), Model: e.answerModel(body.Model), SystemFingerprint: &e.fingerprint}
	if body.Stream {
		c.stream(w, r)
		return
	}
	c.whole(w, r)
}

// asked keeps a negative number of log probabilities apart from none.
func asked(n int) int {
	if n < 0 {
		return noLogprobs - 1
	}
	return n
}

// answerModel is the name that an answer repeats.
func (e *Engine) answerModel(asked string) string {
	if asked == "" {
		return e.names[0]
	}
	return asked
}

// answerID follows X-Request-Id, so that logs of both sides can be joined.
func answerID(prefix string, r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); id != "" {
		return prefix + id
	}
	return prefix + strings.ToLower(rand.Text())
}

// completion writes the answer of one /v1/completions request.
type completion struct {
	e      *Engine
	job    job
	req    openai.CompletionRequest
	head   openai.Completion
	text   detokenizer
	offset int // characters of the log probabilities' tokens so far
}

// add appends one token to a choice.
func (c *completion) add(ch *openai.CompletionChoice, p pick) {
	if p.finish != "stop" {
		ch.Text += c.text.push(p.id)
	}
	if c.req.ReturnTokenIDs {
		ch.TokenIDs = append(ch.TokenIDs, p.id)
	}
	if p.finish != "" {
		ch.FinishReason = openai.Ptr(p.finish)
	}
	if c.job.top == noLogprobs {
		return
	}
	if ch.Logprobs == nil {
		ch.Logprobs = &openai.Logprobs{}
	}
	l, asID := ch.Logprobs, c.req.ReturnTokensAsTokenIDs
	name := c.e.tokenName(p.id, asID)
	top := make(map[string]float64, len(p.top))
	for _, t := range p.top {
		top[c.e.tokenName(t.id, asID)] = t.logprob
	}
	l.Tokens = append(l.Tokens, name)
	l.TokenLogprobs = append(l.TokenLogprobs, openai.Ptr(p.logprob))
	l.TopLogprobs = append(l.TopLogprobs, top)
	l.TextOffset = append(l.TextOffset, c.offset)
	c.offset += len([]rune(name))
}

func (c *completion) whole(w http.ResponseWriter, r *http.Request) {
	var ch openai.CompletionChoice
	nan := false
	out, err := c.e.generate(r.Context(), c.job, func(p pick) error {
		nan = nan || p.nan
		c.add(&ch, p)
		return nil
	})
	switch {
	case err != nil: // the client is gone
		return
	case nan:
		writeError(w, errNaN)
		return
	}
	if c.req.ReturnTokenIDs {
		ch.PromptTokenIDs = c.job.prompt
	}
	c.head.Choices = []openai.CompletionChoice{ch}
	c.head.Usage = usage(len(c.job.prompt), out)
	writeJSON(w, http.StatusOK, c.head)
}

// errNaN is what vLLM answers when log probabilities are NaN.
var errNaN = badRequest("Out of range float values are not JSON compliant")

// usage always reports the cached tokens, as vLLM does with
// --enable-prompt-tokens-details.
func usage(prompt int, out outcome) *openai.Usage {
	return &openai.Usage{PromptTokens: prompt, CompletionTokens: out.generated, TotalTokens: prompt + out.generated,
		PromptTokensDetails: &openai.PromptDetails{CachedTokens: openai.Ptr(out.cached)}}
}

func (c *completion) stream(w http.ResponseWriter, r *http.Request) {
	s := newEvents(w)
	first := true
	out, err := c.e.generate(r.Context(), c.job, func(p pick) error {
		if p.nan {
			return errNaN
		}
		var ch openai.CompletionChoice
		c.add(&ch, p)
		if first && c.req.ReturnTokenIDs {
			ch.PromptTokenIDs = c.job.prompt
		}
		first = false
		ev := c.head
		ev.Choices = []openai.CompletionChoice{ch}
		return s.send(ev)
	})
	last := c.head
	last.Choices, last.Usage = []openai.CompletionChoice{}, usage(len(c.job.prompt), out)
	s.end(err, c.req.StreamOptions, last)
}
