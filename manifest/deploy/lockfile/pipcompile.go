package lockfile

import (
	"path"
	"slices"
	"strings"
)

// readPipCompile reads what pip-compile or `uv pip compile` wrote and compares it
// with its sources: names, versions, and the comments that say which entries the
// sources asked for.
func readPipCompile(l *ledger) error {
	r, err := l.requirements()
	if err != nil {
		return err
	}
	locked := versions{}
	for _, q := range r.lines {
		version := ""
		if q.exact() {
			version = strings.TrimLeft(q.parts()[0], "= ")
		}
		locked.add(q.name, version)
	}
	wanted, ok := l.sources(compileHeader(l.lock.Data))
	if !ok {
		l.cannotSay("what it was compiled from is not at hand")
		return nil
	}
	l.judged = true
	for _, q := range wanted {
		if _, found := locked[q.name]; !found && unsafePackage(q.name) {
			continue // pip-compile leaves these out unless told otherwise
		}
		if why := locked.satisfy(q.requirement); why != "" {
			l.disagree("%s", why)
		}
	}
	l.dropped(r, wanted)
	return nil
}

func unsafePackage(name string) bool {
	return name == "setuptools" || name == "pip" || name == "distribute"
}

// dropped tells entries that the lock says its sources asked for, and which they
// no longer do.
func (l *ledger) dropped(r *reqFile, wanted []reqLine) {
	if !r.annotated {
		l.note("without \"# via\" comments, a requirement that was dropped would not be noticed")
		return
	}
	for _, q := range r.lines {
		direct := slices.ContainsFunc(q.via, func(v string) bool {
			return strings.HasPrefix(v, "-r ") || strings.HasSuffix(v, "(pyproject.toml)") || strings.HasSuffix(v, "(setup.py)")
		})
		if direct && !slices.ContainsFunc(wanted, func(w reqLine) bool { return w.name == q.name }) {
			l.disagree("%s is locked because a source asked for it, and none does now", q.name)
		}
	}
}

// sources reads the files that the command in the header compiled.
func (l *ledger) sources(command string) ([]reqLine, bool) {
	var out []reqLine
	found := false
	for _, f := range l.sourceFiles(command) {
		if path.Base(f.Path) == "pyproject.toml" {
			var p pyproject
			if decodeTOML(trimBOM(f.Data), &p) != nil || p.Project == nil {
				return nil, false
			}
			l.projectURLs(p)
			out = append(out, l.projectLines(p, command)...)
			found = true
			continue
		}
		r := &reqFile{l: l, constraints: map[string][]reqLine{}}
		if err := r.read(f, false); err != nil {
			return nil, false
		}
		out = append(out, r.lines...)
		out = append(out, r.bound()...)
		found = true
	}
	return out, found
}

// bound are the constraints of a source: they hold where the name is locked.
func (r *reqFile) bound() []reqLine {
	var out []reqLine
	for _, list := range r.constraints {
		for _, c := range list {
			c.marker = or(c.marker, "constraint")
			out = append(out, c)
		}
	}
	return out
}

func (l *ledger) projectLines(p pyproject, command string) []reqLine {
	lines := slices.Clone(p.Project.Depends)
	for extra, list := range p.Project.Optional {
		if strings.Contains(command, "--all-extras") || strings.Contains(command, "--extra="+extra) || strings.Contains(command, "--extra "+extra) {
			lines = append(lines, list...)
		}
	}
	var out []reqLine
	for _, r := range parseAll(lines) {
		out = append(out, reqLine{requirement: r})
	}
	return out
}

// notSource are options whose value may look like a source.
var notSource = []string{"-o", "--output-file", "-c", "--constraint", "--constraints", "--override", "--build-constraints", "--excludes"}

func (l *ledger) sourceFiles(command string) []File {
	var out []File
	words := strings.Fields(command)
	for i, w := range words {
		if strings.HasPrefix(w, "-") || i > 0 && slices.Contains(notSource, words[i-1]) {
			continue
		}
		if f, ok := l.sourceFile(w); ok {
			out = append(out, f)
		}
	}
	if len(out) > 0 {
		return out
	}
	stem := strings.TrimSuffix(path.Base(l.lock.Path), path.Ext(l.lock.Path))
	for _, name := range []string{stem + ".in", "requirements.in", "pyproject.toml"} {
		if f, ok := l.near(name); ok {
			return []File{f}
		}
	}
	return nil
}

// sourceFile finds a file that the command names: its path is relative to the
// folder in which the command ran, which the lock does not tell.
func (l *ledger) sourceFile(name string) (File, bool) {
	if ext := path.Ext(name); ext != ".in" && ext != ".txt" && path.Base(name) != "pyproject.toml" {
		return File{}, false
	}
	for _, at := range []string{path.Join(path.Dir(l.lock.Path), name), path.Clean(name), path.Join(path.Dir(l.lock.Path), path.Base(name))} {
		if f, ok := l.files[at]; ok && at != path.Clean(l.lock.Path) {
			return f, true
		}
	}
	return File{}, false
}
