package kubernetes

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drkit/drill"
	"drkit/internal/errext"
)

const groupYAML = `apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: chat, annotations: {leaderworkerset.sigs.k8s.io/exclusive-topology: rack}}
spec:
  replicas: 2
  leaderWorkerTemplate:
    size: 3
    leaderTemplate:
      metadata: {labels: {role: leader}}
      spec:
        containers:
          - name: leader
            image: 1.example/llm/vllm:v0.32.0
            command: [sh, -c, "ray start --head --port 6379; vllm serve /models --port 8080 -pp $(LWS_GROUP_SIZE)"]
            resources: {limits: {nvidia.com/gpu: 4}, requests: {nvidia.com/gpu: 4, cpu: 2}}
    workerTemplate:
      spec:
        containers:
          - name: worker
            image: 1.example/llm/vllm:v0.32.0
            command: [sh, -c, "ray start --block --address $(LWS_LEADER_ADDRESS):6379"]
            env: [{name: RANK, valueFrom: {fieldRef: {fieldPath: "metadata.labels['leaderworkerset.sigs.k8s.io/worker-index']"}}}]
            resources: {limits: {nvidia.com/gpu: 4}, requests: {nvidia.com/gpu: 4, cpu: 2}}
`

func groupSpec(yaml string) drill.Spec {
	return specOf(yaml, drill.DeployEngine{Path: "k8s/all.yaml", Kind: "LeaderWorkerSet", Name: "chat", Container: "leader"})
}

const leaderName = "drkit-target-canary-01kb2q4v7n3m5p6r8s9t0vwxyz"

// TestGroup: the variables are those that the controller of LeaderWorkerSet sets (its
// documentation, "Environment Variables"); only the leader's address is an IP.
func TestGroup(t *testing.T) {
	patch := Patch{"p", []byte("spec: {containers: [{name: worker, env: [{name: NCCL_DEBUG, value: INFO}, {name: LWS_GROUP_SIZE, value: '9'}]}]}")}
	all, err := Render(Options{Namespace: "dr", Patches: []Patch{patch}}, groupSpec(groupYAML))
	if err != nil || len(all) != 3 {
		t.Fatalf("%d pods, %v (%s)", len(all), err, errext.Hint(err))
	}
	for i, want := range []struct{ name, container, index string }{{leaderName, "leader", "0"}, {leaderName + "-1", "worker", "1"}, {leaderName + "-2", "worker", "2"}} {
		pod := all[i]
		c := pod.Spec.Containers
		if pod.Name != want.name || len(c) != 1 || c[0].Name != want.container || pod.Annotations[annotContainer] != want.container {
			t.Fatalf("pod %d is %s with %+v", i, pod.Name, c)
		}
		if !slices.Equal(value(c[0], "LWS_GROUP_SIZE"), []string{"3"}) || !slices.Equal(value(c[0], "LWS_WORKER_INDEX"), []string{want.index}) {
			t.Errorf("pod %d: environment %+v", i, c[0].Env)
		}
		if pod.Labels[LabelRun] != testRun || pod.Labels[LabelReplica] != "target-canary" || pod.Labels["role"] != "" || pod.Spec.RestartPolicy != corev1.RestartPolicyNever {
			t.Errorf("pod %d: labels %v", i, pod.Labels)
		}
	}
	if got := all[0].Labels[LabelWorker] + all[1].Labels[LabelWorker] + all[2].Labels[LabelWorker]; got != "12" || all[0].Annotations[annotSize] != "3" {
		t.Errorf("workers %q, size %q", got, all[0].Annotations[annotSize])
	}
	if !slices.Equal(value(all[2].Spec.Containers[0], "RANK"), []string{"2"}) || !slices.Equal(value(all[1].Spec.Containers[0], "NCCL_DEBUG"), []string{"INFO"}) {
		t.Errorf("a worker's environment %+v", all[2].Spec.Containers[0].Env)
	}
	if len(value(all[0].Spec.Containers[0], "NCCL_DEBUG")) != 0 {
		t.Error("the leader got what a patch says of the workers' container")
	}
	address := all[0].Spec.Containers[0].Env[slices.IndexFunc(all[0].Spec.Containers[0].Env, func(e corev1.EnvVar) bool { return e.Name == "LWS_LEADER_ADDRESS" })]
	if address.ValueFrom == nil || address.ValueFrom.FieldRef.FieldPath != "status.podIP" {
		t.Errorf("the leader's own address is %+v", address)
	}
}

