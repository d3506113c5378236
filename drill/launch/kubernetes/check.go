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
	w, err := l.o.choose(s)
	if err != nil {
		return nil, refused(err, errext.Hint(err))
	}
	all, err := l.o.render(w, s)
	if err != nil {
		return nil, refused(err, errext.Hint(err))
	}
	if err := l.reached(ctx); err != nil {
		return nil, err
	}
	errs := []error{l.allowed(ctx), l.kinds(ctx, s), l.setPriority(ctx, all...)}
	unseen, missing := l.references(ctx, all)
	more, err := l.unrouted(ctx, all...)
	errs = append(errs, missing, err)
	for _, pod := range all[:min(2, len(all))] { // all workers are alike
		owned, err := ungoverned(pod)
		if errs = append(errs, unowned(pod), err); owned != "" && !slices.Contains(more, owned) {
			more = append(more, owned)
		}
	}
	if errors.Join(errs...) == nil { // else it would only say the same again
		unsaid, err := l.dryRuns(ctx, all)
		more, errs = append(more, unsaid...), append(errs, err)
	}
	return slices.Concat(w.notes, unseen, more), errors.Join(errs...)
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

// dryRuns lets the API server judge the pods as if they were made: schema, quota,
// limits, admission, Pod Security. Nothing is kept of it. Each is judged as if it were
// alone, so the quota of a group is added up here.
func (l *Launcher) dryRuns(ctx context.Context, all []*corev1.Pod) (notes []string, err error) {
	var made []*corev1.Pod
	for i, pod := range all {
		if i > 0 {
			pod = pod.DeepCopy()
			ledBy(pod, "192.0.2.1") // an address for documentation (RFC 5737): the leader's is not known yet
		}
		got, err := l.apply(ctx, pod, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return nil, refused(fmt.Errorf("the API server would not take pod %s: %w", pod.Name, err), rejected(err))
		}
		if err := harmless(got); err != nil {
			return nil, err
		}
		made = append(made, got)
	}
	if len(made) < 2 {
		return nil, nil
	}
	return l.quota(ctx, made)
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
