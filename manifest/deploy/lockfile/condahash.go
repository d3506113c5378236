package lockfile

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// condaContent compares metadata.content_hash, as conda-lock --check-input-hash
// does. Each platform has a hash of its own.
func (l *ledger) condaContent(lock condaLock, e environment) {
	if _, custom := l.near("virtual-packages.yml"); custom {
		l.cannotSay("virtual-packages.yml changes the content hash")
		return
	}
	specs, ok := e.hashed()
	secret := slices.ContainsFunc(e.PipRepos, func(u string) bool { return strings.Contains(u, "@") })
	if !ok || secret || len(lock.Metadata.ContentHash) == 0 {
		l.cannotSay("the content hash of such requirements is not computed")
		return
	}
	for _, platform := range slices.Sorted(maps.Keys(lock.Metadata.ContentHash)) {
		if virtual[platform] == nil {
			l.cannotSay("the content hash for %s is not computed", clip(platform, 40))
			return
		}
		if !slices.Contains(condaHashes(e, specs, platform), lock.Metadata.ContentHash[platform]) {
			l.disagree("the content hash for %s is that of another environment.yml", platform)
		}
	}
	l.judged = true
	if len(e.Platforms) > 0 && !slices.Equal(sortedSet(e.Platforms), slices.Sorted(maps.Keys(lock.Metadata.ContentHash))) {
		l.disagree("environment.yml names the platforms %s", strings.Join(e.Platforms, ", "))
	}
}

// condaHashes are the content hashes that conda-lock accepts for a platform: with
// and without CUDA, and as its releases 2 and 3 wrote virtual packages
// (conda-lock 4.0.3, content_hash.py).
func condaHashes(e environment, specs []map[string]any, platform string) []string {
	channels := []any{}
	for _, c := range e.Channels {
		if c.Value == "nodefaults" {
			continue
		}
		channels = append(channels, `{"url":"`+c.Value+`","used_env_vars":[]}`)
	}
	repositories := []any{}
	for _, u := range e.PipRepos {
		repositories = append(repositories, `{"url":"`+u+`"}`)
	}
	var out []string
	for _, without := range [][]string{nil, {"__cuda"}, {"__osx 10.15"}} {
		for _, spurious := range []bool{true, false} {
			content := map[string]any{"channels": channels, "specs": specs, "virtual_package_hash": virtualPackages(platform, without, spurious)}
			if len(repositories) > 0 {
				content["pip_repositories"] = repositories
			}
			sum, err := hashJSON(content, ", ", ": ")
			if err == nil {
				out = append(out, sum)
			}
		}
	}
	return out
}

// virtual are conda-lock's default virtual packages: name, version, build.
var virtual = map[string][][3]string{
	"linux-64":      {{"__unix", "0"}, {"__linux", "5.10"}, {"__archspec", "1", "x86_64"}, {"__glibc", "2.28"}, {"__cuda", "11.4"}},
	"linux-aarch64": {{"__unix", "0"}, {"__linux", "5.10"}, {"__archspec", "1", "aarch64"}, {"__glibc", "2.28"}, {"__cuda", "11.4"}},
	"linux-ppc64le": {{"__unix", "0"}, {"__linux", "5.10"}, {"__archspec", "1", "ppc64le"}, {"__glibc", "2.28"}, {"__cuda", "11.4"}},
	"osx-64":        {{"__unix", "0"}, {"__archspec", "1", "x86_64"}, {"__osx", "11.0"}, {"__osx", "10.15"}},
	"osx-arm64":     {{"__unix", "0"}, {"__archspec", "1", "arm64"}, {"__osx", "11.0"}},
	"win-64":        {{"__win", "0"}, {"__archspec", "1", "x86_64"}, {"__cuda", "11.4"}},
}

