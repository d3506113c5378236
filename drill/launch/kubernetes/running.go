package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drkit/drill"
	"drkit/drill/gitops"
)

// Running is one pod of production as it runs now.
type Running struct {
	Where   string   // for people: "pod serving/chat-7d9f"
	Images  []string // digests of its containers, "sha256:…", as the node pulled them
	Differs []string // from the workload in the release's deploy files
	Unsaid  []string // what could not be compared
}

// Running looks at production's own pods of the workload that the canary is derived
// from, and compares the containers that the workload names: command and arguments.
// Containers that an admission webhook added are left out. An error says that nothing
// could be seen; no pod at all is an error too, for then nothing runs.
func (l *Launcher) Running(ctx context.Context, s drill.Spec) ([]Running, error) {
	w, err := l.o.choose(s)
	if err != nil {
		return nil, err
	}
	namespace := w.GetNamespace()
	if namespace == "" {
		namespace = l.o.Namespace
	}
	selector, err := podsOf(w.object)
	if err != nil {
		return nil, err
	}
	var all []Running
	err = l.eachSelected(ctx, namespace, selector, func(pod *corev1.Pod) {
		if pod.Labels[LabelRun] == "" && pod.DeletionTimestamp == nil {
			all = append(all, compare(pod, w.specOf(pod)))
		}
	})
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("no pod of %s runs in namespace %s", w, namespace)
	}
	return all, err
}

// specOf is the template that a pod of production should have been made by.
func (w workload) specOf(pod *corev1.Pod) corev1.PodSpec {
	if index := pod.Labels[lwsGroup+"worker-index"]; w.group.size > 1 && index != "0" {
		return w.group.worker.Spec
	}
	return w.template.Spec
}

// Owner is the GitOps controller that manages production's workload in the cluster: it
// takes back what is changed there by hand. ok is false where the workload carries no
// mark, or is not there.
func (l *Launcher) Owner(ctx context.Context, s drill.Spec) (o gitops.Owner, ok bool, err error) {
	w, err := l.o.choose(s)
	if err != nil {
		return o, false, err
	}
	k := w.GroupVersionKind()
	known, err := l.resources(ctx, k.GroupVersion())
	if err != nil {
		return o, false, err
	}
	at := slices.IndexFunc(known, func(r metav1.APIResource) bool { return r.Kind == k.Kind && !strings.Contains(r.Name, "/") })
	if at < 0 {
		return o, false, fmt.Errorf("%s: the cluster does not know %s of %s", w, k.Kind, k.GroupVersion())
	}
	namespace := w.GetNamespace()
	if namespace == "" {
		namespace = l.o.Namespace
	}
	asked, cancel := asking(ctx)
	defer cancel()
	live, err := l.dynamic.Resource(gvr(k.Group, k.Version, known[at].Name)).Namespace(namespace).Get(asked, w.GetName(), metav1.GetOptions{})
	if err != nil {
		return o, false, err
	}
	o, ok = gitops.OwnerOf(live.Object)
	return o, ok, nil
}

// podsOf is how the controller of a workload marks its pods.
func podsOf(o object) (string, error) {
	switch o.GetKind() {
	case "LeaderWorkerSet":
		return lwsGroup + "name=" + o.GetName(), nil
	case "InferenceService":
		return "serving.kserve.io/inferenceservice=" + o.GetName() + ",component=predictor", nil
	case "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Rollout":
		fields, found, err := unstructured.NestedMap(o.Object, "spec", "selector")
		if err != nil || !found {
			return "", errors.Join(err, fmt.Errorf("%s has no selector", o))
		}
		var ls metav1.LabelSelector
		if err := into(fields, &ls); err != nil {
			return "", err
		}
		selector, err := metav1.LabelSelectorAsSelector(&ls)
		if err != nil {
			return "", err
		}
		return selector.String(), nil
	}
	return "", fmt.Errorf("%s: how its controller marks its pods is not known", o)
}

func (l *Launcher) eachSelected(ctx context.Context, namespace, selector string, do func(*corev1.Pod)) error {
	asked, cancel := asking(ctx)
	defer cancel()
	list, err := l.dynamic.Resource(pods).Namespace(namespace).List(asked, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return fmt.Errorf("listing production's pods in namespace %s: %w", namespace, err)
	}
	for i := range list.Items {
		pod, err := podOf(&list.Items[i])
		if err != nil {
			return err
		}
		do(pod)
	}
	return nil
}

var pulledAs = regexp.MustCompile(`sha256:[0-9a-f]{64}$`)

// compare compares a pod with the template that it should have been made by.
func compare(pod *corev1.Pod, want corev1.PodSpec) Running {
	r := Running{Where: "pod " + pod.Namespace + "/" + pod.Name}
	for _, w := range slices.Concat(want.InitContainers, want.Containers) {
		all := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
		at := slices.IndexFunc(all, func(c corev1.Container) bool { return c.Name == w.Name })
		if at < 0 {
			r.Differs = append(r.Differs, "it has no container "+w.Name)
			continue
		}
		if d := otherWords(slices.Concat(w.Command, w.Args), slices.Concat(all[at].Command, all[at].Args)); d != "" {
			r.Differs = append(r.Differs, "container "+w.Name+": "+d)
		}
		status := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
		at = slices.IndexFunc(status, func(c corev1.ContainerStatus) bool { return c.Name == w.Name })
		if at >= 0 && pulledAs.MatchString(status[at].ImageID) {
			r.Images = append(r.Images, pulledAs.FindString(status[at].ImageID))
			continue
		}
		r.Unsaid = append(r.Unsaid, "the digest of container "+w.Name)
	}
	return r
}

// secretFlag is a flag whose value is not for people to read.
var secretFlag = regexp.MustCompile(`(?i)^--?[\w-]*(key|token|secret|password)`)

// otherWords says where two command lines part, without values of secrets.
func otherWords(want, got []string) string {
	if slices.Equal(want, got) {
		return ""
	}
	at := 0
	for at < min(len(want), len(got)) && want[at] == got[at] {
		at++
	}
	return fmt.Sprintf("argument %d is %s, the release's %s", at+1, word(got, at), word(want, at))
}

func word(words []string, at int) string {
	switch {
	case at >= len(words):
		return "not there"
	case at > 0 && secretFlag.MatchString(words[at-1]) && !strings.HasPrefix(words[at], "-"):
		return "another secret"
	case secretFlag.MatchString(words[at]):
		name, _, _ := strings.Cut(words[at], "=")
		return name
	}
	return fmt.Sprintf("%q", words[at])
}
