package s3_test

import (
	"errors"
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
