package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"

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
	r := found[0]
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":         r.uid, // another pod of that name is refused
		"annotations": map[string]any{AnnotAdopted: by, AnnotExpires: nil},
	}})
	if err != nil {
		return err
	}
	asked, cancel := asking(ctx)
	defer cancel()
	got, err := l.pods().Patch(asked, r.name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager})
	if err != nil {
		return fmt.Errorf("marking pod %s as adopted: %w", r.Pod(), err)
	}
	if got.GetAnnotations()[AnnotAdopted] != by {
		return fmt.Errorf("pod %s does not carry the mark that it was given", r.Pod())
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

// RoutedBy names what routes requests to the pod inside the cluster, "" for nothing.
func (r *Replica) RoutedBy(ctx context.Context) (string, error) {
	r.mu.Lock()
	pod := r.pod
	r.mu.Unlock()
	return r.l.routedTo(ctx, pod)
}
