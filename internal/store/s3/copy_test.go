package s3_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"drkit/internal/store"
	"drkit/internal/store/mem"
	"drkit/internal/store/s3"
	"drkit/internal/store/s3/s3test"
	"drkit/manifest/digest"
)

// body is content with digests that were not taken by the store under test.
func body(content string) store.Body {
	b := store.BytesBody([]byte(content))
	h := digest.NewHasher(b.Size)
	h.Write([]byte(content))
	b.Sums = h.Sums()
	return b
}

// twoBuckets is one server with a source and a target.
func twoBuckets(t *testing.T, o s3test.Options) (b bench, src, dst *s3.Store) {
	b = start(t, o, s3test.BucketOptions{})
	b.CreateBucket("target", s3test.BucketOptions{})
	creds := b.options().Credentials
	same := func(o *s3.Options) { o.Credentials, o.Prefix = creds, "a b+c" }
	return b, b.open(t, same), b.open(t, same, func(o *s3.Options) { o.Bucket = "target" })
}

func count(b bench, operation string) (n int) {
	for _, r := range b.Requests() {
		if r.Operation == operation {
			n++
		}
	}
	return n
}

// The keys and header values of a public report: a "+" that is left as it is
// names another object.
func TestCopySourceOfEveryKey(t *testing.T) {
	for key, want := range map[string]string{
		"adapters/a+b.bin":     "src-bucket/adapters/a%2Bb.bin",
		"adapters/a b.bin":     "src-bucket/adapters/a%20b.bin",
		"adapters/a%2Bb.bin":   "src-bucket/adapters/a%252Bb.bin",
		"adapters/c#d?e.bin":   "src-bucket/adapters/c%23d%3Fe.bin",
		"adapters/e&f=g;h.bin": "src-bucket/adapters/e%26f%3Dg%3Bh.bin",
		"adapters/重み.bin":      "src-bucket/adapters/%E9%87%8D%E3%81%BF.bin",
	} {
		if got := s3.Escape("src-bucket/" + key); got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
	b, src, dst := twoBuckets(t, s3test.Options{})
	keys := []string{"a+b", "a b", "a%2Bb", "c#d?e", "e&f=g;h", "重み", "é", "e\u0301", "🙂", "quote'\""}
	for _, key := range keys {
		put(t, src, key, "content of "+key)
	}
	b.ResetRequests()
	for _, key := range keys {
		if _, err := dst.CopyFrom(t.Context(), src, store.Object{Key: key}, key, body("content of "+key), store.Cond{Absent: true}); err != nil {
			t.Errorf("%s: %v", key, err)
		}
		if got, err := read(t, dst, store.Object{Key: key}); got != "content of "+key || err != nil {
			t.Errorf("%s holds %q, %v", key, got, err)
		}
	}
	if n := count(b, "CopyObject"); n != len(keys) || count(b, "PutObject") != 0 {
		t.Errorf("%d copies", n)
	}
}

// The server is asked for the SHA-256 of what it wrote, whatever the source had.
func TestCopyIsProven(t *testing.T) {
	b, src, dst := twoBuckets(t, loose)
	content := digits(5000)
	if _, err := b.open(t, inParts, func(o *s3.Options) { o.Prefix = "a b+c" }).Put(t.Context(), "k", body(content), store.Cond{}); err != nil {
		t.Fatal(err)
	}
	o, err := dst.CopyFrom(t.Context(), src, store.Object{Key: "k"}, "k", body(content), store.Cond{})
	if got := sumsOf(o)[digest.SHA256].Hex; err != nil || got != fmt.Sprintf("%x", sha256.Sum256([]byte(content))) {
		t.Errorf("sha256 %s, %v", got, err)
	}
}

// What rotted beneath the source keeps its checksum there: the copy does not
// appear, or goes again.
func TestCopyOfOtherBytes(t *testing.T) {
	for name, change := range map[string]func(*s3.Options){"one request": nil, "in parts": func(o *s3.Options) { o.CopyLimit = 1000 }} {
		b, src, dst := twoBuckets(t, loose)
		if change != nil {
			dst = b.open(t, func(o *s3.Options) { o.Credentials, o.Prefix, o.Bucket = src.Credentials(), "a b+c", "target" }, change)
		}
		put(t, src, "k", digits(5000))
		b.Rot("b", "a b+c/k", 100, []byte("rot"))
		_, err := dst.CopyFrom(t.Context(), src, store.Object{Key: "k"}, "k", body(digits(5000)), store.Cond{})
		named(t, err, store.ErrNoCopy, "k")
		if _, there := b.Object("target", "a b+c/k"); there || b.Uploads("target") != 0 {
			t.Errorf("%s: it is there: %v; %d unfinished uploads", name, there, b.Uploads("target"))
		}
	}
}

func TestCopyInParts(t *testing.T) {
	b, src, _ := twoBuckets(t, loose)
	dst := b.open(t, func(o *s3.Options) { o.Credentials, o.Bucket, o.CopyLimit = src.Credentials(), "target", 1000 })
	content := digits(7770)
	for _, parts := range []bool{false, true} { // a source with a SHA-256, and one with a CRC64 of its parts
		if parts {
			b.open(t, inParts, func(o *s3.Options) { o.Prefix = "a b+c" }).Put(t.Context(), "k+", body(content), store.Cond{})
		} else {
			put(t, src, "k+", content)
		}
		b.ResetRequests()
		o, err := dst.CopyFrom(t.Context(), src, store.Object{Key: "k+"}, "k", body(content), store.Cond{})
		if got, rerr := read(t, dst, store.Object{Key: "k"}); err != nil || rerr != nil || got != content {
			t.Fatalf("%v, %v, %d bytes", err, rerr, len(got))
		}
		if n := count(b, "UploadPartCopy"); n != 8 || !strings.HasSuffix(o.ETag, "-8") || sumsOf(o)[digest.CRC64NVME].Hex != body(content).Sums[digest.CRC64NVME] {
			t.Errorf("%d parts, %+v", n, o)
		}
	}
}

// Wherever a server cannot copy, the caller is told to read and write.
func TestNoCopy(t *testing.T) {
	b, src, dst := twoBuckets(t, s3test.Options{})
	elsewhere := start(t, s3test.Options{}, s3test.BucketOptions{}).open(t)
	put(t, src, "k", "content")
	put(t, elsewhere, "k", "content")
	for name, do := range map[string]func() error{
		"another endpoint": func() error {
			_, err := dst.CopyFrom(t.Context(), elsewhere, store.Object{Key: "k"}, "k", body("content"), store.Cond{})
			return err
		},
		"another kind": func() error {
			_, err := dst.CopyFrom(t.Context(), mem.New(), store.Object{Key: "k"}, "k", body("content"), store.Cond{})
			return err
		},
		"other content": func() error {
			_, err := dst.CopyFrom(t.Context(), src, store.Object{Key: "k"}, "k", body("Content"), store.Cond{})
			return err
		},
		"no digest": func() error {
			_, err := dst.CopyFrom(t.Context(), src, store.Object{Key: "k"}, "k", store.Body{Size: 7}, store.Cond{})
			return err
		},
		"denied": func() error {
			b.Deny("target", "", "CopyObject")
			defer b.Allow("target")
			_, err := dst.CopyFrom(t.Context(), src, store.Object{Key: "k"}, "k", body("content"), store.Cond{})
			return err
		},
		"without checksums": func() error {
			d := b.open(t, func(o *s3.Options) {
				o.Credentials, o.Bucket, o.Checksums = src.Credentials(), "target", s3.WhenRequired
			})
			_, err := d.CopyFrom(t.Context(), src, store.Object{Key: "k"}, "k", body("content"), store.Cond{})
			return err
		},
	} {
		if err := do(); !errors.Is(err, store.ErrNoCopy) {
			t.Errorf("%s: %v", name, err)
		}
		if _, there := b.Object("target", "a b+c/k"); there {
			t.Errorf("%s: something was copied", name)
		}
	}
	_, err := dst.CopyFrom(t.Context(), src, store.Object{Key: "absent"}, "k", body("content"), store.Cond{})
	named(t, err, store.ErrNotFound, "absent")
	put(t, dst, "there", "x")
	_, err = dst.CopyFrom(t.Context(), src, store.Object{Key: "k"}, "there", body("content"), store.Cond{Absent: true})
	named(t, err, store.ErrPrecondition, "s3://target/a b+c/there")
}

// A server that does not mind the conditions of a copy does not get to replace
// what they protect.
func TestCopyWhereConditionsAreIgnored(t *testing.T) {
	b, src, dst := twoBuckets(t, s3test.Options{NoConditions: true})
	put(t, src, "k", "content")
	put(t, dst, "there", "as it was")
	for _, c := range []store.Cond{{Absent: true}, {ETag: "another"}} {
		_, err := dst.CopyFrom(t.Context(), src, store.Object{Key: "k"}, "there", body("content"), c)
		named(t, err, store.ErrPrecondition, "s3://target/a b+c/there")
	}
	if data, _ := b.Object("target", "a b+c/there"); string(data) != "as it was" {
		t.Errorf("it holds %q", data)
	}
}

// A server that copies and does not say what, is not believed.
func TestCopyWithoutProof(t *testing.T) {
	b := start(t, s3test.Options{NoChecksums: true}, s3test.BucketOptions{})
	s := b.open(t)
	put(t, s, "k", "content")
	_, err := s.CopyFrom(t.Context(), s, store.Object{Key: "k"}, "copy", body("content"), store.Cond{})
	if _, there := b.Object("b", "copy"); !errors.Is(err, store.ErrNoCopy) || there {
		t.Errorf("%v, there: %v", err, there)
	}
	b.ResetRequests()
	if _, err := s.CopyFrom(t.Context(), s, store.Object{Key: "k"}, "copy", body("content"), store.Cond{}); !errors.Is(err, store.ErrNoCopy) || len(b.Requests()) != 0 {
		t.Errorf("asked again: %v, %d requests", err, len(b.Requests()))
	}
}

// An answer of 200 may hold an error.
func TestCopyThatFailsAfterItsAnswerBegan(t *testing.T) {
	b := start(t, s3test.Options{}, s3test.BucketOptions{}).before(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Header.Get("X-Amz-Copy-Source") != "" {
			w.WriteHeader(http.StatusOK)
			w.Write([]byte(`<?xml version="1.0" encoding="UTF-8"?><Error><Code>InternalError</Code><Message>We encountered an internal error.</Message></Error>`))
			return
		}
		next.ServeHTTP(w, r)
	})
	s := b.open(t)
	put(t, s, "k", "content")
	_, err := s.CopyFrom(t.Context(), s, store.Object{Key: "k"}, "copy", body("content"), store.Cond{})
	named(t, err, store.ErrNoCopy, "s3://b/k", "InternalError")
}
