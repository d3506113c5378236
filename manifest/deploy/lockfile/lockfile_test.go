package lockfile

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const corpus = "../../../testdata/lockfiles"

// unread are the formats that are recognised and hashed, but not read.
var unread = []string{"npm", "pnpm", "yarn-berry", "yarn-classic"}

type expectation struct {
	Format, Lockfile string
	Present          bool
	Readable         *bool
	InStep           *bool `json:"in_step"`
	Pinned           *int
	Unpinned         []string
	Hashed           *int
	Unhashed         []string
	VCS, Local       []string
	Hosts            []string
	ImpliedHosts     []string `json:"implied_hosts"`
}

// TestCorpus reads every variant and compares it with the answer beside it,
// which the package managers' own checks gave (testdata/lockfiles/README.md).
func TestCorpus(t *testing.T) {
	answers, err := filepath.Glob(corpus + "/*/*/expect.json")
	if err != nil || len(answers) < 110 {
		t.Fatalf("%d variants, %v", len(answers), err)
	}
	for _, answer := range answers {
		folder := filepath.Dir(answer)
		name, _ := filepath.Rel(corpus, folder)
		t.Run(filepath.ToSlash(name), func(t *testing.T) {
			var want expectation
			data, err := os.ReadFile(answer)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(data, &want); err != nil {
				t.Fatal(err)
			}
			lock, beside := load(t, folder, want.Lockfile)
			got, problems := Read(lock, beside)
			compare(t, want, got, problems)
			expected(t, want, beside)
		})
	}
}

// load reads a variant's files; the lock's Data stays nil when it is not there.
func load(t *testing.T, folder, lockfile string) (lock File, beside []File) {
	t.Helper()
	lock.Path = lockfile
	err := filepath.WalkDir(folder, func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "expect.json" {
			return err
		}
		data, err := os.ReadFile(at)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, at)
		f := File{Path: filepath.ToSlash(name), Data: data}
		if f.Path == lockfile {
			lock = f
		}
		beside = append(beside, f)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return lock, beside
}

// expected checks that a manifest without its lock is noticed, and none that has
// it. pylock/nolock is made for uv, whose own lock is uv.lock.
func expected(t *testing.T, want expectation, beside []File) {
	t.Helper()
	missing := Expected(beside)
	if want.Present && len(missing) > 0 && want.Format != "pylock" {
		t.Errorf("said to be missing: %+v", missing)
	}
	found := slices.ContainsFunc(missing, func(m Missing) bool {
		return m.Lock == want.Lockfile || slices.Contains(m.Others, want.Lockfile)
	})
	if !want.Present && !found {
		t.Errorf("the missing lock was not noticed: %+v", missing)
	}
}

func compare(t *testing.T, want expectation, got Facts, problems []Problem) {
	t.Helper()
	if got.Format != want.Format || got.Present != want.Present {
		t.Fatalf("format %s, present %v", got.Format, got.Present)
	}
	if slices.Contains(unread, want.Format) {
		if want.Present && (got.Readable || !has(problems, KindUnread)) {
			t.Errorf("not said to be unread: %+v %+v", got, problems)
		}
		return
	}
	if want.Readable == nil || !*want.Readable {
		if got.Readable || got.Present != has(problems, KindSyntax) {
			t.Errorf("readable %v, problems %+v", got.Readable, problems)
		}
		return
	}
	if !got.Readable {
		t.Fatalf("not readable: %+v", problems)
	}
	if word(got.InStep) != word(want.InStep) {
		t.Errorf("in step: %s, want %s; %s %+v", word(got.InStep), word(want.InStep), got.Note, problems)
	}
	if got.Pinned != *want.Pinned || got.Hashed != *want.Hashed {
		t.Errorf("%d pinned, %d hashed; want %d, %d", got.Pinned, got.Hashed, *want.Pinned, *want.Hashed)
	}
	for _, list := range []struct {
		what      string
		got, want []string
	}{
		{"unpinned", got.Unpinned, want.Unpinned}, {"unhashed", got.Unhashed, want.Unhashed},
		{"vcs", got.VCS, want.VCS}, {"local", got.Local, want.Local},
		{"hosts", got.Hosts, want.Hosts}, {"implied hosts", got.ImpliedHosts, want.ImpliedHosts},
	} {
		if !slices.Equal(list.got, list.want) {
			t.Errorf("%s: %v, want %v", list.what, list.got, list.want)
		}
	}
	consistent(t, got, problems)
}

// consistent checks that each fact that a person should know has its problem.
func consistent(t *testing.T, got Facts, problems []Problem) {
	t.Helper()
	stale := got.InStep != nil && !*got.InStep
	for _, c := range []struct {
		kind string
		want bool
	}{
		{KindUnpinned, len(got.Unpinned) > 0}, {KindUnhashed, len(got.Unhashed) > 0},
		{KindStale, stale && !has(problems, KindLeftover)},
	} {
		if has(problems, c.kind) != c.want {
			t.Errorf("problem %s: %v, want %v", c.kind, !c.want, c.want)
		}
	}
}

func word(b *bool) string {
	switch {
	case b == nil:
		return "unknown"
	case *b:
		return "yes"
	}
	return "no"
}

func has(problems []Problem, kind string) bool {
	return slices.ContainsFunc(problems, func(p Problem) bool { return p.Kind == kind })
}

func whats(problems []Problem) string {
	var b strings.Builder
	for _, p := range problems {
		b.WriteString(p.Kind + ": " + p.What + "\n")
	}
	return b.String()
}
