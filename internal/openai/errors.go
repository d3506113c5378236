package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// StatusError is an answer with another status than 200.
type StatusError struct {
	Method, URL string // URL without user and query
	Code        int    // HTTP status
	Type        string // vLLM's error type, such as NotFoundError; empty when the body was not vLLM's
	Message     string // vLLM's message, or the beginning of the body
}

func (e *StatusError) Error() string {
	s := fmt.Sprintf("%s %s: HTTP %d", e.Method, e.URL, e.Code)
	if e.Message != "" {
		s += ": " + e.Message
	}
	return s
}

// StatusCode gives the HTTP status of a *StatusError in err's chain, else 0.
func StatusCode(err error) int {
	var se *StatusError
	if errors.As(err, &se) {
		return se.Code
	}
	return 0
}

// IsNaN tells whether err is how vLLM answers a request for log probabilities
// when its weights yield NaN: HTTP 400, "Out of range float values are not JSON
// compliant". Without log probabilities the same engine answers 200 and garbage.
func IsNaN(err error) bool {
	var se *StatusError
	return errors.As(err, &se) && se.Code == http.StatusBadRequest &&
		strings.Contains(se.Message, "Out of range float values are not JSON compliant")
}

// ErrorBody is how vLLM wraps an error, in an answer and in a stream's event.
type ErrorBody struct {
	Error ErrorDetail `json:"error"`
}

// ErrorDetail is what vLLM says about a failed request. Code repeats the HTTP status.
type ErrorDetail struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    int     `json:"code"`
}

func newStatusError(method, url string, resp *http.Response) *StatusError {
	// A body that breaks off still tells something, so its read error is dropped.
	b, _ := io.ReadAll(io.LimitReader(resp.Body, maxError))
	e := &StatusError{Method: method, URL: url, Code: resp.StatusCode, Message: shorten(string(b))}
	var v ErrorBody
	if json.Unmarshal(b, &v) == nil && v.Error.Message != "" {
		e.Type, e.Message = v.Error.Type, shorten(v.Error.Message)
		return e
	}
	var plain struct{ Detail string } // FastAPI's form, e.g. {"detail":"Not Found"}
	if json.Unmarshal(b, &plain) == nil && plain.Detail != "" {
		e.Message = shorten(plain.Detail)
	}
	return e
}
