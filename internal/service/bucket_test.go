package service

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"drkit/internal/errext"
)

func location(t *testing.T, raw string) Location {
	t.Helper()
	var l Location
	if err := l.UnmarshalText([]byte(raw)); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return l
}

func TestOptionsOfABucketInItsURL(t *testing.T) {
	raw := "s3://models/a b+c/?endpoint=http://127.0.0.1:7070&path_style=true&profile=dr&region=eu-west-1&checksums=when-required&requester_pays=true&kms_key=k&assume_role=r"
	l := location(t, raw)
	want := S3{Endpoint: "http://127.0.0.1:7070", PathStyle: true, Profile: "dr", Region: "eu-west-1", Checksums: "when-required", RequesterPays: true, KMSKey: "k", AssumeRole: "r"}
	if l.S3 != want || l.Path != "models/a b+c" || l.String() != "s3://models/a b+c" {
		t.Errorf("%+v", l)
	}
	if again := location(t, l.URL()); again.S3 != want || again.Path != l.Path {
		t.Errorf("%s reads back as %+v", l.URL(), again)
	}
	if below := l.Join(".drkit"); location(t, below.Raw).S3 != want || below.Path != "models/a b+c/.drkit" {
		t.Errorf("joined: %+v", below)
	}
	for raw, what := range map[string]string{
		"s3://b1b/x?endpoint=ftp://host":            "endpoint",
		"s3://b1b/x?endpoint=http://user:word@host": "endpoint",
		"s3://b1b/x?path_style=yes":                 "path_style",
		"s3://b1b/x?checksums=never":                "checksums",
		"s3://b1b/x?region=a&region=b":              "twice",
		"s3://b1b/x?secret=hunter2":                 `"secret"`,
		"s3://b1b/x?a;b":                            "query",
		"s3://b1b/x#part":                           "fragment",
		"hf://org/name?endpoint=x":                  "query",
	} {
		var l Location
		err := l.UnmarshalText([]byte(raw))
		if err == nil || !strings.Contains(err.Error(), what) || strings.Contains(err.Error()+errext.Hint(err), "word") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

// Buckets of one name behind two endpoints are two places.
func TestEndpointsTellBucketsApart(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"s3://llm/x?endpoint=http://us:9000", "s3://llm/x?endpoint=http://eu:9000", false},
		{"s3://llm/x?endpoint=http://us:9000", "s3://llm/x/y?endpoint=http://US:9000/", true},
		{"s3://llm/x?endpoint=http://127.0.0.1:9000", "s3://llm/x?endpoint=http://localhost:9000", true},
		{"s3://llm/x?endpoint=http://127.0.0.2:9000", "s3://llm/x?endpoint=http://[::1]:9000", true},
		{"s3://llm/x?endpoint=https://s3.example", "s3://llm/x?endpoint=https://s3.example.:443", true},
		{"s3://llm/x?endpoint=https://s3.example", "s3://llm/x?endpoint=http://s3.example", false},
		{"s3://llm/x", "s3://llm/x/y?endpoint=https://s3.eu-west-1.amazonaws.com", true},
		{"s3://llm/x", "s3://llm/x?endpoint=http://eu:9000", false},
	} {
		if a, b := location(t, c.a), location(t, c.b); a.holds(b) != c.want {
			t.Errorf("%s holds %s: %v", c.a, c.b, !c.want)
		}
	}
}

const inBuckets = `apiVersion: drkit/v1
kind: Service
metadata: {name: support}
model: {source: ./m}
`

func TestRegionsOptionsReachStoreAndState(t *testing.T) {
	s, err := Parse([]byte(inBuckets+`regions:
  - {name: us, role: source, store: s3://llm/x, s3: {endpoint: "http://us:9000"}}
  - {name: eu, role: target, store: s3://llm/x, state: s3://llm-state/, s3: {endpoint: "http://eu:9000", profile: dr}}
  - {name: ap, role: target, store: "s3://llm/x?endpoint=http://ap:9000"}
`), "drkit.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"http://us:9000", "http://eu:9000", "http://ap:9000"} {
		if r := s.Regions[i]; r.Store.S3.Endpoint != want || r.State.S3.Endpoint != want || r.State.S3.Profile != r.S3.Profile {
			t.Errorf("%s: store %+v, state %+v", r.Name, r.Store, r.State)
		}
	}
	_, err = Parse([]byte(inBuckets+`regions:
  - {name: us, role: source, store: "s3://llm/x?endpoint=http://us:9000", s3: {profile: dr}}
`), "drkit.yaml")
	if err == nil || !strings.Contains(err.Error(), "options too") {
		t.Errorf("options in two places: %v", err)
	}
}

// TestTheDocumentOfBuckets: its example is read as it stands, and its table has
// the options that there are.
func TestTheDocumentOfBuckets(t *testing.T) {
	data, err := os.ReadFile("../../docs/s3.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	_, example, _ := strings.Cut(page, "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	if s, err := Parse([]byte(inBuckets+example), "drkit.yaml"); err != nil || s.Regions[1].Store.S3.Profile != "dr" {
		t.Errorf("the example: %v", err)
	}
	_, table, _ := strings.Cut(page, "| option |")
	table, _, _ = strings.Cut(table, "\n\n")
	typ := reflect.TypeFor[S3]()
	for i := range typ.NumField() {
		key := typ.Field(i).Tag.Get("yaml")
		if !strings.Contains(table, "\n| `"+key+"` |") {
			t.Errorf("docs/s3.md does not have %s", key)
		}
		var o S3
		if err := o.set(key, map[string]string{"endpoint": "http://x", "checksums": "auto", "path_style": "true", "requester_pays": "true"}[key]); err != nil {
			t.Errorf("a URL does not take %s: %v", key, err)
		}
	}
	if n := strings.Count(table, "\n| `"); n != typ.NumField() {
		t.Errorf("the table has %d options, there are %d", n, typ.NumField())
	}
	for line := range strings.SplitSeq(page, "\n") {
		command, ok := strings.CutPrefix(line, "    drkit verify ")
		if !ok {
			continue
		}
		for place := range strings.FieldsSeq(command) {
			location(t, strings.Trim(place, "'"))
		}
	}
}
