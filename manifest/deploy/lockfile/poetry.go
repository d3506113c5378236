package lockfile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// poetryLock is poetry.lock, versions 1 and 2.
type poetryLock struct {
	Packages []poetryPackage `toml:"package"`
	Metadata *struct {
		LockVersion string                  `toml:"lock-version"`
		ContentHash string                  `toml:"content-hash"`
		Files       map[string][]poetryFile `toml:"files"`  // until 1.2 they stood here
		Hashes      map[string][]string     `toml:"hashes"` // until 1.0
	} `toml:"metadata"`
}

type poetryPackage struct {
	Name    string       `toml:"name"`
	Version string       `toml:"version"`
	Files   []poetryFile `toml:"files"`
	Source  *struct {
		Type     string `toml:"type"`
		URL      string `toml:"url"`
		Resolved string `toml:"resolved_reference"`
	} `toml:"source"`
}

type poetryFile struct {
	File string `toml:"file"`
	URL  string `toml:"url"`
	Hash string `toml:"hash"`
}

func readPoetry(l *ledger) error {
	var lock poetryLock
	if err := decodeTOML(l.lock.Data, &lock); err != nil {
		return err
	}
	if lock.Metadata == nil {
		return errors.New("[metadata], which ends every poetry.lock, is missing")
	}
	if v := lock.Metadata.LockVersion; v != "" && !strings.HasPrefix(v, "1.") && !strings.HasPrefix(v, "2.") {
		return fmt.Errorf("it has lock-version %s; only 1 and 2 are known", clip(v, 20))
	}
	for i, p := range lock.Packages {
		if p.Name == "" || p.Version == "" {
			return fmt.Errorf("package %d has no name or no version", i+1)
		}
		if len(p.Files) == 0 {
			p.Files = lock.olderFiles(p.Name)
		}
		l.poetryPackage(p)
	}
	l.poetryInStep(lock)
	return nil
}

func (lock poetryLock) olderFiles(name string) []poetryFile {
	var out []poetryFile
	for key, files := range lock.Metadata.Files {
		if normal(key) == normal(name) {
			out = append(out, files...)
		}
	}
	for key, hashes := range lock.Metadata.Hashes {
		if normal(key) == normal(name) {
			for _, h := range hashes {
				out = append(out, poetryFile{Hash: "sha256:" + h})
			}
		}
	}
	return out
}

func (l *ledger) poetryPackage(p poetryPackage) {
	e := entry{name: p.Name, pinned: true, hashed: len(p.Files) > 0}
	for _, f := range p.Files {
		e.hashed = e.hashed && strongHash(f.Hash)
		l.url(f.URL)
	}
	if s := p.Source; s != nil {
		switch s.Type {
		case "directory", "file":
			e = entry{name: p.Name, origin: local}
		case "git":
			e = entry{name: p.Name, origin: git, pinned: commit.MatchString(s.Resolved)}
			l.url(s.URL)
		default: // legacy: an index; url: one file
			l.url(s.URL)
		}
	}
	l.add(e)
}

// poetryInStep compares the content hash, as `poetry check --lock` does. It
// covers the text of the requirements: a space more makes the lock stale.
func (l *ledger) poetryInStep(lock poetryLock) {
	f, ok := l.near("pyproject.toml")
	raw := map[string]any{}
	switch {
	case !ok:
		l.cannotSay("pyproject.toml is not at hand")
	case decodeTOML(trimBOM(f.Data), &raw) != nil:
		l.cannotSay("pyproject.toml cannot be read")
		ok = false
	case lock.Metadata.ContentHash == "":
		l.cannotSay("the lock has no content-hash")
	default:
		l.poetryCompare(lock.Metadata.ContentHash, raw)
	}
	l.poetryHosts(raw, ok)
}

func (l *ledger) poetryCompare(recorded string, raw map[string]any) {
	all, err := poetryHash(raw, true)
	if err != nil {
		l.cannotSay("pyproject.toml holds %v", err)
		return
	}
	older, _ := poetryHash(raw, false)
	l.judged = true
	if recorded != all && (recorded != older || !olderPoetry(l.lock.Data)) {
		l.disagree("the content-hash is that of other requirements than those of pyproject.toml")
	}
}

var poetryVersion = regexp.MustCompile(`Poetry (\d+)\.(\d+)`)

// olderPoetry reports whether a Poetry before 2.3 wrote the lock: its content
// hash left out dependency groups.
func olderPoetry(lock []byte) bool {
	line, _, _ := strings.Cut(string(lock[:min(len(lock), 200)]), "\n")
	m := poetryVersion.FindStringSubmatch(line)
	if m == nil {
		return false
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	return major < 2 || major == 2 && minor < 3
}

// poetryHash is Poetry's content hash: SHA-256 over the JSON of the keys that
// matter (Poetry 2.5.1, packages/locker.py).
func poetryHash(raw map[string]any, groups bool) (string, error) {
	project := pick(table(raw, "project"), "requires-python", "dependencies", "optional-dependencies")
	group := table(raw, "dependency-groups")
	if !groups {
		group = nil
	}
	poetry := pick(table(table(raw, "tool"), "poetry"), "dependencies", "source", "extras", "dev-dependencies", "group")
	content := map[string]any{}
	if len(project) > 0 {
		content["project"] = project
	}
	if len(group) > 0 {
		content["dependency-groups"] = group
	}
	if len(content) > 0 {
		content["tool"] = map[string]any{"poetry": poetry}
	} else {
		for _, key := range []string{"dependencies", "source", "extras", "dev-dependencies"} {
			if _, ok := poetry[key]; !ok {
				poetry[key] = nil // the form before [project] wrote null for them
			}
		}
		content = poetry
	}
	return hashJSON(content, ", ", ": ")
}

func pick(from map[string]any, keys ...string) map[string]any {
	out := map[string]any{}
	for _, k := range keys {
		if v, ok := from[k]; ok {
			out[k] = v
		}
	}
	return out
}

func hashJSON(v any, item, key string) (string, error) {
	text, err := pythonJSON(v, item, key)
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:]), err
}

// poetryHosts notes the sources of pyproject.toml. PyPI is used unless a primary
// source takes its place.
func (l *ledger) poetryHosts(raw map[string]any, known bool) {
	pypi := true
	poetry := table(table(raw, "tool"), "poetry")
	for _, s := range tables(poetry["source"]) {
		l.url(text(s, "url"))
		priority := strings.ToLower(text(s, "priority"))
		if strings.EqualFold(text(s, "name"), "pypi") {
			l.imply("pypi.org", "files.pythonhosted.org")
		} else if secondary, _ := s["secondary"].(bool); (priority == "" || priority == "primary" || priority == "default") && !secondary {
			pypi = false
		}
	}
	if pypi {
		l.imply("pypi.org", "files.pythonhosted.org")
	}
	l.poetryURLs(poetry)
	if known {
		var p pyproject
		if f, ok := l.near("pyproject.toml"); ok && decodeTOML(trimBOM(f.Data), &p) == nil {
			l.projectURLs(p)
		}
	}
}

// poetryURLs notes git and file URLs in Poetry's own dependency tables.
func (l *ledger) poetryURLs(poetry map[string]any) {
	lists := []map[string]any{table(poetry, "dependencies"), table(poetry, "dev-dependencies")}
	groups := table(poetry, "group")
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		lists = append(lists, table(table(groups, name), "dependencies"))
	}
	for _, depends := range lists {
		for _, name := range slices.Sorted(maps.Keys(depends)) {
			for _, one := range sourceTables(depends[name]) {
				l.url(text(one, "git"))
				l.url(text(one, "url"))
			}
		}
	}
}
