package step

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"drkit/drill/bootlog"
	"drkit/internal/store/dir"
	"drkit/manifest"
)

// TestEndedFromOutside: it is the budget only when the engine ended by itself, and
// the smallest limit, 150 s by the deploy file, had run out.
func TestEndedFromOutside(t *testing.T) {
	b := boot{&World{Target: Region{Name: "eu"}, manifest: deployedAs(t, "bad", "")}}
	f := bootlog.Failure{Class: bootlog.ProbeBudget, Line: "KeyboardInterrupt: terminated"}
	for _, c := range []struct {
		had    time.Duration
		exited bool
		class  string
		hint   []string
	}{
		{155 * time.Second, true, "ProbeBudget", []string{"2m35s", "2m30s", "startupProbe: 0 + 15 x 10 s", "has to grow"}},
		{60 * time.Second, true, "Terminated", []string{"1m0s", "no time limit"}},
		{155 * time.Second, false, "Terminated", nil}, // drkit itself gave up on it
	} {
		got := b.budget(f, c.had, c.exited)
		if got.Class != c.class {
			t.Errorf("%v: %s, want %s", c.had, got.Class, c.class)
		}
		for _, text := range c.hint {
			if !strings.Contains(got.Hint, text) {
				t.Errorf("%v: %q is not in %q", c.had, text, got.Hint)
			}
		}
	}
	for how, want := range map[string]bool{"exit status 137": true, "signal: killed": true, "exit status 143": true, "exit status 130": true, "exit status 1": false, "": false} {
		if outside(how) != want {
			t.Errorf("%q: %v", how, !want)
		}
	}
}

// TestOfflineAssetIsNamed: from the engine's own lines, else from what the manifest
// knows to be outside of the release.
func TestOfflineAssetIsNamed(t *testing.T) {
	reports := filepath.Join("..", "..", "manifest", "rules", "testdata", "reports")
	m, _, err := manifest.Build(t.Context(), manifest.Input{Service: "s", Engine: manifest.EngineInput{Kind: "vllm", Version: "0.32.0", Args: []string{"--trust-remote-code", "--runner", "pooling"}},
		Model: manifest.Tree{Source: dir.New(filepath.Join(reports, "03-code-in-other-repo", "bad", "model"))}})
	if err != nil {
		t.Fatal(err)
	}
	b := boot{&World{Target: Region{Name: "eu"}, manifest: m}}
	for name, want := range map[string]string{"engine-repo-id.log": "acme/support-8b", "engine-code-elsewhere.log": "acme/impl"} {
		data, err := os.ReadFile(filepath.Join("..", "bootlog", "testdata", "reports", name))
		if err != nil {
			t.Fatal(err)
		}
		watch := &logWatch{}
		for line := range strings.Lines(string(data)) {
			watch.lines = append(watch.lines, bootlog.Line{Text: strings.TrimSuffix(line, "\n")})
		}
		f, ok := bootlog.Classify(watch.texts())
		if got := b.explain(f, watch, true); !ok || got.Class != bootlog.OfflineAsset || !strings.Contains(got.Hint, want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
