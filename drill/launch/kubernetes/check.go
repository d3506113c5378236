package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"drkit/drill"
	"drkit/drill/gitops"
	"drkit/internal/errext"
)

// Check finds everything that would keep a launch from working, without changing
// anything: the cluster and the namespace, what drkit may do there, kinds of resources
// that the deploy files need, what the pod refers to, selectors that match it, and the
// API server's own answer to a dry run, which knows quotas, policies and admission.
// The notes are what could not be seen.
func (l *Launcher) Check(ctx context.Context, s drill.Spec) (notes []string, err error) {
	pod, err := Render(l.o, s)
	if err != nil {
		return nil, refused(err, errext.Hint(err))
	}
	if err := l.reached(ctx); err != nil {
		return nil, err
	}
	errs := []error{l.allowed(ctx), l.kinds(ctx, s), l.setPriority(ctx, pod), unowned(pod)}
	unseen, missing := l.references(ctx, pod)
	more, err := l.unrouted(ctx, pod)
	errs = append(errs, missing, err)
	owned, err := ungoverned(pod)
	if errs = append(errs, err); owned != "" {
		more = append(more, owned)
	}
	if errors.Join(errs...) == nil { // else it would only say the same again
		errs = append(errs, l.dryRun(ctx, pod))
	}
	return slices.Concat(unseen, more), errors.Join(errs...)
}

// unowned refuses a pod that a GitOps controller would take for its own and remove.
func unowned(pod *corev1.Pod) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
	if err != nil {
		return err
	}
	if o, ok := gitops.OwnerOf(fields); ok && o.Reverts() {
		return refused(fmt.Errorf("the canary carries the mark of %s, which would remove it", o), "do not keep that label (canary.keep_labels)")
	}
	return nil
}

// reached asks the API server for its version: an address that nobody answers at and
// credentials that are not accepted are told apart from everything else.
func (l *Launcher) reached(ctx context.Context) error {
	asked, cancel := asking(ctx)
	defer cancel()
	err := l.core.Get().AbsPath("/version").Do(asked).Error()
	if err != nil {
		return refused(fmt.Errorf("the API server of context %s (%s): %w", l.o.Context, l.Server(), err), "kubectl --context "+l.o.Context+" version shows the same without drkit")
	}
	return nil
}

// permission is one thing that drkit does in the namespace.
type permission struct{ verb, group, resource, sub string }

var needed = []permission{
	{"create", "", "pods", ""}, {"patch", "", "pods", ""}, {"get", "", "pods", ""}, {"list", "", "pods", ""}, {"delete", "", "pods", ""},
	{"get", "", "pods", "log"}, {"list", "", "events", ""}, {"list", "discovery.k8s.io", "endpointslices", ""},
}

// allowed asks for every permission that a run needs, so that none is found to be
// missing half-way.
func (l *Launcher) allowed(ctx context.Context) error {
	all := needed
	if l.o.Reach != Direct {
		all = append(slices.Clone(needed), permission{"create", "", "pods", "portforward"})
	}
	var denied []string
	for _, p := range all {
		ok, err := l.may(ctx, p)
		if err != nil {
			return refused(fmt.Errorf("asking what may be done in namespace %s: %w", l.o.Namespace, err), "")
		}
		if !ok {
			denied = append(denied, p.String())
		}
	}
	if len(denied) > 0 {
		return refused(fmt.Errorf("not allowed in namespace %s: %s", l.o.Namespace, strings.Join(denied, ", ")), "docs/kubernetes.md has a Role with all that drkit needs")
	}
	return nil
}

func (p permission) String() string {
	if p.sub != "" {
		return p.verb + " " + p.resource + "/" + p.sub
	}
	return p.verb + " " + p.resource
}

func (l *Launcher) may(ctx context.Context, p permission) (bool, error) {
	review := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
		"spec": map[string]any{"resourceAttributes": map[string]any{"namespace": l.o.Namespace, "verb": p.verb, "group": p.group, "resource": p.resource, "subresource": p.sub}},
	}}
	asked, cancel := asking(ctx)
	defer cancel()
	got, err := l.dynamic.Resource(gvr("authorization.k8s.io", "v1", "selfsubjectaccessreviews")).Create(asked, review, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	ok, _, err := unstructured.NestedBool(got.Object, "status", "allowed")
	return ok, err
}

// kinds looks for a resource of the deploy files that the cluster does not know: the
// files could not be applied there on the day.
func (l *Launcher) kinds(ctx context.Context, s drill.Spec) error {
	var errs []error
	seen := map[schema.GroupVersionKind]bool{}
	for _, f := range s.Deploy {
		all, err := objects(f)
		if err != nil {
			continue // said by Render
		}
		for _, o := range all {
			k := o.GroupVersionKind()
			if seen[k] || strings.HasSuffix(k.Group, "kustomize.config.k8s.io") || k.Group == "kustomize.config.k8s.io" {
				continue
			}
			seen[k] = true
			known, err := l.knows(ctx, k)
			switch {
			case err != nil:
				errs = append(errs, refused(fmt.Errorf("asking which kinds of resources the cluster has: %w", err), ""))
			case !known:
				errs = append(errs, refused(fmt.Errorf("%s: the cluster does not know %s of %s", o, k.Kind, k.GroupVersion()), "install its CustomResourceDefinition in the region's cluster"))
			}
		}
	}
	return errors.Join(errs...)
}