// TestGroupNames: what bare pods do not have, and what would lead to production.
func TestGroupNames(t *testing.T) {
	for _, c := range []struct{ name, old, now, want string }{
		{"the leader's name", "$(LWS_LEADER_ADDRESS):6379", "chat-0.chat:6379", "it names chat-0.chat, a pod of production's group"},
		{"the leader's whole name", "$(LWS_LEADER_ADDRESS):6379", "chat-0.chat.prod.svc.cluster.local:6379", "it names chat-0.chat"},
		{"a subdomain of each replica", "$(LWS_LEADER_ADDRESS):6379", "chat-1.chat-1:6379", "it names chat-1.chat-1"},
		{"the headless service", "$(LWS_LEADER_ADDRESS):6379", "chat.prod.svc:6379", "it names chat.prod.svc"},
		{"a number of the host name", "ray start --block", "RANK=${HOSTNAME##*-} ray start --block", "container worker: it reads the pod's host name"},
		{"the host name's command", "ray start --head", "ray start --head --node-ip $(hostname -f)", "container leader: it reads the pod's host name"},
		{"TPUs", "limits: {nvidia.com/gpu: 4}, requests: {nvidia.com/gpu: 4, cpu: 2}", "limits: {google.com/tpu: 4}", "TPU_WORKER_HOSTNAMES"},
		{"a label of the controller", "worker-index']", "group-key']", `label "leaderworkerset.sigs.k8s.io/group-key", which the canary does not carry`},
		{"too many", "size: 3", "size: 1000000", "1000000 is not between 1 and 128"},
		{"no workers' template", "workerTemplate", "workersTemplate", "has no spec.leaderWorkerTemplate.workerTemplate"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Render(Options{}, groupSpec(strings.Replace(groupYAML, c.old, c.now, 1)))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Render = %v, want %q", err, c.want)
			}
		})
	}
	for _, fine := range []string{"--node-ip $(hostname -i)", "--node-ip $(hostname -I)", "--tag chat-7", "--hostname-prefix x"} {
		if _, err := Render(Options{}, groupSpec(strings.Replace(groupYAML, "--head", "--head "+fine, 1))); err != nil {
			t.Errorf("%s: %v", fine, err)
		}
	}
}

func placed(ip string, ready bool) corev1.PodStatus {
	s := corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}}
	if ready {
		s.Conditions = append(s.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
	}
	return s
}

func with(s corev1.PodStatus, container string, state corev1.ContainerState) corev1.PodStatus {
	s.ContainerStatuses = []corev1.ContainerStatus{{Name: container, State: state, ImageID: "x" + hash, Ready: state.Running != nil}}
	return s
}

var running = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}

// launched is a group whose leader was just made.
func launched(t *testing.T, yaml string) (*fakeAPI, *Launcher, *Replica) {
	t.Helper()
	f, l := newAPI(t, Options{})
	s := groupSpec(yaml)
	s.LogPath = filepath.Join(t.TempDir(), "target-canary.log")
	r, err := l.Launch(t.Context(), s)
	if err != nil {
		t.Fatalf("%v (%s)", err, errext.Hint(err))
	}
	return f, l, r.(*Replica)
}

