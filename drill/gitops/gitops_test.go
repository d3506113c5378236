package gitops

import (
	"testing"

	"gopkg.in/yaml.v3"
)

// The objects follow the forms that Argo CD (user guide, resource tracking) and Flux
// (kustomize-controller and helm-controller, API reference) document.
func TestOwnerOf(t *testing.T) {
	for name, c := range map[string]struct{ object, want string }{
		"argo by annotation": {`
apiVersion: apps/v1
kind: Deployment
metadata:
  name: router
  namespace: llm
  annotations: {"argocd.argoproj.io/tracking-id": "chat:apps/Deployment:llm/router"}`, "Argo CD Application chat (annotation argocd.argoproj.io/tracking-id)"},
		"argo, core group": {`
apiVersion: v1
kind: Service
metadata: {name: router, namespace: llm, annotations: {"argocd.argoproj.io/tracking-id": "chat:/Service:llm/router"}}`, "Argo CD Application chat (annotation argocd.argoproj.io/tracking-id)"},
		"argo, application elsewhere": {`
apiVersion: v1
kind: Service
metadata: {name: router, namespace: llm, annotations: {"argocd.argoproj.io/tracking-id": "team-a_chat:/Service:llm/router"}}`, "Argo CD Application team-a/chat (annotation argocd.argoproj.io/tracking-id)"},
		"copied with another's annotation": {`
apiVersion: v1
kind: Service
metadata: {name: copy, namespace: llm, annotations: {"argocd.argoproj.io/tracking-id": "chat:/Service:llm/router"}}`, ""},
		"argo by its own label": {`
metadata: {name: router, labels: {"argocd.argoproj.io/instance": chat}}`, "Argo CD Application chat (label argocd.argoproj.io/instance)"},
		"argo by the shared label": {`
metadata: {name: router, labels: {"app.kubernetes.io/instance": chat}}`, "Argo CD Application chat (label app.kubernetes.io/instance)"},
		"helm's label": {`
metadata: {name: router, labels: {"app.kubernetes.io/instance": chat, "app.kubernetes.io/managed-by": Helm}}`, ""},
		"flux kustomization": {`
metadata: {name: router, labels: {"kustomize.toolkit.fluxcd.io/name": apps, "kustomize.toolkit.fluxcd.io/namespace": flux-system}}`,
			"Flux Kustomization flux-system/apps (label kustomize.toolkit.fluxcd.io/name)"},
		"flux, paused": {`
metadata: {name: router, annotations: {"kustomize.toolkit.fluxcd.io/reconcile": disabled}, labels: {"kustomize.toolkit.fluxcd.io/name": apps, "kustomize.toolkit.fluxcd.io/namespace": flux-system}}`,
			"Flux Kustomization flux-system/apps (label kustomize.toolkit.fluxcd.io/name), paused for this object"},
		"flux helm release": {`
metadata: {name: router, labels: {"helm.toolkit.fluxcd.io/name": router, "helm.toolkit.fluxcd.io/namespace": llm, "app.kubernetes.io/managed-by": Helm, "app.kubernetes.io/instance": router}}`,
			"Flux HelmRelease llm/router (label helm.toolkit.fluxcd.io/name)"},
		"argo by server-side apply": {`
metadata: {name: router, managedFields: [{manager: kubectl, operation: Update}, {manager: argocd-controller, operation: Apply}]}`, "Argo CD (field manager argocd-controller)"},
		"flux by server-side apply": {`
metadata: {name: router, managedFields: [{manager: kustomize-controller, operation: Apply}]}`, "Flux Kustomization (field manager kustomize-controller)"},
		"status alone": {`
metadata: {name: router, managedFields: [{manager: helm-controller, operation: Update, subresource: status}]}`, ""},
		"nobody":    {`{metadata: {name: router, labels: {app: router}, managedFields: [{manager: kubectl-client-side-apply}]}}`, ""},
		"no object": {`{}`, ""},
		"wrong types": {`
metadata: {name: 7, labels: [a], annotations: x, managedFields: {a: b}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var object map[string]any
			if err := yaml.Unmarshal([]byte(c.object), &object); err != nil {
				t.Fatal(err)
			}
			o, ok := OwnerOf(object)
			if ok != (c.want != "") || ok && o.String() != c.want {
				t.Errorf("%v %q, want %q", ok, o.String(), c.want)
			}
			if want := ok && name != "flux, paused" && name != "argo by the shared label"; o.Reverts() != want && ok {
				t.Errorf("reverts: %v, want %v", o.Reverts(), want)
			}
		})
	}
}
