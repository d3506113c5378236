package rules_test

import (
	"bufio"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"drkit/manifest"
	"drkit/manifest/internal/boottruth"
)

// unshown are measured cases that one manifest does not show, each with the reason.
var unshown = map[string]string{
	"bert-pool-cls": "another kind of pooling that the model may well have", "gen-reppen": "a sampling default that the model may well have",
	"w-transpose-square": "a square matrix keeps its shape", "llava-patch-lost": "other means and sizes, which nothing else states",
	"q-bits-4": "weights of four bits may stand in whole bytes", "l-rslora": "a switch that nothing else states",
	"e-dtype-half": "one engine's options alone; E-10 compares regions", "e-kv-fp8": "asked for by the engine's options: degraded",
	"e-override-layers": "asked for by --hf-overrides", "e-override-arch": "asked for by --hf-overrides", "e-override-rope": "asked for by --hf-overrides",
	"e-template-inline": "asked for by the engine's options",
	"e-logits-proc":     "a module that the image may have: degraded",
}

// TestMeasured holds the gate against further changes of the bases of
// testdata/boot-truth, one each, on which real vLLM 0.32.0 (CPU, transformers
// 5.19.0) was booted and asked the same questions as its unchanged base: what did
// not boot, failed or answered otherwise must fail the gate, and nothing else may.
func TestMeasured(t *testing.T) {
	f, err := os.Open("testdata/measured.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cases, lines, seen := 0, bufio.NewScanner(f), map[string]bool{}
	for ; lines.Scan(); cases++ {
		var one struct {
			boottruth.Case
			Given []string `json:"args"`
		}
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			t.Fatal(err)
		}
		c := bootCase{one.Case}
		c.Dir, c.Model = corpus, "{W}/model"
		c.Case.Args = asBooted(c.Base, one.Given)
		if c.Env == nil {
			c.Env = map[string]string{}
		}
		failing, _, err := c.gate(t)
		refused := err != nil || len(failing) > 0
		wanted := c.Outcome != "boots-same-output"
		silent := slices.ContainsFunc(failing, func(f manifest.Finding) bool { return f.Severity == manifest.Silent })
		seen[c.ID] = true
		switch {
		case unshown[c.ID] != "" && (refused || !wanted):
			t.Errorf("%s (%s) stands among those that are not shown: %v%s", c.ID, c.Outcome, err, show(failing))
		case unshown[c.ID] == "" && refused != wanted, refused && c.Outcome == "boots-wrong-output" && !silent:
			t.Errorf("%s (%s): refused %v, silent %v: %v%s", c.ID, c.Outcome, refused, silent, err, show(failing))
		case len(failing) > 0 && !slices.ContainsFunc(failing, c.rightFile):
			t.Errorf("%s (%s): no finding names the right file:%s", c.ID, c.Outcome, show(failing))
		}
		if err != nil {
			t.Log(c.ID, c.Outcome, err)
		}
	}
	if err := lines.Err(); err != nil || cases != 283 || len(seen) != cases {
		t.Errorf("%d cases, %d names, want 283: %v", cases, len(seen), err)
	}
	for id := range unshown {
		if !seen[id] {
			t.Errorf("%s is no case", id)
		}
	}
}

// asBooted is the command line of the measurement: fixed arguments, then the case's.
func asBooted(base string, args []string) (all []string) {
	if !slices.Contains(args, "--max-model-len") {
		all = append(all, "--max-model-len", map[bool]string{true: "64", false: "1024"}[base == "bert-st"])
	}
	all = append(all, "--enforce-eager", "--dtype", "bfloat16", "--served-model-name", "tiny")
	if !slices.Contains(args, "--block-size") {
		all = append(all, "--block-size", "32")
	}
	return append(all, args...)
}
