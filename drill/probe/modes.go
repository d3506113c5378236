package probe

import (
	"context"
	"encoding/json"
	"net/http"

	"drkit/internal/openai"
	"drkit/manifest/probes"
)

// offered is the tool that is offered, with its fields in the order in which vLLM
// hands them to the template.
var offered = json.RawMessage(`[{"type":"function","function":{"name":"region_status","description":"Says whether a region serves.","parameters":{"type":"object","properties":{"region":{"type":"string"}},"required":["region"]}}}]`)

var anObject = json.RawMessage(`{"type":"json_object"}`)

const (
	toolQuestion = "Does eu-west-1 serve? Use the tool."
	jsonQuestion = "Name the region that takes over, as a JSON object."
)

// tools records how a tool is rendered into the prompt, and what the model makes of
// it, where its template looks at tools.
func (r *recorder) tools(ctx context.Context, base string) error {
	if !r.recording.Tools {
		r.lacks("tool calls: the chat template looks at no tools")
		return nil
	}
	messages := []openai.Message{{Role: "user", Content: toolQuestion}}
	err := r.ask(ctx, probes.Probe{ID: "tools-render", Kind: probes.KindRender, Model: base}, openai.TokenizeRequest{Model: base, Messages: messages, Tools: offered})
	if unable(err) {
		r.lacks("tools in /tokenize: %v", err)
		err = nil
	}
	if err != nil {
		return err
	}
	err = r.chat(ctx, probes.Probe{ID: "tools", Kind: probes.KindTools, Model: base}, messages, offered, nil)
	if unable(err) {
		r.lacks("tool calls: %v", err)
		return nil
	}
	return err
}

// json records an answer that must be a JSON object.
func (r *recorder) json(ctx context.Context, base string) error {
	messages := []openai.Message{{Role: "user", Content: jsonQuestion}}
	err := r.chat(ctx, probes.Probe{ID: "json", Kind: probes.KindJSON, Model: base}, messages, nil, anObject)
	if unable(err) {
		r.lacks("JSON mode: %v", err)
		return nil
	}
	return err
}

// unable reports whether the endpoint refused a question as one that it cannot answer:
// a model without a chat template, an engine without a tool parser.
func unable(err error) bool {
	code := openai.StatusCode(err)
	return (code == http.StatusBadRequest || code == http.StatusNotFound || code == http.StatusNotImplemented) && !openai.IsNaN(err)
}

func (r *recorder) chat(ctx context.Context, p probes.Probe, messages []openai.Message, tools, format json.RawMessage) error {
	sampling := openai.Sampling{MaxTokens: openai.Ptr(r.maxTokens()), Temperature: openai.Ptr(0.0), ReturnTokenIDs: true, ReturnTokensAsTokenIDs: true}
	return r.ask(ctx, p, openai.ToolRequest{Tools: tools, ResponseFormat: format,
		ChatRequest: openai.ChatRequest{Model: p.Model, Messages: messages, Logprobs: true, TopLogprobs: openai.Ptr(topTokens), Sampling: sampling}})
}
