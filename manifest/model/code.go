package model

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Code is a Python file of the repository with the files beside it that it
// imports, by the two forms that transformers looks for, and the vocabulary
// files that it names when it is a tokenizer.
type Code struct {
	Path       string   `json:"path"`
	Imports    []string `json:"imports,omitempty"`    // such as "helpers.py"
	Vocabulary []string `json:"vocabulary,omitempty"` // of VOCAB_FILES_NAMES, such as "qwen.tiktoken"
}

var (
	relativeImport = regexp.MustCompile(`(?m)^\s*(?:import\s+\.(\S+)\s*$|from\s+\.(\S+)\s+import)`)
	vocabulary     = regexp.MustCompile(`VOCAB_FILES_NAMES\s*=\s*\{([^}]*)\}`)
	vocabularyFile = regexp.MustCompile(`["'](?:vocab_file|merges_file)["']\s*:\s*["']([^"'/]+)["']`)
)

// code reads the Python files in the root.
func (r *repository) code() {
	for _, p := range r.inRoot("*.py") {
		text := r.text(p)
		set := map[string]bool{}
		for _, m := range relativeImport.FindAllStringSubmatch(text, -1) {
			if module := m[1] + m[2]; !strings.HasPrefix(module, ".") {
				set[path.Clean(strings.ReplaceAll(module, ".", "/"))+".py"] = true
			}
		}
		c := Code{Path: p, Imports: slices.Sorted(maps.Keys(set))}
		if m := vocabulary.FindStringSubmatch(text); m != nil {
			for _, f := range vocabularyFile.FindAllStringSubmatch(m[1], -1) {
				c.Vocabulary = append(c.Vocabulary, f[1])
			}
		}
		r.facts.Code = append(r.facts.Code, c)
	}
}
