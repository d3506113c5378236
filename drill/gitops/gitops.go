// Package gitops tells from a Kubernetes object's own metadata which GitOps
// controller owns it: a change of such an object is taken back by the controller,
// within seconds or at its next run, and a cutover that rests on it does not last.
//
//	if o, ok := gitops.OwnerOf(object); ok { … o.What … }
//
// It reads what Argo CD and Flux leave on the objects that they manage: Argo CD's
// tracking annotation and labels, Flux's labels, and the field managers of both.
// That nothing is found says that the object carries no mark, not that nobody
// manages it.
package gitops

import (
	"fmt"
	"slices"
	"strings"
)

// Owner is a controller that manages an object.
type Owner struct {
	Tool   string // Argo CD, Flux
	Name   string // of its Application, Kustomization or HelmRelease, with the namespace where it is known
	Kind   string // Application, Kustomization, HelmRelease; "": not known
	Mark   string // the annotation, label or field manager that says so
	Paused bool   // the object itself tells the controller to leave it alone
	Maybe  bool   // the mark is used by others too: Helm sets the same label
}

// String is the owner for people.
func (o Owner) String() string {
	text := strings.TrimSpace(o.Tool + " " + o.Kind)
	if o.Name != "" {
		text += " " + o.Name
	}
	text += " (" + o.Mark + ")"
	if o.Paused {
		text += ", paused for this object"
	}
	return text
}

// Reverts says that the owner has to be reckoned with: it would take a change back,
// as far as the object shows.
func (o Owner) Reverts() bool { return !o.Paused && !o.Maybe }

// The marks.
const (
	argoTracking  = "argocd.argoproj.io/tracking-id"
	argoInstance  = "argocd.argoproj.io/instance"
	plainInstance = "app.kubernetes.io/instance"
	helmManager   = "app.kubernetes.io/managed-by"
	fluxReconcile = "kustomize.toolkit.fluxcd.io/reconcile"
	fluxSSA       = "kustomize.toolkit.fluxcd.io/ssa"
	fluxKustomize = "kustomize.toolkit.fluxcd.io/"
	fluxHelm      = "helm.toolkit.fluxcd.io/"
	fluxDrift     = "helm.toolkit.fluxcd.io/driftDetection"
)

// managers are field managers that only a GitOps controller writes as.
var managers = map[string]Owner{
	"argocd-controller":             {Tool: "Argo CD"},
	"argocd-application-controller": {Tool: "Argo CD"},
	"kustomize-controller":          {Tool: "Flux", Kind: "Kustomization"},
	"helm-controller":               {Tool: "Flux", Kind: "HelmRelease"},
}

// OwnerOf reads an object as Kubernetes gives it: apiVersion, kind and metadata. ok
// is false where it carries no mark.
func OwnerOf(object map[string]any) (o Owner, ok bool) {
	meta := child(object, "metadata")
	annotations, labels := child(meta, "annotations"), child(meta, "labels")
	if id := text(annotations, argoTracking); id != "" && tracks(id, object) {
		name, _, _ := strings.Cut(id, ":")
		return Owner{Tool: "Argo CD", Kind: "Application", Name: application(name), Mark: "annotation " + argoTracking}, true
	}
	for _, prefix := range []string{fluxKustomize, fluxHelm} {
		if name := text(labels, prefix+"name"); name != "" {
			return flux(prefix, name, labels, annotations), true
		}
	}
	if name := text(labels, argoInstance); name != "" {
		return Owner{Tool: "Argo CD", Kind: "Application", Name: name, Mark: "label " + argoInstance}, true
	}
	if o, ok := managed(meta); ok {
		return o, true
	}
	if name := text(labels, plainInstance); name != "" && text(labels, helmManager) != "Helm" {
		return Owner{Tool: "Argo CD", Kind: "Application", Name: name, Mark: "label " + plainInstance, Maybe: true}, true
	}
	return Owner{}, false
}

func flux(prefix, name string, labels, annotations map[string]any) Owner {
	o := Owner{Tool: "Flux", Kind: "Kustomization", Name: name, Mark: "label " + prefix + "name"}
	if ns := text(labels, prefix+"namespace"); ns != "" {
		o.Name = ns + "/" + name
	}
	if prefix == fluxHelm {
		o.Kind, o.Paused = "HelmRelease", text(annotations, fluxDrift) == "disabled"
		return o
	}
	o.Paused = text(annotations, fluxReconcile) == "disabled" || slices.Contains([]string{"Ignore", "IfNotPresent"}, text(annotations, fluxSSA))
	return o
}

// application is an Application's name: one outside Argo CD's own namespace is
// written namespace_name.
func application(name string) string {
	if ns, n, ok := strings.Cut(name, "_"); ok {
		return ns + "/" + n
	}
	return name
}

// tracks says that a tracking id (app:group/Kind:namespace/name) is this object's:
// Argo CD leaves alone what was copied together with another's.
func tracks(id string, object map[string]any) bool {
	parts := strings.SplitN(id, ":", 3)
	if len(parts) != 3 {
		return false
	}
	group, kind, ok := strings.Cut(parts[1], "/")
	meta := child(object, "metadata")
	ns, name, named := strings.Cut(parts[2], "/")
	version := text(object, "apiVersion")
	own, _, grouped := strings.Cut(version, "/")
	if !grouped {
		own = ""
	}
	if !ok || !named || name != text(meta, "name") {
		return false
	}
	// A list's items carry neither kind nor apiVersion; a cluster-wide object has no namespace.
	return (text(object, "kind") == "" || kind == text(object, "kind")) && (version == "" || group == own) && (text(meta, "namespace") == "" || ns == text(meta, "namespace"))
}

// managed finds a controller among the writers of the object's fields. One that wrote
// only the status does not own what people change.
func managed(meta map[string]any) (Owner, bool) {
	list, _ := meta["managedFields"].([]any)
	for _, item := range list {
		entry, _ := item.(map[string]any)
		o, known := managers[text(entry, "manager")]
		if known && text(entry, "subresource") == "" {
			o.Mark = fmt.Sprintf("field manager %s", text(entry, "manager"))
			return o, true
		}
	}
	return Owner{}, false
}

func child(m map[string]any, key string) map[string]any {
	c, _ := m[key].(map[string]any)
	return c
}

func text(m map[string]any, key string) string {
	s, _ := m[key].(string)
	return s
}
