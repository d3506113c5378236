package discover

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

func TestRegionIn(t *testing.T) {
	for path, want := range map[string]string{
		"deploy/us-east-1/values.yaml": "us-east-1", "deploy/values-eu-west-1.yaml": "eu-west-1", "eu-west-1.yaml": "eu-west-1",
		"k8s/europe-west4/v.yaml": "europe-west4", "k8s/westeurope/v.yaml": "westeurope", "gov/us-gov-west-1/x.yaml": "us-gov-west-1",
		"deploy/base/vllm.yaml": "", "us-east/x.yaml": "", "models/me-1/x.yaml": "", "deploy/my-us-east-1a/x.yaml": "",
	} {
		if got := regionIn(path); got != want {
			t.Errorf("%s: %q, not %q", path, got, want)
		}
	}
}

func TestEngineConfig(t *testing.T) {
	for _, c := range []struct{ path, text, kind string }{
		{"e.yaml", "max-model-len: 4096\nport: 8000\n", "vllm"},
		{"engine/e.yaml", "port: 8000\n", "vllm"},
		{"e.yaml", "model-path: /m\ntp-size: 2\n", "sglang"},
		{"e.yaml", "max-model-len: 1\nport: 1\nfoo-bar: 2\n", "vllm"}, // a typing error is a finding later
		{"e.yaml", "host: a\nport: 8000\n", ""},                       // any server's
		{"e.yaml", "port: 8000\n", ""},
		{"vllm/e.yaml", "foo: 1\nbar: 2\nport: 3\n", ""},
		{"vllm/values.yaml", "image: x\nmax-model-len: 3\n", ""},
		{"vllm/e.yaml", "apiVersion: v1\nkind: X\n", ""},
		{"vllm/e.yaml", "- a\n", ""}, {"vllm/e.yaml", "", ""}, {"vllm/e.yaml", "a: [", ""},
	} {
		got, ok := engineConfig(c.path, []byte(c.text))
		if ok != (c.kind != "") || ok && got.Kind != c.kind {
			t.Errorf("%s %q: %v %+v, want %q", c.path, c.text, ok, got, c.kind)
		}
	}
}

// TestScalar: whatever a path is, YAML reads it back.
func TestScalar(t *testing.T) {
	for _, s := range []string{"a", "no", "y", "1", "0.5", "0x1", "a: b", "# x", "a #b", "[a]", "{a}", "*a", "&a", "!a", "'", `"`, `\`, "", " ", "a\tb", "ä", "~", "-", "null", "1.2.3", "hf://a/b@main", "a:", "2026-01-01", "./a/b", "."} {
		var got struct{ V any }
		if err := yaml.Unmarshal([]byte("{v: "+scalar(s)+", w: 1}"), &got); err != nil || got.V != s {
			t.Errorf("%q is written %s and read %v, %v", s, scalar(s), got.V, err)
		}
	}
}

func write(t *testing.T, root, name, text string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestLookIsNotMisled: copies in stores, circles of links, pipes' kin, hidden folders.
func TestLookIsNotMisled(t *testing.T) {
	root := t.TempDir()
	model := `{"model_type":"llama","architectures":["LlamaForCausalLM"]}`
	write(t, root, "real/config.json", model)
	write(t, root, "real/model.safetensors", "x")
	write(t, root, "regions/us/s/abc/manifest.json", `{"schema": "drkit.manifest/1.0"}`)
	write(t, root, "regions/us/s/abc/model/base/config.json", model)
	write(t, root, "regions/us/s/abc/model/base/model.safetensors", "x")
	write(t, root, ".cache/x/config.json", model)
	write(t, root, "node_modules/x/package-lock.json", "{}")
	write(t, root, "app/config.json", `{"model_type": ""}`)
	write(t, root, "app/tsconfig.json", `[]`)
	for _, link := range [][2]string{{".", "loop"}, {"real", "again"}, {"gone", "dangling"}} {
		if err := os.Symlink(link[0], filepath.Join(root, link[1])); err != nil {
			t.Fatal(err)
		}
	}
	f, err := Look(t.Context(), root)
	if err != nil || len(f.Models) != 1 || len(f.Deploy)+len(f.Engines)+len(f.Adapters) != 0 {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestDraftsAreNoBase(t *testing.T) {
	root := t.TempDir()
	write(t, root, "big/config.json", `{"architectures":["LlamaForCausalLM"]}`)
	write(t, root, "big/model.safetensors", "x")
	write(t, root, "eagle/config.json", `{"architectures":["LlamaForCausalLMEagle3"]}`)
	write(t, root, "eagle/model.safetensors", "x")
	write(t, root, "little/config.json", `{"architectures":["LlamaForCausalLM"]}`)
	write(t, root, "little/model.safetensors", "x")
	write(t, root, "compose.yaml", "services: {e: {image: 'vllm/vllm-openai:v0.32.0', command: [--model, /m/big, --speculative-config, '{\"model\":\"/m/little\",\"num_speculative_tokens\":2}']}}\n")
	f, err := Look(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	c, err := f.Choose("")
	if err != nil || c.Model.Path != "big" || len(c.Drafts) != 2 {
		t.Fatalf("%+v, %v", c, err)
	}
	text := string(Render(f, c, Place{Dir: root}))
	for _, want := range []string{"{name: eagle, source: ./eagle}  # its architecture is LlamaForCausalLMEagle3", "{name: little, source: ./little}  # compose.yaml names it as the draft model"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

// TestCommentsStayComments: a name with a line break cannot write a key.
func TestCommentsStayComments(t *testing.T) {
	root := t.TempDir()
	write(t, root, "m/config.json", `{"architectures":["A\nregions: []"]}`)
	write(t, root, "m/model.safetensors", "x")
	f, err := Look(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	c, err := f.Choose("")
	if err != nil {
		t.Fatal(err)
	}
	if text := string(Render(f, c, Place{Dir: root})); strings.Contains(text, "\nregions: []") {
		t.Error(text)
	}
}
