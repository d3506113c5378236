package s3test_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"drkit/internal/store/s3/s3test"
)

// copySources are right values of x-amz-copy-source for bucket "b".
var copySources = map[string]string{
	"adapters/a+b.bin":     "b/adapters/a%2Bb.bin",
	"adapters/a b.bin":     "b/adapters/a%20b.bin",
	"adapters/a%2Bb.bin":   "b/adapters/a%252Bb.bin",
	"adapters/c#d?e.bin":   "b/adapters/c%23d%3Fe.bin",
	"adapters/e&f=g;h.bin": "b/adapters/e%26f%3Dg%3Bh.bin",
	"adapters/重み.bin":      "b/adapters/%E9%87%8D%E3%81%BF.bin",
	"/leading/slash":       "/b//leading/slash",
	"dots/../and//double":  "b/dots/../and//double",
}

func TestCopySourceIsDecodedOnce(t *testing.T) {
	e := start(t, s3test.Options{}, s3test.BucketOptions{})
	for key := range copySources {
		e.put(t, key, "content of "+key)
	}
	for key, source := range copySources {
		e.do(t, "PUT", "/b/target", "", "x-amz-copy-source", source).wantOK(t, source)
		if got := e.get(t, "target"); got != "content of "+key {
			t.Errorf("%s copied %q", source, got)
		}
	}
	// An encoder that leaves "+" alone copies the neighbour: a silent fault.
	e.do(t, "PUT", "/b/target", "", "x-amz-copy-source", "b/"+url.PathEscape("adapters/a+b.bin")).wantOK(t, "PathEscape")
	if got := e.get(t, "target"); got != "content of adapters/a b.bin" {
		t.Errorf("a bare plus copied %q", got)
	}
	e.do(t, "PUT", "/b/target", "", "x-amz-copy-source", "b/none").wantError(t, "no source", 404, "NoSuchKey")
	e.do(t, "PUT", "/b/target", "", "x-amz-copy-source", "none/a").wantError(t, "no bucket", 404, "NoSuchBucket")
}

func TestCopyChecksum(t *testing.T) {
	e := start(t, s3test.Options{MinPartSize: -1}, s3test.BucketOptions{})
	if _, err := upload(t, e, s3.CreateMultipartUploadInput{ChecksumAlgorithm: types.ChecksumAlgorithmCrc32, Metadata: map[string]string{"colour": "red"}}, nil); err != nil {
		t.Fatal(err)
	}
	in := &s3.CopyObjectInput{Bucket: aws.String("b"), Key: aws.String("copy"), CopySource: aws.String("b/k")}
	out, err := e.sdk.CopyObject(t.Context(), in)
	whole := crcOf(strings.Join(parts, ""))
	if err != nil || aws.ToString(out.CopyObjectResult.ChecksumCRC32) != whole || out.CopyObjectResult.ChecksumType != "FULL_OBJECT" {
		t.Errorf("a composite becomes a full-object digest: %+v, %v, want %s", out.CopyObjectResult, err, whole)
	}
	if h := e.do(t, "HEAD", "/b/copy", "").header; strings.Contains(h.Get("ETag"), "-") || h.Get("x-amz-meta-colour") != "red" {
		t.Errorf("a copy is one part and keeps metadata: %v", h)
	}
	e.put(t, "k", "123456789")
	in.ChecksumAlgorithm, in.MetadataDirective, in.Metadata = types.ChecksumAlgorithmSha256, "REPLACE", map[string]string{"colour": "blue"}
	if out, err = e.sdk.CopyObject(t.Context(), in); err != nil || aws.ToString(out.CopyObjectResult.ChecksumSHA256) != b64(known[types.ChecksumAlgorithmSha256]) {
		t.Errorf("SHA-256 asked for: %+v, %v", out.CopyObjectResult, err)
	}
	if got := e.do(t, "HEAD", "/b/copy", "").header.Get("x-amz-meta-colour"); got != "blue" {
		t.Errorf("metadata %q", got)
	}
	in.CopySourceIfMatch = aws.String(`"0"`)
	if _, err = e.sdk.CopyObject(t.Context(), in); code(err) != "PreconditionFailed" {
		t.Errorf("If-Match of the source: %v", err)
	}
}

