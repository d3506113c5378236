package s3_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drkit/internal/pipenet"
	"drkit/internal/store"
	"drkit/internal/store/s3"
	"drkit/internal/store/s3/s3test"
)

// cutting lets at most limit bytes of each GET pass and then breaks it off.
func cutting(limit int64) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method != http.MethodGet || strings.Contains(r.URL.RawQuery, "list-type") {
			next.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r)
		for name, values := range answer.Header() {
			w.Header()[name] = values
		}
		w.Header().Set("Content-Length", strconv.Itoa(answer.Body.Len()))
		w.WriteHeader(answer.Code)
		io.CopyN(w, answer.Body, limit)
		if answer.Body.Len() > 0 {
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
	}
}

func digits(n int) string { return strings.Repeat("0123456789", n/10) }

func TestBodyThatBreaksOffIsResumed(t *testing.T) {
	b := start(t, s3test.Options{}, s3test.BucketOptions{})
	put(t, b.open(t), "k", digits(10_000))
	s := b.before(t, cutting(3_000)).open(t)
	for _, o := range []store.Object{{Key: "k"}, {Key: "k", Size: 10_000, ETag: etag(t, s, "k")}} {
		b.ResetRequests()
		if got, err := read(t, s, o); got != digits(10_000) || err != nil {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		if n := len(b.Requests()); n != 4 {
			t.Errorf("%d requests", n)
		}
	}
	r, err := s.Open(t.Context(), store.Object{Key: "k"}, 1_005, 5_000)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); string(got) != digits(10_000)[1_005:6_005] || err != nil {
		t.Errorf("a range: %d bytes, %v", len(got), err)
	}
}

