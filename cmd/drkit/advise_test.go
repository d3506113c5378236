package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"drkit/internal/errext"
	"drkit/internal/store/s3/s3test"
)

// bucketPair is a service in two buckets of one server, as a team would have it:
// state apart, versions on.
type bucketPair struct {
	*s3test.Server
	sdk  *awss3.Client
	file string
	dir  string
}

func newBucketPair(t *testing.T, o s3test.Options, state bool) bucketPair {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", s3test.DefaultAccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", s3test.DefaultSecretKey)
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "none"))
	b := bucketPair{Server: s3test.New(o), dir: t.TempDir()}
	endpoint := b.Start(t)
	for _, name := range []string{"prod-use1", "prod-euw1"} {
		b.CreateBucket(name, s3test.BucketOptions{Versioning: true})
		b.CreateBucket(name+"-drkit", s3test.BucketOptions{})
	}
	b.sdk = awss3.New(awss3.Options{Region: s3test.DefaultRegion, BaseEndpoint: &endpoint, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(s3test.DefaultAccessKey, s3test.DefaultSecretKey, "")})
	if err := os.CopyFS(filepath.Join(b.dir, "model"), os.DirFS(filepath.Join("..", "..", "testdata", "models", "support-tiny"))); err != nil {
		t.Fatal(err)
	}
	region := func(name, role, bucket string) string {
		place := ""
		if state {
			place = ", state: s3://" + bucket + "-drkit"
		}
		return "  - {name: " + name + ", role: " + role + ", residency: us, store: s3://" + bucket + "/llm" + place + ", s3: {endpoint: " + endpoint + ", path_style: true, region: us-east-1}}\n"
	}
	b.file = filepath.Join(b.dir, "drkit.yaml")
	text := "apiVersion: drkit/v1\nkind: Service\nmetadata: {name: support}\nmodel: {source: ./model}\nengine: {kind: vllm, version: 0.32.0}\nregions:\n" +
		region("us-east-1", "source", "prod-use1") + region("eu-west-1", "target", "prod-euw1")
	if err := os.WriteFile(b.file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b bucketPair) replicated(t *testing.T) bucketPair {
	t.Helper()
	if status, out, errs := execute(t, "replicate", "-f", b.file, "--yes"); status != errext.Holds {
		t.Fatalf("replicate: status %d: %s%s", status, out, errs)
	}
	return b
}

// rule puts one sound rule, changed by f, on a bucket.
func (b bucketPair) rule(t *testing.T, bucket, to string, f func(*types.ReplicationRule)) {
	t.Helper()
	r := types.ReplicationRule{ID: aws.String("models"), Priority: aws.Int32(1), Status: "Enabled", Filter: &types.ReplicationRuleFilter{Prefix: aws.String("llm/")},
		DeleteMarkerReplication: &types.DeleteMarkerReplication{Status: "Disabled"},
		Destination: &types.Destination{Bucket: aws.String("arn:aws:s3:::" + to), Metrics: &types.Metrics{Status: "Enabled", EventThreshold: &types.ReplicationTimeValue{Minutes: aws.Int32(15)}},
			ReplicationTime: &types.ReplicationTime{Status: "Enabled", Time: &types.ReplicationTimeValue{Minutes: aws.Int32(15)}}}}
	if f != nil {
		f(&r)
	}
	_, err := b.sdk.PutBucketReplication(t.Context(), &awss3.PutBucketReplicationInput{Bucket: &bucket,
		ReplicationConfiguration: &types.ReplicationConfiguration{Role: aws.String("arn:aws:iam::1:role/r"), Rules: []types.ReplicationRule{r}}})
	if err != nil {
		t.Fatal(err)
	}
}

// advice runs the command and gives its checks by severity.
func (b bucketPair) advice(t *testing.T, args ...string) (errext.Status, advised, map[string][]string) {
	t.Helper()
	status, out, errs := execute(t, append([]string{"replicate", "advise", "-f", b.file, "--output", "json"}, args...)...)
	var a advised
	if err := json.Unmarshal([]byte(out), &a); err != nil {
		t.Fatalf("status %d, %v: %s%s", status, err, out, errs)
	}
	found := map[string][]string{}
	for _, target := range a.Targets {
		for _, f := range target.Findings {
			found[string(f.Severity)] = append(found[string(f.Severity)], f.Check)
		}
	}
	if a.Status != int(status) {
		t.Errorf("status %d in JSON, %d at exit", a.Status, status)
	}
	return status, a, found
}

func (b bucketPair) aShard(t *testing.T, bucket string) string {
	t.Helper()
	out, err := b.sdk.ListObjectsV2(t.Context(), &awss3.ListObjectsV2Input{Bucket: &bucket, Prefix: aws.String("llm/support/")})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range out.Contents {
		if strings.HasSuffix(*o.Key, ".safetensors") {
			return *o.Key
		}
	}
	t.Fatal("no shard")
	return ""
}

