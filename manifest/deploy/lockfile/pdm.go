package lockfile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// pdmLock is pdm.lock, format version 4.
type pdmLock struct {
	Packages []pdmPackage `toml:"package"`
	Metadata *struct {
		LockVersion string         `toml:"lock_version"`
		ContentHash string         `toml:"content_hash"`
		Inputs      map[string]any `toml:"lock_inputs"`
		Files       map[string]any `toml:"files"` // until 4.3 they stood here
	} `toml:"metadata"`
}

type pdmPackage struct {
	Name     string           `toml:"name"`
	Version  string           `toml:"version"`
	Files    []map[string]any `toml:"files"`
	Path     string           `toml:"path"`
	URL      string           `toml:"url"`
	Git      string           `toml:"git"`
	Revision string           `toml:"revision"`
}

func readPDM(l *ledger) error {
	var lock pdmLock
	if err := decodeTOML(l.lock.Data, &lock); err != nil {
		return err
	}
	if lock.Metadata == nil {
		return errors.New("[metadata] is missing")
	}
	if major, _, _ := strings.Cut(lock.Metadata.LockVersion, "."); len(major) > 1 || major > "4" {
		return fmt.Errorf("lock_version is %.20s, newer than the version 4 that is read here", lock.Metadata.LockVersion)
	}
	for i, p := range lock.Packages {
		if p.Name == "" {
			return fmt.Errorf("package %d has no name", i+1)
		}
		if len(p.Files) == 0 {
			p.Files = tables(lock.Metadata.Files[p.Name+" "+p.Version])
		}
		l.pdmPackage(p)
	}
	l.pdmManifest(lock)
	return nil
}

func (l *ledger) pdmPackage(p pdmPackage) {
	e := entry{name: p.Name, pinned: p.Version != "" || p.URL != "", hashed: len(p.Files) > 0}
	for _, f := range p.Files {
		e.hashed = e.hashed && strongHash(text(f, "hash"))
		l.url(text(f, "url"))
	}
	switch {
	case itself(p.Path):
		return
	case p.Path != "":
		e = entry{name: p.Name, origin: local}
	case p.Git != "":
		e = entry{name: p.Name, origin: git, pinned: commit.MatchString(p.Revision)}
		l.url(p.Git)
	case p.URL != "":
		l.url(p.URL)
	}
	l.add(e)
}

func (l *ledger) pdmManifest(lock pdmLock) {
	f, ok := l.near("pyproject.toml")
	raw := map[string]any{}
	switch {
	case !ok:
		l.cannotSay("pyproject.toml is not at hand")
	case decodeTOML(trimBOM(f.Data), &raw) != nil:
		l.cannotSay("pyproject.toml cannot be read")
		raw, ok = map[string]any{}, false
	default:
		l.pdmInStep(lock, raw)
	}
	l.pdmHosts(raw)
	if ok {
		var p pyproject
		if decodeTOML(trimBOM(f.Data), &p) == nil {
			l.projectURLs(p)
		}
	}
}

// pdmInStep compares the content hash, as `pdm lock --check` does.
func (l *ledger) pdmInStep(lock pdmLock, raw map[string]any) {
	l.pdmBounds(lock, raw)
	if lock.Metadata.Inputs != nil {
		l.cannotSay("the lock records its inputs in a form that only pdm can compute")
		return
	}
	algorithm, recorded, _ := strings.Cut(lock.Metadata.ContentHash, ":")
	if algorithm != "sha256" || recorded == "" {
		l.cannotSay("the lock has no content_hash")
		return
	}
	if _, ok := raw["project"]; !ok {
		l.cannotSay("pdm converts a pyproject.toml without [project] first")
		return
	}
	sum, err := l.pdmHash(raw)
	if err != nil {
		l.cannotSay("pyproject.toml holds %v", err)
		return
	}
	l.judged = true
	if sum != recorded {
		l.disagree("the content_hash is that of other requirements than those of pyproject.toml")
	}
}

