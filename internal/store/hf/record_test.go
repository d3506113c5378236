package hf

import (
	"os"
	"slices"
	"strings"
	"testing"

	"drkit/internal/store"
)

func TestTreeThatHuggingFaceWrote(t *testing.T) {
	files, err := readTree("testdata/hub/models--acme--tiny/trees/3f1c0d9e8b7a6f5e4d3c2b1a0f9e8d7c6b5a4f3e.json")
	if err != nil || len(files) != 7 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	// The LFS file's blob_id is that of its pointer; its content is the SHA-256.
	if f := files[3]; f.key != "model.safetensors" || f.size != 2632 || f.sum.String() != "sha256:b448e90341526d2d63e2b29b544cf20fcfd2c85e731366db0d2212d085d9f5a9" {
		t.Errorf("got %+v", f)
	}
}

func TestTreesThatCannotBeTrusted(t *testing.T) {
	const blob = `"blob_id":"d061f5887e4ed4d6058df5498764d01ffea258f9"`
	for name, text := range map[string]string{
		"nothing":        ``,
		"no object":      `[]`,
		"no version":     `{"files":{}}`,
		"newer":          `{"format_version":2,"files":{}}`,
		"no files":       `{"format_version":1}`,
		"no size":        `{"format_version":1,"files":{"a":{` + blob + `}}}`,
		"negative size":  `{"format_version":1,"files":{"a":{"size":-1,` + blob + `}}}`,
		"great size":     `{"format_version":1,"files":{"a":{"size":99999999999999999999,` + blob + `}}}`,
		"no blob":        `{"format_version":1,"files":{"a":{"size":1}}}`,
		"SHA-1 as LFS":   `{"format_version":1,"files":{"a":{"size":1,"blob_id":"","lfs_sha256":"d061f5887e4ed4d6058df5498764d01ffea258f9"}}}`,
		"parent":         `{"format_version":1,"files":{"a/../../b":{"size":1,` + blob + `}}}`,
		"absolute":       `{"format_version":1,"files":{"/a":{"size":1,` + blob + `}}}`,
		"two that break": `{"format_version":1,"files":{"b":{"size":1},"a":{"size":1}}}`,
		"text behind":    `{"format_version":1,"files":{}} {}`,
	} {
		files, err := parseTree([]byte(text))
		if err == nil {
			t.Errorf("%s: read as %+v", name, files)
		}
		if name == "two that break" && !strings.Contains(err.Error(), `"a"`) {
			t.Errorf("not the first of two errors: %v", err)
		}
	}
}

func TestTagsOfBlobs(t *testing.T) {
	for tag, want := range map[string]string{
		strings.Repeat("a", 64): "sha256:" + strings.Repeat("a", 64), strings.Repeat("0", 40): "gitsha1:" + strings.Repeat("0", 40),
		strings.Repeat("A", 64): "", "": "", "abc": "", strings.Repeat("a", 64) + ".incomplete": "", strings.Repeat("a", 40) + "\n": "",
	} {
		if d, ok := ofTag(tag); d.String() != want || ok != (want != "") {
			t.Errorf("%q: %s, %v", tag, d, ok)
		}
	}
}

// FuzzTree: whatever a listing holds, what is read of it can be copied.
func FuzzTree(f *testing.F) {
	data, err := os.ReadFile("testdata/hub/models--acme--tiny/trees/3f1c0d9e8b7a6f5e4d3c2b1a0f9e8d7c6b5a4f3e.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"format_version":1,"files":{"../x":{"size":1,"blob_id":"d061f5887e4ed4d6058df5498764d01ffea258f9"}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		files, err := parseTree(data)
		if err != nil {
			return
		}
		for i, f := range files {
			if store.CheckKey(f.key) != nil || f.size < 0 || (i > 0 && f.key <= files[i-1].key) {
				t.Errorf("accepted %+v", f)
			}
		}
		if !slices.IsSortedFunc(files, func(a, b file) int { return strings.Compare(a.key, b.key) }) {
			t.Error("not in order")
		}
	})
}
