package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"drkit/internal/errext"
	"drkit/internal/store"
)

// resumes is how often in a row a body may break off without a byte in between.
const resumes = 5

var errStalled = errors.New("no byte came for too long")

// Open reads exactly o.Version, or without one the object with o.ETag; an object
// that is neither now is an ErrPrecondition. A body that breaks off is asked for
// again from where it ended, of the same version or ETag.
func (s *Store) Open(ctx context.Context, o store.Object, off, n int64) (io.ReadCloser, error) {
	if err := readable(o.Key); err != nil {
		return nil, err
	}
	if off < 0 {
		return nil, fmt.Errorf("reading %s: from before its beginning", s.name(o.Key))
	}
	if n == 0 {
		return http.NoBody, nil
	}
	b := &body{s: s, ctx: ctx, o: o, off: off, end: -1}
	if n > 0 {
		b.end = off + n
	}
	if err := b.open(); err != nil {
		return nil, err
	}
	return b, nil
}

// body is an object's bytes from off up to end, however often it must be asked.
type body struct {
	s        *Store
	ctx      context.Context
	o        store.Object // with the version or ETag that the first answer named
	off, end int64        // end: -1 until the first answer, unless it was given
	r        io.ReadCloser
	cancel   context.CancelCauseFunc
	failed   int // attempts since the last byte
	err      error
}

// open asks for the bytes from b.off on.
func (b *body) open() error {
	in := &s3.GetObjectInput{Bucket: b.s.bucket(), Key: b.s.full(b.o.Key), RequestPayer: b.s.payer(), Range: b.wanted()}
	switch {
	case b.o.Version != "":
		in.VersionId = &b.o.Version
	case b.o.ETag != "":
		in.IfMatch = quoted(b.o.ETag)
	}
	ctx, cancel := context.WithCancelCause(b.ctx)
	out, err := b.s.get(ctx, in)
	if err == nil {
		err = b.accept(out, in.Range != nil)
	}
	if err == nil {
		b.r, b.cancel = out.Body, cancel
		return nil
	}
	cancel(nil)
	switch {
	case statusOf(err) == http.StatusRequestedRangeNotSatisfiable && b.r == nil && b.failed == 0:
		b.r, b.end = http.NoBody, b.off // it begins beyond the end
		return nil
	case statusOf(err) == http.StatusPreconditionFailed:
		return b.s.changed(b.o.Key)
	case statusOf(err) == http.StatusNotFound && codeOf(err) != "NoSuchBucket":
		b.s.seen.Store(true)
	}
	return b.s.unread(b.o.Key, b.s.fail(b.ctx, "reading", b.o.Key, b.s.toRead(b.o), err))
}

func (s *Store) toRead(o store.Object) string {
	if o.Version != "" {
		return "s3:GetObjectVersion"
	}
	return "s3:GetObject"
}

// wanted is the range to ask for, nil for the whole object.
func (b *body) wanted() *string {
	switch {
	case b.end >= 0:
		return aws.String(fmt.Sprintf("bytes=%d-%d", b.off, b.end-1))
	case b.off > 0:
		return aws.String(fmt.Sprintf("bytes=%d-", b.off))
	}
	return nil
}

// accept checks that an answer is for what was asked, and pins what it is of.
func (b *body) accept(out *s3.GetObjectOutput, ranged bool) error {
	end, err := b.ends(out, ranged)
	if err == nil && b.o.ETag != "" && etagOf(out.ETag) != "" && etagOf(out.ETag) != b.o.ETag {
		err = b.s.changed(b.o.Key)
	}
	if err != nil {
		out.Body.Close()
		return err
	}
	b.end = end
	if b.o.Version == "" {
		b.o.Version = versionOf(out.VersionId)
	}
	if b.o.ETag == "" {
		b.o.ETag = etagOf(out.ETag)
	}
	return nil
}