func TestUploadPartCopyRecomputesOverTheRange(t *testing.T) {
	e := start(t, s3test.Options{MinPartSize: -1}, s3test.BucketOptions{})
	e.put(t, "source", "0123456789")
	u, err := e.sdk.CreateMultipartUpload(t.Context(), &s3.CreateMultipartUploadInput{Bucket: aws.String("b"), Key: aws.String("k"), ChecksumAlgorithm: types.ChecksumAlgorithmCrc32, ChecksumType: "FULL_OBJECT"})
	if err != nil {
		t.Fatal(err)
	}
	done := &s3.CompleteMultipartUploadInput{Bucket: aws.String("b"), Key: aws.String("k"), UploadId: u.UploadId, MultipartUpload: &types.CompletedMultipartUpload{}}
	for i, r := range []string{"bytes=1-6", "bytes=7-9"} {
		p, err := e.sdk.UploadPartCopy(t.Context(), &s3.UploadPartCopyInput{Bucket: done.Bucket, Key: done.Key, UploadId: u.UploadId, PartNumber: aws.Int32(int32(i + 1)),
			CopySource: aws.String("b/source"), CopySourceRange: aws.String(r)})
		if err != nil {
			t.Fatal(err)
		}
		if want := crcOf([]string{"123456", "789"}[i]); aws.ToString(p.CopyPartResult.ChecksumCRC32) != want {
			t.Errorf("part %d: %v, want %s", i+1, aws.ToString(p.CopyPartResult.ChecksumCRC32), want)
		}
		done.MultipartUpload.Parts = append(done.MultipartUpload.Parts, types.CompletedPart{PartNumber: aws.Int32(int32(i + 1)), ETag: p.CopyPartResult.ETag, ChecksumCRC32: p.CopyPartResult.ChecksumCRC32})
	}
	list, err := e.sdk.ListParts(t.Context(), &s3.ListPartsInput{Bucket: done.Bucket, Key: done.Key, UploadId: u.UploadId})
	if err != nil || len(list.Parts) != 2 || aws.ToInt64(list.Parts[1].Size) != 3 || e.Uploads("b") != 1 {
		t.Errorf("ListParts: %+v, %v", list, err)
	}
	out, err := e.sdk.CompleteMultipartUpload(t.Context(), done)
	if err != nil || aws.ToString(out.ChecksumCRC32) != b64("cbf43926") || e.get(t, "k") != "123456789" || e.Uploads("b") != 0 {
		t.Errorf("%+v, %v", out, err)
	}
	_, err = e.sdk.UploadPartCopy(t.Context(), &s3.UploadPartCopyInput{Bucket: done.Bucket, Key: done.Key, UploadId: u.UploadId, PartNumber: aws.Int32(1), CopySource: aws.String("b/source")})
	if code(err) != "NoSuchUpload" {
		t.Errorf("a finished upload: %v", err)
	}
}

func TestRanges(t *testing.T) {
	e := start(t, s3test.Options{}, s3test.BucketOptions{})
	e.put(t, "k", "0123456789")
	for r, want := range map[string]string{"bytes=0-3": "0123", "bytes=7-": "789", "bytes=-2": "89", "bytes=8-100": "89", "items=1": "0123456789"} {
		if a := e.do(t, "GET", "/b/k", "", "Range", r); a.body != want {
			t.Errorf("%s: %q, want %q", r, a.body, want)
		}
	}
	if a := e.do(t, "GET", "/b/k", "", "Range", "bytes=3-4", "x-amz-checksum-mode", "ENABLED"); a.status != 206 || a.header.Get("Content-Range") != "bytes 3-4/10" || a.header.Get("x-amz-checksum-crc64nvme") != "" {
		t.Errorf("%+v", a)
	}
	e.do(t, "GET", "/b/k", "", "Range", "bytes=10-").wantError(t, "beyond the end", 416, "InvalidRange")
	etag := e.do(t, "HEAD", "/b/k", "").header.Get("ETag")
	e.do(t, "GET", "/b/k", "", "If-Match", etag).wantOK(t, "If-Match")
	e.do(t, "GET", "/b/k", "", "If-Match", `"0"`).wantError(t, "If-Match", 412, "PreconditionFailed")
	if a := e.do(t, "GET", "/b/k", "", "If-None-Match", etag); a.status != 304 {
		t.Errorf("If-None-Match: %+v", a)
	}
}

