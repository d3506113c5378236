package kubernetes

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestCompare: a pod of production against the workload in the release's files.
func TestCompare(t *testing.T) {
	w, err := Options{}.choose(spec(t, "deployment.yaml", "Deployment", "chat", "engine"))
	if err != nil {
		t.Fatal(err)
	}
	live := func(change func(*corev1.Pod)) *corev1.Pod {
		pod := &corev1.Pod{Spec: *w.template.Spec.DeepCopy()}
		pod.Namespace, pod.Name = "serving", "chat-1"
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "tokenizer", ImageID: "docker-pullable://1.example/llm/fetch" + hash}}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "proxy", ImageID: "1.example/llm/proxy" + hash}, {Name: "engine", ImageID: "1.example/llm/vllm" + hash}}
		change(pod)
		return pod
	}
	digest := strings.TrimPrefix(hash, "@")
	same := compare(live(func(p *corev1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "istio-proxy"}) // a webhook's
	}), w.template.Spec)
	if len(same.Differs)+len(same.Unsaid) != 0 || !slices.Equal(same.Images, []string{digest, digest, digest}) || same.Where != "pod serving/chat-1" {
		t.Errorf("the same: %+v", same)
	}
	for _, c := range []struct {
		name   string
		change func(*corev1.Pod)
		want   string
	}{
		{"another argument", func(p *corev1.Pod) { p.Spec.Containers[1].Args[3] = "8300" }, `container engine: argument 4 is "8300", the release's "8200"`},
		{"an argument more", func(p *corev1.Pod) {
			p.Spec.Containers[1].Args = append(p.Spec.Containers[1].Args, "--enforce-eager")
		}, `argument 7 is "--enforce-eager", the release's not there`},
		{"a secret", func(p *corev1.Pod) {
			p.Spec.Containers[1].Args = append(p.Spec.Containers[1].Args, "--api-key=hunter2")
		}, "argument 7 is --api-key, the release's not there"},
		{"no container", func(p *corev1.Pod) { p.Spec.Containers = p.Spec.Containers[1:] }, "it has no container proxy"},
	} {
		got := compare(live(c.change), w.template.Spec)
		if len(got.Differs) != 1 || !strings.Contains(got.Differs[0], c.want) || strings.Contains(got.Differs[0], "hunter2") {
			t.Errorf("%s: %q", c.name, got.Differs)
		}
	}
	if got := compare(live(func(p *corev1.Pod) { p.Status.ContainerStatuses[1].ImageID = "" }), w.template.Spec); !slices.Equal(got.Unsaid, []string{"the digest of container engine"}) {
		t.Errorf("an image that is not told: %+v", got)
	}
}

// TestCompareGroup: each pod of a group against the template that it was made by.
func TestCompareGroup(t *testing.T) {
	w, err := Options{}.choose(groupSpec(groupYAML))
	if err != nil {
		t.Fatal(err)
	}
	for index, want := range map[string]string{"0": "leader", "1": "worker", "2": "worker"} {
		pod := &corev1.Pod{}
		pod.Labels = map[string]string{"leaderworkerset.sigs.k8s.io/worker-index": index}
		if got := w.specOf(pod).Containers[0].Name; got != want {
			t.Errorf("pod %s is compared with the %s's template, want the %s's", index, got, want)
		}
	}
}

func TestPodsOf(t *testing.T) {
	for file, want := range map[string]string{"deployment.yaml Deployment": "app=chat", "statefulset.yaml StatefulSet": "app=chat",
		"lws.yaml LeaderWorkerSet": "leaderworkerset.sigs.k8s.io/name=chat", "kserve.yaml InferenceService": "serving.kserve.io/inferenceservice=chat,component=predictor"} {
		name, kind, _ := strings.Cut(file, " ")
		w, err := Options{Workload: kind + "/chat", Container: ""}.choose(spec(t, name, kind, "chat", containerOf[kind]))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := podsOf(w.object); err != nil || got != want {
			t.Errorf("%s: %q, %v", file, got, err)
		}
	}
}

var containerOf = map[string]string{"Deployment": "engine", "StatefulSet": "engine", "LeaderWorkerSet": "leader", "InferenceService": "kserve-container"}

// TestUnowned: a mark of a GitOps controller that came along by a kept label.
func TestUnowned(t *testing.T) {
	s := spec(t, "deployment.yaml", "Deployment", "chat", "engine")
	if err := unowned(render(t, Options{}, s)); err != nil {
		t.Errorf("without a mark: %v", err)
	}
	s.Deploy[0].Data = []byte(strings.Replace(string(s.Deploy[0].Data), "tier: gold", "argocd.argoproj.io/instance: apps", 1))
	if err := unowned(render(t, Options{KeepLabels: []string{"argocd.argoproj.io/instance"}}, s)); err == nil || !strings.Contains(err.Error(), "Argo CD") {
		t.Errorf("with Argo CD's label: %v", err)
	}
}
