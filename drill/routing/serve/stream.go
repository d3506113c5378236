package serve

import (
	"bytes"
	"errors"
	"io"
	"net/http"
)

// stream copies an answer and keeps its end in view.
type stream struct {
	events bool
	tail   []byte
}

var errNoDone = errors.New("the stream ended without [DONE]")

// copy gives why the worker's side broke off, or that the client has gone.
func (s *stream) copy(w http.ResponseWriter, body io.Reader, alive func()) (broken error, gone bool) {
	flush := http.NewResponseController(w).Flush
	buf := make([]byte, 32<<10)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			alive()
			s.see(buf[:n])
			if _, werr := w.Write(buf[:n]); werr != nil {
				return nil, true
			}
			if s.events && flush() != nil {
				return nil, true
			}
		}
		if errors.Is(err, io.EOF) {
			return s.whole(), false
		}
		if err != nil {
			return err, false
		}
	}
}

func (s *stream) see(b []byte) {
	if s.events {
		s.tail = append(s.tail, b...)
		s.tail = s.tail[max(0, len(s.tail)-64):]
	}
}

// whole judges a stream that ended cleanly: a worker's helper can end one that
// the engine broke off, and the client must not take it for a whole answer.
func (s *stream) whole() error {
	if s.events && !bytes.HasSuffix(bytes.TrimRight(s.tail, "\r\n "), []byte("data: [DONE]")) {
		return errNoDone
	}
	return nil
}
