package s3

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"drkit/internal/store"
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
	return s.undisturbed(ctx, func() (store.Object, error) { return s.putWhole(ctx, key, b, c, until) })
}

// holds proves that the bucket has Object Lock.
func (s *Store) holds(ctx context.Context) error {
	out, err := call(ctx, s, func(c *s3.Client) (*s3.GetObjectLockConfigurationOutput, error) {
		return c.GetObjectLockConfiguration(ctx, &s3.GetObjectLockConfigurationInput{Bucket: s.bucket()})
	})
	if err == nil && out.ObjectLockConfiguration != nil && out.ObjectLockConfiguration.ObjectLockEnabled == types.ObjectLockEnabledEnabled {
		return nil
	}
	none := err == nil || codeOf(err) == "ObjectLockConfigurationNotFoundError" || statusOf(err) == http.StatusNotImplemented
	err = s.fail(ctx, "asking for the object lock of", "", "s3:GetBucketObjectLockConfiguration", err)
	if none || errors.Is(err, store.ErrDenied) || errors.Is(err, ErrNoAnswer) {
		return fmt.Errorf("bucket %s: %w", s.opts.Bucket, store.ErrNoRetention)
	}
	return err
}

// Retained lists every version and asks for the retention of each.
func (s *Store) Retained(ctx context.Context, prefix string) iter.Seq2[store.Object, error] {
	return func(yield func(store.Object, error) bool) {
		if err := s.holds(ctx); err != nil {
			yield(store.Object{}, err)
			return
		}
		next := s.versionAnswers(prefix)
		for {
			page, more, err := next(ctx)
			if page != nil && !s.heldOf(ctx, page, yield) {
				return
			}
			if err != nil {
				yield(store.Object{}, err)
			}
			if err != nil || !more {
				return
			}
		}
	}
}

// heldOf yields the versions of one page that are held now; false: enough.
func (s *Store) heldOf(ctx context.Context, page *s3.ListObjectVersionsOutput, yield func(store.Object, error) bool) bool {
	for _, v := range page.Versions {
		o, err := s.listedVersion(v, page.EncodingType)
		held := false
		if err == nil {
			held, err = s.held(ctx, o)
		}
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