// pdmBounds tells what is required and not locked, which no hash can excuse.
func (l *ledger) pdmBounds(lock pdmLock, raw map[string]any) {
	locked := versions{}
	for _, p := range lock.Packages {
		locked.add(p.Name, p.Version)
	}
	depends, _ := table(raw, "project")["dependencies"].([]any)
	for _, r := range parseAll(texts(depends)) {
		if why := locked.satisfy(r); why != "" {
			l.disagree("%s", why)
		}
	}
}

// pdmHash is pdm's content hash; a workspace's root adds those of its members
// (pdm 2.29.4, project/project_file.py and workspace.py).
func (l *ledger) pdmHash(raw map[string]any) (string, error) {
	root, err := pdmProjectHash(raw)
	members := l.pdmMembers(raw)
	if err != nil || members == nil {
		return root, err
	}
	h := sha256.New()
	h.Write([]byte(root))
	for _, folder := range members {
		f, _ := l.near(folder + "/pyproject.toml")
		member := map[string]any{}
		if err := decodeTOML(trimBOM(f.Data), &member); err != nil {
			return "", fmt.Errorf("a workspace member that cannot be read: %s", folder)
		}
		sum, err := pdmProjectHash(member)
		if err != nil {
			return "", err
		}
		h.Write([]byte("\x00" + folder + "\x00" + sum))
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// pdmMembers are the folders of a workspace's members, or nil.
func (l *ledger) pdmMembers(raw map[string]any) []string {
	workspace := table(table(table(raw, "tool"), "pdm"), "workspace")
	if workspace == nil {
		return nil
	}
	list, _ := workspace["members"].([]any)
	exclude, _ := workspace["exclude"].([]any)
	out := []string{}
	for at := range l.files {
		folder, ok := below(path.Dir(l.lock.Path), path.Dir(at))
		if path.Base(at) == "pyproject.toml" && ok && folder != "." && matchAny(texts(list), folder) && !matchAny(texts(exclude), folder) {
			out = append(out, folder)
		}
	}
	slices.Sort(out)
	return out
}

func pdmProjectHash(raw map[string]any) (string, error) {
	project, settings := table(raw, "project"), table(table(raw, "tool"), "pdm")
	dev := map[string]any{}
	for _, groups := range []map[string]any{table(raw, "dependency-groups"), table(settings, "dev-dependencies")} {
		for _, name := range slices.Sorted(maps.Keys(groups)) {
			had, _ := dev[normal(name)].([]any)
			more, _ := groups[name].([]any)
			dev[normal(name)] = slices.Concat(had, more)
		}
	}
	return hashJSON(map[string]any{
		"sources":               given(settings, "source", []any{}),
		"dependencies":          given(project, "dependencies", []any{}),
		"dev-dependencies":      dev,
		"optional-dependencies": given(project, "optional-dependencies", map[string]any{}),
		"requires-python":       given(project, "requires-python", ""),
		"resolution":            given(settings, "resolution", map[string]any{}),
	}, ", ", ": ")
}

func given(from map[string]any, key string, otherwise any) any {
	if v, ok := from[key]; ok {
		return v
	}
	return otherwise
}

// pdmHosts notes the sources of pyproject.toml and pdm.toml. PyPI is used unless
// one of them is called pypi or takes its place.
func (l *ledger) pdmHosts(raw map[string]any) {
	pypi := true
	settings := table(table(raw, "tool"), "pdm")
	for _, s := range tables(settings["source"]) {
		l.url(text(s, "url"))
		if strings.EqualFold(text(s, "name"), "pypi") {
			pypi = false
		}
	}
	if f, ok := l.near("pdm.toml"); ok {
		config := map[string]any{}
		if decodeTOML(trimBOM(f.Data), &config) == nil {
			if u := text(table(config, "pypi"), "url"); u != "" {
				l.url(u)
				pypi = false
			}
		}
	}
	if pypi {
		l.imply("pypi.org")
	}
	if pypi || slices.Contains(l.facts.Hosts, "pypi.org") {
		l.imply("files.pythonhosted.org")
	}
}
