package lockfile

import (
	"strings"
)

// readRequirements reads a requirements file of pip with all that it includes.
// It has no manifest, so nothing can be said about being in step.
func readRequirements(l *ledger) error {
	_, err := l.requirements()
	return err
}

func (l *ledger) requirements() (*reqFile, error) {
	r := &reqFile{l: l, constraints: map[string][]reqLine{}}
	if err := r.read(l.lock, false); err != nil {
		return nil, err
	}
	weak := false
	for _, q := range r.lines {
		l.add(r.entry(q))
		weak = weak || q.weak
	}
	if weak {
		l.note("pip accepts only sha256, sha384 and sha512; other hashes are not counted")
	}
	r.hosts()
	return r, nil
}

// entry counts a line. A constraint pins a name, and brings its hashes along.
func (r *reqFile) entry(q reqLine) entry {
	e := entry{name: q.name, origin: q.origin, hashed: len(q.hashes) > 0 && !q.weak}
	switch {
	case q.origin == git:
		e.pinned = q.commit
	case q.url != "":
		e.pinned = true
	default:
		e.pinned = q.exact()
		for _, c := range r.constraints[q.name] {
			e.pinned = e.pinned || c.exact() || c.url != ""
			e.hashed = e.hashed || len(c.hashes) > 0
		}
	}
	return e
}

// hosts adds those that a pip.conf beside names, and PyPI where nothing takes its
// place.
func (r *reqFile) hosts() {
	if f, ok := r.l.near("pip.conf"); ok {
		r.pipConf(string(f.Data))
	}
	if r.noIndex {
		return
	}
	if r.index == "" {
		r.l.imply("pypi.org", "files.pythonhosted.org")
	} else if readHost(r.index).name == "pypi.org" {
		r.l.imply("files.pythonhosted.org")
	}
}

// pipConf reads the hosts of a pip.conf; values may go on in indented lines.
func (r *reqFile) pipConf(text string) {
	key := ""
	for line := range strings.Lines(text) {
		value := strings.TrimSpace(line)
		if value == "" || strings.HasPrefix(value, "#") || strings.HasPrefix(value, ";") || strings.HasPrefix(value, "[") {
			continue
		}
		if indented := line[0] == ' ' || line[0] == '\t'; !indented {
			key, value, _ = strings.Cut(value, "=")
			key, value = strings.ReplaceAll(strings.TrimSpace(key), "_", "-"), strings.TrimSpace(value)
		}
		switch key {
		case "index-url":
			r.index = value
			r.l.url(value)
		case "extra-index-url", "find-links":
			for word := range strings.FieldsSeq(value) {
				r.l.url(word)
			}
		}
	}
}
