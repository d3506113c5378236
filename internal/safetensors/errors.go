package safetensors

import (
	"bytes"
	"fmt"
)

// Kind classes what is wrong with a header.
type Kind string

// The kinds of HeaderError.
const (
	TooShort       Kind = "too-short"        // fewer than 8 bytes, or empty
	HeaderTooLarge Kind = "header-too-large" // the length field is above MaxHeader
	HeaderCut      Kind = "header-cut"       // the file ends inside the header
	InvalidHeader  Kind = "invalid-header"   // not UTF-8, not an object, not the fields expected
	DuplicateKey   Kind = "duplicate-key"    // a name stands twice
	BadShape       Kind = "bad-shape"        // shape and element type do not give the bytes stated
	Hole           Kind = "hole"             // bytes between tensors that belong to none
	Overlap        Kind = "overlap"          // bytes that belong to two tensors
	Truncated      Kind = "truncated"        // the file ends before its last tensor does
	TrailingBytes  Kind = "trailing-bytes"   // the file goes on after its last tensor
	LFSPointer     Kind = "lfs-pointer"      // a Git LFS pointer in place of the file
	ErrorPage      Kind = "error-page"       // HTML, XML or JSON text in place of the file
)

// HeaderError says why a file is not a whole safetensors file. Every kind
// keeps an engine from loading it.
type HeaderError struct {
	Kind   Kind
	Tensor string // the tensor concerned, where it is one
	Want   int64  // bytes expected, where the kind compares sizes
	Got    int64  // bytes found
	Detail string
}

func (e *HeaderError) Error() string {
	if e.Tensor != "" {
		return fmt.Sprintf("tensor %q: %s", e.Tensor, e.Detail)
	}
	return e.Detail
}

// foreign recognises what copies and proxies leave in place of a file. Text
// read as a length field gives a number far above MaxHeader, so a right file
// can never look like these.
func foreign(first []byte, size int64) *HeaderError {
	if p, ok := ParseLFSPointer(first); ok {
		return &HeaderError{Kind: LFSPointer, Want: p.Size, Got: size,
			Detail: fmt.Sprintf("a Git LFS pointer of %d bytes in place of the file of %d bytes that it names (sha256 %s)", size, p.Size, p.SHA256)}
	}
	text := bytes.TrimLeft(first, " \t\r\n\ufeff")
	switch {
	case bytes.HasPrefix(first, []byte(lfsVersion)):
		return &HeaderError{Kind: LFSPointer, Got: size,
			Detail: fmt.Sprintf("a damaged Git LFS pointer of %d bytes in place of the file", size)}
	case bytes.HasPrefix(text, []byte("<")) && printable(first[:min(8, len(first))]):
		return &HeaderError{Kind: ErrorPage, Got: size,
			Detail: fmt.Sprintf("%d bytes of HTML or XML text in place of the file, it begins %q", size, quoteStart(text))}
	case bytes.HasPrefix(text, []byte(`{`)) && printable(first[:min(8, len(first))]):
		return &HeaderError{Kind: ErrorPage, Got: size,
			Detail: fmt.Sprintf("%d bytes of JSON text in place of the file, it begins %q", size, quoteStart(text))}
	}
	return nil
}

// printable tells text from a length field, whose upper bytes are zero.
func printable(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' && c != '\r' && c != '\n' {
			return false
		}
	}
	return len(b) > 0
}

func quoteStart(b []byte) string { return string(b[:min(40, len(b))]) }
