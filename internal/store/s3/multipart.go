package s3

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"golang.org/x/sync/errgroup"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/manifest/digest"
)

const (
	maxParts     = 10_000
	abortTimeout = 30 * time.Second // to clear away what came to nothing
)

// partSize is the size of each part but the last.
func (s *Store) partSize(size int64) int64 {
	const step = 1 << 20
	need := (size + maxParts - 1) / maxParts
	if need <= s.opts.PartSize {
		return s.opts.PartSize
	}
	return (need + step - 1) / step * step
}

// upload is one multipart upload. What it has begun it ends: by finish, or by
// abort, which leaves nothing behind.
type upload struct {
	s     *Store
	key   string
	id    *string
	size  int64
	parts []types.CompletedPart // by number
}

func (s *Store) begin(ctx context.Context, key string, size int64, parts int) (*upload, error) {
	in := &s3.CreateMultipartUploadInput{Bucket: s.bucket(), Key: s.full(key), RequestPayer: s.payer()}
	in.ServerSideEncryption, in.SSEKMSKeyId = s.encryption()
	if !s.whenRequired() {
		in.ChecksumAlgorithm, in.ChecksumType = types.ChecksumAlgorithmCrc64nvme, types.ChecksumTypeFullObject
	}
	out, err := call(ctx, s, func(c *s3.Client) (*s3.CreateMultipartUploadOutput, error) { return c.CreateMultipartUpload(ctx, in) })
	if err != nil {
		return nil, s.unwritten(ctx, key, store.Cond{}, err)
	}
	return &upload{s: s, key: key, id: out.UploadId, size: size, parts: make([]types.CompletedPart, parts)}, nil
}

// putParts reads the body once, in order, and sends its parts side by side.
func (s *Store) putParts(ctx context.Context, key string, b store.Body, c store.Cond) (store.Object, error) {
	if err := b.Sums.Check(); err != nil {
		return store.Object{}, fmt.Errorf("expected digests of %s: %w", key, err)
	}
	size := s.partSize(b.Size)
	u, err := s.begin(ctx, key, b.Size, int((b.Size+size-1)/size))
	if err != nil {
		return store.Object{}, err
	}
	sums, err := u.send(ctx, b, size)
	if err != nil {
		return store.Object{}, u.abort(ctx, err)
	}
	o, err := u.finish(ctx, sums[digest.CRC64NVME], c)
	if err != nil {
		return store.Object{}, u.abort(ctx, err)
	}
	return s.stored(ctx, o, sums)
}

// send reads and sends all parts and returns the digests of the whole.
func (u *upload) send(ctx context.Context, b store.Body, size int64) (digest.Set, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &partWriter{u: u, size: size}
	w.group, w.ctx = errgroup.WithContext(ctx)
	sums, err := store.CopyBody(w.ctx, w, u.key, b, digest.CRC64NVME)
	if err == nil {
		err = w.flush()
	}
	if err != nil {
		w.release()
		cancel()
	}
	return sums, firstErr(err, w.group.Wait())
}

// partWriter cuts what is written into parts. Its buffers come out of the store's
// allowance of memory, so that many uploads at once take no more than one.
type partWriter struct {
	u     *upload
	ctx   context.Context
	group *errgroup.Group
	size  int64
	n     int32 // parts begun
	buf   []byte
	held  int64 // of the allowance, for buf
}

