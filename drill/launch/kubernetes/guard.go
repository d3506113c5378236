package kubernetes

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"drkit/internal/errext"
)

// unrouted refuses pods that a selector of the cluster matches. What could not be
// looked at is told: nobody knows then.
func (l *Launcher) unrouted(ctx context.Context, all ...*corev1.Pod) (notes []string, err error) {
	var claims []claim
	for _, s := range selectors {
		found, err := l.claims(ctx, s)
		switch {
		case err == nil:
			claims = append(claims, found...)
		case apierrors.IsForbidden(err) && !s.core:
			notes = append(notes, fmt.Sprintf("%s of %s may not be listed: whether one of them selects the canary is not known", s.Resource, l.o.Namespace))
		default:
			return notes, refused(fmt.Errorf("listing %s of namespace %s, to see that none selects the canary: %w", s.Resource, l.o.Namespace, err), "drkit needs get and list of them: see docs/kubernetes.md")
		}
	}
	routers, unseen, err := l.routers(ctx)
	if err != nil {
		return notes, err
	}
	notes = append(notes, unseen...)
	claims = append(claims, routers...)
	for _, pod := range all {
		if by := matching(labels.Set(pod.Labels), claims); len(by) > 0 {
			return notes, refused(fmt.Errorf("the labels %q of pod %s are wanted by others: %s", labels.Set(pod.Labels), pod.Name, strings.Join(by, "; ")),
				"keep fewer labels (canary.keep_labels), patch them, or give the canary a namespace of its own")
		}
	}
	return notes, nil
}

// claims lists a kind of resource, where the cluster has it.
func (l *Launcher) claims(ctx context.Context, s selecting) (out []claim, err error) {
	if !s.core {
		if ok, err := l.serves(ctx, s.GroupVersionResource); !ok {
			return nil, err
		}
	}
	err = l.each(ctx, s.GroupVersionResource, l.o.Namespace, func(u unstructured.Unstructured) error {
		c, selects, err := s.claim(u)
		if err == nil && selects {
			out = append(out, c)
		}
		return err
	})
	return out, err
}

// each lists page by page.
func (l *Launcher) each(ctx context.Context, r schema.GroupVersionResource, namespace string, do func(unstructured.Unstructured) error) error {
	o := metav1.ListOptions{Limit: 500}
	for {
		asked, cancel := asking(ctx)
		list, err := l.dynamic.Resource(r).Namespace(namespace).List(asked, o)
		cancel()
		if err != nil {
			return err
		}
		for _, u := range list.Items {
			if u.GetKind() == "" { // items of a list need not say what they are
				u.SetKind(strings.TrimSuffix(list.GetKind(), "List"))
			}
			if err := do(u); err != nil {
				return err
			}
		}
		if o.Continue = list.GetContinue(); o.Continue == "" {
			return nil
		}
	}
}

// routers reads what routers on the cluster discover engines by, from the arguments of
// the pods' templates: of all namespaces, or where that is not allowed of the canary's.
func (l *Launcher) routers(ctx context.Context) (out []claim, notes []string, err error) {
	for _, resource := range []string{"deployments", "statefulsets", "daemonsets"} {
		r := gvr("apps", "v1", resource)
		read := func(u unstructured.Unstructured) error {
			spec, found, err := unstructured.NestedMap(u.Object, "spec", "template", "spec")
			if err != nil || !found {
				return err
			}
			out = append(out, routerClaims(u.GetKind()+" "+u.GetNamespace()+"/"+u.GetName(), u.GetNamespace(), l.o.Namespace, containersOf(spec))...)
			return nil
		}
		err := l.each(ctx, r, metav1.NamespaceAll, read)
		if apierrors.IsForbidden(err) {
			notes = append(notes, fmt.Sprintf("%s outside of namespace %s may not be listed: whether a router there discovers the canary is not known", resource, l.o.Namespace))
			err = l.each(ctx, r, l.o.Namespace, read)
		}
		if err != nil {
			return out, notes, refused(fmt.Errorf("listing %s, to see that no router discovers the canary: %w", resource, err), "drkit needs get and list of them: see docs/kubernetes.md")
		}
	}
	return out, notes, nil
}

// containersOf reads no more of a template than commands: other fields may be newer
// than this program.
func containersOf(spec map[string]any) (out corev1.PodSpec) {
	list, _ := spec["containers"].([]any)
	for _, c := range list {
		fields, _ := c.(map[string]any)
		command, _, _ := unstructured.NestedStringSlice(fields, "command")
		args, _, _ := unstructured.NestedStringSlice(fields, "args")
		out.Containers = append(out.Containers, corev1.Container{Command: command, Args: args})
	}
	return out
}

// routedTo says which EndpointSlice names the pod, "" if none does: whatever the
// selectors said, requests would then reach it.
func (l *Launcher) routedTo(ctx context.Context, pod *corev1.Pod) (string, error) {
	by := ""
	err := l.each(ctx, gvr("discovery.k8s.io", "v1", "endpointslices"), pod.Namespace, func(u unstructured.Unstructured) error {
		endpoints, known := u.Object["endpoints"].([]any)
		if !known && u.Object["endpoints"] != nil { // null is how an API server writes that of a Service without pods
			return fmt.Errorf("EndpointSlice %s has endpoints that are not understood", u.GetName())
		}
		for _, e := range endpoints {
			fields, _ := e.(map[string]any)
			uid, _, _ := unstructured.NestedString(fields, "targetRef", "uid")
			addresses, _, _ := unstructured.NestedStringSlice(fields, "addresses")
			if uid == string(pod.UID) || contains(addresses, pod.Status.PodIP) {
				by = u.GetName()
			}
		}
		return nil
	})
	return by, err
}

func contains(list []string, s string) bool {
	for _, e := range list {
		if s != "" && e == s {
			return true
		}
	}
	return false
}

// refused is a problem found before any change.
func refused(err error, hint string) error {
	return errext.WithHint(errext.WithStatus(err, errext.Refused), hint)
}
