// Package safetensors reads the header of a .safetensors file and proves that
// it describes the whole file: every byte belongs to exactly one tensor and
// nothing is missing, left over or described twice. It reads the header only,
// so a file of many gigabytes costs two small reads, on disk or over a network.
//
// The rules are those of the reference reader (safetensors 0.8.0, tensor.rs):
// a little-endian 64-bit header length N of at most 100,000,000, N bytes of
// JSON that begin with "{" and may end in spaces, then the data. The package
// also reads the index that joins shards, and Git LFS pointers, because a
// pointer where weights should be is what a careless copy leaves.
//
//	h, err := safetensors.ReadFile("model-00001-of-00002.safetensors")
//	var he *safetensors.HeaderError
//	if errors.As(err, &he) && he.Kind == safetensors.Truncated { … }
package safetensors

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// MaxHeader is the greatest header length in bytes that the reference reader takes.
const MaxHeader = 100_000_000

// Header is what a file says of itself, already checked against its size.
type Header struct {
	Tensors   []Tensor          // in the order of their data
	Metadata  map[string]string // __metadata__; nil when absent
	Length    int64             // bytes of the JSON text
	DataStart int64             // offset of the first tensor byte in the file: 8 + Length
	Size      int64             // bytes of the whole file
}

// Tensor is one named array. Begin and End are byte offsets from DataStart.
type Tensor struct {
	Name       string
	DType      DType
	Shape      []int64
	Begin, End int64
}

// Bytes is the size of the tensor's data.
func (t Tensor) Bytes() int64 { return t.End - t.Begin }

// Lookup finds a tensor by name.
func (h *Header) Lookup(name string) (Tensor, bool) {
	i := slices.IndexFunc(h.Tensors, func(t Tensor) bool { return t.Name == name })
	if i < 0 {
		return Tensor{}, false
	}
	return h.Tensors[i], true
}

// UnknownDTypes names the tensors whose element type this package does not
// know. Their place in the file is checked, their shape against it is not.
func (h *Header) UnknownDTypes() []string {
	var names []string
	for _, t := range h.Tensors {
		if _, ok := t.DType.Bits(); !ok {
			names = append(names, t.Name)
		}
	}
	return names
}

// ReadFile reads the header of a file on disk. A file with broken content
// gives a *HeaderError; one that cannot be read gives the system's error.
func ReadFile(path string) (*Header, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, &os.PathError{Op: "read", Path: path, Err: errors.New("not a regular file")}
	}
	return Read(f, st.Size())
}

// Read reads the header of a file of size bytes. It reads at most 8 + MaxHeader
// bytes, and never more than size.
func Read(r io.ReaderAt, size int64) (*Header, error) {
	n, err := headerLength(r, size)
	if err != nil {
		return nil, err
	}
	text := make([]byte, n)
	if err := readAt(r, text, 8); err != nil {
		return nil, fmt.Errorf("reading the safetensors header (%d bytes): %w", n, err)
	}
	h := &Header{Length: n, DataStart: 8 + n, Size: size}
	if err := h.parse(text); err != nil {
		return nil, err
	}
	return h, h.checkLayout()
}

// ReadTensor reads the data of one tensor of h from the same file.
func (h *Header) ReadTensor(r io.ReaderAt, t Tensor) ([]byte, error) {
	b := make([]byte, t.Bytes())
	if err := readAt(r, b, h.DataStart+t.Begin); err != nil {
		return nil, fmt.Errorf("reading tensor %s (%d bytes): %w", t.Name, len(b), err)
	}
	return b, nil
}

func headerLength(r io.ReaderAt, size int64) (int64, error) {
	first := make([]byte, min(size, 512))
	if err := readAt(r, first, 0); err != nil {
		return 0, fmt.Errorf("reading the first %d bytes: %w", len(first), err)
	}
	if e := foreign(first, size); e != nil {
		return 0, e
	}
	if size < 8 {
		return 0, &HeaderError{Kind: TooShort, Want: 8, Got: size,
			Detail: fmt.Sprintf("the file has %d bytes, a safetensors file at least 8", size)}
	}
	n := binary.LittleEndian.Uint64(first)
	if n > MaxHeader {
		return 0, &HeaderError{Kind: HeaderTooLarge, Want: MaxHeader,
			Detail: fmt.Sprintf("the length field says %d header bytes, more than the %d allowed: this is not a safetensors file, or its beginning is damaged", n, int64(MaxHeader))}
	}
	if int64(n) > size-8 {
		return 0, &HeaderError{Kind: HeaderCut, Want: 8 + int64(n), Got: size,
			Detail: fmt.Sprintf("the header alone needs %d bytes, the file has %d: it is cut off inside the header", 8+n, size)}
	}
	return int64(n), nil
}

// readAt fills b; a reader that ends early is an error even at io.EOF.
func readAt(r io.ReaderAt, b []byte, off int64) error {
	n, err := r.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == nil || err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