func (w *partWriter) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		if w.buf == nil {
			if err := w.acquire(); err != nil {
				return n, err
			}
		}
		k := min(len(p), int(w.size)-len(w.buf))
		w.buf = append(w.buf, p[:k]...)
		n, p = n+k, p[k:]
		if len(w.buf) == int(w.size) {
			if err := w.flush(); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

func (w *partWriter) acquire() error {
	held := min(w.size, uploadMemory)
	if err := w.u.s.memory.Acquire(w.ctx, held); err != nil {
		return context.Cause(w.ctx)
	}
	w.held = held
	if b, ok := w.u.s.buffers.Get().(*[]byte); ok && int64(cap(*b)) >= w.size {
		w.buf = (*b)[:0]
	} else {
		w.buf = make([]byte, 0, w.size)
	}
	return nil
}

func (w *partWriter) release() {
	if w.buf != nil {
		w.u.s.give(w.buf, w.held)
		w.buf = nil
	}
}

func (s *Store) give(buf []byte, held int64) {
	s.buffers.Put(&buf)
	s.memory.Release(held)
}

// flush sends the part that is at hand.
func (w *partWriter) flush() error {
	if w.buf == nil {
		return nil
	}
	if int(w.n) == len(w.u.parts) {
		return io.ErrShortWrite // the body is longer than it says, which its reader reports
	}
	w.n++
	n, buf, held := w.n, w.buf, w.held
	w.buf = nil
	w.group.Go(func() error {
		defer w.u.s.give(buf, held)
		return w.u.part(w.ctx, n, buf)
	})
	return nil
}

// part sends one part with its checksum.
func (u *upload) part(ctx context.Context, n int32, data []byte) error {
	in := &s3.UploadPartInput{Bucket: u.s.bucket(), Key: u.s.full(u.key), UploadId: u.id, PartNumber: &n, ContentLength: aws.Int64(int64(len(data))), RequestPayer: u.s.payer()}
	h := digest.NewHasher(int64(len(data)), digest.CRC64NVME)
	h.Write(data)
	crc := toBase64(h.Sums()[digest.CRC64NVME])
	if u.s.whenRequired() {
		in.ContentMD5, crc = md5Base64(data), nil
	} else {
		in.ChecksumAlgorithm, in.ChecksumCRC64NVME = types.ChecksumAlgorithmCrc64nvme, crc
	}
	out, err := call(ctx, u.s, func(c *s3.Client) (*s3.UploadPartOutput, error) {
		in.Body = bytes.NewReader(data)
		return c.UploadPart(ctx, in)
	})
	if err != nil {
		return u.s.unwritten(ctx, u.key, store.Cond{}, err)
	}
	u.parts[n-1] = types.CompletedPart{PartNumber: &n, ETag: out.ETag, ChecksumCRC64NVME: crc}
	return nil
}

// finish assembles the parts. The server compares size and checksum of the whole
// with what is expected before the object appears.
func (u *upload) finish(ctx context.Context, crc string, c store.Cond) (store.Object, error) {
	in := &s3.CompleteMultipartUploadInput{Bucket: u.s.bucket(), Key: u.s.full(u.key), UploadId: u.id, RequestPayer: u.s.payer(),
		MultipartUpload: &types.CompletedMultipartUpload{Parts: u.parts}}
	in.IfNoneMatch, in.IfMatch = conditions(c)
	if !u.s.whenRequired() {
		in.ChecksumType, in.ChecksumCRC64NVME, in.MpuObjectSize = types.ChecksumTypeFullObject, toBase64(crc), aws.Int64(u.size)
	}
	out, err := call(ctx, u.s, func(cl *s3.Client) (*s3.CompleteMultipartUploadOutput, error) {
		return cl.CompleteMultipartUpload(ctx, in)
	})
	o := store.Object{Key: u.key, Size: u.size}
	if codeOf(err) == "NoSuchUpload" {
		return u.finished(ctx, o, crc, err)
	}
	if err != nil {
		return o, u.s.unwritten(ctx, u.key, c, err)
	}
	o.ETag, o.Version = etagOf(out.ETag), versionOf(out.VersionId)
	return o, nil
}

// finished looks whether an upload that is not known any more has become the
// object: the answer to the first request was lost, and it was sent again.
func (u *upload) finished(ctx context.Context, o store.Object, crc string, cause error) (store.Object, error) {
	now, err := u.s.head(ctx, u.key, "")
	if err == nil && now.Size == o.Size && (now.ETag == u.etag() || (crc != "" && said(now, digest.CRC64NVME) == crc)) {
		return now, nil
	}
	return o, u.s.unwritten(ctx, u.key, store.Cond{}, cause)
}

// etag is the one that S3 gives the assembled object: the MD5 of its parts' MD5s.
func (u *upload) etag() string {
	h := md5.New()
	for _, p := range u.parts {
		raw, err := hex.DecodeString(etagOf(p.ETag))
		if err != nil {
			return "unknown"
		}
		h.Write(raw)
	}
	return hex.EncodeToString(h.Sum(nil)) + "-" + strconv.Itoa(len(u.parts))
}

// said is the checksum of the whole object by an algorithm, or "".
func said(o store.Object, algorithm string) string {
	for _, s := range o.Sums {
		if s.Algorithm == algorithm && s.Parts == 0 {
			return s.Hex
		}
	}
	return ""
}

// abort removes the parts, also after ctx has ended, and returns err.
func (u *upload) abort(ctx context.Context, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	_, bad := call(ctx, u.s, func(c *s3.Client) (*s3.AbortMultipartUploadOutput, error) {
		return c.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: u.s.bucket(), Key: u.s.full(u.key), UploadId: u.id, RequestPayer: u.s.payer()})
	})
	if bad == nil || codeOf(bad) == "NoSuchUpload" {
		return err
	}
	left := u.s.fail(ctx, "removing the unfinished upload of", u.key, "s3:AbortMultipartUpload", bad)
	hint := errext.Hint(err)
	if hint == "" {
		hint = "its parts cost money until they are removed: a lifecycle rule AbortIncompleteMultipartUpload does so"
	}
	return errext.WithHint(errors.Join(err, left), hint)
}
