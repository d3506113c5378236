package s3test_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	"drkit/internal/store/s3/s3test"
)

// endpoint is a served server with a bucket "b" and a client of each kind.
type endpoint struct {
	*s3test.Server
	url  string
	http *http.Client
	sdk  *s3.Client
}

func start(t *testing.T, o s3test.Options, b s3test.BucketOptions) *endpoint {
	t.Helper()
	s := s3test.New(o).CreateBucket("b", b)
	e := &endpoint{Server: s, url: s.Start(t), http: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	e.sdk = client(e.url, e.http, s.Options())
	return e
}

// client is the SDK's, which computes and validates checksums when it must.
func client(url string, h *http.Client, o s3test.Options, change ...func(*s3.Options)) *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: &url, Region: o.Region, UsePathStyle: true, HTTPClient: h,
		Credentials:                credentials.NewStaticCredentialsProvider(o.AccessKey, o.SecretKey, o.SessionToken),
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
		RetryMaxAttempts:           1,
	}, change...)
}

// answer is a raw response.
type answer struct {
	status int
	header http.Header
	body   string
}

// do signs a raw request with the SDK's signer and sends it. Of the target, what
// stands after "?" is the query; the path is sent as it is written.
func (e *endpoint) do(t *testing.T, method, target, body string, headers ...string) answer {
	t.Helper()
	r := e.request(t, method, target, body, headers...)
	e.sign(t, r, e.Options().Region, time.Now())
	return e.send(t, r)
}

func (e *endpoint) request(t *testing.T, method, target, body string, headers ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, e.url+target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(body))
	r.Header.Set("x-amz-content-sha256", hex.EncodeToString(sum[:]))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

func (e *endpoint) sign(t *testing.T, r *http.Request, region string, at time.Time) {
	t.Helper()
	o := e.Options()
	c := aws.Credentials{AccessKeyID: o.AccessKey, SecretAccessKey: o.SecretKey, SessionToken: o.SessionToken}
	err := v4.NewSigner(func(s *v4.SignerOptions) { s.DisableURIPathEscaping = true }).SignHTTP(t.Context(), c, r, r.Header.Get("x-amz-content-sha256"), "s3", region, at)
	if err != nil {
		t.Fatal(err)
	}
}

func (e *endpoint) send(t *testing.T, r *http.Request) answer {
	t.Helper()
	resp, err := e.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(data)}
}

// wantError checks the status and the error code of a raw answer.
func (a answer) wantError(t *testing.T, what string, status int, code string) {
	t.Helper()
	if a.status != status || !strings.Contains(a.body, "<Code>"+code+"</Code>") {
		t.Errorf("%s: %d %s, want %d %s", what, a.status, a.body, status, code)
	}
}

func (a answer) wantOK(t *testing.T, what string) answer {
	t.Helper()
	if a.status/100 != 2 {
		t.Fatalf("%s: %d %s", what, a.status, a.body)
	}
	return a
}

// code is the SDK error's code, "" for none.
func code(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

func (e *endpoint) put(t *testing.T, key, content string) {
	t.Helper()
	if _, err := e.sdk.PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String("b"), Key: &key, Body: bytes.NewReader([]byte(content))}); err != nil {
		t.Fatalf("PutObject(%q): %v", key, err)
	}
}

func (e *endpoint) get(t *testing.T, key string) string {
	t.Helper()
	out, err := e.sdk.GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("b"), Key: &key})
	if err != nil {
		t.Fatalf("GetObject(%q): %v", key, err)
	}
	defer out.Body.Close()
	data, err := io.ReadAll(out.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
