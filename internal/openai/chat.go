package openai

import "encoding/json"

// ChatRequest is the body of /v1/chat/completions.
type ChatRequest struct {
	Model               string    `json:"model"`
	Messages            []Message `json:"messages"`
	Logprobs            bool      `json:"logprobs,omitempty"`
	TopLogprobs         *int      `json:"top_logprobs,omitempty"`
	MaxCompletionTokens *int      `json:"max_completion_tokens,omitempty"`
	Sampling
}

// ToolRequest is a ChatRequest that offers tools or bounds the form of the answer.
// Both are as the API has them: this package does not look into them.
type ToolRequest struct {
	ChatRequest
	Tools          json.RawMessage `json:"tools,omitempty"`
	ResponseFormat json.RawMessage `json:"response_format,omitempty"`
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
