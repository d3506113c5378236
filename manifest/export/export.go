// Package export writes a manifest in the formats of others: the statement of
// OpenSSF Model Signing for each model in it, a list for sha256sum, and a
// CycloneDX ML-BOM. Everything comes out of the manifest alone; no file is read,
// and equal manifests give equal bytes.
package export

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"drkit/internal/errext"
	"drkit/manifest"
	"drkit/manifest/digest"
	"drkit/manifest/oms"
)

// Base is the tree of the base model; others are adapters/NAME and drafts/NAME.
const Base = "base"

// LeftOut are the paths of a model repository that no manifest holds. A statement
// made from a manifest lists them as ignored, and a signature over them cannot be
// proven from a manifest.
var LeftOut = []string{".cache/huggingface", ".git"}

// Trees names the models of a manifest: base first, then adapters and drafts.
func Trees(m *manifest.Manifest) []string {
	var all []string
	for _, f := range m.Contents.Files {
		if tree := treeOf(f); tree != "" && !slices.Contains(all, tree) {
			all = append(all, tree)
		}
	}
	slices.SortFunc(all, func(a, b string) int {
		if (a == Base) != (b == Base) {
			return map[bool]int{true: -1, false: 1}[a == Base]
		}
		return strings.Compare(a, b)
	})
	return all
}

// treeOf is the model that a file belongs to, or "" for a file of no model.
func treeOf(f manifest.File) string {
	if f.Part != manifest.Model {
		return ""
	}
	first, rest, _ := strings.Cut(f.Path, "/")
	if first == Base {
		return Base
	}
	name, _, _ := strings.Cut(rest, "/")
	return first + "/" + name
}

// Files lists the files of one model with their SHA-256, by their paths in it.
func Files(m *manifest.Manifest, tree string) ([]oms.Resource, error) {
	var all []oms.Resource
	for _, f := range m.Contents.Files {
		if tree != "" && treeOf(f) == tree {
			all = append(all, oms.File(strings.TrimPrefix(f.Path, tree+"/"), f.Sums[digest.SHA256]))
		}
	}
	if len(all) == 0 {
		return nil, errext.WithStatus(errext.WithHint(fmt.Errorf("the manifest holds no model %q", tree),
			"it holds "+strings.Join(Trees(m), ", ")), errext.Usage)
	}
	return all, nil
}

// Statement is what a signature of one model says. It has the resources and the
// root that a signature of the model's folder has, as long as that folder holds
// nothing below LeftOut but .git: those paths it lists as ignored, with GitPaths
// and what the caller leaves out.
func Statement(m *manifest.Manifest, tree string, ignore ...string) (*oms.Statement, error) {
	files, err := Files(m, tree)
	if err != nil {
		return nil, err
	}
	ignore = slices.Concat(oms.GitPaths, LeftOut, ignore)
	files = oms.Without(files, ignore)
	name := path.Base(tree)
	if tree == Base {
		name = m.Service
	}
	s, err := oms.New(name, files, false, ignore)
	if err != nil {
		return nil, fmt.Errorf("making the statement of model/%s: %w", tree, err)
	}
	return s, nil
}

// OMS is the statement as JSON, unsigned.
func OMS(m *manifest.Manifest, tree string) ([]byte, error) {
	s, err := Statement(m, tree)
	if err != nil {
		return nil, err
	}
	data, err := s.Encode()
	return append(data, '\n'), err
}

// SHA256Sum is the list that sha256sum -c checks in a release's folder of a store,
// or in a folder that drkit restore wrote. A manifest's paths hold no character
// that the format would have to escape.
func SHA256Sum(m *manifest.Manifest) []byte {
	lines := make([]string, 0, len(m.Contents.Files))
	for _, f := range sorted(m) {
		lines = append(lines, f.Sums[digest.SHA256]+"  "+f.Subject()+"\n")
	}
	return []byte(strings.Join(lines, ""))
}

// sorted are the files by their subjects.
func sorted(m *manifest.Manifest) []manifest.File {
	return slices.SortedFunc(slices.Values(m.Contents.Files), func(a, b manifest.File) int {
		return strings.Compare(a.Subject(), b.Subject())
	})
}
