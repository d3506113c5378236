package rules

import (
	"strings"

	"drkit/internal/store"
	"drkit/manifest"
	"drkit/manifest/model"
)

// These rules compare a model with what its source states of it: the commit's
// listing and the digests that a model hub's cache, a download or the hub keeps.
var sourceRules = []Rule{
	{"W-17", manifest.Silent, "a file is not what its source states",
		"The bytes of each file have the digest that the hub gave them: in a cache, the blob's name.", damaged},
	{"W-19", manifest.Block, "a file of the commit is not there",
		"Every file that the commit's listing names was downloaded whole.", incomplete},
	{"W-20", manifest.Degraded, "a name of the commit cannot be resolved offline",
		"Each file in refs/ of a hub's cache holds exactly the 40 digits of a commit.", malformedRef},
}

// aboutSource reports whether a problem is a contradiction between a folder and
// its source's records, which leaves the file itself readable or plainly absent.
func aboutSource(p manifest.Problem) bool {
	switch p.Kind {
	case manifest.KindDigest, store.DefectMissing, store.DefectInterrupted, store.DefectListing, store.DefectRef:
		return true
	}
	return false
}

// eachSourced walks over what folders contradict, of the given kinds.
func (v *view) eachSourced(f func(r *repo, p string, problem manifest.Problem), kinds ...string) {
	visit := func(fo folder, r *repo) {
		for _, problem := range fo.sourced {
			for _, kind := range kinds {
				if problem.Kind == kind {
					f(r, strings.TrimPrefix(problem.Path, fo.tree+"/"), problem)
				}
			}
		}
	}
	for _, r := range v.repos {
		visit(r.folder, r)
	}
	for _, a := range v.adapters {
		visit(a.folder, nil)
	}
}

// damaged is silent at its gravest: what keeps the engine from booting has a
// finding of its own.
func damaged(v *view) (out []manifest.Finding) {
	v.eachSourced(func(r *repo, p string, problem manifest.Problem) {
		severity := v.gravity(r, p)
		if severity == manifest.Block {
			severity = manifest.Silent
		}
		out = append(out, manifest.Finding{Severity: severity, Path: problem.Path, Message: problem.What,
			Hint: "download the file again (hf download --force-download), or waive this if it was edited on purpose"})
	}, manifest.KindDigest)
	return out
}

func incomplete(v *view) (out []manifest.Finding) {
	v.eachSourced(func(r *repo, p string, problem manifest.Problem) {
		out = append(out, manifest.Finding{Severity: v.absence(r, p), Path: problem.Path, Message: problem.What,
			Seen: "Cannot find an appropriate cached snapshot folder, or: … does not appear to have a file named …",
			Hint: "run hf download again; it fetches what is missing. Waive this for files that were left out on purpose"})
	}, store.DefectMissing, store.DefectInterrupted)
	v.eachSourced(func(r *repo, p string, problem manifest.Problem) {
		out = append(out, manifest.Finding{Severity: manifest.Degraded, Path: problem.Path, Message: problem.What,
			Hint: "run hf download again with a current huggingface_hub, which writes the listing"})
	}, store.DefectListing)
	return out
}

// absence is how much it matters that a file of the commit is not there. Weights,
// their index and code are judged by the rules that know which of them the engine
// loads: downloads leave out the other forms of the weights on purpose.
func (v *view) absence(r *repo, p string) manifest.Severity {
	role, severity := model.Role(p), v.gravity(r, p)
	switch {
	case strings.HasPrefix(p, "blobs/"):
		return manifest.Degraded // which file it is nobody knows
	case r == nil || severity != manifest.Block:
		return severity
	case role == "weights" || role == "index" || role == "code":
		return manifest.Degraded
	case role == "generation" || (role == "tokenizer" && p != "tokenizer.json"):
		return manifest.Silent // it boots without
	}
	return severity
}

func malformedRef(v *view) (out []manifest.Finding) {
	v.eachSourced(func(r *repo, p string, problem manifest.Problem) {
		out = append(out, manifest.Finding{Path: problem.Path, Message: problem.What,
			Seen: "LocalEntryNotFoundError: Cannot find an appropriate cached snapshot folder for the specified revision on the local disk",
			Hint: "write the commit into it without a newline, or run hf download again; a copy that drkit makes does not need it"})
	}, store.DefectRef)
	return out
}
