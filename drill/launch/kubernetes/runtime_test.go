package kubernetes

import (
	"slices"
	"strings"
	"testing"

	"drkit/drill"
	"drkit/internal/errext"
)

const runtimeYAML = `apiVersion: serving.kserve.io/v1alpha1
kind: ClusterServingRuntime
metadata: {name: team-vllm}
spec:
  annotations: {prometheus.io/port: "8080"}
  supportedModelFormats: [{name: vllm, version: "1", autoSelect: true}]
  protocolVersions: [openai]
  nodeSelector: {gpu: h100}
  tolerations: [{key: gpu, operator: Exists}]
  volumes: [{name: shm, emptyDir: {medium: Memory}}]
  containers:
    - name: kserve-container
      image: 1.example/llm/vllm:v0.32.0
      command: [vllm, serve, /mnt/models]
      args: [--port, "8080", "--served-model-name={{.Name}}", --max-model-len, "4096"]
      env: [{name: LEVEL, value: INFO}, {name: TEAM, value: "{{ .Labels.team }}"}]
      resources: {requests: {cpu: "2", memory: 8Gi}, limits: {nvidia.com/gpu: "1"}}
      volumeMounts: [{name: shm, mountPath: /dev/shm}]
    - {name: proxy, image: "1.example/llm/proxy:v2", args: ["{{.Name}}"]}
`

const modelYAML = `---
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: chat, labels: {team: support}}
spec:
  predictor:
    minReplicas: 2
    serviceAccountName: chat
    nodeSelector: {zone: a}
    model:
      modelFormat: {name: vllm}
      runtime: team-vllm
      storageUri: pvc://weights/chat/v7
      args: [--max-model-len, "8192"]
      env: [{name: LEVEL, value: DEBUG}, {name: EXTRA, value: x}]
      resources: {limits: {nvidia.com/gpu: "4", cpu: "8", memory: 200Gi}, requests: {cpu: "8", memory: 200Gi}}
`

// runtimeEngine is what reading the files finds: the runtime's container starts vLLM.
var runtimeEngine = drill.DeployEngine{Path: "k8s/all.yaml", Kind: "ClusterServingRuntime", Name: "team-vllm", Container: "kserve-container"}

