package advise

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"drkit/internal/errext"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// sound is a pair of buckets about which there is nothing to say but that delete
// markers stay behind.
func sound(t *testing.T) Facts {
	return Facts{
		Source: Place{Region: "us-east-1", Bucket: "prod-use1", Prefix: "llm/", AWSRegion: "us-east-1", Rules: load(t, "v2.json"), Versioning: "Enabled", StateBucket: "prod-use1-drkit"},
		Target: Place{Region: "eu-west-1", Bucket: "prod-euw1", Prefix: "llm/", AWSRegion: "eu-west-1", Versioning: "Enabled", StateBucket: "prod-euw1-drkit"},
		Objects: []Object{
			{Key: "llm/chat/r1/model/base/a.safetensors", Size: 5, Modified: now.Add(-time.Hour), Status: "COMPLETED", Encryption: "aws:kms", InTarget: true},
			{Key: "llm/chat/r1/manifest.json", Size: 5, Modified: now.Add(-time.Hour), Status: "COMPLETE", InTarget: true},
		},
		Now: now,
	}
}

func checks(found []Finding, severity Severity) []string {
	all := []string{}
	for _, f := range found {
		if f.Severity == severity {
			all = append(all, f.Check)
		}
	}
	slices.Sort(all)
	return all
}

// TestAServerWithoutRules: the hint is that of the answer, where it has one; no
// permission helps where the server knows no rules at all.
func TestAServerWithoutRules(t *testing.T) {
	const ask = "ask whoever runs it"
	none := errext.WithHint(errors.New("the server has no such function"), ask)
	f := sound(t)
	f.Source.Rules, f.Source.RulesErr, f.Target.RulesErr = nil, none, none
	f.Source.StateBucket, f.Target.StateBucket = f.Source.Bucket, f.Target.Bucket
	seen := 0
	for _, found := range Judge(f) {
		if found.Severity == Unknown && strings.HasSuffix(found.Check, "-unknown") && found.Check != "replica-key-unknown" {
			seen++
			if found.Hint != ask {
				t.Errorf("%s: hint %q, want %q", found.Check, found.Hint, ask)
			}
		}
	}
	if seen < 2 {
		t.Errorf("%d findings say that rules were not seen", seen)
	}
}

func TestNothingToSay(t *testing.T) {
	found := Judge(sound(t))
	if len(found) != 1 || found[0].Check != "delete-markers" || found[0].Severity != Info {
		t.Errorf("%+v", found)
	}
}

