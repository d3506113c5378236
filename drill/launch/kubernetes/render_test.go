package kubernetes

import (
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"drkit/drill"
	"drkit/internal/errext"
)

const (
	testRun = "01KB2Q4V7N3M5P6R8S9T0VWXYZ"
	hash    = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
)

// spec hands a file of testdata to the launcher, with every image pinned.
func spec(t *testing.T, file, kind, name, container string) drill.Spec {
	t.Helper()
	data, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	return specOf(string(data), drill.DeployEngine{Path: "k8s/all.yaml", Kind: kind, Name: name, Container: container})
}

func specOf(yaml string, engines ...drill.DeployEngine) drill.Spec {
	return drill.Spec{Run: testRun, Name: "target-canary", Engines: engines,
		Deploy: []drill.DeployFile{{Path: "k8s/all.yaml", Data: []byte(yaml)}},
		Images: map[string]string{"1.example/llm/vllm:v0.32.0": "2.example/dr/vllm" + hash, "1.example/llm/proxy:v2": "2.example/dr/proxy" + hash, "1.example/llm/fetch:v3": "2.example/dr/fetch" + hash}}
}

func render(t *testing.T, o Options, s drill.Spec) *corev1.Pod {
	t.Helper()
	if o.Namespace == "" {
		o.Namespace = "dr-drill"
	}
	all, err := Render(o, s)
	if err != nil {
		t.Fatalf("Render: %v (hint %q)", err, errext.Hint(err))
	}
	return all[0]
}

// TestDeployment: what production has stays, what makes others find it goes.
func TestDeployment(t *testing.T) {
	pod := render(t, Options{}, spec(t, "deployment.yaml", "Deployment", "chat", "engine"))
	if pod.Name != "drkit-target-canary-01kb2q4v7n3m5p6r8s9t0vwxyz" || pod.Namespace != "dr-drill" || pod.APIVersion != "v1" || pod.Kind != "Pod" {
		t.Errorf("it is %s %s %s/%s", pod.APIVersion, pod.Kind, pod.Namespace, pod.Name)
	}
	if want := map[string]string{"drkit.dev/run": testRun, "drkit.dev/replica": "target-canary", "app.kubernetes.io/managed-by": "drkit"}; !equal(pod.Labels, want) {
		t.Errorf("labels %v, want only %v", pod.Labels, want)
	}
	for key := range pod.Annotations {
		if !strings.HasPrefix(key, "drkit.dev/") {
			t.Errorf("annotation %s came along", key)
		}
	}
	s := pod.Spec
	if s.RestartPolicy != corev1.RestartPolicyNever || s.EnableServiceLinks == nil || *s.EnableServiceLinks || s.PriorityClassName != "" || s.PreemptionPolicy == nil || *s.PreemptionPolicy != corev1.PreemptNever {
		t.Errorf("restart %s, links %v, priority %q, pre-emption %v", s.RestartPolicy, s.EnableServiceLinks, s.PriorityClassName, s.PreemptionPolicy)
	}
	if s.Hostname != "" || s.Subdomain != "" || *s.TerminationGracePeriodSeconds != 30 {
		t.Errorf("hostname %q, subdomain %q, grace %d", s.Hostname, s.Subdomain, *s.TerminationGracePeriodSeconds)
	}
	if s.ServiceAccountName != "chat" || s.NodeSelector["gpu"] != "h100" || len(s.Tolerations) != 1 || s.Volumes[0].PersistentVolumeClaim.ClaimName != "chat-weights" {
		t.Errorf("production's own went: %+v", s)
	}
	engine := s.Containers[1]
	if engine.Name != "engine" || !slices.Equal(engine.Args, []string{"--model", "/models", "--port", "8200", "--served-model-name", "chat"}) || engine.StartupProbe.FailureThreshold != 180 {
		t.Errorf("the engine's container is %+v", engine)
	}
	if q := engine.Resources.Limits["nvidia.com/gpu"]; q.String() != "4" {
		t.Errorf("GPUs %v", q)
	}
	for _, c := range slices.Concat(s.InitContainers, s.Containers) {
		if !strings.HasPrefix(c.Image, "2.example/dr/") || !strings.HasSuffix(c.Image, hash) {
			t.Errorf("image %s of %s", c.Image, c.Name)
		}
		for _, name := range []string{"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "VLLM_NO_USAGE_STATS", "DO_NOT_TRACK"} {
			if v := value(c, name); !slices.Equal(v, []string{"1"}) {
				t.Errorf("%s of %s is %q", name, c.Name, v)
			}
		}
	}
	if !slices.Equal(value(engine, "VLLM_LOGGING_LEVEL"), []string{"INFO"}) || engine.Env[len(engine.Env)-1].ValueFrom.SecretKeyRef.Name != "hub" {
		t.Errorf("environment %+v", engine.Env)
	}
	if pod.Annotations[annotContainer] != "engine" || pod.Annotations[annotPort] != "8200" {
		t.Errorf("annotations %v", pod.Annotations)
	}
}

