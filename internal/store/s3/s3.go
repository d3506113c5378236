// Package s3 is a store over a bucket: Amazon S3, or a server that speaks its
// protocol.
//
//	s, err := s3.New(ctx, s3.Options{Bucket: "prod-euw1", Prefix: "llm"})
//
// Keys lie beneath the prefix. Credentials, proxies and certificates come from
// the chain that the AWS command line uses.
//
// What a bucket says of a checksum is a claim that was stored at upload: List
// and Stat give it as such, and only a reader who hashes knows the bytes. Every
// upload states the checksum of each piece that it sends and of the whole, so
// that the server refuses what did not arrive as it was read; nothing appears
// under its key before. Open reads exactly the version or ETag that it was given
// and goes on where a body breaks off, of that version and no other.
//
// Errors name the object, say what to do next (errext.Hint), and are one of the
// store's sentinels where callers branch.
package s3

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"golang.org/x/sync/semaphore"

	"drkit/internal/errext"
	"drkit/internal/store"
)

// Whether checksums are sent with uploads.
const (
	Auto         = "auto"          // always
	WhenRequired = "when-required" // Content-MD5 alone, for servers that know no other
)

// Options says which bucket, and how it is reached. Only Bucket is required.
type Options struct {
	Bucket, Prefix string
	Region         string // "": that of the bucket, found by asking
	Endpoint       string // "": AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the profile's, or AWS
	Profile        string // "": AWS_PROFILE, or the default chain
	AssumeRole     string // ARN of a role that the chain's credentials take on
	PathStyle      bool   // bucket in the path instead of the host name
	Checksums      string // Auto ("") or WhenRequired
	KMSKey         string // encrypts new objects; "": the bucket's default
	RequesterPays  bool
	Versions       bool // List tells version ids, which costs the permission s3:ListBucketVersions

	HTTP        aws.HTTPClient          // nil: a client with timeouts
	Credentials aws.CredentialsProvider // nil: the chain
	Stall       time.Duration           // a body without a byte for so long is broken off and resumed; 0: 30 s
	Backoff     time.Duration           // the longest wait between attempts; 0: 10 s
	PartSize    int64                   // bytes; 0: 8 MiB. Larger where 10,000 parts would not do
	CopyLimit   int64                   // greatest object in bytes that is copied in one request; 0: 5 GB
}

// Store is a bucket, or what lies beneath a prefix of it, as a store.ReadWriter.
type Store struct {
	opts   Options
	prefix string // "" or ends in a slash
	base   string // the endpoint in use; "" is AWS

	mu     sync.Mutex
	client *s3.Client
	direct *direct // of the client; nil: everything goes through it

	seen    atomic.Bool // the bucket has answered
	noParts atomic.Bool // GetObjectAttributes tells no parts here
	noProof atomic.Bool // CopyObject tells no checksum here
	memory  *semaphore.Weighted
	buffers sync.Pool
}

var (
	_ store.ReadWriter = (*Store)(nil)
	_ store.Copier     = (*Store)(nil)
	_ store.Located    = (*Store)(nil)
)

const (
	defaultStall    = 30 * time.Second
	defaultBackoff  = 10 * time.Second
	defaultPartSize = 8 << 20
	maxCopy         = 5 << 30  // the greatest object that CopyObject takes, in bytes
	uploadMemory    = 40 << 20 // parts that are on their way at once, in bytes
)

// New makes a store. It reads the AWS configuration and asks nothing of the
// bucket yet.
func New(ctx context.Context, o Options) (*Store, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	o = o.complete()
	s := &Store{opts: o, memory: semaphore.NewWeighted(uploadMemory)}
	if p := strings.Trim(o.Prefix, "/"); p != "" {
		s.prefix = p + "/"
	}
	client, err := newClient(ctx, o)
	if err != nil {
		return nil, err
	}
	s.client, s.direct, s.base = client, newDirect(ctx, client, o.Bucket), aws.ToString(client.Options().BaseEndpoint)
	return s, nil
}

func (o Options) check() error {
	var err error
	switch u, bad := url.Parse(o.Endpoint); {
	case o.Bucket == "" || strings.ContainsAny(o.Bucket, "/?#@ "):
		err = fmt.Errorf("%q does not name a bucket", o.Bucket)
	case o.Checksums != "" && o.Checksums != Auto && o.Checksums != WhenRequired:
		err = fmt.Errorf("checksums %q: want auto or when-required", o.Checksums)
	case o.Endpoint == "":
	case bad != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
		err = errors.New("the endpoint of bucket " + o.Bucket + " is no http or https URL")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		err = errors.New("the endpoint of bucket " + o.Bucket + " holds credentials, a query or a fragment: credentials come from the environment or a profile")
	}
	return errext.WithStatus(err, errext.Usage)
}

func (o Options) complete() Options {
	if o.Stall <= 0 {
		o.Stall = defaultStall
	}
	if o.Backoff <= 0 {
		o.Backoff = defaultBackoff
	}
	if o.PartSize <= 0 {
		o.PartSize = defaultPartSize
	}
	if o.CopyLimit <= 0 {
		o.CopyLimit = maxCopy
	}
	return o
}

// Location says where the store is: the endpoint unless it is AWS, where a
// bucket's name is unique, bucket and prefix.
func (s *Store) Location() string {
	return "s3://" + endpointName(s.base) + "/" + s.opts.Bucket + "/" + s.prefix
}

// endpointName is one spelling for an endpoint: the loopback's addresses are one
// machine, and a port that the scheme implies is not said.
func endpointName(base string) string {
	u, err := url.Parse(base)
	if base == "" || err != nil {
		return ""
	}
	host, port := strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")), u.Port()
	if strings.HasSuffix(host, ".amazonaws.com") || strings.HasSuffix(host, ".amazonaws.com.cn") {
		return ""
	}
	if ip := net.ParseIP(host); host == "localhost" || (ip != nil && ip.IsLoopback()) {
		host = "localhost"
	}
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)]
	}
	return net.JoinHostPort(host, port) + strings.TrimRight(u.Path, "/")
}

// name is the object as errors name it.
func (s *Store) name(key string) string { return "s3://" + s.opts.Bucket + "/" + s.prefix + key }

func (s *Store) bucket() *string { return &s.opts.Bucket }

func (s *Store) full(key string) *string { return aws.String(s.prefix + key) }

// payer says who pays for a request.
func (s *Store) payer() types.RequestPayer {
	if s.opts.RequesterPays {
		return types.RequestPayerRequester
	}
	return ""
}

// whenRequired reports whether uploads state MD5 alone.
func (s *Store) whenRequired() bool { return s.opts.Checksums == WhenRequired }

// readable says why a key cannot be asked for. A key with empty components may
// lie in a bucket and can be read, though drkit would not write one.
func readable(key string) error {
	if key == "" || strings.ContainsRune(key, 0) {
		return store.CheckKey(key)
	}
	for part := range strings.SplitSeq(key, "/") {
		if part == "." || part == ".." { // clients and servers may resolve them
			return store.CheckKey(key)
		}
	}
	return nil
}
