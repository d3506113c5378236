package s3test_test

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"drkit/internal/store/s3/s3test"
)

// known are checksums of "123456789": the check values of the CRCs' definitions,
// and sha1sum, sha256sum.
var known = map[types.ChecksumAlgorithm]string{
	types.ChecksumAlgorithmCrc32:     "cbf43926",
	types.ChecksumAlgorithmCrc32c:    "e3069283",
	types.ChecksumAlgorithmCrc64nvme: "ae8b14860a799888",
	types.ChecksumAlgorithmSha1:      "f7c3bc1d808e04732adf679965ccc34ca7ae3441",
	types.ChecksumAlgorithmSha256:    "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225",
}

func b64(hexText string) string {
	raw, err := hex.DecodeString(hexText)
	if err != nil {
		panic(err)
	}
	return base64.StdEncoding.EncodeToString(raw)
}

func name(a types.ChecksumAlgorithm) string { return "x-amz-checksum-" + strings.ToLower(string(a)) }

func TestChecksumsAreComputed(t *testing.T) {
	e := start(t, s3test.Options{}, s3test.BucketOptions{})
	for a, want := range known {
		e.do(t, "PUT", "/b/k", "123456789", name(a), b64(want)).wantOK(t, string(a))
		head := e.do(t, "HEAD", "/b/k", "", "x-amz-checksum-mode", "ENABLED")
		if got := head.header.Get(name(a)); got != b64(want) || head.header.Get("x-amz-checksum-type") != "FULL_OBJECT" {
			t.Errorf("%s is %q, want %q", a, got, b64(want))
		}
		if plain := e.do(t, "HEAD", "/b/k", ""); plain.header.Get(name(a)) != "" {
			t.Errorf("%s is said without being asked for", a)
		}
	}
	e.do(t, "PUT", "/b/silent", "123456789").wantOK(t, "put without a checksum")
	head := e.do(t, "HEAD", "/b/silent", "", "x-amz-checksum-mode", "ENABLED")
	if got := head.header.Get("x-amz-checksum-crc64nvme"); got != b64("ae8b14860a799888") {
		t.Errorf("the default checksum is %q", got)
	}
	if got := head.header.Get("ETag"); got != `"25f9e794323b453885f5181f1b624d0b"` {
		t.Errorf("the ETag is %s, want the MD5", got)
	}
}

func TestWrongChecksumsAreRefused(t *testing.T) {
	e := start(t, s3test.Options{}, s3test.BucketOptions{})
	for a, right := range known {
		e.do(t, "PUT", "/b/k", "123456780", name(a), b64(right)).wantError(t, string(a), 400, "BadDigest")
		e.do(t, "PUT", "/b/k", "123456789", name(a), "AAA=").wantError(t, string(a)+" malformed", 400, "InvalidRequest")
	}
	e.do(t, "PUT", "/b/k", "123456789", "Content-MD5", b64("d41d8cd98f00b204e9800998ecf8427e")).wantError(t, "Content-MD5", 400, "BadDigest")
	e.do(t, "PUT", "/b/k", "123456789", "x-amz-checksum-crc32", b64("cbf43926"), "x-amz-checksum-crc32c", b64("e3069283")).wantError(t, "two checksums", 400, "InvalidRequest")
	e.do(t, "PUT", "/b/k", "123456789", "x-amz-sdk-checksum-algorithm", "CRC32").wantError(t, "an announced checksum", 400, "InvalidRequest")
	e.do(t, "PUT", "/b/k", "123456789", "x-amz-content-sha256", known[types.ChecksumAlgorithmSha256][:62]+"00").wantError(t, "content hash", 400, "XAmzContentSHA256Mismatch")
	if _, ok := e.Object("b", "k"); ok {
		t.Error("a refused object was stored")
	}
}

// Over TLS the SDK streams with the checksum in an unsigned trailer.
func TestUnsignedTrailer(t *testing.T) {
	s := s3test.New(s3test.Options{}).CreateBucket("b", s3test.BucketOptions{})
	url, h := s.StartTLS(t)
	c := client(url, h, s.Options())
	out, err := c.PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String("b"), Key: aws.String("k"), Body: strings.NewReader("123456789"), ChecksumAlgorithm: types.ChecksumAlgorithmCrc32c})
	if err != nil || aws.ToString(out.ChecksumCRC32C) != b64("e3069283") {
		t.Fatalf("%+v, %v", out, err)
	}
	if data, _ := s.Object("b", "k"); string(data) != "123456789" {
		t.Errorf("stored %q", data)
	}
}

