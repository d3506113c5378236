package lockfile

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"drkit/internal/redact"
)

// plain takes secrets out of words of a file: a broken line may hold any.
func plain(text string) string { return (*redact.Redactor)(nil).String(text) }

// origin says where an entry comes from, which decides what is expected of it.
type origin int

const (
	registry origin = iota // a file from an index or a URL: needs a pin and a hash
	git                    // a commit: needs a pin
	local                  // a path: only listed
)

// entry is one locked package.
type entry struct {
	name   string
	origin origin
	pinned bool
	hashed bool
}

// ledger collects what a reader finds in one lock.
type ledger struct {
	facts    Facts
	problems []Problem
	lock     File
	files    map[string]File // by clean path
	notes    []string
	stale    []string // why the lock is not in step
	leftover []string // what the manifest does not ask for, and nobody installs
	open     []string // why the files cannot say whether it is in step
	judged   bool     // it was compared with its manifest
	secret   bool
}

func newLedger(lock File, beside []File) *ledger {
	l := &ledger{lock: lock, files: map[string]File{}, facts: Facts{Lockfile: lock.Path}}
	for _, f := range beside {
		if len(f.Data) <= maxSize {
			l.files[path.Clean(f.Path)] = f
		}
	}
	return l
}

// near returns the file at a path relative to the lock's folder.
func (l *ledger) near(name string) (File, bool) {
	f, ok := l.files[path.Join(path.Dir(l.lock.Path), name)]
	return f, ok
}

func (l *ledger) problem(kind string, line int, what string) {
	l.problems = append(l.problems, Problem{Path: l.lock.Path, Line: line, Kind: kind, What: plain(what)})
}

// add counts one entry.
func (l *ledger) add(e entry) {
	f := &l.facts
	if e.origin == local {
		f.Local = append(f.Local, e.name)
		return
	}
	if e.pinned {
		f.Pinned++
	} else {
		f.Unpinned = append(f.Unpinned, e.name)
	}
	switch {
	case e.origin == git:
		f.VCS = append(f.VCS, e.name)
	case e.hashed:
		f.Hashed++
	default:
		f.Unhashed = append(f.Unhashed, e.name)
	}
}

// itself reports whether a path is the folder of the lock: the project itself,
// which is no entry.
func itself(at string) bool { return at != "" && path.Clean(at) == "." }

// url notes the host of a URL that a file names, and tells of a secret in it.
func (l *ledger) url(raw string) {
	h := readHost(raw)
	if h.name != "" {
		l.facts.Hosts = append(l.facts.Hosts, h.name)
	}
	if h.hidden {
		l.hide("a host is given by a variable")
	}
	if h.secret && !l.secret {
		l.secret = true
		l.problem(KindSecret, 0, "a URL of "+h.name+" holds a password or token in plain text; it is not kept here")
	}
}

// hide notes that a host is not known; it is told once for each reason.
func (l *ledger) hide(why string) {
	if slices.Contains(l.notes, why) {
		return
	}
	l.notes = append(l.notes, why)
	l.problem(KindHost, 0, why+", so it is not among the hosts")
}

func (l *ledger) imply(hosts ...string) {
	l.facts.ImpliedHosts = append(l.facts.ImpliedHosts, hosts...)
}

func (l *ledger) note(format string, args ...any) {
	l.notes = append(l.notes, fmt.Sprintf(format, args...))
}

// disagree records why the lock is not in step with its manifest.
func (l *ledger) disagree(format string, args ...any) {
	l.judged = true
	l.stale = append(l.stale, fmt.Sprintf(format, args...))
}

// cannotSay records why the files do not tell whether the lock is in step.
func (l *ledger) cannotSay(format string, args ...any) {
	l.open = append(l.open, fmt.Sprintf(format, args...))
}

// lineError is an error at a line of the lock.
type lineError struct {
	line int
	err  error
}

func (e *lineError) Error() string { return e.err.Error() }
func (e *lineError) Unwrap() error { return e.err }

