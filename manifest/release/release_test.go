package release_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"drkit/internal/store"
	"drkit/internal/store/dir"
	"drkit/internal/store/mem"
	"drkit/manifest"
	"drkit/manifest/digest"
	"drkit/manifest/release"
)

// newManifest is a release of one file with the given content.
func newManifest(content string) *manifest.Manifest {
	h := digest.NewHasher(int64(len(content)))
	h.Write([]byte(content))
	m := &manifest.Manifest{Schema: manifest.Schema, Service: "support"}
	m.Contents.Files = []manifest.File{{Part: manifest.Model, Path: "base/config.json", Size: h.Size(), Role: manifest.Config, Sums: h.Sums()}}
	m.Release = manifest.ReleaseID(m.Contents)
	return m
}

func encode(t *testing.T, m *manifest.Manifest) string {
	t.Helper()
	data, err := manifest.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestLoad(t *testing.T) {
	m, other := newManifest("a"), newManifest("b")
	key := "support/" + m.Release + "/manifest.json"
	foreign := *m
	foreign.Service = "billing"
	for name, c := range map[string]struct {
		content string
		says    string
	}{
		"the release":               {encode(t, m), ""},
		"another release":           {encode(t, other), "describes release"},
		"of another service":        {encode(t, &foreign), "describes the service"},
		"contents that were edited": {strings.Replace(encode(t, m), `"base/config.json"`, `"base/konfig.json"`, 1), "its contents are release"},
		"cut off":                   {encode(t, m)[:100], "not JSON"},
		"empty":                     {"", "not JSON"},
		"of a later time":           {strings.Replace(encode(t, m), "drkit.manifest/1.0", "drkit.manifest/2.0", 1), "major version"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := release.Load(t.Context(), mem.New().Fill(map[string]string{key: c.content}), "support", m.Release)
			switch {
			case c.says == "" && (err != nil || got.Release != m.Release):
				t.Errorf("%v, %v", got, err)
			case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
				t.Errorf("error %v, want %q", err, c.says)
			}
		})
	}
	if _, err := release.Load(t.Context(), mem.New(), "support", m.Release); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("nothing there: %v", err)
	}
	for _, id := range []string{"", "abc", strings.ToUpper(m.Release), "../" + m.Release} {
		if _, err := release.Load(t.Context(), mem.New(), "support", id); err == nil || errors.Is(err, store.ErrNotFound) {
			t.Errorf("release %q: %v", id, err)
		}
	}
	for _, service := range []string{"", "a/b", "..", ".drkit"} {
		if _, err := release.Load(t.Context(), mem.New(), service, m.Release); err == nil || errors.Is(err, store.ErrNotFound) {
			t.Errorf("service %q: %v", service, err)
		}
	}
}

func TestCurrent(t *testing.T) {
	id := newManifest("a").Release
	const head = `{"schema":"drkit.current/1.0","region":"eu","service":"support","release":"`
	for name, c := range map[string]struct{ content, says string }{
		"sound":             {head + id + `","generation":3}`, ""},
		"of another region": {strings.Replace(head, "eu", "us", 1) + id + `","generation":3}`, `region "us"`},
		"of another service": {strings.Replace(head, "support", "billing", 1) + id + `","generation":3}`,
			`service "billing"`},
		"another schema":       {strings.Replace(head, "1.0", "2.0", 1) + id + `","generation":3}`, "schema"},
		"no release":           {head + `","generation":3}`, "release id"},
		"a path as release":    {head + `../x","generation":3}`, "release id"},
		"no generation":        {head + id + `"}`, "form"},
		"generation 0":         {head + id + `","generation":0}`, "generation is 0"},
		"generation a half":    {head + id + `","generation":0.5}`, "JSON"},
		"an unknown field":     {head + id + `","generation":3,"x":1}`, "JSON"},
		"a field twice":        {head + id + `","generation":3,"generation":4}`, "form"},
		"a field in capitals":  {strings.Replace(head, `"region"`, `"REGION"`, 1) + id + `","generation":3}`, "form"},
		"something follows it": {head + id + `","generation":3}{}`, "follows"},
		"empty":                {"", "JSON"},
		"null":                 {"null", "form"},
		"too large":            {strings.Repeat(" ", 100<<10), "larger"},
	} {
		t.Run(name, func(t *testing.T) {
			s := mem.New().Fill(map[string]string{"eu/support/CURRENT": c.content})
			got, err := release.ReadCurrent(t.Context(), s, "eu", "support")
			switch {
			case c.says == "" && (err != nil || got.Release != id || got.Generation != 3 || got.ETag == ""):
				t.Errorf("%+v, %v", got, err)
			case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || got.Release != ""):
				t.Errorf("%+v, error %v, want %q", got, err, c.says)
			case c.says != "" && errors.Is(err, store.ErrNotFound):
				t.Errorf("%v reads like a region without CURRENT", err)
			}
		})
	}
	if _, err := release.ReadCurrent(t.Context(), mem.New(), "eu", "support"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("none there: %v", err)
	}
}

func TestCurrentRoundTrip(t *testing.T) {
	want := release.Current{Schema: release.CurrentSchema, Region: "eu", Service: "support", Release: newManifest("a").Release, Generation: 12}
	s := mem.New().Fill(map[string]string{release.CurrentKey("eu", "support"): string(want.Encode())})
	got, err := release.ReadCurrent(t.Context(), s, "eu", "support")
	if got.ETag = ""; err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestLoadCurrentWantsTheManifest(t *testing.T) {
	m := newManifest("a")
	c := release.Current{Schema: release.CurrentSchema, Region: "eu", Service: "support", Release: m.Release, Generation: 1}
	state := mem.New().Fill(map[string]string{"eu/support/CURRENT": string(c.Encode())})
	// It must not read like a region without CURRENT.
	if _, _, err := release.LoadCurrent(t.Context(), state, mem.New(), "eu", "support"); err == nil || errors.Is(err, store.ErrNotFound) {
		t.Errorf("error %v", err)
	}
	s := mem.New().Fill(map[string]string{"support/" + m.Release + "/manifest.json": encode(t, m)})
	if _, got, err := release.LoadCurrent(t.Context(), state, s, "eu", "support"); err != nil || got.Release != m.Release {
		t.Errorf("%v, %v", got, err)
	}
}

func TestList(t *testing.T) {
	a, b := newManifest("a"), newManifest("b")
	root := t.TempDir()
	for _, key := range []string{"support/" + a.Release + "/manifest.json", "support/" + b.Release + "/model/x", "support/notes/manifest.json",
		"support/" + b.Release + "/model/manifest.json", ".drkit/support/" + b.Release + "/manifest.json"} {
		os.MkdirAll(filepath.Dir(filepath.Join(root, key)), 0o755)
		os.WriteFile(filepath.Join(root, key), []byte("x"), 0o644)
	}
	ids, err := release.List(t.Context(), dir.Plain(root), "support")
	if err != nil || !slices.Equal(ids, []string{a.Release}) {
		t.Errorf("%v, %v", ids, err)
	}
	if _, err := release.List(t.Context(), dir.Plain(root), ".drkit"); err == nil {
		t.Error("the records were listed as a service")
	}
}

func TestIsRecord(t *testing.T) {
	for below, want := range map[string]bool{"manifest.json": true, "manifest.json.sig": true, "manifest.jsonx": false, "model/manifest.json": false,
		"manifest.json./x": false, "model/base/manifest.json.sig": false, "x": false} {
		if release.IsRecord(below) != want {
			t.Errorf("IsRecord(%q) = %v", below, !want)
		}
	}
}