// TestEachFault: one fault in a sound pair gives just its finding.
func TestEachFault(t *testing.T) {
	rule := func(f *Facts) *Rule { return &f.Source.Rules.Rules[0] }
	denied := errors.New("access denied")
	for name, c := range map[string]struct {
		fault    func(*Facts)
		severity Severity
		want     string
		says     string
	}{
		"no configuration":       {func(f *Facts) { f.Source.Rules = nil }, Fail, "no-rule", "prod-use1 has no replication rule"},
		"no rules":               {func(f *Facts) { f.Source.Rules = &Configuration{} }, Fail, "no-rule", "prod-use1"},
		"rules denied":           {func(f *Facts) { f.Source.Rules, f.Source.RulesErr = nil, denied }, Unknown, "rules-unknown", "access denied"},
		"to another bucket":      {func(f *Facts) { rule(f).Bucket = "backup" }, Fail, "no-rule", "prod-euw1"},
		"prefix not covered":     {func(f *Facts) { rule(f).Prefix = "llm/other/" }, Fail, "not-covered", "2"},
		"part not covered":       {func(f *Facts) { rule(f).Prefix = "llm/chat/r1/model/" }, Fail, "not-covered", "1"},
		"a missing key":          {func(f *Facts) { f.Missing = []string{"llm/chat/r1/engine/x"} }, Fail, "not-in-source", "1"},
		"KMS is not selected":    {func(f *Facts) { rule(f).KMSObjects = false }, Fail, "kms-not-selected", "1 of the release"},
		"no key for replicas":    {func(f *Facts) { rule(f).ReplicaKMSKey = "" }, Fail, "replica-key-missing", "names no key"},
		"key of another region":  {func(f *Facts) { rule(f).ReplicaKMSKey = "arn:aws:kms:us-east-1:1:key/k" }, Fail, "replica-key-region", "a key of us-east-1"},
		"key by alias":           {func(f *Facts) { rule(f).ReplicaKMSKey = "alias/k" }, Info, "replica-key-unknown", "alias/k"},
		"source unversioned":     {func(f *Facts) { f.Source.Versioning = "" }, Fail, "versioning-off", "prod-use1"},
		"target unversioned":     {func(f *Facts) { f.Target.Versioning = "" }, Fail, "versioning-off", "prod-euw1"},
		"versions suspended":     {func(f *Facts) { f.Source.Versioning = "Suspended" }, Fail, "versioning-off", "suspended"},
		"versions denied":        {func(f *Facts) { f.Target.VersionErr = denied }, Unknown, "versioning-unknown", "prod-euw1"},
		"failed":                 {func(f *Facts) { f.Objects[1].Status, f.Objects[1].InTarget = "FAILED", false }, Fail, "failed", "FAILED: 1"},
		"failed, but there":      {func(f *Facts) { f.Objects[1].Status = "FAILED" }, Warn, "failed-elsewhere", "1"},
		"never replicated":       {func(f *Facts) { f.Objects[1].Status, f.Objects[1].InTarget = "", false }, Fail, "never-replicated", "1"},
		"copied by other means":  {func(f *Facts) { f.Objects[1].Status = "" }, Info, "not-by-rule", "1"},
		"late":                   {func(f *Facts) { f.Objects[1].Status = "PENDING" }, Fail, "late", "the oldest for 1h0m0s"},
		"on its way":             {func(f *Facts) { f.Objects[1].Status, f.Objects[1].Modified = "PENDING", now.Add(-14*time.Minute) }, Warn, "pending", "1"},
		"a replica itself":       {func(f *Facts) { f.Objects[1].Status = "REPLICA" }, Warn, "replica-in-source", "1"},
		"replicated, not there":  {func(f *Facts) { f.Objects[1].InTarget = false }, Fail, "not-in-target", "1"},
		"a replica, not there":   {func(f *Facts) { f.Objects[1].Status, f.Objects[1].InTarget = "REPLICA", false }, Fail, "not-in-target", "1"},
		"target not listed":      {func(f *Facts) { f.ListErr = denied; f.Objects[0].InTarget, f.Objects[1].InTarget = false, false }, Unknown, "target-unknown", "access denied"},
		"a status of its own":    {func(f *Facts) { f.Objects[1].Status = "SOMEDAY" }, Unknown, "status-unknown", "SOMEDAY"},
		"status unread":          {func(f *Facts) { f.Unread = []string{"llm/x"} }, Unknown, "status-unknown", "1"},
		"nothing was looked at":  {func(f *Facts) { f.Objects = nil }, Unknown, "nothing-seen", "rules themselves"},
		"prefixes differ":        {func(f *Facts) { f.Target.Prefix = "models/" }, Fail, "prefix-differs", "models/"},
		"deletes are replicated": {func(f *Facts) { rule(f).DeleteMarkers = true }, Warn, "delete-markers", "hidden in the target"},
		"in place, deletes stay": {func(f *Facts) { f.InPlace = true }, Warn, "delete-markers", "extra file"},
		"no time control":        {func(f *Facts) { rule(f).TimeControl = false }, Warn, "no-time-control", "models-to-ireland"},
		"no metrics":             {func(f *Facts) { rule(f).Metrics = false }, Warn, "no-metrics", "models-to-ireland"},
		"replicas in an archive": {func(f *Facts) { rule(f).StorageClass = "DEEP_ARCHIVE" }, Fail, "storage-class", "DEEP_ARCHIVE"},
		"replicas in one zone":   {func(f *Facts) { rule(f).StorageClass = "ONEZONE_IA" }, Warn, "storage-class", "ONEZONE_IA"},
		"tiers":                  {func(f *Facts) { rule(f).StorageClass = "INTELLIGENT_TIERING" }, Warn, "storage-class", "archive"},
		"another account's":      {func(f *Facts) { rule(f).Account = "444455556666" }, Warn, "ownership", "444455556666"},
		"a way back": {func(f *Facts) {
			f.Target.Rules = &Configuration{Rules: []Rule{{ID: "back", Enabled: true, Prefix: "x", Bucket: "prod-use1"}}}
		}, Warn, "two-way", "back"},
		"target's rules denied": {func(f *Facts) { f.Target.RulesErr = denied }, Unknown, "two-way-unknown", "access denied"},
		"source's state is carried": {func(f *Facts) {
			f.Source.StateBucket, f.Source.StatePrefix = "prod-use1", "llm/.drkit/"
		}, Fail, "state-replicated", `rule "models-to-ireland"`},
		"target's state is carried back": {func(f *Facts) {
			f.Target.StateBucket, f.Target.StatePrefix = "prod-euw1", "llm/.drkit/"
			f.Target.Rules = &Configuration{Rules: []Rule{{ID: "elsewhere", Enabled: true, Bucket: "third"}}}
		}, Fail, "state-replicated", "region eu-west-1"},
	} {
		f := sound(t)
		c.fault(&f)
		found := Judge(f)
		at := slices.IndexFunc(found, func(x Finding) bool { return x.Check == c.want && x.Severity == c.severity })
		if at < 0 || !strings.Contains(found[at].Message, c.says) {
			t.Errorf("%s: no %s %s that says %q in %+v", name, c.severity, c.want, c.says, found)
			continue
		}
		if c.severity != Info && found[at].Hint == "" && c.want != "nothing-seen" {
			t.Errorf("%s: no hint", name)
		}
		for _, other := range []Severity{Fail, Unknown} {
			got := slices.DeleteFunc(checks(found, other), func(check string) bool { return check == c.want })
			if len(got) > 0 {
				t.Errorf("%s: also %s %v", name, other, got)
			}
		}
	}
}

