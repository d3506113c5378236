package kubernetes

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drkit/internal/errext"
)

// priorityClass is what matters of a PriorityClass.
type priorityClass struct {
	name  string
	value int64
	never bool // preemptionPolicy: Never
	usual bool
}

// priority chooses the canary's priority class so that it never pre-empts. A pod's own
// preemptionPolicy must be that of its class, and without a class it is to pre-empt:
// so it takes a class that says Never, the lowest one of these that is not above 0. A
// pod without a class has priority 0 and can pre-empt nothing where no class is lower;
// then it needs none. Anything else is refused.
func (o Options) priority(classes []priorityClass) (name string, err error) {
	var chosen, usual *priorityClass
	lower := ""
	for i, c := range classes {
		switch {
		case o.PriorityClass != "" && c.name == o.PriorityClass && !c.never:
			return "", refused(fmt.Errorf("priority class %s may pre-empt other pods", c.name), "take one with preemptionPolicy: Never")
		case o.PriorityClass == c.name:
			return c.name, nil
		case o.PriorityClass == "" && c.never && c.value <= 0 && (chosen == nil || c.value < chosen.value):
			chosen = &classes[i]
		}
		if c.usual && (usual == nil || c.value < usual.value) {
			usual = &classes[i]
		}
		if c.value < 0 && lower == "" {
			lower = c.name
		}
	}
	switch {
	case o.PriorityClass != "":
		return "", refused(fmt.Errorf("the cluster has no priority class %s", o.PriorityClass), makeClass)
	case chosen != nil:
		return chosen.name, nil
	case usual != nil && !usual.never:
		return "", refused(fmt.Errorf("pods without a priority class get %s (%d), which may pre-empt others, and no class with preemptionPolicy: Never and a value of at most 0 is there", usual.name, usual.value), makeClass)
	case usual == nil && lower != "":
		return "", refused(fmt.Errorf("a pod without a priority class could pre-empt those of class %s, and no class with preemptionPolicy: Never and a value of at most 0 is there", lower), makeClass)
	}
	return "", nil
}

const makeClass = "make one: kubectl create priorityclass drkit-canary --value=-10 --preemption-policy=Never"

// setPriority puts the class into pods. The cluster then gives them the class's policy.
func (l *Launcher) setPriority(ctx context.Context, all ...*corev1.Pod) error {
	var classes []priorityClass
	err := l.each(ctx, gvr("scheduling.k8s.io", "v1", "priorityclasses"), "", func(u unstructured.Unstructured) error {
		c := priorityClass{name: u.GetName()}
		c.value, _, _ = unstructured.NestedInt64(u.Object, "value")
		c.usual, _, _ = unstructured.NestedBool(u.Object, "globalDefault")
		policy, _, _ := unstructured.NestedString(u.Object, "preemptionPolicy")
		c.never = policy == string(corev1.PreemptNever)
		classes = append(classes, c)
		return nil
	})
	if apierrors.IsForbidden(err) && l.o.PriorityClass != "" {
		// Not to be looked at: the API server compares the class's policy with the
		// pod's own, and refuses the pod when the class may pre-empt.
		for _, pod := range all {
			pod.Spec.PriorityClassName = l.o.PriorityClass
		}
		return nil
	}
	if err != nil {
		return refused(fmt.Errorf("listing priority classes, to see that the canary cannot pre-empt: %w", err), "allow drkit to list them, or name one with preemptionPolicy: Never as canary.priority_class")
	}
	name, err := l.o.priority(classes)
	if err != nil {
		return err
	}
	for _, pod := range all {
		if pod.Spec.PriorityClassName = name; name == "" {
			pod.Spec.PreemptionPolicy = nil // the cluster's own; nothing is lower than this pod
		}
	}
	return nil
}

// harmless reports, of a pod as the cluster made it, that it cannot pre-empt.
func harmless(pod *corev1.Pod) error {
	if p := pod.Spec.PreemptionPolicy; p != nil && *p == corev1.PreemptNever {
		return nil
	}
	if pod.Spec.PriorityClassName == "" && (pod.Spec.Priority == nil || *pod.Spec.Priority == 0) {
		return nil
	}
	return errext.WithStatus(errors.New("the cluster gave the canary a priority that may pre-empt others"), errext.Refused)
}
