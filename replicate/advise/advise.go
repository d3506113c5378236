// Package advise judges a team's own S3 replication rules: whether they bring a
// release to the target, what they leave behind, and what they would carry that
// must stay.
//
//	rules, err := advise.Parse(output of aws s3api get-bucket-replication)
//	for _, f := range advise.Judge(advise.Facts{…}) { … }
//
// It is pure: what was read of buckets and objects comes in as Facts, and what
// was not read is said to be unknown, never assumed. The facts about S3 are those
// of its User Guide: "Replicating objects", "Replicating existing objects with
// Batch Replication", "Replicating encrypted objects", "S3 RTC".
package advise

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"drkit/internal/errext"
)

// Place is a region's bucket and what is known of it.
type Place struct {
	Region    string // as drkit.yaml names it
	Bucket    string
	Prefix    string // in the bucket, where the region's store begins; "" or with a slash at its end
	AWSRegion string // that the bucket lies in; "": not known

	Rules      *Configuration // nil with RulesErr nil: the bucket has none
	RulesErr   error          // why the rules could not be read
	Versioning string         // Enabled, Suspended, or "": never was on
	VersionErr error          // why that could not be read

	StateBucket, StatePrefix string // where CURRENT and locks lie; "": not in a bucket
}

// Object is an object of the release in the source's bucket.
type Object struct {
	Key        string // in the bucket
	Size       int64  // bytes
	Modified   time.Time
	Status     string // x-amz-replication-status; "": none
	Encryption string // such as aws:kms
	InTarget   bool   // the target lists an object of that key and size
}

// Facts is all that Judge looks at.
type Facts struct {
	Source, Target Place
	Objects        []Object
	Missing        []string // keys of the release that the source's bucket does not hold
	Unread         []string // keys whose replication status could not be read
	ListErr        error    // why the target could not be listed: InTarget is then false of all
	InPlace        bool     // the model lies where teams write it, not in drkit's layout
	Now            time.Time
}

// Severity orders findings.
type Severity string

// The severities. Fail and Unknown are no green.
const (
	Fail    Severity = "fail"    // the target will lack something, or gets what must not come
	Unknown Severity = "unknown" // could not be seen
	Warn    Severity = "warn"    // works, with a risk
	Info    Severity = "info"
)

// Finding is one thing that a person should know about the rules.
type Finding struct {
	Check    string   `json:"check"` // a stable word, such as "not-covered"
	Severity Severity `json:"severity"`
	Rule     string   `json:"rule,omitempty"` // the rule that it is about
	Message  string   `json:"message"`
	Hint     string   `json:"hint,omitempty"`
	Count    int      `json:"count,omitempty"` // objects that it is about
	Keys     []string `json:"keys,omitempty"`  // some of them
}

// examples is how many keys a finding names.
const examples = 5

// TimeControl is the threshold of S3 Replication Time Control.
const TimeControl = 15 * time.Minute

// Judge says all that is to say, the gravest first.
func Judge(f Facts) []Finding {
	j := judge{Facts: f}
	j.versioning(f.Source)
	j.versioning(f.Target)
	j.prefixes()
	j.state(f.Source)
	j.state(f.Target)
	if f.Source.RulesErr != nil {
		j.add(Finding{Check: "rules-unknown", Severity: Unknown, Message: fmt.Sprintf("the replication rules of bucket %s could not be read: %v", f.Source.Bucket, f.Source.RulesErr),
			Hint: cmp.Or(errext.Hint(f.Source.RulesErr), "grant s3:GetReplicationConfiguration, or give them with --rules")})
	} else {
		j.rules()
	}
	j.objects()
	order := []Severity{Fail, Unknown, Warn, Info}
	slices.SortStableFunc(j.found, func(a, b Finding) int {
		return slices.Index(order, a.Severity) - slices.Index(order, b.Severity)
	})
	return j.found
}

type judge struct {
	Facts
	found []Finding
}

func (j *judge) add(f Finding) { j.found = append(j.found, f) }

// about is a finding on some keys; none without keys.
func (j *judge) about(keys []string, f Finding) {
	if len(keys) == 0 {
		return
	}
	slices.Sort(keys)
	f.Count, f.Keys = len(keys), keys[:min(len(keys), examples)]
	j.add(f)
}

