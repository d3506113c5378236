//go:build linux

package cluster

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	utilexec "k8s.io/client-go/util/exec"

	"drkit/testdata/cluster/kubelet"
)

// named lists the processes whose environment says that they are of the pod.
func named(c *Cluster, pod string) (pids []int) {
	for _, pid := range c.Processes() {
		env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if bytes.Contains(append(env, 0), []byte("\x00HOSTNAME="+pod+"\x00")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestCluster starts one cluster and asks it everything: whether it is real, and
// whether the kubelet does what a launcher of canaries will look at.
func TestCluster(t *testing.T) {
	c := Start(t, Options{
		Nodes:    []kubelet.Node{{Name: "us-1", Region: "us-east-1", GPUs: 2}, {Name: "eu-1", Region: "eu-west-1", GPUs: 4}},
		Images:   testImages(),
		Contexts: map[string]string{"us": "default", "eu": "dr-drill"},
		Backoff:  300 * time.Millisecond,
	})
	t.Run("group", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *Cluster){
			"the API server is real": testReal, "users": testUsers, "quota": testQuota,
			"deployment": testDeployment, "job": testJob, "claims": testClaims, "no place": testNoPlace,
			"unknown image": testUnknownImage, "digests": testDigests, "crash loop": testCrashLoop, "out of memory": testOutOfMemory, "config": testConfig,
			"init containers": testInit, "init fails": testInitFails, "start-up probe": testStartupProbe, "readiness": testReadiness, "liveness": testLiveness,
			"service links": testServiceLinks, "deadline": testDeadline, "sidecar": testSidecar,
			"logs": testLogs, "port-forward": testPortForward, "exec": testExec, "delete": testDelete, "grace": testGrace, "force": testForce,
		} {
			t.Run(name, func(t *testing.T) { t.Parallel(); test(t, c) })
		}
	})
	t.Run("API server killed", func(t *testing.T) { testKilled(t, c) })
	if left := c.Processes(); len(left) > 0 {
		t.Errorf("processes of deleted pods are left: %v", left)
	}
}

// A fake has neither field managers nor schemas nor validation of names.
func testReal(t *testing.T, c *Cluster) {
	version, err := c.Client.Discovery().ServerVersion()
	if err != nil || version.GitVersion != "v1.37.2" {
		t.Errorf("version %v, %v", version, err)
	}
	maps := c.Client.CoreV1().ConfigMaps("default")
	apply := func(manager, text string) error {
		_, err := maps.Patch(t.Context(), "shared", types.ApplyPatchType, []byte(text), metav1.PatchOptions{FieldManager: manager})
		return err
	}
	if err := apply("first", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"shared"},"data":{"a":"1"}}`); err != nil {
		t.Fatal(err)
	}
	err = apply("second", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"shared"},"data":{"a":"2"}}`)
	if err == nil || !strings.Contains(err.Error(), `Apply failed with 1 conflict: conflict with "first": .data.a`) {
		t.Errorf("two managers of one field: %v", err)
	}
	err = apply("first", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"shared"},"dita":{"a":"1"}}`)
	if err == nil || !strings.Contains(err.Error(), ".dita: field not declared in schema") {
		t.Errorf("a field that does not exist: %v", err)
	}
}

func testUsers(t *testing.T, c *Cluster) {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(&clientcmd.ClientConfigLoadingRules{ExplicitPath: c.User(t, "nobody-in-particular")},
		&clientcmd.ConfigOverrides{CurrentContext: "eu"}).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(config)
	_, err = client.CoreV1().Pods("dr-drill").List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `User "nobody-in-particular" cannot list resource "pods"`) {
		t.Errorf("a user without rights: %v", err)
	}
}

func testQuota(t *testing.T, c *Cluster) {
	quota := parse[corev1.ResourceQuota](t, `{metadata: {name: gpus}, spec: {hard: {requests.nvidia.com/gpu: "1"}}}`)
	if _, err := c.Client.CoreV1().ResourceQuotas("dr-drill").Create(t.Context(), quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	two := parse[corev1.Pod](t, `{metadata: {name: two}, spec: {containers: [{name: main, image: "sh:1", args: ["true"], resources: {limits: {nvidia.com/gpu: 2}}}]}}`)
	until(t, "a pod over the quota refused", func() bool {
		_, err := c.Client.CoreV1().Pods("dr-drill").Create(t.Context(), two, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil && strings.Contains(err.Error(), "exceeded quota: gpus, requested: requests.nvidia.com/gpu=2")
	})
}

func testDeployment(t *testing.T, c *Cluster) {
	deployment := parse[appsv1.Deployment](t, `
