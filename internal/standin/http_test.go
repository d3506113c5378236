package standin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"drkit/internal/openai"
)

func post(t *testing.T, c *openai.Client, path, body string) (int, string) {
	t.Helper()
	resp, err := c.HTTP.Post(c.BaseURL+path, "application/json", strings.NewReader(body))
	check(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	check(t, err)
	return resp.StatusCode, string(b)
}

func TestBadRequests(t *testing.T) {
	c, _ := start(t, models+"support-tiny", tiny())
	long := "[" + strings.Repeat("5,", 1023) + "5]"
	tests := []struct {
		name, path, body string
		code             int
		want             string
	}{
		{"unknown model", "/v1/completions", `{"model":"ad","prompt":"x"}`, 404, "{\"error\":{\"message\":\"The model `ad` does not exist. Valid aliases: tiny.\",\"type\":\"NotFoundError\",\"param\":\"model\",\"code\":404}}\n"},
		{"unknown model, chat", "/v1/chat/completions", `{"model":"ad","messages":[{"role":"user","content":"x"}]}`, 404, "NotFoundError"},
		{"unknown model, tokenize", "/tokenize", `{"model":"ad","prompt":"x"}`, 404, "NotFoundError"},
		{"not JSON", "/v1/completions", `{`, 400, "BadRequestError"},
		{"wrong type", "/v1/completions", `{"prompt":7}`, 400, "prompt must be a string or a list of token ids"},
		{"batch", "/v1/completions", `{"prompt":["a","b"]}`, 400, "prompt must be a string or a list of token ids"},
		{"empty prompt", "/v1/completions", `{"prompt":""}`, 400, "cannot be empty"},
		{"no prompt", "/v1/completions", `{}`, 400, "cannot be empty"},
		{"too long", "/v1/completions", `{"prompt":` + long + `,"max_tokens":1}`, 400, "This model's maximum context length is 1024 tokens"},
		{"too many", "/v1/completions", `{"prompt":"x","max_tokens":2000}`, 400, "This model's maximum context length is 1024 tokens"},
		{"overflow", "/v1/completions", `{"prompt":"x","max_tokens":9223372036854775807}`, 400, "maximum context length"},
		{"no tokens", "/v1/completions", `{"prompt":"x","max_tokens":0}`, 400, "max_tokens must be at least 1"},
		{"unknown id", "/v1/completions", `{"prompt":[512]}`, 400, "Token id 512 is out of vocabulary"},
		{"negative id", "/v1/completions", `{"prompt":[-1]}`, 400, "Token id -1 is out of vocabulary"},
		{"temperature", "/v1/completions", `{"prompt":"x","temperature":-1}`, 400, "temperature must be non-negative"},
		{"logprobs", "/v1/completions", `{"prompt":"x","logprobs":21}`, 400, "greater than max allowed: 20"},
		{"negative logprobs", "/v1/completions", `{"prompt":"x","logprobs":-1}`, 400, "logprobs must be non-negative"},
		{"stop", "/v1/completions", `{"prompt":"x","stop":["a"]}`, 400, "does not support stop"},
		{"n", "/v1/completions", `{"prompt":"x","n":2}`, 400, "does not support n"},
		{"top_p", "/v1/completions", `{"prompt":"x","temperature":1,"top_p":0.5}`, 400, "does not support top_p"},
		{"tools", "/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function"}]}`, 400, "does not support tools"},
		{"no messages", "/v1/chat/completions", `{}`, 400, "messages is empty"},
		{"picture", "/v1/chat/completions", `{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}`, 400, "only text is supported"},
		{"nothing to tokenize", "/tokenize", `{}`, 400, "neither a prompt nor messages"},
		{"unknown path", "/v1/embeddings", `{}`, 404, `{"detail":"Not Found"}`},
		{"wrong method", "/health", `{}`, 405, `{"detail":"Method Not Allowed"}`},
	}
	for _, tt := range tests {
		if code, body := post(t, c, tt.path, tt.body); code != tt.code || !strings.Contains(body, tt.want) {
			t.Errorf("%s: %d %s, want %d %s", tt.name, code, body, tt.code, tt.want)
		}
	}
	// Harmless: defaults spelled out, unknown fields, top_p without a temperature.
	if code, body := post(t, c, "/v1/completions", `{"prompt":"x","temperature":0,"top_p":0.5,"n":1,"stop":[],"what":1}`); code != 200 {
		t.Errorf("%d %s", code, body)
	}
	if code, body := post(t, c, "/v1/chat/completions", `{"temperature":0,"messages":[{"role":"user","content":[{"type":"text","text":"Which region takes over?"}]}]}`); code != 200 || !strings.Contains(body, answer) {
		t.Errorf("%d %s", code, body)
	}
}

func TestNoChatTemplate(t *testing.T) {
	dir := repo(t)
	remove("model/chat_template.jinja")(t, dir)
	c, _ := start(t, filepath.Join(dir, "model"), LoadOptions{})
	const want = `{"error":{"message":"As of transformers v4.44, default chat template is no longer allowed, so you must provide a chat template if the tokenizer does not define one.","type":"BadRequestError","param":null,"code":400}}`
	for _, path := range []string{"/v1/chat/completions", "/tokenize"} {
		if code, body := post(t, c, path, `{"messages":[{"role":"user","content":"x"}]}`); code != 400 || strings.TrimSpace(body) != want {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	// The template may also stand in tokenizer_config.json; a broken one fails at the chat.
	for template, code := range map[string]int{"{{ messages[0].content }}": 200, "{{ messages | shout }}": 400, "{% if %}": 400} {
		set("model/tokenizer_config.json", "chat_template", template)(t, dir)
		c, _ := start(t, filepath.Join(dir, "model"), LoadOptions{})
		if got, body := post(t, c, "/tokenize", `{"messages":[{"role":"user","content":"x"}]}`); got != code {
			t.Errorf("%s: %d %s", template, got, body)
		}
	}
}

// Where end tokens come from, and what max_new_tokens does.
func TestGenerationConfig(t *testing.T) {
	count := func(change ...func(testing.TB, string)) int {
		dir := repo(t)
		all(change...)(t, dir)
		c, _ := start(t, filepath.Join(dir, "model"), LoadOptions{ServedModelNames: []string{"tiny"}})
		got, err := ask(t, c, "tiny")
		check(t, err)
		return len(got.TokenIDs)
	}
	const g, tc = "model/generation_config.json", "model/tokenizer_config.json"
	for _, tt := range []struct {
		name   string
		want   int
		change []func(testing.TB, string)
	}{
		{"as it is", 11, nil},
		{"second end token", 8, []func(testing.TB, string){set(g, "eos_token_id", []int{1, 347})}},
		{"end token from the tokenizer", 11, []func(testing.TB, string){set(g, "eos_token_id", nil)}},
		{"end token from generation_config", 11, []func(testing.TB, string){remove(tc)}},
		{"end token from config.json", 11, []func(testing.TB, string){remove(g, tc)}},
		{"no end token", 24, []func(testing.TB, string){set(g, "eos_token_id", nil), remove(tc)}},
		{"max_new_tokens", 3, []func(testing.TB, string){set(g, "max_new_tokens", 3)}},
	} {
		if got := count(tt.change...); got != tt.want {
			t.Errorf("%s: %d tokens, want %d", tt.name, got, tt.want)
		}
	}
}

func TestPromptForms(t *testing.T) {
	c, _ := start(t, models+"support-tiny", tiny())
	ctx := openai.WithRequestID(t.Context(), "probe-1")
	greedy := openai.Sampling{Temperature: openai.Ptr(0.0), MaxTokens: openai.Ptr(24), StreamOptions: &openai.StreamOptions{IncludeUsage: true}, ReturnTokenIDs: true}
	ids := openai.Prompt{IDs: []int{4, 422, 316, 347, 339, 36, 1, 5}}
	got, err := c.Completion(ctx, openai.CompletionRequest{Prompt: ids, Sampling: greedy})
	check(t, err)
	if got.Choices[0].Text != answer || got.ID != "cmpl-probe-1" || got.Model != "tiny" || !strings.HasPrefix(*got.SystemFingerprint, "stand-in-engine-") || got.Usage.PromptTokens != 8 || got.Usage.CompletionTokens != 11 {
		t.Errorf("%+v", got)
	}
	s, err := c.Stream(ctx, openai.CompletionRequest{Prompt: ids, Sampling: greedy}, nil)
	check(t, err)
	// Eleven tokens and the usage.
	if !s.Good() || s.Text != answer || s.Events != 12 || s.Usage == nil || s.Usage.TotalTokens != 19 || s.FinishReason != "stop" || !slices.Equal(s.TokenIDs, got.Choices[0].TokenIDs) {
		t.Errorf("%+v", s)
	}
	if _, ok := s.TTFT(); !ok {
		t.Error("no time to first token")
	}
	v, err := c.Version(ctx)
	if err != nil || !strings.HasPrefix(v, "stand-in engine") {
		t.Errorf("version %q, %v", v, err)
	}
}

// Two copies served alike have one fingerprint, other limits another.
func TestFingerprint(t *testing.T) {
	load := func(dir string, length int) string {
		e, err := Load(dir, LoadOptions{ServedModelNames: []string{"tiny"}, MaxModelLen: length})
		check(t, err)
		return e.fingerprint
	}
	a, b, c := load(models+"support-tiny", 0), load(filepath.Join(repo(t), "model"), 0), load(models+"support-tiny", 512)
	if a != b || a == c {
		t.Errorf("fingerprints %s, %s and %s", a, b, c)
	}
}

func TestSampling(t *testing.T) {
	c, _ := start(t, models+"support-tiny", tiny())
	draw := func(prompt string, seed int64, temperature float64) string {
		got, err := c.Completion(t.Context(), openai.CompletionRequest{Prompt: openai.Prompt{Text: prompt}, Sampling: openai.Sampling{Temperature: &temperature, Seed: &seed, MaxTokens: openai.Ptr(12)}})
		check(t, err)
		return got.Choices[0].Text
	}
	if first, again := draw("<|user|>", 1, 2), draw("<|user|>", 1, 2); first != again {
		t.Error("one seed gave two answers")
	}
	if a, b, c := draw("<|user|>", 1, 2), draw("<|user|>", 2, 2), draw("<|user|>", 3, 2); a == b && b == c {
		t.Error("three seeds gave one answer")
	}
	if draw(question, 1, 0.001) != draw(question, 2, 0) {
		t.Error("a temperature near 0 is not greedy")
	}
}

// A prompt of 72 tokens has two full blocks; the answer's tokens fill more.
func TestPrefixCache(t *testing.T) {
	c, _ := start(t, models+"support-tiny", tiny())
	prompt := make([]int, 72)
	for i := range prompt {
		prompt[i] = 200 + i
	}
	run := func(name string, prompt []int) (cached int, lp []*float64) {
		got, err := c.Completion(t.Context(), openai.CompletionRequest{Model: name, Prompt: openai.Prompt{IDs: prompt}, Logprobs: openai.Ptr(0), Sampling: openai.Sampling{Temperature: openai.Ptr(0.0), MaxTokens: openai.Ptr(4), IgnoreEOS: true}})
		check(t, err)
		return *got.Usage.PromptTokensDetails.CachedTokens, got.Choices[0].Logprobs.TokenLogprobs
	}
	_, cold := run("tiny", prompt)
	tests := []struct {
		name   string
		model  string
		prompt []int
		want   int
	}{
		{"again", "tiny", prompt, 64},
		{"another adapter", "billing", prompt, 0},
		{"that adapter again", "billing", prompt, 64},
		{"first block only", "tiny", append(slices.Clone(prompt[:40]), 7, 7, 7), 32},
		{"exactly two blocks: the last token is computed", "tiny", prompt[:64], 32},
		{"two blocks and one", "tiny", prompt[:65], 64},
		{"too short", "tiny", prompt[:31], 0},
		{"other start", "tiny", append([]int{9}, prompt...), 0},
	}
	queries, hits := 72, 0
	for _, tt := range tests {
		cached, warm := run(tt.model, tt.prompt)
		if cached != tt.want {
			t.Errorf("%s: %d cached tokens, want %d", tt.name, cached, tt.want)
		}
		queries, hits = queries+len(tt.prompt), hits+tt.want
		if tt.name == "again" {
			for i := range warm {
				if math.Abs(*warm[i]-*cold[i]) > 1e-6 {
					t.Errorf("token %d: %v from the cache, %v without", i, *warm[i], *cold[i])
				}
			}
		}
	}
	m, err := c.Metrics(t.Context())
	check(t, err)
	for name, want := range map[string]int{"vllm:prefix_cache_queries_total": queries, "vllm:prefix_cache_hits_total": hits, "vllm:num_requests_running": 0, "vllm:num_requests_waiting": 0,
		"vllm:time_to_first_token_seconds_count": 9, "vllm:generation_tokens_total": 36, "vllm:request_success_total": 9} {
		if got, ok := m.Value(name, nil); !ok || got != float64(want) {
			t.Errorf("%s = %v, %v, want %d", name, got, ok, want)
		}
	}
	if by := m.By("vllm:request_success_total", "finished_reason"); by["length"] != 9 || by["stop"] != 0 || len(by) != 4 {
		t.Errorf("finished reasons %v", by)
	}
}

func TestBlockCacheEvicts(t *testing.T) {
	e, err := Load(models+"support-tiny", tiny())
	check(t, err)
	s := newSession(e.model, nil)
	for range 64 {
		s.step(7)
	}
	for i := range maxBlocks {
		e.cache.store(s, "", append(slices.Repeat([]int{i}, 32), slices.Repeat([]int{i}, 32)...))
	}
	if n := len(e.cache.blocks); n != maxBlocks || e.cache.recent.Len() != maxBlocks {
		t.Errorf("%d blocks", n)
	}
	has := func(i int) int { return e.cache.restore(newSession(e.model, nil), "", slices.Repeat([]int{i}, 65)) }
	if has(0) != 0 || has(maxBlocks-1) != 64 {
		t.Errorf("oldest %d, newest %d tokens", has(0), has(maxBlocks-1))
	}
}

// The numbers are transformers' formulas, computed by hand in Python.
func TestRope(t *testing.T) {
	tests := []struct {
		name string
		rope ropeConfig
		want []float64
	}{
		{"default", ropeConfig{Theta: 10000}, []float64{1, 0.1, 0.01, 0.001}},
		{"linear", ropeConfig{Type: "linear", Theta: 10000, Factor: 4}, []float64{0.25, 0.025, 0.0025, 0.00025}},
		{"llama3", ropeConfig{Type: "llama3", Theta: 500000, Factor: 8, LowFreq: 1, HighFreq: 4, OriginalMax: 8192}, llama3Want},
	}
	for _, tt := range tests {
		c := &config{HeadDim: 2 * len(tt.want), RopeParams: &tt.rope}
		r, err := newRope(c)
		check(t, err)
		for i, w := range tt.want {
			if math.Abs(r.freq[i]-w) > 1e-12*max(1, w) {
				t.Errorf("%s: frequency %d is %v, want %v", tt.name, i, r.freq[i], w)
			}
		}
	}
}

func TestClientGone(t *testing.T) {
	c, e := start(t, models+"support-tiny", tiny())
	ctx, cancel := context.WithCancel(t.Context())
	j := job{prompt: []int{4}, maxTokens: 900, top: -1, ignoreEOS: true}
	_, err := e.generate(ctx, j, func(pick) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
	m, err := c.Metrics(t.Context())
	check(t, err)
	if by := m.By("vllm:request_success_total", "finished_reason"); by["abort"] != 1 {
		t.Errorf("finished reasons %v", by)
	}
}

// More requests than slots at once: all are answered, equally.
func TestConcurrent(t *testing.T) {
	c, _ := start(t, models+"support-tiny", tiny())
	var wg sync.WaitGroup
	for range 4 * maxRunning {
		wg.Go(func() {
			if got, err := ask(t, c, "tiny"); err != nil || got.Text != answer {
				t.Errorf("%q, %v", got.Text, err)
			}
		})
	}
	wg.Wait()
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func TestRun(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ready := make(chan net.Addr, 1)
	done := make(chan error, 1)
	var log syncBuffer
	o := Options{LoadOptions: tiny(), ModelDir: models + "support-tiny", Ready: func(a net.Addr) { ready <- a }}
	o.Log = &log
	go func() { done <- Run(ctx, o) }()
	addr := <-ready
	c := &openai.Client{BaseURL: "http://" + addr.String(), HTTP: &http.Client{Transport: &http.Transport{}}}
	check(t, c.Health(t.Context()))

	o.Port = addr.(*net.TCPAddr).Port
	if err := Run(t.Context(), o); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("second on the port: %v", err)
	}
	stop()
	select {
	case err := <-done:
		check(t, err)
	case <-time.After(drain + 10*time.Second):
		t.Fatal("it did not stop")
	}
	if err := c.Health(t.Context()); err == nil {
		t.Error("it still answers")
	}
	for i, line := range strings.Split(strings.TrimSpace(log.b.String()), "\n") {
		if !strings.HasPrefix(line, "(stand-in engine) ") || i == 0 && !strings.Contains(line, "not vLLM") {
			t.Errorf("line %d does not say what it is: %s", i, line)
		}
	}
	// The phases of a boot, as they are parsed from vLLM's log.
	for _, re := range []string{`Initializing a V1 LLM engine \(v(\S+)\) with config: .*quantization=(\w+)`, `Starting to load model (\S+)\.\.\.`, `Loading weights took ([\d.]+) seconds`,
		`Model loading took ([\d.]+) GiB( memory)? and ([\d.]+) seconds`, `GPU KV cache size: ([\d,]+) tokens, Maximum concurrency for ([\d,]+) tokens per request: ([\d.]+)x`,
		`init engine \(profile, create kv cache, warmup model\) took ([\d.]+) s`, `Starting vLLM (API )?server on (\S+)`, `Application startup complete\.`} {
		if !regexp.MustCompile(re).MatchString(log.b.String()) {
			t.Errorf("the log lacks %s", re)
		}
	}
}

func TestRunRefuses(t *testing.T) {
	if err := Run(t.Context(), Options{ModelDir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "Invalid repository ID") {
		t.Errorf("err = %v", err)
	}
	o := Options{ModelDir: models + "support-tiny", LoadOptions: LoadOptions{ServedModelNames: []string{"a"}, Adapters: []Adapter{{"a", models + "support-tiny-billing"}}}}
	if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "taken") {
		t.Errorf("err = %v", err)
	}
}

// Whatever is sent, the answer is 200 or 400 (404 for another model).
func FuzzRequest(f *testing.F) {
	e, err := Load(models+"support-tiny", tiny())
	check(f, err)
	h := e.Handler()
	f.Add("/v1/completions", []byte(`{"prompt":[4,5],"logprobs":2,"max_tokens":3,"temperature":0,"stream":true}`))
	f.Add("/v1/completions", []byte(`{"prompt":"日本","temperature":1e300,"seed":-1,"max_tokens":2}`))
	f.Add("/v1/chat/completions", []byte(`{"messages":[{"role":"user","content":"x"}],"logprobs":true,"top_logprobs":3,"max_completion_tokens":2}`))
	f.Add("/tokenize", []byte(`{"messages":[{"role":"user","content":null}],"return_token_strs":true}`))
	f.Fuzz(func(t *testing.T, path string, body []byte) {
		if len(body) > 4096 {
			t.Skip() // long prompts only take long
		}
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
		r.URL.Path = path
		h.ServeHTTP(w, r)
		if !slices.Contains([]int{200, 400, 404, 405}, w.Code) {
			t.Errorf("%s %q: %d %s", path, body, w.Code, w.Body)
		}
	})
}

// Any damage to the JSON of a repository is an error or boots; nothing panics.
func FuzzConfig(f *testing.F) {
	for _, name := range []string{"support-tiny/config.json", "support-tiny/generation_config.json"} {
		b, err := os.ReadFile(models + name)
		check(f, err)
		f.Add(b)
	}
	f.Add([]byte(`{"model_type":"llama","num_attention_heads":0,"num_key_value_heads":0}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		check(t, os.WriteFile(filepath.Join(dir, "config.json"), b, 0o600))
		if c, err := readConfig(dir); err == nil && (c.parameters() > maxParameters || c.Heads%c.KVHeads != 0) {
			t.Errorf("accepted %+v", c)
		}
		var a adapterConfig
		if json.Unmarshal(b, &a) == nil && a.check() == nil {
			a.scale()
		}
	})
}
