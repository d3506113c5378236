package s3_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"

	"drkit/internal/store"
	"drkit/internal/store/s3"
	"drkit/internal/store/s3/s3test"
)

func TestRetention(t *testing.T) {
	b := start(t, s3test.Options{}, s3test.BucketOptions{ObjectLock: true})
	s := b.open(t, func(o *s3.Options) { o.Prefix = "drkit" })
	until := time.Now().Add(400 * 24 * time.Hour).UTC().Truncate(time.Second)
	body := store.BytesBody([]byte("one"))
	o, err := s.PutRetained(t.Context(), "a+b.json", body, store.Cond{Absent: true}, until)
	if err != nil || o.Version == "" {
		t.Fatalf("%v %+v", err, o)
	}
	if _, err := s.PutRetained(t.Context(), "a+b.json", body, store.Cond{Absent: true}, until); !errors.Is(err, store.ErrPrecondition) {
		t.Errorf("written twice: %v", err)
	}
	put(t, s, "free.json", "two") // held by nothing
	in := &sdk.GetObjectRetentionInput{Bucket: aws.String("b"), Key: aws.String("drkit/a+b.json")}
	if r, err := b.raw().GetObjectRetention(t.Context(), in); err != nil || r.Retention.Mode != "COMPLIANCE" || !r.Retention.RetainUntilDate.Equal(until) {
		t.Errorf("another client sees %+v, %v", r, err)
	}
	if _, err := b.raw().DeleteObject(t.Context(), &sdk.DeleteObjectInput{Bucket: aws.String("b"), Key: in.Key, VersionId: aws.String(o.Version), BypassGovernanceRetention: aws.Bool(true)}); err == nil {
		t.Error("the held version could be deleted")
	}
	if err := s.Remove(t.Context(), "a+b.json", store.Cond{}); err != nil {
		t.Fatal(err)
	}
	for held, err := range s.Retained(t.Context(), "") {
		if err != nil || held.Key != "a+b.json" || held.Version != o.Version {
			t.Fatalf("%+v %v", held, err)
		}
		if text, err := read(t, s, held); err != nil || text != "one" {
			t.Errorf("the hidden version reads %q, %v", text, err)
		}
	}
}

func TestNoRetention(t *testing.T) {
	b := start(t, s3test.Options{}, s3test.BucketOptions{Versioning: true})
	s := b.open(t)
	if _, err := s.PutRetained(t.Context(), "k", store.BytesBody(nil), store.Cond{}, time.Now().Add(time.Hour)); !errors.Is(err, store.ErrNoRetention) {
		t.Errorf("got %v", err)
	}
	seen := 0
	for _, err := range s.Retained(t.Context(), "") {
		if seen++; !errors.Is(err, store.ErrNoRetention) {
			t.Errorf("got %v", err)
		}
	}
	if seen != 1 {
		t.Errorf("%d answers", seen)
	}
}

// A server that knows no checksum but MD5 holds a version, too.
func TestRetentionWhenRequired(t *testing.T) {
	b := start(t, s3test.Options{StoresFraming: true}, s3test.BucketOptions{ObjectLock: true})
	s := b.open(t, func(o *s3.Options) { o.Checksums = s3.WhenRequired })
	if _, err := s.PutRetained(t.Context(), "k", store.BytesBody([]byte("one")), store.Cond{Absent: true}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	b.Deny("b", "", "PutObject")
	_, err := s.PutRetained(t.Context(), "k2", store.BytesBody(nil), store.Cond{}, time.Now().Add(time.Hour))
	named(t, err, store.ErrDenied, "s3:PutObject and s3:PutObjectRetention")
}

// Who may not ask for the lock has none that counts; who cannot ask at all, or gets
// no answer, has an error.
func TestAskingForTheLock(t *testing.T) {
	for code, c := range map[string]struct {
		status int
		want   error
	}{
		"AccessDenied": {http.StatusForbidden, store.ErrNoRetention}, "NotImplemented": {http.StatusNotImplemented, store.ErrNoRetention},
		"MethodNotAllowed": {http.StatusMethodNotAllowed, store.ErrNoRetention}, "InvalidAccessKeyId": {http.StatusForbidden, store.ErrUnreachable},
		"ExpiredToken": {http.StatusBadRequest, store.ErrUnreachable}, "InternalError": {http.StatusInternalServerError, nil},
	} {
		s := start(t, s3test.Options{}, s3test.BucketOptions{ObjectLock: true}).before(t, func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			w.WriteHeader(c.status)
			fmt.Fprintf(w, "<Error><Code>%s</Code><Message>no</Message></Error>", code)
		}).open(t)
		_, err := s.PutRetained(t.Context(), "k", store.BytesBody(nil), store.Cond{}, time.Now().Add(time.Hour))
		if named(t, err, c.want); errors.Is(err, store.ErrNoRetention) != (c.want == store.ErrNoRetention) {
			t.Errorf("%s: %v", code, err)
		}
	}
}

// Pages of versions that lead nowhere are an error, however they go round.
func TestRetainedInCircles(t *testing.T) {
	for name, marker := range map[string]func(n int) string{"the same": func(int) string { return "v" }, "by turns": func(n int) string { return fmt.Sprint("v", n%3) }} {
		asked := 0
		s := start(t, s3test.Options{}, s3test.BucketOptions{ObjectLock: true}).before(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			switch {
			case !r.URL.Query().Has("versions"):
				next.ServeHTTP(w, r)
			case asked > 20:
				w.WriteHeader(http.StatusForbidden)
			default:
				fmt.Fprintf(w, `<ListVersionsResult><Name>b</Name><IsTruncated>true</IsTruncated><NextKeyMarker>k</NextKeyMarker><NextVersionIdMarker>%s</NextVersionIdMarker></ListVersionsResult>`, marker(asked))
			}
			asked++
		}).open(t)
		var last error
		for _, err := range s.Retained(t.Context(), "") {
			last = err
		}
		named(t, last, nil, "s3://b/", "not from where")
		if t.Failed() {
			t.Log(name)
		}
	}
}
