package lockfile

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// uvLock is uv.lock, version 1 (uv 0.4 and later).
type uvLock struct {
	Version   int            `toml:"version"`
	Python    string         `toml:"requires-python"`
	Markers   []string       `toml:"supported-markers"`
	Options   map[string]any `toml:"options"`
	Manifest  uvManifest     `toml:"manifest"`
	Packages  []uvPackage    `toml:"package"`
	Conflicts []any          `toml:"conflicts"`
}

type uvManifest struct {
	Members      []string            `toml:"members"`
	Requirements []uvNeed            `toml:"requirements"`
	Constraints  []uvNeed            `toml:"constraints"`
	Overrides    []uvNeed            `toml:"overrides"`
	Groups       map[string][]uvNeed `toml:"dependency-groups"`
}

type uvPackage struct {
	Name     string              `toml:"name"`
	Version  string              `toml:"version"`
	Source   map[string]any      `toml:"source"`
	Sdist    *uvFile             `toml:"sdist"`
	Wheels   []uvFile            `toml:"wheels"`
	Depends  []uvEdge            `toml:"dependencies"`
	Optional map[string][]uvEdge `toml:"optional-dependencies"`
	Dev      map[string][]uvEdge `toml:"dev-dependencies"`
	Metadata *uvMetadata         `toml:"metadata"`
}

type uvFile struct {
	URL  string `toml:"url"`
	Path string `toml:"path"`
	Hash string `toml:"hash"`
}

type uvEdge struct {
	Name string `toml:"name"`
}

type uvMetadata struct {
	Dist     []uvNeed            `toml:"requires-dist"`
	Dev      map[string][]uvNeed `toml:"requires-dev"`
	Provides []string            `toml:"provides-extras"`
}

// uvNeed is a requirement as uv copies it from the manifest into the lock.
type uvNeed struct {
	Name      string   `toml:"name"`
	Extras    []string `toml:"extras"`
	Spec      string   `toml:"specifier"`
	Marker    string   `toml:"marker"`
	Index     string   `toml:"index"`
	Git       string   `toml:"git"`
	URL       string   `toml:"url"`
	Path      string   `toml:"path"`
	Directory string   `toml:"directory"`
	Editable  string   `toml:"editable"`
	Virtual   string   `toml:"virtual"`
}

// uvLocal are the keys of a source that is a path.
var uvLocal = []string{"path", "directory", "editable", "virtual"}

func readUV(l *ledger) error {
	var lock uvLock
	if err := decodeTOML(l.lock.Data, &lock); err != nil {
		return err
	}
	if lock.Version != 1 {
		return fmt.Errorf("it has version %d; only version 1 is known", lock.Version)
	}
	for i, p := range lock.Packages {
		if err := l.uvPackage(p); err != nil {
			return fmt.Errorf("package %d: %w", i+1, err)
		}
	}
	if err := lock.closed(); err != nil {
		return err
	}
	l.uvInStep(lock)
	return nil
}

// closed checks that whatever a package depends on is locked, too: uv refuses a
// lock that was cut between two entries, or merged badly.
func (lock uvLock) closed() error {
	locked := map[string]bool{}
	for _, p := range lock.Packages {
		locked[normal(p.Name)] = true
	}
	for _, p := range lock.Packages {
		for _, name := range p.edges() {
			if !locked[normal(name)] {
				return fmt.Errorf("%s depends on %s, which is not locked", clip(p.Name, 80), clip(name, 80))
			}
		}
	}
	return nil
}

// uvPackage counts one package. The project itself lies at "." and is no entry.
func (l *ledger) uvPackage(p uvPackage) error {
	if p.Name == "" || len(p.Source) == 0 {
		return errors.New("name or source is missing")
	}
	e := entry{name: p.Name, pinned: p.Version != "", hashed: p.hashed()}
	for _, key := range uvLocal {
		if at, ok := p.Source[key].(string); ok {
			if !itself(at) {
				l.add(entry{name: p.Name, origin: local})
			}
			return nil
		}
	}
	if at := text(p.Source, "git"); at != "" {
		base, fragment, _ := strings.Cut(at, "#")
		l.url(base)
		l.add(entry{name: p.Name, origin: git, pinned: commit.MatchString(fragment)})
		return nil
	}
	if at := text(p.Source, "url"); at != "" {
		l.url(at)
		e.pinned = true
	}
	l.url(text(p.Source, "registry"))
	for _, f := range p.files() {
		l.url(f.URL)
	}
	l.add(e)
	return nil
}

func (p uvPackage) files() []uvFile {
	files := p.Wheels
	if p.Sdist != nil {
		files = append(slices.Clone(files), *p.Sdist)
	}
	return files
}

func (p uvPackage) hashed() bool {
	files := p.files()
	for _, f := range files {
		if !strongHash(f.Hash) {
			return false
		}
	}
	return len(files) > 0
}

// root is the path of a local package relative to the lock.
func (p uvPackage) root() (string, bool) {
	for _, key := range uvLocal {
		if at, ok := p.Source[key].(string); ok && !archive.MatchString(at) {
			return path.Clean(at), true
		}
	}
	return "", false
}

// edges are the names of all packages that a package depends on.
func (p uvPackage) edges() []string {
	var out []string
	for _, list := range append(slices.Collect(maps.Values(p.Optional)), append(slices.Collect(maps.Values(p.Dev)), p.Depends)...) {
		for _, e := range list {
			out = append(out, e.Name)
		}
	}
	return out
}

// archive matches the name of a Python distribution file.
var archive = regexp.MustCompile(`\.(whl|zip|tar\.gz|tgz|tar\.bz2|tar\.xz|tar|egg)$`)