metadata: {name: chat}
spec:
	replicas: 2
	selector: {matchLabels: {app: chat}}
	template:
		metadata: {labels: {app: chat}}
		spec:
			nodeSelector: {topology.kubernetes.io/region: eu-west-1}
			containers:
			- name: engine
				image: registry.example/llm/engine:1
				args: [--model, "$(NAME)", --port, "8000"]
				env: [{name: NAME, value: tiny}]
				resources: {limits: {nvidia.com/gpu: 1}}
				readinessProbe: {httpGet: {path: /health, port: 8000}, periodSeconds: 1}
`)
	deployments := c.Client.AppsV1().Deployments("default")
	if _, err := deployments.Create(t.Context(), deployment, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "two replicas ready", func() bool {
		d, err := deployments.Get(t.Context(), "chat", metav1.GetOptions{})
		return err == nil && d.Status.ReadyReplicas == 2
	})
	list, err := c.Client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app=chat"})
	if err != nil || len(list.Items) != 2 {
		t.Fatalf("%d pods, %v", len(list.Items), err)
	}
	for _, p := range list.Items {
		if p.Spec.NodeName != "eu-1" || p.OwnerReferences[0].Kind != "ReplicaSet" {
			t.Errorf("%s is on %s, owned by %v", p.Name, p.Spec.NodeName, p.OwnerReferences)
		}
		want := fmt.Sprintf("%s --model tiny --port 8000 --host %s", p.Name, p.Status.PodIP)
		if got := fetch(t, "http://"+p.Status.PodIP+":8000/"); got != want {
			t.Errorf("the engine says %q, want %q", got, want)
		}
	}
	foreground := metav1.DeletePropagationForeground
	if err := deployments.Delete(t.Context(), "chat", metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		t.Fatal(err)
	}
	until(t, "deployment gone", func() bool {
		_, err := deployments.Get(t.Context(), "chat", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	for _, p := range list.Items {
		if left := named(c, p.Name); len(left) > 0 {
			t.Errorf("the deployment is gone, and processes %v of %s run", left, p.Name)
		}
	}
}

// testJob is an Indexed Job whose middle index fails: its own status, others unharmed.
func testJob(t *testing.T, c *Cluster) {
	job := parse[batchv1.Job](t, `
metadata: {name: shards}
spec:
	completionMode: Indexed
	completions: 3
	parallelism: 3
	backoffLimitPerIndex: 0
	maxFailedIndexes: 3
	template:
		spec:
			restartPolicy: Never
			containers: [{name: main, image: "sh:1", args: ['echo shard $JOB_COMPLETION_INDEX; test $JOB_COMPLETION_INDEX != 1 || exit 4']}]
