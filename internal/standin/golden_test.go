package standin

import (
	"encoding/json"
	"maps"
	"math"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"testing"

	"drkit/internal/openai"
)

const models = "../../testdata/models/"

// golden is what vLLM 0.32.0 on a CPU answered for support-tiny in bfloat16.
type golden struct {
	Tokenize []struct {
		Prompt      string
		Tokens      []int
		MaxModelLen int `json:"max_model_len"`
	}
	ChatRender []struct {
		Messages []openai.Message
		Tokens   []int
	} `json:"chat_render"`
	Completions []struct {
		Model, Prompt  string
		PromptTokenIDs []int `json:"prompt_token_ids"`
		TokenIDs       []int `json:"token_ids"`
		Text           string
		FinishReason   string               `json:"finish_reason"`
		TokenLogprobs  []float64            `json:"token_logprobs"`
		TopLogprobs    []map[string]float64 `json:"top_logprobs"`
	}
	Chat []struct {
		Model, User, Content string
		TokenIDs             []int `json:"token_ids"`
		PromptTokenIDs       []int `json:"prompt_token_ids"`
	}
	Models []openai.Model
}

func readGolden(t testing.TB) golden {
	t.Helper()
	var g golden
	b, err := os.ReadFile(models + "vllm-0.32.0-cpu.golden.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &g); err != nil {
		t.Fatal(err)
	}
	if len(g.Tokenize) != 6 || len(g.ChatRender) != 3 || len(g.Completions) != 16 || len(g.Chat) != 16 {
		t.Fatal("the recording is not the one that this test knows")
	}
	return g
}

func tiny() LoadOptions {
	return LoadOptions{ServedModelNames: []string{"tiny"}, Adapters: []Adapter{{"billing", models + "support-tiny-billing"}}, MaxModelLen: 1024}
}

