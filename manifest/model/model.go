// Package model reads a model repository in Hugging Face form: config,
// generation defaults, tokenizer, chat template, quantization, the headers and
// index of its weights, and LoRA adapters. It does no I/O of its own: a Capture
// keeps what it needs while the file is hashed, so that the facts are about the
// very bytes that the digests are about.
//
//	c := model.NewCapture("config.json", size)   // an io.Writer
//	…                                            // copy the file through it
//	facts, problems := model.Read([]model.File{{Path: "config.json", Size: size, Content: c.Bytes()}})
//
// Facts say enough for every completeness rule to judge without the files.
// Malformed content is a Problem, never an error.
package model

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// File is one file of the repository. Path is relative to its root, with
// slashes. Content is what a Capture kept: all of a small text file, the header
// of a safetensors file, the beginning of any other.
type File struct {
	Path    string
	Size    int64
	Content []byte
}

// whole reports whether Content is the whole file.
func (f File) whole() bool { return int64(len(f.Content)) == f.Size }

// Problem is malformed content. Kind is one of the Kind constants, or
// "safetensors-" with a kind of internal/safetensors.
type Problem struct {
	Path string
	Line int // 1 is the first; 0: not known
	Kind string
	What string
}

// The kinds of problems.
const (
	KindLFSPointer    = "lfs-pointer"    // a Git LFS pointer in place of the file
	KindErrorPage     = "error-page"     // HTML, XML or a JSON error in place of the file
	KindInvalidJSON   = "json-invalid"   // not UTF-8 JSON text, or not an object
	KindInvalidText   = "text-invalid"   // not the UTF-8 text that Python reads there
	KindInvalidIndex  = "index-invalid"  // an index without a sound weight_map
	KindInvalidMerges = "merges-invalid" // a line of merges.txt that is no pair
	KindSafetensors   = "safetensors-"   // prefix: a header that does not describe the file
)

// Facts is what was read out of one repository.
type Facts struct {
	Config       *Config       `json:"config,omitempty"`     // nil: absent or unreadable
	Generation   *Generation   `json:"generation,omitempty"` // nil: absent or unreadable
	Tokenizer    Tokenizer     `json:"tokenizer,omitzero"`
	Template     Template      `json:"template,omitzero"`
	Processor    Processor     `json:"processor,omitzero"`
	Quantization *Quantization `json:"quantization,omitempty"`
	Code         []Code        `json:"code,omitempty"`
	Weights      Weights       `json:"weights,omitzero"`
}

// repository is the working state of Read.
type repository struct {
	files    map[string]File
	paths    []string // sorted
	facts    *Facts
	problems []Problem
	poolless string // the configuration of a pooling that chooses no kind
}

// Read makes facts and problems of the files of one repository.
func Read(files []File) (*Facts, []Problem) {
	r := newRepository(files)
	r.foreign()
	r.config()
	r.generation()
	r.tokenizer()
	r.template()
	r.processor()
	r.quantization()
	r.code()
	r.weights()
	return r.facts, r.problems
}

func newRepository(files []File) *repository {
	r := &repository{files: map[string]File{}, facts: &Facts{}}
	for _, f := range files {
		r.files[f.Path] = f
		r.paths = append(r.paths, f.Path)
	}
	slices.Sort(r.paths)
	return r
}

func (r *repository) has(path string) bool { _, ok := r.files[path]; return ok }

func (r *repository) problem(path, kind string, line int, what string) {
	r.problems = append(r.problems, Problem{Path: path, Line: line, Kind: kind, What: what})
}

// text is a file that the engine reads as UTF-8, which ends its boot where it is
// none: then that is noted, and the text is empty.
func (r *repository) text(path string) string {
	f := r.files[path]
	if !f.whole() {
		return strings.ToValidUTF8(string(f.Content), "") // the cut may lie in a character
	}
	if at := notUTF8(f.Content); at >= 0 {
		r.problem(path, KindInvalidText, 1+bytes.Count(f.Content[:at], []byte("\n")), fmt.Sprintf("it is not UTF-8 text: byte %d is %#02x", at, f.Content[at]))
		return ""
	}
	return string(f.Content)
}

// notUTF8 is the offset of the first byte that is no UTF-8, or -1.
func notUTF8(text []byte) int {
	for at := 0; at < len(text); {
		c, size := utf8.DecodeRune(text[at:])
		if c == utf8.RuneError && size <= 1 {
			return at
		}
		at += size
	}
	return -1
}

// broken reports whether the file already has a problem, so that one cause
// gives one problem.
func (r *repository) broken(path string) bool {
	return slices.ContainsFunc(r.problems, func(p Problem) bool { return p.Path == path })
}

// inRoot lists the files directly in the repository's root that match a
// path.Match pattern.
func (r *repository) inRoot(pattern string) []string {
	var out []string
	for _, p := range r.paths {
		if ok, _ := path.Match(pattern, p); ok && !strings.Contains(p, "/") {
			out = append(out, p)
		}
	}
	return out
}
