package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Model is one entry of /v1/models. An adapter names its base model as Parent
// and has no MaxModelLen; Root is the path or id that was loaded.
type Model struct {
	ID          string  `json:"id"`
	Object      string  `json:"object"`
	Created     int64   `json:"created"`
	OwnedBy     string  `json:"owned_by"`
	Root        string  `json:"root"`
	Parent      *string `json:"parent"`
	MaxModelLen *int    `json:"max_model_len"`
}

// ModelList is the answer of /v1/models.
type ModelList struct {
	Object string  `json:"object"`
	Data   []Model `json:"data"`
}

// Prompt is a text or a list of token ids; with IDs set, even empty, it is the
// list. A cache-aware router may see only one of the two forms.
type Prompt struct {
	Text string
	IDs  []int
}

// MarshalJSON writes a string or an array of numbers.
func (p Prompt) MarshalJSON() ([]byte, error) {
	if p.IDs != nil {
		return json.Marshal(p.IDs)
	}
	return json.Marshal(p.Text)
}

// UnmarshalJSON reads a string or an array of numbers. Several prompts in one
// request are not supported.
func (p *Prompt) UnmarshalJSON(b []byte) error {
	*p = Prompt{}
	if bytes.HasPrefix(bytes.TrimSpace(b), []byte("[")) {
		p.IDs = []int{}
		if err := json.Unmarshal(b, &p.IDs); err != nil {
			return errors.New("prompt must be a string or a list of token ids")
		}
		return nil
	}
	if err := json.Unmarshal(b, &p.Text); err != nil {
		return errors.New("prompt must be a string or a list of token ids")
	}
	return nil
}

// TokenizeRequest asks for a prompt's ids, or for those of rendered messages.
// Prompt nil and Messages set: chat. AddSpecialTokens nil is the engine's
// default: true for a prompt, false for messages.
type TokenizeRequest struct {
	Model               string    `json:"model,omitempty"`
	Prompt              *string   `json:"prompt,omitempty"`
	Messages            []Message `json:"messages,omitempty"`
	AddSpecialTokens    *bool     `json:"add_special_tokens,omitempty"`
	AddGenerationPrompt *bool     `json:"add_generation_prompt,omitempty"`
	ReturnTokenStrs     bool      `json:"return_token_strs,omitempty"`
}

// TokenizeResponse is the answer of /tokenize.
type TokenizeResponse struct {
	Count       int      `json:"count"`
	MaxModelLen int      `json:"max_model_len"`
	Tokens      []int    `json:"tokens"`
	TokenStrs   []string `json:"token_strs"`
}

// Message is one turn of a chat. Only text content is supported.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// UnmarshalJSON reads content as a text, null, or a list of text parts, which
// are joined by newlines as vLLM joins them.
func (m *Message) UnmarshalJSON(b []byte) error {
	var raw struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	*m = Message{Role: raw.Role}
	if len(raw.Content) == 0 || json.Unmarshal(raw.Content, &m.Content) == nil {
		return nil
	}
	var parts []struct{ Type, Text string }
	if err := json.Unmarshal(raw.Content, &parts); err != nil {
		return errors.New("a message's content must be a text or a list of text parts")
	}
	texts := make([]string, len(parts))
	for i, p := range parts {
		if p.Type != "text" {
			return fmt.Errorf("a message has a part of type %q; only text is supported", p.Type)
		}
		texts[i] = p.Text
	}
	m.Content = strings.Join(texts, "\n")
	return nil
}

// StreamOptions asks a stream for a last event with the usage.
type StreamOptions struct {
	IncludeUsage bool `json:"include_usage,omitempty"`
}

// Sampling is what completions and chats share. A nil pointer leaves the
// engine's default, which for vLLM includes generation_config.json.
type Sampling struct {
	MaxTokens              *int     `json:"max_tokens,omitempty"`
	Temperature            *float64 `json:"temperature,omitempty"`
	Seed                   *int64   `json:"seed,omitempty"`
	IgnoreEOS              bool     `json:"ignore_eos,omitempty"`
	ReturnTokenIDs         bool     `json:"return_token_ids,omitempty"`
	ReturnTokensAsTokenIDs bool     `json:"return_tokens_as_token_ids,omitempty"`

	Stream        bool           `json:"stream,omitempty"`
	StreamOptions *StreamOptions `json:"stream_options,omitempty"`
}

// CompletionRequest is the body of /v1/completions. Logprobs is how many top
// log probabilities each token brings; ask for them in every probe, because
// only then does vLLM refuse NaN.
type CompletionRequest struct {
	Model    string `json:"model"`
	Prompt   Prompt `json:"prompt"`
	Logprobs *int   `json:"logprobs,omitempty"`
	Sampling
}

// ChatRequest is the body of /v1/chat/completions.
type ChatRequest struct {
	Model               string    `json:"model"`
	Messages            []Message `json:"messages"`
	Logprobs            bool      `json:"logprobs,omitempty"`
	TopLogprobs         *int      `json:"top_logprobs,omitempty"`
	MaxCompletionTokens *int      `json:"max_completion_tokens,omitempty"`
	Sampling
}

