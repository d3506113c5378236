package s3test_test

import (
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

func crcOf(content string) string {
	return b64(fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(content))))
}

func TestSignatureIsChecked(t *testing.T) {
	e := start(t, s3test.Options{SessionToken: "the-token"}, s3test.BucketOptions{})
	e.do(t, "PUT", "/b/a%20b%2Bc", "x").wantOK(t, "signed")
	ask := func(change func(sign func(region string, at time.Time), set func(name, value string))) answer {
		r := e.request(t, "GET", "/b/a%20b%2Bc?x=1", "")
		change(func(region string, at time.Time) { e.sign(t, r, region, at) }, r.Header.Set)
		return e.send(t, r)
	}
	type signing = func(func(string, time.Time), func(string, string))
	now := time.Now()
	for what, c := range map[string]struct {
		status int
		code   string
		do     signing
	}{
		"anonymous": {403, "AccessDenied", func(func(string, time.Time), func(string, string)) {}},
		"header changed": {403, "SignatureDoesNotMatch", func(sign func(string, time.Time), set func(string, string)) {
			set("x-amz-meta-a", "1")
			sign("us-east-1", now)
			set("x-amz-meta-a", "2")
		}},
		"clock 16m slow": {403, "RequestTimeTooSkewed", func(sign func(string, time.Time), _ func(string, string)) {
			sign("us-east-1", now.Add(-16*time.Minute))
		}},
		"clock 16m fast": {403, "RequestTimeTooSkewed", func(sign func(string, time.Time), _ func(string, string)) { sign("us-east-1", now.Add(16*time.Minute)) }},
		"another region": {400, "AuthorizationHeaderMalformed", func(sign func(string, time.Time), _ func(string, string)) { sign("eu-west-1", now) }},
		"another token": {400, "InvalidToken", func(sign func(string, time.Time), set func(string, string)) {
			sign("us-east-1", now)
			set("x-amz-security-token", "no")
		}},
		"unknown key": {403, "InvalidAccessKeyId", func(_ func(string, time.Time), set func(string, string)) {
			set("Authorization", "AWS4-HMAC-SHA256 Credential=no/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=00")
		}},
		"forged": {403, "AccessDenied", func(_ func(string, time.Time), set func(string, string)) {
			set("Authorization", "AWS4-HMAC-SHA256 ,,=,")
		}},
		"empty signature": {403, "AccessDenied", func(_ func(string, time.Time), set func(string, string)) { set("Authorization", "AWS4-HMAC-SHA256") }},
	} {
		ask(c.do).wantError(t, what, c.status, c.code)
	}
	e.ExpireCredentials(true)
	e.do(t, "GET", "/b/a%20b%2Bc", "").wantError(t, "expired", 400, "ExpiredToken")
	e.ExpireCredentials(false)
	e.SetSkew(16 * time.Minute)
	e.do(t, "GET", "/b/a%20b%2Bc", "").wantError(t, "skewed server", 403, "RequestTimeTooSkewed")
}

func TestRegions(t *testing.T) {
	for redirect, want := range map[bool]int{false: 400, true: 301} {
		e := start(t, s3test.Options{PermanentRedirect: redirect}, s3test.BucketOptions{Region: "eu-west-1"})
		a := e.do(t, "HEAD", "/b", "")
		if a.status != want || a.header.Get("x-amz-bucket-region") != "eu-west-1" {
			t.Errorf("redirect %v: %+v", redirect, a)
		}
		if loc, err := e.sdk.GetBucketLocation(t.Context(), &s3.GetBucketLocationInput{Bucket: aws.String("b")}); err != nil || loc.LocationConstraint != "eu-west-1" {
			t.Errorf("location: %+v, %v", loc, err)
		}
		r := e.request(t, "PUT", "/b/k", "x")
		e.sign(t, r, "eu-west-1", time.Now())
		e.send(t, r).wantOK(t, "signed for its region")
	}
	e := start(t, s3test.Options{}, s3test.BucketOptions{})
	e.do(t, "GET", "/none/k", "").wantError(t, "no bucket", 404, "NoSuchBucket")
	e.do(t, "PUT", "/new", "").wantOK(t, "create")
	if l, err := e.sdk.ListBuckets(t.Context(), &s3.ListBucketsInput{}); err != nil || len(l.Buckets) != 2 || *l.Buckets[1].Name != "new" {
		t.Errorf("buckets: %+v, %v", l, err)
	}
}

func TestVirtualHost(t *testing.T) {
	e := start(t, s3test.Options{Domain: "s3.example"}, s3test.BucketOptions{})
	r := e.request(t, "PUT", "/dir/k", "x")
	r.Host = "b.s3.example"
	e.sign(t, r, "us-east-1", time.Now())
	e.send(t, r).wantOK(t, "virtual host")
	if data, ok := e.Object("b", "dir/k"); !ok || string(data) != "x" {
		t.Errorf("stored %q, %v", data, ok)
	}
}

