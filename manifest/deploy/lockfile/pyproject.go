package lockfile

import (
	"maps"
	"slices"
	"strings"
)

// pyproject is what the readers take from a pyproject.toml.
type pyproject struct {
	Project *project         `toml:"project"`
	Groups  map[string][]any `toml:"dependency-groups"`
	Tool    tools            `toml:"tool"`
}

type project struct {
	Name     string              `toml:"name"`
	Version  *string             `toml:"version"`
	Python   string              `toml:"requires-python"`
	Depends  []string            `toml:"dependencies"`
	Optional map[string][]string `toml:"optional-dependencies"`
	Dynamic  []string            `toml:"dynamic"`
}

type tools struct {
	UV     *uvSettings    `toml:"uv"`
	Poetry map[string]any `toml:"poetry"`
	PDM    map[string]any `toml:"pdm"`
}

// readPyproject reads the pyproject.toml in a folder relative to the lock. ok is
// false, and the reason is noted, when there is none or it cannot be read.
func (l *ledger) readPyproject(folder string) (pyproject, bool) {
	name := "pyproject.toml"
	if folder != "." {
		name = folder + "/" + name
	}
	f, ok := l.near(name)
	if !ok {
		l.cannotSay("%s is not at hand", name)
		return pyproject{}, false
	}
	var p pyproject
	if err := decodeTOML(trimBOM(f.Data), &p); err != nil {
		l.cannotSay("%s cannot be read", name)
		return pyproject{}, false
	}
	l.projectURLs(p)
	return p, true
}

// projectURLs notes the hosts of requirements that name a URL.
func (l *ledger) projectURLs(p pyproject) {
	for _, r := range p.required() {
		if r.url != "" {
			l.url(r.url)
		}
	}
}

// required is all that a project requires: dependencies, extras and groups.
func (p pyproject) required() []requirement {
	var all []requirement
	if p.Project != nil {
		all = append(all, parseAll(p.Project.Depends)...)
		for _, extra := range slices.Sorted(maps.Keys(p.Project.Optional)) {
			all = append(all, parseAll(p.Project.Optional[extra])...)
		}
	}
	for _, group := range slices.Sorted(maps.Keys(p.Groups)) {
		all = append(all, parseAll(texts(p.Groups[group]))...)
	}
	return all
}

// group is what a dependency group requires, with the groups that it includes.
func (p pyproject) group(name string, seen map[string]bool) []requirement {
	name = normal(name)
	if seen[name] {
		return nil
	}
	seen[name] = true
	var all []requirement
	for key, items := range p.Groups {
		if normal(key) != name {
			continue
		}
		all = append(all, parseAll(texts(items))...)
		for _, item := range items {
			if table, ok := item.(map[string]any); ok {
				if include, ok := table["include-group"].(string); ok {
					all = append(all, p.group(include, seen)...)
				}
			}
		}
	}
	return all
}

// parseAll leaves out what is no requirement: the tool itself refuses it.
func parseAll(lines []string) []requirement {
	var out []requirement
	for _, line := range lines {
		if r, err := parseRequirement(line); err == nil {
			out = append(out, r)
		}
	}
	return out
}

func texts(items []any) []string {
	var out []string
	for _, item := range items {
		if s, ok := item.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

func trimBOM(data []byte) []byte {
	return []byte(strings.TrimPrefix(string(data), "\ufeff"))
}

// text is a string in a table, or "".
func text(table map[string]any, key string) string {
	s, _ := table[key].(string)
	return s
}

func table(in map[string]any, key string) map[string]any {
	t, _ := in[key].(map[string]any)
	return t
}

// tables is a list of tables, however TOML wrote it.
func tables(v any) []map[string]any {
	switch list := v.(type) {
	case []map[string]any:
		return list
	case []any:
		var out []map[string]any
		for _, item := range list {
			if t, ok := item.(map[string]any); ok {
				out = append(out, t)
			}
		}
		return out
	}
	return nil
}
