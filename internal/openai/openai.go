// Package openai is a small client for the OpenAI-compatible HTTP API that
// vLLM serves, and the types of its requests and answers. It knows the parts
// that vLLM adds to that API (token ids in answers, /tokenize, /health,
// /version, /metrics) and is strict where a lax client hides a broken engine:
// a stream counts as good only when it ended as the protocol says, a metric
// that is absent is unknown and not 0, and reads of bodies are bounded.
//
// Begin with a Client:
//
//	c := &openai.Client{BaseURL: "http://127.0.0.1:8000"}
//	if err := c.Health(ctx); err != nil { … }
//
// Every call takes its deadline from ctx: a hung engine accepts connections
// and never answers, so a caller without a deadline waits for ever.
package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Bounds of what is read from an endpoint, in bytes.
const (
	maxJSON    = 64 << 20 // an answer with log probabilities of a long prompt
	maxMetrics = 64 << 20
	maxError   = 64 << 10 // an error body; more of it tells nothing
	maxQuoted  = 400      // how much of an unreadable error body a message quotes
)

// Client talks to one endpoint: an engine or a router in front of engines.
type Client struct {
	BaseURL string       // scheme, host and port; a path prefix is kept, a trailing slash is not needed
	HTTP    *http.Client // nil: http.DefaultClient
	APIKey  string       // sent as a bearer token when set; appears in no error
}

type requestIDKey struct{}

// WithRequestID makes the calls that use the returned context send id as their
// X-Request-Id, which vLLM and the routers write to their logs.
func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestIDKey{}, id)
}

// Health asks /health. Any status but 200 is a *StatusError. 200 only says
// that the engine process lives: vLLM answers it with broken weights too.
func (c *Client) Health(ctx context.Context) error {
	return c.get(ctx, "/health", nil)
}

// Models lists the served model and its adapters.
func (c *Client) Models(ctx context.Context) ([]Model, error) {
	var list ModelList
	if err := c.get(ctx, "/v1/models", &list); err != nil {
		return nil, err
	}
	return list.Data, nil
}

// Version gives the version that the endpoint states. A router may pass the
// question on to an engine, so it does not tell a router's kind.
func (c *Client) Version(ctx context.Context) (string, error) {
	var v struct{ Version string }
	if err := c.get(ctx, "/version", &v); err != nil {
		return "", err
	}
	if v.Version == "" {
		return "", fmt.Errorf("GET %s: the answer has no version", c.where("/version"))
	}
	return v.Version, nil
}

// Tokenize asks for the token ids of a prompt, or of messages after the chat
// template.
func (c *Client) Tokenize(ctx context.Context, r TokenizeRequest) (TokenizeResponse, error) {
	var out TokenizeResponse
	err := c.post(ctx, "/tokenize", r, &out)
	return out, err
}

// Completion runs one completion to its end. r.Stream must be false.
func (c *Client) Completion(ctx context.Context, r CompletionRequest) (Completion, error) {
	var out Completion
	if r.Stream {
		return out, errors.New("a streamed completion needs Stream, not Completion")
	}
	if err := c.post(ctx, "/v1/completions", r, &out); err != nil {
		return out, err
	}
	if len(out.Choices) == 0 {
		return out, fmt.Errorf("POST %s: the answer has no choices", c.where("/v1/completions"))
	}
	return out, nil
}

// Chat runs one chat completion to its end. r.Stream must be false.
func (c *Client) Chat(ctx context.Context, r ChatRequest) (ChatCompletion, error) {
	return c.ChatWith(ctx, ToolRequest{ChatRequest: r})
}

// ChatWith is Chat with tools or a form of the answer.
func (c *Client) ChatWith(ctx context.Context, r ToolRequest) (ChatCompletion, error) {
	var out ChatCompletion
	if r.Stream {
		return out, errors.New("a streamed chat needs StreamChat, not Chat")
	}
	if err := c.post(ctx, "/v1/chat/completions", r, &out); err != nil {
		return out, err
	}
	if len(out.Choices) == 0 {
		return out, fmt.Errorf("POST %s: the answer has no choices", c.where("/v1/chat/completions"))
	}
	return out, nil
}

func (c *Client) get(ctx context.Context, path string, into any) error {
	resp, err := c.do(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return c.decode(resp, http.MethodGet, path, into)
}

func (c *Client) post(ctx context.Context, path string, body, into any) error {
	resp, err := c.do(ctx, http.MethodPost, path, body, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return c.decode(resp, http.MethodPost, path, into)
}

// decode reads a whole 200 answer; into may be nil when only the status counts.
func (c *Client) decode(resp *http.Response, method, path string, into any) error {
	body, err := readBounded(resp.Body, maxJSON)
	if err != nil {
		return fmt.Errorf("%s %s: reading the answer: %w", method, c.where(path), err)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%s %s: the answer is not the JSON expected: %w (it begins %q)", method, c.where(path), err, shorten(string(body)))
	}
	return nil
}

// do sends a request and gives the answer when its status is 200; any other
// status is a *StatusError. The caller closes the body.
func (c *Client) do(ctx context.Context, method, path string, body any, extra http.Header) (*http.Response, error) {
	req, err := c.request(ctx, method, path, body, extra)
	if err != nil {
		return nil, err
	}
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, c.where(path), withoutURL(err))
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return nil, newStatusError(method, c.where(path), resp)
	}
	return resp, nil
}

func (c *Client) request(ctx context.Context, method, path string, body any, extra http.Header) (*http.Request, error) {
	var r io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encoding the request for %s: %w", path, err)
		}
		r = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(c.BaseURL, "/")+path, r)
	if err != nil {
		return nil, fmt.Errorf("endpoint %q: %w", c.where(""), withoutURL(err))
	}
	for k, vs := range extra {
		req.Header[http.CanonicalHeaderKey(k)] = vs
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+c.APIKey)
	}
	if id, ok := ctx.Value(requestIDKey{}).(string); ok && id != "" {
		req.Header.Set("X-Request-Id", id)
	}
	return req, nil
}

// where is the URL of path as it may stand in a message: without user, query
// or fragment, which can hold secrets.
func (c *Client) where(path string) string {
	u, err := url.Parse(c.BaseURL)
	if err != nil || u.Host == "" {
		return "(not a URL)" + path
	}
	return u.Scheme + "://" + u.Host + strings.TrimRight(u.Path, "/") + path
}

// withoutURL drops the URL that net/http puts before its errors: it repeats
// what the caller says and may hold a password.
func withoutURL(err error) error {
	var ue *url.Error
	if errors.As(err, &ue) {
		return ue.Err
	}
	return err
}

func readBounded(r io.Reader, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("more than the %d bytes that are read at most", limit)
	}
	return b, nil
}

func shorten(s string) string {
	s = strings.ToValidUTF8(strings.TrimSpace(s), "?")
	if len(s) <= maxQuoted {
		return s
	}
	return strings.ToValidUTF8(s[:maxQuoted], "") + "…"
}
