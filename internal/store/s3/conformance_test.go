package s3_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"drkit/internal/store"
	"drkit/internal/store/s3"
	"drkit/internal/store/s3/s3test"
	"drkit/internal/store/storetest"
)

// asHost reaches the server by the names of its buckets, as AWS is. A name of one
// letter would be put into the path.
func asHost(o *s3.Options) {
	at := strings.TrimPrefix(o.Endpoint, "http://")
	var d net.Dialer
	o.Bucket = "models"
	o.Endpoint, o.PathStyle, o.PartSize = "http://s3.example", false, 256<<10
	o.HTTP = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if addr != "models.s3.example:80" {
			return nil, fmt.Errorf("the bucket models is looked for at %s", addr)
		}
		return d.DialContext(ctx, network, at)
	}}}
}

func TestConformance(t *testing.T) {
	small := s3test.Options{MinPartSize: -1, PageSize: 7}
	for name, c := range map[string]struct {
		server s3test.Options
		bucket s3test.BucketOptions
		opts   func(*s3.Options)
	}{
		"plain":            {},
		"prefix":           {opts: func(o *s3.Options) { o.Prefix = "llm/a b" }},
		"parts":            {server: small, opts: func(o *s3.Options) { o.PartSize = 256 << 10 }},
		"versions":         {server: small, bucket: s3test.BucketOptions{Versioning: true}, opts: func(o *s3.Options) { o.Versions = true }},
		"encrypted":        {bucket: s3test.BucketOptions{KMSKey: "arn:aws:kms:us-east-1:111122223333:key/k"}},
		"requester pays":   {bucket: s3test.BucketOptions{RequesterPays: true}, opts: func(o *s3.Options) { o.RequesterPays = true }},
		"when required":    {server: s3test.Options{StoresFraming: true, MinPartSize: -1}, opts: func(o *s3.Options) { o.Checksums, o.PartSize = s3.WhenRequired, 256<<10 }},
		"keys are files":   {server: s3test.Options{FileSystem: true, NoPartChecksums: true, NoAttributes: true}},
		"no own checksums": {server: s3test.Options{NoDefaultChecksum: true}},
		"bucket as a host": {server: s3test.Options{Domain: "s3.example", MinPartSize: -1}, opts: asHost},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) store.ReadWriter {
				b := start(t, c.server, c.bucket)
				b.CreateBucket("models", c.bucket)
				if c.opts == nil {
					return b.open(t)
				}
				return b.open(t, c.opts)
			})
		})
	}
}
