package probe

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"drkit/internal/openai"
	"drkit/manifest/digest"
	"drkit/manifest/probes"
)

// endpoint is an engine with answers written by hand in the form that vLLM 0.32.0
// gives: one token for every question, another one for the adapter.
type endpoint struct {
	maxLen  int
	noTools bool // --enable-auto-tool-choice was not given
	noJSON  bool
	inert   bool // the adapter is not applied
	nan     bool
	arg     string // of the tool call
	prompts []int  // lengths of the prompts that completions had
}

const token = 280

func (e *endpoint) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	var body struct {
		Model    string
		Prompt   openai.Prompt
		Messages []map[string]any
		Tools    json.RawMessage
		Format   json.RawMessage `json:"response_format"`
	}
	_ = json.NewDecoder(q.Body).Decode(&body)
	reply := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	refuse := func(text string) {
		w.WriteHeader(http.StatusBadRequest)
		reply(openai.ErrorBody{Error: openai.ErrorDetail{Message: text, Type: "BadRequestError", Code: 400}})
	}
	switch q.URL.Path {
	case "/version":
		reply(map[string]string{"version": "0.32.0"})
	case "/v1/models":
		parent := "support"
		reply(openai.ModelList{Data: []openai.Model{{ID: "support", OwnedBy: "vllm", Root: "/m", MaxModelLen: &e.maxLen}, {ID: "billing", OwnedBy: "vllm", Parent: &parent}}})
	case "/tokenize":
		ids := []int{4, 5, 6}
		if body.Tools != nil {
			ids = []int{4, 9, 9, 9, 6}
		}
		reply(openai.TokenizeResponse{Tokens: ids, MaxModelLen: e.maxLen})
	case "/v1/completions":
		if e.nan {
			refuse("Out of range float values are not JSON compliant: nan")
			return
		}
		e.prompts = append(e.prompts, len(body.Prompt.IDs))
		l := -0.01
		if body.Model == "billing" && !e.inert {
			l = -0.5
		}
		finish := "length"
		reply(openai.Completion{Choices: []openai.CompletionChoice{{Text: " eu", FinishReason: &finish, TokenIDs: []int{token}, PromptTokenIDs: body.Prompt.IDs,
			Logprobs: &openai.Logprobs{TokenLogprobs: []*float64{&l}, TopLogprobs: []map[string]float64{{"token_id:280": l, "token_id:17": l - 6}}}}}})
	case "/v1/chat/completions":
		switch {
		case body.Tools != nil && e.noTools:
			refuse(`"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set`)
			return
		case body.Format != nil && e.noJSON:
			refuse("response_format is not supported")
			return
		}
		choice := map[string]any{"finish_reason": "stop", "token_ids": []int{token}, "message": map[string]any{"role": "assistant", "content": `{"region": "eu-west-1"}`},
			"logprobs": map[string]any{"content": []any{map[string]any{"token": "token_id:280", "logprob": -0.2, "top_logprobs": []any{map[string]any{"token": "token_id:280", "logprob": -0.2}}}}}}
		if body.Tools != nil {
			choice["message"] = map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{"id": "x", "type": "function", "function": map[string]any{"name": "region_status", "arguments": e.arg}}}}
			choice["finish_reason"] = "tool_calls"
		}
		reply(map[string]any{"choices": []any{choice}, "prompt_token_ids": []int{4, 5, 6}})
	default:
		http.NotFound(w, q)
	}
}

func (e *endpoint) client(t *testing.T) *openai.Client {
	t.Helper()
	s := httptest.NewServer(e)
	t.Cleanup(s.Close)
	return &openai.Client{BaseURL: s.URL, HTTP: s.Client()}
}

func recording() Recording {
	return Recording{Subject: digest.Digest{Algorithm: digest.SHA256, Hex: "ab"}, Questions: []string{"Hello"}, HardwareClass: "cpu", Tolerance: 0.1, MaxTokens: 4, Tools: true}
}

func ids(set probes.ProbeSet) (all []string) {
	for _, p := range set.Probes {
		all = append(all, p.ID)
	}
	return all
}

func one(t *testing.T, set probes.ProbeSet, id string) probes.Probe {
	t.Helper()
	i := slices.IndexFunc(set.Probes, func(p probes.Probe) bool { return p.ID == id })
	if i < 0 {
		t.Fatalf("no probe %s in %v", id, ids(set))
	}
	return set.Probes[i]
}