func (j *judge) versioning(p Place) {
	switch {
	case p.VersionErr != nil:
		j.add(Finding{Check: "versioning-unknown", Severity: Unknown, Message: fmt.Sprintf("whether bucket %s keeps versions could not be read: %v", p.Bucket, p.VersionErr), Hint: "grant s3:GetBucketVersioning"})
	case p.Versioning == "":
		j.add(Finding{Check: "versioning-off", Severity: Fail, Message: fmt.Sprintf("bucket %s of region %s keeps no versions, and S3 replicates only between buckets that do", p.Bucket, p.Region),
			Hint: "aws s3api put-bucket-versioning --bucket " + p.Bucket + " --versioning-configuration Status=Enabled"})
	case p.Versioning != "Enabled":
		j.add(Finding{Check: "versioning-off", Severity: Fail, Message: fmt.Sprintf("versions of bucket %s of region %s are %s: replication stands still", p.Bucket, p.Region, strings.ToLower(p.Versioning)),
			Hint: "aws s3api put-bucket-versioning --bucket " + p.Bucket + " --versioning-configuration Status=Enabled"})
	}
}

// prefixes: a replica has the key of its source.
func (j *judge) prefixes() {
	if j.Source.Prefix != j.Target.Prefix {
		j.add(Finding{Check: "prefix-differs", Severity: Fail,
			Message: fmt.Sprintf("S3 replicates to the same key, and the store of %s begins at %q where that of %s begins at %q: replicas lie where nobody looks for them", j.Target.Region, j.Target.Prefix, j.Source.Region, j.Source.Prefix),
			Hint:    "use one prefix in both buckets, or copy with drkit replicate"})
	}
}

// state: CURRENT and locks of one region must not appear, or change, in another.
func (j *judge) state(p Place) {
	if p.StateBucket == "" || p.StateBucket != p.Bucket {
		return // the caller asks that bucket for its own rules: see StateRules
	}
	switch carrying := p.Rules.Carrying(p.StatePrefix); {
	case p.RulesErr != nil:
		j.add(Finding{Check: "state-unknown", Severity: Unknown, Message: fmt.Sprintf("whether a rule of bucket %s replicates drkit's state of region %s could not be read", p.Bucket, p.Region), Hint: cmp.Or(errext.Hint(p.RulesErr), "grant s3:GetReplicationConfiguration, or give its rules with --rules "+p.Region+"=FILE")})
	case len(carrying) > 0:
		j.add(Finding{Check: "state-replicated", Severity: Fail, Rule: carrying[0].ID, Message: StateMessage(p.Region, p.Bucket, p.StatePrefix, carrying[0]), Hint: StateHint})
	}
}

// StateHint says what to do about a state that is replicated.
const StateHint = "give the region a state: of its own in drkit.yaml, in a bucket or beneath a prefix that no rule replicates"

// StateMessage says that a rule carries a region's state.
func StateMessage(region, bucket, prefix string, r Rule) string {
	return fmt.Sprintf("drkit's state of region %s (s3://%s/%s) lies under %s, which replicates it to bucket %s: CURRENT and locks would be overwritten or come back from there", region, bucket, prefix, r.Name(), r.Bucket)
}

// toTarget are the enabled rules to the target's bucket, the most urgent first.
func (j *judge) toTarget() []Rule {
	return slices.DeleteFunc(j.Source.Rules.enabled(), func(r Rule) bool { return r.Bucket != j.Target.Bucket })
}

// winner is the rule by which a key is replicated.
func winner(rules []Rule, key string) (Rule, bool) {
	at := slices.IndexFunc(rules, func(r Rule) bool { return len(r.Tags) == 0 && r.covers(key) })
	if at < 0 {
		return Rule{}, false
	}
	return rules[at], true
}

func (j *judge) rules() {
	if j.Source.Rules == nil || len(j.Source.Rules.Rules) == 0 {
		j.add(Finding{Check: "no-rule", Severity: Fail, Message: fmt.Sprintf("bucket %s has no replication rule: nothing brings new releases to %s", j.Source.Bucket, j.Target.Region),
			Hint: "add a rule, or copy with drkit replicate"})
		return
	}
	rules := j.toTarget()
	for _, r := range j.Source.Rules.Rules {
		if !r.Enabled && r.Bucket == j.Target.Bucket {
			j.add(Finding{Check: "rule-disabled", Severity: Warn, Rule: r.ID, Message: fmt.Sprintf("%s to bucket %s is disabled", r.Name(), r.Bucket), Hint: "enable it, or remove it"})
		}
	}
	if len(rules) == 0 {
		j.add(Finding{Check: "no-rule", Severity: Fail, Message: fmt.Sprintf("no enabled rule of bucket %s replicates to %s, the bucket of %s", j.Source.Bucket, j.Target.Bucket, j.Target.Region),
			Hint: "add a rule with that destination, or copy with drkit replicate"})
		return
	}
	j.coverage(rules)
	for _, r := range rules {
		j.rule(r)
	}
	j.twoWay()
}

