package manifest

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"drkit/manifest/deploy"
	"drkit/manifest/deploy/lockfile"
)

// LockFacts is what a lock file of the deploy part says.
type LockFacts struct {
	Region   string    `json:"region,omitempty"`
	Path     string    `json:"path"`
	Format   string    `json:"format"` // uv, poetry, npm, …; docs/lockfiles.md lists them
	Readable bool      `json:"readable"`
	InStep   *bool     `json:"in_step"` // it agrees with its manifest; null: the files cannot say
	Pinned   int       `json:"pinned"`  // entries at one exact version, commit or file
	Unpinned LockNames `json:"unpinned"`
	Hashed   int       `json:"hashed"` // entries all of whose files have a hash
	Unhashed LockNames `json:"unhashed"`
	Hosts    []string  `json:"hosts,omitempty"`         // that the lock, its manifest or a configuration file beside it names
	Implied  []string  `json:"implied_hosts,omitempty"` // that the tool uses by default and that no file names
	CopiedBy []string  `json:"copied_by,omitempty"`     // "path:line" of the Dockerfiles that build with it
	Note     string    `json:"note,omitempty"`
}

// LockNames counts entries of a lock and names the first of them.
type LockNames struct {
	Count int      `json:"count"`
	First []string `json:"first,omitempty"` // at most maxLockNames
}

const maxLockNames = 20

func lockNames(all []string) LockNames {
	return LockNames{Count: len(all), First: all[:min(len(all), maxLockNames)]}
}

// Kinds of problems of locks beside those of the lockfile package.
const (
	KindLockInclude = "lock-include"     // includes a file that the release does not list
	KindLockMissing = "lock-missing"     // a manifest requires packages, and the release has no lock for it
	KindLockRegion  = "lock-host-region" // installs from a host of the source region
)

// copied is a place where a Dockerfile of the release takes files.
type copied struct {
	deploy.Copy
	by *item
}

// locks reads the lock files of the deploy part, each in the light of the files
// that its region has.
func (c *collector) locks(copies []copied, regions []RegionSummary) (all []LockFacts, problems []Problem) {
	for _, it := range c.items {
		if it.Part != Deploy || it.Role != Lockfile {
			continue
		}
		facts, found := lockfile.Read(lockfile.File{Path: it.Path, Data: it.text()}, c.beside(it))
		all = append(all, LockFacts{Region: it.Region, Path: it.Path, Format: facts.Format, Readable: facts.Readable, InStep: facts.InStep,
			Pinned: facts.Pinned, Unpinned: lockNames(facts.Unpinned), Hashed: facts.Hashed, Unhashed: lockNames(facts.Unhashed),
			Hosts: facts.Hosts, Implied: facts.ImpliedHosts, CopiedBy: copiedBy(it, copies), Note: facts.Note})
		for _, p := range found {
			if p.Beside {
				p.Kind, p.What = KindLockInclude, p.What+", or not among deploy.files"
			}
			problems = append(problems, it.problem(p.Line, p.Kind, p.What, ""))
		}
	}
	slices.SortFunc(all, func(a, b LockFacts) int { return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.Path, b.Path)) })
	return all, append(problems, c.unlocked(regions)...)
}

// text is the captured content; never nil, which would mean "does not exist".
func (it *item) text() []byte {
	return append([]byte{}, it.capture.Bytes()...)
}

// beside lists what a lock is read in the light of: the files of its folder and
// below. A requirements file may include any other by a path.
func (c *collector) beside(lock *item) (files []lockfile.File) {
	folder := path.Dir(lock.Path)
	format, _ := lockfile.Format(lock.Path)
	anywhere := format == "requirements" || format == "helm" // the latter's requirements.lock may be pip's
	for _, f := range c.inRegion(lock.Region) {
		if anywhere || folder == "." || strings.HasPrefix(f.Path, folder+"/") {
			files = append(files, lockfile.File{Path: f.Path, Data: f.capture.Bytes()})
		}
	}
	return files
}

// inRegion lists the deploy files that a region has: its own, and those of every
// region at whose path it has none.
func (c *collector) inRegion(region string) (files []*item) {
	own := map[string]bool{}
	for _, it := range c.items {
		if it.Part == Deploy && it.Region == region {
			own[it.Path] = true
			files = append(files, it)
		}
	}
	for _, it := range c.items {
		if it.Part == Deploy && it.Region == "" && !own[it.Path] {
			files = append(files, it)
		}
	}
	return files
}

// unlocked finds manifests that require packages and have no lock in some region.
func (c *collector) unlocked(regions []RegionSummary) (problems []Problem) {
	names := map[string]bool{}
	for _, r := range regions {
		names[r.Name] = true
	}
	for _, it := range c.items {
		if it.Part == Deploy && it.Region != "" {
			names[it.Region] = true
		}
	}
	if len(names) == 0 {
		names[""] = true
	}
	seen := map[location]bool{}
	for region := range names {
		for _, p := range c.unlockedIn(region) {
			if at := (location{p.Part, p.Region, p.Path}); !seen[at] {
				seen[at] = true
				problems = append(problems, p)
			}
		}
	}
	return problems
}

func (c *collector) unlockedIn(region string) (problems []Problem) {
	var files []lockfile.File
	at := map[string]*item{}
	for _, it := range c.inRegion(region) {
		files = append(files, lockfile.File{Path: it.Path, Data: it.capture.Bytes()})
		at[it.Path] = it
	}
	for _, m := range lockfile.Expected(files) {
		it := at[m.Manifest]
		if it == nil {
			continue
		}
		problems = append(problems, it.problem(0, KindLockMissing,
			fmt.Sprintf("%s requires packages, and the release has no lock for it, such as %s: whoever builds with it installs what is newest", path.Base(m.Manifest), m.Lock), ""))
	}
	return problems
}

// copiedBy lists the Dockerfiles that take a lock into an image. The folder that
// an image is built in is not in the files: it may be the Dockerfile's own or any
// above it.
func copiedBy(lock *item, copies []copied) (out []string) {
	for _, cp := range copies {
		if cp.by.Region != "" && lock.Region != "" && cp.by.Region != lock.Region {
			continue
		}
		if takes(cp.by.Path, cp.Source, lock.Path) {
			out = append(out, fmt.Sprintf("%s:%d", cp.by.place(), cp.Line))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func takes(dockerfile, source, file string) bool {
	for context := path.Dir(dockerfile); ; context = path.Dir(context) {
		from := path.Join(context, strings.TrimPrefix(source, "/"))
		if match, err := path.Match(from, file); err == nil && match {
			return true
		}
		whole := path.Clean("/"+source) == "/"
		if from == "." || strings.HasPrefix(file, from+"/") {
			return !whole || context == path.Dir(dockerfile) // all of a folder above is too little to go by
		}
		if context == "." || context == "/" {
			return false
		}
	}
}
