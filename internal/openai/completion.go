package openai

// CompletionRequest is the body of /v1/completions. Logprobs is how many top
// log probabilities each token brings; ask for them in every probe, because
// only then does vLLM refuse NaN.
type CompletionRequest struct {
	Model    string `json:"model"`
	Prompt   Prompt `json:"prompt"`
	Logprobs *int   `json:"logprobs,omitempty"`
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