// coverage: each key of the release needs a rule. One by tag replicates only what
// carries the tag, which a listing does not show: the status of the object does.
func (j *judge) coverage(rules []Rule) {
	var bare, byTag []string
	tagged := ""
	for _, key := range j.keys() {
		if _, ok := winner(rules, key.Key); ok {
			continue
		}
		at := slices.IndexFunc(rules, func(r Rule) bool { return len(r.Tags) > 0 && r.covers(key.Key) })
		switch {
		case at < 0:
			bare = append(bare, key.Key)
		case key.Status == "" || key.Status == "FAILED":
			byTag, tagged = append(byTag, key.Key), rules[at].ID
		}
	}
	j.about(bare, Finding{Check: "not-covered", Severity: Fail, Message: fmt.Sprintf("objects of the release that no rule to bucket %s covers: %d", j.Target.Bucket, len(bare)), Hint: "widen a rule's prefix, or add a rule: " + prefixesOf(rules)})
	j.about(byTag, Finding{Check: "tag-filter", Severity: Fail, Rule: tagged, Message: fmt.Sprintf("objects that only a rule by tag would cover, and that were never replicated: %d. drkit writes no tags", len(byTag)), Hint: "filter by prefix instead"})
}

func prefixesOf(rules []Rule) string {
	var all []string
	for _, r := range rules {
		all = append(all, fmt.Sprintf("%s has prefix %q", r.Name(), r.Prefix))
	}
	return strings.Join(all[:min(len(all), examples)], ", ")
}

// keys are those of the release, held or missing.
func (j *judge) keys() []Object {
	all := slices.Clone(j.Objects)
	for _, key := range j.Missing {
		all = append(all, Object{Key: key})
	}
	return all
}

// rule looks at one rule's own settings.
func (j *judge) rule(r Rule) {
	if !r.TimeControl {
		j.add(Finding{Check: "no-time-control", Severity: Warn, Rule: r.ID, Message: r.Name() + " has no Replication Time Control: nothing is promised about when a release arrives", Hint: "enable ReplicationTime and Metrics, and measure the age of the copy with drkit verify --metrics"})
	}
	if !r.Metrics {
		j.add(Finding{Check: "no-metrics", Severity: Warn, Rule: r.ID, Message: r.Name() + " has no metrics: lag and failures raise no alarm", Hint: "enable Metrics for it"})
	}
	j.deleteMarkers(r)
	j.class(r)
	if r.Account != "" && !r.OwnerOverride {
		j.add(Finding{Check: "ownership", Severity: Warn, Rule: r.ID, Message: fmt.Sprintf("%s replicates to account %s, and replicas stay the source account's: the target's account may be unable to read them on the day", r.Name(), r.Account),
			Hint: "set AccessControlTranslation Owner=Destination, or ObjectOwnership BucketOwnerEnforced on the target bucket"})
	}
	j.encryption(r)
}

func (j *judge) deleteMarkers(r Rule) {
	switch {
	case r.DeleteMarkers:
		j.add(Finding{Check: "delete-markers", Severity: Warn, Rule: r.ID, Message: r.Name() + " replicates delete markers: what is deleted in the source, by accident too, is hidden in the target", Hint: "disable DeleteMarkerReplication for a copy that must outlive the source"})
	case j.InPlace:
		j.add(Finding{Check: "delete-markers", Severity: Warn, Rule: r.ID, Message: r.Name() + " does not replicate delete markers: files that were removed from the model stay in the target, where an extra file can change answers", Hint: "drkit verify names them as extra"})
	default:
		j.add(Finding{Check: "delete-markers", Severity: Info, Rule: r.ID, Message: r.Name() + " does not replicate delete markers: releases that are deleted in the source stay in the target"})
	}
}

