package rules

import (
	"fmt"
	"slices"

	"drkit/manifest"
	"drkit/manifest/deploy/lockfile"
)

// These rules judge what a build or a pod installs elsewhere. An image that is
// named by its digest starts without its lock, so most of them are degraded: they
// fail the gate with --strict only.
var lockRules = []Rule{
	{"F-1", manifest.Block, "a lock cannot be read",
		"Every lock file is one that its own tool accepts.", brokenLock},
	{"F-2", manifest.Degraded, "a lock is not in step with its manifest",
		"Each lock agrees with the manifest that it was made from.", staleLock},
	{"F-3", manifest.Degraded, "a lock leaves versions open",
		"Each entry of a lock is pinned to one version, commit or file.", unpinnedEntries},
	{"F-4", manifest.Degraded, "a lock has entries without a hash",
		"Each entry of a lock has the hash of what is installed.", unhashedEntries},
	{"F-5", manifest.Degraded, "packages are required and nothing locks them",
		"Each manifest of a package manager that requires packages has its lock in the release.", missingLock},
	{"F-6", manifest.Degraded, "a lock installs from the source region",
		"No lock that a target uses names a host of the source region.", lockFromSource},
	{"F-7", manifest.Info, "a lock is not known whole",
		"Locks are of a format that drkit reads, and name their hosts.", unreadLock},
}

// lockProblems turns problems of some kinds into findings of one severity.
func (v *view) lockProblems(severity manifest.Severity, hint string, kinds ...string) (out []manifest.Finding) {
	for _, p := range v.m.Annotations.Problems {
		if p.Part == manifest.Deploy && slices.Contains(kinds, p.Kind) {
			out = append(out, manifest.Finding{Severity: severity, Part: string(p.Part), Path: place(p), Line: p.Line, Message: p.What, Seen: p.Seen, Hint: hint})
		}
	}
	return out
}

// lock is what a lock file of a finding's path says.
func (v *view) lock(path string) manifest.LockFacts {
	for _, l := range v.m.Annotations.Locks {
		if place(manifest.Problem{Region: l.Region, Path: l.Path}) == path {
			return l
		}
	}
	return manifest.LockFacts{}
}

// brokenLock blocks where an image of the release is built with the lock: it
// cannot be built again. A lock that includes a file which is not in the release
// may be sound.
func brokenLock(v *view) (out []manifest.Finding) {
	for _, f := range v.lockProblems(manifest.Degraded, "write the lock anew with its tool, and see that it was not cut off or merged by hand", lockfile.KindSyntax) {
		if by := v.lock(f.Path).CopiedBy; len(by) > 0 {
			f.Severity = manifest.Block
			f.Message += fmt.Sprintf("; %s builds an image with it", by[0])
		}
		out = append(out, f)
	}
	return append(out, v.lockProblems(manifest.Degraded, "list the included file under deploy.files in drkit.yaml", manifest.KindLockInclude)...)
}

func staleLock(v *view) []manifest.Finding {
	return append(v.lockProblems(manifest.Degraded, "lock again with the tool, and test what that changes", lockfile.KindStale),
		v.lockProblems(manifest.Info, "lock again with the tool; builds are not affected", lockfile.KindLeftover)...)
}

func unpinnedEntries(v *view) []manifest.Finding {
	return v.lockProblems(manifest.Degraded, "pin each entry to one version (pip-compile, uv lock), and git entries to a full commit", lockfile.KindUnpinned)
}

// unhashedEntries only notes what no tool could mend: Helm's lock has no place
// for the hash of an archive.
func unhashedEntries(v *view) (out []manifest.Finding) {
	for _, f := range v.lockProblems(manifest.Degraded, "lock with hashes (pip-compile --generate-hashes, uv lock)", lockfile.KindUnhashed) {
		if v.lock(f.Path).Format == "helm" {
			f.Severity, f.Hint = manifest.Info, "the format has no hash of an archive: keep the charts themselves in charts/"
		}
		out = append(out, f)
	}
	return out
}

func missingLock(v *view) []manifest.Finding {
	return v.lockProblems(manifest.Degraded, "list its lock under deploy.files in drkit.yaml; make one first where there is none", manifest.KindLockMissing)
}

func lockFromSource(v *view) []manifest.Finding {
	return v.lockProblems(manifest.Degraded, "mirror the index in each region and let each region's build name its own, or copy what is installed into the image", manifest.KindLockRegion)
}

func unreadLock(v *view) []manifest.Finding {
	return append(v.lockProblems(manifest.Info, "see yourself that it is in step and pinned, or lock with a tool of docs/lockfiles.md", lockfile.KindUnread),
		v.lockProblems(manifest.Info, "see yourself which host it is, and that the target can reach it", lockfile.KindHost)...)
}
