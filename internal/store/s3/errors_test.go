package s3_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/internal/store/s3"
	"drkit/internal/store/s3/s3test"
)

// every calls each operation and gives its error to check.
func every(t *testing.T, s *s3.Store, check func(t *testing.T, err error)) {
	t.Helper()
	for name, do := range map[string]func() error{
		"List": func() error { return listErr(t, s) },
		"Stat": func() error { _, err := s.Stat(t.Context(), "k"); return err },
		"Open": func() error { _, err := s.Open(t.Context(), store.Object{Key: "k"}, 0, -1); return err },
		"Put": func() error {
			_, err := s.Put(t.Context(), "k", store.BytesBody([]byte("x")), store.Cond{})
			return err
		},
		"Remove": func() error { return s.Remove(t.Context(), "k", store.Cond{}) },
	} {
		t.Run(name, func(t *testing.T) { check(t, do()) })
	}
}

func listErr(t *testing.T, s store.Source) error {
	for _, err := range s.List(t.Context(), "") {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestErrorsOfThePlace(t *testing.T) {
	for name, c := range map[string]struct {
		break_ func(b bench)
		opts   func(*s3.Options)
		kind   error
		says   []string
	}{
		"missing bucket": {opts: func(o *s3.Options) { o.Bucket = "other" }, kind: store.ErrUnreachable, says: []string{"s3://other/", "no such bucket", "check the name"}},
		"expired token":  {break_: func(b bench) { b.ExpireCredentials(true) }, kind: store.ErrUnreachable, says: []string{"s3://b/", "expired", "sign in again"}},
		"wrong secret": {opts: func(o *s3.Options) {
			o.Credentials = credentials.NewStaticCredentialsProvider(s3test.DefaultAccessKey, "wrong-secret-key", "")
		}, kind: store.ErrUnreachable, says: []string{"secret key", "aws sts get-caller-identity"}},
		"unknown key": {opts: func(o *s3.Options) {
			o.Credentials = credentials.NewStaticCredentialsProvider("nobody-at-all", "wrong-secret-key", "")
		}, kind: store.ErrUnreachable, says: []string{"access key"}},
		"wrong region":      {opts: func(o *s3.Options) { o.Region = "ap-south-1" }, kind: store.ErrUnreachable, says: []string{"lies in region us-east-1, not ap-south-1", "set region: us-east-1"}},
		"denied":            {break_: func(b bench) { b.Deny("b", "") }, kind: store.ErrDenied, says: []string{"s3://b/", "access denied", "the credentials need s3:"}},
		"nothing there":     {opts: func(o *s3.Options) { o.Endpoint = "http://127.0.0.1:1" }, kind: store.ErrUnreachable, says: []string{"nothing listens at http://127.0.0.1:1"}},
		"no TLS over there": {opts: func(o *s3.Options) { o.Endpoint = strings.Replace(o.Endpoint, "http:", "https:", 1) }, kind: store.ErrUnreachable, says: []string{"does not speak TLS", "http://"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t, s3test.Options{}, s3test.BucketOptions{})
			if c.break_ != nil {
				c.break_(b)
			}
			s := b.open(t, func(o *s3.Options) {
				if c.opts != nil {
					c.opts(o)
				}
			})
			every(t, s, func(t *testing.T, err error) { named(t, err, c.kind, c.says...) })
		})
	}
}

// The library moves its own clock after such an answer; a server that goes on
// refusing is named.
func TestClockThatStaysWrong(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusForbidden)
		w.Write([]byte("<Error><Code>RequestTimeTooSkewed</Code><Message>The difference between the request time and the current time is too large.</Message></Error>"))
	}))
	defer srv.Close()
	b := start(t, s3test.Options{}, s3test.BucketOptions{})
	s := b.open(t, func(o *s3.Options) { o.Endpoint = srv.URL })
	named(t, listErr(t, s), store.ErrUnreachable, "clock is off: it is 1h0m", "ahead", "NTP")
	_, err := s.Open(t.Context(), store.Object{Key: "k"}, 0, -1)
	named(t, err, store.ErrUnreachable, "clock")
}

