package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"drkit/internal/errext"
	"drkit/internal/openai"
	"drkit/manifest/digest"
	"drkit/manifest/probes"
)

// DefaultTolerance is the greatest difference of a log probability that counts
// as equal: other attention kernels and parallel layouts move low bits.
const DefaultTolerance = 0.1

// longPrompt bounds the long-context probe, in tokens.
const longPrompt = 4096

// Recording says what to record.
type Recording struct {
	Subject       digest.Digest // model and engine parts that the endpoint serves
	Questions     []string
	HardwareClass string
	Residency     string
	Tolerance     float64
	MaxTokens     int
	Basis         string // how it is known that the endpoint serves the subject
	// Original is the length that the model's rotary positions were trained to before
	// they were scaled, in tokens; 0: they are not scaled, or it is not known. The long
	// prompt goes beyond it.
	Original int
	Tools    bool // the chat template looks at the tools of a request
}

// DefaultQuestions are asked when a team names none of its own.
var DefaultQuestions = []string{"Which region takes over?", "How long may a recovery take?", "What must the manifest hold?", "Hello", "Count to five"}

// Record asks an endpoint that is known to be right and returns its answers as a
// probe set: the served models, the token ids of texts, the rendered chats, greedy
// completions of the base and of every adapter, and one long prompt. Each
// question is asked twice; answers that are not stable cannot judge anything.
func Record(ctx context.Context, c *openai.Client, r Recording) (probes.ProbeSet, error) {
	set := probes.ProbeSet{Schema: probes.Schema, HardwareClass: r.HardwareClass, Residency: r.Residency, Subject: r.Subject, Tolerance: r.Tolerance, Basis: r.Basis}
	models, err := c.Models(ctx)
	if err != nil {
		return set, fmt.Errorf("asking for the served models: %w", err)
	}
	base, adapters, err := split(models)
	if err != nil {
		return set, err
	}
	if set.Engine, err = engineName(ctx, c, base); err != nil {
		return set, err
	}
	rec := recorder{client: c, set: &set, recording: r}
	if err := rec.all(ctx, base, adapters); err != nil {
		return set, err
	}
	return set, errors.Join(set.Validate(), applied(set, adapters))
}

// applied refuses a recording in which an adapter answers as its base does.
func applied(set probes.ProbeSet, adapters []string) error {
	for _, name := range adapters {
		if !slices.ContainsFunc(set.Probes, func(p probes.Probe) bool { return p.Model == name && p.DiffersFrom != "" }) {
			return errext.WithHint(fmt.Errorf("adapter %s answers every question as its base does, to the last bit: it is not applied", name), "compare its files with the release; the engine's log says whether it was loaded")
		}
	}
	return nil
}

// split tells the base model from its adapters.
func split(models []openai.Model) (base openai.Model, adapters []string, err error) {
	bases := 0
	for _, m := range models {
		if m.Parent != nil {
			adapters = append(adapters, m.ID)
			continue
		}
		if bases == 0 {
			base = m
		}
		bases++
	}
	if bases == 0 {
		return base, nil, errors.New("the endpoint serves no base model")
	}
	slices.Sort(adapters)
	return base, adapters, nil
}

func engineName(ctx context.Context, c *openai.Client, base openai.Model) (string, error) {
	version, err := c.Version(ctx)
	if err != nil {
		return "", fmt.Errorf("asking for the engine's version: %w", err)
	}
	if strings.HasPrefix(version, "stand-in") {
		return "drkit " + version, nil
	}
	return strings.TrimSpace(base.OwnedBy + " " + version), nil
}

type recorder struct {
	client    *openai.Client
	set       *probes.ProbeSet
	recording Recording
}

func (r *recorder) all(ctx context.Context, base openai.Model, adapters []string) error {
	if err := r.add(ctx, probes.Probe{ID: "models", Kind: probes.KindModels, Model: base.ID, Request: json.RawMessage("{}")}); err != nil {
		return err
	}
	var seen []int
	for i, q := range r.recording.Questions {
		ids, err := r.question(ctx, base.ID, adapters, fmt.Sprintf("q%d", i+1), q)
		if err != nil {
			return err
		}
		seen = append(seen, ids...)
	}
	if err := errors.Join(r.tools(ctx, base.ID), r.json(ctx, base.ID)); err != nil {
		return err
	}
	return r.long(ctx, base, seen)
}

