package s3_test

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"drkit/internal/store"
	"drkit/internal/store/s3"
	"drkit/internal/store/s3/s3test"
)

// asked keeps the requests of a client, and answers each with an error.
type asked struct {
	mu  sync.Mutex
	all []*http.Request
}

func (a *asked) Do(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, r)
	return &http.Response{StatusCode: http.StatusNotFound, Status: "404 Not Found", Proto: "HTTP/1.1", Header: http.Header{}, Body: io.NopCloser(strings.NewReader("")), Request: r}, nil
}

// meaning is what a server makes of a request.
func meaning(r *http.Request) map[string]string {
	m := map[string]string{"method": r.Method, "url": r.URL.Scheme + "://" + cmp.Or(r.Host, r.URL.Host) + r.URL.EscapedPath()}
	for name, values := range r.URL.Query() {
		m["?"+name] = strings.Join(values, "|")
	}
	for _, name := range []string{"Accept-Encoding", "If-Match", "Range", "X-Amz-Content-Sha256", "X-Amz-Request-Payer", "X-Amz-Security-Token"} {
		m[name] = strings.Join(r.Header.Values(name), "|")
	}
	_, scope, _ := strings.Cut(r.Header.Get("Authorization"), "/") // behind the access key: date, region, service
	m["scope"], _, _ = strings.Cut(scope, ",")
	return m
}