// A reader that has no room is no reason to read on.
func TestReadOfNothing(t *testing.T) {
	s := start(t, s3test.Options{}, s3test.BucketOptions{}).open(t)
	put(t, s, "k", "content")
	r, err := s.Open(t.Context(), store.Object{Key: "k"}, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if n, err := r.Read(nil); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if got, err := io.ReadAll(r); string(got) != "content" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func etag(t *testing.T, s store.Stater, key string) string {
	t.Helper()
	o, err := s.Stat(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return o.ETag
}

func TestBodyThatNeverComesWhole(t *testing.T) {
	b := start(t, s3test.Options{}, s3test.BucketOptions{})
	put(t, b.open(t), "k", "content")
	s := b.before(t, cutting(0)).open(t)
	got, err := read(t, s, store.Object{Key: "k"})
	named(t, err, io.ErrUnexpectedEOF, "s3://b/k", "broke off at byte 0 of 7", "later")
	if got != "" {
		t.Errorf("read %q", got)
	}
}

// What follows a break is never of another object.
func TestObjectThatChangesWhileItIsRead(t *testing.T) {
	for _, versions := range []bool{false, true} {
		b := start(t, s3test.Options{}, s3test.BucketOptions{Versioning: versions})
		s := b.before(t, cutting(3_000)).open(t)
		put(t, s, "k", digits(10_000))
		r, err := s.Open(t.Context(), store.Object{Key: "k"}, 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		io.CopyN(io.Discard, r, 1_000)
		put(t, s, "k", strings.Repeat("x", 10_000))
		got, err := io.ReadAll(r)
		if versions && (err != nil || string(got) != digits(10_000)[1_000:]) {
			t.Errorf("the version that was begun: %d bytes, %v", len(got), err)
		}
		if !versions {
			named(t, err, store.ErrPrecondition, "s3://b/k", "changed meanwhile", "something else writes there")
			if bytes.Contains(got, []byte("x")) {
				t.Error("bytes of another object followed")
			}
		}
	}
}

func TestOpenOfWhatWasListed(t *testing.T) {
	b := start(t, s3test.Options{}, s3test.BucketOptions{})
	s := b.open(t)
	before := put(t, s, "k", "before")
	put(t, s, "k", "after")
	_, err := read(t, s, before)
	named(t, err, store.ErrPrecondition, "s3://b/k", "changed meanwhile")
}

func TestVersionIsPinned(t *testing.T) {
	b := start(t, s3test.Options{PageSize: 3}, s3test.BucketOptions{Versioning: true})
	s := b.open(t, func(o *s3.Options) { o.Versions = true })
	first := put(t, s, "k", "first")
	for _, key := range []string{"a", "b", "gone", "z"} {
		put(t, s, key, "old "+key)
		put(t, s, key, key)
	}
	put(t, s, "k", "second")
	if err := s.Remove(t.Context(), "gone", store.Cond{}); err != nil {
		t.Fatal(err)
	}
	if got, err := read(t, s, first); got != "first" || err != nil || first.Version == "" {
		t.Errorf("version %q: %q, %v", first.Version, got, err)
	}
	listed := map[string]string{}
	for o, err := range s.List(t.Context(), "") {
		if err != nil || o.Version == "" {
			t.Fatalf("%+v, %v", o, err)
		}
		listed[o.Key], _ = read(t, s, o)
	}
	if len(listed) != 4 || listed["k"] != "second" || listed["z"] != "z" {
		t.Errorf("newest versions %v", listed)
	}
	_, err := read(t, s, store.Object{Key: "k", Version: "no-such-version"})
	if err == nil {
		t.Error("a version that is not there was read")
	}
}

// A server that takes a range and answers with something else is not believed.
func TestRangeThatIsIgnored(t *testing.T) {
	b := start(t, s3test.Options{}, s3test.BucketOptions{})
	put(t, b.open(t), "k", digits(100))
	s := b.before(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		r.Header.Del("Range")
		next.ServeHTTP(w, r)
	}).open(t)
	_, err := s.Open(t.Context(), store.Object{Key: "k"}, 5, 10)
	if err == nil || !strings.Contains(err.Error(), "s3://b/k") {
		t.Errorf("error %v", err)
	}
}

// In virtual time: a body that stands still is broken off and resumed, one that
// stands still for ever is an error.
func TestStalledBody(t *testing.T) {
	for _, forever := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var n pipenet.Network
			defer n.Close()
			gets := 0
			n.Serve("s3:80", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				gets++
				w.Header().Set("ETag", `"e"`)
				if r.Header.Get("Range") != "" {
					w.Header().Set("Content-Range", "bytes 5-9/10")
					w.Header().Set("Content-Length", "5")
					w.WriteHeader(http.StatusPartialContent)
					if !forever {
						w.Write([]byte("56789"))
						return
					}
				} else {
					w.Header().Set("Content-Length", "10")
					w.Write([]byte("01234"))
				}
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			}))
			b := bench{s3test.New(s3test.Options{}), "http://s3"} // for its credentials only
			s := b.open(t, func(o *s3.Options) { o.HTTP, o.Stall, o.Backoff = n.Client(), time.Minute, 0 })
			begun := time.Now()
			got, err := read(t, s, store.Object{Key: "k"})
			if !forever && (got != "0123456789" || err != nil || gets != 2 || time.Since(begun) > 2*time.Minute) {
				t.Errorf("%q, %v, %d requests in %v", got, err, gets, time.Since(begun))
			}
			if forever && (got != "01234" || err == nil || !strings.Contains(err.Error(), "broke off at byte 5 of 10") || time.Since(begun) > 8*time.Minute) {
				t.Errorf("%q, %v, in %v", got, err, time.Since(begun))
			}
		})
	}
}

func TestCancelledReadSaysWhy(t *testing.T) {
	b := start(t, s3test.Options{}, s3test.BucketOptions{})
	s := b.open(t)
	put(t, s, "k", digits(100))
	ctx, cancel := contextWithCause(t)
	r, err := s.Open(ctx, store.Object{Key: "k"}, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	stop := errors.New("the operator said stop")
	cancel(stop)
	if _, err := io.ReadAll(r); err != nil && !errors.Is(err, stop) {
		t.Errorf("error %v", err)
	}
	if _, err := s.Open(ctx, store.Object{Key: "k"}, 0, -1); !errors.Is(err, stop) {
		t.Errorf("error %v", err)
	}
}