`)
	jobs := c.Client.BatchV1().Jobs("default")
	if _, err := jobs.Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var got *batchv1.Job
	until(t, "job ended", func() bool {
		var err error
		if got, err = jobs.Get(t.Context(), "shards", metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(got.Status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == batchv1.JobFailed && c.Status == "True" })
	})
	if got.Status.CompletedIndexes != "0,2" || got.Status.FailedIndexes == nil || *got.Status.FailedIndexes != "1" {
		t.Errorf("indexes: completed %q, failed %v", got.Status.CompletedIndexes, got.Status.FailedIndexes)
	}
	background := metav1.DeletePropagationBackground
	_ = jobs.Delete(t.Context(), "shards", metav1.DeleteOptions{PropagationPolicy: &background})
}

// testClaims mounts a bound claim, whose path is rewritten, and waits on one that does not exist.
func testClaims(t *testing.T, c *Cluster) {
	dir := filepath.Join(c.Dir, "weights")
	if err := os.MkdirAll(filepath.Join(dir, "tiny"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tiny", "config.json"), []byte("the right folder"), 0o600); err != nil {
		t.Fatal(err)
	}
	volume := parse[corev1.PersistentVolume](t, `{metadata: {name: weights}, spec: {capacity: {storage: 1Gi}, accessModes: [ReadOnlyMany], storageClassName: "", hostPath: {path: `+dir+`}}}`)
	if _, err := c.Client.CoreV1().PersistentVolumes().Create(t.Context(), volume, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	claim := parse[corev1.PersistentVolumeClaim](t, `{metadata: {name: weights}, spec: {accessModes: [ReadOnlyMany], storageClassName: "", resources: {requests: {storage: 1Gi}}}}`)
	if _, err := c.Client.CoreV1().PersistentVolumeClaims("default").Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod(t, c, "reads", `