// What drkit asks itself is what the library asks for the same object: it is asked
// second here, as the first answer has not the bytes.
func TestDirectRequestsAreTheLibrarys(t *testing.T) {
	keys := []string{"plain", "a b+c%2B#?&=;", "/leading", "double//slash", "end/", "é\u0301\u00e9~'()*!$@,:", "\x01\xff", "%zz", strings.Repeat("k", 1024)}
	places := map[string]s3.Options{
		"aws":           {Bucket: "models", Region: "eu-west-1"},
		"aws, in path":  {Bucket: "models", Region: "eu-west-1", PathStyle: true},
		"dots":          {Bucket: "models.example.org", Region: "eu-west-1"},
		"china":         {Bucket: "models", Region: "cn-north-1"},
		"own server":    {Bucket: "models", Region: "us-east-1", Endpoint: "http://127.0.0.1:7070", PathStyle: true},
		"below a path":  {Bucket: "models", Region: "us-east-1", Endpoint: "https://store.example.org/s%33/x/", PathStyle: true},
		"bucket's host": {Bucket: "models", Region: "us-east-1", Endpoint: "https://store.example.org"},
		"prefix":        {Bucket: "models", Prefix: "team a/llm", Region: "us-east-1", RequesterPays: true},
	}
	for name, o := range places {
		a := &asked{}
		o.HTTP, o.Credentials = a, credentials.NewStaticCredentialsProvider("access", "secret", "token")
		s, err := s3.New(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range keys {
			for _, of := range []store.Object{{Key: key}, {Key: key, ETag: "abc"}, {Key: key, Version: "v/1+2 3"}} {
				a.all = nil
				if _, err := s.Open(t.Context(), of, 3, 4); !errors.Is(err, store.ErrNotFound) {
					t.Fatal(err)
				}
				if len(a.all) != 2 || a.all[0].UserAgent() != "drkit" || a.all[1].UserAgent() == "drkit" {
					t.Fatalf("%s, %q: %d requests, want one of drkit's and one of the library's", name, key, len(a.all))
				}
				if own, theirs := meaning(a.all[0]), meaning(a.all[1]); !maps.Equal(own, theirs) {
					t.Errorf("%s, %q: drkit asks\n%v\nthe library\n%v", name, key, own, theirs)
				}
			}
		}
	}
}

// Requests that another signature is needed for, or none, are the library's alone.
func TestWhatIsNotAskedDirectly(t *testing.T) {
	for name, o := range map[string]s3.Options{
		"anonymous":         {Bucket: "models", Region: "eu-west-1", Credentials: aws.AnonymousCredentials{}},
		"directory bucket":  {Bucket: "models--use1-az4--x-s3", Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("access", "secret", "")},
		"no credentials":    {Bucket: "models", Region: "eu-west-1", Credentials: credentials.NewStaticCredentialsProvider("", "", "")},
		"unusable endpoint": {Bucket: "models", Region: "not a region", Credentials: credentials.NewStaticCredentialsProvider("access", "secret", "")},
	} {
		a := &asked{}
		o.HTTP = a
		s, err := s3.New(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Open(t.Context(), store.Object{Key: "k"}, 0, -1); err == nil {
			t.Errorf("%s: no error", name)
		}
		for _, r := range a.all {
			if r.UserAgent() == "drkit" {
				t.Errorf("%s: drkit asks itself: %s", name, r.URL)
			}
		}
	}
}

// agents counts requests for objects by who made them, and fails the first of them.
type agents struct {
	mu   sync.Mutex
	seen map[bool]int // by whether they were drkit's own
	fail int          // requests to be answered with status
	with int
}

func (a *agents) front(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if r.URL.Query().Get("x-id") != "GetObject" {
		next.ServeHTTP(w, r)
		return
	}
	a.mu.Lock()
	a.seen[r.UserAgent() == "drkit"]++
	fails := a.fail > 0
	a.fail--
	a.mu.Unlock()
	if fails {
		w.WriteHeader(a.with)
		return
	}
	next.ServeHTTP(w, r)
}

// A request that fails is repeated by the library, in all as often as it does by
// itself; one that does not fail never is.
func TestDirectRequestsThatFail(t *testing.T) {
	b := start(t, s3test.Options{}, s3test.BucketOptions{})
	put(t, b.open(t), "k", "content")
	for _, c := range []struct {
		fail, with  int
		own, others int
		found       bool
	}{
		{0, 0, 1, 0, true},
		{1, http.StatusServiceUnavailable, 1, 1, true},
		{4, http.StatusInternalServerError, 1, 4, true},
		{99, http.StatusServiceUnavailable, 1, 4, false},
		{1, http.StatusPartialContent, 1, 1, true}, // not what was asked for
	} {
		t.Run(fmt.Sprintf("%d of %d", c.with, c.fail), func(t *testing.T) {
			a := &agents{seen: map[bool]int{}, fail: c.fail, with: c.with}
			got, err := read(t, b.before(t, a.front).open(t), store.Object{Key: "k", Size: 7})
			if (err == nil) != c.found || c.found && got != "content" {
				t.Errorf("%q, %v", got, err)
			}
			if a.seen[true] != c.own || a.seen[false] != c.others {
				t.Errorf("%d requests of drkit's own and %d of the library's, want %d and %d", a.seen[true], a.seen[false], c.own, c.others)
			}
		})
	}
}

// A server that takes the library's requests and not drkit's is asked by the library
// from then on, unless it only said that an object is not there.
func TestDirectRequestsThatAreRefused(t *testing.T) {
	b := start(t, s3test.Options{}, s3test.BucketOptions{})
	put(t, b.open(t), "k", "content")
	for status, own := range map[int]int{http.StatusForbidden: 1, http.StatusBadRequest: 1, http.StatusNotFound: 3, http.StatusServiceUnavailable: 3} {
		a := &agents{seen: map[bool]int{}}
		s := b.before(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.UserAgent() != "drkit" {
				a.front(w, r, next)
				return
			}
			a.front(httptest.NewRecorder(), r, next) // counts it
			w.WriteHeader(status)
		}).open(t)
		for range 3 {
			if got, err := read(t, s, store.Object{Key: "k", Size: 7}); got != "content" || err != nil {
				t.Errorf("%d: %q, %v", status, got, err)
			}
		}
		if a.seen[true] != own || a.seen[false] != 3 {
			t.Errorf("%d: %d requests of drkit's own and %d of the library's, want %d and 3", status, a.seen[true], a.seen[false], own)
		}
	}
}

// BenchmarkOpen reads small objects, as verification at level content does.
func BenchmarkOpen(b *testing.B) {
	srv := start(b, s3test.Options{}, s3test.BucketOptions{})
	s := srv.open(b)
	o := put(b, s, "k", strings.Repeat("x", 16<<10))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := read(b, s, o); err != nil {
			b.Fatal(err)
		}
	}
}
