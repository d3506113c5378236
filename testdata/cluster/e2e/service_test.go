//go:build linux

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"drkit/testdata/cluster"
	"drkit/testdata/cluster/kubelet"
)

const (
	engineImage  = "registry.example/vllm/vllm-openai"
	engineDigest = "sha256:4a1c9b3d2e5f60718293a4b5c6d7e8f90123456789abcdef0123456789abcdef"
)

// engineFlags are those that production starts its engine with, beside the model.
const engineFlags = `served-model-name: support
max-model-len: 1024
dtype: bfloat16
block-size: 32
enforce-eager: true
enable-prompt-tokens-details: true
enable-lora: true
max-lora-rank: 16
`

// deployment is how production runs the engine in a region: the weights come from a claim, the configuration from a ConfigMap.
func deployment(region string) string {
	return strings.ReplaceAll(deploymentText, "REGION", region)
}

const deploymentText = `apiVersion: apps/v1
kind: Deployment
metadata: {name: support, labels: {app: support}}
spec:
  replicas: 1
  selector: {matchLabels: {app: support}}
  template:
    metadata: {labels: {app: support}}
    spec:
      nodeSelector: {topology.kubernetes.io/region: REGION}
      containers:
        - name: engine
          image: ` + engineImage + `@` + engineDigest + `
          args: [--model, /models/base, --config, /engine/vllm.yaml, --port, "8000", --lora-modules, billing=/models/adapters/billing]
          resources: {limits: {nvidia.com/gpu: 1}}
          startupProbe: {httpGet: {path: /health, port: 8000}, periodSeconds: 2, failureThreshold: 300}
          readinessProbe: {httpGet: {path: /v1/models, port: 8000}, periodSeconds: 2}
          volumeMounts:
            - {name: weights, mountPath: /models, readOnly: true}
            - {name: config, mountPath: /engine}
      volumes:
        - name: weights
          persistentVolumeClaim: {claimName: weights}
        - name: config
          configMap: {name: engine-config}
`

// world is a service in two regions: a name space and a context for each, with what production keeps there.
type world struct {
	*cluster.Cluster
	dir     string // of drkit.yaml
	release string
	engine  kubelet.Image
}

// named gives an engine the name that production has for it.
func named(engine kubelet.Image) kubelet.Image {
	engine.Ref, engine.Digest = engineImage+":0.32.0", engineDigest
	return engine
}

// regions are the two of the service, with the name spaces that drills use there.
var regions = map[string]string{"us-east-1": "drill-us", "eu-west-1": "drill-eu"}

// newWorld starts a cluster whose engine image is the given one, replicates the
// service, and fills both regions' claims from their own copies.
func newWorld(t *testing.T, engine kubelet.Image, probes func(dir string), router string) *world {
	t.Helper()
	w := &world{dir: t.TempDir()}
	for from, to := range map[string]string{"models/support-tiny": "models/support-tiny", "models/billing": "models/billing"} {
		if err := os.CopyFS(filepath.Join(w.dir, to), os.DirFS(filepath.Join(root, "internal/demo/files", from))); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(w.dir, "engine/vllm.yaml"), engineFlags)
	for region := range regions {
		write(t, filepath.Join(w.dir, "deploy", region, "deployment.yaml"), deployment(region))
	}
	write(t, filepath.Join(w.dir, "drkit.yaml"), fmt.Sprintf(`apiVersion: drkit/v1
kind: Service
metadata: {name: support}
model: {source: ./models/support-tiny, adapters: [{name: billing, source: ./models/billing}]}
engine: {kind: vllm, version: 0.32.0, configs: [engine/vllm.yaml], probes: engine/probes.json}
regions:
  - {name: us-east-1, role: source, residency: us, store: ./regions/us-east-1, files: [deploy/us-east-1/**], canary: {launcher: kubernetes, context: us-east-1}}
  - {name: eu-west-1, role: target, residency: eu, store: ./regions/eu-west-1, files: [deploy/eu-west-1/**], canary: {launcher: kubernetes, context: eu-west-1}}
rehearsal: {source: canary, router: %s}
traffic: [{name: chat, residency: [us, eu], share: 1, shape: token-ids}]
objectives: {rto: 30m, ttft_p99: 10s, error_rate: 0.01, steady: {windows: 3, window: 1s, min_requests: 5, load: 0.2}}
`, router))
	probes(w.dir)
	run(t, w.dir, 0, "manifest", "build", "-o", "manifest.json")
	run(t, w.dir, 0, "replicate", "--manifest", "manifest.json", "--yes", "--progress", "quiet")
	var manifest struct{ Release string }
	if err := json.Unmarshal([]byte(read(t, filepath.Join(w.dir, "manifest.json"))), &manifest); err != nil {
		t.Fatal(err)
	}
	w.release = manifest.Release

	w.engine = named(engine)
	w.Cluster = cluster.Start(t, cluster.Options{
		Nodes:    []kubelet.Node{{Name: "us-1", Region: "us-east-1", GPUs: 2}, {Name: "eu-1", Region: "eu-west-1", GPUs: 2}},
		Images:   []kubelet.Image{w.engine},
		Contexts: regions,
	})
	t.Setenv("KUBECONFIG", w.Kubeconfig)
	class := new(schedulingv1.PriorityClass) // as docs/kubernetes.md asks for
	parse(t, "{metadata: {name: drkit-canary}, value: -10, preemptionPolicy: Never}", class)
	if _, err := w.Client.SchedulingV1().PriorityClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for region, namespace := range regions {
		w.fill(t, region, namespace)
	}
	return w
}

