package rules_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"drkit/internal/store"
	"drkit/manifest"
	"drkit/manifest/rules"
)

// big is a source of many files that are made when they are read: shards with
// headers of 300 tensors, and small files in folders.
type big struct{ shards, files int }

func (b big) List(_ context.Context, _ string) iter.Seq2[store.Object, error] {
	return func(yield func(store.Object, error) bool) {
		for i := range b.shards {
			key := fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, b.shards)
			if !yield(store.Object{Key: key, Size: int64(len(b.content(key)))}, nil) {
				return
			}
		}
		for i := range b.files {
			key := fmt.Sprintf("extra/%03d/part-%06d.dat", i%1000, i)
			if !yield(store.Object{Key: key, Size: int64(len(b.content(key)))}, nil) {
				return
			}
		}
		for _, key := range []string{"config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json", "chat_template.jinja"} {
			if !yield(store.Object{Key: key, Size: int64(len(b.content(key)))}, nil) {
				return
			}
		}
	}
}

func (b big) content(key string) []byte {
	var shard, of int
	switch n, _ := fmt.Sscanf(key, "model-%05d-of-%05d.safetensors", &shard, &of); {
	case n == 2:
		var h bytes.Buffer
		h.WriteString("{")
		for j := range 300 {
			if j > 0 {
				h.WriteString(",")
			}
			fmt.Fprintf(&h, `"model.layers.%d.mlp.experts.%d.up_proj.weight":{"dtype":"U8","shape":[1],"data_offsets":[%d,%d]}`, shard-1, j, j, j+1)
		}
		h.WriteString("}")
		return append(append(binary.LittleEndian.AppendUint64(nil, uint64(h.Len())), h.Bytes()...), make([]byte, 300)...)
	case key == "config.json":
		return []byte(text(causal("StableLmForCausalLM", "stablelm", b.shards, nil)))
	}
	if data, ok := newRepository(nil)[key]; ok {
		return []byte(data)
	}
	return []byte(key)
}

func (b big) Open(_ context.Context, o store.Object, off, n int64) (io.ReadCloser, error) {
	data := b.content(o.Key)[off:]
	if n >= 0 {
		data = data[:n]
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

// BenchmarkBig builds and checks releases of a growing number of shards and of
// files. Memory is what the process has from the system at the end, in MiB.
func BenchmarkBig(b *testing.B) {
	for _, size := range []big{{100, 0}, {1000, 0}, {1, 20_000}, {1, 200_000}} {
		b.Run(fmt.Sprintf("%d shards and %d files", size.shards, size.files), func(b *testing.B) {
			for b.Loop() {
				m, _, err := manifest.Build(b.Context(), manifest.Input{Model: manifest.Tree{Source: size}, Engine: manifest.EngineInput{Kind: "vllm", Version: "0.32.0"}})
				if err != nil {
					b.Fatal(err)
				}
				if bad := failing(rules.Check(m)); len(bad) > 0 {
					b.Fatal(show(bad))
				}
			}
			var mem runtime.MemStats
			runtime.ReadMemStats(&mem)
			b.ReportMetric(float64(mem.Sys)/(1<<20), "MiB-of-system")
		})
	}
}

// TestWriteBigTree writes the tree of BenchmarkBig into the folder that
// DRKIT_BIG_TREE names, with DRKIT_BIG_SHARDS and DRKIT_BIG_FILES: scripts/bench-manifest
// measures the whole program on it.
func TestWriteBigTree(t *testing.T) {
	root := os.Getenv("DRKIT_BIG_TREE")
	if root == "" {
		t.Skip("DRKIT_BIG_TREE names no folder")
	}
	shards, err := strconv.Atoi(os.Getenv("DRKIT_BIG_SHARDS"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := strconv.Atoi(os.Getenv("DRKIT_BIG_FILES"))
	if err != nil {
		t.Fatal(err)
	}
	b := big{shards, files}
	for o, err := range b.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(root, filepath.FromSlash(o.Key))
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, b.content(o.Key), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}
