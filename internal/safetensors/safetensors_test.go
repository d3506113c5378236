package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const model = "../../testdata/models/support-tiny/"

// file builds a file from a header text and a number of data bytes.
func file(header string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	b = append(b, header...)
	return append(b, make([]byte, data)...)
}

const two = `{"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2],"data_offsets":[6,14]},"a":{"dtype":"BF16","shape":[3,1],"data_offsets":[0,6]}}  `

func TestReadGood(t *testing.T) {
	b := file(two, 14)
	h, err := Read(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	if len(h.Tensors) != 2 || h.Tensors[0].Name != "a" || h.Tensors[1].Bytes() != 8 || h.Metadata["format"] != "pt" {
		t.Errorf("header = %+v", h)
	}
	a, ok := h.Lookup("a")
	if !ok || a.Shape[0] != 3 || a.DType != BF16 {
		t.Errorf("a = %+v, %v", a, ok)
	}
}

// The kinds and the bytes follow the format's description; the outcome
// "does not load" of the damaged-file rows was measured on vLLM 0.32.0.
func TestReadBad(t *testing.T) {
	good := file(two, 14)
	huge := bytes.Clone(good)
	binary.LittleEndian.PutUint64(huge, 1<<40)
	pointer := "version https://git-lfs.github.com/spec/v1\noid sha256:" + strings.Repeat("ab", 32) + "\nsize 140584\n"
	one := func(fields string) []byte { return file(`{"a":{`+fields+`}}`, 4) }
	tests := []struct {
		name string
		file []byte
		kind Kind
		want int64
		got  int64
	}{
		{"empty", nil, TooShort, 8, 0},
		{"seven bytes", good[:7], TooShort, 8, 7},
		{"length 2^40", huge, HeaderTooLarge, MaxHeader, 0},
		{"inside the header", good[:100], HeaderCut, int64(8 + len(two)), 100},
		{"last byte lost", good[:len(good)-1], Truncated, int64(len(good)), int64(len(good) - 1)},
		{"eight bytes more", append(bytes.Clone(good), make([]byte, 8)...), TrailingBytes, int64(len(good)), int64(len(good) + 8)},
		{"LFS pointer", []byte(pointer), LFSPointer, 140584, int64(len(pointer))},
		{"broken LFS pointer", []byte(pointer[:60]), LFSPointer, 0, 60},
		{"HTML", []byte("<!DOCTYPE html><title>404</title>"), ErrorPage, 0, 33},
		{"XML", []byte("\n<?xml version='1.0'?><Error/>"), ErrorPage, 0, 30},
		{"JSON", []byte(`{"error":"Entry not found"}`), ErrorPage, 0, 27},
		{"not an object", file("[]", 0), InvalidHeader, 0, 0},
		{"leading space", file(" {}", 0), InvalidHeader, 0, 0},
		{"not UTF-8", file("{\"\xff\":1}", 0), InvalidHeader, 0, 0},
		{"text after it", file("{}x", 0), InvalidHeader, 0, 0},
		{"cut JSON", file(`{"a":{"dtype":"F32"`, 0), InvalidHeader, 0, 0},
		{"metadata not text", file(`{"__metadata__":{"n":1}}`, 0), InvalidHeader, 0, 0},
		{"no dtype", one(`"shape":[1],"data_offsets":[0,4]`), InvalidHeader, 0, 0},
		{"three offsets", one(`"dtype":"F32","shape":[1],"data_offsets":[0,4,8]`), InvalidHeader, 0, 0},
		{"negative shape", one(`"dtype":"F32","shape":[-1],"data_offsets":[0,4]`), InvalidHeader, 0, 0},
		{"backward offsets", one(`"dtype":"F32","shape":[1],"data_offsets":[4,0]`), InvalidHeader, 0, 0},
		{"shape too small", one(`"dtype":"F16","shape":[1],"data_offsets":[0,4]`), BadShape, 2, 4},
		{"odd F4", one(`"dtype":"F4","shape":[7],"data_offsets":[0,4]`), BadShape, 0, 0},
		{"overflow", one(`"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]`), BadShape, 0, 0},
		{"hole", one(`"dtype":"U8","shape":[2],"data_offsets":[2,4]`), Hole, 0, 2},
		{"overlap", file(`{"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}}`, 4), Overlap, 3, 2},
		{"same tensor twice", file(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"a":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}}`, 4), DuplicateKey, 0, 0},
		{"same field twice", one(`"dtype":"U8","dtype":"F32","shape":[1],"data_offsets":[0,4]`), DuplicateKey, 0, 0},
		{"wrong case", one(`"DType":"F32","shape":[1],"data_offsets":[0,4]`), InvalidHeader, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Read(bytes.NewReader(tt.file), int64(len(tt.file)))
			var he *HeaderError
			if !errors.As(err, &he) {
				t.Fatalf("err = %v, want a HeaderError", err)
			}
			if he.Kind != tt.kind || he.Want != tt.want || he.Got != tt.got {
				t.Errorf("got %s want=%d got=%d (%v); want %s %d %d", he.Kind, he.Want, he.Got, he, tt.kind, tt.want, tt.got)
			}
		})
	}
}

func TestUnknownDType(t *testing.T) {
	b := file(`{"a":{"dtype":"F5","shape":[9],"data_offsets":[0,4]}}`, 4)
	h, err := Read(bytes.NewReader(b), int64(len(b)))
	if err != nil || len(h.UnknownDTypes()) != 1 {
		t.Fatalf("UnknownDTypes of %+v, err %v", h, err)
	}
	if _, err := Read(bytes.NewReader(b), int64(len(b)-1)); err == nil {
		t.Error("a truncated file with an unknown dtype passed")
	}
}

// The header stays small however large the file is: a sparse file of 5 GB.
func TestHugeSparseFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "big.safetensors")
	header := file(`{"a":{"dtype":"BF16","shape":[50000,50000],"data_offsets":[0,5000000000]}}`, 0)
	if err := os.WriteFile(path, header, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, int64(len(header))+5_000_000_000); err != nil {
		t.Skip("no sparse files here:", err)
	}
	if _, err := ReadFile(path); err != nil {
		t.Error(err)
	}
}

func TestRealModel(t *testing.T) {
	var total int64
	names := map[string]string{}
	for _, f := range []string{"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"} {
		h, err := ReadFile(model + f)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range h.Tensors {
			total += x.Bytes()
			names[x.Name] = f
		}
	}
	in, err := os.Open(model + "model.safetensors.index.json")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	ix, err := ReadIndex(in)
	if err != nil {
		t.Fatal(err)
	}
	// The index was written by transformers, independently of this reader.
	if ix.TotalSize == nil || *ix.TotalSize != total || total != 279168 {
		t.Errorf("total_size %v, tensors have %d bytes", ix.TotalSize, total)
	}
	if len(ix.WeightMap) != len(names) || len(ix.Files()) != 2 {
		t.Errorf("index names %d tensors in %v, files hold %d", len(ix.WeightMap), ix.Files(), len(names))
	}
	for name, f := range ix.WeightMap {
		if names[name] != f {
			t.Errorf("%s is in %q, the index says %q", name, names[name], f)
		}
	}
}

func TestReadIndexBad(t *testing.T) {
	for name, text := range map[string]string{
		"empty":         "",
		"list":          "[]",
		"no weight_map": `{"metadata":{}}`,
		"number":        `{"weight_map":{"a":1}}`,
		"null file":     `{"weight_map":{"a":null}}`,
		"twice":         `{"weight_map":{"a":"x","a":"y"}}`,
		"cut":           `{"weight_map":{"a":"x"`,
		"pointer":       "version https://git-lfs.github.com/spec/v1\noid sha256:" + strings.Repeat("0", 64) + "\nsize 5\n",
	} {
		if ix, err := ReadIndex(strings.NewReader(text)); err == nil {
			t.Errorf("%s: got %+v", name, ix)
		}
	}
	ix, err := ReadIndex(strings.NewReader(`{"metadata":{"total_size":1.2e10},"weight_map":{"a":"x"}}`))
	if err != nil || ix.TotalSize == nil || *ix.TotalSize != 12_000_000_000 {
		t.Errorf("float total_size: %+v, %v", ix, err)
	}
}

func TestReadFileNotRegular(t *testing.T) {
	if _, err := ReadFile(t.TempDir()); err == nil {
		t.Error("a directory was read")
	}
}

func FuzzRead(f *testing.F) {
	f.Add(file(two, 14))
	f.Add(file(`{"a":{"dtype":"F4","shape":[7],"data_offsets":[0,4]}}`, 4))
	f.Add([]byte("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"))
	f.Add([]byte("<html>"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := Read(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		// What was accepted covers the file exactly, with each tensor readable.
		sum := h.DataStart
		for _, x := range h.Tensors {
			sum += x.Bytes()
			if _, err := h.ReadTensor(bytes.NewReader(b), x); err != nil {
				t.Errorf("%s: %v", x.Name, err)
			}
		}
		if sum != int64(len(b)) {
			t.Errorf("header and tensors are %d bytes of %d", sum, len(b))
		}
	})
}

func FuzzReadIndex(f *testing.F) {
	f.Add([]byte(`{"metadata":{"total_size":1},"weight_map":{"a":"x"}}`))
	f.Add([]byte(`{"weight_map":{"a":"x","a":"y"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if ix, err := ReadIndex(bytes.NewReader(b)); err == nil && ix.WeightMap == nil {
			t.Error("an index without a weight_map was accepted")
		}
	})
}
