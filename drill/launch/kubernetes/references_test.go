package kubernetes

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"drkit/drill"
	"drkit/internal/errext"
)

const needyYAML = `apiVersion: apps/v1
kind: Deployment
metadata: {name: chat}
spec:
  template:
    spec:
      serviceAccountName: chat
      initContainers:
        - {name: fetch, image: "1.example/llm/fetch:v3", envFrom: [{secretRef: {name: bucket}}, {secretRef: {name: maybe, optional: true}}]}
      containers:
        - name: engine
          image: 1.example/llm/vllm:v0.32.0
          env:
            - {name: TOKEN, valueFrom: {secretKeyRef: {name: hub, key: token}}}
            - {name: LEVEL, valueFrom: {configMapKeyRef: {name: settings, key: level}}}
            - {name: OTHER, valueFrom: {configMapKeyRef: {name: settings, key: other, optional: true}}}
      volumes:
        - {name: tls, secret: {secretName: tls}}
        - {name: all, projected: {sources: [{configMap: {name: settings, items: [{key: vllm.yaml, path: a}]}}, {secret: {name: keys}}]}}
`

func named(name string, more map[string]any) map[string]any {
	o := map[string]any{"metadata": map[string]any{"name": name}}
	for k, v := range more {
		o[k] = v
	}
	return o
}

// needed fills a namespace with all that needyYAML refers to.
func (f *fakeAPI) needed() {
	for _, name := range []string{"bucket", "hub", "tls", "keys", "regcred"} {
		f.put("secrets", named(name, nil))
	}
	f.put("serviceaccounts", named("chat", map[string]any{"imagePullSecrets": []any{map[string]any{"name": "regcred"}}}))
	f.put("configmaps", named("settings", map[string]any{"data": map[string]any{"level": "INFO", "vllm.yaml": "a: b"}}))
}

// TestReferences: what a pod needs by name is looked for before the clock, all at once.
// What is needed was read off needyYAML by hand.
func TestReferences(t *testing.T) {
	s := specOf(needyYAML, drill.DeployEngine{Path: "k8s/all.yaml", Kind: "Deployment", Name: "chat", Container: "engine"})
	synctest.Test(t, func(t *testing.T) {
		f, l := newAPI(t, Options{})
		f.needed()
		if notes, err := l.Check(t.Context(), s); err != nil || len(notes) > 0 {
			t.Fatalf("all is there: %q, %v", notes, err)
		}
		for _, asked := range f.asked {
			if strings.Contains(asked, "secrets/") && !strings.Contains(asked, "as=PartialObjectMetadata") {
				t.Errorf("%q asks for what is in a Secret", asked)
			}
			if strings.Contains(asked, "maybe") {
				t.Error("what is optional was looked for")
			}
		}
		_, err := l.Check(t.Context(), s)
		if err != nil {
			t.Error(err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f, l := newAPI(t, Options{})
		f.put("configmaps", named("settings", map[string]any{"binaryData": map[string]any{"others": "eA=="}}))
		_, err := l.Check(t.Context(), s)
		for _, want := range []string{`secret "bucket" is not in the cluster (namespace dr), and container fetch needs it`, `secret "hub"`, `secret "tls" is not in the cluster (namespace dr), and volume tls needs it`,
			`secret "keys"`, `serviceaccount "chat" is not in the cluster`, `configmap "settings" of namespace dr has no key "vllm.yaml", and volume all needs it`, `has no key "level", and container engine needs it`} {
			if err == nil || !strings.Contains(err.Error(), want) || errext.StatusOf(err) != errext.Refused {
				t.Errorf("Check = %v, want %q", err, want)
			}
		}
		if strings.Contains(err.Error(), `"other"`) {
			t.Errorf("what is optional is missed: %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f, l := newAPI(t, Options{})
		f.needed()
		f.remove("secrets/regcred")
		if _, err := l.Check(t.Context(), s); err == nil || !strings.Contains(err.Error(), `secret "regcred" is not in the cluster (namespace dr), and service account chat, to pull images, needs it`) {
			t.Errorf("the account's own: %v", err)
		}
		own := s
		own.Deploy = slices.Clone(s.Deploy)
		own.Deploy[0].Data = []byte(strings.Replace(needyYAML, "serviceAccountName", "imagePullSecrets: [{name: mirror}]\n      serviceAccountName", 1))
		if _, err := l.Check(t.Context(), own); err == nil || !strings.Contains(err.Error(), `secret "mirror"`) || strings.Contains(err.Error(), "regcred") {
			t.Errorf("the pod's own: %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f, l := newAPI(t, Options{})
		f.needed()
		f.deny("get secrets", "get configmaps")
		notes, err := l.Check(t.Context(), s)
		all := strings.Join(notes, "\n")
		if err != nil || !strings.Contains(all, `secret "hub" may not be looked at (get secrets is not allowed in namespace dr)`) || !strings.Contains(all, "(get configmaps is not allowed in namespace dr)") {
			t.Errorf("not allowed: %q, %v", notes, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f, l := newAPI(t, Options{})
		f.remove("serviceaccounts/default")
		if notes, err := l.Check(t.Context(), groupSpec(groupYAML)); err != nil {
			t.Errorf("the account that no pod names: %q, %v", notes, err)
		}
	})
}
