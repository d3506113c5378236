package safetensors

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
)

// maxIndex bounds an index file in bytes; the largest published ones have some tens of MiB.
const maxIndex = 256 << 20

// Index is model.safetensors.index.json: which shard holds which tensor.
type Index struct {
	WeightMap map[string]string // tensor name to file name, as written
	TotalSize *int64            // metadata.total_size in bytes; nil when absent or not a whole number
}

// Files lists the distinct shards, sorted. vLLM compares these names as
// strings with the files beside the index, so "./x" is not "x".
func (ix *Index) Files() []string {
	set := map[string]bool{}
	for _, f := range ix.WeightMap {
		set[f] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// ReadIndex reads an index. An error says what is wrong with the text.
func ReadIndex(r io.Reader) (*Index, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxIndex+1))
	if err != nil {
		return nil, fmt.Errorf("reading the index: %w", err)
	}
	if len(text) > maxIndex {
		return nil, fmt.Errorf("the index has more than %d bytes", maxIndex)
	}
	if _, ok := ParseLFSPointer(text); ok {
		return nil, errors.New("the index is a Git LFS pointer, not the file that it names")
	}
	ix := &Index{}
	err = eachMember(text, func(k string, v json.RawMessage) error {
		switch k {
		case "weight_map":
			return ix.parseMap(v)
		case "metadata":
			ix.TotalSize = totalSize(v)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("the index: %w", err)
	}
	if ix.WeightMap == nil {
		return nil, errors.New("the index has no weight_map")
	}
	return ix, nil
}

func (ix *Index) parseMap(v json.RawMessage) error {
	ix.WeightMap = map[string]string{}
	return eachMember(v, func(tensor string, v json.RawMessage) error {
		var file *string
		if err := json.Unmarshal(v, &file); err != nil || file == nil || *file == "" {
			return invalid("weight_map gives no file name for tensor %q", tensor)
		}
		ix.WeightMap[tensor] = *file
		return nil
	})
}

// totalSize reads metadata.total_size, which some writers give as 1.2e10.
// Engines ignore it, so a wrong one is not an error.
func totalSize(metadata json.RawMessage) *int64 {
	var m struct {
		N json.Number `json:"total_size"`
	}
	if json.Unmarshal(metadata, &m) != nil {
		return nil
	}
	if n, err := m.N.Int64(); err == nil {
		return &n
	}
	if f, err := m.N.Float64(); err == nil && f == math.Trunc(f) && f >= 0 && f < 1<<62 {
		n := int64(f)
		return &n
	}
	return nil
}