func TestListing(t *testing.T) {
	e := start(t, s3test.Options{PageSize: 3}, s3test.BucketOptions{})
	keys := []string{"a+b", "a b", "a%2Bb", "m/x", "m/y/z", "m/y/w", "m.", "c#d?e", "é", "e\u0301", "🙂", "/abs", "tab\t", "~"}
	for _, k := range keys {
		e.put(t, k, k)
	}
	slices.Sort(keys)
	list := func(in s3.ListObjectsV2Input) (got, prefixes []string, pages int) {
		in.Bucket, in.EncodingType = aws.String("b"), types.EncodingTypeUrl
		for p := s3.NewListObjectsV2Paginator(e.sdk, &in); p.HasMorePages(); pages++ {
			out, err := p.NextPage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range out.Contents {
				key, err := url.QueryUnescape(*o.Key)
				if err != nil || aws.ToInt64(o.Size) != int64(len(key)) || o.ChecksumType != "FULL_OBJECT" || o.ChecksumAlgorithm[0] != "CRC64NVME" {
					t.Errorf("entry %+v, %v", o, err)
				}
				got = append(got, key)
			}
			for _, c := range out.CommonPrefixes {
				prefixes = append(prefixes, *c.Prefix)
			}
		}
		return got, prefixes, pages
	}
	if got, _, pages := list(s3.ListObjectsV2Input{}); !slices.Equal(got, keys) || pages != 5 {
		t.Errorf("%q in %d pages, want %q", got, pages, keys)
	}
	if got, _, _ := list(s3.ListObjectsV2Input{Prefix: aws.String("m/")}); !slices.Equal(got, []string{"m/x", "m/y/w", "m/y/z"}) {
		t.Errorf("prefix: %q", got)
	}
	if got, p, _ := list(s3.ListObjectsV2Input{Prefix: aws.String("m/"), Delimiter: aws.String("/")}); !slices.Equal(got, []string{"m/x"}) || !slices.Equal(p, []string{"m/y/"}) {
		t.Errorf("delimiter: %q, %q", got, p)
	}
	if got, p, _ := list(s3.ListObjectsV2Input{Delimiter: aws.String("/"), MaxKeys: aws.Int32(1)}); len(got) != 10 || !slices.Equal(p, []string{"/", "m/"}) {
		t.Errorf("delimiter, one at a time: %q, %q", got, p)
	}
	if got, _, _ := list(s3.ListObjectsV2Input{StartAfter: aws.String("m/x")}); !slices.Equal(got, keys[slices.Index(keys, "m/x")+1:]) {
		t.Errorf("start after: %q", got)
	}
	if raw := e.do(t, "GET", "/b?list-type=2&prefix=a&encoding-type=url", "").body; !strings.Contains(raw, "<Key>a+b</Key>") || !strings.Contains(raw, "<Key>a%2Bb</Key>") || !strings.Contains(raw, "<Key>a%252Bb</Key>") {
		t.Errorf("encoding: %s", raw)
	}
}

func TestFrozenListing(t *testing.T) {
	e := start(t, s3test.Options{}, s3test.BucketOptions{})
	e.put(t, "old", "1")
	thaw := e.FreezeListing("b")
	e.put(t, "new", "2")
	if raw := e.do(t, "GET", "/b?list-type=2", "").body; strings.Contains(raw, "<Key>new</Key>") || !strings.Contains(raw, "<Key>old</Key>") {
		t.Errorf("frozen: %s", raw)
	}
	thaw()
	if raw := e.do(t, "GET", "/b?list-type=2", "").body; !strings.Contains(raw, "<Key>new</Key>") {
		t.Errorf("thawed: %s", raw)
	}
}

