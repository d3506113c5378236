package step

import (
	"strings"
	"testing"

	"drkit/manifest/probes"
)

// TestACommandMustNameTheCopy: a canary that boots from elsewhere proves nothing
// of what was restored.
func TestACommandMustNameTheCopy(t *testing.T) {
	for _, c := range []struct {
		command string
		want    []string // a part of each problem
	}{
		{"vllm serve {{model}} --lora-modules billing={{adapter:billing}}", nil},
		{"start {{dir}}", nil},
		{"", nil}, // the launcher refuses it, once
		{"vllm serve /models/llama --lora-modules billing={{adapter:billing}}", []string{"restored model"}},
		{"vllm serve {{model}} --lora-modules billing=/adapters/billing", []string{"adapter billing"}},
		{"vllm serve /models/llama", []string{"restored model", "adapter billing"}},
	} {
		w := &World{Adapters: []string{"billing"}}
		found := w.fromTheCopy(&Region{Name: "eu-west-1", Command: strings.Fields(c.command)})
		if len(found) != len(c.want) {
			t.Errorf("%s: got %v, want %d problems", c.command, found, len(c.want))
			continue
		}
		for i, err := range found {
			if !strings.Contains(err.Error(), c.want[i]) {
				t.Errorf("%s: got %v, want %q", c.command, err, c.want[i])
			}
		}
	}
}

// TestProbesMustAskEveryAdapter: a question that the adapter answers as its base,
// or none at all, would not show that it is applied.
func TestProbesMustAskEveryAdapter(t *testing.T) {
	ask := func(model, differs string) probes.ProbeSet {
		return probes.ProbeSet{Probes: []probes.Probe{{ID: "q", Kind: probes.KindCompletion, Model: model, DiffersFrom: differs}}}
	}
	if err := everyAdapter(ask("billing", "q-base"), []string{"billing"}); err != nil {
		t.Errorf("an adapter that is asked: %v", err)
	}
	for name, set := range map[string]probes.ProbeSet{"not asked": ask("tiny", ""), "answers as its base": ask("billing", "")} {
		if err := everyAdapter(set, []string{"billing"}); err == nil || !strings.Contains(err.Error(), "billing") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