image: sh:1
args: ["cat /models/tiny/config.json; test $MODEL = $(MODEL) && ls $MODEL"]
env: [{name: MODEL, value: /models/tiny}]
volumeMounts: [{name: weights, mountPath: /models, readOnly: true}]`, `
restartPolicy: Never
volumes: [{name: weights, persistentVolumeClaim: {claimName: weights}}]`)
	until(t, "reads ended", func() bool { return get(t, c, "reads").Status.Phase == corev1.PodSucceeded })
	if got := logs(t, c, "reads", &corev1.PodLogOptions{}); got != "the right folderconfig.json\n" {
		t.Errorf("the container saw %q", got)
	}
	pod(t, c, "waits", "image: sh:1\nargs: [sleep 1000]", `volumes: [{name: weights, persistentVolumeClaim: {claimName: absent}}]`)
	untilUnschedulable(t, c, "waits", `persistentvolumeclaim "absent" not found`)
}

func testNoPlace(t *testing.T, c *Cluster) {
	pod(t, c, "greedy", "image: sh:1\nargs: [sleep 1000]\nresources: {limits: {nvidia.com/gpu: 5}}", "nodeSelector: {topology.kubernetes.io/region: eu-west-1}")
	untilUnschedulable(t, c, "greedy", "1 Insufficient nvidia.com/gpu")
}

func untilUnschedulable(t *testing.T, c *Cluster, name, text string) {
	t.Helper()
	until(t, name+" has no place: "+text, func() bool {
		return slices.ContainsFunc(get(t, c, name).Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Reason == "Unschedulable" && strings.Contains(c.Message, text)
		})
	})
}

func testUnknownImage(t *testing.T, c *Cluster) {
	pod(t, c, "no-image", "image: registry.example/llm/engine:2", "")
	until(t, "ImagePullBackOff", func() bool {
		w := first(get(t, c, "no-image")).State.Waiting
		return w != nil && w.Reason == "ImagePullBackOff" && strings.Contains(w.Message, `"registry.example/llm/engine:2"`)
	})
	untilEvent(t, c, "no-image", "Failed", `Failed to pull image "registry.example/llm/engine:2"`)
	untilEvent(t, c, "no-image", "Failed", "Error: ErrImagePull")
	untilEvent(t, c, "no-image", "BackOff", "Back-off pulling image")
	if p := get(t, c, "no-image"); p.Status.Phase != corev1.PodPending {
		t.Errorf("phase %s", p.Status.Phase)
	}
}

func testDigests(t *testing.T, c *Cluster) {
	right, wrong := "registry.example/llm/engine@sha256:"+strings.Repeat("ab", 32), "registry.example/llm/engine:1@sha256:"+strings.Repeat("cd", 32)
	pod(t, c, "pinned", "image: "+right, "")
	pod(t, c, "pinned-elsewhere", "image: "+wrong, "")
	if got := first(untilReady(t, c, "pinned")).ImageID; got != right {
		t.Errorf("imageID %q", got)
	}
	untilEvent(t, c, "pinned-elsewhere", "Failed", "Failed to pull image")
}

func testCrashLoop(t *testing.T, c *Cluster) {
	pod(t, c, "crashes", "image: sh:1\nargs: [\"echo loading; echo 'ValueError: no tokenizer' >&2; exit 3\"]\nterminationMessagePolicy: FallbackToLogsOnError", "")
	until(t, "CrashLoopBackOff", func() bool {
		s := first(get(t, c, "crashes"))
		return s.RestartCount >= 2 && s.State.Waiting != nil && s.State.Waiting.Reason == "CrashLoopBackOff"
	})
	s := first(get(t, c, "crashes"))
	if end := s.LastTerminationState.Terminated; end == nil || end.ExitCode != 3 || end.Reason != "Error" || end.Message != "loading\nValueError: no tokenizer\n" {
		t.Errorf("last state %+v", end)
	}
	if got := logs(t, c, "crashes", &corev1.PodLogOptions{Previous: true}); got != "loading\nValueError: no tokenizer\n" {
		t.Errorf("previous log %q", got)
	}
	untilEvent(t, c, "crashes", "BackOff", "Back-off restarting failed container main")
}

func testOutOfMemory(t *testing.T, c *Cluster) {
	pod(t, c, "oom", "image: sh:1\nargs: [exit 137]", "restartPolicy: Never")
	pod(t, c, "killed", "image: sh:1\nargs: [\"kill -9 $$$$\"]", "restartPolicy: Never") // $$ is one $ for Kubernetes
	for name, reason := range map[string]string{"oom": "OOMKilled", "killed": "Error"} {
		until(t, name+" failed", func() bool { return get(t, c, name).Status.Phase == corev1.PodFailed })
		if end := first(get(t, c, name)).State.Terminated; end == nil || end.ExitCode != 137 || end.Reason != reason {
			t.Errorf("%s: %+v, want %s", name, end, reason)
		}
	}
}

func testConfig(t *testing.T, c *Cluster) {
	pod(t, c, "configured", "image: sh:1\nargs: [\"echo $GREETING $INDEX; cat /etc/app/file\"]\n"+
		"env: [{name: GREETING, valueFrom: {configMapKeyRef: {name: late, key: greeting}}}, {name: INDEX, valueFrom: {fieldRef: {fieldPath: \"metadata.annotations['index']\"}}}]\n"+
		"volumeMounts: [{name: app, mountPath: /etc/app}]",
		"restartPolicy: Never\nvolumes: [{name: app, projected: {sources: [{secret: {name: optional, optional: true}}, {downwardAPI: {items: [{path: file, fieldRef: {fieldPath: metadata.name}}]}}]}}]")
	until(t, "CreateContainerConfigError", func() bool {
		w := first(get(t, c, "configured")).State.Waiting
		return w != nil && w.Reason == "CreateContainerConfigError" && strings.Contains(w.Message, `configmaps "late" not found`)
	})
	late := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Data: map[string]string{"greeting": "hello"}}
	if _, err := c.Client.CoreV1().ConfigMaps("default").Create(t.Context(), late, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "configured ended", func() bool { return get(t, c, "configured").Status.Phase == corev1.PodSucceeded })
	if got := logs(t, c, "configured", &corev1.PodLogOptions{}); got != "hello\nconfigured" {
		t.Errorf("the container saw %q", got)
	}
}

func testInit(t *testing.T, c *Cluster) {
	pod(t, c, "initialized", "image: sh:1\nargs: [cat /work/weights]\nvolumeMounts: [{name: work, mountPath: /work}]", `
