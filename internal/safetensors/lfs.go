package safetensors

import (
	"bytes"
	"encoding/hex"
	"strconv"
	"strings"
)

// Pointer is what stands in place of a large file when Git LFS did not fetch
// it: the file's SHA-256 in hex and its size in bytes.
type Pointer struct {
	SHA256 string
	Size   int64
}

const (
	lfsVersion = "version https://git-lfs"
	maxPointer = 1024 // bytes; the LFS specification's own limit
)

// ParseLFSPointer reads a Git LFS pointer; text is the whole file or at least
// its beginning. False: this is no pointer, or a damaged one.
func ParseLFSPointer(text []byte) (Pointer, bool) {
	if !bytes.HasPrefix(text, []byte(lfsVersion)) {
		return Pointer{}, false
	}
	p := Pointer{Size: -1}
	for line := range strings.Lines(string(text[:min(len(text), maxPointer)])) {
		key, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), " ")
		switch key {
		case "oid":
			p.SHA256 = strings.ToLower(strings.TrimPrefix(value, "sha256:"))
		case "size":
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return Pointer{}, false
			}
			p.Size = n
		}
	}
	sum, err := hex.DecodeString(p.SHA256)
	return p, err == nil && len(sum) == 32 && p.Size >= 0
}
