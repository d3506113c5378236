package s3_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"drkit/internal/store"
	"drkit/internal/store/s3"
	"drkit/internal/store/s3/s3test"
	"drkit/manifest/digest"
)

func contextWithCause(t *testing.T) (context.Context, context.CancelCauseFunc) {
	return context.WithCancelCause(t.Context())
}

var loose = s3test.Options{MinPartSize: -1}

func inParts(o *s3.Options) { o.PartSize = 1000 }

// sumsOf are the digests that a bucket says of a key, by algorithm.
func sumsOf(o store.Object) map[string]store.Sum {
	all := map[string]store.Sum{}
	for _, s := range o.Sums {
		all[s.Algorithm] = s
	}
	return all
}

// A small object carries its SHA-256, which is a model hub's name for it; one in
// parts the CRC64NVME of the whole. Both are compared with the standard's check
// values and a second implementation.
func TestChecksumsAtRest(t *testing.T) {
	b := start(t, loose, s3test.BucketOptions{})
	s := b.open(t, inParts)
	o := put(t, s, "small", "123456789")
	if got := sumsOf(o)[digest.SHA256].Hex; got != fmt.Sprintf("%x", sha256.Sum256([]byte("123456789"))) {
		t.Errorf("sha256 %s", got)
	}
	if got := sumsOf(o)[digest.MD5]; got.Hex != "25f9e794323b453885f5181f1b624d0b" || got.EqualityOnly {
		t.Errorf("md5 %+v", got)
	}
	large := strings.Repeat("123456789", 1000)
	o = put(t, s, "large", large)
	h := digest.NewHasher(9000, digest.CRC64NVME)
	io.WriteString(h, large)
	if got := sumsOf(o)[digest.CRC64NVME]; got.Hex != h.Sums()[digest.CRC64NVME] || got.Parts != 0 || !strings.HasSuffix(o.ETag, "-9") {
		t.Errorf("crc64nvme %+v, ETag %s", got, o.ETag)
	}
	for o, err := range s.List(t.Context(), "small") {
		if err != nil || len(o.Sums) != 1 || !o.Sums[0].EqualityOnly || o.Sums[0].Hex != "25f9e794323b453885f5181f1b624d0b" {
			t.Errorf("listed %+v, %v", o, err)
		}
	}
}

// No upload is framed (aws-chunked), and each states a checksum.
func TestWhatIsSent(t *testing.T) {
	for mode, header := range map[string]string{s3.Auto: "X-Amz-Checksum-", s3.WhenRequired: "Content-Md5"} {
		var uploads atomic.Int64
		b := start(t, loose, s3test.BucketOptions{}).before(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.Method == http.MethodPut {
				uploads.Add(1)
				if enc := r.Header.Get("Content-Encoding"); enc != "" || strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING") {
					t.Errorf("%s: framed: %q", mode, enc)
				}
				stated := false
				for name := range r.Header {
					stated = stated || strings.HasPrefix(name, header)
					if mode == s3.WhenRequired && strings.Contains(strings.ToLower(name), "checksum") {
						t.Errorf("%s: sends %s", mode, name)
					}
				}
				if !stated {
					t.Errorf("%s: no %s in %v", mode, header, r.Header)
				}
			}
			next.ServeHTTP(w, r)
		})
		s := b.open(t, func(o *s3.Options) { o.PartSize, o.Checksums = 1000, mode })
		put(t, s, "small", "content")
		put(t, s, "large", digits(5000))
		if uploads.Load() != 6 {
			t.Errorf("%s: %d uploads", mode, uploads.Load())
		}
	}
}

// Bytes that change on their way are refused by the server, sent again, and
// after several times named.
func TestBytesThatChangeOnTheWay(t *testing.T) {
	for _, size := range []int{100, 5000} {
		for _, mode := range []string{s3.Auto, s3.WhenRequired} {
			b := start(t, loose, s3test.BucketOptions{})
			for _, always := range []bool{false, true} {
				var n atomic.Int64
				s := b.before(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
					if r.Method == http.MethodPut && (always || n.Add(1) == 1) {
						r.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
						r.Body = io.NopCloser(io.MultiReader(strings.NewReader("!"), skip(r.Body)))
					}
					next.ServeHTTP(w, r)
				}).open(t, func(o *s3.Options) { o.PartSize, o.Checksums = 1000, mode })
				_, err := s.Put(t.Context(), "k", store.BytesBody([]byte(digits(size))), store.Cond{})
				if data, _ := b.Object("b", "k"); always && (err == nil || len(data) > 0) {
					t.Errorf("%s, %d bytes: %v, the object has %d bytes", mode, size, err, len(data))
				}
				if b.Uploads("b") != 0 {
					t.Errorf("%s, %d bytes: %d unfinished uploads", mode, size, b.Uploads("b"))
				}
			}
		}
	}
}

func skip(r io.Reader) io.Reader {
	io.CopyN(io.Discard, r, 1)
	return r
}

