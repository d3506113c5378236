package standin

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"drkit/internal/errext"
	"drkit/internal/safetensors"
)

// maxWeights bounds the weights that are loaded, in bytes of their files: this
// engine computes in plain Go and is meant for models of a few MB.
const maxWeights = 1 << 30

// matrix is a row-major weight matrix, or a vector with one row.
type matrix struct {
	rows, cols int
	data       []float32
}

// weightFiles chooses the files as vLLM does: those that the index names, or
// else every *.safetensors at the top of the directory.
func weightFiles(dir string) ([]string, error) {
	names, err := topLevel(dir)
	if err != nil {
		return nil, err
	}
	if err := refuseOtherLayouts(dir); err != nil {
		return nil, err
	}
	if slices.Contains(names, indexName) {
		return indexedFiles(dir, names)
	}
	var files []string
	for _, n := range names {
		if strings.HasSuffix(n, ".safetensors") {
			files = append(files, n)
		}
	}
	if len(files) == 0 {
		return nil, errext.WithHint(vllmSays("Cannot find any model weights with `%s`: there is no *.safetensors file", dir),
			"restore the weights from the release")
	}
	return files, nil
}

const indexName = "model.safetensors.index.json"

// topLevel lists the names in dir whose content exists; a dangling link is as
// good as absent.
func topLevel(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if st, err := os.Stat(filepath.Join(dir, e.Name())); err == nil && st.Mode().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// refuseOtherLayouts stops at consolidated*.safetensors anywhere below dir:
// it switches vLLM to Mistral's format, and then vLLM loads other weights than
// the index names, or none.
func refuseOtherLayouts(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if ok, _ := filepath.Match("consolidated*.safetensors", d.Name()); ok {
			return unsupported("Mistral's format, to which the file %s switches the loader", path)
		}
		return nil
	})
}

func indexedFiles(dir string, names []string) ([]string, error) {
	f, err := os.Open(filepath.Join(dir, indexName))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	ix, err := safetensors.ReadIndex(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	var missing []string
	for _, n := range ix.Files() {
		if !slices.Contains(names, n) {
			missing = append(missing, "'"+filepath.Join(dir, n)+"'")
		}
	}
	if len(missing) > 0 {
		return nil, errext.WithHint(vllmSays("Weight files referenced in index but missing: {%s}", strings.Join(missing, ", ")),
			"restore the missing shards from the release")
	}
	return ix.Files(), nil
}

// readWeights calls f for every tensor of a file.
func readWeights(path string, f func(name string, shape []int64, data []float32) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil {
		return err
	}
	if st.Size() > maxWeights {
		return unsupported("weights of %d bytes (%s), at most %d", st.Size(), path, maxWeights)
	}
	h, err := safetensors.Read(file, st.Size())
	if err != nil {
		return headerError(path, err)
	}
	for _, t := range h.Tensors {
		raw, err := h.ReadTensor(file, t)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		data, err := floats(t.DType, raw)
		if err != nil {
			return fmt.Errorf("%s: tensor %s: %w", path, t.Name, err)
		}
		if err := f(t.Name, t.Shape, data); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// headerError puts the safetensors library's own words, which an operator will
// grep for, before what was found.
func headerError(path string, err error) error {
	var he *safetensors.HeaderError
	if !errors.As(err, &he) {
		return fmt.Errorf("%s: %w", path, err)
	}
	says := "invalid header"
	switch he.Kind {
	case safetensors.HeaderTooLarge, safetensors.LFSPointer, safetensors.ErrorPage:
		says = "header too large"
	case safetensors.TooShort:
		says = "header too small"
	case safetensors.HeaderCut:
		says = "invalid header length"
	case safetensors.Truncated, safetensors.TrailingBytes:
		says = "incomplete metadata, file not fully covered"
	}
	return errext.WithHint(fmt.Errorf("SafetensorError: Error while deserializing header: %s: %s: %w", says, path, err),
		"restore "+filepath.Base(path)+" from the release")
}

func floats(d safetensors.DType, raw []byte) ([]float32, error) {
	switch d {
	case safetensors.F32:
		return decode(raw, 4, func(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }), nil
	case safetensors.BF16:
		return decode(raw, 2, func(b []byte) float32 { return math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16) }), nil
	case safetensors.F16:
		return decode(raw, 2, func(b []byte) float32 { return half(binary.LittleEndian.Uint16(b)) }), nil
	}
	return nil, unsupported("weights of type %s", d)
}

func decode(raw []byte, width int, one func([]byte) float32) []float32 {
	out := make([]float32, len(raw)/width)
	for i := range out {
		out[i] = one(raw[i*width:])
	}
	return out
}

// half is an IEEE 754 half-precision number.
func half(b uint16) float32 {
	sign, exp, frac := uint32(b>>15)<<31, uint32(b>>10&0x1F), uint32(b&0x3FF)
	switch exp {
	case 0: // zero or subnormal: frac * 2^-24
		v := float32(frac) * (1.0 / (1 << 24))
		return math.Float32frombits(math.Float32bits(v) | sign)
	case 0x1F: // infinity or NaN
		return math.Float32frombits(sign | 0xFF<<23 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}