restartPolicy: Never
volumes: [{name: work, emptyDir: {}}]
initContainers:
- {name: download, image: "sh:1", args: [echo fetched > /work/weights], volumeMounts: [{name: work, mountPath: /work}]}
- {name: check, image: "sh:1", args: [echo checked >> /work/weights], volumeMounts: [{name: work, mountPath: /work}]}`)
	until(t, "initialized ended", func() bool { return get(t, c, "initialized").Status.Phase == corev1.PodSucceeded })
	if got := logs(t, c, "initialized", &corev1.PodLogOptions{}); got != "fetched\nchecked\n" {
		t.Errorf("the container saw %q", got)
	}
}

func testInitFails(t *testing.T, c *Cluster) {
	pod(t, c, "init-fails", "image: sh:1\nargs: [sleep 1000]", "restartPolicy: Never\ninitContainers: [{name: download, image: \"sh:1\", args: [echo access denied; exit 1]}]")
	until(t, "init-fails failed", func() bool { return get(t, c, "init-fails").Status.Phase == corev1.PodFailed })
	p := get(t, c, "init-fails")
	if end := p.Status.InitContainerStatuses[0].State.Terminated; end == nil || end.ExitCode != 1 {
		t.Errorf("init container: %+v", end)
	}
	if w := first(p).State.Waiting; w == nil || w.Reason != "PodInitializing" {
		t.Errorf("main container: %+v", first(p).State)
	}
	if got := logs(t, c, "init-fails", &corev1.PodLogOptions{Container: "download"}); got != "access denied\n" {
		t.Errorf("log %q", got)
	}
}

// testStartupProbe is a boot that takes longer than its probe allows: killed, and restarted for ever.
func testStartupProbe(t *testing.T, c *Cluster) {
	pod(t, c, "slow", "image: registry.example/llm/engine:1\nargs: [--boot, 1h]\nstartupProbe: {httpGet: {path: /health, port: 8000}, periodSeconds: 1, failureThreshold: 2}", "")
	until(t, "a restart", func() bool { return first(get(t, c, "slow")).RestartCount >= 1 })
	untilEvent(t, c, "slow", "Unhealthy", "Startup probe failed: HTTP probe failed with statuscode: 503")
	untilEvent(t, c, "slow", "Killing", "Container main failed startup probe, will be restarted")
	if s := first(get(t, c, "slow")); s.Ready || s.Started != nil && *s.Started {
		t.Errorf("ready %v, started %v", s.Ready, *s.Started)
	}
}

func testReadiness(t *testing.T, c *Cluster) {
	pod(t, c, "booting", "image: registry.example/llm/engine:1\nargs: [--boot, 3s]\nports: [{name: http, containerPort: 8000}]\n"+
		"readinessProbe: {httpGet: {path: /health, port: http}, periodSeconds: 1, failureThreshold: 1}", "")
	until(t, "running", func() bool { return first(get(t, c, "booting")).State.Running != nil })
	if p := get(t, c, "booting"); first(p).Ready || holds(p, corev1.PodReady) {
		t.Error("ready before the engine says so")
	}
	if p := untilReady(t, c, "booting"); first(p).RestartCount != 0 {
		t.Errorf("restarted %d times", first(p).RestartCount)
	}
}

func testLiveness(t *testing.T, c *Cluster) {
	pod(t, c, "hangs", "image: sh:1\nargs: [\"trap 'echo asked; exit 0' TERM; while :; do sleep 0.1; done\"]\nlivenessProbe: {exec: {command: [\"false\"]}, periodSeconds: 1, failureThreshold: 1}", "")
	until(t, "a restart", func() bool { return first(get(t, c, "hangs")).RestartCount >= 1 })
	untilEvent(t, c, "hangs", "Killing", "Container main failed liveness probe")
}

// testServiceLinks has the Service whose name ends vLLM, and a pod that is spared it.
func testServiceLinks(t *testing.T, c *Cluster) {
	service := parse[corev1.Service](t, `{metadata: {name: vllm}, spec: {selector: {app: nothing}, ports: [{port: 8000}]}}`)
	made, err := c.Client.CoreV1().Services("default").Create(t.Context(), service, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"links": "tcp://" + made.Spec.ClusterIP + ":8000\n", "nolinks": "\n"} {
		pod(t, c, name, "image: sh:1\nargs: [echo $VLLM_PORT]", fmt.Sprintf("restartPolicy: Never\nenableServiceLinks: %v", name == "links"))
		until(t, name+" ended", func() bool { return get(t, c, name).Status.Phase == corev1.PodSucceeded })
		if got := logs(t, c, name, &corev1.PodLogOptions{}); got != want {
			t.Errorf("%s: VLLM_PORT is %q, want %q", name, got, want)
		}
	}
}

func testDeadline(t *testing.T, c *Cluster) {
	pod(t, c, "expires", "image: sh:1\nargs: [exec sleep 1000]", "activeDeadlineSeconds: 1\nrestartPolicy: Never")
	until(t, "expires failed", func() bool {
		p := get(t, c, "expires")
		return p.Status.Phase == corev1.PodFailed && p.Status.Reason == "DeadlineExceeded"
	})
	untilNoProcess(t, c, "expires")
}

// testSidecar asks for what the kubelet lacks: the pod waits and says so.
func testSidecar(t *testing.T, c *Cluster) {
	pod(t, c, "sidecar", "image: sh:1\nargs: [\"true\"]", "initContainers: [{name: proxy, image: \"sh:1\", args: [sleep 1000], restartPolicy: Always}]")
	untilEvent(t, c, "sidecar", "Unsupported", "the test kubelet runs no sidecars: init container proxy")
	if p := get(t, c, "sidecar"); p.Status.Phase == corev1.PodRunning || p.Status.Phase == corev1.PodSucceeded {
		t.Errorf("phase %s", p.Status.Phase)
	}
}

func testLogs(t *testing.T, c *Cluster) {
	_, err := c.Client.CoreV1().Pods("default").GetLogs("talks", &corev1.PodLogOptions{}).DoRaw(t.Context())
	if !apierrors.IsNotFound(err) {
		t.Errorf("log of a pod that does not exist: %v", err)
	}
	pod(t, c, "talks", "image: sh:1\nargs: [\"echo one; echo two >&2; sleep 0.5; echo three; sleep 0.5; printf end\"]", "restartPolicy: Never")
	until(t, "talks runs", func() bool { return first(get(t, c, "talks")).State.Running != nil })
	stream, err := c.Client.CoreV1().Pods("default").GetLogs("talks", &corev1.PodLogOptions{Follow: true, Timestamps: true}).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	var texts []string
	var times []time.Time
	for lines := bufio.NewScanner(stream); lines.Scan(); {
		stamp, text, _ := strings.Cut(lines.Text(), " ")
		at, err := time.Parse(time.RFC3339Nano, stamp)
		if err != nil {
			t.Fatal(err)
		}
		texts, times = append(texts, text), append(times, at)
	}
	if want := []string{"one", "two", "three", "end"}; !slices.Equal(texts, want) {
		t.Fatalf("followed %q, want %q", texts, want)
	}
	if gap := times[2].Sub(times[1]); gap < 400*time.Millisecond {
		t.Errorf("the third line was stamped %s after the second: not when it was written", gap)
	}
	if got := logs(t, c, "talks", &corev1.PodLogOptions{TailLines: new(int64)}); got != "" {
		t.Errorf("no lines asked for, got %q", got)
	}
	two := int64(2)
	if got := logs(t, c, "talks", &corev1.PodLogOptions{TailLines: &two}); got != "three\nend" {
		t.Errorf("two lines asked for, got %q", got)
	}
	_, err = c.Client.CoreV1().Pods("default").GetLogs("talks", &corev1.PodLogOptions{Previous: true}).Stream(t.Context()) // DoRaw loses the message
	if err == nil || !strings.Contains(err.Error(), `previous terminated container "main" in pod "talks" not found`) {
		t.Errorf("log of a run that was not: %v", err)
	}
}

// testPortForward forwards as kubectl does, by both protocols that it knows.
func testPortForward(t *testing.T, c *Cluster) {
	pod(t, c, "forwarded", "image: registry.example/llm/engine:1\nargs: [--model, far]\nreadinessProbe: {tcpSocket: {port: 8000}, periodSeconds: 1}", "")
	untilReady(t, c, "forwarded")
	at := c.Client.CoreV1().RESTClient().Post().Resource("pods").Namespace("default").Name("forwarded").SubResource("portforward").URL()
	round, upgrader, err := spdy.RoundTripperFor(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	old := spdy.NewDialer(upgrader, &http.Client{Transport: round}, http.MethodPost, at)
	modern, err := portforward.NewSPDYOverWebsocketDialer(at, c.Config)
	if err != nil {
		t.Fatal(err)
	}
	forwarded(t, "SPDY", func(stop, ready chan struct{}) (*portforward.PortForwarder, error) {
		return portforward.NewOnAddresses(old, []string{"127.0.0.1"}, []string{"0:8000"}, stop, ready, nil, nil)
	})
	forwarded(t, "WebSocket", func(stop, ready chan struct{}) (*portforward.PortForwarder, error) {
		return portforward.NewOnAddresses(modern, []string{"127.0.0.1"}, []string{"0:8000"}, stop, ready, nil, nil)
	})
}

func forwarded(t *testing.T, how string, open func(stop, ready chan struct{}) (*portforward.PortForwarder, error)) {
	t.Helper()
	stop, ready, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	f, err := open(stop, ready)
	if err != nil {
		t.Fatal(err)
	}
	go func() { ended <- f.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatalf("%s: %v", how, err)
	}
	ports, err := f.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // a connection each
		if got := fetch(t, fmt.Sprintf("http://127.0.0.1:%d/", ports[0].Local)); !strings.HasPrefix(got, "forwarded --model far") {
			t.Errorf("%s: the engine says %q", how, got)
		}
	}
	close(stop)
	if err := <-ended; err != nil {
		t.Errorf("%s: %v", how, err)
	}
}

func testExec(t *testing.T, c *Cluster) {
	pod(t, c, "inside", "image: sh:1\nargs: [exec sleep 1000]\nenv: [{name: REGION, value: eu}]", "")
	until(t, "inside runs", func() bool { return first(get(t, c, "inside")).State.Running != nil })
	run := func(in string, argv ...string) (out, errs string, code int) {
		t.Helper()
		opts := &corev1.PodExecOptions{Command: argv, Stdin: in != "", Stdout: true, Stderr: true}
		at := c.Client.CoreV1().RESTClient().Post().Resource("pods").Namespace("default").Name("inside").SubResource("exec").VersionedParams(opts, scheme.ParameterCodec).URL()
		var stdout, stderr strings.Builder
		streams := remotecommand.StreamOptions{Stdout: &stdout, Stderr: &stderr}
		if in != "" {
			streams.Stdin = strings.NewReader(in)
		}
		err := execute(t, c, at, streams)
		var exit utilexec.CodeExitError
		if errors.As(err, &exit) {
			code = exit.Code
		} else if err != nil {
			t.Fatal(err)
		}
		return stdout.String(), stderr.String(), code
	}
	if out, errs, code := run("", "sh", "-c", "echo $REGION; echo oh >&2; exit 7"); out != "eu\n" || errs != "oh\n" || code != 7 {
		t.Errorf("out %q, err %q, exit %d", out, errs, code)
	}
	if out, _, code := run("over the wire", "cat"); out != "over the wire" || code != 0 {
		t.Errorf("cat says %q, exit %d", out, code)
	}
}

// execute runs a command by WebSocket first, as kubectl does, and by SPDY; the answers must agree.
func execute(t *testing.T, c *Cluster, at *url.URL, streams remotecommand.StreamOptions) error {
	t.Helper()
	if streams.Stdin != nil { // can be read once
		e, err := remotecommand.NewWebSocketExecutor(c.Config, http.MethodGet, at.String())
		if err != nil {
			t.Fatal(err)
		}
		return e.StreamWithContext(t.Context(), streams)
	}
	e, err := remotecommand.NewSPDYExecutor(c.Config, http.MethodPost, at)
	if err != nil {
		t.Fatal(err)
	}
	return e.StreamWithContext(t.Context(), streams)
}

// testDelete has a pod with children of its own: they are gone with it.
func testDelete(t *testing.T, c *Cluster) {
	pod(t, c, "parent", "image: sh:1\nargs: [\"setsid sleep 1001 & sleep 1002 & trap 'exit 0' TERM; while :; do sleep 0.1; done\"]", "")
	until(t, "three processes", func() bool { return len(named(c, "parent")) >= 3 })
	began := time.Now()
	remove(c, "parent")
	untilGone(t, c, "parent")
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("took %s: the process ends when asked, the grace is 20 s", took)
	}
	if left := named(c, "parent"); len(left) > 0 {
		t.Errorf("the pod is gone, and processes %v run", left)
	}
}

// testGrace has a process that does not listen: killed when the grace is over, not earlier.
func testGrace(t *testing.T, c *Cluster) {
	pod(t, c, "deaf", "image: sh:1\nargs: [\"trap 'echo no' TERM; while :; do sleep 0.1; done\"]", "")
	until(t, "deaf runs", func() bool { return first(get(t, c, "deaf")).State.Running != nil })
	grace, began := int64(3), time.Now()
	if err := c.Client.CoreV1().Pods("default").Delete(t.Context(), "deaf", metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
		t.Fatal(err)
	}
	untilGone(t, c, "deaf")
	if took := time.Since(began); took < 3*time.Second {
		t.Errorf("gone after %s of a grace of 3 s", took)
	}
	if left := named(c, "deaf"); len(left) > 0 {
		t.Errorf("processes %v run", left)
	}
}

// testForce deletes the object at once; the process follows.
func testForce(t *testing.T, c *Cluster) {
	pod(t, c, "forced", "image: sh:1\nargs: [exec sleep 1000]", "")
	until(t, "forced runs", func() bool { return len(named(c, "forced")) == 1 })
	now := int64(0)
	if err := c.Client.CoreV1().Pods("default").Delete(t.Context(), "forced", metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
	untilNoProcess(t, c, "forced")
}

func untilGone(t *testing.T, c *Cluster, name string) {
	t.Helper()
	until(t, name+" gone", func() bool {
		_, err := c.Client.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

// testKilled kills the API server: what runs goes on, what ends meanwhile is told afterwards, and new pods run.
func testKilled(t *testing.T, c *Cluster) {
	pod(t, c, "survivor", "image: registry.example/llm/engine:1\nreadinessProbe: {httpGet: {path: /health, port: 8000}, periodSeconds: 1}", "")
	stop := filepath.Join(c.Dir, "stop")
	pod(t, c, "ends-meanwhile", "image: sh:1\nargs: [\"until test -e "+stop+"; do sleep 0.1; done\"]", "restartPolicy: Never")
	until(t, "ends-meanwhile runs", func() bool { return first(get(t, c, "ends-meanwhile")).State.Running != nil })
	ip := untilReady(t, c, "survivor").Status.PodIP
	c.KillAPIServer()
	if _, err := c.Client.CoreV1().Pods("default").Get(t.Context(), "survivor", metav1.GetOptions{}); err == nil {
		t.Error("the API server answers after it was killed")
	}
	if err := os.WriteFile(stop, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := fetch(t, "http://"+ip+":8000/"); !strings.HasPrefix(got, "survivor ") {
		t.Errorf("the engine says %q", got)
	}
	c.RestartAPIServer(t)
	until(t, "the end is told", func() bool { return get(t, c, "ends-meanwhile").Status.Phase == corev1.PodSucceeded })
	pod(t, c, "afterwards", "image: sh:1\nargs: [\"true\"]", "restartPolicy: Never")
	until(t, "a new pod runs", func() bool { return get(t, c, "afterwards").Status.Phase == corev1.PodSucceeded })
	if got := first(get(t, c, "survivor")).RestartCount; got != 0 {
		t.Errorf("the survivor was restarted %d times", got)
	}
	for _, name := range []string{"survivor", "ends-meanwhile", "afterwards"} {
		remove(c, name)
		untilGone(t, c, name)
	}
}