func value(c corev1.Container, name string) (all []string) {
	for _, e := range c.Env {
		if e.Name == name {
			all = append(all, e.Value)
		}
	}
	return all
}

func equal(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return true
}

func TestKeptLabels(t *testing.T) {
	pod := render(t, Options{KeepLabels: []string{"azure.workload.identity/use"}}, spec(t, "deployment.yaml", "Deployment", "chat", "engine"))
	if pod.Labels["azure.workload.identity/use"] != "true" || pod.Labels["app"] != "" || pod.Labels["tier"] != "" {
		t.Errorf("labels %v", pod.Labels)
	}
}

// TestStatefulSet: a further replica would get an empty volume of its own.
func TestStatefulSet(t *testing.T) {
	pod := render(t, Options{}, spec(t, "statefulset.yaml", "StatefulSet", "chat", "engine"))
	v := pod.Spec.Volumes[0]
	if len(pod.Spec.Volumes) != 1 || v.Name != "weights" || v.Ephemeral == nil || *v.Ephemeral.VolumeClaimTemplate.Spec.StorageClassName != "fast" {
		t.Errorf("volumes %+v", pod.Spec.Volumes)
	}
	if pod.Annotations[annotPort] != "8123" {
		t.Errorf("port %s", pod.Annotations[annotPort])
	}
}

func TestLeaderWorkerSet(t *testing.T) {
	s := spec(t, "lws.yaml", "LeaderWorkerSet", "chat", "leader")
	c := render(t, Options{}, s).Spec.Containers
	if len(c) != 1 || c[0].Name != "leader" || !slices.Equal(value(c[0], "LWS_GROUP_SIZE"), []string{"1"}) || !slices.Equal(value(c[0], "LWS_WORKER_INDEX"), []string{"0"}) {
		t.Fatalf("containers %+v", c)
	}
	at := slices.IndexFunc(c[0].Env, func(e corev1.EnvVar) bool { return e.Name == "LWS_LEADER_ADDRESS" })
	if at < 0 || c[0].Env[at].ValueFrom.FieldRef.FieldPath != "status.podIP" {
		t.Errorf("the leader's address: %+v", c[0].Env)
	}
}

func TestKServe(t *testing.T) {
	pod := render(t, Options{}, spec(t, "kserve.yaml", "InferenceService", "chat", "kserve-container"))
	c := pod.Spec.Containers[0]
	if len(c.VolumeMounts) != 1 || c.VolumeMounts[0].MountPath != "/mnt/models" || c.VolumeMounts[0].SubPath != "chat/v7" || !c.VolumeMounts[0].ReadOnly || pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName != "weights" {
		t.Errorf("mounts %+v, volumes %+v", c.VolumeMounts, pod.Spec.Volumes)
	}
	if len(value(c, "STORAGE_URI")) != 0 || pod.Annotations[annotPort] != "8080" {
		t.Errorf("environment %+v, port %s", c.Env, pod.Annotations[annotPort])
	}
	pod = render(t, Options{Workload: "LLMInferenceService/chat-llm"}, spec(t, "kserve.yaml", "", "", ""))
	if m := pod.Spec.Containers[0].VolumeMounts[0]; m.SubPath != "chat" || pod.Annotations[annotPort] != "8443" {
		t.Errorf("mount %+v, port %s", m, pod.Annotations[annotPort])
	}
}

