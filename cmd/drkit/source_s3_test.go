package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drkit/internal/errext"
	"drkit/internal/service"
	"drkit/internal/store"
	"drkit/internal/store/s3/s3test"
	"drkit/manifest"
)

// buckets are the regions of a service: each with a server of its own, or both
// buckets behind one.
type buckets struct {
	us, eu       *s3test.Server
	usURL, euURL string
	file         string
}

func startBuckets(t *testing.T, one bool, model string) buckets {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", s3test.DefaultAccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", s3test.DefaultSecretKey)
	t.Setenv("AWS_REGION", "us-east-1")
	b := buckets{us: s3test.New(s3test.Options{PageSize: 5})}
	b.us.CreateBucket("use1", s3test.BucketOptions{}).CreateBucket("euw1", s3test.BucketOptions{}).CreateBucket("models", s3test.BucketOptions{Versioning: true})
	b.usURL = b.us.Start(t)
	b.eu, b.euURL = b.us, b.usURL
	if !one {
		b.eu = s3test.New(s3test.Options{Region: "eu-west-1"}).CreateBucket("euw1", s3test.BucketOptions{})
		b.euURL = b.eu.Start(t)
	}
	text := fmt.Sprintf(`apiVersion: drkit/v1
kind: Service
metadata: {name: support}
model:
  source: %s
engine: {kind: vllm, version: 0.32.0}
regions:
  - {name: us-east-1, role: source, residency: us, store: s3://use1/llm, s3: {endpoint: %q, path_style: true}}
  - {name: eu-west-1, role: target, residency: eu, store: s3://euw1/llm+dr, s3: {endpoint: %q, path_style: true}}
`, strings.ReplaceAll(model, "MODELS", "s3://models/tiny?endpoint="+url.QueryEscape(b.usURL)), b.usURL, b.euURL)
	b.file = filepath.Join(t.TempDir(), "drkit.yaml")
	if err := os.WriteFile(b.file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return b
}

// must runs a command and returns what it printed.
func must(t *testing.T, want errext.Status, args ...string) string {
	t.Helper()
	status, out, errs := execute(t, args...)
	if status != want {
		t.Fatalf("drkit %s: status %d, want %d\n%s\n%s", strings.Join(args, " "), status, want, out, errs)
	}
	if strings.Contains(out+errs, s3test.DefaultSecretKey) {
		t.Errorf("drkit %s prints the secret key", strings.Join(args, " "))
	}
	return out + errs
}

func (b buckets) key(t *testing.T, below string) string {
	t.Helper()
	for _, r := range b.eu.Requests() {
		if strings.HasPrefix(r.Key, "llm+dr/support/") && strings.HasSuffix(r.Key, below) {
			return r.Key
		}
	}
	t.Fatal("nothing was written for " + below)
	return ""
}

// TestTwoBucketsAreTwoRegions: build, replicate, verify, restore from the copy
// alone; then a copy that rots is seen where bytes are read, and repaired.
func TestTwoBucketsAreTwoRegions(t *testing.T) {
	for _, one := range []bool{false, true} {
		t.Run(fmt.Sprintf("one server %v", one), func(t *testing.T) {
			model := absolute(t, "../../testdata/models/support-tiny")
			b := startBuckets(t, one, model)
			must(t, errext.Holds, "replicate", "--yes", "-f", b.file)
			copies := 0
			for _, r := range b.eu.Requests() {
				if r.Operation == "CopyObject" {
					copies++
				}
			}
			if one != (copies > 8) {
				t.Errorf("%d copies by the server", copies)
			}
			must(t, errext.Holds, "verify", "-f", b.file)
			must(t, errext.Holds, "verify", fmt.Sprintf("s3://use1/llm?endpoint=%s", url.QueryEscape(b.usURL)), fmt.Sprintf("s3://euw1/llm+dr?path_style=true&endpoint=%s", url.QueryEscape(b.euURL)))
			shard := b.key(t, "/model-00001-of-00002.safetensors")
			b.eu.Rot("euw1", shard, 4096, []byte("rot"))
			must(t, errext.Holds, "verify", "-f", b.file) // a claim is a claim
			if out := must(t, errext.Gate, "verify", "-f", b.file, "--level", "content"); !strings.Contains(out, "diverged") || !strings.Contains(out, "model-00001-of-00002") {
				t.Errorf("the rotten shard is not named:\n%s", out)
			}
			dir := t.TempDir()
			if out := must(t, errext.Gate, "restore", "-f", b.file, "--region", "eu-west-1", dir); !strings.Contains(out, "model-00001-of-00002") {
				t.Errorf("the rotten shard is not named:\n%s", out)
			}
			if _, err := os.Stat(filepath.Join(dir, "model/base/model-00001-of-00002.safetensors")); err == nil {
				t.Error("the rotten shard was restored")
			}
			must(t, errext.Holds, "replicate", "--yes", "-f", b.file)
			must(t, errext.Holds, "restore", "-f", b.file, "--region", "eu-west-1", dir)
			for _, name := range []string{"model-00001-of-00002.safetensors", "tokenizer.json"} {
				want, _ := os.ReadFile(filepath.Join(model, name))
				if got, err := os.ReadFile(filepath.Join(dir, "model/base", name)); err != nil || !bytes.Equal(got, want) {
					t.Errorf("%s: %d bytes, %v", name, len(got), err)
				}
			}
		})
	}
}

