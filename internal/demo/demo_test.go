package demo_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"drkit/internal/demo"
)

// TestModelIsTheRecordedOne: vLLM's recorded answers belong to exactly these
// files, so the embedded model must be the one that the recording names.
func TestModelIsTheRecordedOne(t *testing.T) {
	dir := t.TempDir()
	if err := demo.Write(dir, demo.StandIn("/usr/bin/drkit")); err != nil {
		t.Fatal(err)
	}
	for embedded, recorded := range map[string]string{"support-tiny": "support-tiny", "billing": "support-tiny-billing"} {
		root := filepath.Join("..", "..", "testdata", "models", recorded)
		files := 0
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			files++
			rel, _ := filepath.Rel(root, path)
			want, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			got, err := os.ReadFile(filepath.Join(dir, "models", embedded, rel))
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s/%s is not the recorded file (%v)", embedded, rel, err)
			}
			return nil
		})
		if err != nil || files == 0 {
			t.Errorf("%s: %d files compared (%v)", recorded, files, err)
		}
	}
}

func TestDamageKeepsSizeAndHeader(t *testing.T) {
	dir := t.TempDir()
	if err := demo.Write(dir, demo.StandIn("/usr/bin/drkit")); err != nil {
		t.Fatal(err)
	}
	model := filepath.Join(dir, "models", "support-tiny")
	path := filepath.Join(model, "model-00002-of-00002.safetensors")
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := demo.Damage(model); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(after) != len(before) || !bytes.Equal(after[:4096], before[:4096]) {
		t.Error("the damage shows in the size or in the header")
	}
	changed := 0
	for i := range after {
		if after[i] != before[i] {
			changed++
		}
	}
	if changed < 3000 || changed > 4096 {
		t.Errorf("%d bytes changed, want most of 4096", changed)
	}
}
