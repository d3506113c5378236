package verify_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"drkit/internal/errext"
	"drkit/internal/store/mem"
	"drkit/manifest"
	"drkit/manifest/release"
	"drkit/verify"
)

// TestManifestOfTheCopy: annotations stand outside the release id, so the id alone
// does not show that someone edited them in the target and sealed it again.
func TestManifestOfTheCopy(t *testing.T) {
	built := newRelease(small)
	data, err := manifest.Encode(built)
	if err != nil {
		t.Fatal(err)
	}
	read, err := manifest.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("built", func(t *testing.T) { manifestOfTheCopy(t, built) })
	t.Run("read", func(t *testing.T) { manifestOfTheCopy(t, read) })
}

func manifestOfTheCopy(t *testing.T, m *manifest.Manifest) {
	edited := *m
	edited.Annotations.Tool = "someone else"
	other := newRelease(map[string]string{"model/base/x": "y"})
	encode := func(m *manifest.Manifest) string {
		data, err := manifest.Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for name, c := range map[string]struct {
		stored    string
		published bool
		verdict   verify.Verdict
		says      string
	}{
		"the same":                          {encode(m), true, verify.Match, ""},
		"edited annotations":                {encode(&edited), true, verify.Diverged, "differs from the manifest that the source publishes"},
		"edited, without the source's":      {encode(&edited), false, verify.Match, "its annotations are others"},
		"edited and not sealed":             {strings.Replace(encode(m), `"schema"`, ` "schema"`, 1), false, verify.Diverged, "not the manifest of this release"},
		"of another release":                {encode(other), false, verify.Diverged, "describes release"},
		"with something behind":             {encode(m) + "\n", true, verify.Diverged, ""},
		"edited, the checksum kept":         {strings.Replace(encode(m), `"annotations": {`, `"annotations": { `, 1), false, verify.Diverged, "not the manifest of this release"},
		"cut":                               {encode(m)[:300], true, verify.Diverged, ""},
		"empty":                             {"", true, verify.Diverged, ""},
		"something else of the same length": {strings.Repeat("x", len(encode(m))), true, verify.Diverged, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := mem.New()
			copy := publish(t, m, small, s)
			put(t, s, copy.Prefix+release.ManifestName, c.stored)
			r := mustRelease(t, m, copy, verify.Options{Level: verify.ByContent, Published: c.published})
			for _, g := range r.Gaps {
				if g.Subject == release.ManifestName && (g.Verdict != c.verdict || !strings.Contains(g.Why, c.says)) {
					t.Errorf("%s: %s; want %s: …%s…", g.Verdict, g.Why, c.verdict, c.says)
				}
			}
			if r.Holds() != (c.verdict == verify.Match) {
				t.Errorf("status %v", r.Status())
			}
		})
	}
}

func TestManifestNamesTheLine(t *testing.T) {
	m := newRelease(small)
	s := mem.New()
	copy := publish(t, m, small, s)
	data, _ := manifest.Encode(m)
	lines := strings.SplitAfter(string(data), "\n")
	lines[4] = strings.ToUpper(lines[4])
	put(t, s, copy.Prefix+release.ManifestName, strings.Join(lines, ""))
	r := mustRelease(t, m, copy, verify.Options{})
	if r.Holds() {
		t.Errorf("line 5 is %q", lines[4])
	}
}

func TestCheckCurrent(t *testing.T) {
	m := newRelease(small)
	record := func(region, id string) string {
		return string(release.Current{Schema: release.CurrentSchema, Region: region, Service: "support", Release: id, Generation: 3}.Encode())
	}
	other := strings.Repeat("ab", 32)
	for name, c := range map[string]struct {
		stored string
		fault  error
		status errext.Status
		says   string
	}{
		"names the release":       {record("eu", m.Release), nil, errext.Holds, ""},
		"names another release":   {record("eu", other), nil, errext.Holds, "names release abababababab (generation 3)"},
		"not there":               {"", nil, errext.Holds, "has no CURRENT"},
		"garbage":                 {"garbage", nil, errext.Gate, "not the JSON"},
		"of another region":       {record("us", m.Release), nil, errext.Gate, `belongs to the region "us"`},
		"with a field more":       {strings.Replace(record("eu", m.Release), "{", `{"more": 1,`, 1), nil, errext.Gate, "more"},
		"it may not be looked at": {record("eu", m.Release), errors.New("access denied"), errext.Failed, "access denied"},
	} {
		t.Run(name, func(t *testing.T) {
			s := mem.New()
			r := mustRelease(t, m, publish(t, m, small, mem.New()), verify.Options{Level: verify.ByContent})
			if !r.Holds() {
				t.Fatal(r.Err())
			}
			if c.stored != "" {
				put(t, s, release.CurrentKey("eu", "support"), c.stored)
			}
			s.Fault = func(string, string) error { return c.fault }
			r = verify.CheckCurrent(t.Context(), r, s)
			if said := fmt.Sprint(r.Notes, r.Errors); r.Status() != c.status || !strings.Contains(said, c.says) || (c.says == "") != (said == "[] []") {
				t.Errorf("status %v, says %s", r.Status(), said)
			}
		})
	}
}
