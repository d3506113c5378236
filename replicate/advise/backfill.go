package advise

import (
	"encoding/json"
	"errors"
	"fmt"

	"drkit/verify/batch"
)

// Backfill is an S3 Batch Replication job: it replicates, by the bucket's own
// rules, what these left behind. S3 makes the list of objects itself.
type Backfill struct {
	Region string // AWS region of the source bucket
	Bucket string // source
	Prefix string // of the keys; "" for the whole bucket
	Report string // prefix of the completion report in the source bucket
}

// backfillRequest is the input of CreateJob but for account and role, which the
// command line adds. The job waits for confirmation: it moves bytes that cost.
type backfillRequest struct {
	ConfirmationRequired bool
	Operation            struct{ S3ReplicateObject struct{} }
	ManifestGenerator    struct{ S3JobManifestGenerator generator }
	Report               batch.Destination
	Priority             int
	Description          string
}

type generator struct {
	SourceBucket         string
	EnableManifestOutput bool
	Filter               filter
}

type filter struct {
	EligibleForReplication    bool
	ObjectReplicationStatuses []string
	KeyNameConstraint         *keyNames `json:",omitempty"`
}

type keyNames struct{ MatchAnyPrefix []string }

// Request is the JSON for aws s3control create-job --cli-input-json.
func (b Backfill) Request() ([]byte, error) {
	if b.Bucket == "" || b.Region == "" {
		return nil, errors.New("a back-fill job needs the source bucket and its region")
	}
	r := backfillRequest{ConfirmationRequired: true, Priority: 10, Description: "drkit: replicate what the rules of " + b.Bucket + " left behind", Report: batch.ReportTo(b.Region, b.Bucket, b.Report)}
	g := &r.ManifestGenerator.S3JobManifestGenerator
	g.SourceBucket = batch.ARN(b.Region, b.Bucket)
	g.Filter = filter{EligibleForReplication: true, ObjectReplicationStatuses: []string{"NONE", "FAILED"}}
	if b.Prefix != "" {
		g.Filter.KeyNameConstraint = &keyNames{[]string{b.Prefix}}
	}
	data, err := json.MarshalIndent(r, "", "  ")
	return append(data, '\n'), err
}

// Command runs the request in file: account and role come from the shell's
// ACCOUNT and ROLE.
func (b Backfill) Command(file string) string {
	return fmt.Sprintf(`aws s3control create-job --region %s --account-id "$ACCOUNT" --role-arn "$ROLE" --cli-input-json %s`, b.Region, batch.Quote("file://"+file))
}
