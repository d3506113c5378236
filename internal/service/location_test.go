package service

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"drkit/internal/errext"
)

func TestLocation(t *testing.T) {
	for _, c := range []struct{ raw, scheme, path, wrong string }{
		{"models/llama", SchemeFile, "/srv/models/llama", ""},
		{"../shared", SchemeFile, "/shared", ""},
		{"/abs/./x/", SchemeFile, "/abs/x", ""},
		{"file:///abs/a%20b", SchemeFile, "/abs/a b", ""},
		{"file://localhost/abs", SchemeFile, "/abs", ""},
		{"a:b", SchemeFile, "/srv/a:b", ""},
		{"s3://bucket", SchemeS3, "bucket", ""},
		{"s3://bucket/a/b/", SchemeS3, "bucket/a/b", ""},
		{"hf://org/name@main", SchemeHF, "org/name@main", ""},
		{"hf://org/name", SchemeHF, "org/name", ""},
		{"", "", "", "empty"},
		{"file://relative/path", "", "", "not a file URL"},
		{"s3:bucket/a", "", "", "half a URL"},
		{"s3:/bucket/a", "", "", "half a URL"},
		{"s3://", "", "", "bucket"},
		{"s3://B!/x", "", "", "bucket"},
		{"s3://bucket/a/../b", "", "", "elements"},
		{"s3://bucket/a?versionId=1", "", "", "query"},
		{"s3://key:word@bucket/a", "", "", "credentials"},
		{"hf://name", "", "", "hub"},
		{"hf://a/../b", "", "", "hub"},
		{"oci://registry/x", "", "", "oci:// is not supported"},
		{"gs://bucket", "", "", "gs:// is not supported"},
		{"https://host/x", "", "", "https:// is not supported"},
	} {
		var l Location
		err := l.UnmarshalText([]byte(c.raw))
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%q: error %v, want one about %q", c.raw, err, c.wrong)
			}
			continue
		}
		l.resolve("/srv")
		if err != nil || l.Raw != c.raw || l.Scheme != c.scheme || filepath.ToSlash(l.Path) != c.path {
			t.Errorf("%q: %+v %v", c.raw, l, err)
		}
	}
}

func TestLocationHolds(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"/a", "/a", true}, {"/a", "/a/b", true}, {"/a", "/ab", false}, {"/a/b", "/a", false}, {"/", "/a", true},
		{"s3://bkt/x", "s3://bkt/x/y", true}, {"s3://bkt/x", "s3://bkt/xy", false}, {"s3://bkt/x", "/bkt/x", false},
	} {
		var a, b Location
		if err := a.UnmarshalText([]byte(c.a)); err != nil {
			t.Fatal(err)
		}
		if err := b.UnmarshalText([]byte(c.b)); err != nil {
			t.Fatal(err)
		}
		if a.holds(b) != c.want {
			t.Errorf("%s holds %s: %v", c.a, c.b, !c.want)
		}
	}
}

func TestDate(t *testing.T) {
	for text, want := range map[string]string{
		"2026-12-31":                "2026-12-31T23:59:59.999999999Z",
		"2026-12-31T10:00:00+02:00": "2026-12-31T08:00:00Z",
		"2026-02-30":                "",
		"31.12.2026":                "",
	} {
		var d Date
		err := d.UnmarshalText([]byte(text))
		if (err == nil) != (want != "") || err == nil && d.Format(time.RFC3339Nano) != want {
			t.Errorf("%s: %v %v", text, d, err)
		}
		if err != nil && errext.Hint(err) == "" {
			t.Errorf("%s: no hint", text)
		}
	}
}
