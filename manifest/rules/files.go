package rules

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"

	"drkit/internal/store"
	"drkit/manifest"
	"drkit/manifest/model"
)

var fileRules = []Rule{
	{"W-11", manifest.Block, "a safetensors file is cut off or damaged",
		"The header of each safetensors file describes exactly that file.", brokenHeader},
	{"W-12", manifest.Block, "something else stands in place of a file",
		"No file is a Git LFS pointer, an error page or a store's error.", standIn},
	{"W-16", manifest.Block, "a symbolic link leads nowhere",
		"Every symbolic link of the model leads to a file; in a hub's cache, to one of its blobs.", deadLink},
	{"P-1", manifest.Info, "a file name is not in composed form",
		"File names are in Unicode's NFC.", decomposed},
}

// each walks over the model part's folders and their problems, in order.
func (v *view) each(f func(folder, *repo, string, manifest.Problem)) {
	visit := func(fo folder, r *repo) {
		for _, p := range slices.Sorted(maps.Keys(fo.problems)) {
			for _, problem := range fo.problems[p] {
				f(fo, r, p, problem)
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

// gravity is how much a file that cannot be read matters: r is nil in an
// adapter's folder.
func (v *view) gravity(r *repo, p string) manifest.Severity {
	name := path.Base(p)
	if r == nil {
		if strings.HasPrefix(name, "adapter_") {
			return manifest.Block
		}
		return manifest.Info
	}
	role := model.Role(p)
	switch {
	case role == "weights" && (r.loaded[p] || r.sentenceModule(p)):
		return manifest.Block
	case strings.Contains(p, "/") && !r.sentenceModule(p) && role != "chat-template":
		return manifest.Degraded // the engine reads the repository's root
	case role == "weights":
		return manifest.Degraded // beside the ones that the engine loads
	case role == "chat-template":
		return manifest.Silent
	case role == "tokenizer" && !r.decides(name):
		return manifest.Degraded
	case role == "other":
		return manifest.Info
	}
	return manifest.Block
}

// sentenceModule reports whether a file belongs to a sentence-transformers
// module, whose folders the engine does read.
func (r *repo) sentenceModule(p string) bool {
	first, _, inFolder := strings.Cut(p, "/")
	return inFolder && r.present("modules.json") && len(first) > 1 && first[0] >= '0' && first[0] <= '9' && strings.Contains(first, "_")
}

// decides reports whether a tokenizer file is one that the engine reads: not
// the older forms beside tokenizer.json.
func (r *repo) decides(name string) bool {
	return name == "tokenizer.json" || name == "tokenizer_config.json" || name == "special_tokens_map.json" ||
		name == "added_tokens.json" || !r.present("tokenizer.json")
}

func brokenHeader(v *view) (out []manifest.Finding) {
	v.each(func(f folder, r *repo, p string, problem manifest.Problem) {
		kind, ok := strings.CutPrefix(problem.Kind, model.KindSafetensors)
		if !ok {
			return
		}
		out = append(out, manifest.Finding{Severity: v.gravity(r, p), Path: problem.Path, Message: problem.What,
			Seen: "Error while deserializing header: " + cmp.Or(reference[kind], "invalid JSON in header"),
			Hint: "copy the file again from the model's origin; the copy broke off or was damaged"})
	})
	return out
}

// reference is what the reference reader says of each kind of damage.
var reference = map[string]string{
	"too-short": "header too small", "header-too-large": "header too large", "header-cut": "invalid header length",
	"truncated": "incomplete metadata, file not fully covered", "trailing-bytes": "incomplete metadata, file not fully covered",
	"hole": "invalid offset", "overlap": "invalid offset", "bad-shape": "invalid shape, data type, or offset for tensor",
}

func standIn(v *view) (out []manifest.Finding) {
	v.each(func(f folder, r *repo, p string, problem manifest.Problem) {
		hint := "fetch the file again; a proxy, a login page or a refused request answered in its place"
		switch problem.Kind {
		case model.KindLFSPointer:
			hint = "run git lfs pull where the model was cloned, or download the file from the model's hub"
		case model.KindErrorPage:
		default:
			return
		}
		seen := ""
		if path.Ext(p) == ".safetensors" {
			seen = "Error while deserializing header: header too large"
		} else if path.Ext(p) == ".json" {
			seen = "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)"
		}
		out = append(out, manifest.Finding{Severity: v.gravity(r, p), Path: problem.Path, Message: problem.What, Seen: seen, Hint: hint})
	})
	return out
}

// deadLink blocks whatever the file: who made the link meant the file to be
// there, and a copy of the folder fails on it or leaves it out in silence.
func deadLink(v *view) (out []manifest.Finding) {
	v.each(func(f folder, r *repo, p string, problem manifest.Problem) {
		if problem.Kind == "dangling-symlink" || problem.Kind == "symlink-loop" || problem.Kind == store.DefectOutside {
			out = append(out, manifest.Finding{Path: problem.Path, Message: problem.What,
				Seen: "… does not appear to have a file named " + path.Base(p),
				Hint: "copy what the link points to: a copied hub cache needs its blobs folder too"})
		}
	})
	return out
}

func decomposed(v *view) (out []manifest.Finding) {
	for _, p := range v.m.Annotations.Problems {
		if p.Kind == "path-not-nfc" {
			out = append(out, manifest.Finding{Part: string(p.Part), Path: p.Path, Message: p.What, Hint: "rename the file"})
		}
	}
	return out
}
