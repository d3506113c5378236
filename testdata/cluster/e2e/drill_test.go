//go:build linux

package e2e

import (
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drkit/testdata/cluster/kubelet"
)

// TestDrill runs whole drills with the stand-in engine beside production's own pods.
// The parts follow each other: each leaves the cluster as it was.
func TestDrill(t *testing.T) {
	w := newWorld(t, standIn(t), recordStandIn(t), "{driver: reference}")
	w.production(t)
	t.Run("recovers", func(t *testing.T) { testRecovers(t, w) })
	t.Run("a stand-in proves nothing in a real run", func(t *testing.T) {
		if r := w.drill(t, "--playbook", w.bootOnly(t)).end(t, 4); r.Verdict != "incomplete" {
			t.Errorf("verdict %s", r.Verdict)
		}
		w.nothingLeft(t)
	})
	t.Run("image gone", func(t *testing.T) {
		testBootFails(t, w, nil, "ImagePull", "failed to resolve reference")
	})
	t.Run("out of memory", func(t *testing.T) {
		testBootFails(t, w, shell("echo Starting to load model; exit 137"), "OOMKilled", "container engine: OOMKilled (exit status 137)")
	})
	t.Run("engine dies", func(t *testing.T) {
		testBootFails(t, w, shell("echo \"OSError: Can't load tokenizer for '/models/base'.\"; exit 1"), "TokenizerMissing", "Can't load tokenizer for")
	})
	t.Run("no such program", func(t *testing.T) {
		testBootFails(t, w, &kubelet.Image{Entrypoint: []string{"/no/such/program"}}, "ContainerStart", "/no/such/program")
	})
	t.Run("the volume holds other weights than the copy", func(t *testing.T) { testOtherWeights(t, w) })
	t.Run("waits for a GPU", func(t *testing.T) { testWaitsForCapacity(t, w) })
	t.Run("killed", func(t *testing.T) { testKilled(t, w) })
	t.Run("API server killed and back", func(t *testing.T) { testServerBack(t, w) })
	t.Run("API server killed and away", func(t *testing.T) { testServerAway(t, w) })
	t.Run("a leftover that is routed to", func(t *testing.T) { testRoutedLeftover(t, w) })
	t.Run("group", func(t *testing.T) { testGroup(t, w) })
	t.Run("isolation", func(t *testing.T) { testIsolation(t, w) }) // the last: the source lies elsewhere from then on
}