// TestGroupLives: workers come when the leader has an address, the group has its place
// when all have one, and all of it goes, proven.
func TestGroupLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, r := launched(t, groupYAML)
		time.Sleep(2 * time.Second)
		if got := f.pods(); !slices.Equal(got, []string{leaderName}) {
			t.Fatalf("%v, before the leader has an address", got)
		}
		unwhole(t, r, "0 of the group's 2 workers are there")
		f.status(t, leaderName, placed("10.0.0.7", false))
		time.Sleep(2 * time.Second)
		want := []string{leaderName, leaderName + "-1", leaderName + "-2"}
		if got := f.pods(); !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
		worker := f.pod(t, leaderName+"-2")
		if got := value(worker.Spec.Containers[0], "LWS_LEADER_ADDRESS"); !slices.Equal(got, []string{"10.0.0.7"}) {
			t.Errorf("the leader's address is %q", got)
		}
		if o := worker.OwnerReferences; len(o) != 1 || o[0].UID != f.pod(t, leaderName).UID || worker.Annotations[AnnotExpires] == "" {
			t.Errorf("it is owned by %+v", o)
		}
		if got := r.Milestones(); len(got) != 0 {
			t.Errorf("%+v, and the workers have no place", got)
		}
		f.status(t, leaderName, with(placed("10.0.0.7", true), "leader", running))
		f.status(t, want[1], with(placed("10.0.0.8", true), "worker", running))
		if got := r.Milestones(); len(got) != 0 {
			t.Errorf("%+v, and one worker has no place", got)
		}
		unwhole(t, r, "worker pod "+want[2]+" is not ready")
		f.status(t, want[2], with(placed("10.0.0.9", true), "worker", running))
		time.Sleep(3 * time.Second)
		if err := r.Whole(); err != nil {
			t.Errorf("all are ready: %v", err)
		}
		if got := r.Milestones(); len(got) != 2 || got[0].Name != drill.InstantCapacity || got[1].Name != drill.InstantImage {
			t.Errorf("%+v", got)
		}
		if trouble, ok := r.Trouble(); ok {
			t.Errorf("trouble %+v", trouble)
		}
		found, err := l.Find(t.Context(), testRun)
		if err != nil || len(found) != 1 || found[0].ID() != "target-canary" {
			t.Errorf("another process finds %v, %v", found, err)
		}
		if err := found[0].Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if left := f.pods(); len(left) != 0 {
			t.Errorf("left: %v", left)
		}
		<-r.Exited()
		if err := r.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// unwhole requires that a group is not whole, by what it lacks: its leader may serve by then.
func unwhole(t *testing.T, r *Replica, want string) {
	t.Helper()
	if err := r.Whole(); err == nil || err.Error() != want {
		t.Errorf("Whole = %v, want %q", err, want)
	}
}

// TestGroupFails: the end of any pod is the end of the group, with the pod's name.
func TestGroupFails(t *testing.T) {
	for _, c := range []struct {
		name        string
		status      corev1.PodStatus
		gone        bool
		class, want string
		state       string
	}{
		{"a worker ends", with(placed("10.0.0.9", false), "worker", corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error"}}), false,
			"WorkerFailed", "worker pod " + leaderName + "-2: container worker: exit status 1: 2026-03-04T05:06:07Z RuntimeError: last words of " + leaderName + "-2", "exit status 1 of worker pod dr/" + leaderName + "-2"},
		{"a worker ends well", with(placed("10.0.0.9", false), "worker", corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed"}}), false,
			"WorkerFailed", "exit status 0", "exit status 0 of worker pod"},
		{"out of memory", with(placed("10.0.0.9", false), "worker", corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}}), false,
			"OOMKilled", "worker pod " + leaderName + "-2: container worker: OOMKilled", "exit status 137"},
		{"no image", with(placed("10.0.0.9", false), "worker", corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}), false,
			"ImagePull", "worker pod " + leaderName + "-2", ""},
		{"gone", corev1.PodStatus{}, true, "WorkerLost", "1 of the group's 2 workers are not there", "1 of the group's 2 workers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, _, r := launched(t, groupYAML)
				f.status(t, leaderName, with(placed("10.0.0.7", false), "leader", running))
				time.Sleep(2 * time.Second)
				if c.gone {
					f.remove("pods/" + leaderName + "-2")
				} else {
					f.status(t, leaderName+"-2", c.status)
				}
				time.Sleep(5 * time.Second)
				got, ok := r.Trouble()
				if !ok || got.Class != c.class || !strings.Contains(got.Line, c.want) || !got.Fatal || got.Hint == "" {
					t.Errorf("%+v, want %s: %s", got, c.class, c.want)
				}
				if !strings.HasPrefix(r.ExitState(), c.state) || (r.ExitState() == "") != (c.state == "") {
					t.Errorf("ended %q, want %q", r.ExitState(), c.state)
				}
				if err := r.Stop(t.Context()); err != nil {
					t.Error(err)
				}
				if left := f.pods(); len(left) != 0 {
					t.Errorf("left: %v", left)
				}
				if text, _ := os.ReadFile(strings.TrimSuffix(r.logPath, ".log") + ".worker-1.log"); !strings.Contains(string(text), "last words of "+leaderName+"-1") {
					t.Errorf("the kept log of a worker: %q", text)
				}
			})
		})
	}
}