func (b bucketPair) remove(t *testing.T, bucket, key string) {
	t.Helper()
	if _, err := b.sdk.DeleteObject(t.Context(), &awss3.DeleteObjectInput{Bucket: &bucket, Key: &key}); err != nil {
		t.Fatal(err)
	}
}

// TestAdvise: what a server answers becomes findings, and each way of going wrong
// is red.
func TestAdvise(t *testing.T) {
	b := newBucketPair(t, s3test.Options{}, true)
	b.rule(t, "prod-use1", "prod-euw1", nil)
	b.replicated(t)
	shard := b.aShard(t, "prod-use1")
	// The server calls what was written under the rule PENDING, as S3 does at first.
	status, a, found := b.advice(t)
	if status != errext.Holds || !slices.Equal(found["warn"], []string{"pending"}) || a.Targets[0].Objects == 0 || a.Backfill != nil {
		t.Errorf("status %d, %+v", status, a)
	}
	if status, _, errs := execute(t, "verify", "-f", b.file); status != errext.Holds {
		t.Errorf("verify: status %d: %s", status, errs)
	}

	b.SetReplication("prod-use1", shard, "FAILED")
	if status, _, found := b.advice(t); status != errext.Holds || !slices.Contains(found["warn"], "failed-elsewhere") {
		t.Errorf("failed, and there: status %d, %v", status, found)
	}
	b.remove(t, "prod-euw1", shard)
	b.SetReplication("prod-use1", shard, "COMPLETED")
	if status, _, found := b.advice(t); status != errext.Gate || !slices.Equal(found["fail"], []string{"not-in-target"}) {
		t.Errorf("replicated, and removed there: status %d, %v", status, found)
	}
	b.SetReplication("prod-use1", shard, "FAILED")
	status, a, found = b.advice(t)
	if status != errext.Gate || !slices.Equal(found["fail"], []string{"failed"}) || a.Backfill == nil || !strings.Contains(a.Backfill.Request, "arn:aws:s3:::prod-use1") || !strings.Contains(a.Backfill.Request, `"llm/support/`) {
		t.Errorf("failed: status %d, %+v", status, a)
	}
	b.SetReplication("prod-use1", shard, "")
	if status, _, found := b.advice(t); status != errext.Gate || !slices.Equal(found["fail"], []string{"never-replicated"}) {
		t.Errorf("never replicated: status %d, %v", status, found)
	}
	b.remove(t, "prod-use1", shard)
	if status, _, found := b.advice(t); status != errext.Gate || !slices.Equal(found["fail"], []string{"not-in-source"}) {
		t.Errorf("not in the source: status %d, %v", status, found)
	}
}

func TestAdviseOfOtherRules(t *testing.T) {
	b := newBucketPair(t, s3test.Options{}, true).replicated(t)
	if status, _, found := b.advice(t); status != errext.Gate || !slices.Contains(found["fail"], "no-rule") {
		t.Errorf("no rule: status %d, %v", status, found)
	}
	for want, change := range map[string]func(*types.ReplicationRule){
		"not-covered":   func(r *types.ReplicationRule) { r.Filter.Prefix = aws.String("other/") },
		"no-rule":       func(r *types.ReplicationRule) { r.Status = "Disabled" },
		"storage-class": func(r *types.ReplicationRule) { r.Destination.StorageClass = "DEEP_ARCHIVE" },
	} {
		b.rule(t, "prod-use1", "prod-euw1", change)
		if status, _, found := b.advice(t); status != errext.Gate || !slices.Equal(found["fail"], []string{want}) {
			t.Errorf("%s: status %d, %v", want, status, found)
		}
	}
	b.rule(t, "prod-use1", "prod-euw1", nil)
	b.rule(t, "prod-euw1", "prod-use1", nil)
	if status, _, found := b.advice(t); status != errext.Holds || !slices.Contains(found["warn"], "two-way") {
		t.Errorf("two-way: status %d, %v", status, found)
	}
	// Rules from files count instead of the buckets' own.
	file := filepath.Join(b.dir, "rules.json")
	rules := `{"ReplicationConfiguration": {"Role": "r", "Rules": [{"ID": "x", "Priority": 1, "Status": "Enabled", "Filter": {"Prefix": "elsewhere/"}, "Destination": {"Bucket": "arn:aws:s3:::prod-euw1"}, "DeleteMarkerReplication": {"Status": "Disabled"}}]}}`
	if err := os.WriteFile(file, []byte(rules), 0o644); err != nil {
		t.Fatal(err)
	}
	if status, _, found := b.advice(t, "--rules", file, "--rules", "eu-west-1="+file); status != errext.Gate || !slices.Equal(found["fail"], []string{"not-covered"}) {
		t.Errorf("--rules: status %d, %v", status, found)
	}
	for _, bad := range [][]string{{"--rules", "mars=" + file}, {"--rules", filepath.Join(b.dir, "nothing")}, {"--rules", b.file}, {"--region", "us-east-1"}} {
		if status, _, errs := execute(t, append([]string{"replicate", "advise", "-f", b.file}, bad...)...); status != errext.Usage || !strings.Contains(errs, "hint: ") {
			t.Errorf("%v: status %d: %s", bad, status, errs)
		}
	}
}

