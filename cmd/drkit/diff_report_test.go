package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drkit/internal/errext"
)

// TestDiffReports: one changed LoRA alpha is one difference and one file; both are
// red with the adapter's file as their place, and so is the verdict.
func TestDiffReports(t *testing.T) {
	reportService(t)
	var r reportRun
	if status := r.run(t, "manifest", "build", "-o", "old.json"); status != errext.Holds {
		t.Fatal(status, r.err.String())
	}
	args := func(to string) []string {
		return []string{"manifest", "diff", "old.json", to, "--report", "junit=o.xml", "--report", "sarif=o.sarif", "--report", "markdown=o.md", "--report", "github"}
	}
	if status := r.run(t, args("old.json")...); status != errext.Holds {
		t.Fatalf("status %d: %s", status, r.err.String())
	}
	if failures, errs, cases := junitCounts(t, "o.xml"); failures+errs != 0 || cases != 2 || strings.Contains(r.err.String(), "::error") {
		t.Errorf("the same: %d failures, %d errors, %d cases: %s", failures, errs, cases, r.err.String())
	}
	configs, err := filepath.Glob("models/*/generation_config.json")
	if err != nil || len(configs) != 1 {
		t.Fatal(configs, err)
	}
	if err := os.WriteFile(configs[0], []byte(`{"eos_token_id": [1, 7]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	r.run(t, "manifest", "build", "-o", "new.json")
	if status := r.run(t, args("new.json")...); status != errext.Gate {
		t.Fatalf("status %d: %s", status, r.err.String())
	}
	severe := strings.Count(r.out.String(), "\nsilent ") + strings.Count(r.out.String(), "\n  silent ")
	if failures, errs, _ := junitCounts(t, "o.xml"); severe < 2 || failures != severe+1 || errs != 0 {
		t.Errorf("%d failures, %d errors for\n%s", failures, errs, r.out.String())
	}
	found := false
	for _, place := range readSARIF(t, "o.sarif").places() {
		found = found || strings.Contains(place, configs[0]+":0 model/base/generation_config.json")
	}
	page, _ := os.ReadFile("o.md")
	if !found || !strings.Contains(string(page), "### silent") || !strings.Contains(r.err.String(), "::error file="+configs[0]) {
		t.Errorf("places %q\n%s\n%s", readSARIF(t, "o.sarif").places(), page, r.err.String())
	}
}

// TestDashIsStandardOutput: no command writes a file named "-".
func TestDashIsStandardOutput(t *testing.T) {
	reportService(t)
	var r reportRun
	for _, args := range [][]string{{"manifest", "build"}, {"manifest", "export", "--format", "sha256sum"}} {
		if status := r.run(t, append(args, "-o", "-")...); status != errext.Holds || r.out.Len() < 500 {
			t.Errorf("%v: status %d, %d bytes: %s", args, status, r.out.Len(), r.err.String())
		}
	}
	if status := r.run(t, "init", ".", "-o", "-"); status == errext.Holds {
		t.Errorf("init wrote to a file named -")
	}
	if exists("-") {
		t.Error("there is a file named -")
	}
}

// TestNamedFileThatIsNotThere: a manifest that was named and is not there is a
// matter of the command line, as a drkit.yaml is.
func TestNamedFileThatIsNotThere(t *testing.T) {
	t.Chdir(t.TempDir())
	var r reportRun
	for _, args := range []string{"manifest check no.json", "manifest show no.json", "manifest diff no.json no.json", "manifest check", "manifest export no.json"} {
		if status := r.run(t, strings.Fields(args)...); status != errext.Usage {
			t.Errorf("%s: status %d: %s", args, status, r.err.String())
		}
	}
}

// TestEngineOfADockerfileInventsNoModel: an image without arguments serves what
// whoever runs it names.
func TestEngineOfADockerfileInventsNoModel(t *testing.T) {
	t.Chdir(t.TempDir())
	for text, want := range map[string]string{
		"FROM vllm/vllm-openai:v0.32.0\n":                                   "names no model",
		"FROM vllm/vllm-openai:v0.32.0\nCMD [\"--model\", \"/models/a\"]\n": "serves /models/a",
	} {
		if err := os.WriteFile("Dockerfile", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, out, errs := execute(t, "manifest", "engine", "Dockerfile"); !strings.Contains(out, want) {
			t.Errorf("%q: %s%s", text, out, errs)
		}
	}
}
