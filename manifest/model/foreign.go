package model

import (
	"bytes"
	"fmt"
	"path"
	"strings"

	"drkit/internal/safetensors"
)

// markup are endings of files that may well begin as HTML or XML does.
var markup = map[string]bool{".html": true, ".htm": true, ".xml": true, ".svg": true, ".md": true, "": true, ".vue": true, ".ipynb": true}

// rawData are endings of files that never begin with JSON text.
var rawData = map[string]bool{".bin": true, ".pt": true, ".pth": true, ".gguf": true, ".model": true, ".tiktoken": true, ".onnx": true, ".tensors": true}

// foreign finds what stands in place of a file: a Git LFS pointer, a proxy's
// error page, a store's XML error, a hub's JSON error. Safetensors files are
// judged by their header.
func (r *repository) foreign() {
	for _, p := range r.paths {
		f := r.files[p]
		if path.Ext(p) == ".safetensors" {
			continue
		}
		if pointer, ok := safetensors.ParseLFSPointer(f.Content); ok {
			r.problem(p, KindLFSPointer, 0, fmt.Sprintf("a Git LFS pointer of %d bytes in place of the file of %d bytes that it names", f.Size, pointer.Size))
		} else if what := errorBody(p, f.Content); what != "" {
			r.problem(p, KindErrorPage, 0, fmt.Sprintf("%d bytes of %s in place of the file, it begins %q", f.Size, what, firstText(f.Content)))
		}
	}
}

// errorBody names what kind of answer stands in place of a file, or is empty.
func errorBody(file string, content []byte) string {
	text := bytes.ToLower(bytes.TrimLeft(content[:min(len(content), sniffed)], " \t\r\n"))
	ext := strings.ToLower(path.Ext(file))
	for _, start := range []string{"<!doctype html", "<html", "<head", "<?xml", "<error>"} {
		if bytes.HasPrefix(text, []byte(start)) && !markup[ext] {
			return "HTML or XML text"
		}
	}
	if !bytes.HasPrefix(text, []byte("{")) || !(rawData[ext] || ext == ".json") {
		return ""
	}
	if rawData[ext] {
		return "JSON text"
	}
	if o, _, err := parseObject(content); err == nil && o["error"] != nil && len(o) <= 3 {
		return "JSON text that reports an error"
	}
	return ""
}

func firstText(content []byte) string {
	return strings.ToValidUTF8(string(bytes.TrimSpace(content[:min(len(content), 40)])), "?")
}
