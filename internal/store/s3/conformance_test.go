package s3_test

import (
	"testing"

	"drkit/internal/store"
	"drkit/internal/store/s3"
	"drkit/internal/store/s3/s3test"
	"drkit/internal/store/storetest"
)

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
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) store.ReadWriter {
				b := start(t, c.server, c.bucket)
				if c.opts == nil {
					return b.open(t)
				}
				return b.open(t, c.opts)
			})
		})
	}
}
