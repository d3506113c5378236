package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// reference is a resource that a pod needs by name, what in the pod does, and the keys
// of it that are named.
type reference struct {
	schema.GroupVersionResource
	name, by string
	keys     []neededKey
}

type neededKey struct{ name, by string }

func (r reference) namespace(own string) string {
	if r.Resource == "runtimeclasses" {
		return ""
	}
	return own
}

func (r reference) String() string {
	return fmt.Sprintf("%s %q", strings.TrimSuffix(strings.Replace(r.Resource, "classes", "class", 1), "s"), r.name)
}

// references looks for what the pods need by name. What may not be looked at is a note,
// with the permission that is lacking: the cluster says it when a pod starts.
func (l *Launcher) references(ctx context.Context, all []*corev1.Pod) (notes []string, err error) {
	var wanted []reference
	for _, pod := range all {
		wanted = referred(wanted, &pod.Spec)
	}
	var errs []error
	for i := 0; i < len(wanted); i++ { // what is found may name more
		r := wanted[i]
		found, err := l.lookFor(ctx, r)
		switch {
		case apierrors.IsNotFound(err) && r.Resource == "serviceaccounts" && r.name == defaultAccount:
			// no pod names it: that the namespace lacks it, or is not there, says the dry run
		case apierrors.IsNotFound(err):
			errs = append(errs, refused(fmt.Errorf("%s is not in the cluster (namespace %s), and %s needs it", r, l.o.Namespace, r.by), "make it there, as production's namespace has it"))
		case apierrors.IsForbidden(err):
			notes = append(notes, fmt.Sprintf("%s may not be looked at (get %s is not allowed in namespace %s): whether it is there shows when the canary starts", r, r.Resource, l.o.Namespace))
		case err != nil:
			errs = append(errs, refused(fmt.Errorf("looking for %s: %w", r, err), ""))
		case r.Resource == "configmaps":
			for _, key := range lacks(found, r.keys) {
				errs = append(errs, refused(fmt.Errorf("%s of namespace %s has no key %q, and %s needs it", r, l.o.Namespace, key.name, key.by), "give it the key, as production's has it"))
			}
		case r.Resource == "serviceaccounts":
			wanted = pullSecretsOf(wanted, found, all)
		}
	}
	return notes, errors.Join(errs...)
}

// lookFor gets a resource. Of a Secret it asks for no more than that it is there: its
// values never reach this program, and which keys it has is for the cluster to say.
func (l *Launcher) lookFor(ctx context.Context, r reference) (*unstructured.Unstructured, error) {
	asked, cancel := asking(ctx)
	defer cancel()
	if r.Resource == "secrets" {
		return nil, l.core.Get().Namespace(l.o.Namespace).Resource("secrets").Name(r.name).
			SetHeader("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").Do(asked).Error()
	}
	return l.dynamic.Resource(r.GroupVersionResource).Namespace(r.namespace(l.o.Namespace)).Get(asked, r.name, metav1.GetOptions{})
}

// lacks are the keys that a ConfigMap does not have.
func lacks(u *unstructured.Unstructured, keys []neededKey) (missing []neededKey) {
	data, _, _ := unstructured.NestedMap(u.Object, "data")
	binary, _, _ := unstructured.NestedMap(u.Object, "binaryData")
	for _, key := range keys {
		if data[key.name] == nil && binary[key.name] == nil {
			missing = append(missing, key)
		}
	}
	return missing
}

// pullSecretsOf adds what a ServiceAccount lends to pods that name no Secrets of their
// own to pull images with.
func pullSecretsOf(wanted []reference, account *unstructured.Unstructured, all []*corev1.Pod) []reference {
	list, _, _ := unstructured.NestedSlice(account.Object, "imagePullSecrets")
	lent := slices.ContainsFunc(all, func(p *corev1.Pod) bool {
		return len(p.Spec.ImagePullSecrets) == 0 && accountOf(&p.Spec) == account.GetName()
	})
	for _, e := range list {
		fields, _ := e.(map[string]any)
		if name, _ := fields["name"].(string); lent {
			wanted = want(wanted, "", "secrets", name, "service account "+account.GetName()+", to pull images,")
		}
	}
	return wanted
}