func TestClockThatTheLibraryCorrects(t *testing.T) {
	b := start(t, s3test.Options{}, s3test.BucketOptions{})
	b.SetSkew(30 * time.Minute)
	named(t, listErr(t, b.open(t)), store.ErrUnreachable, "s3://b/", "clock is off", "NTP") // nothing tells what the time is
	s := b.before(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		w.Header().Set("Date", time.Now().Add(30*time.Minute).UTC().Format(http.TimeFormat))
		next.ServeHTTP(w, r)
	}).open(t)
	put(t, s, "k", "content")
	if got, err := read(t, s, store.Object{Key: "k"}); got != "content" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
}

func TestCertificateThatNobodyKnows(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.NotFoundHandler())
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.TLS = &tls.Config{}
	srv.StartTLS()
	defer srv.Close()
	b := start(t, s3test.Options{}, s3test.BucketOptions{})
	s := b.open(t, func(o *s3.Options) { o.Endpoint = srv.URL })
	named(t, listErr(t, s), store.ErrUnreachable, "certificate", "not trusted", "AWS_CA_BUNDLE")
}

func TestNoCredentials(t *testing.T) {
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_SESSION_TOKEN"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "none"))
	b := start(t, s3test.Options{}, s3test.BucketOptions{})
	s := b.open(t, func(o *s3.Options) { o.Credentials = nil })
	every(t, s, func(t *testing.T, err error) { named(t, err, store.ErrUnreachable, "no credentials", "AWS_PROFILE") })
}

func TestProfile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	b := start(t, s3test.Options{}, s3test.BucketOptions{})
	text := "[profile dr]\naws_access_key_id = " + s3test.DefaultAccessKey + "\naws_secret_access_key = " + s3test.DefaultSecretKey + "\nendpoint_url = " + b.url + "\nregion = us-east-1\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_CONFIG_FILE", file)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file+".none")
	s, err := s3.New(t.Context(), s3.Options{Bucket: "b", Profile: "dr"})
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "k", "content")
	_, err = s3.New(t.Context(), s3.Options{Bucket: "b", Profile: "absent"})
	named(t, err, nil, "there is no profile absent", "list-profiles")
}

// An environment as the AWS command line knows it.
func TestEndpointFromTheEnvironment(t *testing.T) {
	b := start(t, s3test.Options{}, s3test.BucketOptions{})
	t.Setenv("AWS_ACCESS_KEY_ID", s3test.DefaultAccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", s3test.DefaultSecretKey)
	t.Setenv("AWS_ENDPOINT_URL_S3", b.url)
	s, err := s3.New(t.Context(), s3.Options{Bucket: "b"})
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "k", "content")
	if !store.SamePlace(s, b.open(t)) || store.SamePlace(s, b.open(t, func(o *s3.Options) { o.Prefix = "below" })) {
		t.Errorf("places are told apart by %q", s.Location())
	}
}

func TestLoopbackHasManyNames(t *testing.T) {
	b := start(t, s3test.Options{}, s3test.BucketOptions{})
	other := b.open(t, func(o *s3.Options) { o.Endpoint = strings.Replace(b.url, "127.0.0.1", "localhost", 1) + "/" })
	if !store.SamePlace(b.open(t), other) {
		t.Errorf("%q and %q", b.open(t).Location(), other.Location())
	}
}

func TestAssumedRoleThatIsRefused(t *testing.T) {
	sts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		w.Write([]byte(`<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>User is not authorized to perform: sts:AssumeRole</Message></Error></ErrorResponse>`))
	}))
	defer sts.Close()
	t.Setenv("AWS_ENDPOINT_URL_STS", sts.URL)
	b := start(t, s3test.Options{}, s3test.BucketOptions{})
	s := b.open(t, func(o *s3.Options) { o.AssumeRole = "arn:aws:iam::111122223333:role/dr" })
	named(t, listErr(t, s), store.ErrUnreachable, "role/dr cannot be taken on", "trust policy")
}

func TestAssumedRole(t *testing.T) {
	sts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Write([]byte(`<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>role-access-key</AccessKeyId><SecretAccessKey>role-secret-key</SecretAccessKey><SessionToken>role-session</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>`))
	}))
	defer sts.Close()
	t.Setenv("AWS_ENDPOINT_URL_STS", sts.URL)
	b := start(t, s3test.Options{AccessKey: "role-access-key", SecretKey: "role-secret-key", SessionToken: "role-session"}, s3test.BucketOptions{})
	s := b.open(t, func(o *s3.Options) {
		o.AssumeRole = "arn:aws:iam::111122223333:role/dr"
		o.Credentials = credentials.NewStaticCredentialsProvider("base-key", "base-secret", "")
	})
	put(t, s, "k", "content")
}

