// Package lockfile reads the lock files of package managers: which packages a
// build installs, whether each is pinned and hashed, from which hosts they come,
// and whether the lock still agrees with the manifest that it was made from.
//
// Hand in the lock and the files that lie around it:
//
//	facts, problems := lockfile.Read(lock, beside)
//
// Nothing is run and nothing is downloaded. What the files alone cannot decide
// is left open: [Facts].InStep is nil, and Note says why. docs/lockfiles.md
// lists for each format what is read and how the verdict comes about.
package lockfile

import (
	"bytes"
	"fmt"
	"path"
)

// File is one file: a slash-separated path below a common root, and its bytes.
// A lock whose Data is nil does not exist.
type File struct {
	Path string
	Data []byte
}

// Facts is what a lock says. Counts and lists are empty when it is not Readable.
type Facts struct {
	Format   string // uv, poetry, pdm, …; see [Format]
	Lockfile string // its path
	Present  bool
	Readable bool  // it was parsed whole
	InStep   *bool // it agrees with its manifest; nil where the files cannot say

	Pinned   int      // entries at one exact version, commit or file
	Unpinned []string // names of the others
	Hashed   int      // entries all of whose files have a hash
	Unhashed []string // names of those with at least one file without
	VCS      []string // entries from git: counted as pinned or not, never as hashed or not
	Local    []string // path and workspace entries: counted nowhere else

	Hosts        []string // index, file and git hosts that the lock, its manifest or a configuration file beside it names
	ImpliedHosts []string // hosts that the tool uses by default and that no file names
	Note         string   // what a person should know to judge the rest
}

// Problem is something in a lock that a person should know. What never holds a
// secret.
type Problem struct {
	Path string
	Line int    // 1-based; 0 when the place has no line
	Kind string // one of the Kind constants
	What string // one sentence
	// Beside says that the lock itself may be sound: it includes a file that is not
	// at hand.
	Beside bool
}

// Kinds of problems. They are stable words; rules refer to them.
const (
	KindSyntax   = "lock-syntax"      // cannot be read whole: what it locks is unknown
	KindUnread   = "lock-unread"      // a format that drkit recognises and does not read
	KindStale    = "lock-stale"       // disagrees with its manifest: the tool would refuse or rewrite it
	KindLeftover = "lock-leftover"    // holds more than its manifest asks for; the build is not affected
	KindUnpinned = "lock-unpinned"    // entries whose version is left open
	KindUnhashed = "lock-unhashed"    // entries whose files have no hash
	KindHost     = "lock-host-hidden" // a host comes from a variable or an alias, so it is not known
	KindSecret   = "plain-secret"     // a password or token in plain text
)

// maxSize is the size in bytes beyond which a lock or a manifest is not read. The
// largest real locks that we know have 2 MB.
const maxSize = 8 << 20

// maxEntries is how many packages a lock may hold, included files counted in.
const maxEntries = 100_000

// reader fills a ledger from one lock.
type reader func(*ledger) error

var readers = map[string]reader{
	"uv":           readUV,
	"poetry":       readPoetry,
	"pdm":          readPDM,
	"pipenv":       readPipenv,
	"pylock":       readPylock,
	"requirements": readRequirements,
	"pip-compile":  readPipCompile,
	"conda-lock":   readConda,
	"gomod":        readGomod,
	"cargo":        readCargo,
	"terraform":    readTerraform,
	"helm":         readHelm,
}

// Read reads a lock in the light of the files beside it: manifests, workspace
// members, configuration files, included requirements. A lock that cannot be
// read, or whose format is only recognised, always has a problem that says so.
func Read(lock File, beside []File) (Facts, []Problem) {
	l := newLedger(lock, beside)
	format, ok := Format(lock.Path)
	if !ok {
		l.problem(KindUnread, 0, "no lock file that drkit knows")
		return l.facts, l.problems
	}
	l.facts.Format = refine(format, l)
	if lock.Data == nil {
		return l.facts, nil
	}
	l.facts.Present = true
	read, ok := readers[l.facts.Format]
	if !ok {
		l.facts.Note = "recognised, not read: pins, hashes and hosts in it are unknown"
		l.problem(KindUnread, 0, "drkit recognises "+l.facts.Format+" locks and hashes them, but does not read what is in them")
		return l.facts, l.problems
	}
	if err := check(lock); err != nil {
		return l.unreadable(err)
	}
	l.lock.Data = bytes.TrimPrefix(lock.Data, []byte("\ufeff"))
	if err := read(l); err != nil {
		return l.unreadable(err)
	}
	if l.facts.count() > maxEntries {
		return l.unreadable(fmt.Errorf("it holds more than %d entries", maxEntries))
	}
	return l.finish()
}

// check refuses what no reader should be given.
func check(f File) error {
	if len(f.Data) > maxSize {
		return fmt.Errorf("%s has %d MiB; locks of more than %d MiB are not read", path.Base(f.Path), len(f.Data)>>20, maxSize>>20)
	}
	return nil
}
