package kubernetes

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"drkit/drill/gitops"
)

// ungoverned refuses a canary that carries the mark of a GitOps controller, taken over
// from production by keep_labels or a patch: the controller takes it for its own, does
// not find it in Git and removes it. A mark that others use too is a note.
func ungoverned(pod *corev1.Pod) (note string, err error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
	if err != nil {
		return "", fmt.Errorf("reading pod %s: %w", pod.Name, err)
	}
	o, ok := gitops.OwnerOf(object)
	switch {
	case !ok || o.Paused:
		return "", nil
	case o.Reverts():
		return "", refused(fmt.Errorf("the canary would carry the mark of %s, which removes what it does not find in Git", o), "leave that label or annotation out of canary.keep_labels and canary.patches")
	}
	return fmt.Sprintf("the canary carries the mark of %s, if that tracks by this label", o), nil
}