// defaultAccount is that of a pod which names none.
const defaultAccount = "default"

func accountOf(spec *corev1.PodSpec) string { return cmp.Or(spec.ServiceAccountName, defaultAccount) }

// want adds a reference, or keys to one that is known.
func want(all []reference, group, resource, name, by string, keys ...string) []reference {
	if name == "" {
		return all
	}
	at := slices.IndexFunc(all, func(r reference) bool { return r.Resource == resource && r.name == name })
	if at < 0 {
		at = len(all)
		all = append(all, reference{gvr(group, "v1", resource), name, by, nil})
	}
	for _, key := range keys {
		if k := (neededKey{key, by}); !slices.Contains(all[at].keys, k) {
			all[at].keys = append(all[at].keys, k)
		}
	}
	return all
}

// referred adds what a pod needs by name. What is optional is left out.
func referred(all []reference, spec *corev1.PodSpec) []reference {
	all = want(all, "", "serviceaccounts", accountOf(spec), "the pod")
	if spec.RuntimeClassName != nil {
		all = want(all, "node.k8s.io", "runtimeclasses", *spec.RuntimeClassName, "the pod")
	}
	for _, s := range spec.ImagePullSecrets {
		all = want(all, "", "secrets", s.Name, "the pod, to pull images,")
	}
	for _, v := range spec.Volumes {
		all = ofVolume(all, v)
	}
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		all = ofContainer(all, c)
	}
	return all
}

func ofVolume(all []reference, v corev1.Volume) []reference {
	by := "volume " + v.Name
	switch {
	case v.PersistentVolumeClaim != nil:
		all = want(all, "", "persistentvolumeclaims", v.PersistentVolumeClaim.ClaimName, by)
	case v.ConfigMap != nil && !yes(v.ConfigMap.Optional):
		all = want(all, "", "configmaps", v.ConfigMap.Name, by, keysOf(v.ConfigMap.Items)...)
	case v.Secret != nil && !yes(v.Secret.Optional):
		all = want(all, "", "secrets", v.Secret.SecretName, by)
	case v.CSI != nil && v.CSI.NodePublishSecretRef != nil:
		all = want(all, "", "secrets", v.CSI.NodePublishSecretRef.Name, by)
	case v.Projected != nil:
		for _, s := range v.Projected.Sources {
			if s.ConfigMap != nil && !yes(s.ConfigMap.Optional) {
				all = want(all, "", "configmaps", s.ConfigMap.Name, by, keysOf(s.ConfigMap.Items)...)
			}
			if s.Secret != nil && !yes(s.Secret.Optional) {
				all = want(all, "", "secrets", s.Secret.Name, by)
			}
		}
	}
	return all
}

func keysOf(items []corev1.KeyToPath) (keys []string) {
	for _, i := range items {
		keys = append(keys, i.Key)
	}
	return keys
}

func ofContainer(all []reference, c corev1.Container) []reference {
	by := "container " + c.Name
	for _, e := range c.EnvFrom {
		if e.ConfigMapRef != nil && !yes(e.ConfigMapRef.Optional) {
			all = want(all, "", "configmaps", e.ConfigMapRef.Name, by)
		}
		if e.SecretRef != nil && !yes(e.SecretRef.Optional) {
			all = want(all, "", "secrets", e.SecretRef.Name, by)
		}
	}
	for _, e := range c.Env {
		if e.ValueFrom == nil {
			continue
		}
		if k := e.ValueFrom.ConfigMapKeyRef; k != nil && !yes(k.Optional) {
			all = want(all, "", "configmaps", k.Name, by, k.Key)
		}
		if k := e.ValueFrom.SecretKeyRef; k != nil && !yes(k.Optional) {
			all = want(all, "", "secrets", k.Name, by)
		}
	}
	return all
}

func yes(b *bool) bool { return b != nil && *b }
