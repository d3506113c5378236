package step

import (
	"strings"
	"testing"

	"drkit/manifest"
	"drkit/manifest/digest"
	"drkit/manifest/probes"
)

// TestRunningImages: where a cluster says which images run, each is one of the release.
func TestRunningImages(t *testing.T) {
	m := &manifest.Manifest{}
	m.Contents.Images = []manifest.Image{{Reference: "x/llm", Digest: digest.Digest{Algorithm: digest.SHA256, Hex: strings.Repeat("a", 64)}}}
	w := &World{Served: "m", manifest: m, probes: probes.ProbeSet{}}
	same, other := "sha256:"+strings.Repeat("a", 64), "sha256:"+strings.Repeat("b", 64)
	if d, unsaid := w.differs(Running{Base: "m", Images: []string{same}}); len(d) != 0 || len(unsaid) != 3 {
		t.Errorf("%q, not said: %q", d, unsaid)
	}
	if d, _ := w.differs(Running{Base: "m", Images: []string{same, other}}); len(d) != 1 || !strings.Contains(d[0], other) {
		t.Errorf("%q", d)
	}
}
