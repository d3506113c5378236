package model

import (
	"errors"
	"strings"
	"time"

	"drkit/internal/chattemplate"
)

// Rendered is what the template makes of sample conversations. drkit's renderer
// is not the engine's: what it cannot render is unknown, never wrong.
type Rendered struct {
	Unknown string `json:"unknown,omitempty"` // why the samples could not be rendered; the rest is then not said
	Refuses string `json:"refuses,omitempty"` // what the template says when it refuses every sample
	Loses   bool   `json:"loses,omitempty"`   // the text of a user's message is not in the prompt
	// Lead is what stands between a user's message and the answer in a
	// conversation with history, when a prompt that asks for an answer ends
	// without it.
	Lead string `json:"lead,omitempty"`
	// ToolsLost says that the template looks at tools, and a tool's name is not
	// in the prompt.
	ToolsLost bool `json:"tools_lost,omitempty"`
}

const (
	maxTemplate = 256 << 10       // bytes of a template that is looked at; the longest published ones have some 30 KiB
	maxNesting  = 100             // levels of brackets or tags
	maxRender   = 5 * time.Second // for all samples; they take milliseconds
)

// render tries the template. One that does not end is left to itself.
func render(text string, tokens *Tokenizer) *Rendered {
	done := make(chan *Rendered, 1)
	go func() { done <- samples(text, tokens) }()
	select {
	case r := <-done:
		return r
	case <-time.After(maxRender):
		return &Rendered{Unknown: "it takes longer than drkit waits"}
	}
}

const (
	asked    = "Which harbour is the oldest"
	answered = "Byblos"
	toolName = "tide_table"
)

// samples renders one question, the question with its answer, and the question
// with a tool.
func samples(text string, tokens *Tokenizer) *Rendered {
	t, err := chattemplate.Parse(text)
	if err != nil {
		return &Rendered{Unknown: err.Error()}
	}
	in := chattemplate.Input{Messages: []chattemplate.Message{{Role: "user", Content: asked}}, AddGenerationPrompt: true,
		BOSToken: tokens.BOS, EOSToken: tokens.EOS, Now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	prompt, err := t.Render(in)
	var raised *chattemplate.RaisedError
	switch {
	case errors.As(err, &raised) && !takesParts(text) && refusesAll(t, in):
		return &Rendered{Refuses: raised.Message}
	case errors.As(err, &raised):
		return &Rendered{Unknown: "it refuses one question alone: " + raised.Message}
	case err != nil:
		return &Rendered{Unknown: err.Error()}
	}
	r := &Rendered{Loses: !strings.Contains(prompt, asked) && !takesParts(text)}
	r.Lead = lead(t, in, prompt)
	in.Tools = []any{map[string]any{"type": "function", "function": map[string]any{"name": toolName, "description": "Tides of a harbour",
		"parameters": map[string]any{"type": "object", "properties": map[string]any{}}}}}
	with, err := t.Render(in)
	r.ToolsLost = err == nil && toolsVariable.MatchString(text) && !strings.Contains(with, toolName)
	return r
}

// refusesAll reports whether a template refuses longer conversations too.
func refusesAll(t *chattemplate.Template, in chattemplate.Input) bool {
	user, system := in.Messages[0], chattemplate.Message{Role: "system", Content: "Be brief."}
	var raised *chattemplate.RaisedError
	for _, messages := range [][]chattemplate.Message{{system, user}, {user, {Role: "assistant", Content: answered}, user}} {
		in.Messages = messages
		if _, err := t.Render(in); !errors.As(err, &raised) {
			return false
		}
	}
	return true
}

// takesParts reports whether a template takes a message as a list of parts, as
// those of multimodal models do; the engine then hands it such a list.
func takesParts(text string) bool {
	return strings.Contains(text, "['type']") || strings.Contains(text, `["type"]`) || strings.Contains(text, ".type")
}

// lead compares a prompt that asks for an answer with a conversation that has
// one. A template that writes something before an answer, such as
// <|assistant|>, has to end the prompt with it; one that ends a user's message
// with all that is needed, such as [/INST], writes nothing there.
func lead(t *chattemplate.Template, in chattemplate.Input, prompt string) string {
	in.AddGenerationPrompt = false
	bare, err := t.Render(in)
	if err != nil || bare != prompt {
		return "" // the prompt asks for the answer in its own way
	}
	in.Messages = append(in.Messages[:1:1], chattemplate.Message{Role: "assistant", Content: answered})
	whole, err := t.Render(in)
	rest, extends := strings.CutPrefix(whole, bare)
	before, _, has := strings.Cut(rest, answered)
	if err != nil || !extends || !has {
		return ""
	}
	return strings.TrimSpace(before)
}
