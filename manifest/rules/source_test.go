package rules_test

import (
	"slices"
	"testing"

	"drkit/internal/store"
	"drkit/internal/store/mem"
	"drkit/manifest"
	"drkit/manifest/rules"
)

func built(t *testing.T, r repository) *manifest.Manifest {
	t.Helper()
	m, _, err := manifest.Build(t.Context(), manifest.Input{Model: manifest.Tree{Source: mem.New().Fill(r)}, Engine: manifest.EngineInput{Kind: "vllm", Version: "0.32.0"}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestWhatTheSourceStates gives a sound repository one contradiction with its
// source each, and wants exactly that finding: the file itself is still read.
func TestWhatTheSourceStates(t *testing.T) {
	m := built(t, llama())
	if got := lines(rules.Check(m)); len(got) > 0 {
		t.Fatalf("the sound repository has %q", got)
	}
	for _, c := range []struct{ kind, path, want string }{
		{manifest.KindDigest, "base/model.safetensors", "W-17 silent model/base/model.safetensors"},
		{manifest.KindDigest, "base/config.json", "W-17 silent model/base/config.json"},
		{manifest.KindDigest, "base/README.md", "W-17 info model/base/README.md"},
		{manifest.KindDigest, "base/onnx/model.onnx", "W-17 degraded model/base/onnx/model.onnx"},
		{store.DefectMissing, "base/chat_template.jinja", "W-19 silent model/base/chat_template.jinja"},
		{store.DefectMissing, "base/preprocessor_config.json", "W-19 block model/base/preprocessor_config.json"},
		{store.DefectMissing, "base/special_tokens_map.json", "W-19 silent model/base/special_tokens_map.json"},
		{store.DefectMissing, "base/pytorch_model.bin", "W-19 degraded model/base/pytorch_model.bin"},
		{store.DefectMissing, "base/pytorch_model.bin.index.json", "W-19 degraded model/base/pytorch_model.bin.index.json"},
		{store.DefectMissing, "base/modeling_foo.py", "W-19 degraded model/base/modeling_foo.py"},
		{store.DefectMissing, "base/README.md", "W-19 info model/base/README.md"},
		{store.DefectInterrupted, "base/video_preprocessor_config.json", "W-19 block model/base/video_preprocessor_config.json"},
		{store.DefectInterrupted, "base/blobs/0a", "W-19 degraded model/base/blobs/0a"},
		{store.DefectListing, "base/trees/0a.json", "W-19 degraded model/base/trees/0a.json"},
		{store.DefectRef, "base/refs/main", "W-20 degraded model/base/refs/main"},
		{store.DefectOutside, "base/a.png", "W-16 block model/base/a.png"},
	} {
		damaged := *m
		damaged.Annotations.Problems = []manifest.Problem{{Part: manifest.Model, Path: c.path, Kind: c.kind, What: "what"}}
		if got := lines(rules.Check(&damaged)); !slices.Equal(got, []string{c.want}) {
			t.Errorf("%s of %s: got %q, want %s", c.kind, c.path, got, c.want)
		}
	}
}

// A shard that the listing names and that is not there is lost for the engine
// too: what the source states must not make it look present.
func TestMissingFromTheSourceIsMissing(t *testing.T) {
	m := built(t, llama().without("model.safetensors"))
	m.Annotations.Problems = append(m.Annotations.Problems, manifest.Problem{Part: manifest.Model, Path: "base/model.safetensors", Kind: store.DefectMissing, What: "what"})
	if got := lines(rules.Check(m)); !slices.Contains(got, "W-1 block model/base") {
		t.Errorf("got %q", got)
	}
}
