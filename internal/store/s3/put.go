package s3

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/manifest/digest"
)

// conflicts is how often a conditional write is tried while others write too.
const conflicts = 8

// Put writes what fits into one part in one request, with the SHA-256 of its
// bytes; anything larger in parts, each with its CRC64NVME, and assembles it with
// that of the whole, so that the server refuses what is not it. Either way the
// body is hashed as it is read and compared with b.Sums before anything appears.
//
// A conditional write is decided by the server. When its answer is lost and the
// request is sent again, the writer may be refused by its own object: the error
// is then an ErrPrecondition like any other.
func (s *Store) Put(ctx context.Context, key string, b store.Body, c store.Cond) (store.Object, error) {
	if err := store.CheckKey(key); err != nil {
		return store.Object{}, err
	}
	return s.undisturbed(ctx, func() (store.Object, error) {
		if b.Size > s.opts.PartSize {
			return s.putParts(ctx, key, b, c)
		}
		return s.putWhole(ctx, key, b, c, time.Time{})
	})
}

// undisturbed writes again where others write at the same time.
func (s *Store) undisturbed(ctx context.Context, put func() (store.Object, error)) (store.Object, error) {
	for n := 1; ; n++ {
		o, err := put()
		if codeOf(err) != "ConditionalRequestConflict" || n == conflicts {
			return o, err
		}
		if err := wait(ctx, s.opts.Backoff, n); err != nil {
			return store.Object{}, err
		}
	}
}

// putWhole writes in one request. The version is held until then, unless it is zero.
func (s *Store) putWhole(ctx context.Context, key string, b store.Body, c store.Cond, until time.Time) (store.Object, error) {
	data := bytes.NewBuffer(make([]byte, 0, max(b.Size, 0)))
	sums, err := store.CopyBody(ctx, data, key, b)
	if err != nil {
		return store.Object{}, err
	}
	in := &s3.PutObjectInput{Bucket: s.bucket(), Key: s.full(key), ContentLength: aws.Int64(b.Size), RequestPayer: s.payer()}
	in.IfNoneMatch, in.IfMatch = conditions(c)
	in.ServerSideEncryption, in.SSEKMSKeyId = s.encryption()
	var also []string
	if !until.IsZero() {
		in.ObjectLockMode, in.ObjectLockRetainUntilDate = types.ObjectLockModeCompliance, &until
		also = []string{"s3:PutObjectRetention"}
	}
	if s.whenRequired() {
		in.ContentMD5 = md5Base64(data.Bytes())
	} else {
		in.ChecksumAlgorithm, in.ChecksumSHA256 = types.ChecksumAlgorithmSha256, toBase64(sums[digest.SHA256])
	}
	out, err := call(ctx, s, func(cl *s3.Client) (*s3.PutObjectOutput, error) {
		in.Body = bytes.NewReader(data.Bytes())
		return cl.PutObject(ctx, in)
	})
	if err != nil {
		return store.Object{}, s.unwritten(ctx, key, c, err, also...)
	}
	sum := md5.Sum(data.Bytes())
	sums[digest.MD5] = hex.EncodeToString(sum[:])
	return s.stored(ctx, store.Object{Key: key, Size: b.Size, ETag: etagOf(out.ETag), Version: versionOf(out.VersionId)}, sums)
}

func md5Base64(data []byte) *string {
	sum := md5.Sum(data)
	return aws.String(base64.StdEncoding.EncodeToString(sum[:]))
}

func conditions(c store.Cond) (ifNoneMatch, ifMatch *string) {
	if c.Absent {
		ifNoneMatch = aws.String("*")
	}
	if c.ETag != "" {
		ifMatch = quoted(c.ETag)
	}
	return ifNoneMatch, ifMatch
}

func (s *Store) encryption() (types.ServerSideEncryption, *string) {
	if s.opts.KMSKey == "" {
		return "", nil
	}
	return types.ServerSideEncryptionAwsKms, &s.opts.KMSKey
}

// unwritten is the error of a write, which needs s3:PutObject and also others.
func (s *Store) unwritten(ctx context.Context, key string, c store.Cond, err error, also ...string) error {
	needs := append([]string{"s3:PutObject"}, also...)
	if s.opts.KMSKey != "" {
		needs = append(needs, "kms:GenerateDataKey")
	}
	wrapped := s.fail(ctx, "writing", key, strings.Join(needs, " and "), err)
	if c.ETag != "" && statusOf(err) == http.StatusNotFound && codeOf(err) != "NoSuchBucket" { // If-Match where nothing is
		return fmt.Errorf("%w: %w", wrapped, store.ErrPrecondition)
	}
	return wrapped
}

// stored asks for what was written and compares what the bucket says of it with
// what was sent.
func (s *Store) stored(ctx context.Context, put store.Object, sent digest.Set) (store.Object, error) {
	o, err := s.head(ctx, put.Key, put.Version)
	switch {
	case errors.Is(err, store.ErrDenied):
		return put, nil // writing without reading is allowed; the writer's knowledge is in put
	case err != nil:
		return store.Object{}, err
	case put.ETag != "" && o.ETag != put.ETag:
		return put, nil // someone else wrote after this
	case o.Size != put.Size:
		return store.Object{}, &store.MismatchError{Key: put.Key, WantSize: put.Size, GotSize: o.Size}
	}
	for _, sum := range o.Sums {
		if want, ok := sent[sum.Algorithm]; ok && sum.Parts == 0 && !sum.EqualityOnly && sum.Hex != want && !s.oddETag(sum) {
			return store.Object{}, errext.WithHint(&store.MismatchError{Key: put.Key, WantSize: put.Size, GotSize: o.Size, Want: digest.Set{sum.Algorithm: want}, Got: digest.Set{sum.Algorithm: sum.Hex}},
				"the server holds other bytes than were sent, or states checksums that it did not take: do not trust it with a copy")
		}
	}
	return o, nil
}

// oddETag reports whether an MD5 may be an ETag of another kind: only Amazon's
// are known to be MD5 where they look so.
func (s *Store) oddETag(sum store.Sum) bool {
	return sum.Algorithm == digest.MD5 && endpointName(s.base) != ""
}

// Remove deletes the newest version of a key; a bucket with versions keeps the
// older ones. With a condition the ETag is compared first, and again by servers
// that can do so.
func (s *Store) Remove(ctx context.Context, key string, c store.Cond) error {
	if err := store.CheckKey(key); err != nil {
		return err
	}
	in := &s3.DeleteObjectInput{Bucket: s.bucket(), Key: s.full(key), RequestPayer: s.payer()}
	if c.ETag != "" {
		o, err := s.head(ctx, key, "")
		if errors.Is(err, store.ErrNotFound) || (err == nil && o.ETag != c.ETag) {
			return fmt.Errorf("deleting %s: %w", s.name(key), store.ErrPrecondition)
		}
		if err != nil {
			return err
		}
		in.IfMatch = quoted(c.ETag)
	}
	_, err := call(ctx, s, func(cl *s3.Client) (*s3.DeleteObjectOutput, error) { return cl.DeleteObject(ctx, in) })
	err = s.fail(ctx, "deleting", key, "s3:DeleteObject", err)
	switch {
	case c.ETag != "" && errors.Is(err, store.ErrNotFound):
		return fmt.Errorf("%w: %w", err, store.ErrPrecondition)
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrUnrepresentable):
		return nil // nothing is there
	}
	return err
}
