package s3

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"golang.org/x/sync/errgroup"

	"drkit/internal/store"
	"drkit/manifest/digest"
)

// copyParts is how many parts a server copies at once for one object.
const copyParts = 8

// CopyFrom has the server copy an object of a store behind the same endpoint
// with the same credentials. Up to 5 GB it is asked for the SHA-256 of what it
// wrote, above for parts that it assembles only if their CRC64NVME is the
// expected one. A server that answers without checksums, or refuses, is
// store.ErrNoCopy; so is a source that claims to be other bytes.
//
// A copy in one request is compared once it is there: bytes that are others are
// removed again.
func (s *Store) CopyFrom(ctx context.Context, from store.Source, o store.Object, key string, b store.Body, c store.Cond) (store.Object, error) {
	if err := firstErr(store.CheckKey(key), store.CheckKey(o.Key)); err != nil {
		return store.Object{}, err
	}
	src, ok := store.Innermost(from).(*Store)
	if !ok || !s.canCopyFrom(ctx, src) || b.Sums[digest.SHA256] == "" || b.Sums.Check() != nil {
		return store.Object{}, store.ErrNoCopy
	}
	o, err := src.head(ctx, o.Key, o.Version)
	if err != nil {
		return store.Object{}, err
	}
	if err := claims(o, b); err != nil {
		return store.Object{}, fmt.Errorf("copying %s: %w: %w", src.name(o.Key), store.ErrNoCopy, err)
	}
	if err := s.meets(ctx, key, c); err != nil {
		return store.Object{}, err
	}
	do := s.copyWhole
	if b.Size > s.opts.CopyLimit {
		do = s.copyInParts
	}
	copied, err := do(ctx, src, o, key, b, c)
	return copied, s.uncopied(ctx, src, o, err)
}

// meets looks whether a condition is met. The server is given it too, but not
// every one minds conditions of copies.
func (s *Store) meets(ctx context.Context, key string, c store.Cond) error {
	if c == (store.Cond{}) {
		return nil
	}
	o, err := s.head(ctx, key, "")
	there := err == nil
	switch {
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return err
	case c.Absent && there, c.ETag != "" && (!there || o.ETag != c.ETag):
		return fmt.Errorf("writing %s: %w", s.name(key), store.ErrPrecondition)
	}
	return nil
}

// canCopyFrom reports whether one server with one set of credentials holds both.
func (s *Store) canCopyFrom(ctx context.Context, src *Store) bool {
	return endpointName(s.base) == endpointName(src.base) && !s.whenRequired() && !s.noProof.Load() && s.sameIdentity(ctx, src)
}

// sameIdentity compares what credentials come from, or the access keys where they
// were handed in.
func (s *Store) sameIdentity(ctx context.Context, src *Store) bool {
	a, b := s.opts, src.opts
	if a.Credentials == nil && b.Credentials == nil {
		return a.Profile == b.Profile && a.AssumeRole == b.AssumeRole
	}
	one, err := s.now().Options().Credentials.Retrieve(ctx)
	two, err2 := src.now().Options().Credentials.Retrieve(ctx)
	return err == nil && err2 == nil && one.AccessKeyID == two.AccessKeyID
}

// claims says how what the source claims contradicts what is expected.
func claims(o store.Object, b store.Body) error {
	if o.Size != b.Size {
		return &store.MismatchError{Key: o.Key, WantSize: b.Size, GotSize: o.Size}
	}
	for _, sum := range o.Sums {
		if want, ok := b.Sums[sum.Algorithm]; ok && sum.Parts == 0 && sum.Hex != want {
			return &store.MismatchError{Key: o.Key, WantSize: b.Size, GotSize: o.Size, Want: digest.Set{sum.Algorithm: want}, Got: digest.Set{sum.Algorithm: sum.Hex}}
		}
	}
	return nil
}

// uncopied makes a refusal ErrNoCopy: reading and writing will say what is wrong,
// or do it.
func (s *Store) uncopied(ctx context.Context, src *Store, o store.Object, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, store.ErrNoCopy), errors.Is(err, store.ErrPrecondition), errors.Is(err, store.ErrUnreachable), errors.Is(err, store.ErrUnrepresentable):
		return err
	}
	return fmt.Errorf("copying %s: %w: %w", src.name(o.Key), store.ErrNoCopy, err)
}