// TestNotRendered: what cannot be made into a bare pod, or is not known, is refused
// with what to do about it.
func TestNotRendered(t *testing.T) {
	deployment := spec(t, "deployment.yaml", "Deployment", "chat", "engine")
	text := string(deployment.Deploy[0].Data)
	kserve := func(spec string) drill.Spec {
		return specOf("apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\nmetadata: {name: a}\nspec: "+spec, drill.DeployEngine{Path: "k8s/all.yaml", Kind: "InferenceService", Name: "a"})
	}
	engine := deployment.Engines[0]
	for _, c := range []struct {
		name string
		o    Options
		s    drill.Spec
		want string
	}{
		{"nothing starts an engine", Options{}, specOf(text), "no workload of the deploy files is known to start an engine"},
		{"no such workload", Options{Workload: "Deployment/other"}, deployment, "no workload Deployment/other"},
		{"two engines", Options{}, specOf(text+"\n---\n"+strings.ReplaceAll(text, "name: chat\n", "name: chat2\n"), engine, drill.DeployEngine{Path: "k8s/all.yaml", Kind: "Deployment", Name: "chat2", Container: "engine"}), "several workloads"},
		{"which container", Options{Workload: "chat"}, specOf(text), "which of its containers is the engine"},
		{"no such container", Options{Container: "vllm"}, deployment, "no container vllm"},
		{"a field that no pod has", Options{}, specOf(strings.Replace(text, "args:", "argz:", 1), engine), "argz"},
		{"no YAML", Options{}, specOf("kind: [", engine), "k8s/all.yaml"},
		{"a key twice", Options{}, specOf("kind: A\nkind: B\napiVersion: v1", engine), "k8s/all.yaml"},
		{"an unknown kind", Options{Workload: "RayService/a"}, specOf("apiVersion: ray.io/v1\nkind: RayService\nmetadata: {name: a}"), "cannot be turned into a bare pod"},
		{"a runtime that is not told", Options{}, kserve("{predictor: {model: {storageUri: 's3://b/m'}}}"), "names no runtime"},
		{"by KServe alone", Options{}, kserve("{predictor: {huggingface: {}}}"), "neither containers nor a model"},
		{"several nodes", Options{}, kserve("{predictor: {workerSpec: {}, containers: []}}"), "several pods"},
		{"from a bucket", Options{}, kserve("{predictor: {containers: [{name: a, image: '1.example/llm/vllm:v0.32.0', env: [{name: STORAGE_URI, value: 's3://b/m'}]}]}}"), "s3://"},
		{"presets", Options{Workload: "LLMInferenceService/a"}, specOf("apiVersion: serving.kserve.io/v1alpha1\nkind: LLMInferenceService\nmetadata: {name: a}\nspec: {model: {uri: 'hf://a/b'}}"), "spec.template"},
		{"prefill", Options{Workload: "LLMInferenceService/a"}, specOf("apiVersion: serving.kserve.io/v1alpha1\nkind: LLMInferenceService\nmetadata: {name: a}\nspec: {prefill: {}}"), "several pods"},
		{"a label that it has not", Options{}, specOf(strings.Replace(text, "{name: HF_HUB_OFFLINE, value: \"0\"}", "{name: TIER, valueFrom: {fieldRef: {fieldPath: \"metadata.labels['tier']\"}}}", 1), engine), `label "tier"`},
		{"a port that is none", Options{}, specOf(strings.Replace(text, `"8200"`, `"82000"`, 1), engine), "is no port"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := Render(c.o, c.s); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Render = %v, want %q", err, c.want)
			}
		})
	}
}

func TestImagesByDigest(t *testing.T) {
	s := spec(t, "deployment.yaml", "Deployment", "chat", "engine")
	delete(s.Images, "1.example/llm/proxy:v2")
	s.Images["1.example/llm/vllm:v0.32.0"] = "2.example/dr/vllm:v0.32.0"
	_, err := Render(Options{}, s)
	if err == nil || !strings.Contains(err.Error(), "container proxy: no digest is known for image 1.example/llm/proxy:v2") || !strings.Contains(err.Error(), "container engine: no digest") {
		t.Errorf("Render = %v", err)
	}
	s.Deploy[0].Data = []byte(strings.ReplaceAll(string(s.Deploy[0].Data), "1.example/llm/proxy:v2", "1.example/llm/proxy"+hash))
	if _, err = Render(Options{}, s); err == nil || !strings.Contains(err.Error(), "not among the release's images") {
		t.Errorf("an image of no release: %v", err)
	}
}

