package digest

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/minio/crc64nvme"
)

// SmallFile is the greatest size in bytes for which MD5 and the git SHA-1 are
// taken: the size below which a single-part ETag is an MD5, and the range in
// which a model hub keeps files in git itself.
const SmallFile = 8 << 20

const (
	smallSize = 64 << 10  // bytes up to which a file is small, and read at once
	readSize  = 256 << 10 // bytes of one read of a larger file
	pieceSize = 16 << 10  // bytes that stay in a core's first cache while each hash takes them
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Hasher takes all digests of one sequence of bytes as it is written.
type Hasher struct {
	taken []taken
	n     int64
}

type taken struct {
	algorithm string
	hash      hash.Hash
}

// NewHasher prepares the digests for a file of size bytes. Without algorithms it
// takes all that suit the size: MD5 and GitSHA1 up to SmallFile only.
func NewHasher(size int64, algorithms ...string) *Hasher {
	if len(algorithms) == 0 {
		algorithms = suited(size)
	}
	h := &Hasher{taken: make([]taken, 0, len(algorithms))}
	for _, a := range algorithms {
		if f := newHash(a, size); f != nil && !h.takes(a) {
			h.taken = append(h.taken, taken{a, f})
		}
	}
	return h
}

func (h *Hasher) takes(algorithm string) bool {
	return slices.ContainsFunc(h.taken, func(t taken) bool { return t.algorithm == algorithm })
}

func suited(size int64) []string {
	all := []string{SHA256, CRC64NVME, CRC32, CRC32C}
	if size <= SmallFile {
		all = append(all, MD5, GitSHA1)
	}
	return all
}

// newHash is nil for an unknown algorithm.
func newHash(algorithm string, size int64) hash.Hash {
	switch algorithm {
	case SHA256:
		return sha256.New()
	case CRC64NVME:
		return crc64nvme.New()
	case CRC32:
		return crc32.NewIEEE()
	case CRC32C:
		return crc32.New(castagnoli)
	case MD5:
		return md5.New()
	case GitSHA1:
		h := sha1.New()
		fmt.Fprintf(h, "blob %d\x00", size)
		return h
	}
	return nil
}

// Write adds bytes; it never fails.
func (h *Hasher) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		piece := rest[:min(pieceSize, len(rest))]
		rest = rest[len(piece):]
		for _, t := range h.taken {
			t.hash.Write(piece)
		}
	}
	h.n += int64(len(p))
	return len(p), nil
}

// Size is the number of bytes written so far.
func (h *Hasher) Size() int64 { return h.n }

// Sums returns the digests of what was written so far.
func (h *Hasher) Sums() Set {
	s := make(Set, len(h.taken))
	for _, t := range h.taken {
		s[t.algorithm] = hex.EncodeToString(t.hash.Sum(nil))
	}
	return s
}

// Options changes what Read does. The zero value takes all digests that suit the size.
type Options struct {
	Algorithms []string  // take only these
	Tee        io.Writer // also receives every byte, for readers of content
}

// Read takes all digests of r in one pass and returns them with the number of
// bytes that it read. The caller compares that number with size: a file that
// changed meanwhile has another one.
func Read(r io.Reader, size int64, o Options) (Set, int64, error) {
	h := NewHasher(size, o.Algorithms...)
	var w io.Writer = h
	if o.Tee != nil {
		w = io.MultiWriter(h, o.Tee)
	}
	// CopyBuffer would hand over to WriterTo and choose its own pieces.
	buf, done := buffer(size)
	defer done()
	_, err := io.CopyBuffer(w, struct{ io.Reader }{r}, buf)
	if err != nil {
		return nil, h.n, err
	}
	return h.Sums(), h.n, nil
}

// Buffers are used again: with thousands of files they would be most of the garbage.
var (
	smallBuffers = sync.Pool{New: func() any { return new([smallSize]byte) }}
	largeBuffers = sync.Pool{New: func() any { return new([readSize]byte) }}
)

// buffer is one to read so many bytes with, and what gives it back.
func buffer(size int64) (buf []byte, done func()) {
	if size < smallSize {
		b := smallBuffers.Get().(*[smallSize]byte)
		return b[:], func() { smallBuffers.Put(b) }
	}
	b := largeBuffers.Get().(*[readSize]byte)
	return b[:], func() { largeBuffers.Put(b) }
}

// Algorithms lists what the set holds, sorted.
func (s Set) Algorithms() []string { return slices.Sorted(maps.Keys(s)) }

// Check says what is wrong with the set: an unknown algorithm, or a digest that
// has not its length or is not lower-case hexadecimal.
func (s Set) Check() error {
	for a, hex := range s {
		if !wellFormed(a, hex) {
			return s.firstMalformed() // the same one each time
		}
	}
	return nil
}

func (s Set) firstMalformed() error {
	for _, a := range s.Algorithms() {
		if _, err := Parse(a + ":" + s[a]); err != nil {
			return err
		}
	}
	return nil
}
