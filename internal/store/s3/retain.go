package s3

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"drkit/internal/store"
	"drkit/manifest/digest"
)

var _ store.Retainer = (*Store)(nil)

// PutRetained writes a small object under Object Lock in compliance mode: not even
// the account's root user can delete that version before until. A bucket without
// Object Lock, or one that may not be asked for it, is store.ErrNoRetention.
func (s *Store) PutRetained(ctx context.Context, key string, b store.Body, c store.Cond, until time.Time) (store.Object, error) {
	if err := store.CheckKey(key); err != nil {
		return store.Object{}, err
	}
	if err := s.holds(ctx); err != nil {
		return store.Object{}, err
	}
	for n := 1; ; n++ {
		o, err := s.putHeld(ctx, key, b, c, until)
		if codeOf(err) != "ConditionalRequestConflict" || n == conflicts {
			return o, err
		}
		if err := wait(ctx, s.opts.Backoff, n); err != nil {
			return store.Object{}, err
		}
	}
}

// holds proves that the bucket has Object Lock.
func (s *Store) holds(ctx context.Context) error {
	out, err := call(ctx, s, func(c *s3.Client) (*s3.GetObjectLockConfigurationOutput, error) {
		return c.GetObjectLockConfiguration(ctx, &s3.GetObjectLockConfigurationInput{Bucket: s.bucket()})
	})
	switch {
	case err == nil && out.ObjectLockConfiguration != nil && out.ObjectLockConfiguration.ObjectLockEnabled == types.ObjectLockEnabledEnabled:
		return nil
	case err == nil, codeOf(err) == "ObjectLockConfigurationNotFoundError", statusOf(err) == http.StatusNotImplemented, statusOf(err) == http.StatusForbidden:
		return fmt.Errorf("bucket %s: %w", s.opts.Bucket, store.ErrNoRetention)
	}
	return s.fail(ctx, "asking for the object lock of", "", "s3:GetBucketObjectLockConfiguration", err)
}

func (s *Store) putHeld(ctx context.Context, key string, b store.Body, c store.Cond, until time.Time) (store.Object, error) {
	var data bytes.Buffer
	sums, err := store.CopyBody(ctx, &data, key, b)
	if err != nil {
		return store.Object{}, err
	}
	in := &s3.PutObjectInput{Bucket: s.bucket(), Key: s.full(key), ContentLength: aws.Int64(b.Size), RequestPayer: s.payer(),
		ObjectLockMode: types.ObjectLockModeCompliance, ObjectLockRetainUntilDate: aws.Time(until),
		ChecksumAlgorithm: types.ChecksumAlgorithmSha256, ChecksumSHA256: toBase64(sums[digest.SHA256])}
	in.IfNoneMatch, in.IfMatch = conditions(c)
	in.ServerSideEncryption, in.SSEKMSKeyId = s.encryption()
	out, err := call(ctx, s, func(cl *s3.Client) (*s3.PutObjectOutput, error) {
		in.Body = bytes.NewReader(data.Bytes())
		return cl.PutObject(ctx, in)
	})
	if err != nil {
		return store.Object{}, s.unwritten(ctx, key, c, err)
	}
	return s.stored(ctx, store.Object{Key: key, Size: b.Size, ETag: etagOf(out.ETag), Version: versionOf(out.VersionId)}, sums)
}

// Retained lists every version and asks for the retention of each.
func (s *Store) Retained(ctx context.Context, prefix string) iter.Seq2[store.Object, error] {
	return func(yield func(store.Object, error) bool) {
		if err := s.holds(ctx); err != nil {
			yield(store.Object{}, err)
			return
		}
		in := &s3.ListObjectVersionsInput{Bucket: s.bucket(), Prefix: s.full(prefix), EncodingType: types.EncodingTypeUrl, RequestPayer: s.payer()}
		for {
			out, err := call(ctx, s, func(c *s3.Client) (*s3.ListObjectVersionsOutput, error) { return c.ListObjectVersions(ctx, in) })
			if err != nil || aws.ToString(out.Name) == "" || out.IsTruncated == nil {
				yield(store.Object{}, firstErr(s.fail(ctx, "listing versions of", prefix, "s3:ListBucketVersions", err), s.noListing(prefix)))
				return
			}
			if !s.heldOf(ctx, out, yield) || !*out.IsTruncated {
				return
			}
			if in.KeyMarker, err = decoded(out.NextKeyMarker, out.EncodingType); err != nil || in.KeyMarker == nil {
				yield(store.Object{}, firstErr(err, s.noListing(prefix)))
				return
			}
			in.VersionIdMarker = out.NextVersionIdMarker
		}
	}
}

// heldOf yields the versions of one page that are held now; false: enough.
func (s *Store) heldOf(ctx context.Context, page *s3.ListObjectVersionsOutput, yield func(store.Object, error) bool) bool {
	for _, v := range page.Versions {
		o, err := s.listed(aws.ToString(v.Key), page.EncodingType, aws.ToInt64(v.Size), v.LastModified, v.ETag)
		if err != nil {
			return yield(store.Object{}, err)
		}
		o.Version = versionOf(v.VersionId)
		held, err := s.held(ctx, o)
		if (held || err != nil) && !yield(o, err) {
			return false
		}
	}
	return true
}

func (s *Store) held(ctx context.Context, o store.Object) (bool, error) {
	in := &s3.GetObjectRetentionInput{Bucket: s.bucket(), Key: s.full(o.Key), RequestPayer: s.payer()}
	if o.Version != "" {
		in.VersionId = &o.Version
	}
	out, err := call(ctx, s, func(c *s3.Client) (*s3.GetObjectRetentionOutput, error) { return c.GetObjectRetention(ctx, in) })
	switch {
	case codeOf(err) == "NoSuchObjectLockConfiguration":
		return false, nil
	case err != nil:
		return false, s.fail(ctx, "asking for the retention of", o.Key, "s3:GetObjectRetention", err)
	}
	r := out.Retention
	return r != nil && r.Mode == types.ObjectLockRetentionModeCompliance && r.RetainUntilDate != nil && r.RetainUntilDate.After(time.Now()), nil
}
