package standin

import (
	"net/http"
	"time"

	"drkit/internal/chattemplate"
	"drkit/internal/openai"
)

// noTemplate is transformers' text, which vLLM passes on at the first chat.
const noTemplate = "As of transformers v4.44, default chat template is no longer allowed, so you must provide a chat template if the tokenizer does not define one."

// render gives the ids of a chat: the template, then the tokenizer without
// its own special tokens, which the template writes itself.
func (e *Engine) render(messages []openai.Message, generationPrompt, special bool) ([]int, error) {
	switch {
	case e.templateErr != nil:
		return nil, badRequest("%v", e.templateErr)
	case e.template == nil:
		return nil, badRequest("%s", noTemplate)
	}
	in := chattemplate.Input{AddGenerationPrompt: generationPrompt, BOSToken: e.tokens.BOSToken, EOSToken: e.tokens.EOSToken, Now: time.Now()}
	for _, m := range messages {
		in.Messages = append(in.Messages, chattemplate.Message{Role: m.Role, Content: m.Content})
	}
	text, err := e.template.Render(in)
	if err != nil {
		return nil, badRequest("%v", err)
	}
	return e.tok.Encode(text, special), nil
}

func (e *Engine) serveTokenize(w http.ResponseWriter, r *http.Request) {
	var req openai.TokenizeRequest
	if err := readJSON(r, &req); err != nil {
		writeError(w, err)
		return
	}
	if _, err := e.pickModel(req.Model); err != nil {
		writeError(w, err)
		return
	}
	isTrue := func(p *bool, otherwise bool) bool { return *or(p, &otherwise) }
	var ids []int
	var err error
	switch {
	case given(req.Tools, `[]`):
		err = badRequest("the stand-in engine does not support tools")
	case req.Prompt != nil:
		ids = e.tok.Encode(*req.Prompt, isTrue(req.AddSpecialTokens, true))
	case len(req.Messages) > 0:
		ids, err = e.render(req.Messages, isTrue(req.AddGenerationPrompt, true), isTrue(req.AddSpecialTokens, false))
	default:
		err = badRequest("the request has neither a prompt nor messages")
	}
	if err != nil {
		writeError(w, err)
		return
	}
	out := openai.TokenizeResponse{Count: len(ids), MaxModelLen: e.maxModelLen, Tokens: ids}
	if req.ReturnTokenStrs {
		for _, id := range ids {
			s, _ := e.tok.Token(id)
			out.TokenStrs = append(out.TokenStrs, s)
		}
	}
	writeJSON(w, http.StatusOK, out)
}

func (e *Engine) serveChat(w http.ResponseWriter, r *http.Request) {
	var body struct {
		openai.ChatRequest
		extras
	}
	if err := readJSON(r, &body); err != nil {
		writeError(w, err)
		return
	}
	c, err := e.newChat(r, body.ChatRequest, body.extras)
	switch {
	case err != nil:
		writeError(w, err)
	case body.Stream:
		c.stream(w, r)
	default:
		c.whole(w, r)
	}
}

func (e *Engine) newChat(r *http.Request, req openai.ChatRequest, x extras) (*chat, error) {
	ad, err := e.pickModel(req.Model)
	if err != nil {
		return nil, err
	}
	if len(req.Messages) == 0 {
		return nil, badRequest("messages is empty")
	}
	prompt, err := e.render(req.Messages, true, false)
	if err != nil {
		return nil, err
	}
	top := noLogprobs
	if req.Logprobs {
		top = asked(*or(req.TopLogprobs, openai.Ptr(0)))
	}
	req.MaxTokens = or(req.MaxCompletionTokens, req.MaxTokens)
	j, err := e.newJob(ad, prompt, req.Sampling, x, top, nil)
	if err != nil {
		return nil, err
	}
	return &chat{e: e, job: j, req: req, text: detokenizer{e: e}, id: answerID("chatcmpl-", r), created: time.Now().Unix(), model: e.answerModel(req.Model)}, nil
}

// chat writes the answer of one /v1/chat/completions request.
type chat struct {
	e         *Engine
	job       job
	req       openai.ChatRequest
	text      detokenizer
	id, model string
	created   int64
}

