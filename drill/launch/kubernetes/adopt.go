package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AnnotAdopted says who took a canary over: it is no leftover any more, although it
// still carries the label of its run.
const AnnotAdopted = "drkit.dev/adopted-by"

// Adopt marks a canary that somebody took over, and takes its expiry away.
func (l *Launcher) Adopt(ctx context.Context, run, name, by string) error {
	found, err := l.labelled(ctx, LabelRun+"="+run+","+LabelReplica+"="+name)
	if err != nil {
		return err
	}
	if len(found) != 1 {
		return fmt.Errorf("%d pods are %s of run %s: there is not one to take over", len(found), name, run)
	}
	all, err := l.listed(ctx, found[0].selector())
	if err != nil {
		return err
	}
	for _, pod := range all {
		if err := l.mark(ctx, pod, by); err != nil {
			return err
		}
	}
	return nil
}

// mark writes into a pod who took it over.
func (l *Launcher) mark(ctx context.Context, pod *corev1.Pod, by string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":         pod.UID, // another pod of that name is refused
		"annotations": map[string]any{AnnotAdopted: by, AnnotExpires: nil},
	}})
	if err != nil {
		return err
	}
	asked, cancel := asking(ctx)
	defer cancel()
	got, err := l.pods().Patch(asked, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager})
	if err != nil {
		return fmt.Errorf("marking pod %s as adopted: %w", pod.Name, err)
	}
	if got.GetAnnotations()[AnnotAdopted] != by {
		return fmt.Errorf("pod %s does not carry the mark that it was given", pod.Name)
	}
	return nil
}

// AdoptedBy says who took the replica over, "" for nobody.
func (r *Replica) AdoptedBy() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pod == nil {
		return ""
	}
	return r.pod.Annotations[AnnotAdopted]
}

// RoutedBy names what routes requests to the pod inside the cluster, or to one of its
// group, "" for nothing.
func (r *Replica) RoutedBy(ctx context.Context) (string, error) {
	r.mu.Lock()
	all := []*corev1.Pod{r.pod}
	r.mu.Unlock()
	if r.size > 1 || r.leader != types.UID(r.uid) { // a leader, or a worker that has lost it
		found, err := r.l.listed(ctx, r.selector())
		if err != nil {
			return "", err
		}
		all = append(all, found...)
	}
	for _, pod := range all {
		if by, err := r.l.routedTo(ctx, pod); err != nil || by != "" {
			return by, err
		}
	}
	return "", nil
}