// TestRuntime: merged by hand as KServe's documentation of ServingRuntimes says: the
// model's fields override the runtime's, arguments are added after the runtime's.
func TestRuntime(t *testing.T) {
	s := specOf(runtimeYAML+modelYAML, runtimeEngine)
	pod := render(t, Options{}, s)
	if len(pod.Spec.Containers) != 2 {
		t.Fatalf("containers %+v", pod.Spec.Containers)
	}
	c := pod.Spec.Containers[0]
	if want := []string{"--port", "8080", "--served-model-name=chat", "--max-model-len", "4096", "--max-model-len", "8192"}; c.Name != "kserve-container" || !slices.Equal(c.Args, want) || !slices.Equal(c.Command, []string{"vllm", "serve", "/mnt/models"}) {
		t.Errorf("%s: command %q, arguments %q", c.Name, c.Command, c.Args)
	}
	for name, want := range map[string]string{"LEVEL": "DEBUG", "TEAM": "support", "EXTRA": "x", "INFERENCE_SERVICE_NAME": "chat", "HF_HUB_OFFLINE": "1"} {
		if got := value(c, name); !slices.Equal(got, []string{want}) {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	gpus, cpu := c.Resources.Limits["nvidia.com/gpu"], c.Resources.Requests["cpu"]
	if gpus.String() != "4" || cpu.String() != "8" {
		t.Errorf("resources %+v", c.Resources)
	}
	if m := c.VolumeMounts; len(m) != 2 || m[0].MountPath != "/dev/shm" || m[1].MountPath != "/mnt/models" || m[1].SubPath != "chat/v7" || !m[1].ReadOnly {
		t.Errorf("mounts %+v", m)
	}
	if v := pod.Spec.Volumes; len(v) != 2 || v[0].Name != "shm" || v[1].PersistentVolumeClaim == nil || v[1].PersistentVolumeClaim.ClaimName != "weights" {
		t.Errorf("volumes %+v", v)
	}
	if pod.Spec.NodeSelector["gpu"] != "h100" || pod.Spec.NodeSelector["zone"] != "a" || len(pod.Spec.Tolerations) != 1 || pod.Spec.ServiceAccountName != "chat" {
		t.Errorf("pod %+v", pod.Spec)
	}
	if other := pod.Spec.Containers[1]; other.Name != "proxy" || !slices.Equal(other.Args, []string{"{{.Name}}"}) {
		t.Errorf("KServe fills placeholders of the engine's container alone: %+v", other)
	}
	if pod.Annotations[annotContainer] != "kserve-container" || pod.Annotations[annotPort] != "8080" || len(pod.Labels) != 3 {
		t.Errorf("annotations %v, labels %v", pod.Annotations, pod.Labels)
	}
	if w, err := (Options{}).choose(s); err != nil || len(w.notes) != 0 {
		t.Errorf("notes %q, %v", w.notes, err)
	}
	w, err := Options{}.choose(specOf(runtimeYAML+strings.Replace(modelYAML, "memory: 200Gi}, requests", "pods: 1}, requests", 1), runtimeEngine))
	if err != nil || len(w.notes) != 1 || !strings.Contains(w.notes[0], "KServe's configuration may give production's pods others") {
		t.Errorf("without a limit of memory: %q, %v", w.notes, err)
	}
}

// TestRuntimeChosen: a ServingRuntime comes before a ClusterServingRuntime of its name,
// and the region's rendering before that of every region.
func TestRuntimeChosen(t *testing.T) {
	own := strings.NewReplacer("ClusterServingRuntime", "ServingRuntime", "4096", "1024").Replace(runtimeYAML)
	s := specOf(runtimeYAML+modelYAML+"---\n"+own, runtimeEngine)
	s.Engines[0].Kind = "ServingRuntime"
	if args := render(t, Options{}, s).Spec.Containers[0].Args; !slices.Contains(args, "1024") {
		t.Errorf("arguments %q", args)
	}
	s = specOf(runtimeYAML+modelYAML, runtimeEngine)
	s.Deploy = append(s.Deploy, drill.DeployFile{Region: "eu", Path: "eu.yaml", Data: []byte(strings.Replace(runtimeYAML, "4096", "512", 1))})
	if args := render(t, Options{Workload: "InferenceService/chat"}, s).Spec.Containers[0].Args; !slices.Contains(args, "512") {
		t.Errorf("arguments %q", args)
	}
}

// TestPredictorsLabels: of labels and annotations KServe takes those of the predictor, then
// the InferenceService's, then the runtime's ("priority: predictor component > isvc >
// ServingRuntimeSpec"); the canary has those that are named to be kept.
func TestPredictorsLabels(t *testing.T) {
	own := strings.NewReplacer("runtime: team-vllm\n", "", "    model:\n", "    containers: [{name: kserve-container, image: '1.example/llm/vllm:v0.32.0'}]\n", "      modelFormat: {name: vllm}\n", "")
	whole, _, _ := strings.Cut(own.Replace(modelYAML), "      storageUri")
	for name, c := range map[string]struct {
		text string
		s    drill.DeployEngine
		rack string
	}{
		"by a runtime":           {runtimeYAML + modelYAML, runtimeEngine, "r1"},
		"with its own container": {whole, drill.DeployEngine{Path: "k8s/all.yaml", Kind: "InferenceService", Name: "chat", Container: "kserve-container"}, ""},
	} {
		text := strings.NewReplacer("  annotations: {prometheus.io/port", "  labels: {queue: runtimes, pool: runtimes, rack: r1}\n  annotations: {prometheus.io/port",
			"labels: {team: support}", "labels: {team: support, queue: services, pool: services}, annotations: {note: services}",
			"    minReplicas: 2\n", "    minReplicas: 2\n    labels: {queue: predictors}\n    annotations: {note: predictors}\n").Replace(c.text)
		pod := render(t, Options{KeepLabels: []string{"queue", "pool", "rack", "note"}}, specOf(text, c.s))
		if pod.Labels["queue"] != "predictors" || pod.Labels["pool"] != "services" || pod.Labels["rack"] != c.rack || pod.Labels["team"] != "" || pod.Annotations["note"] != "predictors" {
			t.Errorf("%s: labels %v, annotations %v", name, pod.Labels, pod.Annotations)
		}
	}
}

// TestRuntimeOfTwoNamespaces: which of two that differ production runs by is not guessed.
func TestRuntimeOfTwoNamespaces(t *testing.T) {
	in := func(namespace, max string) string {
		return strings.NewReplacer("kind: ClusterServingRuntime\nmetadata: {name: team-vllm}", "kind: ServingRuntime\nmetadata: {name: team-vllm, namespace: "+namespace+"}", "4096", max).Replace(runtimeYAML)
	}
	engine := runtimeEngine
	engine.Kind = "ServingRuntime"
	of := func(max, model string) drill.Spec {
		return specOf(in("lab", "4096")+"---\n"+in("prod", max)+model, engine)
	}
	_, err := Render(Options{Workload: "InferenceService/chat"}, of("512", modelYAML))
	if err == nil || !strings.Contains(err.Error(), "two runtimes team-vllm that differ") || errext.Hint(err) == "" {
		t.Errorf("Render = %v", err)
	}
	render(t, Options{}, of("4096", modelYAML)) // the same in both
	args := render(t, Options{}, of("512", strings.Replace(modelYAML, "{name: chat, labels", "{name: chat, namespace: prod, labels", 1))).Spec.Containers[0].Args
	if !slices.Contains(args, "512") {
		t.Errorf("arguments %q", args)
	}
}

// TestRuntimeRefused: what KServe takes from elsewhere is refused by name.
func TestRuntimeRefused(t *testing.T) {
	for _, c := range []struct{ name, old, now, want string }{
		{"the runtime is elsewhere", "runtime: team-vllm", "runtime: other", "its runtime other is not among the deploy files"},
		{"chosen by KServe", "      runtime: team-vllm\n", "", "names no runtime"},
		{"from a bucket", "pvc://weights/chat/v7", "s3://bucket/chat", "the model comes from s3://…, by a storage-initializer"},
		{"from a hub", "pvc://weights/chat/v7", "hf://org/chat", "hf://…"},
		{"by a storage spec", "storageUri: pvc://weights/chat/v7", "storage: {key: main, path: chat}", "spec.predictor.model.storage"},
		{"several models by URI", "    minReplicas: 2", "    storageUris: [{uri: 'pvc://a/b'}]", "storageUris"},
		{"several nodes", "    minReplicas: 2", "    workerSpec: {}", "several pods"},
		{"another format", "modelFormat: {name: vllm}", "modelFormat: {name: onnx}", `does not serve the format "onnx"`},
		{"disabled", "protocolVersions: [openai]", "disabled: true", "is disabled"},
		{"several models", "protocolVersions: [openai]", "multiModel: true", "several models"},
		{"no engine's container", "- name: kserve-container", "- name: main", "no container kserve-container"},
		{"a placeholder", "{{.Name}}", "{{ range 3 }}x{{end}}", "the placeholder {{ range 3 }} is not followed"},
		{"a label that it has not", "{{ .Labels.team }}", "{{.Labels.tier}}", "the placeholder {{.Labels.tier}} is not followed"},
		{"a namespace that is not told", "{{.Name}}", "{{.Namespace}}", "{{.Namespace}} is not followed"},
		{"a field that is not followed", "protocolVersions: [openai]", "storageHelper: {disabled: true}", "spec.storageHelper is not followed"},
		{"a server with settings of KServe's", "team-vllm", "triton", "of kind triton"},
		{"a transformer", "{name: proxy,", "{name: transformer-container,", "transformer-container"},
		{"another build", `limits: {nvidia.com/gpu: "4", cpu`, `limits: {nvidia.com/gpu: null, cpu`, "another build of image 1.example/llm/vllm:v0.32.0"},
		{"another version", "runtime: team-vllm", "runtime: team-vllm\n      runtimeVersion: v0.33.0", "no digest is known for image 1.example/llm/vllm:v0.33.0"},
		{"a field that no container has", "args: [--max-model-len", "argz: [--max-model-len", "argz"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := specOf(strings.ReplaceAll(runtimeYAML+modelYAML, c.old, c.now), runtimeEngine)
			_, err := Render(Options{Workload: "InferenceService/chat"}, s)
			if err == nil || !strings.Contains(err.Error(), c.want) || errext.Hint(err) == "" {
				t.Errorf("Render = %v, want %q (hint %q)", err, c.want, errext.Hint(err))
			}
		})
	}
}

// TestServes: the name that a placeholder stands for, of several flags the last, of
// several names the first.
func TestServes(t *testing.T) {
	for old, want := range map[string]string{"": "chat", `[--max-model-len, "8192"]`: "other", "--served-model-name={{.Name}}": ""} {
		text := runtimeYAML + modelYAML
		switch old {
		case `[--max-model-len, "8192"]`:
			text = strings.Replace(text, old, "[--served-model-name, other, second]", 1)
		case "--served-model-name={{.Name}}":
			text = strings.Replace(text, old, "--served-model-name=$(NAME)", 1)
		}
		if got := (&Launcher{}).Serves(specOf(text, runtimeEngine)); got != want {
			t.Errorf("%s: it serves %q, want %q", old, got, want)
		}
	}
}

// TestRuntimeMissing: nobody has named the workload, and what starts its engine is not
// among the files.
func TestRuntimeMissing(t *testing.T) {
	_, err := Render(Options{}, specOf(modelYAML))
	if err == nil || !strings.Contains(err.Error(), "InferenceService/chat of k8s/all.yaml: its runtime team-vllm is not among the deploy files") || errext.Hint(err) == "" {
		t.Errorf("Render = %v", err)
	}
}

// TestRuntimeByDigest: an image by digest is the one that runs, whatever the version says.
func TestRuntimeByDigest(t *testing.T) {
	text := strings.ReplaceAll(runtimeYAML+strings.Replace(modelYAML, "runtime: team-vllm", "runtime: team-vllm\n      runtimeVersion: v9", 1), "llm/vllm:v0.32.0", "llm/vllm"+hash)
	s := specOf(text, runtimeEngine)
	s.Images["1.example/llm/vllm"+hash] = "2.example/dr/vllm" + hash
	if got := render(t, Options{}, s).Spec.Containers[0].Image; got != "2.example/dr/vllm"+hash {
		t.Errorf("image %s", got)
	}
}
