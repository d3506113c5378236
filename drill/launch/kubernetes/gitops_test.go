package kubernetes

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestUngoverned: a canary that a GitOps controller would take for its own is refused.
func TestUngoverned(t *testing.T) {
	for name, c := range map[string]struct {
		labels, annotations map[string]string
		refused, note       string
	}{
		"bare":           {map[string]string{LabelRun: "01R"}, nil, "", ""},
		"flux":           {map[string]string{"kustomize.toolkit.fluxcd.io/name": "apps", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}, nil, "mark of Flux Kustomization flux-system/apps", ""},
		"argo's label":   {map[string]string{"argocd.argoproj.io/instance": "chat"}, nil, "mark of Argo CD Application chat", ""},
		"shared label":   {map[string]string{"app.kubernetes.io/instance": "chat"}, nil, "", "if that tracks by this label"},
		"another's id":   {nil, map[string]string{"argocd.argoproj.io/tracking-id": "chat:apps/Deployment:llm/vllm"}, "", ""},
		"its own id":     {nil, map[string]string{"argocd.argoproj.io/tracking-id": "chat:/Pod:dr/canary"}, "mark of Argo CD Application chat", ""},
		"flux, left out": {map[string]string{"kustomize.toolkit.fluxcd.io/name": "apps"}, map[string]string{"kustomize.toolkit.fluxcd.io/reconcile": "disabled"}, "", ""},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "canary", Namespace: "dr", Labels: c.labels, Annotations: c.annotations}, TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
		note, err := ungoverned(pod)
		if (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) || (note == "") != (c.note == "") || !strings.Contains(note, c.note) {
			t.Errorf("%s: %q, %v", name, note, err)
		}
	}
}