// volume is the folder that a region's claim is bound to: a copy of its own, as production's volumes are.
func (w *world) volume(region string) string { return filepath.Join(w.dir, "volumes", region) }

// fill makes the claim and the ConfigMap that production's pods have in a region.
func (w *world) fill(t *testing.T, region, namespace string) {
	t.Helper()
	core := w.Client.CoreV1()
	if err := os.CopyFS(w.volume(region), os.DirFS(filepath.Join(w.dir, "regions", region, "support", w.release, "model"))); err != nil {
		t.Fatal(err)
	}
	volume, claim := new(corev1.PersistentVolume), new(corev1.PersistentVolumeClaim)
	parse(t, `{metadata: {name: `+region+`}, spec: {capacity: {storage: 1Gi}, accessModes: [ReadOnlyMany], storageClassName: "", hostPath: {path: `+w.volume(region)+`}, claimRef: {namespace: `+namespace+`, name: weights}}}`, volume)
	parse(t, `{metadata: {name: weights}, spec: {accessModes: [ReadOnlyMany], storageClassName: "", volumeName: `+region+`, resources: {requests: {storage: 1Gi}}}}`, claim)
	if _, err := core.PersistentVolumes().Create(t.Context(), volume, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := core.PersistentVolumeClaims(namespace).Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "engine-config"}, Data: map[string]string{"vllm.yaml": engineFlags}}
	if _, err := core.ConfigMaps(namespace).Create(t.Context(), config, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// canaries lists the pods that drkit made, as namespace/name. Production's own are not among them.
func (w *world) canaries(t *testing.T) (names []string) {
	t.Helper()
	for _, namespace := range regions {
		list, err := w.Client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "drkit.dev/run"})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range list.Items {
			names = append(names, namespace+"/"+p.Name)
		}
	}
	return names
}

// nothingLeft requires that no canary is there, and no process of one or of the rehearsal's router.
func (w *world) nothingLeft(t *testing.T) {
	t.Helper()
	if pods := w.canaries(t); len(pods) > 0 {
		t.Errorf("canaries are left: %v", pods)
	}
	if left := w.processes(); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}

// processes are those of canaries, by their host name, and of anything else that carries a run of this service.
func (w *world) processes() (left []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	runs, _ := filepath.Glob(filepath.Join(w.dir, ".drkit/runs/*"))
	for _, file := range files {
		env, _ := os.ReadFile(file)
		of := "\x00" + string(env)
		ours := strings.Contains(of, w.Dir+"/pods/") && strings.Contains(of, "\x00HOSTNAME=drkit-")
		for _, r := range runs {
			ours = ours || strings.Contains(of, "\x00DRKIT_RUN="+filepath.Base(r)+"\x00")
		}
		if ours {
			left = append(left, file)
		}
	}
	return left
}

// standIn is drkit's own engine as the engine image: vLLM's arguments are translated, and
// a command of a pod's own runs as it is.
func standIn(t *testing.T) kubelet.Image {
	program := drkit(t)
	return kubelet.Image{Entrypoint: []string{program}, Rewrite: func(ip string, argv []string) []string {
		if argv[0] != program {
			return argv
		}
		out := []string{argv[0], "engine", "--host", ip}
		for i := 1; i+1 < len(argv); i += 2 {
			switch flag, value := argv[i], argv[i+1]; flag {
			case "--model":
				out = append(out, value)
			case "--port":
				out = append(out, flag, value)
			case "--lora-modules":
				out = append(out, "--adapter", value)
			case "--config":
				out = append(out, configured(value)...)
			default:
				return []string{"unknown argument " + flag} // cannot be started, and says so
			}
		}
		return out
	}}
}

// configured reads the two options of vLLM's configuration file that the stand-in engine has too.
func configured(path string) []string {
	var options map[string]any
	text, err := os.ReadFile(path)
	if err == nil {
		err = yaml.Unmarshal(text, &options)
	}
	if err != nil {
		return []string{err.Error()}
	}
	return []string{"--served-model-name", fmt.Sprint(options["served-model-name"]), "--max-model-len", fmt.Sprint(options["max-model-len"])}
}

// recordStandIn records the probes from the stand-in engine, run beside the cluster.
func recordStandIn(t *testing.T) func(dir string) {
	return func(dir string) {
		t.Helper()
		port := freePort(t)
		cmd := exec.Command(drkit(t), "engine", "models/support-tiny", "--port", port, "--served-model-name", "support", "--max-model-len", "1024", "--adapter", "billing=models/billing")
		cmd.Dir = dir
		out, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
		for lines := bufio.NewScanner(out); lines.Scan() && !strings.Contains(lines.Text(), "Application startup complete"); {
		}
		record(t, dir, "http://127.0.0.1:"+port)
	}
}

func record(t *testing.T, dir, endpoint string) {
	t.Helper()
	run(t, dir, 0, "probe", "record", "--serves-release", "--endpoint", endpoint)
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}
