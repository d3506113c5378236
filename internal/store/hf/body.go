package hf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/manifest/digest"
)

const (
	stalled  = 60 * time.Second // without a byte: the connection is given up
	resumes  = 5                // in a row that bring less than progress
	progress = 1 << 20          // bytes
)

var errStalled = errors.New("no data for " + stalled.String())

// body reads a range of a file. It is not safe for concurrent use.
type body struct {
	ctx       context.Context
	h         *Hub
	f         file
	off, left int64          // where the next byte lies, and how many are wanted
	hash      *digest.Hasher // of a file that is read whole, else nil
	rc        io.ReadCloser  // nil: not connected
	conn      context.Context
	stop      context.CancelCauseFunc // of conn
	failures  int                     // in a row
	since     int64                   // bytes since the last connection
	err       error                   // the end
}

// read opens a range, n < 0 to the end. Nothing beyond the end is asked for.
func (h *Hub) read(ctx context.Context, f file, off, n int64) (io.ReadCloser, error) {
	off = min(max(off, 0), f.size)
	b := &body{ctx: ctx, h: h, f: f, off: off, left: f.size - off}
	if n >= 0 {
		b.left = min(n, b.left)
	}
	if b.left == f.size {
		b.hash = digest.NewHasher(f.size, f.sum.Algorithm)
	}
	if b.left > 0 {
		if err := b.connect(); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// connect asks for what is left.
func (b *body) connect() error {
	b.conn, b.stop = context.WithCancelCause(b.ctx)
	b.since = 0
	end := b.off + b.left
	byteRange := ""
	if b.off > 0 || end < b.f.size {
		byteRange = fmt.Sprintf("bytes=%d-%d", b.off, end-1)
	}
	err := b.h.client.get(b.conn, "/"+b.h.repo+"/resolve/"+b.h.commit+"/"+escape(b.f.key), "", byteRange, func(res *http.Response) error {
		b.rc = res.Body
		return b.position(res)
	})
	if err != nil {
		b.disconnect()
		return fmt.Errorf("opening %s of hf://%s: %w", b.f.key, b.h.repo, err)
	}
	return nil
}

// escape is a key as a URL's path.
func escape(key string) string {
	parts := strings.Split(key, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return strings.Join(parts, "/")
}

// position checks that the answer is the range that was asked for. A server that
// knows no ranges sends everything: then what comes before is passed over.
func (b *body) position(res *http.Response) error {
	want := b.left
	if res.StatusCode == http.StatusPartialContent {
		if got, asked := res.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-%d/%d", b.off, b.off+b.left-1, b.f.size); got != asked {
			res.Body.Close()
			return backoff.Permanent(fmt.Errorf("%s sent the range %.60q, not %q", res.Request.URL.Host, got, asked))
		}
	} else {
		want = b.f.size
	}
	if res.ContentLength >= 0 && res.ContentLength != want {
		res.Body.Close()
		return backoff.Permanent(b.otherBytes(&store.MismatchError{Key: b.f.key, WantSize: want, GotSize: res.ContentLength}))
	}
	if res.StatusCode == http.StatusOK {
		if _, err := io.CopyN(io.Discard, b.rc, b.off); err != nil {
			res.Body.Close()
			return fmt.Errorf("the answer of %s broke off: %w", res.Request.URL.Host, err)
		}
	}
	return nil
}

// Read reads on, over broken connections.
func (b *body) Read(p []byte) (int, error) {
	for b.err == nil {
		if b.left == 0 {
			b.err = b.end()
			break
		}
		n, err := b.some(p[:min(int64(len(p)), b.left)])
		if n > 0 || len(p) == 0 {
			return n, nil // err comes back with the next Read
		}
		if err != nil {
			b.err = b.resume(err)
		}
	}
	return 0, b.err
}

// some reads once from the connection, for at most the time of a stall.
func (b *body) some(p []byte) (int, error) {
	stop := b.stop
	watch := time.AfterFunc(stalled, func() { stop(errStalled) })
	n, err := b.rc.Read(p)
	watch.Stop()
	b.off, b.left, b.since = b.off+int64(n), b.left-int64(n), b.since+int64(n)
	if b.hash != nil {
		b.hash.Write(p[:n])
	}
	return n, err
}

// resume connects anew where the last connection broke off.
func (b *body) resume(cause error) error {
	if err := context.Cause(b.conn); err != nil { // the caller's reason, or errStalled
		cause = err
	}
	b.disconnect()
	if err := context.Cause(b.ctx); err != nil {
		return err
	}
	if cause == io.EOF {
		cause = io.ErrUnexpectedEOF
	}
	if b.since >= progress {
		b.failures = 0
	}
	if b.failures++; b.failures > resumes {
		return errext.WithHint(fmt.Errorf("reading %s of hf://%s@%s: it breaks off again and again, now with %d of %d bytes: %w", b.f.key, b.h.repo, b.h.commit, b.off, b.f.size, plainError(cause)),
			"check the network and what lies between (a proxy may end long transfers), and run this again")
	}
	select {
	case <-time.After(time.Second << (b.failures - 1) / 2):
	case <-b.ctx.Done():
		return context.Cause(b.ctx)
	}
	return b.connect()
}

// end is io.EOF when the bytes are those that the commit has.
func (b *body) end() error {
	if b.hash == nil {
		return io.EOF
	}
	got := b.hash.Sums()
	if got[b.f.sum.Algorithm] != b.f.sum.Hex {
		return b.otherBytes(&store.MismatchError{Key: b.f.key, WantSize: b.f.size, GotSize: b.f.size,
			Want: digest.Set{b.f.sum.Algorithm: b.f.sum.Hex}, Got: got})
	}
	if b.rc != nil && b.surplus() {
		return b.otherBytes(&store.MismatchError{Key: b.f.key, WantSize: b.f.size, GotSize: -1})
	}
	return io.EOF
}

func (b *body) otherBytes(e *store.MismatchError) error {
	return errext.WithHint(fmt.Errorf("reading hf://%s@%s: %w", b.h.repo, b.h.commit, e),
		"the hub, or a mirror or proxy before it (HF_ENDPOINT), sent other bytes than the commit has: try again, or go round it")
}

// surplus reports whether more comes than the file has.
func (b *body) surplus() bool {
	n, _ := io.CopyN(io.Discard, b.rc, 1)
	return n > 0
}

func (b *body) disconnect() {
	if b.rc != nil {
		b.rc.Close()
		b.rc = nil
	}
	if b.stop != nil {
		b.stop(nil)
	}
}

// Close ends the transfer.
func (b *body) Close() error {
	b.disconnect()
	if b.err == nil {
		b.err = errors.New("read after close")
	}
	return nil
}
