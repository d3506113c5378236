package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func serve(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return &Client{BaseURL: s.URL + "/", HTTP: s.Client()}
}

func text(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

// The bodies are answers that vLLM 0.32.0 gave.
func TestStatusError(t *testing.T) {
	tests := []struct {
		name, body string
		code       int
		message    string
		nan        bool
	}{
		{"unknown model", `{"error":{"message":"The model ` + "`ad`" + ` does not exist. Valid aliases: tiny.","type":"NotFoundError","param":"model","code":404}}`, 404, "The model `ad` does not exist. Valid aliases: tiny.", false},
		{"NaN", `{"error":{"message":"Out of range float values are not JSON compliant","type":"BadRequestError","param":null,"code":400}}`, 400, "Out of range float values are not JSON compliant", true},
		{"no such path", `{"detail":"Not Found"}`, 404, "Not Found", false},
		{"plain text", "upstream connect error\n", 503, "upstream connect error", false},
		{"empty", "", 500, "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := serve(t, text(tt.code, tt.body))
			_, err := c.Completion(t.Context(), CompletionRequest{Model: "ad"})
			var se *StatusError
			if !errors.As(err, &se) || se.Code != tt.code || se.Message != tt.message || IsNaN(err) != tt.nan || StatusCode(err) != tt.code {
				t.Fatalf("err = %#v", err)
			}
			if !strings.Contains(err.Error(), "/v1/completions: HTTP") {
				t.Errorf("err = %v", err)
			}
		})
	}
}

func TestHealth(t *testing.T) {
	if err := serve(t, text(200, "")).Health(t.Context()); err != nil {
		t.Error(err)
	}
	if err := serve(t, text(503, "")).Health(t.Context()); StatusCode(err) != 503 {
		t.Errorf("err = %v", err)
	}
}

func TestNoSecretInErrors(t *testing.T) {
	c := &Client{BaseURL: "http://user:hunter2@127.0.0.1:1/?token=hunter2", APIKey: "hunter2"}
	if err := c.Health(t.Context()); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("err = %v", err)
	}
	c.BaseURL = "http://hunter2:%zz"
	if err := c.Health(t.Context()); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("err = %v", err)
	}
}

func TestHeadersAndPrompt(t *testing.T) {
	var body map[string]any
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Request-Id") != "run-7" || r.Header.Get("Authorization") != "Bearer key" {
			t.Errorf("headers %v", r.Header)
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, `{"choices":[{"text":"x","token_ids":[280],"prompt_token_ids":[4,5],"finish_reason":"length","logprobs":{"token_logprobs":[-0.5],"tokens":["token_id:280"],"top_logprobs":[{"token_id:280":-0.5}]}}],"usage":{"prompt_tokens":2,"prompt_tokens_details":{"cached_tokens":1}}}`)
	})
	c.APIKey = "key"
	ctx := WithRequestID(t.Context(), "run-7")
	out, err := c.Completion(ctx, CompletionRequest{Model: "tiny", Prompt: Prompt{IDs: []int{4, 5}}, Logprobs: Ptr(1), Sampling: Sampling{MaxTokens: Ptr(1), Temperature: Ptr(0.0), ReturnTokenIDs: true}})
	if err != nil {
		t.Fatal(err)
	}
	if got := body["prompt"].([]any); len(got) != 2 || body["temperature"] != 0.0 || body["max_tokens"] != 1.0 || body["seed"] != nil {
		t.Errorf("sent %v", body)
	}
	ch := out.Choices[0]
	if ch.TokenIDs[0] != 280 || ch.PromptTokenIDs[1] != 5 || *ch.FinishReason != "length" || *ch.Logprobs.TokenLogprobs[0] != -0.5 || *out.Usage.PromptTokensDetails.CachedTokens != 1 {
		t.Errorf("got %+v", out)
	}
}

