package manifest_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"drkit/internal/store/dir"
	"drkit/manifest"
)

// lockAnswer is what a package manager said of a variant; see
// testdata/lockfiles/README.md.
type lockAnswer struct {
	Format, Lockfile   string
	Present            bool
	Readable           *bool
	InStep             *bool `json:"in_step"`
	Pinned, Hashed     *int
	Unpinned, Unhashed []string
	Hosts              []string
}

// unreadLocks are the formats that are recognised only.
var unreadLocks = []string{"npm", "pnpm", "yarn-berry", "yarn-classic"}

// TestLocksOfARelease builds a release with the files of each variant, in a folder
// of their own beside other locks, and compares what the manifest says of the lock.
func TestLocksOfARelease(t *testing.T) {
	const corpus = "../testdata/lockfiles"
	answers, err := filepath.Glob(corpus + "/*/*/expect.json")
	if err != nil || len(answers) < 110 {
		t.Fatalf("%d variants, %v", len(answers), err)
	}
	in := manifest.Input{Model: manifest.Tree{Source: &memory{files: tiny(t)}}}
	want := map[string]lockAnswer{}
	for _, answer := range answers {
		folder := filepath.Dir(answer)
		var a lockAnswer
		data, err := os.ReadFile(answer)
		if err == nil {
			err = json.Unmarshal(data, &a)
		}
		if err != nil {
			t.Fatal(err)
		}
		name, _ := filepath.Rel(corpus, folder)
		want[filepath.ToSlash(name)+"/"+a.Lockfile] = a
		files := dir.New(folder)
		for o, err := range files.List(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			if o.Key != "expect.json" {
				in.DeployFiles = append(in.DeployFiles, manifest.PartFile{Path: filepath.ToSlash(name) + "/" + o.Key, Source: files, Key: o.Key})
			}
		}
	}
	m, _, err := manifest.Build(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]manifest.LockFacts{}
	for _, l := range m.Annotations.Locks {
		got[l.Path] = l
	}
	for _, at := range slices.Sorted(maps.Keys(want)) {
		w := want[at]
		l, there := got[at]
		missing := slices.ContainsFunc(m.Annotations.Problems, func(p manifest.Problem) bool {
			return p.Kind == manifest.KindLockMissing && strings.HasPrefix(p.Path, filepath.Dir(at)+"/")
		})
		switch {
		case there != w.Present:
			t.Errorf("%s: present %v, want %v", at, there, w.Present)
		case !there && !missing:
			t.Errorf("%s: the missing lock was not noticed", at)
		case !there || w.Readable == nil || !*w.Readable || slices.Contains(unreadLocks, w.Format):
			if l.Readable {
				t.Errorf("%s: readable", at)
			}
		case fmt.Sprint(text(l.InStep), l.Pinned, l.Hashed, l.Unpinned.Count, l.Unhashed.Count, l.Hosts) !=
			fmt.Sprint(text(w.InStep), *w.Pinned, *w.Hashed, len(w.Unpinned), len(w.Unhashed), w.Hosts):
			t.Errorf("%s: got %+v (in step: %s)\nwant %+v (in step: %s)", at, l, text(l.InStep), w, text(w.InStep))
		}
	}
}

func text(b *bool) string {
	if b == nil {
		return "unknown"
	}
	return fmt.Sprint(*b)
}