func TestTrailerIsChecked(t *testing.T) {
	e := start(t, s3test.Options{}, s3test.BucketOptions{})
	chunked := func(sum, length string) answer {
		return e.do(t, "PUT", "/b/k", "4\r\n1234\r\n5\r\n56789\r\n0\r\nx-amz-checksum-crc32:"+sum+"\r\n\r\n", "x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
			"Content-Encoding", "aws-chunked", "x-amz-trailer", "x-amz-checksum-crc32", "x-amz-decoded-content-length", length)
	}
	chunked(b64("cbf43927"), "9").wantError(t, "wrong trailer", 400, "BadDigest")
	chunked("", "9").wantError(t, "empty trailer", 400, "MalformedTrailerError")
	chunked(b64("cbf43926"), "10").wantError(t, "wrong length", 400, "IncompleteBody")
	if _, ok := e.Object("b", "k"); ok {
		t.Error("a refused object was stored")
	}
	chunked(b64("cbf43926"), "9").wantOK(t, "right trailer")
	if data, _ := e.Object("b", "k"); string(data) != "123456789" {
		t.Errorf("stored %q", data)
	}
	if enc := e.do(t, "HEAD", "/b/k", "").header.Get("Content-Encoding"); enc != "" {
		t.Errorf("Content-Encoding %q was kept", enc)
	}
}

// documented are the two examples of signed chunks in the S3 API reference
// ("Signature Calculations for the Authorization Header: Transferring Payload in
// Multiple Chunks", without and with trailer): 66,560 bytes "a" in two chunks.
var documented = []struct {
	name, hash, length string
	signature          string
	headers, signed    string
	chunks             []string
	trailer            string
}{
	{"chunks", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "66824", "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9", "", "content-encoding;content-length;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;x-amz-storage-class",
		[]string{"ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648", "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497", "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9"}, "\r\n"},
	{"trailer", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", "66946", "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e", "x-amz-checksum-crc32c", "content-encoding;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;x-amz-storage-class;x-amz-trailer",
		[]string{"b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2", "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7", "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992"},
		"x-amz-checksum-crc32c:sOO8/Q==\r\nx-amz-trailer-signature:d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n\r\n"},
}

func TestSignedChunks(t *testing.T) {
	e := start(t, s3test.Options{AccessKey: "AKIAIOSFODNN7EXAMPLE", SecretKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}, s3test.BucketOptions{})
	e.CreateBucket("examplebucket", s3test.BucketOptions{})
	e.SetSkew(time.Until(time.Date(2013, 5, 24, 0, 1, 0, 0, time.UTC)))
	content := strings.Repeat("a", 66560)
	for _, d := range documented {
		for _, tampered := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s tampered %v", d.name, tampered), func(t *testing.T) {
				sent := content
				if tampered {
					sent = content[:66559] + "b"
				}
				body := "10000;chunk-signature=" + d.chunks[0] + "\r\n" + sent[:65536] + "\r\n400;chunk-signature=" + d.chunks[1] + "\r\n" + sent[65536:] +
					"\r\n0;chunk-signature=" + d.chunks[2] + "\r\n" + d.trailer
				r := e.request(t, "PUT", "/examplebucket/chunkObject.txt", body, "x-amz-content-sha256", d.hash, "x-amz-date", "20130524T000000Z",
					"x-amz-decoded-content-length", "66560", "x-amz-storage-class", "REDUCED_REDUNDANCY", "Content-Encoding", "aws-chunked",
					"Authorization", "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,SignedHeaders="+d.signed+",Signature="+d.signature)
				if d.headers != "" {
					r.Header.Set("x-amz-trailer", d.headers)
				}
				r.Host = "s3.amazonaws.com"
				a := e.send(t, r)
				if tampered {
					a.wantError(t, "tampered chunk", 403, "SignatureDoesNotMatch")
					return
				}
				a.wantOK(t, "documented example")
				if data, _ := e.Object("examplebucket", "chunkObject.txt"); string(data) != content {
					t.Errorf("stored %d bytes", len(data))
				}
			})
		}
	}
}

// parts of an upload; the small limit lets them be short.
var parts = []string{"the first part ", "the second part, which is longer ", "the end"}

