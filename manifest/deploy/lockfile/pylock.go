package lockfile

import (
	"errors"
	"fmt"
	"strings"
)

// pylock is pylock.toml, version 1 (PEP 751).
type pylock struct {
	Version  string          `toml:"lock-version"`
	Tool     map[string]any  `toml:"tool"`
	Python   string          `toml:"requires-python"`
	By       string          `toml:"created-by"`
	Packages []pylockPackage `toml:"packages"`
}

type pylockPackage struct {
	Name      string       `toml:"name"`
	Version   string       `toml:"version"`
	Index     string       `toml:"index"`
	Sdist     *pylockFile  `toml:"sdist"`
	Wheels    []pylockFile `toml:"wheels"`
	Archive   *pylockFile  `toml:"archive"`
	Directory *struct {
		Path string `toml:"path"`
	} `toml:"directory"`
	VCS *struct {
		URL    string `toml:"url"`
		Path   string `toml:"path"`
		Commit string `toml:"commit-id"`
	} `toml:"vcs"`
}

type pylockFile struct {
	Name   string            `toml:"name"`
	URL    string            `toml:"url"`
	Path   string            `toml:"path"`
	Hashes map[string]string `toml:"hashes"`
}

func readPylock(l *ledger) error {
	var lock pylock
	if err := decodeTOML(l.lock.Data, &lock); err != nil {
		return err
	}
	if lock.Version != "1" && !strings.HasPrefix(lock.Version, "1.") {
		return fmt.Errorf("lock-version is %q; only 1 is known", clip(lock.Version, 20))
	}
	if lock.By == "" {
		return errors.New("created-by, which the format requires, is missing")
	}
	for i, p := range lock.Packages {
		if p.Name == "" {
			return fmt.Errorf("package %d has no name", i+1)
		}
		l.pylockPackage(p)
	}
	l.pylockInStep(lock)
	return nil
}

func (l *ledger) pylockPackage(p pylockPackage) {
	switch {
	case p.Directory != nil:
		if !itself(p.Directory.Path) {
			l.add(entry{name: p.Name, origin: local})
		}
		return
	case p.VCS != nil:
		l.url(p.VCS.URL)
		l.add(entry{name: p.Name, origin: git, pinned: commit.MatchString(p.VCS.Commit)})
		return
	case p.Archive != nil && p.Archive.URL == "":
		l.add(entry{name: p.Name, origin: local})
		return
	}
	l.url(p.Index)
	files := p.files()
	hashed := len(files) > 0
	for _, f := range files {
		l.url(f.URL)
		hashed = hashed && f.hashed()
	}
	if !hashed && len(files) > 0 {
		l.hashesRequired()
	}
	l.add(entry{name: p.Name, pinned: p.Version != "" || len(files) > 0, hashed: hashed})
}

func (l *ledger) hashesRequired() {
	const why = "the format requires hashes: installers call such a lock invalid"
	for _, n := range l.notes {
		if n == why {
			return
		}
	}
	l.note("%s", why)
}

func (p pylockPackage) files() []pylockFile {
	files := append([]pylockFile(nil), p.Wheels...)
	for _, f := range []*pylockFile{p.Sdist, p.Archive} {
		if f != nil {
			files = append(files, *f)
		}
	}
	return files
}

// hashed reports whether one hash of an accepted algorithm is whole.
func (f pylockFile) hashed() bool {
	for algorithm, value := range f.Hashes {
		if strongHash(algorithm + ":" + value) {
			return true
		}
	}
	return false
}

// pylockInStep compares names and versions only: the format holds no record of
// what it was made from, so a requirement that was dropped goes unnoticed.
func (l *ledger) pylockInStep(lock pylock) {
	project, ok := l.readPyproject(".")
	if ok {
		l.uvURLs(project.Tool.UV)
	}
	if !ok || project.Project == nil {
		if ok {
			l.cannotSay("pyproject.toml has no [project]")
		}
		return
	}
	l.judged = true
	locked := versions{}
	for _, p := range lock.Packages {
		locked.add(p.Name, p.Version)
	}
	for _, r := range parseAll(project.Project.Depends) {
		if why := locked.satisfy(r); why != "" {
			l.disagree("%s", why)
		}
	}
	// Extras and groups may be left out on purpose: only a wrong version counts.
	for _, r := range project.required() {
		if _, ok := locked[r.name]; !ok {
			continue
		}
		if why := locked.satisfy(r); why != "" {
			l.disagree("%s", why)
		}
	}
	l.note("pylock.toml holds no record of its manifest: names and versions were compared; a requirement that was dropped would not be noticed")
}
