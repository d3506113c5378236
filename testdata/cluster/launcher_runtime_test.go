//go:build linux

package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drkit/drill"
	"drkit/drill/launch/kubernetes"
)

// runtimeText is a predictor and its runtime; the model lies on a claim.
const runtimeText = `apiVersion: serving.kserve.io/v1alpha1
kind: ServingRuntime
metadata: {name: team-engine}
spec:
  supportedModelFormats: [{name: huggingface}]
  containers:
    - name: kserve-container
      image: ` + engineRef + `
      args: [--port, "8123", --model, /mnt/models, "--served-model-name={{.Name}}"]
      env: [{name: LEVEL, value: INFO}, {name: TEAM, value: "{{.Labels.team}}"}]
---
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: chat, labels: {team: support}}
spec:
  predictor:
    model:
      modelFormat: {name: huggingface}
      runtime: team-engine
      storageUri: pvc://weights/chat/v7
      args: [--boot, 1ms]
      env: [{name: LEVEL, value: DEBUG}]
      resources: {requests: {cpu: "1", memory: 1Gi}, limits: {cpu: "1", memory: 1Gi, nvidia.com/gpu: 1}}
`

// runtimeMerged: a predictor boots by what its runtime says, with its own arguments after
// the runtime's, its name in their placeholders and its claim beneath /mnt/models.
func runtimeMerged(t *testing.T, c *Cluster) {
	volume := t.TempDir()
	if err := os.MkdirAll(filepath.Join(volume, "chat/v7"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(volume, "chat/v7/config.json"), []byte("of version 7"), 0o644); err != nil {
		t.Fatal(err)
	}
	apply(t, c, "", `{apiVersion: v1, kind: PersistentVolume, metadata: {name: weights}, spec: {capacity: {storage: 1Gi}, accessModes: [ReadOnlyMany], storageClassName: "", hostPath: {path: `+volume+`}, claimRef: {namespace: dr-drill, name: weights}}}`)
	apply(t, c, "dr-drill", `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: weights}, spec: {accessModes: [ReadOnlyMany], storageClassName: "", volumeName: weights, resources: {requests: {storage: 1Gi}}}}`)
	s := launchSpec(runtimeText)
	s.Engines = []drill.DeployEngine{{Path: "chat.yaml", Kind: "ServingRuntime", Name: "team-engine", Container: "kserve-container"}}
	_, err := newLauncher(t, c, kubernetes.Options{}).Check(t.Context(), s)
	for _, kind := range []string{"ServingRuntime", "InferenceService"} {
		if err == nil || !strings.Contains(err.Error(), "does not know "+kind) {
			t.Errorf("without the definition of %s: %v", kind, err)
		}
	}
	c.Define(t, "serving.kserve.io", "v1alpha1", "ServingRuntime")
	c.Define(t, "serving.kserve.io", "v1beta1", "InferenceService")

	l := newLauncher(t, c, kubernetes.Options{})
	if notes, err := l.Check(t.Context(), s); err != nil || len(notes) > 0 {
		t.Fatalf("Check: %v, %v", notes, err)
	}
	if got := l.Serves(s); got != "chat" {
		t.Errorf("it is asked by the name %q", got)
	}
	r := launch(t, l, s)
	until(t, "the predictor to serve", canaryHealthy(r))
	got := ask(r.Endpoint() + "/x")
	if _, after, ok := strings.Cut(got, "--port 8123 --model "); !ok || !strings.Contains(after, "/chat/v7 --served-model-name=chat --boot 1ms") {
		t.Errorf("it runs as %q", got)
	}
	for command, want := range map[string]string{
		"echo $LEVEL $TEAM $INFERENCE_SERVICE_NAME": "DEBUG support chat",
		"cat /mnt/models/config.json":               "of version 7",
	} {
		if out, err := r.Run(t.Context(), []string{"sh", "-c", command}); err != nil || strings.TrimSpace(string(out)) != want {
			t.Errorf("%s: %q, %v", command, out, err)
		}
	}
	if trouble, ok := r.Trouble(); ok {
		t.Errorf("trouble %+v", trouble)
	}
	if err := r.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if pods := podsOf(t, c, ""); len(pods) != 0 {
		t.Errorf("pods are left: %v", pods)
	}
}