// TestModelInABucketIsPinned: what is built from a bucket with versions names
// them, and equals what is built from the same files in a folder.
func TestModelInABucketIsPinned(t *testing.T) {
	b := startBuckets(t, true, "MODELS")
	folder := absolute(t, "../../testdata/models/support-tiny")
	names, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	place, err := openStore(service.Location{Scheme: service.SchemeS3, Path: "models/tiny", S3: service.S3{Endpoint: b.usURL}})
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, n := range names {
		data, err := os.ReadFile(filepath.Join(folder, n.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second is another version of the same bytes
			o, err := place.Put(t.Context(), n.Name(), store.BytesBody(data), store.Cond{})
			if err != nil {
				t.Fatal(err)
			}
			versions["model/base/"+n.Name()] = o.Version
		}
	}
	var built manifest.Manifest
	if err := json.Unmarshal([]byte(must(t, errext.Holds, "manifest", "build", "-f", b.file, "--progress", "quiet")), &built); err != nil {
		t.Fatal(err)
	}
	for subject, v := range versions {
		if v == "" || built.Annotations.Pins[subject] != v {
			t.Errorf("%s is pinned to %q, want %q", subject, built.Annotations.Pins[subject], v)
		}
	}
	local := startBuckets(t, true, folder)
	var same manifest.Manifest
	if err := json.Unmarshal([]byte(must(t, errext.Holds, "manifest", "build", "-f", local.file, "--progress", "quiet")), &same); err != nil {
		t.Fatal(err)
	}
	if built.Release != same.Release || len(same.Annotations.Pins) != 0 {
		t.Errorf("release %s from the bucket, %s from the folder", built.Release, same.Release)
	}
	b.us.Deny("models", "", "GetBucketVersioning") // then by ETag
	must(t, errext.Holds, "manifest", "build", "-f", b.file, "--progress", "quiet", "-o", filepath.Join(t.TempDir(), "m.json"))
}

// TestBucketsThatCannotBeAsked: one region that cannot be reached is named with
// what to do, and is no statement about its copy.
func TestBucketsThatCannotBeAsked(t *testing.T) {
	b := startBuckets(t, false, absolute(t, "../../testdata/models/support-tiny"))
	must(t, errext.Holds, "replicate", "--yes", "-f", b.file)
	for name, c := range map[string]struct {
		do, undo func()
		says     []string
	}{
		"expired": {func() { b.eu.ExpireCredentials(true) }, func() { b.eu.ExpireCredentials(false) }, []string{"expired", "sign in again"}},
		"denied":  {func() { b.eu.Deny("euw1", "") }, func() { b.eu.Allow("euw1") }, []string{"access denied", "s3:ListBucket"}},
	} {
		c.do()
		out := must(t, errext.Failed, "verify", "-f", b.file)
		for _, text := range append(c.says, "s3://euw1/llm+dr/") {
			if !strings.Contains(out, text) {
				t.Errorf("%s: %q is not said:\n%s", name, text, out)
			}
		}
		if strings.Contains(out, "\n  missing ") {
			t.Errorf("%s: something is called missing:\n%s", name, out)
		}
		c.undo()
	}
	must(t, errext.Holds, "verify", "-f", b.file)
}
