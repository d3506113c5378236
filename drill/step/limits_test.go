package step

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"drkit/internal/errext"
	"drkit/internal/store/dir"
	"drkit/manifest"
	"drkit/manifest/rules"
)

// TestStartLimits: 159 s were measured; the limits are added up by hand in the
// deploy files' comments.
func TestStartLimits(t *testing.T) {
	earlier := func(string) (rules.Start, bool) { return rules.Start{Took: 159 * time.Second, From: "run 1"}, true }
	for _, c := range []struct {
		tree, region string
		options      preflightOptions
		measured     func(string) (rules.Start, bool)
		want         []string // in the only problem; none: no problem
	}{
		{tree: "bad", measured: earlier, want: []string{"2m39s", "2m30s", "startupProbe: 0 + 15 x 10 s", "container engine", "deployment.yaml:2", "K-PROBE"}},
		{tree: "bad-liveness-only", measured: earlier, want: []string{"2m39s", "2m30s", "livenessProbe: 30 + 12 x 10 s"}},
		{tree: "bad-engine-timeout", measured: earlier, want: []string{"2m39s", "2m0s", "VLLM_ENGINE_READY_TIMEOUT_S"}},
		{tree: "good", measured: earlier},
		{tree: "bad"},
		{tree: "bad", options: preflightOptions{MeasuredBoot: 149 * time.Second}, measured: earlier},
		{tree: "bad", options: preflightOptions{MeasuredBoot: 150 * time.Second}, want: []string{"measured_boot of the playbook"}},
		{tree: "bad", region: "eu", measured: earlier, want: []string{"2m30s"}},
		{tree: "bad", region: "us", measured: earlier}, // another region's file
	} {
		w := &World{Target: Region{Name: "eu"}, Measured: c.measured, manifest: deployedAs(t, c.tree, c.region)}
		problems := w.startLimits(c.options)
		if len(problems) != min(1, len(c.want)) {
			t.Errorf("%s: %v", c.tree, problems)
			continue
		}
		for _, text := range c.want {
			if err := problems[0]; !strings.Contains(err.Error(), text) || errext.StatusOf(err) != errext.Refused || errext.Hint(err) == "" {
				t.Errorf("%s: %q is not in %v", c.tree, text, err)
			}
		}
	}
}

func deployedAs(t *testing.T, tree, region string) *manifest.Manifest {
	t.Helper()
	folder := filepath.Join("..", "..", "manifest", "rules", "testdata", "reports", "14-probe-budget", tree, "deploy")
	m, _, err := manifest.Build(t.Context(), manifest.Input{Service: "support", Model: manifest.Tree{Source: dir.New(filepath.Join("..", "..", "manifest", "rules", "testdata", "reports", "02-merges-missing", "good", "model"))},
		Engine:      manifest.EngineInput{Kind: "vllm", Version: "0.32.0"},
		DeployFiles: []manifest.PartFile{{Path: "deployment.yaml", Region: region, Source: dir.New(folder), Key: "deployment.yaml"}}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}