// class: replicas in an archive need hours before they can be read.
func (j *judge) class(r Rule) {
	switch r.StorageClass {
	case "GLACIER", "DEEP_ARCHIVE":
		j.add(Finding{Check: "storage-class", Severity: Fail, Rule: r.ID, Message: fmt.Sprintf("%s stores replicas as %s: they must be restored for hours before a canary can read them", r.Name(), r.StorageClass), Hint: "use STANDARD, STANDARD_IA or GLACIER_IR in the target"})
	case "OUTPOSTS", "REDUCED_REDUNDANCY", "ONEZONE_IA", "EXPRESS_ONEZONE":
		j.add(Finding{Check: "storage-class", Severity: Warn, Rule: r.ID, Message: fmt.Sprintf("%s stores replicas as %s, which lies in one place or is less durable", r.Name(), r.StorageClass), Hint: "use a class that spans zones"})
	case "INTELLIGENT_TIERING":
		j.add(Finding{Check: "storage-class", Severity: Warn, Rule: r.ID, Message: r.Name() + " stores replicas as INTELLIGENT_TIERING: what is not read for months may move to an archive tier, where that is configured", Hint: "see that the bucket has no archive tiers"})
	}
}

// encryption: objects under a KMS key are left out unless the rule selects them,
// and their replicas need a key of the target's region.
func (j *judge) encryption(r Rule) {
	var left []string
	for _, o := range j.Objects {
		if w, ok := winner(j.toTarget(), o.Key); ok && w.ID == r.ID && w.Priority == r.Priority && strings.HasPrefix(o.Encryption, "aws:kms") {
			left = append(left, o.Key)
		}
	}
	switch {
	case !r.KMSObjects:
		j.about(left, Finding{Check: "kms-not-selected", Severity: Fail, Rule: r.ID, Message: fmt.Sprintf("%s leaves out objects encrypted by SSE-KMS: %d of the release", r.Name(), len(left)), Hint: "enable SourceSelectionCriteria.SseKmsEncryptedObjects and name a ReplicaKmsKeyID in the target's region"})
	case r.ReplicaKMSKey == "":
		j.add(Finding{Check: "replica-key-missing", Severity: Fail, Rule: r.ID, Message: r.Name() + " selects objects encrypted by SSE-KMS and names no key for their replicas", Hint: "set EncryptionConfiguration.ReplicaKmsKeyID to a key of the target's region"})
	default:
		j.keyRegion(r)
	}
}

func (j *judge) keyRegion(r Rule) {
	parts := strings.Split(r.ReplicaKMSKey, ":")
	switch {
	case len(parts) < 6 || j.Target.AWSRegion == "":
		j.add(Finding{Check: "replica-key-unknown", Severity: Info, Rule: r.ID, Message: fmt.Sprintf("whether the key %s of %s lies in the target's region was not seen", r.ReplicaKMSKey, r.Name())})
	case parts[3] != j.Target.AWSRegion:
		j.add(Finding{Check: "replica-key-region", Severity: Fail, Rule: r.ID, Message: fmt.Sprintf("%s encrypts replicas by a key of %s, and the target bucket lies in %s", r.Name(), parts[3], j.Target.AWSRegion), Hint: "name a key of the target's region, or replicas cannot be read once the other region is gone"})
	}
}

// twoWay: rules of the target that lead back.
func (j *judge) twoWay() {
	if j.Target.RulesErr != nil {
		j.add(Finding{Check: "two-way-unknown", Severity: Unknown, Message: fmt.Sprintf("whether rules of bucket %s lead back to %s could not be read: %v", j.Target.Bucket, j.Source.Bucket, j.Target.RulesErr), Hint: cmp.Or(errext.Hint(j.Target.RulesErr), "grant s3:GetReplicationConfiguration there, or give them with --rules "+j.Target.Region+"=FILE")})
		return
	}
	for _, r := range j.Target.Rules.enabled() {
		if r.Bucket == j.Source.Bucket {
			j.add(Finding{Check: "two-way", Severity: Warn, Rule: r.ID, Message: fmt.Sprintf("%s of bucket %s leads back to %s: what is changed or damaged in the target reaches the source", r.Name(), j.Target.Bucket, j.Source.Bucket), Hint: "keep the state of both regions out of both directions, and restrict writes in the target"})
		}
	}
}