// TestGroupWaitsForTheLeader: startupPolicy LeaderReady.
func TestGroupWaitsForTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _, r := launched(t, strings.Replace(groupYAML, "  replicas: 2", "  startupPolicy: LeaderReady", 1))
		f.status(t, leaderName, with(placed("10.0.0.7", false), "leader", running))
		time.Sleep(3 * time.Second)
		if got := f.pods(); len(got) != 1 {
			t.Errorf("%v, and the leader is not ready", got)
		}
		f.status(t, leaderName, with(placed("10.0.0.7", true), "leader", running))
		unwhole(t, r, "0 of the group's 2 workers are there")
		time.Sleep(3 * time.Second)
		if got := f.pods(); len(got) != 3 {
			t.Errorf("%v, and the leader is ready", got)
		}
		unwhole(t, r, "worker pod "+leaderName+"-1 is not ready")
		if err := r.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestGroupStopped: a stop that comes before the leader has an address leaves nobody to
// be made after it, and a worker whose leader is gone is found and taken away.
func TestGroupStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, r := launched(t, groupYAML)
		if err := r.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(5 * time.Second)
		if left := f.pods(); len(left) != 0 || len(f.made) != 1 {
			t.Errorf("left %v, made %v", left, f.made)
		}
		f2, l2, r2 := launched(t, groupYAML)
		f2.status(t, leaderName, placed("10.0.0.7", false))
		time.Sleep(2 * time.Second)
		f2.remove("pods/" + leaderName)
		time.Sleep(2 * time.Second)
		<-r2.Exited()
		found, err := l2.Find(t.Context(), testRun)
		if err != nil || len(found) != 1 {
			t.Fatalf("%v, %v: want the two workers as one", found, err)
		}
		if err := l2.undo(t.Context(), Args{Run: testRun, Name: "target-canary"}); err != nil {
			t.Error(err)
		}
		if left := f2.pods(); len(left) != 0 {
			t.Errorf("left %v", left)
		}
		if found, err := l.Find(t.Context(), testRun); err != nil || len(found) != 0 {
			t.Errorf("%v, %v", found, err)
		}
	})
}

// TestGroupQuota: each pod alone fits, all of them do not (3 x 4 GPUs and 3 x 2 CPUs).
func TestGroupQuota(t *testing.T) {
	for _, c := range []struct{ name, hard, used, want string }{
		{"room", "12", "0", ""},
		{"too small", "11", "0", "small leaves no room for the 3 pods of the group: requests.nvidia.com/gpu: 12 needed, 0 of 11 used"},
		{"used by others", "16", "5", "12 needed, 5 of 16 used"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, l := newAPI(t, Options{})
				f.put("resourcequotas", map[string]any{"kind": "ResourceQuota", "apiVersion": "v1", "metadata": map[string]any{"name": "small"}, "spec": map[string]any{},
					"status": map[string]any{"hard": map[string]any{"requests.nvidia.com/gpu": c.hard, "cpu": "6", "pods": "3"}, "used": map[string]any{"requests.nvidia.com/gpu": c.used}}})
				notes, err := l.Check(t.Context(), groupSpec(groupYAML))
				if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || errext.StatusOf(err) != errext.Refused) {
					t.Errorf("Check = %v, want %q", err, c.want)
				}
				if !slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, "one topology domain each") }) {
					t.Errorf("notes %q", notes)
				}
				if left := f.pods(); len(left) != 0 {
					t.Errorf("Check made %v", left)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		f, l := newAPI(t, Options{})
		f.deny("list resourcequotas")
		if notes, err := l.Check(t.Context(), groupSpec(groupYAML)); err != nil || !strings.Contains(strings.Join(notes, "\n"), "(list resourcequotas)") {
			t.Errorf("not allowed: %q, %v", notes, err)
		}
	})
}