func virtualPackages(platform string, without []string, spurious bool) map[string]any {
	packages := map[string]any{}
	for _, v := range virtual[platform] {
		name, version, build := v[0], v[1], v[2]
		if slices.Contains(without, name) || slices.Contains(without, name+" "+version) {
			continue
		}
		full := cmp.Or(build, "0")
		if build != "" && spurious {
			full += "_0"
		}
		packages[name+"-"+version+"-"+full+".tar.bz2"] = map[string]any{
			"name": name, "version": version, "build_string": build, "build_number": 0, "build": full, "noarch": "",
			"depends": []any{}, "timestamp": 1577854800000, "package_type": "virtual_system", "subdir": platform,
		}
	}
	sub := func(name string, packages map[string]any) map[string]any {
		return map[string]any{"info": map[string]any{"subdir": name}, "packages": packages}
	}
	return map[string]any{"noarch": sub("noarch", map[string]any{}), platform: sub(platform, packages)}
}

// plainConda matches the requirements whose form in the hash is known: a name
// with one range in a simple form.
var plainConda = regexp.MustCompile(`^(?:([^\s\[\]]+)::)?([A-Za-z0-9_.-]+?)\s*(|\s[0-9][0-9A-Za-z.*+_]*|(?:(?:==|=|>=|<=|!=|>|<|~=)\s*[0-9A-Za-z.*+_-]+,?\s*)*)$`)

// hashed lists the requirements as conda-lock hashes them; ok is false for one
// whose form is not known.
func (e environment) hashed() ([]map[string]any, bool) {
	category := cmp.Or(e.Category, "main")
	conda, pip := e.specs()
	unique := map[string]map[string]any{} // the last of a name wins
	add := func(manager, name, version string, extras []any, channel any) {
		unique[manager+" "+name] = map[string]any{
			"name": name, "manager": manager, "category": category, "extras": extras,
			"version": version, "build": nil, "conda_channel": channel, "hash": nil,
		}
	}
	for _, s := range conda {
		m := plainConda.FindStringSubmatch(strings.TrimSpace(s))
		if m == nil {
			return nil, false
		}
		var channel any
		if m[1] != "" {
			channel = m[1]
		}
		add("conda", strings.ToLower(m[2]), condaVersion(m[3]), []any{}, channel)
	}
	for _, s := range pip {
		r, err := parseRequirement(s)
		if err != nil || r.url != "" || r.marker != "" {
			return nil, false
		}
		add("pip", r.name, cmp.Or(strings.Join(sortedSet(pipParts(r)), ","), "*"), writtenExtras(s), nil)
	}
	if slices.ContainsFunc(e.Depends, isMapping) {
		category = "main"
		add("conda", "pip", "*", []any{}, nil)
	}
	var out []map[string]any
	for _, key := range slices.Sorted(maps.Keys(unique)) { // by manager, then name
		out = append(out, unique[key])
	}
	return out, true
}

func isMapping(n yaml.Node) bool { return n.Kind == yaml.MappingNode }

func pipParts(r requirement) []string {
	parts := r.parts()
	for i, p := range parts {
		parts[i] = strings.Join(strings.Fields(p), "")
	}
	return parts
}

// writtenExtras are the extras of a requirement as written, sorted.
func writtenExtras(text string) []any {
	_, rest, _ := strings.Cut(text, "[")
	inside, _, ok := strings.Cut(rest, "]")
	out := []any{}
	if !ok {
		return out
	}
	words := strings.Split(strings.ReplaceAll(inside, " ", ""), ",")
	slices.Sort(words)
	for _, w := range words {
		out = append(out, w)
	}
	return out
}

// condaVersion writes a range as conda's MatchSpec does: "=3.11" as "3.11.*", and
// "==3.11" as "3.11".
func condaVersion(spec string) string {
	spec = strings.Join(strings.Fields(spec), "")
	if version, ok := strings.CutPrefix(spec, "=="); ok && !strings.Contains(version, ",") {
		return version
	}
	if version, ok := strings.CutPrefix(spec, "="); ok && !strings.HasPrefix(version, "=") && !strings.Contains(version, ",") {
		return strings.TrimSuffix(strings.TrimSuffix(version, "*"), ".") + ".*"
	}
	return spec
}
