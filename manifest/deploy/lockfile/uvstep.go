package lockfile

import (
	"maps"
	"path"
	"slices"
	"strings"
)

// uvStep compares uv.lock with the manifests that it was made from, as
// `uv lock --check` does before it would resolve anew.
type uvStep struct {
	*ledger
	lock   uvLock
	root   pyproject
	uv     *uvSettings // the root's
	locked versions
	python bounds
}

func (l *ledger) uvInStep(lock uvLock) {
	root, ok := l.readPyproject(".")
	l.uvURLs(root.Tool.UV)
	if f, found := l.near("uv.toml"); found {
		var s uvSettings
		if decodeTOML(trimBOM(f.Data), &s) == nil {
			l.uvURLs(&s)
		}
	}
	if !ok {
		return
	}
	u := uvStep{ledger: l, lock: lock, root: root, uv: root.Tool.UV, locked: versions{}}
	if u.uv == nil {
		u.uv = &uvSettings{}
	}
	l.judged = true
	for _, p := range lock.Packages {
		u.locked.add(p.Name, p.Version)
	}
	u.members()
	u.settings()
}

// members compares each local package with its own pyproject.toml.
func (u *uvStep) members() {
	var ranges []string
	seen := map[string]bool{}
	for _, p := range u.lock.Packages {
		folder, ok := p.root()
		if !ok || seen[folder] {
			continue
		}
		seen[folder] = true
		member := u.root
		if folder != "." {
			if member, ok = u.readPyproject(folder); !ok {
				continue
			}
			u.uvURLs(member.Tool.UV)
		}
		if member.Project != nil && (folder == "." || u.isMember(p.Name)) {
			ranges = append(ranges, member.Project.Python)
		}
		u.member(p, member, folder)
	}
	if u.root.Project != nil && !seen["."] {
		u.disagree("the project %s itself is not locked", u.root.Project.Name)
	}
	if u.uv.Workspace != nil {
		u.workspace(seen)
	}
	u.pythonRange(ranges)
}

func (u *uvStep) isMember(name string) bool {
	return slices.Contains(u.lock.Manifest.Members, name)
}

// workspace checks that each folder that is a member by the manifest is locked.
func (u *uvStep) workspace(locked map[string]bool) {
	base := path.Dir(u.ledger.lock.Path)
	for _, at := range slices.Sorted(maps.Keys(u.files)) {
		folder, ok := below(base, path.Dir(at))
		if path.Base(at) != "pyproject.toml" || !ok || folder == "." || locked[folder] {
			continue
		}
		if matchAny(u.uv.Workspace.Members, folder) && !matchAny(u.uv.Workspace.Exclude, folder) {
			u.disagree("the workspace member %s is not locked", folder)
		}
	}
	for _, p := range u.lock.Packages {
		folder, ok := p.root()
		if ok && folder != "." && u.isMember(p.Name) && !matchAny(u.uv.Workspace.Members, folder) {
			u.disagree("%s is locked as a workspace member, which the manifest no longer names", p.Name)
		}
	}
}

func matchAny(patterns []string, folder string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(path.Clean(p), folder)
		return ok && err == nil
	})
}

// below is a path relative to a base folder, if it lies inside.
func below(base, p string) (string, bool) {
	if base == "." {
		return p, !strings.HasPrefix(p, "../")
	}
	if p == base {
		return ".", true
	}
	return strings.CutPrefix(p, base+"/")
}

// pythonRange compares requires-python: the lock's is the intersection of all
// members'.
func (u *uvStep) pythonRange(ranges []string) {
	want := bounds{}
	for _, r := range ranges {
		if r == "" {
			return // uv then takes the interpreter's version, which no file names
		}
		b, ok := readBounds(r)
		if !ok {
			return
		}
		want = want.meet(b)
	}
	got, ok := readBounds(u.lock.Python)
	if ok && len(ranges) > 0 && !want.equal(got) {
		u.disagree("the manifest requires Python %s, the lock %s", strings.Join(ranges, " and "), u.lock.Python)
	}
}

// member compares one package's name, version, extras and requirements.
func (u *uvStep) member(p uvPackage, m pyproject, folder string) {
	if m.Project == nil {
		return
	}
	if normal(m.Project.Name) != normal(p.Name) {
		u.disagree("the project is called %s, the lock says %s", m.Project.Name, p.Name)
	}
	if v := m.Project.Version; v != nil && p.Version != "" && !sameVersion(*v, p.Version) {
		u.disagree("%s has version %s, the lock says %s", p.Name, *v, p.Version)
	}
	if slices.Contains(m.Project.Dynamic, "dependencies") || slices.Contains(m.Project.Dynamic, "optional-dependencies") {
		u.cannotSay("%s computes its dependencies while it is built", p.Name)
		return
	}
	meta := p.Metadata
	if meta == nil {
		meta = &uvMetadata{}
	}
	u.python, _ = readBounds(u.lock.Python)
	u.compare(p.Name, u.declared(m, folder), u.recorded(meta.Dist))
	u.groups(p.Name, m, folder, meta.Dev)
}