func TestDenyAndRequesterPays(t *testing.T) {
	e := start(t, s3test.Options{}, s3test.BucketOptions{})
	e.put(t, "model/a", "x")
	e.put(t, "deploy/a", "x")
	e.Deny("b", "model/")
	e.do(t, "GET", "/b/model/a", "").wantError(t, "denied", 403, "AccessDenied")
	e.do(t, "GET", "/b?list-type=2", "").wantError(t, "a listing that reaches it", 403, "AccessDenied")
	e.do(t, "GET", "/b?list-type=2&prefix=deploy%2F", "").wantOK(t, "another prefix")
	e.do(t, "PUT", "/b/new", "", "x-amz-copy-source", "b/model/a").wantError(t, "copy of it", 403, "AccessDenied")
	e.Allow("b")
	e.Deny("b", "", "GetObjectAttributes")
	e.do(t, "GET", "/b/model/a", "").wantOK(t, "another operation")
	e.do(t, "GET", "/b/model/a?attributes", "", "x-amz-object-attributes", "ETag").wantError(t, "denied operation", 403, "AccessDenied")

	e.CreateBucket("b", s3test.BucketOptions{RequesterPays: true})
	e.do(t, "PUT", "/b/k", "x").wantError(t, "not paid", 403, "AccessDenied")
	e.do(t, "PUT", "/b/k", "x", "x-amz-request-payer", "requester").wantOK(t, "paid")
}

func TestKMSHasNoMD5(t *testing.T) {
	e := start(t, s3test.Options{}, s3test.BucketOptions{KMSKey: "arn:aws:kms:us-east-1:1:key/2"})
	e.put(t, "k", "123456789")
	h := e.do(t, "HEAD", "/b/k", "").header
	if strings.Contains(h.Get("ETag"), "25f9e794323b453885f5181f1b624d0b") || h.Get("x-amz-server-side-encryption") != "aws:kms" || h.Get("x-amz-server-side-encryption-aws-kms-key-id") != "arn:aws:kms:us-east-1:1:key/2" {
		t.Errorf("%v", h)
	}
}

func TestRotLeavesWhatIsSaid(t *testing.T) {
	e := start(t, s3test.Options{}, s3test.BucketOptions{})
	e.put(t, "k", "123456789")
	before := e.do(t, "HEAD", "/b/k", "", "x-amz-checksum-mode", "ENABLED")
	e.Rot("b", "k", 3, []byte("XY"))
	after := e.do(t, "HEAD", "/b/k", "", "x-amz-checksum-mode", "ENABLED")
	for _, name := range []string{"ETag", "x-amz-checksum-crc64nvme", "Content-Length", "Last-Modified"} {
		if before.header.Get(name) != after.header.Get(name) || after.header.Get(name) == "" {
			t.Errorf("%s was %q, is %q", name, before.header.Get(name), after.header.Get(name))
		}
	}
	if got := e.get(t, "k"); got != "123XY6789" {
		t.Errorf("it holds %q", got)
	}
	// A copy that computes tells the truth; one that carries over does not.
	out, err := e.sdk.CopyObject(t.Context(), &s3.CopyObjectInput{Bucket: aws.String("b"), Key: aws.String("copy"), CopySource: aws.String("b/k"), ChecksumAlgorithm: types.ChecksumAlgorithmCrc32})
	if err != nil || aws.ToString(out.CopyObjectResult.ChecksumCRC32) != crcOf("123XY6789") {
		t.Errorf("%+v, %v", out, err)
	}
}

// 76 bytes become 118: "4c\r\n" before them, "\r\n0\r\n" and a trailer of 33 after.
func TestFramingIsStoredByServersThatDoNotKnowIt(t *testing.T) {
	e := start(t, s3test.Options{StoresFraming: true}, s3test.BucketOptions{})
	content := strings.Repeat("x", 76)
	body := "4c\r\n" + content + "\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n"
	e.do(t, "PUT", "/b/k", body, "x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "Content-Encoding", "aws-chunked",
		"x-amz-trailer", "x-amz-checksum-crc32", "x-amz-decoded-content-length", "76").wantOK(t, "put")
	if data, _ := e.Object("b", "k"); string(data) != body || len(data) != 118 {
		t.Errorf("stored %q", data)
	}
	if h := e.do(t, "HEAD", "/b/k", "", "x-amz-checksum-mode", "ENABLED").header; h.Get("Content-Encoding") != "aws-chunked" || h.Get("x-amz-checksum-crc64nvme") != "" {
		t.Errorf("%v", h)
	}
	e.do(t, "PUT", "/b/k", content, "x-amz-checksum-crc32", b64("cbf43926")).wantOK(t, "a checksum it does not know")
}

