package standin

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"drkit/internal/safetensors"
)

const (
	shard1 = "model-00001-of-00002.safetensors"
	shard2 = "model-00002-of-00002.safetensors"
)

// repo copies support-tiny and its adapter into a fresh directory, the model
// at model and the adapter at adapter.
func repo(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for to, from := range map[string]string{"model": "support-tiny", "adapter": "support-tiny-billing"} {
		if err := os.CopyFS(filepath.Join(dir, to), os.DirFS(models+from)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(name, text string) func(testing.TB, string) {
	return func(t testing.TB, dir string) { check(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)) }
}

func remove(names ...string) func(testing.TB, string) {
	return func(t testing.TB, dir string) {
		for _, n := range names {
			check(t, os.RemoveAll(filepath.Join(dir, n)))
		}
	}
}

// cut shortens a file by some bytes; a negative number appends zero bytes.
func cut(name string, n int64) func(testing.TB, string) {
	return func(t testing.TB, dir string) {
		path := filepath.Join(dir, name)
		st, err := os.Stat(path)
		check(t, err)
		check(t, os.Truncate(path, st.Size()-n))
	}
}

func all(ops ...func(testing.TB, string)) func(testing.TB, string) {
	return func(t testing.TB, dir string) {
		for _, op := range ops {
			op(t, dir)
		}
	}
}

// set changes one key of a JSON file; a nil value removes it.
func set(name, key string, value any) func(testing.TB, string) {
	return func(t testing.TB, dir string) {
		path := filepath.Join(dir, name)
		text, err := os.ReadFile(path)
		check(t, err)
		var m map[string]any
		check(t, json.Unmarshal(text, &m))
		if value == nil {
			delete(m, key)
		} else {
			m[key] = value
		}
		text, err = json.Marshal(m)
		check(t, err)
		check(t, os.WriteFile(path, text, 0o600))
	}
}

// tensor is one array of a file under test.
type tensor struct {
	DType   string  `json:"dtype"`
	Shape   []int64 `json:"shape"`
	Offsets []int   `json:"data_offsets"`
	data    []byte
}

// rewrite changes the tensors of a safetensors file; the writing side is the
// test's own.
func rewrite(name string, change func(map[string]*tensor)) func(testing.TB, string) {
	return func(t testing.TB, dir string) {
		path := filepath.Join(dir, name)
		h, err := safetensors.ReadFile(path)
		check(t, err)
		text, err := os.ReadFile(path)
		check(t, err)
		ts := map[string]*tensor{}
		for _, x := range h.Tensors {
			ts[x.Name] = &tensor{DType: string(x.DType), Shape: x.Shape, data: text[h.DataStart+x.Begin : h.DataStart+x.End]}
		}
		change(ts)
		names := make([]string, 0, len(ts))
		for n := range ts {
			names = append(names, n)
		}
		slices.Sort(names)
		var data []byte
		for _, n := range names {
			ts[n].Offsets = []int{len(data), len(data) + len(ts[n].data)}
			data = append(data, ts[n].data...)
		}
		header, err := json.Marshal(ts)
		check(t, err)
		out := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
		check(t, os.WriteFile(path, append(append(out, header...), data...), 0o600))
	}
}

func drop(file string, names ...string) func(testing.TB, string) {
	return rewrite(file, func(ts map[string]*tensor) {
		for _, n := range names {
			if ts[n] == nil {
				panic(fmt.Sprintf("%s is not in %s", n, file))
			}
			delete(ts, n)
		}
	})
}

// widen stores a BF16 file as F32, with the same values.
func widen(ts map[string]*tensor) {
	for _, x := range ts {
		var out []byte
		for i := 0; i < len(x.data); i += 2 {
			out = binary.LittleEndian.AppendUint32(out, uint32(binary.LittleEndian.Uint16(x.data[i:]))<<16)
		}
		x.DType, x.data = "F32", out
	}
}

func TestHalf(t *testing.T) {
	// IEEE 754 binary16.
	for bits, want := range map[uint16]float64{0x0000: 0, 0x3C00: 1, 0xC000: -2, 0x7BFF: 65504, 0x0400: 0x1p-14, 0x0001: 0x1p-24, 0x83FF: -1023 * 0x1p-24, 0x3555: 0.333251953125, 0x7C00: math.Inf(1), 0xFC00: math.Inf(-1)} {
		if got := float64(half(bits)); got != want {
			t.Errorf("half(%#04x) = %v, want %v", bits, got, want)
		}
	}
	if got := half(0x7E00); got == got {
		t.Errorf("half(0x7E00) = %v", got)
	}
	if !math.Signbit(float64(half(0x8000))) {
		t.Error("minus zero lost its sign")
	}
}