// ends says at which offset the bytes of an answer end; -1: not told.
func (b *body) ends(out *s3.GetObjectOutput, ranged bool) (int64, error) {
	if !ranged {
		if out.ContentLength == nil {
			return -1, nil
		}
		return *out.ContentLength, nil
	}
	from, to, ok := parseRange(aws.ToString(out.ContentRange))
	if !ok || from != b.off || (b.end >= 0 && to > b.end) {
		return 0, fmt.Errorf("reading %s: asked for the bytes from %d on, the server answers with the range %q", b.s.name(b.o.Key), b.off, aws.ToString(out.ContentRange))
	}
	return to, nil
}

// parseRange reads "bytes 3-6/10" as 3 and 7.
func parseRange(text string) (from, to int64, ok bool) {
	text, _, _ = strings.Cut(strings.TrimPrefix(text, "bytes "), "/")
	a, z, _ := strings.Cut(text, "-")
	from, err := strconv.ParseInt(a, 10, 64)
	to, err2 := strconv.ParseInt(z, 10, 64)
	return from, to + 1, err == nil && err2 == nil && to >= from
}

// Read reads on, and asks again where the body broke off.
func (b *body) Read(p []byte) (int, error) {
	for b.err == nil && len(p) > 0 {
		if b.end >= 0 && b.off >= b.end {
			b.err = io.EOF
			break
		}
		n, err := b.some(p)
		b.off += int64(n)
		if n > 0 {
			b.failed = 0
			return n, nil
		}
		if err != nil {
			b.err = b.again(err)
		}
	}
	return 0, b.err
}

// some reads once, and breaks the body off when nothing comes.
func (b *body) some(p []byte) (int, error) {
	if b.end >= 0 {
		p = p[:min(int64(len(p)), b.end-b.off)]
	}
	if b.cancel == nil {
		return b.r.Read(p)
	}
	alarm := time.AfterFunc(b.s.opts.Stall, func() { b.cancel(errStalled) })
	defer alarm.Stop()
	return b.r.Read(p)
}

// again opens the rest of the body, unless it is whole.
func (b *body) again(err error) error {
	if b.ctx.Err() != nil {
		return context.Cause(b.ctx)
	}
	if b.end < 0 && errors.Is(err, io.EOF) {
		return io.EOF // its length was not told, and it ended properly
	}
	for {
		if b.failed++; b.failed > resumes {
			return errext.WithHint(fmt.Errorf("reading %s: the body broke off at byte %d of %d, and %d times in a row when it was asked for again: %w", b.s.name(b.o.Key), b.off, b.end, resumes, cut(err)), later)
		}
		b.close()
		if err := wait(b.ctx, b.s.opts.Backoff, b.failed); err != nil {
			return err
		}
		if err = b.open(); err == nil || !passing(err) {
			return err
		}
	}
}

// passing reports whether an error may be gone when the request is made again.
func passing(err error) bool {
	return statusOf(err) >= 500 || statusOf(err) == 0 && !errors.Is(err, store.ErrPrecondition) && !errors.Is(err, store.ErrUnreachable)
}

// cut is what a body's end before its end is called.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (b *body) close() {
	if b.cancel != nil {
		b.cancel(nil)
	}
	if b.r != nil {
		b.r.Close()
	}
}

// Close ends the reading.
func (b *body) Close() error {
	b.close()
	if b.err == nil {
		b.err = errors.New("reading " + b.s.name(b.o.Key) + ": it is closed")
	}
	return nil
}

// changed is the error of an object that is no longer the one that was asked for.
func (s *Store) changed(key string) error {
	return errext.WithHint(fmt.Errorf("reading %s: it was changed meanwhile: %w", s.name(key), store.ErrPrecondition),
		"something else writes there: wait until the other upload has ended, and run the same command again")
}

// wait waits before the nth attempt, from a sixteenth of a second up to longest.
func wait(ctx context.Context, longest time.Duration, n int) error {
	d := min(time.Second/16<<min(n, 10), longest)
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
