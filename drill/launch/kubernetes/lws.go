package kubernetes

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drkit/internal/errext"
)

// leaderWorkerSet renders a group of one pod: its leader, with the variables that the
// controller of LeaderWorkerSet sets. A group of several needs the controller: its
// workers find their leader by a headless Service and the group's identity.
func leaderWorkerSet(o object) (t corev1.PodTemplateSpec, err error) {
	size, found, err := unstructured.NestedInt64(o.Object, "spec", "leaderWorkerTemplate", "size")
	if err != nil {
		return t, fmt.Errorf("spec.leaderWorkerTemplate.size: %w", err)
	}
	if found && size > 1 {
		return t, errext.WithHint(fmt.Errorf("a group of %d pods cannot be rehearsed as bare pods: workers find their leader through the controller", size),
			"rehearse a variant with size: 1 in the region's files, named by canary.workload")
	}
	for _, name := range []string{"leaderTemplate", "workerTemplate"} { // a leader without a template of its own is made by the workers'
		fields, has, err := unstructured.NestedMap(o.Object, "spec", "leaderWorkerTemplate", name)
		if err != nil {
			return t, err
		}
		if !has {
			continue
		}
		if err := into(fields, &t); err != nil {
			return t, fmt.Errorf("spec.leaderWorkerTemplate.%s: %w", name, err)
		}
		for _, list := range [][]corev1.Container{t.Spec.InitContainers, t.Spec.Containers} {
			for i := range list {
				ofGroup(&list[i])
			}
		}
		return t, nil
	}
	return t, fmt.Errorf("has no spec.leaderWorkerTemplate.workerTemplate")
}

// ofGroup sets what the controller sets for the leader of a group of one. The leader's
// address is its own: there is no Service that would give it a name.
func ofGroup(c *corev1.Container) {
	c.Env = setEnv(c.Env, corev1.EnvVar{Name: "LWS_LEADER_ADDRESS", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}})
	c.Env = setEnv(c.Env, corev1.EnvVar{Name: "LWS_GROUP_SIZE", Value: "1"})
	c.Env = setEnv(c.Env, corev1.EnvVar{Name: "LWS_WORKER_INDEX", Value: "0"})
}

// setEnv sets a variable: in front, so that others may refer to it, and once.
func setEnv(env []corev1.EnvVar, v corev1.EnvVar) []corev1.EnvVar {
	out := []corev1.EnvVar{v}
	for _, e := range env {
		if e.Name != v.Name {
			out = append(out, e)
		}
	}
	return out
}
