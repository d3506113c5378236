package store

import (
	"bytes"
	"context"
	"io"

	"drkit/manifest/digest"
)

// BytesBody is a body of bytes in memory, with their SHA-256.
func BytesBody(data []byte) Body {
	h := digest.NewHasher(int64(len(data)), digest.SHA256)
	h.Write(data)
	return Body{Size: int64(len(data)), Sums: h.Sums(), Open: func(_ context.Context, off, n int64) (io.ReadCloser, error) {
		return io.NopCloser(Range(data, off, n)), nil
	}}
}

// Range reads n bytes of data from off, to the end for n < 0. Beyond the end
// there are fewer or none.
func Range(data []byte, off, n int64) io.Reader {
	off = min(max(off, 0), int64(len(data)))
	rest := data[off:]
	if n >= 0 && n < int64(len(rest)) {
		rest = rest[:n]
	}
	return bytes.NewReader(rest)
}

// ObjectBody is the body of an object in another place, expected to have the
// given size and digests.
func ObjectBody(s Source, o Object, size int64, sums digest.Set) Body {
	return Body{Size: size, Sums: sums, Open: func(ctx context.Context, off, n int64) (io.ReadCloser, error) {
		return s.Open(ctx, o, off, n)
	}}
}
