package lockfile

import (
	"maps"
	"path"
	"slices"
	"strings"
)

// uvSettings is [tool.uv] of a pyproject.toml, or the whole of a uv.toml.
type uvSettings struct {
	Index        []uvIndex      `toml:"index"`
	IndexURL     string         `toml:"index-url"`
	ExtraIndex   []string       `toml:"extra-index-url"`
	FindLinks    []string       `toml:"find-links"`
	Sources      map[string]any `toml:"sources"`
	Workspace    *uvWorkspace   `toml:"workspace"`
	DevDepends   []string       `toml:"dev-dependencies"`
	Constraints  []string       `toml:"constraint-dependencies"`
	Overrides    []any          `toml:"override-dependencies"`
	Environments any            `toml:"environments"`
	Resolution   string         `toml:"resolution"`
	Prerelease   string         `toml:"prerelease"`
	Fork         string         `toml:"fork-strategy"`
	Package      *bool          `toml:"package"`
	Managed      *bool          `toml:"managed"`
}

type uvIndex struct {
	Name string `toml:"name"`
	URL  string `toml:"url"`
}

type uvWorkspace struct {
	Members []string `toml:"members"`
	Exclude []string `toml:"exclude"`
}

// uvURLs notes the hosts that uv's settings name.
func (l *ledger) uvURLs(s *uvSettings) {
	if s == nil {
		return
	}
	for _, i := range s.Index {
		l.url(i.URL)
	}
	for _, u := range slices.Concat([]string{s.IndexURL}, s.ExtraIndex, s.FindLinks) {
		l.url(u)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Sources)) {
		for _, source := range sourceTables(s.Sources[name]) {
			l.url(text(source, "git"))
			l.url(text(source, "url"))
		}
	}
}

// sourceTables is one source, or the list of them that markers choose from.
func sourceTables(v any) []map[string]any {
	if one, ok := v.(map[string]any); ok {
		return []map[string]any{one}
	}
	return tables(v)
}

// sourceOf finds the source of a name; the second result is false when markers
// choose between several.
func (s *uvSettings) sourceOf(name string) (map[string]any, bool) {
	if s == nil {
		return nil, true
	}
	for key, v := range s.Sources {
		if normal(key) != name {
			continue
		}
		all := sourceTables(v)
		if len(all) != 1 || text(all[0], "marker") != "" || text(all[0], "extra") != "" || text(all[0], "group") != "" {
			return nil, false
		}
		return all[0], true
	}
	return nil, true
}

// place writes a source as one comparable word, in the way that uv.lock does:
// paths relative to the lock, a git reference as a query.
func (s *uvSettings) place(source map[string]any, folder string) string {
	switch {
	case text(source, "git") != "":
		return "git " + gitPlace(text(source, "git"), source)
	case text(source, "url") != "":
		return "url " + text(source, "url")
	case text(source, "path") != "":
		return "path " + path.Join(folder, text(source, "path"))
	case source["workspace"] == true:
		return "workspace"
	case text(source, "index") != "":
		return "index " + s.indexURL(text(source, "index"))
	}
	return ""
}

func (s *uvSettings) indexURL(name string) string {
	for _, i := range s.Index {
		if i.Name == name {
			return strings.TrimSuffix(bareURL(i.URL), "/")
		}
	}
	return name
}

// gitPlace is a repository's URL with its reference as uv.lock writes it.
func gitPlace(url string, source map[string]any) string {
	var query []string
	for _, key := range []string{"subdirectory", "tag", "branch", "rev"} {
		if v := text(source, key); v != "" {
			query = append(query, key+"="+v)
		}
	}
	slices.Sort(query)
	url = bareURL(strings.TrimPrefix(url, "git+"))
	return url + "?" + strings.Join(query, "&")
}

// bareURL is a URL without user and password: uv leaves them out of its lock.
func bareURL(raw string) string {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		return raw
	}
	authority, tail := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, tail = rest[:i], rest[i:]
	}
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		authority = authority[i+1:]
	}
	return scheme + "://" + authority + tail
}

// place is the source of a requirement in the lock, in the same words.
func (n uvNeed) place() string {
	switch {
	case n.Git != "":
		return "git " + sortQuery(n.Git)
	case n.URL != "":
		return "url " + n.URL
	case n.Index != "":
		return "index " + strings.TrimSuffix(n.Index, "/")
	}
	for _, at := range []string{n.Path, n.Directory, n.Editable, n.Virtual} {
		if at != "" {
			return "path " + path.Clean(at)
		}
	}
	return ""
}

func sortQuery(git string) string {
	base, query, _ := strings.Cut(strings.SplitN(git, "#", 2)[0], "?")
	parts := strings.Split(query, "&")
	slices.Sort(parts)
	return base + "?" + strings.Join(parts, "&")
}
