package s3_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/internal/store/s3"
	"drkit/internal/store/s3/s3test"
)

// bench is a server with the bucket "b" and what opens it.
type bench struct {
	*s3test.Server
	url string
}

func start(t testing.TB, o s3test.Options, b s3test.BucketOptions) bench {
	t.Helper()
	srv := s3test.New(o).CreateBucket("b", b)
	return bench{srv, srv.Start(t)}
}

// before serves the bench behind a handler that may answer in its place.
func (b bench) before(t testing.TB, front func(w http.ResponseWriter, r *http.Request, next http.Handler)) bench {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { front(w, r, b.Server) }))
	t.Cleanup(srv.Close)
	return bench{b.Server, srv.URL}
}

// options are those that reach the bench's bucket.
func (b bench) options(change ...func(*s3.Options)) s3.Options {
	have := b.Server.Options()
	o := s3.Options{Bucket: "b", Region: have.Region, Endpoint: b.url, PathStyle: true, Backoff: 1,
		Credentials: credentials.NewStaticCredentialsProvider(have.AccessKey, have.SecretKey, have.SessionToken)}
	for _, c := range change {
		c(&o)
	}
	return o
}

func (b bench) open(t testing.TB, change ...func(*s3.Options)) *s3.Store {
	t.Helper()
	s, err := s3.New(t.Context(), b.options(change...))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// raw is the library's own client: what other tools do to the bucket.
func (b bench) raw() *sdk.Client {
	have := b.Server.Options()
	return sdk.New(sdk.Options{BaseEndpoint: aws.String(b.url), Region: have.Region, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(have.AccessKey, have.SecretKey, have.SessionToken)})
}

func put(t testing.TB, s store.Sink, key, content string) store.Object {
	t.Helper()
	o, err := s.Put(t.Context(), key, store.BytesBody([]byte(content)), store.Cond{})
	if err != nil {
		t.Fatalf("Put(%q): %v", key, err)
	}
	return o
}

func read(t testing.TB, s store.Source, o store.Object) (string, error) {
	t.Helper()
	r, err := s.Open(t.Context(), o, 0, -1)
	if err != nil {
		return "", err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	return string(data), err
}

// named checks that an error is one of a kind, names the object and what is
// wrong, says what to do, and holds no secret.
func named(t *testing.T, err, kind error, texts ...string) {
	t.Helper()
	if err == nil || (kind != nil && !errors.Is(err, kind)) {
		t.Fatalf("error %v, want %v", err, kind)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error()+"\n"+errext.Hint(err), text) {
			t.Errorf("%q (hint %q) does not say %q", err, errext.Hint(err), text)
		}
	}
	for _, secret := range []string{s3test.DefaultSecretKey, s3test.DefaultAccessKey, "X-Amz-", "Signature="} {
		if strings.Contains(err.Error()+errext.Hint(err), secret) {
			t.Errorf("%q holds %s", err, secret)
		}
	}
}
