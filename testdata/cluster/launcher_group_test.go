//go:build linux

package cluster

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"drkit/drill"
	"drkit/drill/launch/kubernetes"
)

// groupText is production's group: a leader that serves, and a worker that registers
// with it at the address that the controller's variable names.
const groupText = `apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: chat}
spec:
  leaderWorkerTemplate:
    size: 2
    leaderTemplate:
      metadata: {labels: {app: chat}}
      spec:
        containers:
          - name: engine
            image: ` + engineRef + `
            args: [--model, $(LWS_LEADER_ADDRESS)/$(LWS_GROUP_SIZE)/$(LWS_WORKER_INDEX), --port, "8123"]
            resources: {limits: {nvidia.com/gpu: 1}}
    workerTemplate:
      spec:
        containers:
          - name: worker
            image: ` + engineRef + `
            env: [{name: ` + program + `, value: join}, {name: LEADER, value: "http://$(LWS_LEADER_ADDRESS):8123"}]
            resources: {limits: {nvidia.com/gpu: 1}}
`

// groupSpec is the group as the release's files have it.
func groupSpec() drill.Spec {
	s := launchSpec(groupText)
	s.Engines = []drill.DeployEngine{{Path: "chat.yaml", Kind: "LeaderWorkerSet", Name: "chat", Container: "engine"}}
	return s
}

// groupPods are the names of the canary's pods, the leader first.
func groupPods() []string {
	leader := kubernetes.PodName(launchRun, launchName)
	return []string{leader, leader + "-1"}
}

// groups: what a LeaderWorkerSet becomes on a real cluster.
func groups(t *testing.T, c *Cluster) {
	if _, err := newLauncher(t, c, kubernetes.Options{}).Check(t.Context(), groupSpec()); err == nil || !strings.Contains(err.Error(), "does not know LeaderWorkerSet") {
		t.Errorf("without its definition: %v", err)
	}
	c.Define(t, "leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet")
	if notes, err := newLauncher(t, c, kubernetes.Options{}).Check(t.Context(), groupSpec()); err != nil || len(notes) > 0 {
		t.Errorf("Check: %v, %v", notes, err)
	}
	t.Run("lives", func(t *testing.T) { groupLives(t, c) })
	t.Run("worker killed", func(t *testing.T) { workerKilled(t, c) })
	t.Run("drkit killed", func(t *testing.T) { groupOfTheKilled(t, c) })
}

// groupLives: the worker is made once the leader has an address, registers at it, both
// see what the controller would have told them, and both are gone at the end.
func groupLives(t *testing.T, c *Cluster) {
	l := newLauncher(t, c, kubernetes.Options{})
	s := groupSpec()
	s.LogPath = filepath.Join(t.TempDir(), "canary.log")
	history := record(t, c)
	r := launch(t, l, s)
	until(t, "the leader to serve", canaryHealthy(r))
	logUntil(t, r, "GET /join/1 of 2")
	names := groupPods()
	if got := podsOf(t, c, kubernetes.LabelRun); !slices.Equal(got, names) {
		t.Fatalf("pods %v, want %v", got, names)
	}
	leader, worker := drillPod(t, c, names[0]), drillPod(t, c, names[1])
	if got, want := ask(r.Endpoint()+"/x"), "--model "+leader.Status.PodIP+"/2/0"; !strings.Contains(got, want) {
		t.Errorf("the leader runs as %q, want %q", got, want)
	}
	if o := worker.OwnerReferences; len(o) != 1 || o[0].UID != leader.UID || worker.Annotations[kubernetes.AnnotExpires] != leader.Annotations[kubernetes.AnnotExpires] {
		t.Errorf("the worker is owned by %+v, expires %q", o, worker.Annotations[kubernetes.AnnotExpires])
	}
	if ip := history(names[1]); ip == "" || ip != leader.Status.PodIP {
		t.Errorf("when the worker was made the leader had the address %q, it has %q", ip, leader.Status.PodIP)
	}
	until(t, "capacity and image of both", func() bool { return len(r.Milestones()) == 2 })
	if trouble, ok := r.Trouble(); ok {
		t.Errorf("trouble %+v", trouble)
	}
	if err := r.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-r.Exited()
	groupGone(t, c, l)
	for file, line := range map[string]string{s.LogPath: "GET /join/1 of 2", strings.TrimSuffix(s.LogPath, ".log") + ".worker-1.log": "joined " + leader.Status.PodIP} {
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), line) {
			t.Errorf("the kept log %s: %q, %v", file, text, err)
		}
	}
}

