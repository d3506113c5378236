package advise

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"drkit/internal/errext"
)

// Configuration is a bucket's replication configuration.
type Configuration struct {
	Role  string // ARN of the role by which S3 replicates
	Rules []Rule
}

// Rule is one rule, with S3's defaults filled in.
type Rule struct {
	ID       string
	Priority int // of two rules to one bucket, the greater wins
	Enabled  bool
	Prefix   string // of the keys that it replicates
	Tags     []Tag  // all of which an object must carry

	Bucket        string // name of the bucket that it replicates to
	Account       string // that owns the target bucket, where the rule names it
	StorageClass  string // of replicas; "": that of the source object
	OwnerOverride bool   // replicas belong to the target's account
	ReplicaKMSKey string // by which replicas are encrypted

	KMSObjects           bool // objects encrypted by SSE-KMS are replicated too
	ReplicaModifications bool // changes of replicas' metadata are replicated back
	DeleteMarkers        bool
	TimeControl          bool // S3 RTC: most objects within 15 minutes
	Metrics              bool
}

// Tag is an object's tag.
type Tag struct{ Key, Value string }

// Name is the rule as messages name it.
func (r Rule) Name() string {
	if r.ID != "" {
		return fmt.Sprintf("rule %q", r.ID)
	}
	return fmt.Sprintf("the rule of priority %d", r.Priority)
}

// maxRules bounds a configuration in bytes; S3 takes 2 MB.
const maxRules = 4 << 20

// Parse reads what `aws s3api get-bucket-replication` prints, with or without its
// outer ReplicationConfiguration. A filter that it does not understand is an
// error: the rule's scope would be guessed.
func Parse(data []byte) (*Configuration, error) {
	c, err := parse(data)
	return c, errext.WithHint(err, "give the JSON of: aws s3api get-bucket-replication --bucket BUCKET")
}

func parse(data []byte) (*Configuration, error) {
	if len(data) > maxRules {
		return nil, fmt.Errorf("the replication rules have more than %d bytes", maxRules)
	}
	var outer struct{ ReplicationConfiguration json.RawMessage }
	if err := json.Unmarshal(data, &outer); err != nil {
		return nil, fmt.Errorf("the replication rules are no JSON object: %w", err)
	}
	if outer.ReplicationConfiguration != nil {
		data = outer.ReplicationConfiguration
	}
	var raw rawConfiguration
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, fmt.Errorf("the replication rules cannot be read: %w", err)
	}
	if raw.Rules == nil {
		return nil, errors.New("there is no list of Rules")
	}
	c := &Configuration{Role: raw.Role}
	for i, r := range raw.Rules {
		rule, err := r.rule()
		if err != nil {
			return nil, fmt.Errorf("in Rules[%d]: %w", i, err)
		}
		c.Rules = append(c.Rules, rule)
	}
	return c, nil
}

type rawConfiguration struct {
	Role  string
	Rules []rawRule
}

type status struct{ Status string }

func (s *status) enabled() (bool, error) {
	switch {
	case s == nil || s.Status == "Disabled":
		return false, nil
	case s.Status == "Enabled":
		return true, nil
	}
	return false, fmt.Errorf("the Status is %q, want Enabled or Disabled", s.Status)
}

type rawRule struct {
	ID                      string
	Priority                int
	Status                  string
	Prefix                  *string // of the first version of the format, without Filter
	Filter                  json.RawMessage
	SourceSelectionCriteria struct{ SseKmsEncryptedObjects, ReplicaModifications *status }
	DeleteMarkerReplication *status
	Destination             struct {
		Bucket, Account, StorageClass string
		AccessControlTranslation      struct{ Owner string }
		EncryptionConfiguration       struct{ ReplicaKmsKeyID string }
		ReplicationTime, Metrics      *status
	}
}

func (raw rawRule) rule() (Rule, error) {
	d := raw.Destination
	r := Rule{ID: raw.ID, Priority: raw.Priority, Account: d.Account, StorageClass: d.StorageClass,
		OwnerOverride: d.AccessControlTranslation.Owner == "Destination", ReplicaKMSKey: d.EncryptionConfiguration.ReplicaKmsKeyID}
	var errs []error
	for _, flag := range []struct {
		to   *bool
		from *status
	}{{&r.Enabled, &status{raw.Status}}, {&r.KMSObjects, raw.SourceSelectionCriteria.SseKmsEncryptedObjects}, {&r.ReplicaModifications, raw.SourceSelectionCriteria.ReplicaModifications},
		{&r.DeleteMarkers, raw.DeleteMarkerReplication}, {&r.TimeControl, d.ReplicationTime}, {&r.Metrics, d.Metrics}} {
		on, err := flag.from.enabled()
		*flag.to, errs = on, append(errs, err)
	}
	var err error
	r.Prefix, r.Tags, err = raw.scope()
	errs = append(errs, err)
	if raw.Filter == nil && raw.DeleteMarkerReplication == nil {
		r.DeleteMarkers = true // the first version of the format replicates them
	}
	if r.Bucket, err = bucketOf(d.Bucket); err != nil {
		errs = append(errs, err)
	}
	return r, errors.Join(errs...)
}

// scope is the filter of a rule: a prefix, a tag, or both within And.
func (raw rawRule) scope() (prefix string, tags []Tag, err error) {
	if raw.Filter == nil || string(raw.Filter) == "null" {
		if raw.Prefix != nil {
			prefix = *raw.Prefix
		}
		return prefix, nil, nil
	}
	var f struct {
		Prefix *string
		Tag    *Tag
		And    *struct {
			Prefix string
			Tags   []Tag
		}
	}
	dec := json.NewDecoder(bytes.NewReader(raw.Filter))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		return "", nil, fmt.Errorf("the Filter cannot be read: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return "", nil, errors.New("the Filter is more than one value")
	}
	n := 0
	if f.Prefix != nil {
		prefix, n = *f.Prefix, n+1
	}
	if f.Tag != nil {
		tags, n = []Tag{*f.Tag}, n+1
	}
	if f.And != nil {
		prefix, tags, n = f.And.Prefix, f.And.Tags, n+1
	}
	if n > 1 {
		return "", nil, errors.New("the Filter has more than one of Prefix, Tag and And")
	}
	return prefix, tags, nil
}

// bucketOf is the name in a bucket's ARN.
func bucketOf(arn string) (string, error) {
	parts := strings.Split(arn, ":")
	if len(parts) != 6 || parts[0] != "arn" || parts[2] != "s3" || parts[5] == "" {
		return "", fmt.Errorf("the Destination's Bucket %q is no ARN of a bucket", arn)
	}
	return parts[5], nil
}

// Carrying are the enabled rules that replicate some of what drkit would keep
// beneath a prefix of the bucket, most urgent first. Rules by tag are left out:
// drkit's records carry no tags.
func (c *Configuration) Carrying(prefix string) []Rule {
	var all []Rule
	for _, r := range c.enabled() {
		if len(r.Tags) == 0 && (strings.HasPrefix(r.Prefix, prefix) || strings.HasPrefix(prefix, r.Prefix)) {
			all = append(all, r)
		}
	}
	return all
}

// enabled are the rules that act, the most urgent first.
func (c *Configuration) enabled() []Rule {
	if c == nil {
		return nil
	}
	on := slices.DeleteFunc(slices.Clone(c.Rules), func(r Rule) bool { return !r.Enabled })
	slices.SortStableFunc(on, func(a, b Rule) int { return b.Priority - a.Priority })
	return on
}

// covers reports whether a key is in the rule's scope, tags aside.
func (r Rule) covers(key string) bool { return strings.HasPrefix(key, r.Prefix) }
