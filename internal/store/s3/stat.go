package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"golang.org/x/sync/errgroup"

	"drkit/internal/store"
)

// maxHeads is up to how many parts are asked one by one for their size, where
// the server tells them in no other way.
const maxHeads = 64

// Stat says everything that the bucket says of the newest version of a key. An
// object that has only composite checksums comes with its parts, where the
// server tells them.
func (s *Store) Stat(ctx context.Context, key string) (store.Object, error) {
	if err := readable(key); err != nil {
		return store.Object{}, err
	}
	o, err := s.head(ctx, key, "")
	if err != nil || o.Size == 0 || !needsParts(o) {
		return o, err
	}
	o.Parts, err = s.parts(ctx, o)
	return o, err
}

// needsParts reports whether no checksum covers the whole object.
func needsParts(o store.Object) bool {
	return !slices.ContainsFunc(o.Sums, func(s store.Sum) bool { return s.Parts == 0 }) && partsOf(o.ETag) > 0
}

func (s *Store) head(ctx context.Context, key, version string) (store.Object, error) {
	in := &s3.HeadObjectInput{Bucket: s.bucket(), Key: s.full(key), ChecksumMode: types.ChecksumModeEnabled, RequestPayer: s.payer()}
	if version != "" {
		in.VersionId = &version
	}
	ask := func(c *s3.Client) (*s3.HeadObjectOutput, error) { return c.HeadObject(ctx, in) }
	was := s.now()
	out, err := call(ctx, s, ask)
	if statusOf(err) == http.StatusBadRequest && s.opts.Region == "" {
		// versitygw names the bucket's region in bodies only, and a HEAD has none.
		if right := regionOf(s.reason(ctx, key, version, err)); right != "" {
			s.move(right)
		}
		if s.now() != was {
			out, err = call(ctx, s, ask)
		}
	}
	if statusOf(err) == http.StatusNotFound {
		err = firstErr(s.bucketIs(ctx), err)
	}
	if err != nil {
		return store.Object{}, s.unread(key, s.fail(ctx, "asking for", key, "s3:GetObject", s.reason(ctx, key, version, err)))
	}
	if out.LastModified == nil || out.ContentLength == nil {
		return store.Object{}, fmt.Errorf("asking for %s: the answer tells neither size nor time of an object: is the endpoint that of an S3 server?", s.name(key))
	}
	return headed(key, out), nil
}

func headed(key string, out *s3.HeadObjectOutput) store.Object {
	o := store.Object{Key: key, Size: aws.ToInt64(out.ContentLength), ModTime: instant(out.LastModified), ETag: etagOf(out.ETag), Version: versionOf(out.VersionId)}
	o.Encryption, o.Replication = string(out.ServerSideEncryption), string(out.ReplicationStatus)
	if out.SSECustomerAlgorithm != nil {
		o.Encryption = "SSE-C"
	}
	if out.ReplicationStatus == types.ReplicationStatusComplete { // two names of one state
		o.Replication = string(types.ReplicationStatusCompleted)
	}
	o.Sums = stated{CRC32: out.ChecksumCRC32, CRC32C: out.ChecksumCRC32C, CRC64NVME: out.ChecksumCRC64NVME, SHA256: out.ChecksumSHA256, SHA512: out.ChecksumSHA512, MD5: out.ChecksumMD5, Type: out.ChecksumType}.sums()
	if sum, ok := md5Of(o.ETag, o.Encryption, false); ok {
		o.Sums = append(o.Sums, sum)
	}
	return o
}

// unread makes what is not there of a key that drkit would not write itself an
// ErrUnrepresentable too.
func (s *Store) unread(key string, err error) error {
	if bad := store.CheckKey(key); bad != nil && errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("%w: %w", err, bad)
	}
	return err
}

// bucketIs tells a missing bucket from a missing key, which a HEAD does not.
func (s *Store) bucketIs(ctx context.Context) error {
	if s.seen.Load() {
		return nil
	}
	_, err := call(ctx, s, func(c *s3.Client) (*s3.ListObjectsV2Output, error) {
		return c.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: s.bucket(), Prefix: s.full(""), MaxKeys: aws.Int32(1), RequestPayer: s.payer()})
	})
	if codeOf(err) == "NoSuchBucket" {
		return err
	}
	return nil
}

// parts asks how the object was put together. No answer is no error: it is then
// not known.
func (s *Store) parts(ctx context.Context, o store.Object) ([]store.Piece, error) {
	if !s.noParts.Load() {
		pieces, err := s.attributes(ctx, o)
		if pieces != nil || err != nil {
			return pieces, err
		}
	}
	return s.headParts(ctx, o)
}