// What fails leaves no parts, which cost money, and says which object it was.
func TestNothingIsLeftOfAFailedUpload(t *testing.T) {
	b := start(t, loose, s3test.BucketOptions{})
	s := b.open(t, inParts)
	broken := errors.New("the cable was pulled")
	for name, body := range map[string]store.Body{
		"source breaks": {Size: 5000, Open: func(context.Context, int64, int64) (io.ReadCloser, error) {
			return io.NopCloser(io.MultiReader(strings.NewReader(digits(3000)), failing{broken})), nil
		}},
		"wrong digest": {Size: 5000, Sums: digest.Set{digest.SHA256: strings.Repeat("0", 64)}, Open: store.BytesBody([]byte(digits(5000))).Open},
		"too short":    {Size: 5000, Open: store.BytesBody([]byte(digits(4000))).Open},
		"too long":     {Size: 5000, Open: store.BytesBody([]byte(digits(6000))).Open},
	} {
		_, err := s.Put(t.Context(), "k", body, store.Cond{})
		if err == nil || !strings.Contains(err.Error(), "k") || (name != "source breaks" && !errors.Is(err, store.ErrMismatch)) {
			t.Errorf("%s: %v", name, err)
		}
		if _, there := b.Object("b", "k"); there || b.Uploads("b") != 0 {
			t.Errorf("%s: the object is there: %v; %d unfinished uploads", name, there, b.Uploads("b"))
		}
	}
	b.Deny("b", "", "AbortMultipartUpload")
	_, err := s.Put(t.Context(), "k", store.Body{Size: 5000, Open: store.BytesBody(nil).Open}, store.Cond{})
	named(t, err, store.ErrMismatch, "removing the unfinished upload of s3://b/k", "AbortIncompleteMultipartUpload")
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// 16 writers of objects in parts: the server decides at the end, for one.
func TestRaceOfUploadsInParts(t *testing.T) {
	b := start(t, loose, s3test.BucketOptions{})
	s := b.open(t, inParts)
	var won atomic.Int64
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			_, err := s.Put(t.Context(), "k", store.BytesBody([]byte(strings.Repeat(string(rune('a'+i)), 3000))), store.Cond{Absent: true})
			if err == nil {
				won.Add(1)
			} else if !errors.Is(err, store.ErrPrecondition) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 || b.Uploads("b") != 0 {
		t.Errorf("%d won, %d unfinished uploads", won.Load(), b.Uploads("b"))
	}
}

// The answer to the last request of an upload is lost; asked again, the server
// knows no such upload.
func TestLostAnswerToTheAssembly(t *testing.T) {
	for _, mode := range []string{s3.Auto, s3.WhenRequired} {
		var once sync.Once
		b := start(t, loose, s3test.BucketOptions{}).before(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.Method == http.MethodPost && r.URL.Query().Has("uploadId") {
				lost := false
				once.Do(func() { lost = true })
				if lost {
					next.ServeHTTP(discarding{http.Header{}}, r)
					panic(http.ErrAbortHandler)
				}
			}
			next.ServeHTTP(w, r)
		})
		o, err := b.open(t, func(o *s3.Options) { o.PartSize, o.Checksums = 1000, mode }).Put(t.Context(), "k", store.BytesBody([]byte(digits(5000))), store.Cond{})
		if err != nil || o.Size != 5000 {
			t.Errorf("%s: %+v, %v", mode, o, err)
		}
	}
}

type discarding struct{ header http.Header }

func (d discarding) Header() http.Header         { return d.header }
func (d discarding) Write(p []byte) (int, error) { return len(p), nil }
func (d discarding) WriteHeader(int)             {}

// A server that stores something else and says so is not trusted with a copy.
func TestServerThatStoresOtherBytes(t *testing.T) {
	b := start(t, s3test.Options{}, s3test.BucketOptions{}).before(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodHead {
			sum := sha256.Sum256([]byte("something else"))
			w.Header().Set("X-Amz-Checksum-Sha256", base64.StdEncoding.EncodeToString(sum[:]))
			next.ServeHTTP(keep{w}, r)
			return
		}
		next.ServeHTTP(w, r)
	})
	_, err := b.open(t).Put(t.Context(), "k", store.BytesBody([]byte("content")), store.Cond{})
	named(t, err, store.ErrMismatch, "sha256 is", "do not trust it")
}

// keep does not let a handler replace the header that is set already.
type keep struct{ http.ResponseWriter }

func (k keep) WriteHeader(status int) {
	for _, name := range []string{"X-Amz-Checksum-Sha256"} {
		sum := sha256.Sum256([]byte("something else"))
		k.Header().Set(name, base64.StdEncoding.EncodeToString(sum[:]))
	}
	k.ResponseWriter.WriteHeader(status)
}

func TestEncryptedWithAKey(t *testing.T) {
	const key = "arn:aws:kms:eu-west-1:111122223333:key/k"
	b := start(t, loose, s3test.BucketOptions{})
	s := b.open(t, func(o *s3.Options) { o.PartSize, o.KMSKey = 1000, key })
	for name, size := range map[string]int{"small": 100, "large": 5000} {
		o := put(t, s, name, digits(size))
		if _, isMD5 := sumsOf(o)[digest.MD5]; o.Encryption != "aws:kms" || isMD5 || len(o.Sums) == 0 {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

func TestPartsGrowWithTheObject(t *testing.T) {
	for size, want := range map[int64]int64{9 << 20: 8 << 20, 80_000 << 20: 8 << 20, 80_001 << 20: 9 << 20, 5 << 40: 525 << 20} {
		if got := s3.PartSize(size); got != want || (size+got-1)/got > 10_000 {
			t.Errorf("an object of %d bytes: parts of %d, want %d", size, got, want)
		}
	}
}
