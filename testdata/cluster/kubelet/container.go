//go:build linux

package kubelet

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// container runs one container of a pod, again as often as the restart policy says.
// The fields below spec are guarded by the pod's lock.
type container struct {
	p      *pod
	spec   *corev1.Container
	isInit bool

	state, last    corev1.ContainerState
	id, imageID    string
	restarts       int32
	started, ready bool
	now, previous  *process // the one that runs or ran last, and the one before it
}

func newContainer(p *pod, spec *corev1.Container, isInit bool) *container {
	reason := "ContainerCreating"
	if !isInit && len(p.api.Spec.InitContainers) > 0 {
		reason = "PodInitializing"
	}
	c := &container{p: p, spec: spec, isInit: isInit}
	c.state.Waiting = &corev1.ContainerStateWaiting{Reason: reason}
	return c
}

// run returns when the container has ended for good, and whether it succeeded.
func (c *container) run(ctx context.Context) bool {
	backoff := c.p.k.Backoff
	for crashes := 0; ; crashes++ {
		image, ok := c.pull()
		if !ok {
			return c.abandon()
		}
		began := time.Now()
		code, ok := c.once(ctx, image, crashes)
		if !ok {
			return c.abandon()
		}
		if c.p.stopped() || !c.again(code) {
			return code == 0
		}
		if time.Since(began) > 10*time.Minute {
			crashes, backoff = 0, c.p.k.Backoff
		}
		if crashes > 0 {
			c.backOff(backoff)
			if !c.p.sleep(backoff) {
				return c.abandon()
			}
			backoff = min(2*backoff, 5*time.Minute)
		}
		c.p.update(func() { c.restarts++ })
	}
}

func (c *container) again(code int32) bool {
	switch c.p.api.Spec.RestartPolicy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyAlways:
		return code != 0 || !c.isInit
	}
	return code != 0
}

func (c *container) wait(reason, text string) {
	c.p.update(func() {
		c.state = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: text}}
		c.ready, c.started = false, false
	})
}

func (c *container) backOff(d time.Duration) {
	text := fmt.Sprintf("back-off %s restarting failed container=%s pod=%s_%s(%s)", d, c.spec.Name, c.p.api.Name, c.p.api.Namespace, c.p.api.UID)
	c.p.update(func() {
		c.last = corev1.ContainerState{Terminated: c.state.Terminated}
		c.state = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: text}}
	})
	c.p.event(corev1.EventTypeWarning, "BackOff", "Back-off restarting failed container %s in pod %s_%s(%s)", c.spec.Name, c.p.api.Name, c.p.api.Namespace, c.p.api.UID)
}

// abandon is for a container that is told to end while no process of it runs.
func (c *container) abandon() bool {
	c.p.update(func() {
		if c.state.Terminated != nil {
			return
		}
		c.state = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: 137, Reason: "ContainerStatusUnknown", Message: "The container could not be located when the pod was terminated",
		}}
		c.ready, c.started = false, false
	})
	return false
}

// pull gets the image, or tries until the pod is to end.
func (c *container) pull() (Image, bool) {
	ref, backoff := c.spec.Image, 2*time.Second
	for !c.p.stopped() {
		image, known := c.p.k.image(ref)
		if known {
			return image, c.present(image)
		}
		c.p.event(corev1.EventTypeNormal, "Pulling", "Pulling image %q", ref)
		why := fmt.Sprintf("failed to resolve reference %q: %s: not found", ref, ref)
		c.p.event(corev1.EventTypeWarning, "Failed", "Failed to pull image %q: %s", ref, why)
		c.p.event(corev1.EventTypeWarning, "Failed", "Error: ErrImagePull")
		c.wait("ErrImagePull", why)
		if !c.p.sleep(300 * time.Millisecond) {
			break
		}
		c.wait("ImagePullBackOff", fmt.Sprintf("Back-off pulling image %q: ErrImagePull: %s", ref, why))
		c.p.event(corev1.EventTypeNormal, "BackOff", "Back-off pulling image %q", ref)
		c.p.event(corev1.EventTypeWarning, "Failed", "Error: ImagePullBackOff")
		c.p.sleep(backoff)
		backoff = min(2*backoff, 5*time.Minute)
	}
	return Image{}, false
}

// present takes the time of a pull, once for an image.
func (c *container) present(image Image) bool {
	k := c.p.k
	k.mu.Lock()
	had := k.pulled[image.Ref]
	k.pulled[image.Ref] = true
	k.mu.Unlock()
	if had || image.Pull == 0 {
		c.p.event(corev1.EventTypeNormal, "Pulled", "Container image %q already present on machine", c.spec.Image)
		return true
	}
	c.p.event(corev1.EventTypeNormal, "Pulling", "Pulling image %q", c.spec.Image)
	if !c.p.sleep(image.Pull) {
		return false
	}
	c.p.event(corev1.EventTypeNormal, "Pulled", "Successfully pulled image %q in %s", c.spec.Image, image.Pull)
	return true
}

// once runs the process a single time; ok is false when the pod ended before one could be started.
func (c *container) once(ctx context.Context, image Image, n int) (code int32, ok bool) {
	var plan command
	for {
		var err error
		if plan, err = c.plan(ctx, image, n); err == nil {
			break
		}
		c.wait("CreateContainerConfigError", err.Error())
		c.p.event(corev1.EventTypeWarning, "Failed", "Error: %v", err)
		if !c.p.sleep(time.Second) {
			return 0, false
		}
	}
	began := metav1.Now()
	proc, err := start(plan)
	if err != nil {
		c.p.event(corev1.EventTypeWarning, "Failed", "Error: %v", err)
		c.ended(proc, began, corev1.ContainerStateTerminated{ExitCode: 128, Reason: "StartError", Message: err.Error()})
		return 128, true
	}
	c.running(proc, image, began)
	probing, stop := context.WithCancel(ctx)
	c.probe(probing, proc)
	select {
	case <-proc.done:
	case <-c.p.killed:
		c.p.event(corev1.EventTypeNormal, "Killing", "Stopping container %s", c.spec.Name)
		proc.stop(c.p.killAt)
	}
	stop()
	end := corev1.ContainerStateTerminated{ExitCode: proc.code, Reason: proc.reason()}
	if c.spec.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError && proc.code != 0 {
		end.Message = proc.out.tail()
	}
	c.ended(proc, began, end)
	return proc.code, true
}

func (c *container) running(proc *process, image Image, began metav1.Time) {
	c.p.update(func() {
		if c.state.Terminated != nil {
			c.last = corev1.ContainerState{Terminated: c.state.Terminated}
		}
		c.turn(proc)
		c.id, c.imageID = fmt.Sprintf("process://%d", proc.pid()), image.id()
		c.state = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: began}}
		c.started = c.spec.StartupProbe == nil
		c.ready = c.started && c.spec.ReadinessProbe == nil && !c.isInit
	})
	c.p.event(corev1.EventTypeNormal, "Started", "Container started")
}

func (c *container) ended(proc *process, began metav1.Time, end corev1.ContainerStateTerminated) {
	end.StartedAt, end.FinishedAt, end.ContainerID = began, metav1.Now(), c.id
	c.p.update(func() {
		if proc == nil { // never started
			c.turn(nil)
		}
		c.state = corev1.ContainerState{Terminated: &end}
		c.started = false
		c.ready = c.isInit && end.ExitCode == 0
	})
}

// turn makes proc the current process; nil stands for one that could not be started.
func (c *container) turn(proc *process) {
	if c.now != nil {
		c.previous = c.now
	}
	c.now = proc
}
