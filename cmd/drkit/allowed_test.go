package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drkit/internal/errext"
	"drkit/internal/service"
	"drkit/manifest"
)

// regional is a service of two regions with files of their own. entry stands in
// the target's allowed_differences.
func regional(t *testing.T, entry string) *service.Service {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"k8s/us/p.yaml": "spec:\n  replicas: 2\n", "k8s/eu/p.yaml": "spec:\n  priorityClassName: dr\n", "engine/v.yaml": "dtype: bfloat16\n",
		"drkit.yaml": `apiVersion: drkit/v1
kind: Service
metadata: {name: support}
model: {source: "` + absolute(t, "../../testdata/models/support-tiny") + `"}
engine: {kind: vllm, version: 0.32.0, configs: [engine/v.yaml]}
regions:
  - {name: us, role: source, residency: us, store: "s3://use-llm/a", registry: 1.example/llm, files: [k8s/us/**], endpoints: ["http://a.example"]}
  - name: eu
    role: target
    store: s3://euw-llm
    state: s3://euw-state/x
    s3: {assume_role: "arn:aws:iam::1:role/dr"}
    routers: [{name: chat, driver: reference, replicas: [{admin: "http://r.example", metrics: "http://m.example"}]}]
    files: [k8s/eu/**]
    allowed_differences: ["` + entry + `"]
`} {
		at := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	svc, err := service.Load(filepath.Join(root, "drkit.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return svc
}

// An entry of allowed_differences names an option, a field, a kind or a file of
// the release; anything else is a typing error.
func TestAllowedDifferencesNameSomething(t *testing.T) {
	for entry, hint := range map[string]string{
		"max_model_len": "", "speculative_config.model": "", "image": "", "engine-option": "", "dtype": "",
		"spec.replicas": "", "replicas": "", "spec.template.spec.priorityClassName": "", "spec.containers[0].replicas": "",
		"deploy/k8s/eu/p.yaml": "", "deploy/k8s/**": "", "deploy/k8s/*/p.yaml": "", "engine/engine/v.yaml": "",
		"max-model-len": "did you mean max_model_len?", "max_modle_len": "write an option", "max_model": "write an option", "imag": "write an option", "spec.replica": "write an option",
		"k8s/eu/p.yaml": "did you mean deploy/k8s/eu/p.yaml?", "deploy/k8s/ap/**": "name a file", "*": "name a file", "...": "write an option",
	} {
		_, _, err := buildRelease(t.Context(), regional(t, entry), nil)
		switch {
		case hint == "" && err != nil:
			t.Errorf("%s: %v", entry, err)
		case hint != "" && (err == nil || errext.StatusOf(err) != errext.Usage || !strings.Contains(err.Error(), `regions[1].allowed_differences[0]: "`+entry+`"`) || !strings.HasPrefix(errext.Hint(err), hint)):
			t.Errorf("%s: %v, hint %q, want %q", entry, err, errext.Hint(err), hint)
		}
	}
}

// What drkit.yaml says of regions reaches the rules, and the manifest keeps no
// place of theirs.
func TestPlacesOfRegions(t *testing.T) {
	svc := regional(t, "dtype")
	m, _, err := buildRelease(t.Context(), svc, nil)
	if err != nil {
		t.Fatal(err)
	}
	us, eu := m.Annotations.Regions[0].Places, m.Annotations.Regions[1].Places
	if got := strings.Join(us.Buckets, " ") + us.Registry + us.Endpoints[0]; got != "use-llm use-llm1.example/llmhttp://a.example" {
		t.Errorf("source %+v", us)
	}
	if got := strings.Join(append(eu.Buckets, eu.Roles...), " ") + " " + strings.Join(eu.Endpoints, " "); got != "euw-llm euw-state arn:aws:iam::1:role/dr   http://r.example http://m.example" {
		t.Errorf("target %q", got)
	}
	text, err := manifest.Encode(m)
	if err != nil || strings.Contains(string(text), "euw-state") || !strings.Contains(string(text), `"allowed_differences": [`) {
		t.Errorf("%v\n%s", err, text)
	}
}
