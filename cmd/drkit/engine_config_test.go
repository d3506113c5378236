package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"drkit/internal/errext"
)

// engineFiles makes a folder with an engine configuration, a deploy file and a
// drkit.yaml, and goes there.
func engineFiles(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, content := range map[string]string{
		"engine/vllm.yaml": "max-model-len: 32k\nenable-prefix-caching: false\napi-key: very-secret-value\n",
		"engine/sg.yaml":   "model-path: /m\ntp-size: 2\n",
		"deploy/pod.yaml": `apiVersion: v1
kind: Pod
spec:
  containers:
    - image: vllm/vllm-openai:v0.11.2
      args:
        - --model=/models/a
        - --task=embed
        - --config
        - /etc/vllm/vllm.yaml
`,
		"model/config.json": "{}",
		"drkit.yaml": `apiVersion: drkit/v1
kind: Service
metadata: {name: s}
model: {source: ./model}
engine: {version: 0.12.0, configs: [engine/vllm.yaml], args: [--seed, "3"]}
deploy: {files: [deploy/**]}
regions:
  - {name: a, role: source, residency: us, store: stores/a}
  - {name: b, role: target, residency: us, store: stores/b}
`,
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// engineJSON runs manifest engine and decodes its result.
func engineJSON(t *testing.T, want errext.Status, args ...string) (view engineView, all []engineView) {
	t.Helper()
	status, out, stderr := execute(t, append([]string{"manifest", "engine", "--output", "json"}, args...)...)
	if status != want {
		t.Fatalf("%q: status %d, want %d: %s%s", args, status, want, out, stderr)
	}
	if strings.Contains(out+stderr, "very-secret") {
		t.Errorf("%q shows the secret", args)
	}
	var report struct {
		engineView
		Engines []engineView
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	return report.engineView, report.Engines
}

func TestManifestEngineCommandLine(t *testing.T) {
	engineFiles(t)
	v, all := engineJSON(t, errext.Holds, "--engine-version", "0.32.0", "--", "vllm", "serve", "/m", "--config", "engine/vllm.yaml", "-tp", "2")
	want := map[string]any{"model_tag": "/m", "max_model_len": 32000.0, "api_key": []any{"[hidden]"}, "tensor_parallel_size": 2.0}
	if v.Model != "/m" || !reflect.DeepEqual(v.Options, want) || v.WouldExit != nil || len(v.Unknown) != 0 || !v.Judged || len(all) != 1 {
		t.Errorf("%+v", v)
	}
	if at := v.Sources["max_model_len"]; at.Path != "engine/vllm.yaml" || at.Line != 1 || v.Sources["tensor_parallel_size"].Path != "" {
		t.Errorf("sources %+v", v.Sources)
	}
	if v.Compared == nil || *v.Compared != (engineCompared{"0.32.0", "0.33.0"}) || len(v.Changes) != 2 || v.Changes[0].Option != "--tool-strict-level" {
		t.Errorf("%+v %+v", v.Compared, v.Changes)
	}
	v, _ = engineJSON(t, errext.Gate, "--", "vllm", "serve", "/m", "--max-model-length", "5")
	if v.WouldExit == nil || *v.WouldExit != 2 || !reflect.DeepEqual(v.Unknown, []string{"--max-model-length"}) ||
		v.Error != "vllm: error: unrecognized arguments: --max-model-length 5" || !v.Assumed {
		t.Errorf("%+v", v)
	}
	v, _ = engineJSON(t, errext.Holds, "--engine-version", "0.5.9", "--", "python3", "-m", "sglang.launch_server", "--config", "engine/sg.yaml")
	if v.Engine != "sglang" || v.Version != "0.5.9" || v.Model != "/m" || v.Options["tp_size"] != nil || v.Options["tensor_parallel_size"] != 2.0 {
		t.Errorf("%+v", v)
	}
}

func TestManifestEngineFiles(t *testing.T) {
	engineFiles(t)
	v, _ := engineJSON(t, errext.Holds, "--config", "engine/vllm.yaml")
	if v.Model != "" || len(v.Options) != 2 || v.Options["max_model_len"] != 32000.0 {
		t.Errorf("%+v", v)
	}
	if v, _ = engineJSON(t, errext.Holds, "--kind", "sglang", "--config", "engine/sg.yaml"); v.Model != "/m" || v.Engine != "sglang" {
		t.Errorf("%+v", v)
	}
	// the version of the image's tag, and the file that --config gives by its name
	v, _ = engineJSON(t, errext.Holds, "deploy/pod.yaml", "--config", "engine/vllm.yaml")
	if v.Version != "0.11.2" || v.Model != "/models/a" || v.Options["task"] != "embed" || v.Sources["task"].Line != 8 || !v.Judged {
		t.Errorf("%+v", v)
	}
	v, _ = engineJSON(t, errext.Gate, "deploy/pod.yaml", "--config", "engine/vllm.yaml", "--engine-version", "0.13.0")
	if *v.Compared != (engineCompared{"0.11.2", "0.13.0"}) || v.Changes[0].Kind != "removed" || v.Changes[0].Option != "--task" || v.Changes[0].Use != "--runner / convert" {
		t.Errorf("%+v", v)
	}
	if v, _ = engineJSON(t, errext.Holds, "deploy/pod.yaml"); v.Judged { // its configuration is not known
		t.Errorf("%+v", v)
	}
}

func TestManifestEngineOfService(t *testing.T) {
	engineFiles(t)
	_, all := engineJSON(t, errext.Holds)
	if len(all) != 2 {
		t.Fatalf("%d engines: %+v", len(all), all)
	}
	if v := all[0]; v.Version != "0.12.0" || v.Options["seed"] != 3.0 || v.Sources["max_model_len"].Path != "engine/vllm.yaml" {
		t.Errorf("drkit.yaml: %+v", v)
	}
	if v := all[1]; v.Version != "0.12.0" || v.Source != "deploy/pod.yaml:7" || v.Options["max_model_len"] != 32000.0 || v.Options["task"] != "embed" {
		t.Errorf("deploy file: %+v", v)
	}
	if _, all := engineJSON(t, errext.Gate, "--engine-version", "v0.13.0"); all[1].WouldExit == nil || all[0].WouldExit != nil {
		t.Errorf("%+v", all)
	}
}

func TestManifestEngineText(t *testing.T) {
	engineFiles(t)
	status, out, _ := execute(t, "manifest", "engine", "--config", "engine/vllm.yaml", "--engine-version", "0.32.0")
	want := `vLLM 0.32.0
serves the model that the release names

options that differ from their defaults
  api_key        ["[hidden]"]  (engine/vllm.yaml:3)
  max_model_len  32000  (engine/vllm.yaml:1)

to know
  engine/vllm.yaml:2  false-dropped: the value false of "enable-prefix-caching" is dropped in silence, and the default stays (unset): write no-enable-prefix-caching: true
  engine/vllm.yaml:3  plain-secret: --api-key is given in plain text; give it by an environment variable from a Secret

changes from 0.32.0 to 0.33.0
  default     the default of --tool-strict-level is unset, not 'auto'
  default     the default of --mamba-cache-mode is unset, not 'none'
`
	if status != errext.Holds || out != want {
		t.Errorf("status %d\n%s", status, out)
	}
}

func TestManifestEngineUsage(t *testing.T) {
	engineFiles(t)
	for _, args := range [][]string{
		{"--", "nginx"},
		{"--engine-version", "latest"},
		{"--kind", "tgi"},
		{"--kind", "sglang", "--", "vllm", "serve", "/m"},
		{"--config", "no-such.yaml"},
		{"--config", "engine"},
		{"no-such.yaml"},
		{"model/config.json"},
		{"deploy/pod.yaml", "--", "vllm", "serve", "/m"},
		{"-f", "drkit.yaml", "--", "vllm", "serve", "/m"},
		{"-f", "no-such.yaml"},
	} {
		status, out, stderr := execute(t, append([]string{"manifest", "engine"}, args...)...)
		if status != errext.Usage || out != "" || !strings.Contains(stderr, "\n  hint: ") {
			t.Errorf("%q: status %d, stdout %q, stderr %q", args, status, out, stderr)
		}
	}
}