// upload sends the parts in one multipart upload.
func upload(t *testing.T, e *endpoint, create s3.CreateMultipartUploadInput, finish func(*s3.CompleteMultipartUploadInput)) (*s3.CompleteMultipartUploadOutput, error) {
	t.Helper()
	create.Bucket, create.Key = aws.String("b"), aws.String("k")
	u, err := e.sdk.CreateMultipartUpload(t.Context(), &create)
	if err != nil {
		return nil, err
	}
	done := &s3.CompleteMultipartUploadInput{Bucket: create.Bucket, Key: create.Key, UploadId: u.UploadId, MultipartUpload: &types.CompletedMultipartUpload{}}
	for i, content := range parts {
		n := aws.Int32(int32(i + 1))
		p, err := e.sdk.UploadPart(t.Context(), &s3.UploadPartInput{Bucket: create.Bucket, Key: create.Key, UploadId: u.UploadId, PartNumber: n,
			Body: bytes.NewReader([]byte(content)), ChecksumAlgorithm: create.ChecksumAlgorithm})
		if err != nil {
			return nil, err
		}
		done.MultipartUpload.Parts = append(done.MultipartUpload.Parts, types.CompletedPart{PartNumber: n, ETag: p.ETag, ChecksumCRC32: p.ChecksumCRC32,
			ChecksumCRC32C: p.ChecksumCRC32C, ChecksumCRC64NVME: p.ChecksumCRC64NVME, ChecksumSHA1: p.ChecksumSHA1, ChecksumSHA256: p.ChecksumSHA256})
	}
	if finish != nil {
		finish(done)
	}
	return e.sdk.CompleteMultipartUpload(t.Context(), done)
}

// compositeSHA256 and compositeCRC32 are the composites by their definition: the
// checksum of the parts' digests, one after the other.
func compositeSHA256() string {
	whole := sha256.New()
	for _, p := range parts {
		sum := sha256.Sum256([]byte(p))
		whole.Write(sum[:])
	}
	return base64.StdEncoding.EncodeToString(whole.Sum(nil)) + "-3"
}

func compositeCRC32() string {
	var all []byte
	for _, p := range parts {
		sum := crc32.ChecksumIEEE([]byte(p))
		all = append(all, byte(sum>>24), byte(sum>>16), byte(sum>>8), byte(sum))
	}
	return b64(fmt.Sprintf("%08x", crc32.ChecksumIEEE(all))) + "-3"
}

func multipartETag() string {
	whole := md5.New()
	for _, p := range parts {
		sum := md5.Sum([]byte(p))
		whole.Write(sum[:])
	}
	return fmt.Sprintf(`"%x-3"`, whole.Sum(nil))
}

func TestCompositeAndFullObject(t *testing.T) {
	e := start(t, s3test.Options{MinPartSize: -1}, s3test.BucketOptions{})
	whole := strings.Join(parts, "")
	crc := b64(fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(whole))))
	for _, c := range []struct {
		algorithm  types.ChecksumAlgorithm
		kind, want types.ChecksumType
		value      func(*s3.CompleteMultipartUploadOutput) *string
		sum        string
	}{
		{types.ChecksumAlgorithmSha256, "", "COMPOSITE", func(o *s3.CompleteMultipartUploadOutput) *string { return o.ChecksumSHA256 }, compositeSHA256()},
		{types.ChecksumAlgorithmCrc32, "", "COMPOSITE", func(o *s3.CompleteMultipartUploadOutput) *string { return o.ChecksumCRC32 }, compositeCRC32()},
		{types.ChecksumAlgorithmCrc32, "FULL_OBJECT", "FULL_OBJECT", func(o *s3.CompleteMultipartUploadOutput) *string { return o.ChecksumCRC32 }, crc},
		{types.ChecksumAlgorithmCrc64nvme, "", "FULL_OBJECT", nil, ""},
		{"", "", "FULL_OBJECT", nil, ""},
	} {
		t.Run(string(c.algorithm+"/")+string(c.kind), func(t *testing.T) {
			out, err := upload(t, e, s3.CreateMultipartUploadInput{ChecksumAlgorithm: c.algorithm, ChecksumType: c.kind}, nil)
			if err != nil || out.ChecksumType != c.want || aws.ToString(out.ETag) != multipartETag() {
				t.Fatalf("%+v, %v; want ETag %s", out, err, multipartETag())
			}
			if c.value != nil && aws.ToString(c.value(out)) != c.sum {
				t.Errorf("checksum %s, want %s", aws.ToString(c.value(out)), c.sum)
			}
			if e.get(t, "k") != whole {
				t.Error("other bytes came back")
			}
		})
	}
	for _, a := range []types.ChecksumAlgorithm{types.ChecksumAlgorithmSha256, types.ChecksumAlgorithmSha1} {
		if _, err := upload(t, e, s3.CreateMultipartUploadInput{ChecksumAlgorithm: a, ChecksumType: "FULL_OBJECT"}, nil); code(err) != "InvalidRequest" {
			t.Errorf("%s FULL_OBJECT: %v", a, err)
		}
	}
}

