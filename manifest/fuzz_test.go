package manifest_test

import (
	"bytes"
	"os"
	"testing"

	"drkit/manifest"
)

// FuzzDecode: no bytes may make Decode panic, and what it takes is written and
// read again as the same release.
func FuzzDecode(f *testing.F) {
	small, err := os.ReadFile("testdata/small.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(small)
	f.Add([]byte(`{"schema":"drkit.manifest/1.0","contents":{"files":[{}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := manifest.Decode(data)
		if err != nil {
			return
		}
		text, err := manifest.Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		back, err := manifest.Decode(text)
		if err != nil {
			t.Fatal(err)
		}
		if again, _ := manifest.Encode(back); back.Release != m.Release || !bytes.Equal(again, text) {
			t.Error("writing and reading changed the manifest")
		}
	})
}