func TestBadOptions(t *testing.T) {
	for _, o := range []s3.Options{{}, {Bucket: "a/b"}, {Bucket: "b", Endpoint: "ftp://x"}, {Bucket: "b", Endpoint: "host:9000"}, {Bucket: "b", Endpoint: "http://user:word@host"}, {Bucket: "b", Checksums: "never"}} {
		_, err := s3.New(t.Context(), o)
		if errext.StatusOf(err) != errext.Usage || strings.Contains(err.Error(), "word") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestRequesterPays(t *testing.T) {
	b := start(t, s3test.Options{}, s3test.BucketOptions{RequesterPays: true})
	every(t, b.open(t), func(t *testing.T, err error) { named(t, err, store.ErrDenied, "requester_pays: true") })
}

// One prefix that is denied says nothing of the others.
func TestDeniedPrefix(t *testing.T) {
	b := start(t, s3test.Options{}, s3test.BucketOptions{})
	s := b.open(t)
	put(t, s, "engine/vllm.yaml", "x")
	put(t, s, "model/secret", "x")
	b.Deny("b", "model/")
	for o, err := range s.List(t.Context(), "engine/") {
		if err != nil || o.Key != "engine/vllm.yaml" {
			t.Errorf("%+v, %v", o, err)
		}
	}
	var err error
	for _, err = range s.List(t.Context(), "model/") {
	}
	named(t, err, store.ErrDenied, "s3://b/model/", "s3:ListBucket")
	_, err = s.Stat(t.Context(), "model/secret")
	named(t, err, store.ErrDenied, "s3://b/model/secret", "s3:GetObject")
	if errors.Is(err, store.ErrNotFound) {
		t.Error("what may not be seen is said not to be there")
	}
}

// What the server says of who may not do what is passed on.
func TestDeniedSaysWho(t *testing.T) {
	b := start(t, s3test.Options{}, s3test.BucketOptions{}).before(t, func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		w.WriteHeader(http.StatusForbidden)
		w.Write([]byte("<Error><Code>AccessDenied</Code><Message>User: arn:aws:iam::111122223333:user/dr is not authorized to perform: s3:ListBucket</Message></Error>"))
	})
	named(t, listErr(t, b.open(t)), store.ErrDenied, "user/dr is not authorized")
}

// A login that has run out is another thing than none.
func TestCredentialsThatCannotBeRenewed(t *testing.T) {
	b := start(t, s3test.Options{}, s3test.BucketOptions{})
	s := b.open(t, func(o *s3.Options) {
		o.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{}, errors.New("refresh cached SSO token failed, the SSO session has expired")
		})
	})
	named(t, listErr(t, s), store.ErrUnreachable, "cannot be renewed", "sign in again")
}

// A bucket in another region than the environment's is found without being told.
func TestRegionIsFound(t *testing.T) {
	for _, redirects := range []bool{false, true} {
		b := start(t, s3test.Options{PermanentRedirect: redirects}, s3test.BucketOptions{Region: "eu-west-1"})
		t.Setenv("AWS_REGION", "us-east-1")
		every(t, b.open(t, func(o *s3.Options) { o.Region = "" }), func(t *testing.T, err error) {
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				t.Errorf("redirects %v: %v", redirects, err)
			}
		})
		every(t, b.open(t, func(o *s3.Options) { o.Region = "us-west-2" }), func(t *testing.T, err error) {
			named(t, err, store.ErrUnreachable, "eu-west-1")
		})
	}
}

func TestServerThatStaysBusy(t *testing.T) {
	n := 0
	b := start(t, s3test.Options{}, s3test.BucketOptions{}).before(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		n++
		w.WriteHeader(http.StatusServiceUnavailable)
		w.Write([]byte("<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"))
	})
	named(t, listErr(t, b.open(t)), nil, "fewer requests", "s3://b/", "later")
	if n != 5 {
		t.Errorf("%d attempts", n)
	}
}

func TestServerThatIsBusyOnce(t *testing.T) {
	n := 0
	b := start(t, s3test.Options{}, s3test.BucketOptions{}).before(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if n++; n%2 == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r)
	})
	s := b.open(t)
	put(t, s, "k", "content")
	if got, err := read(t, s, store.Object{Key: "k"}); got != "content" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
}