func TestLesserServers(t *testing.T) {
	e := start(t, s3test.Options{NoDefaultChecksum: true, NoAttributes: true, NoConditions: true, NoReplication: true, FileSystem: true}, s3test.BucketOptions{})
	e.put(t, "a/b", "x")
	if h := e.do(t, "HEAD", "/b/a/b", "", "x-amz-checksum-mode", "ENABLED").header; h.Get("x-amz-checksum-type") != "" {
		t.Errorf("a default checksum: %v", h)
	}
	e.do(t, "GET", "/b/a/b?attributes", "", "x-amz-object-attributes", "ETag").wantError(t, "attributes", 501, "NotImplemented")
	e.do(t, "PUT", "/b/a/b", "y", "If-None-Match", "*").wantOK(t, "a condition that is ignored")
	e.do(t, "GET", "/b?replication", "").wantError(t, "replication", 501, "NotImplemented")
	e.do(t, "PUT", "/b/a", "y").wantError(t, "a file beside a folder", 409, "ObjectParentIsFile")
	e.do(t, "PUT", "/b/a/b/c", "y").wantError(t, "a folder beside a file", 409, "ObjectParentIsFile")
	e.do(t, "GET", "/b/a/b?acl", "").wantError(t, "unknown operation", 501, "NotImplemented")
}

func TestReplicationRules(t *testing.T) {
	e := start(t, s3test.Options{}, s3test.BucketOptions{Versioning: true})
	e.do(t, "GET", "/b?replication", "").wantError(t, "no rules", 404, "ReplicationConfigurationNotFoundError")
	rules := &types.ReplicationConfiguration{Role: aws.String("arn:aws:iam::1:role/r"), Rules: []types.ReplicationRule{{Status: "Enabled", Priority: aws.Int32(1),
		Filter: &types.ReplicationRuleFilter{Prefix: aws.String("llm/")}, DeleteMarkerReplication: &types.DeleteMarkerReplication{Status: "Disabled"},
		Destination: &types.Destination{Bucket: aws.String("arn:aws:s3:::west")}}}}
	if _, err := e.sdk.PutBucketReplication(t.Context(), &s3.PutBucketReplicationInput{Bucket: aws.String("b"), ReplicationConfiguration: rules}); err != nil {
		t.Fatal(err)
	}
	out, err := e.sdk.GetBucketReplication(t.Context(), &s3.GetBucketReplicationInput{Bucket: aws.String("b")})
	if err != nil || *out.ReplicationConfiguration.Rules[0].Filter.Prefix != "llm/" || *out.ReplicationConfiguration.Rules[0].Destination.Bucket != "arn:aws:s3:::west" {
		t.Errorf("%+v, %v", out, err)
	}
	e.put(t, "llm/k", "x")
	e.put(t, "other", "x")
	for key, want := range map[string]string{"llm/k": "PENDING", "other": ""} {
		if got := e.do(t, "HEAD", "/b/"+key, "").header.Get("x-amz-replication-status"); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
	e.SetReplication("b", "llm/k", "FAILED")
	if got := e.do(t, "HEAD", "/b/llm/k", "").header.Get("x-amz-replication-status"); got != "FAILED" {
		t.Errorf("status %q", got)
	}
}

func TestLogHoldsNoSecrets(t *testing.T) {
	e := start(t, s3test.Options{SecretKey: "a-secret", SessionToken: "a-token"}, s3test.BucketOptions{})
	e.put(t, "k", "123456789")
	e.get(t, "k")
	log := e.Requests()
	if len(log) != 2 || log[0].Operation != "PutObject" || log[0].BytesIn != 9 || log[1].Operation != "GetObject" || log[1].BytesOut != 9 || log[1].Status != 200 || log[1].Key != "k" {
		t.Errorf("%+v", log)
	}
	if text := fmt.Sprintf("%+v", log); strings.Contains(text, "a-secret") || strings.Contains(text, "a-token") || strings.Contains(text, "Signature") {
		t.Error("the log holds a secret")
	}
	if e.ResetRequests(); len(e.Requests()) != 0 {
		t.Error("the log was not emptied")
	}
}

func TestMalformedRequestsAreAnswered(t *testing.T) {
	e := start(t, s3test.Options{}, s3test.BucketOptions{})
	for _, body := range []string{"", "ffffffffffffffff\r\n", "7fffffff\r\nshort", "-1\r\n", "4;x\r\nab", "4\r\nabcdXX", "\r\n", "0", strings.Repeat("0", 10_000)} {
		a := e.do(t, "PUT", "/b/k", body, "x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "x-amz-decoded-content-length", "4")
		if a.status != 400 {
			t.Errorf("%.20q: %+v", body, a)
		}
	}
	e.do(t, "POST", "/b?delete", "<Delete><Object>").wantError(t, "XML", 400, "MalformedXML")
	e.do(t, "POST", "/b?delete", "<Delete></Delete>").wantError(t, "no keys", 400, "MalformedXML")
	e.do(t, "PUT", "/b/k?partNumber=0&uploadId=x", "").wantError(t, "part 0", 400, "InvalidArgument")
	e.do(t, "GET", "/b?list-type=2&max-keys=-1", "").wantError(t, "max-keys", 400, "InvalidArgument")
	e.do(t, "GET", "/b?list-type=2&continuation-token=%21", "").wantError(t, "token", 400, "InvalidArgument")
	e.do(t, "PUT", "/b/k", "", "x-amz-copy-source", "%zz").wantError(t, "copy source", 400, "InvalidArgument")
	if _, ok := e.Object("b", "k"); ok {
		t.Error("something was stored")
	}
}