// delta is what one token adds.
func (c *chat) delta(p pick) openai.ChatChunkChoice {
	var ch openai.ChatChunkChoice
	if p.finish != "stop" {
		ch.Delta.Content = c.text.push(p.id)
	}
	if c.req.ReturnTokenIDs {
		ch.TokenIDs = []int{p.id}
	}
	if p.finish != "" {
		ch.FinishReason = openai.Ptr(p.finish)
	}
	if c.job.top != noLogprobs {
		ch.Logprobs = &openai.ChatLogprobs{Content: []openai.TokenLogprob{c.logprob(p)}}
	}
	return ch
}

// logprob lists the likeliest tokens, which include the picked one only when
// it is among them.
func (c *chat) logprob(p pick) openai.TokenLogprob {
	l := openai.TokenLogprob{Token: c.name(p.id), Logprob: p.logprob, Bytes: c.bytes(p.id), TopLogprobs: []openai.TopLogprob{}}
	for _, t := range p.top[:min(len(p.top), c.job.top)] {
		l.TopLogprobs = append(l.TopLogprobs, openai.TopLogprob{Token: c.name(t.id), Logprob: t.logprob, Bytes: c.bytes(t.id)})
	}
	return l
}

func (c *chat) name(id int) string { return c.e.tokenName(id, c.req.ReturnTokensAsTokenIDs) }

func (c *chat) bytes(id int) []int {
	out := []int{}
	for _, b := range []byte(c.name(id)) {
		out = append(out, int(b))
	}
	return out
}

func (c *chat) whole(w http.ResponseWriter, r *http.Request) {
	ch := openai.ChatChoice{Message: openai.Message{Role: "assistant"}}
	nan := false
	out, err := c.e.generate(r.Context(), c.job, func(p pick) error {
		nan = nan || p.nan
		d := c.delta(p)
		ch.Message.Content += d.Delta.Content
		ch.TokenIDs = append(ch.TokenIDs, d.TokenIDs...)
		ch.FinishReason = d.FinishReason
		if d.Logprobs != nil {
			ch.Logprobs = &openai.ChatLogprobs{Content: append(or(ch.Logprobs, &openai.ChatLogprobs{}).Content, d.Logprobs.Content...)}
		}
		return nil
	})
	switch {
	case err != nil: // the client is gone
		return
	case nan:
		writeError(w, errNaN)
		return
	}
	answer := openai.ChatCompletion{ID: c.id, Object: "chat.completion", Created: c.created, Model: c.model, Choices: []openai.ChatChoice{ch},
		SystemFingerprint: &c.e.fingerprint, Usage: usage(len(c.job.prompt), out)}
	if c.req.ReturnTokenIDs {
		answer.PromptTokenIDs = c.job.prompt
	}
	writeJSON(w, http.StatusOK, answer)
}

func (c *chat) chunk(choices ...openai.ChatChunkChoice) openai.ChatChunk {
	return openai.ChatChunk{ID: c.id, Object: "chat.completion.chunk", Created: c.created, Model: c.model, Choices: choices, SystemFingerprint: &c.e.fingerprint}
}

func (c *chat) stream(w http.ResponseWriter, r *http.Request) {
	s := newEvents(w)
	begun := false
	out, err := c.e.generate(r.Context(), c.job, func(p pick) error {
		if p.nan {
			return errNaN
		}
		if !begun {
			begun = true
			if err := s.send(c.opening()); err != nil {
				return err
			}
		}
		return s.send(c.chunk(c.delta(p)))
	})
	last := c.chunk()
	last.Choices, last.Usage = []openai.ChatChunkChoice{}, usage(len(c.job.prompt), out)
	s.end(err, c.req.StreamOptions, last)
}

// opening is a chat stream's first event: the role, no text.
func (c *chat) opening() openai.ChatChunk {
	ev := c.chunk(openai.ChatChunkChoice{Delta: openai.Delta{Role: "assistant"}})
	if c.req.ReturnTokenIDs {
		ev.PromptTokenIDs = c.job.prompt
	}
	return ev
}
