package lockfile

import (
	"errors"
	"maps"
	"slices"
	"strings"
)

// pipfileLock is Pipfile.lock, specification 6: sections by category beside
// _meta.
type pipfileLock map[string]map[string]any

func readPipenv(l *ledger) error {
	var lock pipfileLock
	if err := decodeJSON(l.lock.Data, &lock); err != nil {
		return err
	}
	meta, ok := lock["_meta"]
	if !ok {
		return errors.New("_meta is missing")
	}
	l.pipfileSources(meta["sources"])
	seen := map[string]bool{}
	for _, section := range slices.Sorted(maps.Keys(lock)) {
		if section == "_meta" {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(lock[section])) {
			e, ok := lock[section][name].(map[string]any)
			if !ok {
				return errors.New("an entry of " + clip(section, 40) + " is no object")
			}
			if key := normal(name) + " " + text(e, "version") + text(e, "ref"); !seen[key] {
				seen[key] = true
				l.pipfileEntry(name, e)
			}
		}
	}
	l.pipfileInStep(text(table(meta, "hash"), "sha256"))
	return nil
}

func (l *ledger) pipfileEntry(name string, e map[string]any) {
	switch {
	case itself(text(e, "path")): // the project itself
	case text(e, "path") != "" || strings.HasPrefix(text(e, "file"), ".") || strings.HasPrefix(text(e, "file"), "file:"):
		l.add(entry{name: name, origin: local})
	case text(e, "git") != "":
		l.url(text(e, "git"))
		l.add(entry{name: name, origin: git, pinned: commit.MatchString(text(e, "ref"))})
	default:
		hashes, _ := e["hashes"].([]any)
		hashed := len(hashes) > 0
		for _, h := range hashes {
			s, _ := h.(string)
			hashed = hashed && strongHash(s)
		}
		file := text(e, "file")
		l.url(file)
		_, fragment, _ := strings.Cut(file, "#")
		hashed = hashed || file != "" && strongHash(strings.Replace(fragment, "=", ":", 1))
		l.add(entry{name: name, pinned: file != "" || exactSpec(text(e, "version")), hashed: hashed})
	}
}

func (l *ledger) pipfileSources(v any) {
	for _, s := range tables(v) {
		l.url(text(s, "url"))
		if readHost(text(s, "url")).name == "pypi.org" {
			l.imply("files.pythonhosted.org")
		}
	}
}

// pipfileInStep compares the hash of the Pipfile, as `pipenv verify` does.
func (l *ledger) pipfileInStep(recorded string) {
	f, ok := l.near("Pipfile")
	if !ok {
		l.cannotSay("Pipfile is not at hand")
		return
	}
	raw := map[string]any{}
	if decodeTOML(trimBOM(f.Data), &raw) != nil {
		l.cannotSay("Pipfile cannot be read")
		return
	}
	l.pipfileSources(raw["source"])
	l.pipfileURLs(raw)
	if recorded == "" {
		l.cannotSay("the lock has no hash of its Pipfile")
		return
	}
	l.judged = true
	for _, canonical := range []bool{true, false} {
		sum, err := pipfileHash(raw, canonical)
		if err != nil {
			l.cannotSay("Pipfile holds %v", err)
			return
		}
		if sum == recorded {
			return
		}
	}
	l.disagree("the hash is that of another Pipfile")
}

// notPackages are the sections of a Pipfile that are no category of packages.
var notPackages = []string{"source", "packages", "dev-packages", "requires", "scripts", "pipfile", "pipenv", "default", "develop"}

// pipfileURLs notes git and file URLs of packages.
func (l *ledger) pipfileURLs(raw map[string]any) {
	for _, section := range slices.Sorted(maps.Keys(raw)) {
		if slices.Contains(notPackages, section) && section != "packages" && section != "dev-packages" {
			continue
		}
		packages := table(raw, section)
		for _, name := range slices.Sorted(maps.Keys(packages)) {
			for _, key := range []string{"git", "file"} {
				l.url(text(table(packages, name), key))
			}
		}
	}
}

// pipfileHash is the hash of a Pipfile's content (pipenv 2026.10.3,
// utils/pipfile.py). canonicalNames: package names in normal form, which older
// releases did not do.
func pipfileHash(raw map[string]any, canonicalNames bool) (string, error) {
	section := func(key string) map[string]any {
		out := map[string]any{}
		for name, v := range table(raw, key) {
			if canonicalNames {
				name = normal(name)
			}
			out[name] = v
		}
		return out
	}
	sources := raw["source"]
	if sources == nil {
		sources = []any{map[string]any{"name": "pypi", "url": "https://pypi.org/simple", "verify_ssl": true}}
	}
	data := map[string]any{
		"_meta":   map[string]any{"sources": sources, "requires": given(raw, "requires", map[string]any{})},
		"default": section("packages"),
		"develop": section("dev-packages"),
	}
	for key := range raw {
		if !slices.Contains(notPackages, key) {
			data[key] = section(key)
		}
	}
	return hashJSON(data, ",", ":")
}
