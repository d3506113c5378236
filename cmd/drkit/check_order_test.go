package main

import (
	"slices"
	"testing"

	"drkit/manifest"
)

// TestGravestFirst: what drkit.yaml itself lacks stands among the findings of its
// severity, not behind what is only good to know.
func TestGravestFirst(t *testing.T) {
	var got []string
	for _, f := range gravestFirst([]manifest.Finding{{Rule: "I-1", Severity: manifest.Degraded}, {Rule: "L-5", Severity: manifest.Info},
		{Rule: "drkit.yaml", Severity: manifest.Degraded}, {Rule: "T-1", Severity: manifest.Block}}) {
		got = append(got, f.Rule)
	}
	if want := []string{"T-1", "I-1", "drkit.yaml", "L-5"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
