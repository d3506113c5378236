package lockfile

import (
	"maps"
	"path"
	"slices"
	"strings"
)

// need is a requirement in the form that both sides are compared in.
type need struct{ name, extras, spec, place, marker string }

func (n need) key() string { return strings.Join([]string{n.name, n.extras, n.spec, n.place}, "|") }

func (u *uvStep) declared(m pyproject, folder string) []need {
	out := u.needs(parseAll(m.Project.Depends), m, folder, "")
	for _, extra := range slices.Sorted(maps.Keys(m.Project.Optional)) {
		out = append(out, u.needs(parseAll(m.Project.Optional[extra]), m, folder, normal(extra))...)
	}
	return out
}

// needs turns requirements of a manifest into the form of the lock: with the
// source of [tool.uv.sources], and with the extra as a marker.
func (u *uvStep) needs(rs []requirement, m pyproject, folder, extra string) []need {
	var out []need
	for _, r := range rs {
		if why := u.locked.satisfy(r); why != "" {
			u.disagree("%s", why)
		}
		n := need{name: r.name, extras: strings.Join(r.extras, ","), spec: canonical(r.spec), marker: r.marker, place: u.placeOf(r, m, folder)}
		if extra != "" {
			n.marker = withExtra(r.marker, extra)
		}
		if n.place != "" && !strings.HasPrefix(n.place, "index ") && n.place != anywhere {
			n.spec = "" // uv drops the range of what has one place only
		}
		out = append(out, n)
	}
	return out
}

// anywhere stands for a source that markers choose: it is not compared.
const anywhere = "*"

func (u *uvStep) placeOf(r requirement, m pyproject, folder string) string {
	if r.url != "" {
		return directPlace(r.url, folder)
	}
	for _, s := range []struct {
		settings *uvSettings
		folder   string
	}{{m.Tool.UV, folder}, {u.uv, "."}} {
		source, one := s.settings.sourceOf(r.name)
		if !one {
			return anywhere
		}
		if source != nil {
			place := s.settings.place(source, s.folder)
			if strings.HasPrefix(place, "index ") && !strings.Contains(place, "://") {
				place = "index " + u.uv.indexURL(strings.TrimPrefix(place, "index "))
			}
			return place
		}
	}
	return ""
}

// directPlace is the place of `name @ url`.
func directPlace(raw, folder string) string {
	if rest, ok := strings.CutPrefix(raw, "git+"); ok {
		rest, _, _ = strings.Cut(rest, "#")
		source := map[string]any{}
		if i := strings.LastIndexByte(rest, '@'); i > strings.LastIndexByte(rest, '/') {
			source["rev"], rest = rest[i+1:], rest[:i]
		}
		return "git " + gitPlace(rest, source)
	}
	if strings.Contains(raw, "://") && !strings.HasPrefix(raw, "file:") {
		return "url " + raw
	}
	return "path " + path.Join(folder, raw)
}

func (u *uvStep) recorded(list []uvNeed) []need {
	var out []need
	for _, n := range list {
		extras := nameList(strings.Join(n.Extras, ","))
		out = append(out, need{name: normal(n.Name), extras: strings.Join(extras, ","), spec: canonical(n.Spec), place: n.place(), marker: n.Marker})
	}
	return out
}

// compare tells what the manifest asks for and the lock does not record, and the
// other way round. Each side's entry is used once.
func (u *uvStep) compare(owner string, want, got []need) {
	left := slices.Clone(got)
	for _, w := range want {
		i := slices.IndexFunc(left, func(g need) bool { return sameNeed(w, g) && sameMarker(w.marker, g.marker, u.python) == same })
		if i < 0 {
			i = slices.IndexFunc(left, func(g need) bool { return sameNeed(w, g) && sameMarker(w.marker, g.marker, u.python) == unsure })
			if i >= 0 {
				u.cannotSay("the marker of %s is written in another way in the lock", w.name)
			}
		}
		if i < 0 {
			u.disagree("%s requires %s in a way that the lock does not record", owner, w.name)
			continue
		}
		left = slices.Delete(left, i, i+1)
	}
	for _, g := range left {
		u.disagree("the lock records that %s requires %s, which the manifest does not say", owner, g.name)
	}
}

func sameNeed(w, g need) bool {
	if w.place == anywhere || w.place == "workspace" && strings.HasPrefix(g.place, "path ") {
		return w.name == g.name && w.extras == g.extras
	}
	return w.key() == g.key()
}

func (u *uvStep) groups(owner string, m pyproject, folder string, recorded map[string][]uvNeed) {
	want := map[string][]need{}
	for name := range m.Groups {
		want[normal(name)] = u.needs(m.group(name, map[string]bool{}), m, folder, "")
	}
	if m.Tool.UV != nil && len(m.Tool.UV.DevDepends) > 0 {
		want["dev"] = append(want["dev"], u.needs(parseAll(m.Tool.UV.DevDepends), m, folder, "")...)
	}
	got := map[string][]need{}
	for name, list := range recorded {
		got[normal(name)] = u.recorded(list)
	}
	for _, name := range sortedSet(slices.Concat(slices.Collect(maps.Keys(want)), slices.Collect(maps.Keys(got)))) {
		u.compare(owner+" (group "+name+")", want[name], got[name])
	}
}

// settings compares what else uv records of the manifest.
func (u *uvStep) settings() {
	u.compare("constraint-dependencies", u.plain(u.uv.Constraints), u.recorded(u.lock.Manifest.Constraints))
	u.compare("override-dependencies", u.plain(texts(u.uv.Overrides)), u.recorded(u.lock.Manifest.Overrides))
	u.environments()
	for _, o := range []struct{ key, set, standard string }{
		{"resolution-mode", u.uv.Resolution, "highest"},
		{"prerelease-mode", u.uv.Prerelease, "if-necessary-or-explicit"},
		{"fork-strategy", u.uv.Fork, "requires-python"},
	} {
		recorded := text(u.lock.Options, o.key)
		if or(o.set, o.standard) != or(recorded, o.standard) {
			u.disagree("%s is %s in the manifest and %s in the lock", o.key, or(o.set, o.standard), or(recorded, o.standard))
		}
	}
}

// plain is a list of requirements without sources and without need of a lock.
func (u *uvStep) plain(lines []string) []need {
	var out []need
	for _, r := range parseAll(lines) {
		out = append(out, need{name: r.name, extras: strings.Join(r.extras, ","), spec: canonical(r.spec), marker: r.marker})
	}
	return out
}

func (u *uvStep) environments() {
	var want []string
	switch v := u.uv.Environments.(type) {
	case string:
		want = []string{v}
	case []any:
		want = texts(v)
	}
	if len(want) != len(u.lock.Markers) {
		u.disagree("environments has %d entries, the lock %d supported markers", len(want), len(u.lock.Markers))
		return
	}
	python, _ := readBounds(u.lock.Python)
	left := slices.Clone(u.lock.Markers)
	for _, w := range want {
		i := slices.IndexFunc(left, func(g string) bool { return sameMarker(w, g, python) != different })
		if i < 0 {
			u.disagree("the environment %q is not among the lock's supported markers", w)
			continue
		}
		left = slices.Delete(left, i, i+1)
	}
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func sameVersion(a, b string) bool {
	ok, known := allows("=="+a, b)
	return a == b || ok && known
}