func TestConditionalWrites(t *testing.T) {
	e := start(t, s3test.Options{}, s3test.BucketOptions{})
	e.do(t, "PUT", "/b/k", "one", "If-Match", `"0"`).wantError(t, "If-Match where nothing is", 404, "NoSuchKey")
	one := e.do(t, "PUT", "/b/k", "one", "If-None-Match", "*").wantOK(t, "absent").header.Get("ETag")
	e.do(t, "PUT", "/b/k", "two", "If-None-Match", "*").wantError(t, "present", 412, "PreconditionFailed")
	e.do(t, "PUT", "/b/k", "two", "If-Match", one).wantOK(t, "If-Match")
	e.do(t, "PUT", "/b/k", "three", "If-Match", one).wantError(t, "old ETag", 412, "PreconditionFailed")
	e.do(t, "DELETE", "/b/k", "", "If-Match", one).wantError(t, "delete with an old ETag", 412, "PreconditionFailed")
	if got := e.get(t, "k"); got != "two" {
		t.Errorf("it holds %q", got)
	}
}

func TestRacingCreatorsHaveOneWinner(t *testing.T) {
	e := start(t, s3test.Options{}, s3test.BucketOptions{})
	answers := make([]answer, 16)
	requests := make([]*http.Request, 16)
	for i := range requests {
		requests[i] = e.request(t, "PUT", "/b/lock", fmt.Sprint(i), "If-None-Match", "*")
		e.sign(t, requests[i], "us-east-1", time.Now())
	}
	var wg sync.WaitGroup
	for i := range requests {
		wg.Go(func() { answers[i] = e.send(t, requests[i]) })
	}
	wg.Wait()
	var won []int
	for i, a := range answers {
		if a.status == 200 {
			won = append(won, i)
		} else if a.status != 412 && a.status != 409 {
			t.Errorf("a loser got %+v", a)
		}
	}
	if len(won) != 1 || e.get(t, "lock") != fmt.Sprint(won[0]) {
		t.Errorf("winners %v, it holds %s", won, e.get(t, "lock"))
	}
}

// slowBody lets something happen while a request is under way.
type slowBody struct {
	bytes.Reader
	meanwhile func()
}

func (b *slowBody) Read(p []byte) (int, error) {
	if b.meanwhile != nil {
		b.meanwhile()
		b.meanwhile = nil
	}
	return b.Reader.Read(p)
}

func TestConflictDuringAConditionalWrite(t *testing.T) {
	e := start(t, s3test.Options{}, s3test.BucketOptions{})
	r := e.request(t, "PUT", "/b/lock", "mine", "If-None-Match", "*", "x-amz-content-sha256", "UNSIGNED-PAYLOAD")
	e.sign(t, r, "us-east-1", time.Now())
	r = r.Clone(context.Background())
	body := &slowBody{}
	body.Reset([]byte("mine"))
	started := make(chan struct{})
	r.Header.Set("Expect", "100-continue") // the body is sent when the server has begun to read it
	body.meanwhile = func() { e.put(t, "lock", "theirs"); close(started) }
	r.Body = struct {
		*slowBody
		nopCloser
	}{body, nopCloser{}}
	e.http.Transport = &http.Transport{ExpectContinueTimeout: time.Minute}
	e.send(t, r).wantError(t, "conflict", 409, "ConditionalRequestConflict")
	<-started
	if got := e.get(t, "lock"); got != "theirs" {
		t.Errorf("it holds %q", got)
	}
}

type nopCloser struct{}

func (nopCloser) Close() error { return nil }

