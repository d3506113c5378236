package model

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Code is a Python file of the repository with the files beside it that it
// imports, by the two forms that transformers looks for.
type Code struct {
	Path    string   `json:"path"`
	Imports []string `json:"imports,omitempty"` // such as "helpers.py"
}

var relativeImport = regexp.MustCompile(`(?m)^\s*(?:import\s+\.(\S+)\s*$|from\s+\.(\S+)\s+import)`)

// code reads the Python files in the root.
func (r *repository) code() {
	for _, p := range r.inRoot("*.py") {
		set := map[string]bool{}
		for _, m := range relativeImport.FindAllStringSubmatch(string(r.files[p].Content), -1) {
			if module := m[1] + m[2]; !strings.HasPrefix(module, ".") {
				set[path.Clean(strings.ReplaceAll(module, ".", "/"))+".py"] = true
			}
		}
		r.facts.Code = append(r.facts.Code, Code{Path: p, Imports: slices.Sorted(maps.Keys(set))})
	}
}
