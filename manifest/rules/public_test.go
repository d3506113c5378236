package rules_test

import (
	"bufio"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"drkit/manifest"
)

// TestPublicConfigs reads config.json files in the form of well-known public models,
// written by hand, and as transformers 5.19.0 writes its own defaults. error is what
// that transformers said to each when it read it, nothing when it took it: rule C-17
// must answer the same, and no other rule about config.json may fail the gate.
func TestPublicConfigs(t *testing.T) {
	f, err := os.Open("testdata/public.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	read, refused := 0, 0
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for ; lines.Scan(); read++ {
		var c struct {
			ID     string
			Config json.RawMessage
			Error  string
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		r := newRepository(nil).with("config.json", string(c.Config)).shard("model.safetensors", 1, "weight")
		found := func(rules ...string) (out []manifest.Finding) {
			for _, f := range failing(r.check(t, nil)) {
				if slices.Contains(rules, f.Rule) {
					out = append(out, f)
				}
			}
			return out
		}
		if refuses := c.Error != ""; refuses != (len(found("C-17")) > 0) {
			t.Errorf("%s: transformers says %q%s", c.ID, c.Error, show(found("C-17")))
		} else if refuses {
			refused++
		}
		if alarms := found("C-2", "C-3", "C-6", "C-8", "C-11", "C-16", "C-18", "Q-11", "E-12", "T-15"); len(alarms) > 0 {
			t.Errorf("%s: %s", c.ID, show(alarms))
		}
	}
	if read < 60 || refused < 2 {
		t.Errorf("%d read, %d refused", read, refused)
	}
}
