//go:build linux

package kubelet

import (
	"context"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pod runs one pod from its first sight to its removal.
type pod struct {
	k          *Kubelet
	api        *corev1.Pod // as first seen: its spec does not change
	ip, dir    string
	volumes    map[string]string // name → folder or file
	init, main []*container
	since      metav1.Time
	killed     chan struct{} // closed when the containers have to end
	dirty      chan struct{} // there is a status to report

	mu           sync.Mutex // guards what follows, and the containers' fields of that kind
	deadline     time.Time  // SIGKILL, once killed
	reason, text string     // why the pod failed as a whole
	deleted      bool       // the API server wants it gone
	initialized  bool
	ended        bool // no process of it is left and none will be started
	conditions   []corev1.PodCondition
}

// run prepares the volumes and runs the containers until they have ended for good.
func (p *pod) run(ctx context.Context) {
	if limit := p.api.Spec.ActiveDeadlineSeconds; limit != nil {
		timer := time.AfterFunc(time.Duration(*limit)*time.Second, func() {
			p.fail("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
		})
		defer timer.Stop()
	}
	if p.supported() && p.mountAll(ctx) && p.runInit(ctx) {
		var all sync.WaitGroup
		for _, c := range p.main {
			all.Go(func() { c.run(ctx) })
		}
		all.Wait()
	}
	p.update(func() { p.ended = true })
}

func (p *pod) runInit(ctx context.Context) bool {
	for _, c := range p.init {
		if !c.run(ctx) {
			return false
		}
	}
	if p.stopped() {
		return false
	}
	p.update(func() { p.initialized = true })
	return true
}

// supported waits for the end of a pod that asks for what this kubelet lacks: better a test
// that hangs with an event than one that passes for the wrong reason.
func (p *pod) supported() bool {
	for _, c := range p.init {
		if c.spec.RestartPolicy != nil {
			p.event(corev1.EventTypeWarning, "Unsupported", "the test kubelet runs no sidecars: init container %s has a restartPolicy", c.spec.Name)
			<-p.killed
			return false
		}
	}
	return true
}

// fail ends the pod, with a reason of its own in its status.
func (p *pod) fail(reason, text string) {
	p.update(func() { p.reason, p.text = reason, text })
	p.kill(grace(p.api))
}

// kill asks the containers to end and kills them after the given time. A second call can only shorten it.
func (p *pod) kill(grace time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if end := time.Now().Add(grace); p.deadline.IsZero() || end.Before(p.deadline) {
		first := p.deadline.IsZero()
		p.deadline = end
		if first {
			close(p.killed)
		}
	}
}

// remove is kill for a pod that the API server wants gone, or no longer has.
func (p *pod) remove(grace time.Duration) {
	p.update(func() { p.deleted = true })
	p.kill(grace)
}

func (p *pod) stopped() bool {
	select {
	case <-p.killed:
		return true
	default:
		return false
	}
}

// sleep waits, and says whether the pod may go on.
func (p *pod) sleep(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-p.killed:
		return false
	}
}

// killAt is when a process that was asked to end is killed.
func (p *pod) killAt() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.deadline
}

func (p *pod) update(change func()) {
	p.mu.Lock()
	change()
	p.mu.Unlock()
	select {
	case p.dirty <- struct{}{}:
	default:
	}
}

// report tells the API server what is, again until it has heard it, and takes the
// pod out of it at the end.
func (p *pod) report(ctx context.Context) {
	defer p.k.drop(p)
	for {
		select {
		case <-p.dirty:
		case <-ctx.Done():
			return
		}
		for {
			over, err := p.tell(ctx)
			if over && err == nil {
				return
			}
			if err == nil {
				break
			}
			p.k.Log.Printf("pod %s/%s: %v", p.api.Namespace, p.api.Name, err)
			select {
			case <-time.After(200 * time.Millisecond):
			case <-ctx.Done():
				return
			}
		}
	}
}

// tell reports the status once. It is over when nothing of the pod runs and the
// API server no longer has it.
func (p *pod) tell(ctx context.Context) (over bool, err error) {
	ended, deleted, patch := p.statusPatch()
	_, err = p.k.Client.CoreV1().Pods(p.api.Namespace).Patch(ctx, p.api.Name, statusPatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil && p.k.absent(ctx, p.api) {
		p.remove(0)
		return ended, nil
	}
	if err == nil && ended && deleted {
		return true, p.k.release(ctx, p.api)
	}
	return false, err
}

// release removes a pod for good, once nothing of it runs.
func (k *Kubelet) release(ctx context.Context, api *corev1.Pod) error {
	now := int64(0)
	err := k.Client.CoreV1().Pods(api.Namespace).Delete(ctx, api.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &api.UID},
	})
	if err != nil && k.absent(ctx, api) {
		return nil
	}
	return err
}

// absent says whether the API server has this pod no longer; another of its name may be there.
func (k *Kubelet) absent(ctx context.Context, api *corev1.Pod) bool {
	now, err := k.Client.CoreV1().Pods(api.Namespace).Get(ctx, api.Name, metav1.GetOptions{})
	return apierrors.IsNotFound(err) || err == nil && now.UID != api.UID
}

func (p *pod) event(kind, reason, format string, args ...any) {
	p.k.events.Eventf(p.api, kind, reason, format, args...)
}

// scratch is a folder of the pod's own, removed with it.
func (p *pod) scratch(name string) (string, error) {
	dir := p.dir + "/" + name
	return dir, os.MkdirAll(dir, 0o777)
}
