//go:build linux

package kubelet

import (
	"context"
	"maps"
	"net"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
)

// Node is one node that the kubelet registers.
type Node struct {
	Name   string
	Region string // label topology.kubernetes.io/region
	GPUs   int    // nvidia.com/gpu
	Labels map[string]string
	Taints []corev1.Taint
}

// register makes the node, says that it is ready, and takes away the taint that
// a new node carries until something does.
func (k *Kubelet) register(ctx context.Context, n Node) error {
	labels := map[string]string{
		corev1.LabelHostname: n.Name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64", corev1.LabelTopologyRegion: n.Region,
	}
	maps.Copy(labels, n.Labels)
	nodes := k.Client.CoreV1().Nodes()
	_, err := nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: labels}, Spec: corev1.NodeSpec{Taints: n.Taints}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := nodes.Get(ctx, n.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Status = k.nodeStatus(n)
		_, err = nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := nodes.Get(ctx, n.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Spec.Taints = n.Taints
		_, err = nodes.Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
}

func (k *Kubelet) nodeStatus(n Node) corev1.NodeStatus {
	host, port, _ := net.SplitHostPort(k.Listener.Addr().String())
	number, _ := strconv.Atoi(port)
	capacity := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("512Gi"), corev1.ResourcePods: resource.MustParse("110"),
		corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
	}
	if n.GPUs > 0 {
		capacity["nvidia.com/gpu"] = *resource.NewQuantity(int64(n.GPUs), resource.DecimalSI)
	}
	now := metav1.Now()
	return corev1.NodeStatus{
		Capacity: capacity, Allocatable: capacity,
		Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "test kubelet", LastHeartbeatTime: now, LastTransitionTime: now,
		}},
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}, {Type: corev1.NodeHostName, Address: n.Name}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(number)}},
		NodeInfo:        corev1.NodeSystemInfo{OperatingSystem: "linux", Architecture: "amd64", KubeletVersion: "v1.37.2-test", ContainerRuntimeVersion: "process://1"},
	}
}

// renewLease is the node's heartbeat: without it the node controller takes the node for dead after a minute.
func (k *Kubelet) renewLease(ctx context.Context, node string) {
	seconds := int32(40)
	leases := k.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		now := metav1.NewMicroTime(time.Now())
		lease, err := leases.Get(ctx, node, metav1.GetOptions{})
		if err == nil {
			lease.Spec.RenewTime = &now
			_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
		}
		if apierrors.IsNotFound(err) {
			lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: node}}
			lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &node, LeaseDurationSeconds: &seconds, RenewTime: &now}
			_, _ = leases.Create(ctx, lease, metav1.CreateOptions{})
		}
	}, 10*time.Second)
}