// production runs a Deployment in both regions, which must never be disturbed. (A
// Service beside it would have no endpoints: the API server takes none with loopback addresses.)
func (w *world) production(t *testing.T) {
	t.Helper()
	for _, namespace := range regions {
		d := new(appsv1.Deployment)
		parse(t, deployment(regionOf(namespace)), d)
		if _, err := w.Client.AppsV1().Deployments(namespace).Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, namespace := range regions {
		until(t, "production serves in "+namespace, func() bool {
			d, err := w.Client.AppsV1().Deployments(namespace).Get(t.Context(), "support", metav1.GetOptions{})
			return err == nil && d.Status.ReadyReplicas == 1
		})
	}
}

func regionOf(namespace string) string {
	for region, n := range regions {
		if n == namespace {
			return region
		}
	}
	return ""
}

func testRecovers(t *testing.T, w *world) {
	watch := w.watch(t)
	r := w.drill(t, "--demo").end(t, 0)
	canaries := watch()
	if r.Verdict != "recovered" || !r.Demo {
		t.Errorf("verdict %s, demo %v", r.Verdict, r.Demo)
	}
	for _, what := range []string{"copy", "boot", "behaviour", "router"} {
		if !r.Proves[what].Proven {
			t.Errorf("not proven: %s: %s", what, r.Proves[what].Why)
		}
	}
	if r.Proves["full-capacity"].Proven || r.Proves["edge"].Proven {
		t.Error("one canary proves full capacity or an edge")
	}
	r.undone(t)
	if len(canaries) != 2 {
		t.Errorf("%d canaries seen, want one a region", len(canaries))
	}
	for _, p := range canaries {
		bare(t, p)
	}
	w.undisturbed(t)
	w.nothingLeft(t)
}

// bare requires of a canary what keeps production safe from it.
func bare(t *testing.T, p *corev1.Pod) {
	t.Helper()
	s := p.Spec
	switch {
	case len(p.OwnerReferences) != 0:
		t.Errorf("%s is owned by %v", p.Name, p.OwnerReferences)
	case p.Labels["app"] != "":
		t.Errorf("%s carries production's label", p.Name)
	case s.RestartPolicy != corev1.RestartPolicyNever:
		t.Errorf("%s: restart policy %s", p.Name, s.RestartPolicy)
	case s.PreemptionPolicy == nil || *s.PreemptionPolicy != corev1.PreemptNever || *s.Priority != -10:
		t.Errorf("%s may pre-empt: priority class %s", p.Name, s.PriorityClassName)
	case s.EnableServiceLinks == nil || *s.EnableServiceLinks:
		t.Errorf("%s gets the variables of Services", p.Name)
	case s.Containers[0].Image != engineImage+"@"+engineDigest:
		t.Errorf("%s runs %s", p.Name, s.Containers[0].Image)
	case !slices.Contains(s.Containers[0].Env, corev1.EnvVar{Name: "HF_HUB_OFFLINE", Value: "1"}):
		t.Errorf("%s may reach a model hub: %v", p.Name, s.Containers[0].Env)
	case s.Volumes[0].PersistentVolumeClaim == nil:
		t.Errorf("%s does not get its weights as production does: %+v", p.Name, s.Volumes[0])
	}
}

// undisturbed requires that production runs as before, its ReplicaSets with the one pod that they made.
func (w *world) undisturbed(t *testing.T) {
	t.Helper()
	for _, namespace := range regions {
		sets, err := w.Client.AppsV1().ReplicaSets(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(sets.Items) != 1 || sets.Items[0].Status.Replicas != 1 || sets.Items[0].Status.ReadyReplicas != 1 {
			t.Errorf("production in %s: %+v, %v", namespace, sets.Items, err)
		}
	}
}

// watch collects the canaries, each as it was with an address, until the returned function is called.
func (w *world) watch(t *testing.T) func() []*corev1.Pod {
	var all []*corev1.Pod
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
			}
			for _, namespace := range regions {
				pods, err := w.Client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "drkit.dev/run"})
				if err != nil {
					continue
				}
				for _, p := range pods.Items {
					if p.Status.PodIP != "" && !slices.ContainsFunc(all, func(old *corev1.Pod) bool { return old.UID == p.UID }) {
						all = append(all, &p)
					}
				}
			}
		}
	}()
	return func() []*corev1.Pod {
		close(stop)
		<-stopped
		return all
	}
}

func shell(text string) *kubelet.Image {
	return &kubelet.Image{Entrypoint: []string{"sh", "-c", text}}
}

// testBootFails has an image that cannot serve, or none; the class and the line that shows it are named.
func testBootFails(t *testing.T, w *world, engine *kubelet.Image, texts ...string) {
	var images []kubelet.Image
	if engine != nil {
		images = []kubelet.Image{named(*engine)}
	}
	w.SetImages(images)
	defer w.SetImages([]kubelet.Image{w.engine})
	r := w.drill(t, "--playbook", w.bootOnly(t)).end(t, 4)
	if r.Verdict == "recovered" || r.failed() != "boot" {
		t.Errorf("verdict %s, failed step %q", r.Verdict, r.failed())
	}
	r.says(t, texts...)
	r.undone(t)
	w.nothingLeft(t)
}

// testOtherWeights damages the template on the volume that production mounts. The copy
// in the store is whole and verified; only the canary's answers can show it.
func testOtherWeights(t *testing.T, w *world) {
	file := filepath.Join(w.volume("eu-west-1"), "base/chat_template.jinja")
	whole := read(t, file)
	write(t, file, whole+"Always answer in French.")
	defer write(t, file, whole)
	r := w.drill(t, "--playbook", w.bootOnly(t)).end(t, 4)
	if r.failed() != "behaviour" || !r.Proves["copy"].Proven || r.Proves["behaviour"].Proven {
		t.Errorf("verdict %s, failed step %q, proves %+v", r.Verdict, r.failed(), r.Proves)
	}
	r.undone(t)
	w.nothingLeft(t)
}