// TestATargetThatMayNotBeListed: what it lacks is not known, so nothing is said to be
// missing there, and nothing to be there.
func TestATargetThatMayNotBeListed(t *testing.T) {
	f := sound(t)
	f.ListErr = errors.New("access denied")
	f.Objects[0].Status, f.Objects[0].InTarget, f.Objects[1].InTarget = "", false, false
	found := Judge(f)
	if got := checks(found, Fail); len(got) > 0 || NeedsBackfill(found) || !slices.Equal(checks(found, Unknown), []string{"never-replicated", "target-unknown"}) {
		t.Errorf("%+v", found)
	}
	f.Objects[0].Status = "FAILED"
	if got := checks(Judge(f), Fail); !slices.Equal(got, []string{"failed"}) {
		t.Errorf("%v", got)
	}
}

// TestRuleByTag: what is tagged shows as replicated; drkit's own objects do not.
func TestRuleByTag(t *testing.T) {
	f := sound(t)
	f.Source.Rules.Rules[0].Tags = []Tag{{"dr", "yes"}}
	f.Source.Rules.Rules[0].KMSObjects = true
	if found := Judge(f); len(checks(found, Fail)) > 0 {
		t.Errorf("tagged objects that were replicated: %+v", found)
	}
	f.Objects[1].Status, f.Objects[1].InTarget = "", false
	if got := checks(Judge(f), Fail); !slices.Equal(got, []string{"never-replicated", "tag-filter"}) {
		t.Errorf("%v", got)
	}
}

// TestPriority: of two rules to one bucket the one of greater priority decides.
func TestPriority(t *testing.T) {
	f := sound(t)
	plain := f.Source.Rules.Rules[0]
	plain.ID, plain.Priority, plain.KMSObjects = "plain", 2, false
	f.Source.Rules.Rules = append(f.Source.Rules.Rules, plain)
	if got := checks(Judge(f), Fail); !slices.Equal(got, []string{"kms-not-selected"}) {
		t.Errorf("%v", got)
	}
	f.Source.Rules.Rules[1].Priority = 0
	if got := checks(Judge(f), Fail); len(got) > 0 {
		t.Errorf("%v", got)
	}
}

// TestDisabledRule: it is named, and what it would have covered is not.
func TestDisabledRule(t *testing.T) {
	f := sound(t)
	f.Source.Rules.Rules[0].Enabled = false
	found := Judge(f)
	if !slices.Equal(checks(found, Fail), []string{"no-rule"}) || !slices.Contains(checks(found, Warn), "rule-disabled") {
		t.Errorf("%+v", found)
	}
}

func TestKeysAreBounded(t *testing.T) {
	f := sound(t)
	f.Objects = nil
	for i := range 1000 {
		f.Objects = append(f.Objects, Object{Key: fmt.Sprintf("llm/%04d", i)})
	}
	found := Judge(f)
	at := slices.IndexFunc(found, func(x Finding) bool { return x.Check == "never-replicated" })
	if at < 0 || found[at].Count != 1000 || !slices.Equal(found[at].Keys, []string{"llm/0000", "llm/0001", "llm/0002", "llm/0003", "llm/0004"}) || !NeedsBackfill(found) {
		t.Errorf("%+v", found)
	}
}

// TestBackfillRequest compares with the fields of AWS's CreateJob.
func TestBackfillRequest(t *testing.T) {
	got, err := Backfill{Region: "us-east-1", Bucket: "prod-use1", Prefix: "llm/chat/", Report: "drkit-batch/"}.Request()
	if err != nil {
		t.Fatal(err)
	}
	var a, b any
	if err := errors.Join(json.Unmarshal(got, &a), json.Unmarshal([]byte(`{
		"ConfirmationRequired": true, "Priority": 10, "Description": "drkit: replicate what the rules of prod-use1 left behind",
		"Operation": {"S3ReplicateObject": {}},
		"ManifestGenerator": {"S3JobManifestGenerator": {"SourceBucket": "arn:aws:s3:::prod-use1", "EnableManifestOutput": false,
			"Filter": {"EligibleForReplication": true, "ObjectReplicationStatuses": ["NONE", "FAILED"], "KeyNameConstraint": {"MatchAnyPrefix": ["llm/chat/"]}}}},
		"Report": {"Bucket": "arn:aws:s3:::prod-use1", "Prefix": "drkit-batch", "Format": "Report_CSV_20180820", "Enabled": true, "ReportScope": "AllTasks"}}`), &b)); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(a, b) {
		t.Errorf("%s", got)
	}
	if got := (Backfill{Region: "us-east-1"}).Command("my jobs/it's.json"); !strings.HasSuffix(got, ` --cli-input-json 'file://my jobs/it'\''s.json'`) {
		t.Errorf("%s", got)
	}
	if _, err := (Backfill{Bucket: "b"}).Request(); err == nil {
		t.Error("a job without a region")
	}
}
