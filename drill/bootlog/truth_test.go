package bootlog

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// bootCase is what is read here of a measured boot of vLLM 0.32.0.
type bootCase struct {
	ID          string   `json:"id"`
	Outcome     string   `json:"outcome"`
	Mutation    string   `json:"mutation"`
	First       string   `json:"error_first"`
	Last        string   `json:"error_line"`
	NewWarnings []string `json:"new_warnings"`
}

func bootCases(t *testing.T) (all []bootCase) {
	t.Helper()
	data, err := os.ReadFile("../../testdata/boot-truth/cases.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var c bootCase
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	return all
}

// TestEveryMeasuredBoot takes every case that vLLM was booted on. One that ended is
// classified by the class that its damage calls for (error_lines.tsv, written by hand
// from the mutation), although its first error and the lines that only repeat it stand
// beside the last one; one that booted is no failure, whatever it warned of.
func TestEveryMeasuredBoot(t *testing.T) {
	want := map[string]string{}
	for _, row := range read(t, "testdata/error_lines.tsv") {
		id, rest, _ := strings.Cut(row, "\t")
		want[id], _, _ = strings.Cut(rest, "\t")
	}
	ended, seen := 0, map[string]bool{}
	for _, c := range bootCases(t) {
		if c.Outcome != "no-boot" {
			var lines []string
			for _, w := range c.NewWarnings {
				lines = append(lines, "(APIServer pid=1) WARNING 11-29 22:39:28 [x.py:1] "+w)
			}
			if f, ok := Classify(lines); ok && want[c.ID] == "" {
				t.Errorf("%s (%s) booted, and is called %s for %q", c.ID, c.Outcome, f.Class, f.Line)
			}
			continue
		}
		ended++
		lines := []string{"(APIServer pid=1) INFO 11-29 22:39:00 [a.py:1] vLLM server version 0.32.0"}
		for _, l := range []string{c.First, c.Last} {
			if l != "" {
				lines = append(lines, "(EngineCore pid=812) ERROR 11-29 22:39:28 [core.py:1170] "+l)
			}
		}
		lines = append(lines, "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': 1}")
		f, ok := Classify(lines)
		if !ok || f.Class != want[c.ID] {
			t.Errorf("%s (%s): %q is %q, want %q", c.ID, c.Mutation, c.Last, f.Class, want[c.ID])
		}
		if f.Line == "" || f.Hint == "" {
			t.Errorf("%s: no line is quoted, or no hint is given: %+v", c.ID, f)
		}
		seen[f.Class] = true
	}
	if ended != 91 || len(seen) < 20 {
		t.Errorf("%d boots that ended, %d classes", ended, len(seen))
	}
}

// TestWholeLogs holds the logs of boots whose last line alone does not tell what was
// damaged: vLLM 0.32.0 on a CPU, on the case of that name.
func TestWholeLogs(t *testing.T) {
	for id, want := range map[string]struct{ class, line string }{
		"consolidated-and-tekken":   {"TokenizerInvalid", "tekken.py"},
		"lora-b-missing":            {"AdapterDamaged", "Call to add_lora method failed"},
		"w8a8-no-input-activations": {"ConfigRefused", "Assertion failed,"},
	} {
		if f, ok := Classify(read(t, "testdata/boots/"+id+".log")); !ok || f.Class != want.class || !strings.Contains(f.Line, want.line) {
			t.Errorf("%s: %+v", id, f)
		}
	}
}
