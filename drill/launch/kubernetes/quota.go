package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// quota adds up what the pods of a group need and refuses what the namespace's
// ResourceQuotas do not leave. The pods are as a dry run made them, with the defaults of
// LimitRanges in them.
func (l *Launcher) quota(ctx context.Context, made []*corev1.Pod) (notes []string, err error) {
	need := corev1.ResourceList{}
	for _, pod := range made {
		for name, q := range charged(&pod.Spec) {
			sum := need[name]
			sum.Add(q)
			need[name] = sum
		}
	}
	var errs []error
	err = l.each(ctx, gvr("", "v1", "resourcequotas"), l.o.Namespace, func(u unstructured.Unstructured) error {
		var q corev1.ResourceQuota
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &q); err != nil {
			return err
		}
		if note, of := counts(&q); note != "" {
			notes = append(notes, note)
		} else if of {
			errs = append(errs, exceeds(&q, need, len(made)))
		}
		return nil
	})
	if apierrors.IsForbidden(err) {
		return append(notes, fmt.Sprintf("resourcequotas of namespace %s may not be listed (list resourcequotas): whether they leave room for all %d pods of the group shows when the canary starts", l.o.Namespace, len(made))), nil
	}
	if err != nil {
		return notes, refused(fmt.Errorf("listing resourcequotas of namespace %s: %w", l.o.Namespace, err), "")
	}
	return notes, errors.Join(errs...)
}

// counts reports whether a quota is about pods that run without a deadline. One with
// another scope is told: each pod was judged by it, the group was not.
func counts(q *corev1.ResourceQuota) (note string, of bool) {
	of = true
	for _, s := range q.Spec.Scopes {
		switch s {
		case corev1.ResourceQuotaScopeTerminating:
			of = false
		case corev1.ResourceQuotaScopeNotTerminating:
		default:
			note = fmt.Sprintf("ResourceQuota %s counts pods of scope %s: whether it leaves room for the whole group was not added up", q.Name, s)
		}
	}
	if q.Spec.ScopeSelector != nil && len(q.Spec.ScopeSelector.MatchExpressions) > 0 {
		note = fmt.Sprintf("ResourceQuota %s has a scope selector: whether it leaves room for the whole group was not added up", q.Name)
	}
	if !of {
		note = ""
	}
	return note, of
}

func exceeds(q *corev1.ResourceQuota, need corev1.ResourceList, pods int) error {
	var over []string
	for _, name := range slices.Sorted(maps.Keys(q.Status.Hard)) {
		wanted, charged := need[name]
		if !charged {
			continue
		}
		hard, used := q.Status.Hard[name], q.Status.Used[name]
		sum := used.DeepCopy()
		if sum.Add(wanted); sum.Cmp(hard) > 0 {
			over = append(over, fmt.Sprintf("%s: %s needed, %s of %s used", name, wanted.String(), used.String(), hard.String()))
		}
	}
	if len(over) == 0 {
		return nil
	}
	return refused(fmt.Errorf("exceeded quota: %s leaves no room for the %d pods of the group: %s", q.Name, pods, strings.Join(over, "; ")),
		"raise the namespace's ResourceQuota: the region could not take over within it either")
}

// charged is what a pod counts for in a quota: its containers together, or its largest
// init container where that needs more, and its overhead.
func charged(spec *corev1.PodSpec) corev1.ResourceList {
	out := corev1.ResourceList{"pods": resource.MustParse("1"), "count/pods": resource.MustParse("1")}
	add := func(prefix string, of func(corev1.Container) corev1.ResourceList) {
		for name, q := range effective(spec, of) {
			out[corev1.ResourceName(prefix)+name] = q
			if plain := name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage; plain && prefix == "requests." {
				out[name] = q
			}
		}
	}
	add("requests.", func(c corev1.Container) corev1.ResourceList { return c.Resources.Requests })
	add("limits.", func(c corev1.Container) corev1.ResourceList { return c.Resources.Limits })
	return out
}

func effective(spec *corev1.PodSpec, of func(corev1.Container) corev1.ResourceList) corev1.ResourceList {
	out, sidecars := corev1.ResourceList{}, corev1.ResourceList{}
	plus := func(to corev1.ResourceList, more corev1.ResourceList) {
		for name, q := range more {
			sum := to[name]
			sum.Add(q)
			to[name] = sum
		}
	}
	for _, c := range spec.Containers {
		plus(out, of(c))
	}
	peak := corev1.ResourceList{}
	for _, c := range spec.InitContainers {
		now := of(c)
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways { // it stays beside the containers
			plus(out, now)
			plus(sidecars, now)
			continue
		}
		sum := sidecars.DeepCopy()
		plus(sum, now)
		for name, q := range sum {
			if old := peak[name]; q.Cmp(old) > 0 {
				peak[name] = q
			}
		}
	}
	for name, q := range peak {
		if old := out[name]; q.Cmp(old) > 0 {
			out[name] = q
		}
	}
	plus(out, spec.Overhead)
	return out
}
