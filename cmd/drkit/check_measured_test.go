package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drkit/internal/errext"
)

// TestMeasuredBoot: 159 s were measured, and the deploy file's startup probe gives up
// after 0 + 15 x 10 s; with 600 s the same release holds.
func TestMeasuredBoot(t *testing.T) {
	reports, err := filepath.Abs("../../manifest/rules/testdata/reports")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.CopyFS("model", os.DirFS(filepath.Join(reports, "02-merges-missing/good/model"))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("boot.json", []byte(`{"weights_loaded": 96.0, "ready": 159.0}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("drkit.yaml", []byte("apiVersion: drkit/v1\nkind: Service\nmetadata: {name: s}\nmodel: {source: ./model}\nengine: {version: 0.32.0}\ndeploy: {files: [deployment.yaml]}\nregions: [{name: us, role: source, store: ./stores/us}]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tree, given string
		status      errext.Status
		says        string
	}{
		{"bad", "boot.json", errext.Gate, "the start took 2m39s (boot.json), container engine is given up after 2m30s: startupProbe: 0 + 15 x 10 s"},
		{"bad", "159s", errext.Gate, "deployment.yaml:22"},
		{"good", "boot.json", errext.Holds, "it fits"},
		{"bad", "", errext.Holds, "no start of this release was measured"},
		{"bad", "soon", errext.Usage, "neither a duration nor a file"},
		{"bad", "drkit.yaml", errext.Usage, "no ready in seconds"},
	} {
		text, err := os.ReadFile(filepath.Join(reports, "14-probe-budget", c.tree, "deploy/deployment.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("deployment.yaml", text, 0o644); err != nil {
			t.Fatal(err)
		}
		args := []string{"manifest", "check", "--progress", "quiet"}
		if c.given != "" {
			args = append(args, "--measured-boot", c.given)
		}
		if status, out, errs := execute(t, args...); status != c.status || !strings.Contains(out+errs, c.says) {
			t.Errorf("%s with %q: status %d: %s%s", c.tree, c.given, status, out, errs)
		}
	}
}