// TestRecordAndCompare: all kinds are recorded, and each turns red for its own change.
func TestRecordAndCompare(t *testing.T) {
	e := &endpoint{maxLen: 9000, arg: `{"region":"eu-west-1"}`}
	c := e.client(t)
	set, err := Record(t.Context(), c, recording())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"models", "q1-tokenize", "q1-render", "q1-base", "q1-billing", "tools-render", "tools", "json", "long-context"}
	if !slices.Equal(ids(set), want) || len(set.Lacks) != 0 {
		t.Errorf("%v, lacks %v", ids(set), set.Lacks)
	}
	call := one(t, set, "tools").Want
	if len(call.ToolCalls) != 1 || call.ToolCalls[0] != (probes.ToolCall{Name: "region_status", Arguments: `{"region":"eu-west-1"}`}) || call.Finish != "tool_calls" {
		t.Errorf("%+v", call)
	}
	if res, err := Compare(t.Context(), c, set); err != nil || !res.Equal() || res.Completions != 5 {
		t.Fatalf("the same endpoint differs: %+v, %v", res, err)
	}
	for name, tc := range map[string]struct {
		change func()
		says   string
	}{
		"another argument": {func() { e.arg = `{"region":"us-east-1"}` }, "tools: tool calls"},
		"no tool parser":   {func() { e.noTools = true }, "probe tools: "},
		"no JSON mode":     {func() { e.noJSON = true }, "probe json: "},
		"an inert adapter": {func() { e.inert = true }, "adapter billing answers as its base does"},
		"NaN":              {func() { e.nan = true }, "log probabilities are NaN"},
		"a shorter model":  {func() { e.maxLen = 4096 }, "max_model_len"},
	} {
		sound := *e
		tc.change()
		res, err := Compare(t.Context(), c, set)
		*e = sound
		text := strings.Join(res.Errors, "\n")
		for _, d := range res.Differences {
			text += "\n" + d.String()
		}
		if err != nil || res.Equal() || !strings.Contains(text, tc.says) {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}

// TestWhatIsLacking: what the endpoint or the model has not is said, not recorded.
func TestWhatIsLacking(t *testing.T) {
	e := &endpoint{maxLen: 600, noTools: true, noJSON: true}
	r := recording()
	r.Original = 600
	set, err := Record(t.Context(), e.client(t), r)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(set.Lacks, "\n"); len(set.Lacks) != 3 || !strings.Contains(got, "tool calls: ") || !strings.Contains(got, "JSON mode: ") || !strings.Contains(got, "a prompt beyond 600 tokens") {
		t.Errorf("%q", set.Lacks)
	}
	r.Tools = false
	if set, err = Record(t.Context(), e.client(t), r); err != nil || slices.Contains(ids(set), "tools-render") || !strings.Contains(set.Lacks[0], "looks at no tools") {
		t.Errorf("%v %q, %v", ids(set), set.Lacks, err)
	}
	if _, err := Record(t.Context(), (&endpoint{maxLen: 600, nan: true}).client(t), r); !errors.Is(err, ErrNaN) {
		t.Errorf("NaN was recorded: %v", err)
	}
	if _, err := Record(t.Context(), (&endpoint{maxLen: 600, inert: true}).client(t), r); err == nil || !strings.Contains(err.Error(), "it is not applied") {
		t.Errorf("an inert adapter was recorded: %v", err)
	}
}

// TestLongContext: the long prompt goes an eighth beyond the unscaled length, as far as
// the engine takes it.
func TestLongContext(t *testing.T) {
	for name, tc := range map[string]struct{ maxLen, original, want int }{
		"nothing is scaled":          {9000, 0, 4096},
		"a short model":              {1000, 0, 996},
		"beyond 8192":                {131072, 8192, 9216},
		"shorter than what is usual": {131072, 2048, 4096},
		"just beyond":                {8200, 8192, 8196},
		"with one token to answer":   {8194, 8192, 8193},
	} {
		e := &endpoint{maxLen: tc.maxLen}
		r := recording()
		r.Original = tc.original
		if _, err := Record(t.Context(), e.client(t), r); err != nil {
			t.Fatal(err)
		}
		if got := slices.Max(e.prompts); got != tc.want {
			t.Errorf("%s: %d tokens, want %d", name, got, tc.want)
		}
	}
}
