package openai

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	maxEvent  = 4 << 20  // one line of a stream
	maxStream = 64 << 20 // a whole stream
)

// StreamResult is what came of one streamed request whose answer began with
// status 200. That status says nothing about the end: a replica that dies cuts
// the stream, and routers count it as a success.
type StreamResult struct {
	Started      time.Time // just before the request was sent
	FirstToken   time.Time // arrival of the first text; zero: none came
	Ended        time.Time // end of the stream, or when it was given up
	Header       http.Header
	Events       int    // data events, [DONE] not counted
	Text         string // everything received, in order
	TokenIDs     []int  // when the request asked for them
	FinishReason string // empty: none came
	ErrorEvent   string // message of the first event that carried "error"
	Done         bool   // "data: [DONE]" came
	Cut          error  // why reading ended before the stream's own end; nil: it ended by itself
	Usage        *Usage
}

// Good is true only for a stream with a finish reason, no error event, [DONE]
// and a clean end. smg, for one, sends an error event and then [DONE] when the
// replica behind it dies.
func (r StreamResult) Good() bool {
	return r.FinishReason != "" && r.ErrorEvent == "" && r.Done && r.Cut == nil
}

// Problem says why the stream is not good; empty when it is.
func (r StreamResult) Problem() string {
	switch {
	case r.ErrorEvent != "":
		return "the stream carried an error: " + r.ErrorEvent
	case r.Cut != nil:
		return fmt.Sprintf("the stream was cut after %d events: %v", r.Events, r.Cut)
	case !r.Done:
		return fmt.Sprintf("the stream ended after %d events without [DONE]", r.Events)
	case r.FinishReason == "":
		return "the stream ended without a finish reason"
	}
	return ""
}

// TTFT is the time from sending the request to the first text; false when no
// text came.
func (r StreamResult) TTFT() (time.Duration, bool) {
	if r.FirstToken.IsZero() {
		return 0, false
	}
	return r.FirstToken.Sub(r.Started), true
}

// Stream runs one completion as a stream of events. An error means that no
// stream began (no connection, or a *StatusError); whatever happens after that
// is in the result, so a caller must ask Good. extra headers may be nil.
func (c *Client) Stream(ctx context.Context, r CompletionRequest, extra http.Header) (StreamResult, error) {
	r.Stream = true
	return c.stream(ctx, "/v1/completions", r, extra)
}

// StreamChat is Stream for a chat.
func (c *Client) StreamChat(ctx context.Context, r ChatRequest, extra http.Header) (StreamResult, error) {
	r.Stream = true
	return c.stream(ctx, "/v1/chat/completions", r, extra)
}

func (c *Client) stream(ctx context.Context, path string, body any, extra http.Header) (StreamResult, error) {
	res := StreamResult{Started: time.Now()}
	h := extra.Clone()
	if h == nil {
		h = http.Header{}
	}
	h.Set("Accept", "text/event-stream")
	resp, err := c.do(ctx, http.MethodPost, path, body, h)
	if err != nil {
		res.Ended = time.Now()
		return res, err
	}
	defer resp.Body.Close()
	res.Header = resp.Header
	var text strings.Builder
	res.Cut = readEvents(resp.Body, func(data []byte) error { return res.add(data, &text) })
	if cause := context.Cause(ctx); res.Cut != nil && cause != nil {
		res.Cut = cause
	}
	res.Text, res.Ended = text.String(), time.Now()
	return res, nil
}

// readEvents calls f with the data of each server-sent event until the body
// ends. The body's own unexpected end is an error; so is a bound exceeded.
func readEvents(body io.Reader, f func(data []byte) error) error {
	limited := &io.LimitedReader{R: body, N: maxStream}
	sc := bufio.NewScanner(limited)
	sc.Buffer(make([]byte, 0, 4096), maxEvent)
	for sc.Scan() {
		data, ok := bytes.CutPrefix(sc.Bytes(), []byte("data:"))
		if !ok { // comment, field that is not data, or the blank line between events
			continue
		}
		if err := f(bytes.TrimSpace(data)); err != nil {
			return err
		}
	}
	if limited.N == 0 {
		return fmt.Errorf("more than %d bytes", maxStream)
	}
	return sc.Err()
}

// event has the fields of all kinds of events: completion, chat, error.
type event struct {
	Error   json.RawMessage `json:"error"`
	Choices []struct {
		Text         string  `json:"text"`
		Delta        Delta   `json:"delta"`
		FinishReason *string `json:"finish_reason"`
		TokenIDs     []int   `json:"token_ids"`
	} `json:"choices"`
	Usage *Usage `json:"usage"`
}

func (r *StreamResult) add(data []byte, text *strings.Builder) error {
	if string(data) == "[DONE]" {
		r.Done = true
		return nil
	}
	if r.Done {
		return errors.New("an event after [DONE]")
	}
	r.Events++
	var ev event
	if err := json.Unmarshal(data, &ev); err != nil {
		return fmt.Errorf("an event is not JSON: %w", err)
	}
	if len(ev.Error) > 0 && string(ev.Error) != "null" && r.ErrorEvent == "" {
		r.ErrorEvent = errorText(ev.Error)
	}
	for _, ch := range ev.Choices {
		t := ch.Text + ch.Delta.Content
		if t != "" && r.FirstToken.IsZero() {
			r.FirstToken = time.Now()
		}
		text.WriteString(t)
		r.TokenIDs = append(r.TokenIDs, ch.TokenIDs...)
		if ch.FinishReason != nil && *ch.FinishReason != "" {
			r.FinishReason = *ch.FinishReason
		}
	}
	if ev.Usage != nil {
		r.Usage = ev.Usage
	}
	return nil
}

// errorText is the message in an event's error, which is an object or, in some
// routers, a string. It is never empty.
func errorText(raw json.RawMessage) string {
	var d struct{ Message string }
	if json.Unmarshal(raw, &d) == nil && d.Message != "" {
		return shorten(d.Message)
	}
	return shorten(string(raw))
}
