package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drkit/drill"
	"drkit/internal/errext"
)

const applyPatch = types.ApplyPatchType

// Launch makes the pod and returns at once; the replica tells how it fares, and makes
// the workers of a group once its leader has an address. Selectors are looked at again:
// somebody may have added one since Check.
func (l *Launcher) Launch(ctx context.Context, s drill.Spec) (drill.Replica, error) {
	r, err := l.launch(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("launching %s: %w", s.Name, err)
	}
	return r, nil
}

func (l *Launcher) launch(ctx context.Context, s drill.Spec) (*Replica, error) {
	w, err := l.o.choose(s)
	if err != nil {
		return nil, err
	}
	all, err := l.o.render(w, s)
	if err != nil {
		return nil, err
	}
	for _, pod := range all {
		if err := l.absent(ctx, pod.Name); err != nil {
			return nil, err
		}
	}
	if err := l.setPriority(ctx, all...); err != nil {
		return nil, err
	}
	if _, err := l.unrouted(ctx, all...); err != nil {
		return nil, err
	}
	pod := all[0]
	forward, err := l.forward(pod.Name, 0)
	if err != nil {
		return nil, err
	}
	pod.Annotations[AnnotExpires] = l.o.expires(time.Now())
	pod.Annotations[annotEndpoint] = forward.url()
	made, err := l.apply(ctx, pod, metav1.PatchOptions{})
	if err != nil {
		forward.close()
		return nil, errext.WithHint(fmt.Errorf("the API server refused the pod: %w", err), rejected(err))
	}
	r := l.newReplica(made, forward)
	r.logPath, r.waiting = s.LogPath, recruits{all[1:], w.group.whenReady}
	if err := harmless(made); err != nil {
		return nil, errors.Join(err, r.Stop(context.WithoutCancel(ctx)))
	}
	r.watch()
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

// Find lists the replicas of a run, those that are ending too.
func (l *Launcher) Find(ctx context.Context, run string) ([]drill.Replica, error) {
	found, err := l.labelled(ctx, LabelRun+"="+run)
	var out []drill.Replica
	for _, r := range found {
		out = append(out, r)
	}
	return out, err
}

// Leftovers lists the replicas of every run in the namespace.
func (l *Launcher) Leftovers(ctx context.Context) ([]*Replica, error) {
	return l.labelled(ctx, LabelRun)
}

// labelled lists replicas: the pods of a group are one.
func (l *Launcher) labelled(ctx context.Context, selector string) (out []*Replica, err error) {
	all, err := l.listed(ctx, selector)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b *corev1.Pod) int { return strings.Compare(a.Labels[LabelWorker], b.Labels[LabelWorker]) }) // leaders first
	for _, pod := range all {
		of := func(r *Replica) bool { return belongs(pod, r.leader) }
		if !slices.ContainsFunc(out, of) { // workers that have lost their leader are found by the first of them
			out = append(out, l.newReplica(pod, nil))
		}
	}
	return out, nil
}

// listed lists pods by their labels.
func (l *Launcher) listed(ctx context.Context, selector string) (out []*corev1.Pod, err error) {
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
		out = append(out, pod)
	}
	return out, nil
}

// portOf is the engine's port of a pod that drkit made.
func portOf(annotations map[string]string) int {
	n, _ := strconv.Atoi(annotations[annotPort])
	return n
}