// TestAdviseSaysWhatItCannotSee: rules that may not be read, or a server that knows
// none, are no green.
func TestAdviseSaysWhatItCannotSee(t *testing.T) {
	b := newBucketPair(t, s3test.Options{NoReplication: true}, true).replicated(t)
	if status, _, found := b.advice(t); status != errext.Failed || !slices.Contains(found["unknown"], "rules-unknown") {
		t.Errorf("status %d, %v", status, found)
	}
	if _, _, found := b.advice(t); !slices.Contains(found["unknown"], "state-unknown") {
		t.Errorf("the state's bucket was not asked: %v", found)
	}
	if status, out, errs := execute(t, "replicate", "advise", "-f", b.file); status != errext.Failed || !strings.Contains(out, "not everything could be seen") {
		t.Errorf("status %d: %s%s", status, out, errs)
	}
	status, out, errs := execute(t, "verify", "-f", b.file)
	if status != errext.Holds || !strings.Contains(out, "whether a replication rule carries drkit's state of region eu-west-1 was not seen") {
		t.Errorf("verify: status %d: %s%s", status, out, errs)
	}
}

// TestStateUnderARule: drkit works with no region whose state a rule carries.
func TestStateUnderARule(t *testing.T) {
	b := newBucketPair(t, s3test.Options{}, false).replicated(t)
	b.rule(t, "prod-euw1", "prod-use1", nil) // carries llm/.drkit/ of the target back
	status, out, errs := execute(t, "replicate", "-f", b.file, "--yes")
	if status != errext.Refused || !strings.Contains(errs, `lies under rule "models"`) || !strings.Contains(errs, "hint: give the region a state:") {
		t.Errorf("replicate: status %d: %s%s", status, out, errs)
	}
	if status, out, errs := execute(t, "drill", "run", "-f", b.file); status != errext.Refused || !strings.Contains(errs, `lies under rule "models"`) {
		t.Errorf("drill: status %d: %s%s", status, out, errs)
	}
	if status, out, errs := execute(t, "verify", "-f", b.file); status != errext.Gate || !strings.Contains(out, `lies under rule "models"`) {
		t.Errorf("verify: status %d: %s%s", status, out, errs)
	}
	if status, _, found := b.advice(t); status != errext.Gate || !slices.Contains(found["fail"], "state-replicated") {
		t.Errorf("advise: status %d, %v", status, found)
	}
	b.rule(t, "prod-euw1", "prod-use1", func(r *types.ReplicationRule) { r.Filter.Prefix = aws.String("llm/support/") })
	if status, out, errs := execute(t, "verify", "-f", b.file); status != errext.Holds {
		t.Errorf("beside the state: status %d: %s%s", status, out, errs)
	}
}

// TestAdviseOfADirectory: nothing replicates a directory by rules.
func TestAdviseOfADirectory(t *testing.T) {
	c := newImageCopies(t, "", "", "")
	if status, _, errs := execute(t, "replicate", "advise", "-f", c.file); status != errext.Usage || !strings.Contains(errs, "is no bucket") {
		t.Errorf("status %d: %s", status, errs)
	}
}

// TestAdviseWritesTheJob: the request goes to the file, its command names it.
func TestAdviseWritesTheJob(t *testing.T) {
	b := newBucketPair(t, s3test.Options{}, true).replicated(t)
	b.rule(t, "prod-use1", "prod-euw1", nil)
	b.remove(t, "prod-euw1", b.aShard(t, "prod-euw1"))
	file := filepath.Join(b.dir, "job.json")
	status, out, errs := execute(t, "replicate", "advise", "-f", b.file, "--backfill", file, "--report", "junit="+filepath.Join(b.dir, "j.xml"))
	data, err := os.ReadFile(file)
	if status != errext.Gate || err != nil || !json.Valid(data) || !strings.Contains(string(data), "S3ReplicateObject") || !strings.Contains(out, "file://"+file) {
		t.Errorf("status %d, %v: %s%s%s", status, err, data, out, errs)
	}
	if failures, _, _ := junitCounts(t, filepath.Join(b.dir, "j.xml")); failures == 0 {
		t.Error("the JUnit report is green")
	}
}