func atLine(line int, format string, args ...any) error {
	return &lineError{line, fmt.Errorf(format, args...)}
}

// includeError is an included file that is not at hand: the lock may be sound.
type includeError struct{ what string }

func (e *includeError) Error() string { return e.what }

func (l *ledger) unreadable(err error) (Facts, []Problem) {
	line := 0
	var at *lineError
	var include *includeError
	if errors.As(err, &at) {
		line = at.line
	}
	f := Facts{Format: l.facts.Format, Lockfile: l.facts.Lockfile, Present: true, Note: "what it locks is unknown"}
	what := "the lock cannot be read: " + clip(err.Error(), 300)
	return f, []Problem{{Path: l.lock.Path, Line: line, Kind: KindSyntax, What: plain(what), Beside: errors.As(err, &include)}}
}

// count is how many entries were added.
func (f *Facts) count() int { return f.Pinned + len(f.Unpinned) + len(f.Local) }

// finish settles the verdicts and tells the problems, one of a kind.
func (l *ledger) finish() (Facts, []Problem) {
	f := &l.facts
	f.Readable = true
	for _, list := range []*[]string{&f.Unpinned, &f.Unhashed, &f.VCS, &f.Local, &f.Hosts} {
		*list = sortedSet(*list)
	}
	f.ImpliedHosts = unnamed(f.ImpliedHosts, f.Hosts)
	l.settle()
	l.about(KindUnpinned, f.Unpinned, "%s left open which version is installed: %s")
	l.about(KindUnhashed, f.Unhashed, "%s without a hash, so another file could take their place unnoticed: %s")
	f.Note = plain(strings.Join(l.notes, "; "))
	return *f, l.problems
}

func (l *ledger) settle() {
	f := &l.facts
	yes, no := true, false
	switch {
	case len(l.stale) > 0:
		f.InStep = &no
		l.problem(KindStale, 0, "the lock is not in step with its manifest: "+some(l.stale, "; "))
	case len(l.leftover) > 0:
		f.InStep = &no
		l.problem(KindLeftover, 0, "the lock holds more than its manifest asks for: "+some(sortedSet(l.leftover), ", "))
	case len(l.open) > 0:
		l.notes = append(l.notes, "whether it is in step is not known: "+some(l.open, "; "))
	case l.judged:
		f.InStep = &yes
	}
}

func (l *ledger) about(kind string, names []string, text string) {
	if len(names) == 0 {
		return
	}
	count := fmt.Sprintf("%d entries", len(names))
	if len(names) == 1 {
		count = "1 entry"
	}
	l.problem(kind, lineOf(l.lock.Data, names[0]), fmt.Sprintf(text, count, some(names, ", ")))
}

// some joins the first few words.
func some(words []string, sep string) string {
	const most = 8
	if len(words) <= most {
		return clip(strings.Join(words, sep), 1000)
	}
	return clip(strings.Join(words[:most], sep), 1000) + fmt.Sprintf(" and %d more", len(words)-most)
}

func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// lineOf is the first line that holds a name between characters that cannot be
// part of one, or 0.
func lineOf(data []byte, name string) int {
	if name == "" {
		return 0
	}
	for from := 0; ; {
		at := bytes.Index(data[from:], []byte(name))
		if at < 0 {
			return 0
		}
		at += from
		from = at + len(name)
		if (at == 0 || !namePart(data[at-1])) && (from >= len(data) || !namePart(data[from])) {
			return bytes.Count(data[:at], []byte("\n")) + 1
		}
	}
}

func namePart(c byte) bool {
	return c == '-' || c == '_' || c == '.' || c == '/' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func sortedSet(s []string) []string {
	s = slices.Clone(s)
	slices.Sort(s)
	return slices.Compact(s)
}

// unnamed keeps the first of each implied host that no file names.
func unnamed(implied, named []string) []string {
	var out []string
	for _, h := range implied {
		if !slices.Contains(named, h) && !slices.Contains(out, h) {
			out = append(out, h)
		}
	}
	return out
}