// attributes reads the list of parts, a thousand a page. It is nil where the
// server tells none.
func (s *Store) attributes(ctx context.Context, o store.Object) ([]store.Piece, error) {
	in := &s3.GetObjectAttributesInput{Bucket: s.bucket(), Key: s.full(o.Key), RequestPayer: s.payer(), MaxParts: aws.Int32(1000),
		ObjectAttributes: []types.ObjectAttributes{types.ObjectAttributesObjectParts, types.ObjectAttributesEtag}}
	if o.Version != "" {
		in.VersionId = &o.Version
	}
	var pieces []store.Piece
	for {
		out, err := call(ctx, s, func(c *s3.Client) (*s3.GetObjectAttributesOutput, error) { return c.GetObjectAttributes(ctx, in) })
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			if s.general(ctx, o.Key, err) {
				s.noParts.Store(true)
			}
			return nil, nil
		}
		if out.ObjectParts == nil || len(out.ObjectParts.Parts) == 0 {
			return nil, nil // this object was uploaded without checksums of its parts
		}
		if etagOf(out.ETag) != "" && etagOf(out.ETag) != o.ETag {
			return nil, s.changed(o.Key)
		}
		for _, p := range out.ObjectParts.Parts {
			pieces = append(pieces, store.Piece{Size: aws.ToInt64(p.Size), Sums: stated{CRC32: p.ChecksumCRC32, CRC32C: p.ChecksumCRC32C, CRC64NVME: p.ChecksumCRC64NVME, SHA256: p.ChecksumSHA256}.set()})
		}
		if len(pieces) > partsOf(o.ETag) {
			return nil, nil // more than it was made of, and perhaps without an end
		}
		next := aws.ToString(out.ObjectParts.NextPartNumberMarker)
		if !aws.ToBool(out.ObjectParts.IsTruncated) || next == "" || next == aws.ToString(in.PartNumberMarker) || next == strconv.Itoa(0) {
			return whole(pieces, o), nil
		}
		in.PartNumberMarker = &next
	}
}

// general reports whether a question failed in a way in which it will for other
// objects: not allowed, not known there, not readable. That the object has gone, the
// server was busy or the credentials have to be renewed says nothing of those.
func (s *Store) general(ctx context.Context, key string, err error) bool {
	switch statusOf(err) {
	case 0, http.StatusNotFound, http.StatusPreconditionFailed, http.StatusTooManyRequests:
		return false
	case http.StatusNotImplemented:
		return true
	}
	return statusOf(err) < 500 && !errors.Is(s.fail(ctx, "asking for the parts of", key, "s3:GetObjectAttributes", err), store.ErrUnreachable)
}

// whole is the list of parts if it makes up the object, else nil: a list with
// holes says nothing.
func whole(pieces []store.Piece, o store.Object) []store.Piece {
	var sum int64
	for _, p := range pieces {
		if p.Size < 0 || p.Size > o.Size {
			return nil
		}
		sum += p.Size
	}
	if sum != o.Size || len(pieces) != partsOf(o.ETag) {
		return nil
	}
	return pieces
}

// headParts asks for one part after the other.
func (s *Store) headParts(ctx context.Context, o store.Object) ([]store.Piece, error) {
	n := partsOf(o.ETag)
	if n > maxHeads {
		return nil, nil
	}
	pieces := make([]store.Piece, n)
	g, each := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for i := range pieces {
		g.Go(func() (err error) {
			pieces[i], err = s.headPart(each, o, int32(i+1))
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, context.Cause(ctx) // nil unless it was cancelled: then it is not known
	}
	return whole(pieces, o), nil
}

func (s *Store) headPart(ctx context.Context, o store.Object, n int32) (store.Piece, error) {
	in := &s3.HeadObjectInput{Bucket: s.bucket(), Key: s.full(o.Key), PartNumber: aws.Int32(n), IfMatch: quoted(o.ETag), ChecksumMode: types.ChecksumModeEnabled, RequestPayer: s.payer()}
	if o.Version != "" {
		in.VersionId = &o.Version
	}
	out, err := call(ctx, s, func(c *s3.Client) (*s3.HeadObjectOutput, error) { return c.HeadObject(ctx, in) })
	if err != nil {
		return store.Piece{}, err
	}
	sums := stated{CRC32: out.ChecksumCRC32, CRC32C: out.ChecksumCRC32C, CRC64NVME: out.ChecksumCRC64NVME, SHA256: out.ChecksumSHA256}
	p := store.Piece{Size: aws.ToInt64(out.ContentLength)}
	if out.ChecksumType == types.ChecksumTypeComposite { // of the part; a full-object type repeats the whole's
		p.Sums = sums.set()
	}
	return p, nil
}
