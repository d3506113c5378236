package registry

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"net/http"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// stall is how long a layer may go without a byte. A variable for tests.
var stall = time.Minute

var errStalled = errors.New("no byte came for too long")

// hash reads a blob and proves that it is the described one. It returns how many
// bytes were read.
func (s *session) hash(ctx context.Context, d v1.Descriptor) (int64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(stall, func() { cancel(errStalled) })
	defer watch.Stop()
	resp, err := s.do(ctx, http.MethodGet, "blobs", d.Digest.String())
	if err != nil {
		return 0, s.stalled(ctx, err)
	}
	defer resp.Body.Close()
	h := hasher(d.Digest.Algorithm)
	if h == nil {
		return 0, newError(Untrue, nil, "%s has a layer named by %s, which no image uses", s.host(), d.Digest.Algorithm)
	}
	n, err := io.Copy(h, &watched{io.LimitReader(resp.Body, d.Size+1), watch})
	switch got := hex.EncodeToString(h.Sum(nil)); {
	case err != nil:
		return n, s.stalled(ctx, classify(err, s.host()))
	case n > d.Size:
		return n, newError(Untrue, nil, "%s answers with more than the %d bytes of %s", s.host(), d.Size, d.Digest)
	case n != d.Size:
		return n, newError(Untrue, nil, "%s answers with %d of the %d bytes of %s", s.host(), n, d.Size, d.Digest)
	case got != d.Digest.Hex:
		return n, newError(Untrue, nil, "%s answers with bytes of %s %s when it is asked for %s", s.host(), d.Digest.Algorithm, got, d.Digest)
	}
	return n, nil
}

// stalled says that an error comes from a body that went silent.
func (s *session) stalled(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errStalled) {
		return newError(TimedOut, errStalled, "%s sent no byte for %v", s.host(), stall)
	}
	return err
}

func hasher(algorithm string) hash.Hash {
	switch algorithm {
	case "sha256":
		return sha256.New()
	case "sha512":
		return sha512.New()
	}
	return nil
}

// watched puts the end of patience off with each byte that comes.
type watched struct {
	r     io.Reader
	timer *time.Timer
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if n > 0 {
		w.timer.Reset(stall)
	}
	return n, err
}
