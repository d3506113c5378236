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

	// Tools are offered to a chat's template, in the form of the chat API.
	Tools json.RawMessage `json:"tools,omitempty"`
}

// TokenizeResponse is the answer of /tokenize.
type TokenizeResponse struct {
	Count       int      `json:"count"`
	MaxModelLen int      `json:"max_model_len"`
	Tokens      []int    `json:"tokens"`
	TokenStrs   []string `json:"token_strs"`
}

// Message is one turn of a chat. Only text content is supported. ToolCalls are read
// from answers.
type Message struct {
	Role      string     `json:"role"`
	Content   string     `json:"content"`
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`
}

// ToolCall is a tool that an answer calls; Arguments is JSON as the model wrote it.
type ToolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// UnmarshalJSON reads content as a text, null, or a list of text parts, which
// are joined by newlines as vLLM joins them.
func (m *Message) UnmarshalJSON(b []byte) error {
	var raw struct {
		Role      string          `json:"role"`
		Content   json.RawMessage `json:"content"`
		ToolCalls []ToolCall      `json:"tool_calls"`
	}
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	*m = Message{Role: raw.Role, ToolCalls: raw.ToolCalls}
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

// Ptr makes the optional fields of requests readable: MaxTokens: openai.Ptr(16).
func Ptr[T any](v T) *T { return &v }
