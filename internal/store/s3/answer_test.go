package s3_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"drkit/internal/pipenet"
	"drkit/internal/store"
	"drkit/internal/store/s3"
	"drkit/internal/store/s3/s3test"
)

// against serves a bucket "b" by a handler in virtual time.
func against(t *testing.T, h http.HandlerFunc, do func(*testing.T, *s3.Store), change ...func(*s3.Options)) {
	synctest.Test(t, func(t *testing.T) {
		var n pipenet.Network
		defer n.Close()
		n.Serve("s3:80", h)
		b := bench{s3test.New(s3test.Options{}), "http://s3"} // for its credentials only
		change = append(change, func(o *s3.Options) { o.HTTP, o.Stall, o.Backoff = n.Client(), time.Minute, 0 })
		do(t, b.open(t, change...))
	})
}

// listing reads a listing to its end and returns its error.
func listing(t *testing.T, s *s3.Store) (n int, last error) {
	for _, err := range s.List(t.Context(), "") {
		if last = err; err == nil {
			n++
		}
	}
	return n, last
}

const head = `<?xml version="1.0"?><ListBucketResult><Name>b</Name>`

// A server that begins a page and then stands still is an error, not a run that
// never ends.
func TestStalledPage(t *testing.T) {
	requests := 0
	against(t, func(w http.ResponseWriter, r *http.Request) {
		requests++
		fmt.Fprint(w, head+`<IsTruncated>false</IsTruncated>`)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}, func(t *testing.T, s *s3.Store) {
		begun := time.Now()
		n, err := listing(t, s)
		named(t, err, nil, "s3://b/", "no byte came for too long")
		if n != 0 || requests != 5 || time.Since(begun) > 10*time.Minute {
			t.Errorf("%d objects, %d requests in %v", n, requests, time.Since(begun))
		}
	})
}

// Who stops a run does not wait for minutes until an unproven copy is cleared away.
func TestStalledUndo(t *testing.T) {
	copied := false
	against(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("X-Amz-Copy-Source") != "":
			copied = true
			fmt.Fprint(w, `<CopyObjectResult><ETag>&quot;e&quot;</ETag></CopyObjectResult>`) // without a checksum
		case copied:
			<-r.Context().Done()
		default:
			w.Header().Set("Content-Length", "7")
			w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
		}
	}, func(t *testing.T, s *s3.Store) {
		begun := time.Now()
		_, err := s.CopyFrom(t.Context(), s, store.Object{Key: "k"}, "copy", body("content"), store.Cond{})
		named(t, err, store.ErrNoCopy, "s3://b/copy")
		if d := time.Since(begun); d > time.Minute {
			t.Errorf("it took %v", d)
		}
	})
}

// A page that never ends is not read into memory. The handler may still write when
// the listing has ended.
func TestEndlessPage(t *testing.T) {
	var sent atomic.Int64
	against(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, head+`<IsTruncated>false</IsTruncated>`)
		some := bytes.Repeat([]byte("<Owner>"+strings.Repeat("x", 1000)+"</Owner>"), 100)
		for r.Context().Err() == nil && sent.Load() < 1<<30 {
			n, err := w.Write(some)
			sent.Add(int64(n))
			if err != nil {
				return
			}
		}
	}, func(t *testing.T, s *s3.Store) {
		_, err := listing(t, s)
		named(t, err, nil, "s3://b/", "more than 8388608 bytes")
		if sent.Load() > 9<<20 {
			t.Errorf("%d bytes were taken", sent.Load())
		}
	})
}

