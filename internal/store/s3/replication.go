package s3

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// Rule is one replication rule of a bucket, as its owner wrote it.
type Rule struct {
	ID       string
	Priority int32
	Enabled  bool
	// Prefix and Tags choose the objects; both empty: all of them.
	Prefix string
	Tags   map[string]string

	Destination   string // ARN of the bucket
	Account       string // of the destination, when it is told
	OwnerOverride bool   // replicas belong to that account
	StorageClass  string // "": that of the source
	DeleteMarkers bool   // they are replicated too, as by rules of the old format without a filter
	KMSObjects    bool   // objects under SSE-KMS are chosen too
	ReplicaKMSKey string // key in the destination's region; "": not told
	ReplicaMods   bool   // changes to replicas are replicated back
	TimeControl   bool   // RTC: a time is promised
	Metrics       bool
}

// ErrNoAnswer says that a server does not know such a question: nothing follows
// from it, neither that there are rules nor that there are none.
var ErrNoAnswer = errors.New("the server does not answer that question")

// ReplicationRules reads the bucket's own replication rules, the disabled ones
// too. No configuration at all is an empty list and no error. A server that has
// no such thing is ErrNoAnswer, missing permission store.ErrDenied: both mean
// that it is not known.
func (s *Store) ReplicationRules(ctx context.Context) ([]Rule, error) {
	out, err := call(ctx, s, func(c *s3.Client) (*s3.GetBucketReplicationOutput, error) {
		return c.GetBucketReplication(ctx, &s3.GetBucketReplicationInput{Bucket: s.bucket()})
	})
	if codeOf(err) == "ReplicationConfigurationNotFoundError" {
		s.seen.Store(true)
		return nil, nil
	}
	if err != nil {
		return nil, s.fail(ctx, "reading the replication rules of", "", "s3:GetReplicationConfiguration", err)
	}
	var rules []Rule
	if out.ReplicationConfiguration != nil {
		for _, r := range out.ReplicationConfiguration.Rules {
			rules = append(rules, ruleOf(r))
		}
	}
	return rules, nil
}

func ruleOf(r types.ReplicationRule) Rule {
	rule := Rule{ID: aws.ToString(r.ID), Priority: aws.ToInt32(r.Priority), Enabled: r.Status == types.ReplicationRuleStatusEnabled}
	//lint:ignore SA1019 rules of the older form still have their prefix here
	rule.Prefix = aws.ToString(r.Prefix)
	rule.filter(r.Filter)
	if d := r.Destination; d != nil {
		rule.Destination, rule.Account, rule.StorageClass = aws.ToString(d.Bucket), aws.ToString(d.Account), string(d.StorageClass)
		if d.EncryptionConfiguration != nil {
			rule.ReplicaKMSKey = aws.ToString(d.EncryptionConfiguration.ReplicaKmsKeyID)
		}
		rule.OwnerOverride = d.AccessControlTranslation != nil && d.AccessControlTranslation.Owner == types.OwnerOverrideDestination
		rule.Metrics = d.Metrics != nil && d.Metrics.Status == types.MetricsStatusEnabled
		rule.TimeControl = d.ReplicationTime != nil && d.ReplicationTime.Status == types.ReplicationTimeStatusEnabled
	}
	rule.DeleteMarkers = r.Filter == nil
	if r.DeleteMarkerReplication != nil {
		rule.DeleteMarkers = r.DeleteMarkerReplication.Status == types.DeleteMarkerReplicationStatusEnabled
	}
	if c := r.SourceSelectionCriteria; c != nil {
		rule.KMSObjects = c.SseKmsEncryptedObjects != nil && c.SseKmsEncryptedObjects.Status == types.SseKmsEncryptedObjectsStatusEnabled
		rule.ReplicaMods = c.ReplicaModifications != nil && c.ReplicaModifications.Status == types.ReplicaModificationsStatusEnabled
	}
	return rule
}

func (r *Rule) filter(f *types.ReplicationRuleFilter) {
	if f == nil {
		return
	}
	tags := func(all ...types.Tag) {
		for _, t := range all {
			if r.Tags == nil {
				r.Tags = map[string]string{}
			}
			r.Tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
		}
	}
	if f.Prefix != nil {
		r.Prefix = *f.Prefix
	}
	if f.Tag != nil {
		tags(*f.Tag)
	}
	if f.And != nil {
		if f.And.Prefix != nil {
			r.Prefix = *f.And.Prefix
		}
		tags(f.And.Tags...)
	}
}

// Versioned reports whether the bucket keeps versions, without which nothing can
// be replicated.
func (s *Store) Versioned(ctx context.Context) (bool, error) {
	out, err := call(ctx, s, func(c *s3.Client) (*s3.GetBucketVersioningOutput, error) {
		return c.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{Bucket: s.bucket()})
	})
	if err != nil {
		return false, s.fail(ctx, "asking for versions in", "", "s3:GetBucketVersioning", err)
	}
	return out.Status == types.BucketVersioningStatusEnabled, nil
}

// Bucket is the bucket's name, Prefix what its keys here begin with: "" or a
// string that ends in a slash. Replication rules speak of whole keys.
func (s *Store) Bucket() (bucket, prefix string) { return s.opts.Bucket, s.prefix }

// Region is the AWS region in which the bucket was last asked, or is to be: right
// once a request has succeeded.
func (s *Store) Region() string { return s.now().Options().Region }
