package model

import (
	"bytes"
	"encoding/binary"
	"errors"
	"path"
	"strings"

	"drkit/internal/safetensors"
)

const (
	sniffed  = 512      // bytes kept of a file that begins like what is not it
	glance   = 16       // bytes that tell whether it does; the others need not be kept
	wholeMax = 64 << 20 // bytes up to which a text file is kept whole; tokenizers reach some 35 MiB
)

// wholeNames are the endings of files that are kept whole.
var wholeNames = map[string]bool{".json": true, ".jinja": true, ".txt": true, ".py": true}

// Capture is an io.Writer that keeps of a file what Read needs.
type Capture struct {
	kept  []byte
	limit int64
	size  int64
	grow  func(*Capture) // sets the limit anew when it is reached; nil: it stays
}

// NewCapture prepares for a file of a model repository, by its name and size.
func NewCapture(file string, size int64) *Capture {
	ext := path.Ext(file)
	switch {
	case ext == ".safetensors":
		return &Capture{limit: sniffed, size: size, grow: (*Capture).safetensors}
	case ext == ".gguf":
		return &Capture{limit: 4 << 10, size: size, grow: (*Capture).gguf}
	case wholeNames[strings.ToLower(ext)] && size <= wholeMax && !strings.Contains(file, ".cache/"):
		return NewWholeCapture()
	}
	return &Capture{limit: glance, size: size, grow: (*Capture).text}
}

// NewWholeCapture keeps a file whole, up to 64 MiB.
func NewWholeCapture() *Capture { return &Capture{limit: wholeMax} }

// Write keeps the bytes that are needed; it never fails.
func (c *Capture) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 && int64(len(c.kept)) < c.limit {
		take := min(int64(len(p)), c.limit-int64(len(c.kept)))
		c.kept = append(c.kept, p[:take]...)
		p = p[take:]
		if int64(len(c.kept)) == c.limit && c.grow != nil {
			c.grow(c)
		}
	}
	return n, nil
}

// safetensors extends the limit to the end of the header, whose length the
// first eight bytes state.
func (c *Capture) safetensors() {
	c.grow = nil
	if n := binary.LittleEndian.Uint64(c.kept); n <= safetensors.MaxHeader && int64(n) <= c.size {
		c.limit = max(c.limit, 8+int64(n))
	}
}

// gguf doubles the limit until the header is whole: where it ends, nothing
// says. What is no GGUF header is kept as little as any other file.
func (c *Capture) gguf() {
	_, end, err := gguf(c.kept, c.size)
	switch {
	case err == nil:
		c.kept, c.grow = bytes.Clone(c.kept[:end]), nil
		c.limit = int64(end)
	case errors.Is(err, errShort) && c.limit < maxGGUF:
		c.limit *= 2
	default:
		c.kept, c.grow = bytes.Clone(c.kept[:min(sniffed, len(c.kept))]), nil
		c.limit = int64(len(c.kept))
	}
}

// text extends the limit for what may be a pointer or an error's text.
func (c *Capture) text() {
	c.grow = nil
	start := bytes.TrimLeft(c.kept, " \t\r\n\ufeff")
	if len(start) == 0 || start[0] == '<' || start[0] == '{' || bytes.HasPrefix(start, []byte("version ")) {
		c.limit = sniffed
		return
	}
	c.kept, c.limit = nil, 0 // nothing that a reader would look at
}

// Bytes is what was kept.
func (c *Capture) Bytes() []byte { return c.kept }
