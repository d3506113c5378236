package manifest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"drkit/manifest/digest"
)

// randomContents holds names whose order by bytes is easily got wrong: beginnings
// of each other, signs below and above the slash, letters beyond ASCII.
func randomContents(r *rand.Rand) Contents {
	words := []string{"a", "a-b", "a/b", "a b", "A", "ä", "a!", "a.b", "ab", "a\u007fb"}
	var c Contents
	seen := map[string]bool{}
	for range 60 {
		f := File{Part: []Part{Model, Engine, Deploy}[r.IntN(3)], Region: []string{"", "a", "a-b", "ab"}[r.IntN(4)], Size: int64(r.IntN(100)),
			Path: words[r.IntN(len(words))] + "/" + words[r.IntN(len(words))], Sums: digest.Set{digest.SHA256: fmt.Sprintf("%064x", r.Uint64())}}
		if !seen[f.Subject()] {
			seen[f.Subject()] = true
			c.Files = append(c.Files, f)
		}
	}
	for range 10 {
		c.Images = append(c.Images, Image{Reference: words[r.IntN(len(words))], Region: []string{"", "a", "a-b"}[r.IntN(3)], Digest: digest.Digest{Algorithm: digest.SHA256, Hex: fmt.Sprintf("%064x", r.Uint64())}})
	}
	return c
}

// The id is the hash of the documented lines, sorted as bytes.
func TestReleaseIDIsOfTheSortedLines(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		c := randomContents(r)
		var lines []string
		for _, f := range c.Files {
			lines = append(lines, fmt.Sprintf("file\t%s\t%s\t%s\t%d\t%s\n", f.Part, f.Region, f.Path, f.Size, f.Sums["sha256"]))
		}
		for _, i := range c.Images {
			lines = append(lines, fmt.Sprintf("image\t%s\t%s\t%s\n", i.Region, i.Reference, i.Digest))
		}
		slices.Sort(lines)
		sum := sha256.Sum256([]byte("drkit-release/1\n" + strings.Join(lines, "")))
		if got := ReleaseID(c); got != hex.EncodeToString(sum[:]) {
			t.Fatalf("got %s, want %x of\n%s", got, sum, strings.Join(lines, ""))
		}
	}
}

// Write and Encode give the same bytes, whatever stands in the manifest before
// the files.
func TestWriteIsEncode(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, m := range []*Manifest{{}, {Service: `"files": []`, Release: strings.Repeat("0", 64)}, {Contents: randomContents(r), Annotations: Annotations{Tool: "\u2028<"}}} {
		whole, err := Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		var streamed bytes.Buffer
		if err := Write(&streamed, m); err != nil || !bytes.Equal(streamed.Bytes(), whole) || !sealed(whole) {
			t.Errorf("%v, sealed %v\n%s\n%s", err, sealed(whole), streamed.String(), whole)
		}
	}
}