func TestCompleteRefusesAWrongAssembly(t *testing.T) {
	e := start(t, s3test.Options{MinPartSize: -1}, s3test.BucketOptions{})
	crc64 := s3.CreateMultipartUploadInput{ChecksumAlgorithm: types.ChecksumAlgorithmCrc64nvme}
	for want, change := range map[string]func(*s3.CompleteMultipartUploadInput){
		"BadDigest": func(in *s3.CompleteMultipartUploadInput) {
			in.ChecksumCRC64NVME, in.ChecksumType = aws.String(b64("ae8b14860a799888")), "FULL_OBJECT"
		},
		"InvalidPart": func(in *s3.CompleteMultipartUploadInput) {
			in.MultipartUpload.Parts[1].ETag = in.MultipartUpload.Parts[0].ETag
		},
		"InvalidPartOrder": func(in *s3.CompleteMultipartUploadInput) {
			p := in.MultipartUpload.Parts
			p[0], p[1] = p[1], p[0]
		},
		"InvalidRequest": func(in *s3.CompleteMultipartUploadInput) { in.MpuObjectSize = aws.Int64(1) },
		"NoSuchUpload":   func(in *s3.CompleteMultipartUploadInput) { in.UploadId = aws.String("another") },
	} {
		if _, err := upload(t, e, crc64, change); code(err) != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := upload(t, e, s3.CreateMultipartUploadInput{ChecksumAlgorithm: types.ChecksumAlgorithmSha256}, func(in *s3.CompleteMultipartUploadInput) {
		in.MultipartUpload.Parts[2].ChecksumSHA256 = nil
	}); code(err) != "InvalidRequest" {
		t.Errorf("a composite without a part's checksum: %v", err)
	}
	if _, ok := e.Object("b", "k"); ok {
		t.Error("a refused object was stored")
	}
	e.put(t, "k", "there")
	if _, err := upload(t, e, crc64, func(in *s3.CompleteMultipartUploadInput) { in.IfNoneMatch = aws.String("*") }); code(err) != "PreconditionFailed" {
		t.Errorf("If-None-Match: %v", err)
	}
	large := start(t, s3test.Options{}, s3test.BucketOptions{})
	if _, err := upload(t, large, crc64, nil); code(err) != "EntityTooSmall" {
		t.Errorf("small parts: %v", err)
	}
}

func TestAttributesAndParts(t *testing.T) {
	e := start(t, s3test.Options{MinPartSize: -1, PageSize: 2}, s3test.BucketOptions{})
	if _, err := upload(t, e, s3.CreateMultipartUploadInput{ChecksumAlgorithm: types.ChecksumAlgorithmCrc32}, nil); err != nil {
		t.Fatal(err)
	}
	ask := &s3.GetObjectAttributesInput{Bucket: aws.String("b"), Key: aws.String("k"), ObjectAttributes: []types.ObjectAttributes{"Checksum", "ObjectParts", "ObjectSize", "ETag"}}
	var sizes []int64
	for page := range 2 {
		out, err := e.sdk.GetObjectAttributes(t.Context(), ask)
		if err != nil {
			t.Fatal(err)
		}
		if aws.ToString(out.Checksum.ChecksumCRC32) != compositeCRC32() || out.Checksum.ChecksumType != "COMPOSITE" || aws.ToInt64(out.ObjectSize) != 55 ||
			aws.ToString(out.ETag) != strings.Trim(multipartETag(), `"`) || aws.ToInt32(out.ObjectParts.TotalPartsCount) != 3 || aws.ToBool(out.ObjectParts.IsTruncated) != (page == 0) {
			t.Errorf("%+v %+v %+v", out, out.Checksum, out.ObjectParts)
		}
		for _, p := range out.ObjectParts.Parts {
			sizes = append(sizes, aws.ToInt64(p.Size))
			if want := b64(fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(parts[*p.PartNumber-1])))); aws.ToString(p.ChecksumCRC32) != want {
				t.Errorf("part %d: %s, want %s", *p.PartNumber, *p.ChecksumCRC32, want)
			}
		}
		ask.PartNumberMarker = out.ObjectParts.NextPartNumberMarker
	}
	if fmt.Sprint(sizes) != "[15 33 7]" {
		t.Errorf("part sizes %v", sizes)
	}
	part := e.do(t, "GET", "/b/k?partNumber=2", "")
	if part.status != 206 || part.body != parts[1] || part.header.Get("x-amz-mp-parts-count") != "3" || part.header.Get("Content-Range") != "bytes 15-47/55" {
		t.Errorf("part 2: %+v", part)
	}
	e.do(t, "GET", "/b/k?partNumber=4", "").wantError(t, "part 4", 416, "InvalidPartNumber")
	if _, err := upload(t, e, s3.CreateMultipartUploadInput{}, nil); err != nil {
		t.Fatal(err)
	}
	ask.PartNumberMarker = nil
	if out, err := e.sdk.GetObjectAttributes(t.Context(), ask); err != nil || len(out.ObjectParts.Parts) != 0 || *out.ObjectParts.TotalPartsCount != 3 {
		t.Errorf("parts that nobody checksummed are only counted: %+v, %v", out.ObjectParts, err)
	}
}