// question records one text in all forms and returns the ids of its prompt.
func (r *recorder) question(ctx context.Context, base string, adapters []string, id, text string) ([]int, error) {
	if err := r.ask(ctx, probes.Probe{ID: id + "-tokenize", Kind: probes.KindTokenize, Model: base}, openai.TokenizeRequest{Model: base, Prompt: &text}); err != nil {
		return nil, err
	}
	prompt := r.last().Want.PromptIDs
	rendered := openai.TokenizeRequest{Model: base, Messages: []openai.Message{{Role: "user", Content: text}}}
	err := r.ask(ctx, probes.Probe{ID: id + "-render", Kind: probes.KindRender, Model: base}, rendered)
	if err != nil && openai.StatusCode(err) != 400 {
		return nil, err
	}
	if err == nil { // a model without a chat template is asked in plain text
		prompt = r.last().Want.PromptIDs
	}
	if err := r.completion(ctx, base, id+"-base", prompt, r.maxTokens()); err != nil {
		return nil, err
	}
	baseAnswer := r.last().Want
	for _, adapter := range adapters {
		if err := r.completion(ctx, adapter, id+"-"+adapter, prompt, r.maxTokens()); err != nil {
			return nil, err
		}
		if !probes.Inert(r.last().Want, baseAnswer) {
			r.last().DiffersFrom = id + "-base"
		}
	}
	return prompt, nil
}

// long records one prompt that is as long as the model allows, up to 4096 tokens, and
// an eighth beyond the length of unscaled positions where that is more: a lost rope
// setting shows only there.
func (r *recorder) long(ctx context.Context, base openai.Model, ids []int) error {
	if base.MaxModelLen == nil || len(ids) == 0 {
		return nil
	}
	original := r.recording.Original
	tokens := r.maxTokens()
	if *base.MaxModelLen-tokens <= original {
		tokens = 1
	}
	length := min(*base.MaxModelLen-tokens, max(longPrompt, original+original/8))
	if original > 0 && length <= original {
		r.lacks("a prompt beyond %d tokens, the length before positions are scaled: max_model_len is %d", original, *base.MaxModelLen)
	}
	if length <= len(ids) {
		return nil
	}
	prompt := make([]int, 0, length)
	for len(prompt) < length {
		prompt = append(prompt, ids[:min(len(ids), length-len(prompt))]...)
	}
	return r.completion(ctx, base.ID, "long-context", prompt, tokens)
}

func (r *recorder) lacks(format string, args ...any) {
	r.set.Lacks = append(r.set.Lacks, fmt.Sprintf(format, args...))
}

func (r *recorder) maxTokens() int { return max(r.recording.MaxTokens, 1) }

func (r *recorder) completion(ctx context.Context, model, id string, prompt []int, tokens int) error {
	sampling := openai.Sampling{MaxTokens: openai.Ptr(tokens), Temperature: openai.Ptr(0.0), ReturnTokenIDs: true, ReturnTokensAsTokenIDs: true}
	return r.ask(ctx, probes.Probe{ID: id, Kind: probes.KindCompletion, Model: model},
		openai.CompletionRequest{Model: model, Prompt: openai.Prompt{IDs: prompt}, Logprobs: openai.Ptr(topTokens), Sampling: sampling})
}

func (r *recorder) ask(ctx context.Context, p probes.Probe, request any) (err error) {
	if p.Request, err = json.Marshal(request); err != nil {
		return err
	}
	return r.add(ctx, p)
}

// add asks twice and keeps the answer when both agree.
func (r *recorder) add(ctx context.Context, p probes.Probe) error {
	first, err := Ask(ctx, r.client, p)
	if err != nil {
		return err
	}
	p.Want = first
	second, err := Ask(ctx, r.client, p)
	if err != nil {
		return err
	}
	if found := probes.Compare(p, second, r.recording.Tolerance); len(found) > 0 {
		return errext.WithHint(fmt.Errorf("the endpoint answers the same question differently: %s", found[0]), "record from one idle replica, not through a balancer over different releases")
	}
	r.set.Probes = append(r.set.Probes, p)
	return nil
}

func (r *recorder) last() *probes.Probe { return &r.set.Probes[len(r.set.Probes)-1] }