// The answer to who asks for an object may be no object: what a server says instead is
// watched as a page is. One stands still behind its first bytes, one never ends.
func TestObjectRefusedWithoutEnd(t *testing.T) {
	for name, goesOn := range map[string]bool{"stands still": false, "never ends": true} {
		t.Run(name, func(t *testing.T) {
			var sent atomic.Int64
			against(t, func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(http.StatusServiceUnavailable)
				fmt.Fprint(w, `<Error><Code>SlowDown</Code>`)
				w.(http.Flusher).Flush()
				some := []byte("<Message>" + strings.Repeat("x", 100_000) + "</Message>")
				for goesOn && r.Context().Err() == nil && sent.Load() < 1<<28 {
					n, err := w.Write(some)
					sent.Add(int64(n))
					if err != nil {
						return
					}
				}
				<-r.Context().Done()
			}, func(t *testing.T, s *s3.Store) {
				begun := time.Now()
				_, err := read(t, s, store.Object{Key: "k"})
				named(t, err, nil, "s3://b/k", "HTTP 503")
				if d := time.Since(begun); d > 10*time.Minute || sent.Load() > 5*9<<20 {
					t.Errorf("%d bytes in %v", sent.Load(), d)
				}
			})
		})
	}
}

// A server that takes no byte of an upload is an error.
func TestStalledUpload(t *testing.T) {
	aborted := false
	var end chan struct{} // a server that reads nothing does not see that the client has gone
	against(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Query().Has("uploads"):
			end = make(chan struct{})
			fmt.Fprint(w, `<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>`)
		case r.Method == http.MethodDelete:
			aborted = true
			w.WriteHeader(http.StatusNoContent)
		default:
			<-end
		}
	}, func(t *testing.T, s *s3.Store) {
		begun := time.Now()
		defer func() { close(end) }()
		_, err := s.Put(t.Context(), "k", store.BytesBody(make([]byte, 20<<20)), store.Cond{})
		named(t, err, nil, "s3://b/k", "no byte came for too long")
		if time.Since(begun) > 10*time.Minute || !aborted {
			t.Errorf("in %v, aborted %t", time.Since(begun), aborted)
		}
	})
}

// Pages without objects whose tokens go round in circles end with an error, those
// that go on do not.
func TestEmptyPages(t *testing.T) {
	for name, c := range map[string]struct {
		token    func(n int) string // that of the nth answer; "": the last one
		versions bool
		want     string
	}{
		"circle":             {func(n int) string { return fmt.Sprint("t", n%3) }, false, "not from where"},
		"a few":              {func(n int) string { return strings.Repeat("t", 50-n) }, false, ""},
		"versions, circle":   {func(n int) string { return fmt.Sprint("k", n%3) }, true, "not from where"},
		"versions, the same": {func(n int) string { return "k" }, true, "not from where"},
		"versions, a few":    {func(n int) string { return fmt.Sprintf("k%02d", n)[:min(3, 3*(50-n))] }, true, ""},
	} {
		n := 0
		against(t, func(w http.ResponseWriter, r *http.Request) {
			next := c.token(n)
			n++
			if c.versions {
				fmt.Fprintf(w, `<ListVersionsResult><Name>b</Name><IsTruncated>%t</IsTruncated><NextKeyMarker>%s</NextKeyMarker></ListVersionsResult>`, next != "", next)
				return
			}
			fmt.Fprintf(w, head+`<IsTruncated>%t</IsTruncated><KeyCount>0</KeyCount><NextContinuationToken>%s</NextContinuationToken></ListBucketResult>`, next != "", next)
		}, func(t *testing.T, s *s3.Store) {
			_, err := listing(t, s)
			if c.want != "" {
				named(t, err, nil, "s3://b/", c.want)
			} else if err != nil || n != 51 {
				t.Errorf("%s: %v after %d pages", name, err, n)
			}
		}, func(o *s3.Options) { o.Versions = c.versions })
	}
}

// An endpoint of the environment may hold a token where a user's name stands.
func TestEndpointOfTheEnvironmentIsShownWithoutItsUser(t *testing.T) {
	t.Setenv("AWS_ENDPOINT_URL_S3", "http://token1234567@127.0.0.1:9/x") // nothing listens at the discard port
	b := bench{s3test.New(s3test.Options{}), ""}
	_, err := b.open(t).Stat(t.Context(), "k")
	named(t, err, store.ErrUnreachable, "s3://b/k", "127.0.0.1:9")
	if strings.Contains(err.Error(), "token1234567") {
		t.Error(err)
	}
}