// references looks for what the pod needs by name. What may not be looked at is a note:
// the cluster says it when the pod starts.
func (l *Launcher) references(ctx context.Context, pod *corev1.Pod) (notes []string, err error) {
	var errs []error
	for _, r := range referred(&pod.Spec) {
		asked, cancel := asking(ctx)
		_, err := l.dynamic.Resource(r.GroupVersionResource).Namespace(r.namespace(l.o.Namespace)).Get(asked, r.name, metav1.GetOptions{})
		cancel()
		switch {
		case apierrors.IsNotFound(err):
			errs = append(errs, refused(fmt.Errorf("%s %q is not in the cluster (namespace %s), and %s needs it", strings.TrimSuffix(r.Resource, "s"), r.name, l.o.Namespace, r.by), "make it there, as production's namespace has it"))
		case apierrors.IsForbidden(err):
			notes = append(notes, fmt.Sprintf("%s %q may not be looked at: whether it is there shows when the canary starts", strings.TrimSuffix(r.Resource, "s"), r.name))
		case err != nil:
			errs = append(errs, refused(fmt.Errorf("looking for %s %q: %w", strings.TrimSuffix(r.Resource, "s"), r.name, err), ""))
		}
	}
	return notes, errors.Join(errs...)
}

// reference is a resource that a pod needs, and what in it does.
type reference struct {
	schema.GroupVersionResource
	name, by string
}

func (r reference) namespace(own string) string {
	if r.Resource == "runtimeclasses" {
		return ""
	}
	return own
}

// referred lists what a pod needs by name. What is optional is left out, and so are
// Secrets: leave to look for one is leave to read it. The cluster names a missing one
// within seconds of the start.
func referred(spec *corev1.PodSpec) (out []reference) {
	add := func(group, resource, name, by string) {
		if name != "" && !slices.ContainsFunc(out, func(r reference) bool { return r.Resource == resource && r.name == name }) {
			out = append(out, reference{gvr(group, "v1", resource), name, by})
		}
	}
	add("", "serviceaccounts", spec.ServiceAccountName, "the pod")
	if spec.RuntimeClassName != nil {
		add("node.k8s.io", "runtimeclasses", *spec.RuntimeClassName, "the pod")
	}
	for _, v := range spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			add("", "persistentvolumeclaims", v.PersistentVolumeClaim.ClaimName, "volume "+v.Name)
		}
		if v.ConfigMap != nil && !yes(v.ConfigMap.Optional) {
			add("", "configmaps", v.ConfigMap.Name, "volume "+v.Name)
		}
	}
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		for _, e := range c.EnvFrom {
			if e.ConfigMapRef != nil && !yes(e.ConfigMapRef.Optional) {
				add("", "configmaps", e.ConfigMapRef.Name, "container "+c.Name)
			}
		}
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.ConfigMapKeyRef != nil && !yes(e.ValueFrom.ConfigMapKeyRef.Optional) {
				add("", "configmaps", e.ValueFrom.ConfigMapKeyRef.Name, "container "+c.Name)
			}
		}
	}
	return out
}

func yes(b *bool) bool { return b != nil && *b }

// dryRun lets the API server judge the pod as if it were made: schema, quota, limits,
// admission, Pod Security. Nothing is kept of it.
func (l *Launcher) dryRun(ctx context.Context, pod *corev1.Pod) error {
	made, err := l.apply(ctx, pod, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return refused(fmt.Errorf("the API server would not take the canary: %w", err), rejected(err))
	}
	return harmless(made)
}

// apply makes the pod by server-side apply, strictly and without force.
func (l *Launcher) apply(ctx context.Context, pod *corev1.Pod, o metav1.PatchOptions) (*corev1.Pod, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
	if err != nil {
		return nil, err
	}
	delete(fields, "status")
	u := unstructured.Unstructured{Object: fields}
	text, err := u.MarshalJSON()
	if err != nil {
		return nil, err
	}
	no := false
	o.FieldManager, o.FieldValidation, o.Force = FieldManager, metav1.FieldValidationStrict, &no
	asked, cancel := asking(ctx)
	defer cancel()
	got, err := l.pods().Patch(asked, pod.Name, applyPatch, text, o)
	if err != nil {
		return nil, err
	}
	return podOf(got)
}

// podOf reads a pod as the cluster has it: fields that are newer than this program are
// not its business.
func podOf(u *unstructured.Unstructured) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	return pod, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, pod)
}

// rejected says what to do about an API server's refusal.
func rejected(err error) string {
	text := err.Error()
	switch {
	case strings.Contains(text, "exceeded quota"):
		return "raise the namespace's ResourceQuota: the region could not take over within it either"
	case strings.Contains(text, "violates PodSecurity"):
		return "the namespace enforces a stricter Pod Security level than production's: give it the same"
	case strings.Contains(text, "not found") && strings.Contains(text, "namespace"):
		return "make the namespace first"
	case apierrors.IsForbidden(err):
		return "an admission rule of the cluster refuses it; canary.patches can add what the rule asks for"
	}
	return ""
}
