package step

import (
	"strings"
	"testing"

	"drkit/internal/errext"
	"drkit/manifest/probes"
)

// TestBeyondOriginal: probes that stay within the unscaled positions cannot see that a
// scaling is lost, and are refused.
func TestBeyondOriginal(t *testing.T) {
	set := func(length, served int) probes.ProbeSet {
		return probes.ProbeSet{Probes: []probes.Probe{{Kind: probes.KindModels, Want: probes.Answer{MaxModelLen: served}},
			{Kind: probes.KindCompletion, Want: probes.Answer{PromptIDs: make([]int, length)}}}}
	}
	for name, tc := range map[string]struct {
		set      probes.ProbeSet
		original int
		refused  bool
	}{
		"nothing is scaled":            {set(10, 4096), 0, false},
		"within":                       {set(512, 1024), 512, true},
		"beyond":                       {set(513, 1024), 512, false},
		"the engine serves no more":    {set(400, 512), 512, false},
		"one token more would fit":     {set(400, 514), 512, true},
		"the length served is unknown": {set(400, 0), 512, true},
	} {
		err := beyondOriginal(tc.set, tc.original)
		if (err != nil) != tc.refused || err != nil && (errext.StatusOf(err) != errext.Refused || !strings.Contains(err.Error(), "512 tokens")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
