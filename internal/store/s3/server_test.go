package s3_test

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"drkit/internal/store"
	"drkit/internal/store/s3"
	"drkit/internal/store/storetest"
)

// TestServer runs the suite against a real server, named by DRKIT_S3_ENDPOINT
// with credentials in the usual variables. DRKIT_S3_BUCKET (drkit-conformance)
// must exist there, and is listed with its versions where it keeps any;
// DRKIT_S3_CHECKSUMS may be when-required.
func TestServer(t *testing.T) {
	endpoint := os.Getenv("DRKIT_S3_ENDPOINT")
	if endpoint == "" {
		t.Skip("DRKIT_S3_ENDPOINT is not set")
	}
	var count atomic.Int64
	for name, part := range map[string]int64{"whole": 0, "parts": 5 << 20} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) store.ReadWriter {
				o := s3.Options{Endpoint: endpoint, Bucket: cmp.Or(os.Getenv("DRKIT_S3_BUCKET"), "drkit-conformance"),
					Prefix: fmt.Sprintf("run-%d/%d", os.Getpid(), count.Add(1)), Checksums: os.Getenv("DRKIT_S3_CHECKSUMS"), PartSize: part}
				s, err := s3.New(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				if o.Versions, err = s.Versioned(t.Context()); o.Versions {
					s, err = s3.New(t.Context(), o)
				}
				if err != nil && !errors.Is(err, s3.ErrNoAnswer) {
					t.Fatal(err)
				}
				t.Logf("versions: %t", o.Versions)
				return s
			})
		})
	}
}