func TestUnreadableAnswers(t *testing.T) {
	ctx := t.Context()
	if _, err := serve(t, text(200, "<html>")).Models(ctx); err == nil || !strings.Contains(err.Error(), "/v1/models") {
		t.Errorf("HTML: %v", err)
	}
	if _, err := serve(t, text(200, `{"choices":[]}`)).Chat(ctx, ChatRequest{}); err == nil {
		t.Error("no choices passed")
	}
	if _, err := serve(t, text(200, `{}`)).Version(ctx); err == nil {
		t.Error("no version passed")
	}
	if _, err := serve(t, text(200, `up 1`+"\n"+`up{`)).Metrics(ctx); err == nil {
		t.Error("broken metrics passed")
	}
}

const (
	ev1    = `data: {"choices":[{"text":"","finish_reason":null}]}` + "\n\n"
	ev2    = `data: {"choices":[{"text":"The","finish_reason":null,"token_ids":[280]}]}` + "\n\n"
	evChat = `data: {"choices":[{"delta":{"role":"assistant","content":"Hi"},"finish_reason":null}]}` + "\n\n"
	evStop = `data: {"choices":[{"text":".","finish_reason":"stop","token_ids":[19,1]}]}` + "\n\n"
	evErr  = `data: {"error":{"message":"worker died","type":"stream_error"}}` + "\n\n"
	evUse  = `data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":3,"total_tokens":6}}` + "\n\n"
	done   = "data: [DONE]\n\n"
)

func TestStream(t *testing.T) {
	tests := []struct {
		name, body string
		good       bool
		text       string
		problem    string
	}{
		{"whole", ev1 + ev2 + evStop + evUse + done, true, "The.", ""},
		{"comments and CRLF", ": ping\r\n\r\n" + evChat + evStop + done, true, "Hi.", ""},
		{"no DONE", ev2 + evStop, false, "The.", "without [DONE]"},
		{"no finish reason", ev2 + done, false, "The", "without a finish reason"},
		{"error, then DONE", ev2 + evErr + done, false, "The", "worker died"},
		{"error and finish, then DONE", ev2 + evErr + evStop + done, false, "The.", "worker died"},
		{"plain error", `data: {"error":"no worker"}` + "\n\n" + done, false, "", "no worker"},
		{"not JSON", ev2 + "data: {\n\n" + done, false, "The", "not JSON"},
		{"event after DONE", ev2 + evStop + done + ev2, false, "The.", "after [DONE]"},
		{"empty", "", false, "", "without [DONE]"},
		{"not a stream", `{"choices":[{"text":"x","finish_reason":"stop"}]}`, false, "", "without [DONE]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := serve(t, text(200, tt.body))
			r, err := c.Stream(t.Context(), CompletionRequest{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if r.Good() != tt.good || r.Text != tt.text || !strings.Contains(r.Problem(), tt.problem) || (r.Problem() == "") != tt.good {
				t.Errorf("good %v, text %q, problem %q", r.Good(), r.Text, r.Problem())
			}
			if _, ok := r.TTFT(); ok != (tt.text != "") {
				t.Errorf("TTFT known: %v", ok)
			}
		})
	}
}

// A replica that dies closes the connection without the final chunk.
func TestStreamCut(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, ev2)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	r, err := c.Stream(t.Context(), CompletionRequest{}, http.Header{"X-Session-Id": {"s"}})
	if err != nil || !errors.Is(r.Cut, io.ErrUnexpectedEOF) || r.Good() || r.Events != 1 || r.Text != "The" {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestStreamCancelled(t *testing.T) {
	cause := errors.New("objective missed")
	ctx, cancel := context.WithCancelCause(t.Context())
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, ev2)
		_ = http.NewResponseController(w).Flush()
		cancel(cause)
		<-r.Context().Done()
	})
	r, err := c.Stream(ctx, CompletionRequest{}, nil)
	if err == nil && (!errors.Is(r.Cut, cause) || r.Good()) {
		t.Errorf("%+v", r)
	}
}

func TestStreamRefused(t *testing.T) {
	_, err := serve(t, text(503, "no worker")).Stream(t.Context(), CompletionRequest{}, nil)
	if StatusCode(err) != 503 {
		t.Errorf("err = %v", err)
	}
}

