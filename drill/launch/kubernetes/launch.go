package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drkit/drill"
	"drkit/internal/errext"
)

const applyPatch = types.ApplyPatchType

// Launch makes the pod and returns at once; the replica tells how it fares. Selectors
// are looked at again: somebody may have added one since Check.
func (l *Launcher) Launch(ctx context.Context, s drill.Spec) (drill.Replica, error) {
	pod, err := Render(l.o, s)
	if err != nil {
		return nil, fmt.Errorf("launching %s: %w", s.Name, err)
	}
	if err := l.absent(ctx, pod.Name); err != nil {
		return nil, fmt.Errorf("launching %s: %w", s.Name, err)
	}
	if err := l.setPriority(ctx, pod); err != nil {
		return nil, fmt.Errorf("launching %s: %w", s.Name, err)
	}
	if _, err := l.unrouted(ctx, pod); err != nil {
		return nil, fmt.Errorf("launching %s: %w", s.Name, err)
	}
	forward, err := l.forward(pod.Name, 0)
	if err != nil {
		return nil, fmt.Errorf("launching %s: %w", s.Name, err)
	}
	pod.Annotations[AnnotExpires] = l.o.expires(time.Now())
	pod.Annotations[annotEndpoint] = forward.url()
	made, err := l.apply(ctx, pod, metav1.PatchOptions{})
	if err != nil {
		forward.close()
		return nil, errext.WithHint(fmt.Errorf("launching %s: the API server refused the pod: %w", s.Name, err), rejected(err))
	}
	r := l.replica(made, forward)
	r.logPath = s.LogPath
	if err := harmless(made); err != nil {
		return nil, errors.Join(fmt.Errorf("launching %s: %w", s.Name, err), r.Stop(context.WithoutCancel(ctx)))
	}
	return r, nil
}

// absent refuses a name that is taken: a server-side apply would change that pod.
func (l *Launcher) absent(ctx context.Context, name string) error {
	asked, cancel := asking(ctx)
	defer cancel()
	_, err := l.pods().Get(asked, name, metav1.GetOptions{})
	switch {
	case err == nil:
		return fmt.Errorf("pod %s is already there", name)
	case apierrors.IsNotFound(err):
		return nil
	}
	return fmt.Errorf("looking for pod %s: %w", name, err)
}

// Find lists the pods of a run, those that are ending too.
func (l *Launcher) Find(ctx context.Context, run string) ([]drill.Replica, error) {
	found, err := l.labelled(ctx, LabelRun+"="+run)
	var out []drill.Replica
	for _, r := range found {
		out = append(out, r)
	}
	return out, err
}

// Leftovers lists the pods of every run in the namespace.
func (l *Launcher) Leftovers(ctx context.Context) ([]*Replica, error) {
	return l.labelled(ctx, LabelRun)
}

func (l *Launcher) labelled(ctx context.Context, selector string) (out []*Replica, err error) {
	asked, cancel := asking(ctx)
	defer cancel()
	list, err := l.pods().List(asked, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("listing pods with %s in namespace %s of context %s: %w", selector, l.o.Namespace, l.o.Context, err)
	}
	for i := range list.Items {
		pod, err := podOf(&list.Items[i])
		if err != nil {
			return nil, err
		}
		out = append(out, l.replica(pod, nil))
	}
	return out, nil
}

// portOf is the engine's port of a pod that drkit made.
func portOf(annotations map[string]string) int {
	n, _ := strconv.Atoi(annotations[annotPort])
	return n
}
