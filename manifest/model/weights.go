package model

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"drkit/internal/safetensors"
)

// Weights is what the headers and the index say.
type Weights struct {
	Shards []Shard `json:"shards,omitempty"` // every safetensors file with a sound header, sorted
	Index  *Index  `json:"index,omitempty"`  // nil: absent or unreadable
	// BinIndex lists the files that pytorch_model.bin.index.json names, sorted.
	BinIndex []string `json:"bin_index,omitempty"`
	GGUF     []GGUF   `json:"gguf,omitempty"` // every GGUF file in the root with a sound header, sorted
}

// Shard is one safetensors file.
type Shard struct {
	Path    string            `json:"path"`
	Bytes   int64             `json:"bytes"` // of tensor data
	Tensors map[string]Tensor `json:"tensors"`
}

// Tensor is an element type and a shape, as text "BF16[384,64]".
type Tensor struct {
	DType string
	Shape []int64
}

// MarshalText writes the text form.
func (t Tensor) MarshalText() ([]byte, error) {
	b := append([]byte(t.DType), '[')
	for i, n := range t.Shape {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, n, 10)
	}
	return append(b, ']'), nil
}

// UnmarshalText reads what MarshalText wrote.
func (t *Tensor) UnmarshalText(text []byte) error {
	dtype, rest, ok := strings.Cut(string(text), "[")
	list, end := strings.CutSuffix(rest, "]")
	if !ok || !end {
		return fmt.Errorf("tensor %q is not written as TYPE[N,…]", text)
	}
	t.DType, t.Shape = dtype, []int64{}
	if list == "" {
		return nil
	}
	for s := range strings.SplitSeq(list, ",") {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return fmt.Errorf("tensor %q: %w", text, err)
		}
		t.Shape = append(t.Shape, n)
	}
	return nil
}

// Index is model.safetensors.index.json. The files it names are compared as
// strings, as the engine does. Elsewhere holds the tensors that it promises in a
// file whose header does not have them, with that file.
type Index struct {
	Path      string            `json:"path"`
	Files     []string          `json:"files"`
	Tensors   int               `json:"tensors"`
	TotalSize *int64            `json:"total_size,omitempty"`
	Elsewhere map[string]string `json:"elsewhere,omitempty"`
}

// IndexName is the index that vLLM reads.
const IndexName = "model.safetensors.index.json"

// weights reads all headers, then the index against them.
func (r *repository) weights() {
	w := &r.facts.Weights
	for _, p := range r.paths {
		if path.Ext(p) == ".safetensors" {
			if s := r.shard(p); s != nil {
				w.Shards = append(w.Shards, *s)
			}
		}
	}
	r.ggufs()
	if f, ok := r.files["pytorch_model.bin.index.json"]; ok && !r.broken(f.Path) {
		if ix, err := safetensors.ReadIndex(bytes.NewReader(f.Content)); err == nil {
			w.BinIndex = ix.Files()
		}
	}
	if r.has(IndexName) && !r.broken(IndexName) {
		w.Index = r.index(IndexName)
	}
}

// shard reads one header. What is wrong with it becomes a problem.
func (r *repository) shard(p string) *Shard {
	f := r.files[p]
	h, err := safetensors.Read(bytes.NewReader(f.Content), f.Size)
	var he *safetensors.HeaderError
	switch {
	case errors.As(err, &he) && he.Kind == safetensors.LFSPointer:
		r.problem(p, KindLFSPointer, 0, he.Error())
	case errors.As(err, &he) && he.Kind == safetensors.ErrorPage:
		r.problem(p, KindErrorPage, 0, he.Error())
	case errors.As(err, &he):
		r.problem(p, KindSafetensors+string(he.Kind), 0, he.Error())
	case err != nil:
		r.problem(p, KindSafetensors+string(safetensors.InvalidHeader), 0, err.Error())
	}
	if err != nil {
		return nil
	}
	s := &Shard{Path: p, Bytes: h.Size - h.DataStart, Tensors: make(map[string]Tensor, len(h.Tensors))}
	for _, t := range h.Tensors {
		s.Tensors[t.Name] = Tensor{string(t.DType), t.Shape}
	}
	return s
}

func (r *repository) index(p string) *Index {
	ix, err := safetensors.ReadIndex(bytes.NewReader(r.files[p].Content))
	if err != nil {
		r.problem(p, KindInvalidIndex, 0, err.Error())
		return nil
	}
	out := &Index{Path: p, Files: ix.Files(), Tensors: len(ix.WeightMap), TotalSize: ix.TotalSize, Elsewhere: map[string]string{}}
	shards := r.facts.Weights.Shards
	for tensor, file := range ix.WeightMap {
		i, ok := slices.BinarySearchFunc(shards, file, func(s Shard, name string) int { return strings.Compare(s.Path, name) })
		if ok {
			_, ok = shards[i].Tensors[tensor]
		}
		if !ok {
			out.Elsewhere[tensor] = file
		}
	}
	return out
}
