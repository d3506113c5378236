package advise

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"drkit/internal/errext"
)

func load(t *testing.T, name string) *Configuration {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	c, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestParse: both versions of the format, as AWS documents them.
func TestParse(t *testing.T) {
	want := &Configuration{Role: "arn:aws:iam::111122223333:role/s3-replication", Rules: []Rule{{ID: "models-to-ireland", Priority: 1, Enabled: true, Prefix: "llm/", Bucket: "prod-euw1",
		ReplicaKMSKey: "arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab", KMSObjects: true, TimeControl: true, Metrics: true}}}
	if got := load(t, "v2.json"); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	want = &Configuration{Role: "arn:aws:iam::111122223333:role/s3-replication", Rules: []Rule{{ID: "old", Enabled: true, Prefix: "TaxDocs", Bucket: "prod-cnn1", StorageClass: "STANDARD_IA", DeleteMarkers: true}}}
	if got := load(t, "v1.json"); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// one is a configuration of one rule with fields beside the usual ones.
func one(fields string) string {
	return `{"Rules":[{"ID":"r","Status":"Enabled","Destination":{"Bucket":"arn:aws:s3:::b"}` + fields + `}]}`
}

func TestFilters(t *testing.T) {
	for fields, want := range map[string]Rule{
		``:                          {},
		`,"Filter":{}`:              {},
		`,"Filter":null`:            {},
		`,"Filter":{"Prefix":""}`:   {},
		`,"Filter":{"Prefix":"a/"}`: {Prefix: "a/"},
		`,"Filter":{"Tag":{"Key":"dr","Value":"yes"}}`:                                              {Tags: []Tag{{"dr", "yes"}}},
		`,"Filter":{"And":{"Prefix":"a/","Tags":[{"Key":"x","Value":"1"},{"Key":"y","Value":""}]}}`: {Prefix: "a/", Tags: []Tag{{"x", "1"}, {"y", ""}}},
	} {
		c, err := Parse([]byte(one(fields)))
		if err != nil || c.Rules[0].Prefix != want.Prefix || !reflect.DeepEqual(c.Rules[0].Tags, want.Tags) {
			t.Errorf("%s: %+v, %v", fields, c, err)
		}
	}
}

func TestRulesThatCannotBeRead(t *testing.T) {
	for text, want := range map[string]string{
		``:                                  "no JSON",
		`[]`:                                "no JSON",
		`{}`:                                "no list of Rules",
		`{"ReplicationConfiguration":{}}`:   "no list of Rules",
		`{"Rules":{}}`:                      "cannot be read",
		one(`,"Filter":{"Suffix":".json"}`): "Rules[0]: the Filter",
		one(`,"Filter":{"Prefix":"a","Tag":{"Key":"k","Value":"v"}}`): "more than one of",
		one(`,"Filter":"llm/"`):                                                                  "the Filter",
		one(`,"DeleteMarkerReplication":{"Status":"On"}`):                                        `Status is "On"`,
		`{"Rules":[{"ID":"r","Destination":{"Bucket":"arn:aws:s3:::b"}}]}`:                       `Status is ""`,
		`{"Rules":[{"ID":"r","Status":"Enabled","Destination":{"Bucket":"prod-euw1"}}]}`:         "no ARN",
		`{"Rules":[{"ID":"r","Status":"Enabled","Destination":{"Bucket":"arn:aws:sns:::x:y"}}]}`: "no ARN",
		`<ReplicationConfiguration/>`:                                                            "no JSON",
		`{"Rules":[]}` + strings.Repeat(" ", maxRules):                                           "more than",
	} {
		c, err := Parse([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(errext.Hint(err), "get-bucket-replication") {
			t.Errorf("%.80s: %+v, %v", text, c, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(one(`,"Filter":{"And":{"Prefix":"a"}}`)))
	f.Add([]byte(`{"Rules":[null]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(data)
		if (c == nil) != (err != nil) {
			t.Errorf("%v, %v", c, err)
		}
		c.Carrying("a/")
	})
}

// TestCarrying: which rules act on what lies beneath .drkit/.
func TestCarrying(t *testing.T) {
	rule := func(prefix string, enabled bool, tags ...Tag) Rule {
		return Rule{ID: prefix, Prefix: prefix, Enabled: enabled, Bucket: "b", Tags: tags}
	}
	for name, c := range map[string]struct {
		rule Rule
		want bool
	}{
		"whole bucket":    {rule("", true), true},
		"a folder above":  {rule("llm/", true), true},
		"the same folder": {rule("llm/.drkit/", true), true},
		"a part of it":    {rule("llm/.drkit/us-east-1/", true), true},
		"half a name":     {rule("llm/.dr", true), true},
		"beside it":       {rule("llm/support/", true), false},
		"disabled":        {rule("", false), false},
		"by tag":          {rule("", true, Tag{"dr", "yes"}), false},
	} {
		if got := (&Configuration{Rules: []Rule{c.rule}}).Carrying("llm/.drkit/"); (len(got) == 1) != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := (*Configuration)(nil).Carrying("x"); got != nil {
		t.Errorf("no configuration: %v", got)
	}
}
