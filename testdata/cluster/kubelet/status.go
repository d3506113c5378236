//go:build linux

package kubelet

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const statusPatchType = types.StrategicMergePatchType

// statusPatch is the pod's status as a patch that fits this very pod only, with what it rests on.
func (p *pod) statusPatch() (ended, deleted bool, patch []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.setConditions()
	status := corev1.PodStatus{
		Phase: p.phase(), Reason: p.reason, Message: p.text, Conditions: p.conditions, StartTime: &p.since,
		HostIP: p.k.hostIP(), HostIPs: []corev1.HostIP{{IP: p.k.hostIP()}}, PodIP: p.ip, PodIPs: []corev1.PodIP{{IP: p.ip}},
	}
	for _, c := range p.init {
		status.InitContainerStatuses = append(status.InitContainerStatuses, c.status())
	}
	for _, c := range p.main {
		status.ContainerStatuses = append(status.ContainerStatuses, c.status())
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.api.UID}, "status": status})
	if err != nil {
		panic(err) // API types always encode
	}
	return p.ended, p.deleted, patch
}

func (p *pod) phase() corev1.PodPhase {
	failed, waiting := p.reason != "", false
	for _, c := range append(p.init[:len(p.init):len(p.init)], p.main...) {
		failed = failed || c.state.Terminated == nil || c.state.Terminated.ExitCode != 0
	}
	for _, c := range p.main {
		waiting = waiting || c.state.Waiting != nil && c.last.Terminated == nil
	}
	switch {
	case p.ended && failed:
		return corev1.PodFailed
	case p.ended:
		return corev1.PodSucceeded
	case !p.initialized || waiting:
		return corev1.PodPending
	}
	return corev1.PodRunning
}

func (p *pod) setConditions() {
	var unready []string
	for _, c := range p.main {
		if !c.ready {
			unready = append(unready, c.spec.Name)
		}
	}
	why, text := "ContainersNotReady", fmt.Sprintf("containers with unready status: [%s]", strings.Join(unready, " "))
	if p.phase() == corev1.PodSucceeded {
		why, text = "PodCompleted", ""
	}
	p.condition(corev1.PodReadyToStartContainers, !p.ended, "", "")
	p.condition(corev1.PodInitialized, p.initialized, "ContainersNotInitialized", "containers with incomplete status")
	p.condition(corev1.ContainersReady, len(unready) == 0 && !p.ended, why, text)
	p.condition(corev1.PodReady, len(unready) == 0 && !p.ended, why, text)
}

// condition sets one condition; the time is that of its last change.
func (p *pod) condition(kind corev1.PodConditionType, holds bool, reason, text string) {
	c := corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}
	if !holds {
		c.Status, c.Reason, c.Message = corev1.ConditionFalse, reason, text
	}
	for i, old := range p.conditions {
		if old.Type != kind {
			continue
		}
		if old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		p.conditions[i] = c
		return
	}
	p.conditions = append(p.conditions, c)
}

// status is one container's part; the pod's lock is held.
func (c *container) status() corev1.ContainerStatus {
	started := c.started
	return corev1.ContainerStatus{
		Name: c.spec.Name, Image: c.spec.Image, ImageID: c.imageID, ContainerID: c.id, State: c.state, LastTerminationState: c.last,
		RestartCount: c.restarts, Ready: c.ready, Started: &started,
	}
}
