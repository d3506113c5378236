package lockfile

import (
	"maps"
	"slices"
	"strings"
)

// cargoInStep compares each package of the project with its Cargo.toml, as
// `cargo metadata --locked` does: the names, and versions within their ranges.
func (l *ledger) cargoInStep(lock cargoLock, config cargoConfig) {
	root, manifests := l.cargoManifests()
	if root == nil {
		l.cannotSay("Cargo.toml is not at hand or cannot be read")
		l.cargoLocals(lock, "")
		return
	}
	l.judged = true
	own := text(table(root, "package"), "name")
	l.cargoLocals(lock, own)
	c := cargoStep{ledger: l, lock: lock, config: config, workspace: table(root, "workspace")}
	c.closed()
	for _, p := range lock.Packages {
		if p.Source != "" {
			continue
		}
		m, ok := manifests[p.Name]
		if !ok {
			l.cannotSay("the Cargo.toml of %s is not at hand", p.Name)
			continue
		}
		c.member(p, m)
	}
	if own != "" && !slices.ContainsFunc(lock.Packages, func(p cargoPackage) bool { return p.Name == own && p.Source == "" }) {
		l.disagree("the package %s itself is not locked", own)
	}
	c.members(manifests)
}

// cargoLocals lists path dependencies and workspace members; own is the project.
func (l *ledger) cargoLocals(lock cargoLock, own string) {
	for _, p := range lock.Packages {
		if p.Source == "" && p.Name != own {
			l.add(entry{name: p.Name, origin: local})
		}
	}
}

type cargoStep struct {
	*ledger
	lock      cargoLock
	config    cargoConfig
	workspace map[string]any
}

// closed checks that whatever a package depends on is locked, too.
func (c cargoStep) closed() {
	names := map[string]bool{}
	for _, p := range c.lock.Packages {
		names[p.Name] = true
	}
	for _, p := range c.lock.Packages {
		for _, d := range p.Depends {
			if name, _, _ := strings.Cut(d, " "); !names[name] {
				c.disagree("%s depends on %s, which is not locked", p.Name, name)
			}
		}
	}
}

// members checks that workspace members at hand are locked.
func (c cargoStep) members(manifests map[string]cargoManifest) {
	patterns, _ := c.workspace["members"].([]any)
	exclude, _ := c.workspace["exclude"].([]any)
	for _, name := range slices.Sorted(maps.Keys(manifests)) {
		folder := manifests[name].folder
		if !matchAny(texts(patterns), folder) || matchAny(texts(exclude), folder) {
			continue
		}
		if !slices.ContainsFunc(c.lock.Packages, func(p cargoPackage) bool { return p.Name == name && p.Source == "" }) {
			c.disagree("the workspace member %s is not locked", name)
		}
	}
}

// member compares one package's version and dependencies.
func (c cargoStep) member(p cargoPackage, m cargoManifest) {
	if v := c.inherit(table(m.raw, "package"), "version"); v != "" && v != p.Version {
		c.disagree("%s has version %s, the lock says %s", p.Name, v, p.Version)
	}
	want := c.declared(m.raw)
	var locked []string
	for _, d := range p.Depends {
		name, _, _ := strings.Cut(d, " ")
		locked = append(locked, name)
		if !slices.ContainsFunc(want, func(n cargoNeed) bool { return n.name == name }) {
			c.disagree("the lock says that %s depends on %s, which its Cargo.toml does not say", p.Name, name)
		}
	}
	for _, n := range want {
		if n.host != "" {
			c.url(n.host)
		}
		if !slices.Contains(locked, n.name) {
			c.disagree("%s requires %s, which the lock does not say", p.Name, n.name)
			continue
		}
		c.satisfied(p, n)
	}
}

// inherit is a key of [package], or of [workspace.package] where it says so.
func (c cargoStep) inherit(pkg map[string]any, key string) string {
	if t := table(pkg, key); t != nil && t["workspace"] == true {
		return text(table(c.workspace, "package"), key)
	}
	return text(pkg, key)
}

// cargoNeed is a dependency as a Cargo.toml declares it.
type cargoNeed struct {
	name, spec, host string
	kind             string // "", git, path or registry
	index            string // of a registry that .cargo/config.toml names
}

// declared lists the dependencies of all kinds and targets.
func (c cargoStep) declared(raw map[string]any) []cargoNeed {
	var out []cargoNeed
	sections := []map[string]any{raw}
	for _, target := range slices.Sorted(maps.Keys(table(raw, "target"))) {
		sections = append(sections, table(table(raw, "target"), target))
	}
	for _, s := range sections {
		for _, key := range []string{"dependencies", "dev-dependencies", "dev_dependencies", "build-dependencies", "build_dependencies"} {
			depends := table(s, key)
			for _, name := range slices.Sorted(maps.Keys(depends)) {
				out = append(out, c.need(name, depends[name]))
			}
		}
	}
	return out
}

func (c cargoStep) need(name string, v any) cargoNeed {
	if t, ok := v.(map[string]any); ok && t["workspace"] == true {
		v = table(c.workspace, "dependencies")[name]
	}
	n := cargoNeed{name: name}
	t, ok := v.(map[string]any)
	if !ok {
		n.spec, _ = v.(string)
		return n
	}
	n.spec = text(t, "version")
	if renamed := text(t, "package"); renamed != "" {
		n.name = renamed
	}
	switch {
	case text(t, "git") != "":
		n.kind, n.host = "git", text(t, "git")
	case text(t, "path") != "":
		n.kind = "path"
	case text(t, "registry") != "":
		n.kind, n.index = "registry", c.config.registries[text(t, "registry")]
	case text(t, "registry-index") != "":
		n.kind, n.index = "registry", text(t, "registry-index")
	}
	return n
}

// satisfied checks that one of the locked packages of a name, which the package
// may use, lies in the range and comes from where the manifest says.
func (c cargoStep) satisfied(p cargoPackage, n cargoNeed) {
	version, from := "", false
	for _, q := range c.lock.Packages {
		if q.Name != n.name || !c.uses(p, q) {
			continue
		}
		version = q.Version
		if !n.comesFrom(q.Source) {
			continue
		}
		from = true
		if ok, known := inRange(n.spec, q.Version, "^"); ok || !known || n.spec == "" {
			return
		}
	}
	switch {
	case version == "": // already told by closed
	case !from:
		c.disagree("%s requires %s from another source than the lock has", p.Name, n.name)
	default:
		c.disagree("%s requires %s %s, %s is locked", p.Name, n.name, n.spec, version)
	}
}

// uses reports whether a package's dependency list means this entry: it names the
// version only where several are locked.
func (c cargoStep) uses(p, q cargoPackage) bool {
	for _, d := range p.Depends {
		f := strings.Fields(d)
		if len(f) > 0 && f[0] == q.Name && (len(f) == 1 || f[1] == q.Version) {
			return true
		}
	}
	return false
}

func (n cargoNeed) comesFrom(source string) bool {
	switch n.kind {
	case "git":
		place := strings.TrimSuffix(strings.TrimSuffix(n.host, "/"), ".git")
		return strings.HasPrefix(source, "git+"+place)
	case "path":
		return source == ""
	case "registry":
		return source != "" && !slices.Contains(cratesIO, source) && (n.index == "" || strings.TrimPrefix(source, "registry+") == strings.TrimPrefix(n.index, "registry+"))
	}
	// [patch] may put a path or a repository in the place of crates.io.
	return true
}