// record follows the drill's pods from now on in the order in which the API server
// changed them. What it returns says which address the leader had when a pod was made.
func record(t *testing.T, c *Cluster) func(pod string) string {
	t.Helper()
	list, err := c.Client.CoreV1().Pods("dr-drill").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := c.Client.CoreV1().Pods("dr-drill").Watch(t.Context(), metav1.ListOptions{LabelSelector: kubernetes.LabelRun, ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return func(pod string) (leader string) {
		t.Helper()
		for e := range w.ResultChan() {
			p, ok := e.Object.(*corev1.Pod)
			if !ok {
				t.Fatalf("the watch says %+v", e.Object)
			}
			if e.Type == watch.Added && p.Name == pod {
				return leader
			}
			if p.Name == groupPods()[0] {
				leader = p.Status.PodIP
			}
		}
		t.Fatalf("the watch ended before %s was made", pod)
		return ""
	}
}

func drillPod(t *testing.T, c *Cluster, name string) *corev1.Pod {
	t.Helper()
	p, err := c.Client.CoreV1().Pods("dr-drill").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// groupGone requires that nothing of the group is left, neither pods nor processes.
func groupGone(t *testing.T, c *Cluster, l *kubernetes.Launcher) {
	t.Helper()
	if left, err := l.Find(t.Context(), launchRun); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
	if pods := podsOf(t, c, ""); len(pods) != 0 {
		t.Errorf("pods are left: %v", pods)
	}
	for _, name := range groupPods() {
		if pids := named(c, name); len(pids) != 0 {
			t.Errorf("processes of %s are left: %v", name, pids)
		}
	}
}

// workerKilled: the end of the worker alone is the canary's, with the worker's name.
func workerKilled(t *testing.T, c *Cluster) {
	l := newLauncher(t, c, kubernetes.Options{})
	r := launch(t, l, groupSpec())
	logUntil(t, r, "GET /join/1 of 2")
	worker := groupPods()[1]
	pids := named(c, worker)
	if len(pids) != 1 {
		t.Fatalf("%s has the processes %v", worker, pids)
	}
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-r.Exited():
	case <-time.After(time.Minute):
		t.Fatal("the canary does not count as ended, and its worker was killed")
	}
	if got, want := r.ExitState(), "exit status 137 of worker pod dr-drill/"+worker; got != want {
		t.Errorf("ended %q, want %q", got, want)
	}
	trouble, ok := r.Trouble()
	if want := "worker pod " + worker + ": container worker: exit status 137: "; !ok || trouble.Class != "WorkerFailed" || !trouble.Fatal || !strings.HasPrefix(trouble.Line, want) || !strings.Contains(trouble.Line, "joined ") {
		t.Errorf("trouble %+v, want WorkerFailed: %s", trouble, want)
	}
	if drillPod(t, c, groupPods()[0]).Status.Phase != corev1.PodRunning {
		t.Error("the leader ended too: this shows nothing of the worker")
	}
	if err := r.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	groupGone(t, c, l)
}

// groupOfTheKilled: a process launches the group and is killed with kill -9. Another one
// finds both pods as one replica, and takes both away.
func groupOfTheKilled(t *testing.T, c *Cluster) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), program+"=launch", "KUBECONFIG="+c.Kubeconfig)
	child.Stderr, child.SysProcAttr = os.Stderr, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = child.Process.Kill() })
	worker := groupPods()[1]
	until(t, "the worker to run", func() bool { return len(named(c, worker)) == 1 })
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()

	l := newLauncher(t, c, kubernetes.Options{})
	found, err := l.Find(t.Context(), launchRun)
	if err != nil || len(found) != 1 || found[0].ID() != launchName {
		t.Fatalf("Find: %v, %v", found, err)
	}
	r := found[0].(*kubernetes.Replica)
	until(t, "it to be reached", canaryHealthy(r))
	if trouble, ok := r.Trouble(); ok {
		t.Errorf("trouble %+v", trouble)
	}
	if got := podsOf(t, c, kubernetes.LabelRun+"="+launchRun); !slices.Equal(got, groupPods()) {
		t.Fatalf("pods %v after the kill", got)
	}
	u, err := l.Undo(launchRun, launchName, filepath.Join(t.TempDir(), "late.log"))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // it may be repeated
		if err := kubernetes.UndoLaunch(t.Context(), u.Args); err != nil {
			t.Fatal(err)
		}
	}
	groupGone(t, c, l)
	var args kubernetes.Args
	if err := json.Unmarshal(u.Args, &args); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(strings.TrimSuffix(args.Log, ".log") + ".worker-1.log"); err != nil || !strings.Contains(string(text), "joined ") {
		t.Errorf("the worker's kept log: %q, %v", text, err)
	}
}

// launchGroup is the process that groupOfTheKilled kills.
func launchGroup() error {
	l, err := kubernetes.New(kubernetes.Options{Context: "eu"})
	if err != nil {
		return err
	}
	r, err := l.Launch(context.Background(), groupSpec())
	if err != nil {
		return err
	}
	<-r.Exited()
	return nil
}