// TestRegionsOwn: the region's rendering stands for the file of every region.
func TestRegionsOwn(t *testing.T) {
	s := spec(t, "deployment.yaml", "Deployment", "chat", "engine")
	own := strings.Replace(string(s.Deploy[0].Data), "gpu: h100", "gpu: h200", 1)
	s.Deploy = append(s.Deploy, drill.DeployFile{Region: "eu", Path: "eu/all.yaml", Data: []byte(own)})
	s.Engines = append(s.Engines, drill.DeployEngine{Path: "eu/all.yaml", Kind: "Deployment", Name: "chat", Container: "engine"})
	if pod := render(t, Options{}, s); pod.Spec.NodeSelector["gpu"] != "h200" {
		t.Errorf("node selector %v", pod.Spec.NodeSelector)
	}
}

func TestPatches(t *testing.T) {
	s := spec(t, "deployment.yaml", "Deployment", "chat", "engine")
	merge := Patch{"merge.yaml", []byte("metadata: {labels: {team: dr}}\nspec:\n  restartPolicy: Always\n  priorityClassName: production\n  containers:\n  - name: engine\n    resources: {limits: {nvidia.com/gpu: 1}}\n    env: [{name: HF_HUB_OFFLINE, value: '0'}, {name: EXTRA, value: x}]\n")}
	list := Patch{"list.yaml", []byte("- {op: remove, path: /spec/nodeSelector/gpu}\n")}
	pod := render(t, Options{Patches: []Patch{merge, list}}, s)
	engine := pod.Spec.Containers[slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == "engine" })]
	gpus, memory := engine.Resources.Limits["nvidia.com/gpu"], engine.Resources.Limits["memory"]
	if gpus.String() != "1" || memory.String() != "200Gi" || !slices.Equal(value(engine, "EXTRA"), []string{"x"}) || len(pod.Spec.NodeSelector) != 0 || pod.Labels["team"] != "dr" {
		t.Errorf("patched: %+v, %v, %v", engine, pod.Spec.NodeSelector, pod.Labels)
	}
	if pod.Spec.RestartPolicy != corev1.RestartPolicyNever || pod.Spec.PriorityClassName != "" || !slices.Equal(value(engine, "HF_HUB_OFFLINE"), []string{"1"}) {
		t.Error("a patch got past drkit's own settings")
	}
	for name, bad := range map[string]string{"unknown field": "spec: {restartPolicies: Never}", "no such path": "- {op: remove, path: /spec/nope}", "no patch": "just text", "no YAML": "a: [", "no pod": "spec: {containers: 3}"} {
		_, err := Render(Options{Patches: []Patch{{"p.yaml", []byte(bad)}}}, s)
		if err == nil || !strings.Contains(err.Error(), "patch p.yaml") || errext.StatusOf(err) != errext.Usage {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Render(Options{Patches: []Patch{{"p", []byte("spec: {containers: [{name: engine, $patch: delete}]}")}}}, s); err == nil || !strings.Contains(err.Error(), "no container engine is left") {
		t.Errorf("the engine's container patched away: %v", err)
	}
}

func FuzzRender(f *testing.F) {
	for _, name := range []string{"deployment.yaml", "statefulset.yaml", "lws.yaml", "kserve.yaml"} {
		data, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(groupYAML))
	f.Add([]byte(runtimeYAML + modelYAML))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := specOf(string(data))
		for _, o := range []Options{{Workload: "chat"}, {Workload: "LLMInferenceService/chat-llm"}} {
			all, err := Render(o, s)
			for _, pod := range all {
				if err != nil || pod.Spec.RestartPolicy != corev1.RestartPolicyNever || pod.Labels[LabelRun] != testRun {
					t.Errorf("a pod of %q without drkit's settings (%v)", data, err)
				}
			}
		}
	})
}
