package batch

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
)

var job = Job{Region: "eu-west-1", Bucket: "prod-euw1", Prefix: "drkit-batch/support/"}

// TestManifestKeysAreEncoded: the encoded forms are RFC 3986's, by hand.
func TestManifestKeysAreEncoded(t *testing.T) {
	files, err := job.Files([]Object{{Key: "llm/a b+c%2Bd,e\"f#g.safetensors"}, {Key: "llm/ü/~x_y-z.json"}})
	want := "prod-euw1,llm/a%20b%2Bc%252Bd%2Ce%22f%23g.safetensors\nprod-euw1,llm/%C3%BC/~x_y-z.json\n"
	if err != nil || string(files.Manifest) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, files.Manifest, want)
	}
}

// TestRequest compares with the fields of AWS's CreateJob. The MD5 is that of
// `printf 'prod-euw1,a,v1\n' | md5sum`.
func TestRequest(t *testing.T) {
	files, err := job.Files([]Object{{"a", "v1"}})
	if err != nil {
		t.Fatal(err)
	}
	var got, want any
	if err := json.Unmarshal(files.Request, &got); err != nil {
		t.Fatal(err)
	}
	_ = json.Unmarshal([]byte(`{
		"ConfirmationRequired": false, "Priority": 10,
		"Description": "drkit: checksums at rest of objects in prod-euw1",
		"ClientRequestToken": "drkit-MD5",
		"Operation": {"S3ComputeObjectChecksum": {"ChecksumAlgorithm": "SHA256", "ChecksumType": "FULL_OBJECT"}},
		"Manifest": {"Spec": {"Format": "S3BatchOperations_CSV_20180820", "Fields": ["Bucket", "Key", "VersionId"]},
			"Location": {"ObjectArn": "arn:aws:s3:::prod-euw1/drkit-batch/support/manifest.csv", "ETag": "MD5"}},
		"Report": {"Bucket": "arn:aws:s3:::prod-euw1", "Prefix": "drkit-batch/support/report", "Format": "Report_CSV_20180820", "Enabled": true, "ReportScope": "AllTasks"}}`), &want)
	text, _ := json.Marshal(want)
	const sum = "4c4e8bf06e8b5754d8c1ecb476a2c93d"
	if again, _ := json.Marshal(got); strings.ReplaceAll(string(text), "MD5", sum) != string(again) {
		t.Errorf("got  %s\nwant %s", again, text)
	}
}

func TestJobsThatCannotBe(t *testing.T) {
	for name, c := range map[string]struct {
		job     Job
		objects []Object
		want    string
	}{
		"nothing":        {job, nil, "at least one object"},
		"mixed versions": {job, []Object{{"a", "v1"}, {"b", ""}}, "b: some objects"},
		"no region":      {Job{Bucket: "b"}, []Object{{"a", ""}}, "region"},
		"no bucket":      {Job{Region: "r"}, []Object{{"a", ""}}, "name"},
		"half a prefix":  {Job{Region: "r", Bucket: "b", Prefix: "x"}, []Object{{"a", ""}}, "slash"},
	} {
		if _, err := c.job.Files(c.objects); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPartitions(t *testing.T) {
	for region, want := range map[string]string{"eu-west-1": "arn:aws:s3:::b", "cn-north-1": "arn:aws-cn:s3:::b", "us-gov-west-1": "arn:aws-us-gov:s3:::b"} {
		if got := ARN(region, "b"); got != want {
			t.Errorf("%s: %s", region, got)
		}
	}
}

// TestCommandsSurviveTheShell runs them with an aws that prints its arguments.
func TestCommandsSurviveTheShell(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no shell")
	}
	odd := Job{Region: "eu-west-1", Bucket: "b", Prefix: "it's $(odd)/"}
	script := "aws() { for a; do printf '<%s>' \"$a\"; done; echo; }\nACCOUNT=1 ROLE=r JOB=j\n" + strings.Join(odd.Commands("my dir"), "\n")
	cmd := exec.Command(sh)
	cmd.Stdin, cmd.Env = strings.NewReader(script), os.Environ()
	out, err := cmd.CombinedOutput()
	for _, want := range []string{"<--key><it's $(odd)/manifest.csv><--body><my dir/manifest.csv>", "<--cli-input-json><file://my dir/create-job.json>", "<s3://b/it's $(odd)/report/job-j/><my dir/report>"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%v: no %s in\n%s", err, want, out)
		}
	}
}
