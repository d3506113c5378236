package selftest

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Paths beneath a release's folder.
const (
	baseDir    = "model/base"
	adapterDir = "model/adapters/" + adapter
	template   = "chat_template.jinja"
	tokenizer  = "tokenizer.json"
)

// blockSize is how many bytes an overwritten block has.
const blockSize = 4096

// overwritten is a file of the same size with other bytes in its middle: what a bad
// disk or a broken transfer leaves. The new values are ordinary numbers.
func overwritten(data []byte) []byte {
	out := append([]byte{}, data...)
	at := len(out) / 2
	for i := at; i < min(at+blockSize, len(out)); i++ {
		fill := byte((i - at) * 7)
		if (i-at)%2 == 1 { // the high byte of a BF16: sign and exponent
			fill = 0x3f | byte((i-at)&2)<<6
		}
		if out[i] == fill {
			fill ^= 1
		}
		out[i] = fill
	}
	return out
}

func rewrite(path string, change func([]byte) ([]byte, error)) error {
	data, err := os.ReadFile(path)
	if err == nil {
		data, err = change(data)
	}
	if err == nil {
		err = os.WriteFile(path, data, 0o644)
	}
	if err != nil {
		return fmt.Errorf("damaging %s: %w", filepath.Base(path), err)
	}
	return nil
}

// shard is the last weight file of a model's folder.
func shard(dir string) (string, error) {
	all, err := filepath.Glob(filepath.Join(dir, "*.safetensors"))
	if err != nil || len(all) == 0 {
		return "", fmt.Errorf("no weight file in %s", dir)
	}
	return all[len(all)-1], nil
}

func damageShard(dir string) error {
	path, err := shard(filepath.Join(dir, baseDir))
	if err != nil {
		return err
	}
	return rewrite(path, func(data []byte) ([]byte, error) { return overwritten(data), nil })
}

// staleAdapter gives the adapter's tensors the values of an earlier state: here half
// of what they were, in BF16 or F32 one less in the exponent.
func staleAdapter(dir string) error {
	return rewrite(filepath.Join(dir, adapterDir, "adapter_model.safetensors"), func(data []byte) ([]byte, error) {
		header, values, err := splitHeader(data)
		if err != nil {
			return nil, err
		}
		var tensors map[string]struct {
			Dtype   string `json:"dtype"`
			Offsets [2]int `json:"data_offsets"`
		}
		if err := json.Unmarshal(withoutMetadata(header), &tensors); err != nil {
			return nil, err
		}
		for name, t := range tensors {
			if !strings.Contains(name, "lora_B") {
				continue
			}
			width := map[string]int{"F32": 4, "BF16": 2}[t.Dtype]
			if width == 0 {
				return nil, fmt.Errorf("an adapter of %s is not known here", t.Dtype)
			}
			for at := t.Offsets[0]; at+width <= t.Offsets[1]; at += width {
				high := values[at+width-2 : at+width]
				if bits := binary.LittleEndian.Uint16(high); bits&0x7f80 > 0x100 {
					binary.LittleEndian.PutUint16(high, bits-0x100) // a quarter
				}
			}
		}
		return data, nil
	})
}

func otherTemplate(dir string) error {
	return rewrite(filepath.Join(dir, baseDir, template), func(data []byte) ([]byte, error) {
		return append([]byte("{{ 'You are another assistant. ' }}"), data...), nil
	})
}

// dropMatrix takes one matrix out of the weights and out of their index.
func dropMatrix(dir string) error {
	base := filepath.Join(dir, baseDir)
	paths, err := filepath.Glob(filepath.Join(base, "*.safetensors"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		dropped := ""
		err := rewrite(path, func(data []byte) (out []byte, err error) {
			out, dropped, err = withoutMatrix(data)
			return out, err
		})
		if err != nil {
			return err
		}
		if dropped != "" {
			return dropFromIndex(filepath.Join(base, "model.safetensors.index.json"), dropped)
		}
	}
	return errors.New("no matrix of an MLP was found")
}

// withoutMatrix is a safetensors file without its first MLP matrix; "" where it has none.
func withoutMatrix(data []byte) (out []byte, name string, err error) {
	header, values, err := splitHeader(data)
	if err != nil {
		return nil, "", err
	}
	tensors := map[string]map[string]any{}
	if err := json.Unmarshal(withoutMetadata(header), &tensors); err != nil {
		return nil, "", err
	}
	for n := range tensors {
		if strings.HasSuffix(n, "mlp.down_proj.weight") && (name == "" || n < name) {
			name = n
		}
	}
	if name == "" {
		return data, "", nil
	}
	from, to, err := offsets(tensors[name])
	if err != nil {
		return nil, "", err
	}
	delete(tensors, name)
	for n, t := range tensors {
		a, b, err := offsets(t)
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", n, err)
		}
		if a >= to {
			t["data_offsets"] = []int{a - (to - from), b - (to - from)}
		}
	}
	text, err := json.Marshal(tensors)
	if err != nil {
		return nil, "", err
	}
	for len(text)%8 != 0 {
		text = append(text, ' ')
	}
	out = binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	out = append(out, text...)
	out = append(out, values[:from]...)
	return append(out, values[to:]...), name, nil
}

func offsets(tensor map[string]any) (from, to int, err error) {
	pair, _ := tensor["data_offsets"].([]any)
	if len(pair) != 2 {
		return 0, 0, errors.New("a tensor without offsets")
	}
	a, _ := pair[0].(float64)
	b, _ := pair[1].(float64)
	return int(a), int(b), nil
}

func dropFromIndex(path, name string) error {
	if _, err := os.Stat(path); err != nil {
		return nil // a model of one file has no index
	}
	return rewrite(path, func(data []byte) ([]byte, error) {
		var index map[string]any
		if err := json.Unmarshal(data, &index); err != nil {
			return nil, err
		}
		if weights, ok := index["weight_map"].(map[string]any); ok {
			delete(weights, name)
		}
		return json.Marshal(index)
	})
}

// splitHeader cuts a safetensors file into header and values; both share its memory.
func splitHeader(data []byte) (header, values []byte, err error) {
	if len(data) < 8 {
		return nil, nil, errors.New("it is no safetensors file")
	}
	n := binary.LittleEndian.Uint64(data)
	if n > uint64(len(data)-8) {
		return nil, nil, errors.New("its header is cut short")
	}
	return data[8 : 8+n], data[8+n:], nil
}

// withoutMetadata is the header without its one entry that is no tensor.
func withoutMetadata(header []byte) []byte {
	var all map[string]json.RawMessage
	if json.Unmarshal(header, &all) != nil {
		return header
	}
	delete(all, "__metadata__")
	text, err := json.Marshal(all)
	if err != nil {
		return header
	}
	return text
}