func (s *Store) copyWhole(ctx context.Context, src *Store, o store.Object, key string, b store.Body, c store.Cond) (store.Object, error) {
	in := &s3.CopyObjectInput{Bucket: s.bucket(), Key: s.full(key), CopySource: src.copySource(o), CopySourceIfMatch: quoted(o.ETag),
		ChecksumAlgorithm: types.ChecksumAlgorithmSha256, RequestPayer: s.payer()}
	in.IfNoneMatch, in.IfMatch = conditions(c)
	in.ServerSideEncryption, in.SSEKMSKeyId = s.encryption()
	out, err := call(ctx, s, func(cl *s3.Client) (*s3.CopyObjectOutput, error) { return cl.CopyObject(ctx, in) })
	if err != nil {
		return store.Object{}, s.unwritten(ctx, key, c, err)
	}
	copied := store.Object{Key: key, Size: b.Size, Version: versionOf(out.VersionId)}
	answer := stated{}
	if r := out.CopyObjectResult; r != nil {
		copied.ETag, answer.SHA256 = etagOf(r.ETag), r.ChecksumSHA256
	}
	sums := answer.sums()
	if len(sums) == 0 {
		s.noProof.Store(true)
		return store.Object{}, errors.Join(store.ErrNoCopy, s.undo(ctx, copied))
	}
	if got := sums[0].Hex; got != b.Sums[digest.SHA256] {
		bad := &store.MismatchError{Key: key, WantSize: b.Size, GotSize: b.Size, Want: digest.Set{digest.SHA256: b.Sums[digest.SHA256]}, Got: digest.Set{digest.SHA256: got}}
		return store.Object{}, errors.Join(store.ErrNoCopy, bad, s.undo(ctx, copied))
	}
	return s.stored(ctx, copied, b.Sums)
}

// undo removes a copy that is wrong or not proven, if it is still there, also after
// ctx has ended.
func (s *Store) undo(ctx context.Context, copied store.Object) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	err := s.Remove(ctx, copied.Key, store.Cond{ETag: copied.ETag})
	if errors.Is(err, store.ErrPrecondition) {
		return nil
	}
	return err
}

func (s *Store) copyInParts(ctx context.Context, src *Store, o store.Object, key string, b store.Body, c store.Cond) (store.Object, error) {
	crc := b.Sums[digest.CRC64NVME]
	if crc == "" {
		return store.Object{}, store.ErrNoCopy
	}
	size := s.copyPartSize(b.Size)
	u, err := s.begin(ctx, key, b.Size, int((b.Size+size-1)/size))
	if err != nil {
		return store.Object{}, err
	}
	g, each := errgroup.WithContext(ctx)
	g.SetLimit(copyParts)
	for i := range u.parts {
		g.Go(func() error { return u.copyPart(each, src, o, i, size) })
	}
	err = g.Wait()
	copied := store.Object{}
	if err == nil {
		copied, err = u.finish(ctx, crc, c)
	}
	if err != nil {
		return store.Object{}, u.abort(ctx, err)
	}
	return s.stored(ctx, copied, b.Sums)
}

// copyPartSize makes parts of 512 MiB: the server reads them itself.
func (s *Store) copyPartSize(size int64) int64 {
	const usual = 512 << 20
	return max(min(usual, s.opts.CopyLimit), (size+maxParts-1)/maxParts)
}

func (u *upload) copyPart(ctx context.Context, src *Store, o store.Object, i int, size int64) error {
	off := int64(i) * size
	n := int32(i + 1)
	in := &s3.UploadPartCopyInput{Bucket: u.s.bucket(), Key: u.s.full(u.key), UploadId: u.id, PartNumber: &n, CopySource: src.copySource(o), CopySourceIfMatch: quoted(o.ETag),
		CopySourceRange: aws.String(fmt.Sprintf("bytes=%d-%d", off, min(off+size, u.size)-1)), RequestPayer: u.s.payer()}
	out, err := call(ctx, u.s, func(c *s3.Client) (*s3.UploadPartCopyOutput, error) { return c.UploadPartCopy(ctx, in) })
	if err != nil {
		return u.s.fail(ctx, "writing", u.key, "s3:PutObject", err)
	}
	r := out.CopyPartResult
	if r == nil || r.ETag == nil {
		return fmt.Errorf("writing %s: the server copied a part and does not say what it is", u.s.name(u.key))
	}
	u.parts[i] = types.CompletedPart{PartNumber: &n, ETag: r.ETag, ChecksumCRC64NVME: r.ChecksumCRC64NVME} // a server wants them back
	return nil
}

// copySource names the object in a header. Every byte that is not plain is
// written as %XX: a "+" that stands as it is would be read as a space.
func (s *Store) copySource(o store.Object) *string {
	text := escape(s.opts.Bucket + "/" + s.prefix + o.Key)
	if o.Version != "" {
		text += "?versionId=" + escape(o.Version)
	}
	return &text
}

const upperHex = "0123456789ABCDEF"

func escape(text string) string {
	var b strings.Builder
	for i := range len(text) {
		switch c := text[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._~/", c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(upperHex[c>>4])
			b.WriteByte(upperHex[c&15])
		}
	}
	return b.String()
}