func TestVersions(t *testing.T) {
	e := start(t, s3test.Options{}, s3test.BucketOptions{Versioning: true})
	first := e.do(t, "PUT", "/b/k", "one").wantOK(t, "first").header.Get("x-amz-version-id")
	e.do(t, "PUT", "/b/k", "two").wantOK(t, "second")
	if a := e.do(t, "GET", "/b/k?versionId="+first, ""); a.body != "one" || a.header.Get("x-amz-version-id") != first {
		t.Errorf("first version: %+v", a)
	}
	e.do(t, "PUT", "/b/copy", "", "x-amz-copy-source", "b/k?versionId="+first).wantOK(t, "copy of a version")
	if got := e.get(t, "copy"); got != "one" {
		t.Errorf("the copy holds %q", got)
	}
	if a := e.do(t, "DELETE", "/b/k", "").wantOK(t, "delete"); a.header.Get("x-amz-delete-marker") != "true" {
		t.Errorf("delete: %+v", a)
	}
	a := e.do(t, "GET", "/b/k", "")
	if a.wantError(t, "deleted", 404, "NoSuchKey"); a.header.Get("x-amz-delete-marker") != "true" {
		t.Errorf("%+v", a)
	}
	out, err := e.sdk.ListObjectVersions(t.Context(), &s3.ListObjectVersionsInput{Bucket: aws.String("b"), Prefix: aws.String("k")})
	if err != nil || len(out.Versions) != 2 || len(out.DeleteMarkers) != 1 || *out.Versions[1].VersionId != first || !*out.DeleteMarkers[0].IsLatest {
		t.Errorf("versions: %+v, %v", out, err)
	}
	if v, err := e.sdk.GetBucketVersioning(t.Context(), &s3.GetBucketVersioningInput{Bucket: aws.String("b")}); err != nil || v.Status != "Enabled" {
		t.Errorf("%+v, %v", v, err)
	}
	e.do(t, "GET", "/b/k?versionId=none", "").wantError(t, "no version", 404, "NoSuchVersion")
}

func TestDeleteObjects(t *testing.T) {
	e := start(t, s3test.Options{}, s3test.BucketOptions{})
	for _, k := range []string{"a", "b", "kept/c"} {
		e.put(t, k, k)
	}
	e.Deny("b", "kept/")
	in := &types.Delete{Objects: []types.ObjectIdentifier{{Key: aws.String("a")}, {Key: aws.String("none")}, {Key: aws.String("kept/c")}}}
	out, err := e.sdk.DeleteObjects(t.Context(), &s3.DeleteObjectsInput{Bucket: aws.String("b"), Delete: in, ChecksumAlgorithm: types.ChecksumAlgorithmCrc32})
	if err != nil || len(out.Deleted) != 2 || len(out.Errors) != 1 || *out.Errors[0].Code != "AccessDenied" {
		t.Errorf("%+v, %v", out, err)
	}
	_, a := e.Object("b", "a")
	_, c := e.Object("b", "kept/c")
	if a || !c {
		t.Errorf("a there %v, kept/c there %v", a, c)
	}
}

func TestObjectLock(t *testing.T) {
	e := start(t, s3test.Options{}, s3test.BucketOptions{ObjectLock: true})
	until := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	lock := []string{"x-amz-object-lock-mode", "COMPLIANCE", "x-amz-object-lock-retain-until-date", until}
	e.do(t, "PUT", "/b/k", "123456789", lock...).wantError(t, "no checksum", 400, "InvalidRequest")
	id := e.do(t, "PUT", "/b/k", "123456789", append(lock, "x-amz-checksum-crc32", b64("cbf43926"))...).wantOK(t, "locked put").header.Get("x-amz-version-id")
	e.do(t, "DELETE", "/b/k?versionId="+id, "").wantError(t, "locked version", 403, "AccessDenied")
	e.do(t, "DELETE", "/b/k?versionId="+id, "", "x-amz-bypass-governance-retention", "true").wantError(t, "compliance", 403, "AccessDenied")
	r, err := e.sdk.GetObjectRetention(t.Context(), &s3.GetObjectRetentionInput{Bucket: aws.String("b"), Key: aws.String("k")})
	if err != nil || r.Retention.Mode != "COMPLIANCE" || r.Retention.RetainUntilDate.UTC().Format(time.RFC3339) != until {
		t.Errorf("%+v, %v", r, err)
	}
	e.do(t, "PUT", "/b/k?retention", "<Retention><Mode>COMPLIANCE</Mode><RetainUntilDate>"+time.Now().Add(time.Minute).UTC().Format(time.RFC3339)+"</RetainUntilDate></Retention>").
		wantError(t, "shortened", 403, "AccessDenied")
	e.SetSkew(10 * time.Minute)
	e.do(t, "DELETE", "/b/k?versionId="+id, "").wantError(t, "still locked", 403, "AccessDenied")
	other := start(t, s3test.Options{}, s3test.BucketOptions{})
	other.do(t, "PUT", "/b/k", "123456789", append(lock, "x-amz-checksum-crc32", b64("cbf43926"))...).wantError(t, "no lock there", 400, "InvalidRequest")
}