// testWaitsForCapacity takes the target's GPUs and gives them back after three seconds.
func testWaitsForCapacity(t *testing.T, w *world) {
	hog := new(corev1.Pod)
	parse(t, `{metadata: {name: hog}, spec: {nodeSelector: {topology.kubernetes.io/region: eu-west-1}, terminationGracePeriodSeconds: 0, containers: [{name: main, image: hog, resources: {limits: {nvidia.com/gpu: 1}}}]}}`, hog)
	w.SetImages([]kubelet.Image{w.engine, {Ref: "hog", Entrypoint: []string{"sleep", "1000"}}})
	defer w.SetImages([]kubelet.Image{w.engine})
	pods := w.Client.CoreV1().Pods("default")
	if _, err := pods.Create(t.Context(), hog, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	d := w.drill(t, "--playbook", w.bootOnly(t))
	until(t, "the canary has no place", func() bool {
		list, err := w.Client.CoreV1().Pods("drill-eu").List(t.Context(), metav1.ListOptions{LabelSelector: "drkit.dev/run"})
		return err == nil && len(list.Items) == 1 && slices.ContainsFunc(list.Items[0].Status.Conditions, func(c corev1.PodCondition) bool { return c.Reason == "Unschedulable" })
	})
	time.Sleep(3 * time.Second)
	if err := pods.Delete(t.Context(), "hog", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r := d.end(t, 4) // the stand-in
	if !r.Proves["boot"].Proven {
		t.Errorf("the canary did not boot: %+v", r.Steps)
	}
	waited := 0.0
	for _, s := range r.Segments {
		if s.To == "capacity" && s.Elapsed != nil {
			waited = *s.Elapsed
		}
	}
	if waited < 3 {
		t.Errorf("the wait for capacity counts as %.1f s, it was more than 3: %s", waited, r.text)
	}
	r.says(t, "Insufficient nvidia.com/gpu")
	w.nothingLeft(t)
}

// testKilled kills drkit without a warning while both canaries serve; another process takes everything back.
func testKilled(t *testing.T, w *world) {
	d := w.drill(t, "--demo")
	w.untilServing(t, "drill-eu")
	if err := d.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = d.cmd.Wait()
	if left := w.canaries(t); len(left) != 2 {
		t.Fatalf("%v are left by the kill: nothing to take back", left)
	}
	run(t, w.dir, 0, "drill", "abort")
	w.nothingLeft(t)
	run(t, w.dir, 0, "drill", "abort") // again: nothing to do
}

// untilServing waits for a canary that is ready.
func (w *world) untilServing(t *testing.T, namespace string) {
	t.Helper()
	until(t, "a canary serves in "+namespace, func() bool {
		list, err := w.Client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "drkit.dev/run"})
		return err == nil && len(list.Items) == 1 && slices.ContainsFunc(list.Items[0].Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
	})
}

// testServerBack kills the API server under a running drill, and it comes back: what the
// run says then is checked against what is, whether it recovered or not.
func testServerBack(t *testing.T, w *world) {
	d := w.drill(t, "--demo")
	w.untilServing(t, "drill-eu")
	w.KillAPIServer()
	time.Sleep(2 * time.Second)
	w.RestartAPIServer(t)
	_ = d.cmd.Wait()
	r := d.end(t, d.cmd.ProcessState.ExitCode())
	t.Logf("%s, status %d, failed step %q", r.Verdict, r.Status, r.failed())
	switch r.Status {
	case 0, 4, 5:
		r.undone(t)
	case 8: // it could not prove the end of something, and says so
		run(t, w.dir, 0, "drill", "abort")
	default:
		t.Errorf("status %d: %s", r.Status, r.Reasons)
	}
	if failed := r.failed(); (r.Verdict == "recovered") != (failed == "") {
		t.Errorf("verdict %s, failed step %q", r.Verdict, failed)
	}
	w.nothingLeft(t)
}

// testServerAway kills the API server for longer than the run lasts: the end of the
// canaries cannot be proven, so the status is 8, and abort proves it later.
func testServerAway(t *testing.T, w *world) {
	d := w.drill(t, "--demo")
	w.untilServing(t, "drill-eu")
	w.KillAPIServer()
	r := d.end(t, 8)
	if r.Verdict == "recovered" {
		t.Errorf("verdict %s, with the target's API server gone", r.Verdict)
	}
	w.RestartAPIServer(t)
	if left := w.canaries(t); len(left) != 2 {
		t.Errorf("%v are left", left)
	}
	run(t, w.dir, 0, "drill", "abort")
	w.nothingLeft(t)
}
