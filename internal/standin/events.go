package standin

import (
	"encoding/json"
	"errors"
	"net/http"

	"drkit/internal/openai"
)

// events writes server-sent events, one write and flush each.
type events struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

func newEvents(w http.ResponseWriter) *events {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	return &events{w: w, rc: http.NewResponseController(w)}
}

func (s *events) send(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.raw(text)
}

func (s *events) raw(data []byte) error {
	if _, err := s.w.Write(append(append([]byte("data: "), data...), "\n\n"...)); err != nil {
		return err
	}
	return s.rc.Flush()
}

// end closes a stream: with the error that ended it, or with the usage when it
// was asked for; then [DONE] either way, as vLLM does.
func (s *events) end(err error, opts *openai.StreamOptions, usage any) {
	var a *apiError
	switch {
	case errors.As(err, &a):
		err = s.send(a.body())
	case err == nil && opts != nil && opts.IncludeUsage:
		err = s.send(usage)
	}
	if err == nil {
		_ = s.raw([]byte("[DONE]")) // a client that is gone is no error of ours
	}
}
