// Package s3test is an S3 server in memory for tests. It computes every checksum
// over the bytes that it stored and never echoes what a client claimed, so that
// a client that uploads, assembles or copies other bytes than it says is refused.
//
// New makes a server, Start serves it on a free loopback port:
//
//	s := s3test.New(s3test.Options{Region: "us-east-1"})
//	s.CreateBucket("models", s3test.BucketOptions{Versioning: true})
//	endpoint := s.Start(t)
//
// Requests are signed with AccessKey and SecretKey and checked as S3 does
// (Signature Version 4 in the header, clock within 15 minutes). What a test needs
// to go wrong is set on the server: Rot, Deny, SetSkew, ExpireCredentials,
// FreezeListing and the fields of Options and BucketOptions.
package s3test

import (
	"cmp"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// Defaults of Options.
const (
	DefaultRegion    = "us-east-1"
	DefaultAccessKey = "test-access-key"
	DefaultSecretKey = "test-secret-key"
)

// Options describes the server; the zero value behaves like AWS.
type Options struct {
	Region               string // of the endpoint; DefaultRegion when empty
	AccessKey, SecretKey string // the one known identity
	SessionToken         string // when set, every request must carry it
	Domain               string // buckets are also served as BUCKET.Domain (virtual-hosted style)
	PageSize             int    // the greatest number of entries in a listing; 1000 when 0
	MinPartSize          int64  // of every part but the last, in bytes; 5 MiB when 0, none when negative
	PermanentRedirect    bool   // a bucket of another region answers 301, as its wrong endpoint does, instead of 400

	// What servers other than AWS do.
	NoDefaultChecksum bool // an object without a client's checksum has none
	NoChecksums       bool // x-amz-checksum headers are ignored and never returned
	StoresFraming     bool // aws-chunked is unknown: its framing becomes part of the object (implies NoChecksums)
	NoAttributes      bool // GetObjectAttributes answers 501
	NoPartChecksums   bool // GetObjectAttributes and HEAD of a part say nothing of parts' checksums
	NoConditions      bool // If-Match and If-None-Match of writes are ignored
	NoReplication     bool // replication rules answer 501
	FileSystem        bool // "a" beside "a/b" is refused with 409 ObjectParentIsFile
}

// BucketOptions describes a bucket.
type BucketOptions struct {
	Region        string // of the server when empty
	Versioning    bool
	ObjectLock    bool   // implies Versioning
	KMSKey        string // every object is encrypted with it, and no ETag is an MD5
	RequesterPays bool
}

// Request is one line of the log. It holds no header and no signature.
type Request struct {
	Operation, Method, Bucket, Key, Query string
	Status                                int
	BytesIn, BytesOut                     int64
}

// Server is an S3 server in memory. It is safe for concurrent use.
type Server struct {
	opts Options

	mu      sync.Mutex
	buckets map[string]*bucket
	log     []Request
	skew    time.Duration
	expired bool
	serial  uint64 // of versions, uploads and changes
}

// New makes a server without buckets.
func New(o Options) *Server {
	o.Region = cmp.Or(o.Region, DefaultRegion)
	o.AccessKey = cmp.Or(o.AccessKey, DefaultAccessKey)
	o.SecretKey = cmp.Or(o.SecretKey, DefaultSecretKey)
	o.PageSize = cmp.Or(o.PageSize, maxPage)
	o.MinPartSize = cmp.Or(o.MinPartSize, 5<<20)
	o.NoChecksums = o.NoChecksums || o.StoresFraming
	return &Server{opts: o, buckets: map[string]*bucket{}}
}

// Options returns what the server was made with, defaults filled in.
func (s *Server) Options() Options { return s.opts }

// Start serves on a free loopback port until the test ends and returns the URL.
func (s *Server) Start(t testing.TB) string {
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	return srv.URL
}

// StartTLS is Start over TLS, with the client that trusts the certificate. Over
// TLS a client may stream a body whose checksum follows in a trailer.
func (s *Server) StartTLS(t testing.TB) (string, *http.Client) {
	srv := httptest.NewTLSServer(s)
	t.Cleanup(srv.Close)
	return srv.URL, srv.Client()
}

// CreateBucket makes an empty bucket; one of the same name is replaced.
func (s *Server) CreateBucket(name string, o BucketOptions) *Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buckets[name] = newBucket(name, o, s.opts.Region)
	return s
}

// Requests returns the log so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.log...)
}

// ResetRequests empties the log.
func (s *Server) ResetRequests() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = nil
}

// SetSkew makes the server's clock differ from the real one: beyond 15 minutes
// every request is answered RequestTimeTooSkewed.
func (s *Server) SetSkew(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.skew = d
}

// ExpireCredentials makes every request end with ExpiredToken, or none any more.
func (s *Server) ExpireCredentials(expired bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expired = expired
}

// Rot overwrites stored bytes from offset and leaves all that is said of them:
// checksums, ETag, size and time. It changes the current version, panics
// when the object is not there or the bytes reach beyond its end.
func (s *Server) Rot(bucket, key string, offset int64, bytes []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.mustCurrent(bucket, key)
	if offset < 0 || offset+int64(len(bytes)) > int64(len(v.data)) {
		panic(fmt.Sprintf("s3test: %d bytes from %d of %s reach beyond its %d bytes", len(bytes), offset, key, len(v.data)))
	}
	v.data = append([]byte(nil), v.data...) // a reader may hold the old bytes
	copy(v.data[offset:], bytes)
}

// Deny answers AccessDenied to requests for keys that begin with prefix, and to
// listings that would reach any. Without operations all are denied, otherwise
// those named, such as "GetObjectAttributes" or "ListObjectsV2".
func (s *Server) Deny(bucket, prefix string, operations ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.mustBucket(bucket)
	b.denials = append(b.denials, denial{prefix, operations})
}

// Allow takes back every Deny of a bucket.
func (s *Server) Allow(bucket string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mustBucket(bucket).denials = nil
}

// FreezeListing makes listings of a bucket show what was there now, whatever
// happens next; thaw ends that.
func (s *Server) FreezeListing(bucket string) (thaw func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.mustBucket(bucket)
	b.frozen = append([]entry{}, b.current()...)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		b.frozen = nil
	}
}

// SetReplication sets what an object's x-amz-replication-status says: PENDING,
// COMPLETED, FAILED, REPLICA or nothing.
func (s *Server) SetReplication(bucket, key, status string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mustCurrent(bucket, key).replication = status
}

// Object returns the bytes of the current version, false when there is none.
func (s *Server) Object(bucket, key string) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.mustBucket(bucket).latest(key)
	if v == nil || v.marker {
		return nil, false
	}
	return append([]byte(nil), v.data...), true
}

// Uploads counts the multipart uploads that were neither completed nor aborted:
// what a client left behind.
func (s *Server) Uploads(bucket string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mustBucket(bucket).uploads)
}

func (s *Server) mustBucket(name string) *bucket {
	b, ok := s.buckets[name]
	if !ok {
		panic("s3test: no bucket " + name)
	}
	return b
}

func (s *Server) mustCurrent(bucket, key string) *version {
	v := s.mustBucket(bucket).latest(key)
	if v == nil || v.marker {
		panic("s3test: no object " + key + " in " + bucket)
	}
	return v
}

func (s *Server) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Add(s.skew).UTC()
}
