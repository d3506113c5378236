package main

import (
	"bytes"
	"crypto/md5"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/internal/store/s3"
	"drkit/internal/store/s3/s3test"
)

// TestTheSourceAtHandDecides: a server without checksums leaves of an upload in
// parts an ETag alone. Where the source region is a folder, its bytes cut the same
// way tell what the copy is, and nothing of the copy is read.
func TestTheSourceAtHandDecides(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", s3test.DefaultAccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", s3test.DefaultSecretKey)
	t.Setenv("AWS_REGION", "us-east-1")
	server := s3test.New(s3test.Options{NoChecksums: true}).CreateBucket("euw1", s3test.BucketOptions{})
	url := server.Start(t)
	root := t.TempDir()
	if err := os.CopyFS(filepath.Join(root, "model"), os.DirFS("../../internal/demo/files/models/support-tiny")); err != nil {
		t.Fatal(err)
	}
	large := bytes.Repeat([]byte("0123456789abcdef"), 9<<16) // 9 MiB: two parts
	file := filepath.Join(root, "drkit.yaml")
	for name, data := range map[string][]byte{"model/large.dat": large, "drkit.yaml": fmt.Appendf(nil, `apiVersion: drkit/v1
kind: Service
metadata: {name: support}
model: {source: ./model}
engine: {kind: vllm, version: 0.32.0}
regions:
  - {name: us, role: source, store: ./us}
  - {name: eu, role: target, store: s3://euw1/llm, s3: {endpoint: %q, path_style: true, checksums: when-required}}
`, url)} {
		if err := os.WriteFile(filepath.Join(root, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	must(t, errext.Holds, "replicate", "-f", file, "--yes")
	server.ResetRequests()
	must(t, errext.Holds, "verify", "-f", file)

	bucket, err := s3.New(t.Context(), s3.Options{Bucket: "euw1", Endpoint: url, Region: "us-east-1", PathStyle: true, Checksums: s3.WhenRequired})
	if err != nil {
		t.Fatal(err)
	}
	var key string
	for o := range bucket.List(t.Context(), "llm/") {
		if strings.HasSuffix(o.Key, "/large.dat") {
			key = o.Key
		}
	}
	parts := md5.New() // the ETag of an upload in parts, by its definition
	for part := range slicesOf(large, 8<<20) {
		sum := md5.Sum(part)
		parts.Write(sum[:])
	}
	if o, err := bucket.Stat(t.Context(), key); err != nil || o.ETag != fmt.Sprintf("%x-2", parts.Sum(nil)) {
		t.Fatalf("%q has the ETag %q: %v", key, o.ETag, err)
	}
	other := bytes.Clone(large)
	other[len(other)/2] ^= 1
	if _, err := bucket.Put(t.Context(), key, store.BytesBody(other), store.Cond{}); err != nil {
		t.Fatal(err)
	}
	if said := must(t, errext.Gate, "verify", "-f", file); !strings.Contains(said, "diverged") || !strings.Contains(said, "md5 of its 2 parts is") {
		t.Errorf("the changed object is not named:\n%s", said)
	}
	if err := os.RemoveAll(filepath.Join(root, "us", "support")); err != nil {
		t.Fatal(err)
	}
	if said := must(t, errext.Gate, "verify", "-f", file, "--manifest", manifestOf(t, bucket, root)); !strings.Contains(said, "not-comparable") {
		t.Errorf("without the source it must not be comparable:\n%s", said)
	}
	for _, r := range server.Requests() {
		if r.Method == "GET" && strings.HasSuffix(r.Key, "/large.dat") && !strings.Contains(r.Query, "attributes") {
			t.Errorf("it was read: %+v", r)
		}
	}
}

// slicesOf cuts data into pieces of size bytes.
func slicesOf(data []byte, size int) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(data) > 0 {
			n := min(size, len(data))
			if !yield(data[:n]) {
				return
			}
			data = data[n:]
		}
	}
}

// manifestOf fetches the copy's manifest into a file.
func manifestOf(t *testing.T, s *s3.Store, dir string) string {
	t.Helper()
	for o := range s.List(t.Context(), "llm/") {
		if strings.HasSuffix(o.Key, "/manifest.json") {
			data, err := store.ReadAll(t.Context(), s, o, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "m.json")
			if err := os.WriteFile(path, data, 0o644); err != nil {
				t.Fatal(err)
			}
			return path
		}
	}
	t.Fatal("there is no manifest.json")
	return ""
}