// Completion is the answer of /v1/completions, and each event of its stream.
type Completion struct {
	ID                string             `json:"id"`
	Object            string             `json:"object"`
	Created           int64              `json:"created"`
	Model             string             `json:"model"`
	Choices           []CompletionChoice `json:"choices"`
	SystemFingerprint *string            `json:"system_fingerprint"`
	Usage             *Usage             `json:"usage"`
}

// CompletionChoice is one answer to the prompt. FinishReason is nil in a
// stream's events before the last. TokenIDs include the end token, which Text
// does not show.
type CompletionChoice struct {
	Index          int       `json:"index"`
	Text           string    `json:"text"`
	Logprobs       *Logprobs `json:"logprobs"`
	FinishReason   *string   `json:"finish_reason"`
	StopReason     any       `json:"stop_reason"`
	TokenIDs       []int     `json:"token_ids"`
	PromptTokenIDs []int     `json:"prompt_token_ids"`
}

// Logprobs are the log probabilities (natural logarithm) of a completion, one
// entry per token. The keys of TopLogprobs are token texts, or "token_id:N"
// when the request set ReturnTokensAsTokenIDs: texts can collide, ids cannot.
type Logprobs struct {
	TextOffset    []int                `json:"text_offset"`
	TokenLogprobs []*float64           `json:"token_logprobs"`
	Tokens        []string             `json:"tokens"`
	TopLogprobs   []map[string]float64 `json:"top_logprobs"`
}

// ChatCompletion is the answer of /v1/chat/completions.
type ChatCompletion struct {
	ID                string       `json:"id"`
	Object            string       `json:"object"`
	Created           int64        `json:"created"`
	Model             string       `json:"model"`
	Choices           []ChatChoice `json:"choices"`
	SystemFingerprint *string      `json:"system_fingerprint"`
	Usage             *Usage       `json:"usage"`
	PromptTokenIDs    []int        `json:"prompt_token_ids"`
}

// ChatChoice is one answer of a chat.
type ChatChoice struct {
	Index        int           `json:"index"`
	Message      Message       `json:"message"`
	Logprobs     *ChatLogprobs `json:"logprobs"`
	FinishReason *string       `json:"finish_reason"`
	StopReason   any           `json:"stop_reason"`
	TokenIDs     []int         `json:"token_ids"`
}

// ChatLogprobs are a chat answer's log probabilities, one entry per token.
type ChatLogprobs struct {
	Content []TokenLogprob `json:"content"`
}

// TokenLogprob is one generated token with the likeliest tokens at its place.
type TokenLogprob struct {
	Token       string       `json:"token"`
	Logprob     float64      `json:"logprob"`
	Bytes       []int        `json:"bytes"`
	TopLogprobs []TopLogprob `json:"top_logprobs"`
}

// TopLogprob is one of the likeliest tokens at a place.
type TopLogprob struct {
	Token   string  `json:"token"`
	Logprob float64 `json:"logprob"`
	Bytes   []int   `json:"bytes"`
}

// Usage counts tokens. PromptTokensDetails is nil unless the engine was told
// to report it; its CachedTokens is the per-request proof of a cache hit.
type Usage struct {
	PromptTokens        int            `json:"prompt_tokens"`
	CompletionTokens    int            `json:"completion_tokens"`
	TotalTokens         int            `json:"total_tokens"`
	PromptTokensDetails *PromptDetails `json:"prompt_tokens_details"`
}

// PromptDetails says how many prompt tokens came from the prefix cache; nil
// means that the engine does not say.
type PromptDetails struct {
	CachedTokens *int `json:"cached_tokens"`
}

// ChatChunk is one event of a chat's stream.
type ChatChunk struct {
	ID                string            `json:"id"`
	Object            string            `json:"object"`
	Created           int64             `json:"created"`
	Model             string            `json:"model"`
	Choices           []ChatChunkChoice `json:"choices"`
	SystemFingerprint *string           `json:"system_fingerprint"`
	Usage             *Usage            `json:"usage,omitempty"`
	PromptTokenIDs    []int             `json:"prompt_token_ids,omitempty"`
}

// ChatChunkChoice is what one event adds to an answer.
type ChatChunkChoice struct {
	Index        int           `json:"index"`
	Delta        Delta         `json:"delta"`
	Logprobs     *ChatLogprobs `json:"logprobs"`
	FinishReason *string       `json:"finish_reason"`
	TokenIDs     []int         `json:"token_ids"`
}

// Delta is the new text of an event; the first event has the role.
type Delta struct {
	Role    string `json:"role,omitempty"`
	Content string `json:"content"`
}

// Ptr makes the optional fields of requests readable: MaxTokens: openai.Ptr(16).
func Ptr[T any](v T) *T { return &v }
