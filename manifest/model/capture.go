package model

import (
	"encoding/binary"
	"path"
	"strings"

	"drkit/internal/safetensors"
)

const (
	sniffed  = 512      // bytes kept of any file, to recognise what is not it
	wholeMax = 64 << 20 // bytes up to which a text file is kept whole; tokenizers reach some 35 MiB
)

// wholeNames are the endings of files that are kept whole.
var wholeNames = map[string]bool{".json": true, ".jinja": true, ".txt": true, ".py": true}

// Capture is an io.Writer that keeps of a file what Read needs.
type Capture struct {
	kept   []byte
	limit  int64
	header bool // the limit grows by the length that a safetensors file states
}

// NewCapture prepares for a file of a model repository, by its name and size.
func NewCapture(file string, size int64) *Capture {
	ext := path.Ext(file)
	switch {
	case ext == ".safetensors":
		return &Capture{limit: sniffed, header: true}
	case wholeNames[strings.ToLower(ext)] && size <= wholeMax:
		return NewWholeCapture()
	}
	return &Capture{limit: sniffed}
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
		c.grow()
	}
	return n, nil
}

// grow extends the limit to the end of the header once its length is known.
func (c *Capture) grow() {
	if !c.header || len(c.kept) < 8 {
		return
	}
	c.header = false
	if n := binary.LittleEndian.Uint64(c.kept); n <= safetensors.MaxHeader {
		c.limit = max(c.limit, 8+int64(n))
	}
}

// Bytes is what was kept.
func (c *Capture) Bytes() []byte { return c.kept }
