// Package probes holds golden behaviour: what an endpoint answered when it was
// known to be right, bound to the model and engine it was recorded from.
package probes

import (
	"encoding/json"

	"drkit/manifest/digest"
)

// Schema names the format of the JSON.
const Schema = "drkit.probes/1.1"

// ProbeSet is a recording. Subject is the SHA-256 of the model and engine parts
// without probes: a set that is bound to another subject proves nothing.
type ProbeSet struct {
	Schema        string        `json:"schema"`
	Engine        string        `json:"engine"`         // kind and version that answered
	HardwareClass string        `json:"hardware_class"` // "cpu", "h100x8": other hardware changes low bits
	Residency     string        `json:"residency,omitempty"`
	Subject       digest.Digest `json:"subject"`
	Basis         string        `json:"basis,omitempty"` // how it is known that the endpoint served the subject
	Tolerance     float64       `json:"tolerance"`       // greatest difference of a log probability that still counts as equal
	Lacks         []string      `json:"lacks,omitempty"` // what the endpoint does not do, so that nothing of it is recorded
	Probes        []Probe       `json:"probes"`
}

// Kinds of probes.
const (
	KindModels     = "models"     // /v1/models: ids, parents, max_model_len
	KindTokenize   = "tokenize"   // token ids of a text
	KindRender     = "render"     // token ids of a rendered conversation
	KindCompletion = "completion" // greedy tokens with top log probabilities
	KindTools      = "tools"      // a greedy chat that is offered a tool: tokens, and which tool is called with what
	KindJSON       = "json"       // a greedy chat that must be answered by a JSON object
)

// Greedy reports whether a kind is answered by greedy tokens with log probabilities.
func Greedy(kind string) bool {
	return kind == KindCompletion || kind == KindTools || kind == KindJSON
}

// Probe is one question and its right answer. DiffersFrom names the probe whose
// token ids must differ: an adapter that answers as its base is inert.
type Probe struct {
	ID          string          `json:"id"`
	Kind        string          `json:"kind"`
	Model       string          `json:"model"`
	DiffersFrom string          `json:"differs_from,omitempty"`
	Request     json.RawMessage `json:"request"`
	Want        Answer          `json:"want"`
}

// Answer is what was recorded; log probabilities are natural logarithms.
type Answer struct {
	PromptIDs   []int             `json:"prompt_ids,omitempty"`
	TokenIDs    []int             `json:"token_ids,omitempty"`
	Text        string            `json:"text,omitempty"`
	Logprobs    []float64         `json:"logprobs,omitempty"`
	Top         []map[int]float64 `json:"top,omitempty"`
	MaxModelLen int               `json:"max_model_len,omitempty"`
	Models      []string          `json:"models,omitempty"` // ids served, for KindModels
	Finish      string            `json:"finish,omitempty"`
	ToolCalls   []ToolCall        `json:"tool_calls,omitempty"` // for KindTools; none: it answered in words
}

// ToolCall is a call of a tool, its arguments as the model wrote them.
type ToolCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}
