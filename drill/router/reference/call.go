package reference

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"drkit/internal/openai"
)

// statusError is an answer that the reference router would not give to a right
// question: another status, or no JSON.
type statusError struct {
	what    string
	code    int
	message string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%s: HTTP %d: %s", e.what, e.code, e.message)
}

func (r *Router) call(ctx context.Context, method, path string, body, into any) error {
	var send io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return err
		}
		send = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, r.base+path, send)
	if err != nil {
		return err
	}
	resp, err := r.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	what := method + " " + r.base + path
	if err != nil {
		return fmt.Errorf("%s: reading the answer: %w", what, err)
	}
	if resp.StatusCode/100 != 2 {
		return &statusError{what, resp.StatusCode, message(answer)}
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return &statusError{what, resp.StatusCode, "the answer is not the JSON expected: " + message(answer)}
	}
	return nil
}

func message(answer []byte) string {
	var e openai.ErrorBody
	if json.Unmarshal(answer, &e) == nil && e.Error.Message != "" {
		return e.Error.Message
	}
	s := strings.TrimSpace(string(answer))
	if len(s) > 300 {
		s = s[:300] + "…"
	}
	return s
}