const page = `# HELP vllm:prefix_cache_hits_total hits
# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total{engine="0",model_name="tiny"} 64.0
vllm:prefix_cache_hits_total{engine="0",model_name="billing"} 32.0
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0"} 0.0
# TYPE broken gauge
broken NaN
# TYPE endless counter
endless{engine="0"} +Inf
endless{engine="1"} 3
# TYPE below gauge
below{engine="0"} -3
# TYPE half counter
half 2.5
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{le="0.1"} 3
vllm:time_to_first_token_seconds_bucket{le="+Inf"} 4
vllm:time_to_first_token_seconds_sum 0.5
vllm:time_to_first_token_seconds_count 4
`

func TestMetrics(t *testing.T) {
	m, err := serve(t, text(200, page)).Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		labels map[string]string
		want   float64
		ok     bool
	}{
		{"vllm:prefix_cache_hits_total", nil, 96, true},
		{"vllm:prefix_cache_hits_total", map[string]string{"model_name": "tiny"}, 64, true},
		{"vllm:prefix_cache_hits_total", map[string]string{"model_name": "other"}, 0, false},
		{"vllm:prefix_cache_hits_total", map[string]string{"worker": ""}, 0, false},
		{"vllm:num_requests_running", nil, 0, true},
		{"vllm:num_requests_waiting", nil, 0, false},
		{"broken", nil, 0, false},
		{"endless", nil, 0, false},
		{"endless", map[string]string{"engine": "1"}, 3, true},
		{"below", nil, -3, true},
		{"vllm:time_to_first_token_seconds_count", nil, 4, true},
		{"vllm:time_to_first_token_seconds_sum", nil, 0.5, true},
		{"vllm:time_to_first_token_seconds", nil, 0, false},
	}
	for _, tt := range tests {
		if got, ok := m.Value(tt.name, tt.labels); got != tt.want || ok != tt.ok {
			t.Errorf("Value(%s, %v) = %v, %v", tt.name, tt.labels, got, ok)
		}
	}
	for name, want := range map[string]string{"vllm:prefix_cache_hits_total": "96 true", "half": "2 true", "below": "0 false", "endless": "0 false", "absent": "0 false"} {
		if n, ok := m.Count(name, nil); fmt.Sprint(n, ok) != want {
			t.Errorf("Count(%s) = %d, %v, want %s", name, n, ok, want)
		}
	}
	if by := m.By("endless", "engine"); len(by) != 1 || by["1"] != 3 {
		t.Errorf("By of an endless series = %v", by)
	}
	if by := m.By("vllm:prefix_cache_hits_total", "model_name"); len(by) != 2 || by["billing"] != 32 {
		t.Errorf("By = %v", by)
	}
}

func TestDeadline(t *testing.T) {
	release := make(chan struct{})
	c := serve(t, func(w http.ResponseWriter, r *http.Request) { <-release })
	t.Cleanup(func() { close(release) })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := c.Health(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("err = %v", err)
	}
}

func FuzzStream(f *testing.F) {
	f.Add(ev1 + ev2 + evStop + done)
	f.Add(ev2 + evErr + done)
	f.Fuzz(func(t *testing.T, body string) {
		var r StreamResult
		var text strings.Builder
		r.Cut = readEvents(strings.NewReader(body), func(b []byte) error { return r.add(b, &text) })
		if r.Good() && !strings.Contains(body, "[DONE]") {
			t.Error("good without [DONE]")
		}
		if r.Good() != (r.Problem() == "") {
			t.Errorf("good %v, problem %q", r.Good(), r.Problem())
		}
	})
}

func FuzzParseMetrics(f *testing.F) {
	f.Add([]byte(page))
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := ParseMetrics(b); err == nil {
			m.Value("vllm:prefix_cache_hits_total", nil)
			m.By("vllm:prefix_cache_hits_total", "model_name")
		}
	})
}