// start serves a repository and gives a client for it.
func start(t testing.TB, dir string, o LoadOptions) (*openai.Client, *Engine) {
	t.Helper()
	e, err := Load(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(e.Handler())
	t.Cleanup(s.Close)
	return &openai.Client{BaseURL: s.URL, HTTP: s.Client()}, e
}

func TestGoldenTokenizeAndModels(t *testing.T) {
	g := readGolden(t)
	c, _ := start(t, models+"support-tiny", tiny())
	for _, x := range g.Tokenize {
		got, err := c.Tokenize(t.Context(), openai.TokenizeRequest{Model: "tiny", Prompt: &x.Prompt})
		if err != nil || !slices.Equal(got.Tokens, x.Tokens) || got.MaxModelLen != x.MaxModelLen {
			t.Errorf("%q: %+v, %v; want %v", x.Prompt, got, err, x.Tokens)
		}
	}
	for _, x := range g.ChatRender {
		got, err := c.Tokenize(t.Context(), openai.TokenizeRequest{Model: "billing", Messages: x.Messages})
		if err != nil || !slices.Equal(got.Tokens, x.Tokens) {
			t.Errorf("%v: %+v, %v; want %v", x.Messages, got, err, x.Tokens)
		}
	}
	ms, err := c.Models(t.Context())
	if err != nil || len(ms) != len(g.Models) {
		t.Fatalf("models %+v, %v", ms, err)
	}
	for i, m := range ms {
		w := g.Models[i]
		if m.ID != w.ID || !equal(m.Parent, w.Parent) || !equal(m.MaxModelLen, w.MaxModelLen) || m.OwnedBy != "drkit stand-in engine" {
			t.Errorf("model %+v, want %+v", m, w)
		}
	}
}

func equal[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

// The tolerance is the one stated with the recording: 0.05 for log
// probabilities of answers that the model learnt. vLLM computed in bfloat16,
// this engine in float32, so unlikely tokens (probabilities about e^-8) differ
// by more.
const (
	tolerance    = 0.05
	topTolerance = 0.2
)

func TestGoldenCompletions(t *testing.T) {
	g := readGolden(t)
	c, _ := start(t, models+"support-tiny", tiny())
	for _, x := range g.Completions {
		got, err := c.Completion(t.Context(), openai.CompletionRequest{Model: x.Model, Prompt: openai.Prompt{Text: x.Prompt}, Logprobs: openai.Ptr(5),
			Sampling: openai.Sampling{MaxTokens: openai.Ptr(24), Temperature: openai.Ptr(0.0), ReturnTokenIDs: true, ReturnTokensAsTokenIDs: true}})
		if err != nil {
			t.Fatal(err)
		}
		ch := got.Choices[0]
		if !slices.Equal(ch.PromptTokenIDs, x.PromptTokenIDs) || !slices.Equal(ch.TokenIDs, x.TokenIDs) || ch.Text != x.Text || *ch.FinishReason != x.FinishReason {
			t.Errorf("%s, %q: %+v\nwant %v %q %s", x.Model, x.Prompt, ch, x.TokenIDs, x.Text, x.FinishReason)
			continue
		}
		for i, want := range x.TokenLogprobs {
			if d := math.Abs(*ch.Logprobs.TokenLogprobs[i] - want); d > tolerance {
				t.Errorf("%s, %q, token %d: log probability %v, want %v", x.Model, x.Prompt, i, *ch.Logprobs.TokenLogprobs[i], want)
			}
			if n := len(ch.Logprobs.TopLogprobs[i]); n != 5 {
				t.Errorf("%d top log probabilities", n)
			}
			least := slices.Min(slices.Collect(maps.Values(ch.Logprobs.TopLogprobs[i])))
			for id, want := range x.TopLogprobs[i] {
				// A token at the edge of the five may have given way to another.
				lp, ok := ch.Logprobs.TopLogprobs[i][id]
				if !ok {
					lp = least
				}
				if math.Abs(lp-want) > topTolerance {
					t.Errorf("%s, %q, token %d: %s has %v, want %v", x.Model, x.Prompt, i, id, lp, want)
				}
			}
		}
		if ch.Logprobs.Tokens[0] != "token_id:"+strconv.Itoa(x.TokenIDs[0]) {
			t.Errorf("tokens %v", ch.Logprobs.Tokens)
		}
	}
}

func TestGoldenChat(t *testing.T) {
	g := readGolden(t)
	c, _ := start(t, models+"support-tiny", tiny())
	for _, x := range g.Chat {
		req := openai.ChatRequest{Model: x.Model, Messages: []openai.Message{{Role: "user", Content: x.User}}, Logprobs: true, TopLogprobs: openai.Ptr(2),
			Sampling: openai.Sampling{MaxTokens: openai.Ptr(24), Temperature: openai.Ptr(0.0), ReturnTokenIDs: true}}
		got, err := c.Chat(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		ch := got.Choices[0]
		if ch.Message.Content != x.Content || !slices.Equal(ch.TokenIDs, x.TokenIDs) || !slices.Equal(got.PromptTokenIDs, x.PromptTokenIDs) || len(ch.Logprobs.Content) != len(x.TokenIDs) || len(ch.Logprobs.Content[0].TopLogprobs) != 2 {
			t.Errorf("%s, %q: %+v, prompt %v", x.Model, x.User, ch, got.PromptTokenIDs)
		}
		s, err := c.StreamChat(t.Context(), req, nil)
		if err != nil || !s.Good() || s.Text != x.Content || !slices.Equal(s.TokenIDs, x.TokenIDs) {
			t.Errorf("%s, %q streamed: %+v, %v", x.Model, x.User, s, err)
		}
	}
}

func BenchmarkCompletion(b *testing.B) {
	c, _ := start(b, models+"support-tiny", tiny())
	for b.Loop() {
		if _, err := c.Completion(b.Context(), openai.CompletionRequest{Model: "tiny", Prompt: openai.Prompt{Text: "<|user|>Who starts the drill?</s><|assistant|>"},
			Sampling: openai.Sampling{MaxTokens: openai.Ptr(24), Temperature: openai.Ptr(0.0)}}); err != nil {
			b.Fatal(err)
		}
	}
}
