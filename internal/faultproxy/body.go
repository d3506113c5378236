package faultproxy

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// What StaleList keeps at most: so many answers of so many bytes.
const (
	maxRecorded     = 4096
	maxRecordedSize = 4 << 20
)

// recorded is an answer to repeat.
type recorded struct {
	status int
	header http.Header
	body   []byte
}

func (a recorded) write(w http.ResponseWriter) {
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.status)
	w.Write(a.body)
}

// recorder keeps an answer while it is passed on.
type recorder struct {
	http.ResponseWriter
	kept    recorded
	tooLong bool
}

func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *recorder) WriteHeader(status int) {
	r.kept.status, r.kept.header = status, r.Header().Clone()
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	if r.kept.header == nil {
		r.WriteHeader(http.StatusOK)
	}
	if r.tooLong = r.tooLong || len(r.kept.body)+len(p) > maxRecordedSize; !r.tooLong {
		r.kept.body = append(r.kept.body, p...)
	}
	return r.ResponseWriter.Write(p)
}

// silent lets a request be carried out and nobody hear of it.
type silent struct{ header http.Header }

func (s *silent) Header() http.Header         { return s.header }
func (s *silent) WriteHeader(int)             {}
func (s *silent) Write(p []byte) (int, error) { return len(p), nil }

// alteredBody changes one byte of a request's body.
type alteredBody struct {
	io.ReadCloser
	at, n int64
}

func (b *alteredBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	alter(p[:n], b.at-b.n)
	b.n += int64(n)
	return n, err
}

// alter changes the byte at an offset, if it lies in p.
func alter(p []byte, at int64) {
	if at >= 0 && at < int64(len(p)) {
		p[at] ^= 0xA5
	}
}

// bodyFault lets an answer through up to the fault's place.
type bodyFault struct {
	http.ResponseWriter
	rule  Rule
	dice  uint64
	begun bool
	bare  bool // an answer without a body
	at, n int64
}

func (f *bodyFault) Unwrap() http.ResponseWriter { return f.ResponseWriter }

func (f *bodyFault) WriteHeader(status int) {
	if status >= 100 && status < 200 {
		f.ResponseWriter.WriteHeader(status)
		return
	}
	f.begun = true
	size, err := strconv.ParseInt(f.Header().Get("Content-Length"), 10, 64)
	f.bare = err == nil && size == 0
	f.at = place(f.rule.At, f.dice, size)
	if f.rule.Kind == Short && size > f.at {
		f.Header().Set("Content-Length", fmt.Sprint(f.at))
	}
	f.ResponseWriter.WriteHeader(status)
}

func (f *bodyFault) Write(p []byte) (int, error) {
	if !f.begun {
		f.WriteHeader(http.StatusOK)
	}
	from := f.at - f.n
	f.n += int64(len(p))
	switch {
	case f.rule.Kind == WrongBytes:
		changed := append([]byte(nil), p...)
		alter(changed, from)
		return f.ResponseWriter.Write(changed)
	case from >= int64(len(p)):
		return f.ResponseWriter.Write(p)
	case from > 0:
		f.ResponseWriter.Write(p[:from])
	}
	if f.rule.Kind == Short {
		return len(p), nil // the rest is swallowed
	}
	abort(f.ResponseWriter, f.rule.Kind == Reset)
	return 0, nil
}

// end cuts off an answer that had no body to cut.
func (f *bodyFault) end() {
	if (f.rule.Kind == Reset || f.rule.Kind == Truncate) && (f.bare || f.n == 0) {
		abort(f.ResponseWriter, f.rule.Kind == Reset)
	}
}
