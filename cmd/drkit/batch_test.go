package main

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"drkit/internal/errext"
	"drkit/internal/store/s3/s3test"
)

// composite uploads bytes in two parts with SHA-256 of the parts alone, which no
// checksum of the whole follows from, and returns the ETag.
func (b bucketPair) composite(t *testing.T, bucket, key string, data []byte) string {
	t.Helper()
	up, err := b.sdk.CreateMultipartUpload(t.Context(), &awss3.CreateMultipartUploadInput{Bucket: &bucket, Key: &key, ChecksumAlgorithm: "SHA256"})
	if err != nil {
		t.Fatal(err)
	}
	var parts []types.CompletedPart
	for i, piece := range [][]byte{data[:len(data)/2], data[len(data)/2:]} {
		p, err := b.sdk.UploadPart(t.Context(), &awss3.UploadPartInput{Bucket: &bucket, Key: &key, UploadId: up.UploadId, PartNumber: aws.Int32(int32(i + 1)), ChecksumAlgorithm: "SHA256", Body: bytes.NewReader(piece)})
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, types.CompletedPart{ETag: p.ETag, PartNumber: aws.Int32(int32(i + 1)), ChecksumSHA256: p.ChecksumSHA256})
	}
	done, err := b.sdk.CompleteMultipartUpload(t.Context(), &awss3.CompleteMultipartUploadInput{Bucket: &bucket, Key: &key, UploadId: up.UploadId, MultipartUpload: &types.CompletedMultipartUpload{Parts: parts}})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Trim(*done.ETag, `"`)
}

// completionReport writes what S3 would report of one object.
func completionReport(t *testing.T, bucket, key, sum, etag string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	message := fmt.Sprintf(`{"checksum_hex":"%s","etag":"%s","checksumAlgorithm":"SHA256","checksumType":"FULL_OBJECT"}`, sum, etag)
	row := bucket + "," + key + ",,succeeded,200,,\"" + strings.ReplaceAll(message, `"`, `""`) + "\"\n"
	digest := md5.Sum([]byte(row))
	index := fmt.Sprintf(`{"Format":"Report_CSV_20180820","ReportCreationDate":"2026-04-05T17:48:39.725Z","Results":[{"TaskExecutionStatus":"succeeded","Bucket":%q,"MD5Checksum":%q,"Key":"drkit-batch/eu-west-1/report/job-1/results/1.csv"}],"ReportSchema":"Bucket, Key, VersionId, TaskStatus, ErrorCode, HTTPStatusCode, ResultMessage"}`, bucket, hex.EncodeToString(digest[:]))
	for name, text := range map[string]string{"manifest.json": index, "results/1.csv": row} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestBatchResolvesWhatIsNotComparable: the job for what checksums leave open, and
// what its report does to the verdict.
func TestBatchResolvesWhatIsNotComparable(t *testing.T) {
	b := newBucketPair(t, s3test.Options{MinPartSize: -1}, true).replicated(t)
	shard := b.aShard(t, "prod-euw1")
	data, _ := b.Object("prod-euw1", shard)
	etag := b.composite(t, "prod-euw1", shard, data)
	if status, out, errs := execute(t, "verify", "-f", b.file); status != errext.Gate || !strings.Contains(out, "not-comparable") {
		t.Fatalf("status %d: %s%s", status, out, errs)
	}

	jobs := t.TempDir()
	status, out, errs := execute(t, "verify", "-f", b.file, "--resolve", "batch", "--batch-dir", jobs)
	manifest, err1 := os.ReadFile(filepath.Join(jobs, "eu-west-1", "manifest.csv"))
	request, err2 := os.ReadFile(filepath.Join(jobs, "eu-west-1", "create-job.json"))
	first, _, _ := strings.Cut(string(manifest), "\n")
	if status != errext.Gate || err1 != nil || err2 != nil || !strings.HasPrefix(first, "prod-euw1,"+shard) || strings.Count(string(manifest), "\n") != 1 || !json.Valid(request) {
		t.Errorf("status %d, %v, %v: %s%s%s", status, err1, err2, manifest, out, errs)
	}
	for _, text := range []string{"1 object of eu-west-1", "aws s3control create-job --region us-east-1", "drkit verify --region eu-west-1 --resolve batch --checksums"} {
		if !strings.Contains(errs, text) {
			t.Errorf("does not say %q: %s", text, errs)
		}
	}

	right := sha256.Sum256(data)
	wrong := sha256.Sum256([]byte("other bytes"))
	for name, c := range map[string]struct {
		sum  [32]byte
		etag string
		want errext.Status
		says string
	}{
		"right":            {right, etag, errext.Holds, "recomputed for 1"},
		"wrong":            {wrong, etag, errext.Gate, "diverged"},
		"of earlier bytes": {right, "0123456789abcdef0123456789abcdef-2", errext.Gate, "not-comparable"},
	} {
		report := completionReport(t, "prod-euw1", shard, hex.EncodeToString(c.sum[:]), c.etag)
		for _, text := range []string{report, "eu-west-1=" + report} {
			status, out, errs := execute(t, "verify", "-f", b.file, "--resolve", "batch", "--checksums", text)
			if status != c.want || !strings.Contains(out, c.says) {
				t.Errorf("%s: status %d: %s%s", name, status, out, errs)
			}
			if !strings.Contains(errs, "S3 hashed 1 object at rest, as reported 2026-04-05 17:48 UTC") {
				t.Errorf("%s: the report's age is not said: %s", name, errs)
			}
		}
	}
}

func TestBatchOptionsThatCannotBe(t *testing.T) {
	b := newBucketPair(t, s3test.Options{}, true).replicated(t)
	empty := t.TempDir()
	report := completionReport(t, "prod-euw1", "llm/other", strings.Repeat("0", 64), "e")
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"a folder for no job":        {[]string{"--batch-dir", empty}, "--batch-dir is for --resolve batch"},
		"a job without a folder":     {[]string{"--resolve", "batch"}, "needs a folder"},
		"no such folder":             {[]string{"--resolve", "batch", "--batch-dir", filepath.Join(empty, "x")}, "no folder"},
		"no such report":             {[]string{"--resolve", "batch", "--checksums", filepath.Join(empty, "x")}, "no folder"},
		"of two places":              {[]string{"--checksums", report, b.dir, empty}, "two places are compared"},
		"of no region":               {[]string{"--resolve", "batch", "--checksums", "mars=" + report}, `no region "mars"`},
		"of another bucket's report": {[]string{"--resolve", "batch", "--checksums", report}, "no checksum of the release's files"},
	} {
		if status, _, errs := execute(t, append([]string{"verify", "-f", b.file}, c.args...)...); status != errext.Usage || !strings.Contains(errs, c.want) || !strings.Contains(errs, "hint: ") {
			t.Errorf("%s: status %d: %s", name, status, errs)
		}
	}
	// A folder that is there and holds no report is an answer of its own.
	if status, _, errs := execute(t, "verify", "-f", b.file, "--resolve", "batch", "--checksums", empty); status != errext.Failed || !strings.Contains(errs, "manifest.json") {
		t.Errorf("status %d: %s", status, errs)
	}
}
