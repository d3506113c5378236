package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drkit/drill"
	"drkit/internal/errext"
)

const stopEvery = 250 * time.Millisecond

// Stop deletes the pod, and those of its group, and returns nil once their absence is
// seen: each is answered with "not found" and no pod with the labels of the replica is
// listed. It deletes just the pods that it knows; one of the same name that somebody
// made since stays, and is an error. It does not force: a pod that a lost node may still
// run is not gone.
func (r *Replica) Stop(ctx context.Context) error {
	r.stopping.Lock()
	defer r.stopping.Unlock()
	r.stopped = true
	r.keepLog(ctx)
	if err := r.remove(ctx); err != nil {
		return errext.WithStatus(fmt.Errorf("stopping %s: %w", r.id, err), errext.Unclean)
	}
	r.end("the pod was deleted")
	return nil
}

// doomed is a pod that is to go.
type doomed struct {
	name  string
	uid   types.UID
	asked bool
}

func (r *Replica) remove(ctx context.Context) error {
	all, last := []doomed{{name: r.name, uid: types.UID(r.uid)}}, error(nil)
	for {
		gone, err := r.removed(ctx, &all)
		switch {
		case gone:
			return nil
		case errors.Is(err, errOther):
			return err
		case err != nil:
			last = err
		}
		select {
		case <-ctx.Done():
			err := fmt.Errorf("pod %s is not proven to be gone: %w", r.Pod(), context.Cause(ctx))
			if last != nil {
				err = fmt.Errorf("%w (last answer: %w)", err, last)
			}
			return errext.WithHint(err, fmt.Sprintf("kubectl --context %s -n %s get pod -l %s; a pod that stays Terminating waits for its node: look at the node before you force anything", r.l.o.Context, r.l.o.Namespace, r.selector()))
		case <-time.After(stopEvery):
		}
	}
}

// removed asks once for what is left to be deleted, adds workers to it that it did not
// know of, and looks whether all are absent, in both ways.
func (r *Replica) removed(ctx context.Context, all *[]doomed) (bool, error) {
	left, err := r.l.listed(ctx, r.selector())
	errs := []error{err} // what is known is deleted all the same
	for _, pod := range left {
		known := slices.ContainsFunc(*all, func(d doomed) bool { return d.uid == pod.UID })
		if !known && belongs(pod, r.leader) {
			*all = append(*all, doomed{name: pod.Name, uid: pod.UID})
		}
	}
	gone := true
	for i := range *all {
		d := &(*all)[i]
		if !d.asked {
			err := r.l.delete(ctx, d)
			d.asked = err == nil
			errs = append(errs, err)
		}
		absent, err := r.l.gone(ctx, d)
		errs = append(errs, err)
		gone = gone && absent
	}
	if err := errors.Join(errs...); err != nil || !gone {
		return false, err
	}
	left, err = r.l.listed(ctx, r.selector())
	return err == nil && len(left) == 0, err
}

// delete asks for the deletion of this very pod.
func (l *Launcher) delete(ctx context.Context, d *doomed) error {
	asked, cancel := asking(ctx)
	defer cancel()
	foreground := metav1.DeletePropagationForeground
	err := l.pods().Delete(asked, d.name, metav1.DeleteOptions{PropagationPolicy: &foreground, Preconditions: &metav1.Preconditions{UID: &d.uid}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // a conflict: another pod has the name, and gone says so
		return nil
	}
	return err
}

var errOther = errors.New("another pod has its name")

// gone reports that the API server knows no such pod.
func (l *Launcher) gone(ctx context.Context, d *doomed) (bool, error) {
	asked, cancel := asking(ctx)
	defer cancel()
	u, err := l.pods().Get(asked, d.name, metav1.GetOptions{})
	switch {
	case err == nil && u.GetUID() != d.uid:
		return false, fmt.Errorf("%w: %s/%s, with another UID: somebody made it since, and it stays", errOther, l.o.Namespace, d.name)
	case apierrors.IsNotFound(err):
		return true, nil
	}
	return false, err
}

// UndoKind is the kind of undo that removes what a run launched on a cluster.
const UndoKind = "kubernetes.delete"

// Args say which pod a run made: another process must find it after a kill -9. Server
// keeps an undo from asking another cluster that has a context of the same name, and
// taking its "not found" for a proof.
type Args struct {
	Context   string `json:"context"`
	Namespace string `json:"namespace"`
	Server    string `json:"server"`
	Run       string `json:"run"`
	Name      string `json:"name"`
	Log       string `json:"log,omitempty"` // file that keeps the log
}

// Undo is the undo of a launch, as data.
func (l *Launcher) Undo(run, name, log string) (drill.Undo, error) {
	args, err := json.Marshal(Args{l.o.Context, l.o.Namespace, l.Server(), run, name, log})
	return drill.Undo{Kind: UndoKind, Args: args}, err
}

// UndoLaunch removes one replica of a run and proves that it is gone.
func UndoLaunch(ctx context.Context, args []byte) error {
	var a Args
	if err := json.Unmarshal(args, &a); err != nil {
		return err
	}
	l, err := ForArgs(a)
	if err != nil {
		return err
	}
	return l.undo(ctx, a)
}

// ForArgs is a launcher on the cluster of an earlier process; another cluster under
// the same context is refused.
func ForArgs(a Args) (*Launcher, error) {
	l, err := New(Options{Context: a.Context, Namespace: a.Namespace})
	if err != nil {
		return nil, err
	}
	if l.Server() != a.Server {
		return nil, errext.WithHint(fmt.Errorf("context %s leads to %s now, and the run was on %s", a.Context, l.Server(), a.Server), "use the kubeconfig that the run was started with (KUBECONFIG)")
	}
	return l, nil
}

func (l *Launcher) undo(ctx context.Context, a Args) error {
	found, err := l.labelled(ctx, LabelRun+"="+a.Run+","+LabelReplica+"="+a.Name)
	if err != nil {
		return err
	}
	for _, r := range found {
		r.logPath = a.Log
		if err := r.Stop(ctx); err != nil {
			return err
		}
	}
	left, err := l.labelled(ctx, LabelRun+"="+a.Run)
	if err == nil && slices.ContainsFunc(left, func(r *Replica) bool { return r.id == a.Name }) {
		err = fmt.Errorf("pod of %s of run %s is still there", a.Name, a.Run)
	}
	return err
}
