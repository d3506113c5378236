package s3

import (
	"context"
	"fmt"
	"iter"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"drkit/internal/errext"
	"drkit/internal/store"
)

// emptyPages is how many pages in a row may hold nothing: old versions, up to a
// thousand a page, are left out.
const emptyPages = 10_000

// List asks page by page. A page that cannot be had ends the listing with an
// error that names the prefix: what follows is not known. An object that marks a
// folder is listed as it is, with a slash at the end of its key.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[store.Object, error] {
	return func(yield func(store.Object, error) bool) {
		if err := store.CheckPrefix(prefix); err != nil {
			yield(store.Object{}, err)
			return
		}
		next := s.pages(prefix)
		empty := 0
		for last := ""; ; {
			page, more, err := next(ctx)
			if empty++; len(page) > 0 {
				empty = 0
			} else if err == nil && more && empty > emptyPages {
				err = fmt.Errorf("listing %s: the server says after %d pages without an object that more follow", s.name(prefix), empty)
			}
			for _, o := range page {
				if bad := s.inOrder(prefix, last, o.Key); bad != nil {
					err = bad
					break
				}
				last = o.Key
				if !yield(o, nil) {
					return
				}
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

// inOrder refuses a listing that would go round in circles, repeat keys or hold
// foreign ones.
func (s *Store) inOrder(prefix, last, key string) error {
	switch {
	case !strings.HasPrefix(key, prefix):
		return fmt.Errorf("listing %s: the server lists %q, which does not begin so", s.name(prefix), key)
	case last != "" && key <= last:
		return errext.WithHint(fmt.Errorf("listing %s: the server lists %q behind %q, which is no order of keys", s.name(prefix), key, last),
			"a bucket must list its keys sorted; directory buckets (S3 Express) do not")
	}
	return nil
}

// pager gives the next page, and whether one follows.
type pager func(context.Context) (page []store.Object, more bool, err error)

// pages lists the newest versions where version ids are asked for.
func (s *Store) pages(prefix string) pager {
	if s.opts.Versions {
		return s.versionPages(prefix)
	}
	return s.objectPages(prefix)
}

func (s *Store) objectPages(prefix string) pager {
	in := &s3.ListObjectsV2Input{Bucket: s.bucket(), Prefix: s.full(prefix), EncodingType: types.EncodingTypeUrl, RequestPayer: s.payer()}
	asked := map[string]bool{"": true}
	return func(ctx context.Context) ([]store.Object, bool, error) {
		out, err := call(ctx, s, func(c *s3.Client) (*s3.ListObjectsV2Output, error) { return c.ListObjectsV2(ctx, in) })
		if err != nil {
			return nil, false, s.fail(ctx, "listing", prefix, "s3:ListBucket", err)
		}
		if aws.ToString(out.Name) == "" || out.IsTruncated == nil || (out.KeyCount != nil && int(*out.KeyCount) != len(out.Contents)) {
			return nil, false, s.noListing(prefix)
		}
		page := make([]store.Object, 0, len(out.Contents))
		for _, c := range out.Contents {
			o, err := s.listed(aws.ToString(c.Key), out.EncodingType, aws.ToInt64(c.Size), c.LastModified, c.ETag)
			if err != nil {
				return page, false, fmt.Errorf("listing %s: %w", s.name(prefix), err)
			}
			page = append(page, o)
		}
		more := aws.ToBool(out.IsTruncated)
		if len(page) > 0 {
			clear(asked) // keys in order show that it goes on
			asked[""], asked[aws.ToString(in.ContinuationToken)] = true, true
		}
		next := aws.ToString(out.NextContinuationToken)
		if more && asked[next] {
			return page, false, fmt.Errorf("listing %s: the server says that more follows, and not from where", s.name(prefix))
		}
		asked[next] = true
		in.ContinuationToken = out.NextContinuationToken
		return page, more, nil
	}
}

func (s *Store) versionPages(prefix string) pager {
	next := s.versionAnswers(prefix)
	return func(ctx context.Context) ([]store.Object, bool, error) {
		out, more, err := next(ctx)
		if out == nil {
			return nil, false, err
		}
		var page []store.Object
		for _, v := range out.Versions {
			if !aws.ToBool(v.IsLatest) {
				continue
			}
			o, err := s.listedVersion(v, out.EncodingType)
			if err != nil {
				return page, false, fmt.Errorf("listing %s: %w", s.name(prefix), err)
			}
			page = append(page, o)
		}
		return page, more, err
	}
}

// versionAnswers gives the next page of all versions, and whether one follows. An
// error beside a page says that what follows cannot be asked for.
func (s *Store) versionAnswers(prefix string) func(context.Context) (*s3.ListObjectVersionsOutput, bool, error) {
	in := &s3.ListObjectVersionsInput{Bucket: s.bucket(), Prefix: s.full(prefix), EncodingType: types.EncodingTypeUrl, RequestPayer: s.payer()}
	asked := map[string]bool{} // version markers of the key
	return func(ctx context.Context) (*s3.ListObjectVersionsOutput, bool, error) {
		out, err := call(ctx, s, func(c *s3.Client) (*s3.ListObjectVersionsOutput, error) { return c.ListObjectVersions(ctx, in) })
		if err != nil {
			return nil, false, s.fail(ctx, "listing versions of", prefix, "s3:ListBucketVersions", err)
		}
		if aws.ToString(out.Name) == "" || out.IsTruncated == nil {
			return nil, false, s.noListing(prefix)
		}
		if !*out.IsTruncated {
			return out, false, nil
		}
		next, err := decoded(out.NextKeyMarker, out.EncodingType)
		if err != nil {
			return out, false, fmt.Errorf("listing %s: %w", s.name(prefix), err)
		}
		key, before, version := aws.ToString(next), aws.ToString(in.KeyMarker), aws.ToString(out.NextVersionIdMarker)
		if key > before {
			clear(asked)
		}
		if key == "" || key < before || asked[version] {
			return out, false, fmt.Errorf("listing %s: the server says that more follows, and not from where", s.name(prefix))
		}
		asked[version] = true
		in.KeyMarker, in.VersionIdMarker = next, out.NextVersionIdMarker
		return out, true, nil
	}
}

// noListing is the error of an answer that would else be an empty or short list:
// the page of a proxy, or one that was cut.
func (s *Store) noListing(prefix string) error {
	return errext.WithHint(fmt.Errorf("listing %s: the answer is no whole listing of a bucket", s.name(prefix)),
		"see that the endpoint is that of an S3 server, and no proxy or login page answers in its place")
}

// listed is an object as a page tells it.
func (s *Store) listed(key string, enc types.EncodingType, size int64, at *time.Time, etag *string) (store.Object, error) {
	plain, err := decoded(&key, enc)
	if err != nil {
		return store.Object{}, err
	}
	below, ok := strings.CutPrefix(*plain, s.prefix)
	if !ok || size < 0 || at == nil {
		return store.Object{}, fmt.Errorf("the server's answer for %q cannot be used: another prefix, no size or no time", *plain)
	}
	o := store.Object{Key: below, Size: size, ModTime: instant(at), ETag: etagOf(etag)}
	if sum, ok := md5Of(o.ETag, "", true); ok {
		o.Sums = []store.Sum{sum}
	}
	return o, nil
}

// listedVersion is one version as a page tells it.
func (s *Store) listedVersion(v types.ObjectVersion, enc types.EncodingType) (store.Object, error) {
	o, err := s.listed(aws.ToString(v.Key), enc, aws.ToInt64(v.Size), v.LastModified, v.ETag)
	o.Version = versionOf(v.VersionId)
	return o, err
}

// decoded is a key of a listing that was asked for with encoding-type url.
func decoded(key *string, enc types.EncodingType) (*string, error) {
	if key == nil || enc != types.EncodingTypeUrl {
		return key, nil
	}
	plain, err := url.QueryUnescape(*key)
	if err != nil {
		return nil, fmt.Errorf("the server's answer has the key %q, which is not encoded as it says", *key)
	}
	return &plain, nil
}

// instant is a time in whole seconds: a HEAD tells no more, where a listing does.
func instant(t *time.Time) time.Time { return aws.ToTime(t).UTC().Truncate(time.Second) }

// versionOf is a version id; a bucket without versions has none or "null".
func versionOf(id *string) string {
	if v := aws.ToString(id); v != "null" {
		return v
	}
	return ""
}
