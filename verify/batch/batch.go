// Package batch lets S3 itself hash objects at rest: it writes what an S3 Batch
// Operations job of kind S3ComputeObjectChecksum needs, and reads the job's
// completion report.
//
//	job := batch.Job{Region: "eu-west-1", Bucket: "prod-euw1", Prefix: "drkit-batch/"}
//	files, err := job.Files(objects)    // manifest.csv, create-job.json
//	… run job.Commands(), fetch the report …
//	report, err := batch.Read(os.DirFS("report"), "prod-euw1", keys)
//	known, unusable := report.Known()   // for verify.Options
//
// A checksum that S3 took of the bytes at rest is evidence "recomputed": nothing
// is downloaded, and a composite object gets the SHA-256 of its whole content.
//
// Sources: AWS, "Compute checksums" and "Examples: S3 Batch Operations completion
// reports" in the S3 User Guide; "CreateJob" in the S3 control API.
package batch

import (
	"bytes"
	"crypto/md5"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"drkit/internal/errext"
)

// Names of the files of a job in its folder.
const (
	ManifestName = "manifest.csv"
	RequestName  = "create-job.json"
)

// Object is an object that the job hashes. Version is empty in buckets without
// versions.
type Object struct{ Key, Version string }

// Job is one job: objects of one bucket, run in that bucket's region.
type Job struct {
	Region string // of the bucket, such as eu-west-1
	Bucket string
	Prefix string // in the bucket, where the manifest and the report go: ends in a slash
}

// Files are the manifest and the request of a job.
type Files struct {
	Manifest []byte // CSV for S3
	Request  []byte // JSON for aws s3control create-job --cli-input-json
}

// Files writes both files. Objects must be some, and have all a version or none:
// S3 reads the manifest by one list of columns.
func (j Job) Files(objects []Object) (Files, error) {
	if err := j.check(); err != nil {
		return Files{}, err
	}
	var manifest bytes.Buffer
	versions, err := writeManifest(&manifest, j.Bucket, objects)
	if err != nil {
		return Files{}, err
	}
	request, err := j.request(manifest.Bytes(), versions)
	return Files{manifest.Bytes(), request}, err
}

func (j Job) check() error {
	switch {
	case j.Bucket == "":
		return errors.New("a batch job needs the bucket's name")
	case j.Region == "":
		return errext.WithHint(fmt.Errorf("a batch job for %s needs the bucket's region", j.Bucket), "a job runs in the region of its bucket")
	case j.Prefix != "" && !strings.HasSuffix(j.Prefix, "/"):
		return fmt.Errorf("the prefix %q of a batch job does not end in a slash", j.Prefix)
	}
	return nil
}

// writeManifest writes a row for each object, keys percent-encoded as S3 wants
// them, and reports whether the rows have versions.
func writeManifest(w io.Writer, bucket string, objects []Object) (versions bool, err error) {
	if len(objects) == 0 {
		return false, errors.New("a batch job needs at least one object")
	}
	versions = objects[0].Version != ""
	out := csv.NewWriter(w)
	for _, o := range objects {
		if (o.Version != "") != versions {
			return false, fmt.Errorf("%s: some objects of the batch job have a version, others have none", o.Key)
		}
		row := []string{bucket, encodeKey(o.Key)}
		if versions {
			row = append(row, o.Version)
		}
		_ = out.Write(row) // the writer keeps its error
	}
	out.Flush()
	return versions, out.Error()
}

// encodeKey percent-encodes every byte but the unreserved ones and the slash, so
// that no reader can take "+" for a space.
func encodeKey(key string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~/"
	var b strings.Builder
	for i := range len(key) {
		if strings.IndexByte(plain, key[i]) >= 0 {
			b.WriteByte(key[i])
		} else {
			fmt.Fprintf(&b, "%%%02X", key[i])
		}
	}
	return b.String()
}

// request is the job without its account and role, which the command line adds.
type request struct {
	ConfirmationRequired bool
	Operation            struct{ S3ComputeObjectChecksum computeChecksum }
	Manifest             requestManifest
	Report               Destination
	Priority             int
	Description          string
	ClientRequestToken   string // two equal requests are one job
}

type computeChecksum struct{ ChecksumAlgorithm, ChecksumType string }

type requestManifest struct {
	Spec struct {
		Format string
		Fields []string
	}
	Location struct{ ObjectArn, ETag string }
}

// Destination says where S3 writes a job's completion report.
type Destination struct {
	Bucket      string // ARN
	Prefix      string
	Format      string
	Enabled     bool
	ReportScope string
}

// ReportTo is a report on all tasks below a prefix of a bucket.
func ReportTo(region, bucket, prefix string) Destination {
	return Destination{Bucket: ARN(region, bucket), Prefix: strings.TrimSuffix(prefix, "/"), Format: reportFormat, Enabled: true, ReportScope: "AllTasks"}
}

func (j Job) request(manifest []byte, versions bool) ([]byte, error) {
	sum := md5.Sum(manifest)
	etag := hex.EncodeToString(sum[:])
	r := request{Priority: 10, Description: "drkit: checksums at rest of objects in " + j.Bucket, ClientRequestToken: "drkit-" + etag, Report: ReportTo(j.Region, j.Bucket, j.Prefix+"report")}
	r.Operation.S3ComputeObjectChecksum = computeChecksum{"SHA256", "FULL_OBJECT"}
	r.Manifest.Spec.Format, r.Manifest.Spec.Fields = "S3BatchOperations_CSV_20180820", []string{"Bucket", "Key"}
	if versions {
		r.Manifest.Spec.Fields = append(r.Manifest.Spec.Fields, "VersionId")
	}
	r.Manifest.Location.ObjectArn, r.Manifest.Location.ETag = ARN(j.Region, j.Bucket)+"/"+j.Prefix+ManifestName, etag
	data, err := json.MarshalIndent(r, "", "  ")
	return append(data, '\n'), err
}

// ARN names a bucket in the partition that a region belongs to.
func ARN(region, bucket string) string {
	partition := "aws"
	switch {
	case strings.HasPrefix(region, "cn-"):
		partition = "aws-cn"
	case strings.HasPrefix(region, "us-gov-"):
		partition = "aws-us-gov"
	}
	return "arn:" + partition + ":s3:::" + bucket
}

// Commands are what a person runs for the job whose files lie in dir: account and
// role come from the shell's ACCOUNT and ROLE.
func (j Job) Commands(dir string) []string {
	place := "s3://" + j.Bucket + "/" + j.Prefix
	return []string{
		fmt.Sprintf("aws s3api put-object --region %s --bucket %s --key %s --body %s", j.Region, j.Bucket, Quote(j.Prefix+ManifestName), Quote(dir+"/"+ManifestName)),
		fmt.Sprintf(`aws s3control create-job --region %s --account-id "$ACCOUNT" --role-arn "$ROLE" --cli-input-json %s`, j.Region, Quote("file://"+dir+"/"+RequestName)),
		fmt.Sprintf(`aws s3control describe-job --region %s --account-id "$ACCOUNT" --job-id "$JOB"   # until Complete`, j.Region),
		fmt.Sprintf(`aws s3 cp --recursive --region %s %s"$JOB"/ %s`, j.Region, Quote(place+"report/job-"), Quote(dir+"/report")),
	}
}

// Quote protects a word from the shell.
func Quote(word string) string {
	if word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
