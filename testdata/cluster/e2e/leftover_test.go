//go:build linux

package e2e

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// leftoverText is a canary whose run nobody knows any more, long expired.
const leftoverText = `metadata:
  name: drkit-target-canary-old
  labels: {drkit.dev/run: 01KB2Q4V7N3M5P6R8S9T0VWXYZ, drkit.dev/replica: target-canary}
  annotations: {drkit.dev/expires: "2026-01-01T00:00:00Z", drkit.dev/container: engine, drkit.dev/port: "8000"}
spec:
  restartPolicy: Never
  nodeSelector: {topology.kubernetes.io/region: eu-west-1}
  containers:
    - name: engine
      image: ` + engineImage + `@` + engineDigest + `
      args: [--model, /models/base, --config, /engine/vllm.yaml, --port, "8000", --lora-modules, billing=/models/adapters/billing]
      readinessProbe: {httpGet: {path: /v1/models, port: 8000}, periodSeconds: 1}
      volumeMounts: [{name: weights, mountPath: /models}, {name: config, mountPath: /engine}]
  volumes:
    - {name: weights, persistentVolumeClaim: {claimName: weights}}
    - {name: config, configMap: {name: engine-config}}
`

// testRoutedLeftover: what an EndpointSlice names is not collected, and once none does it
// is. The slice is by hand: the API server takes none with the loopback addresses of this
// cluster's pods.
func testRoutedLeftover(t *testing.T, w *world) {
	pod, service, slice := new(corev1.Pod), new(corev1.Service), new(discoveryv1.EndpointSlice)
	parse(t, leftoverText, pod)
	pods := w.Client.CoreV1().Pods("drill-eu")
	made, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pods.Delete(context.Background(), made.Name, metav1.DeleteOptions{}) })
	w.untilServing(t, "drill-eu")
	parse(t, `{metadata: {name: front}, spec: {selector: {drkit.dev/replica: target-canary}, ports: [{port: 80}]}}`, service)
	parse(t, `{metadata: {name: front-x, labels: {kubernetes.io/service-name: front}}, addressType: IPv4, ports: [{port: 8000}],
  endpoints: [{addresses: [192.0.2.7], targetRef: {kind: Pod, namespace: drill-eu, name: `+made.Name+`, uid: `+string(made.UID)+`}}]}`, slice)
	services, slices := w.Client.CoreV1().Services("drill-eu"), w.Client.DiscoveryV1().EndpointSlices("drill-eu")
	if _, err := services.Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := slices.Create(t.Context(), slice, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if out := run(t, w.dir, 3, "drill", "gc", "--yes"); !strings.Contains(out, "it stays: EndpointSlice front-x sends requests to it") {
		t.Errorf("gc says %s", out)
	}
	if still, err := pods.Get(t.Context(), made.Name, metav1.GetOptions{}); err != nil || still.UID != made.UID || still.DeletionTimestamp != nil {
		t.Fatalf("the routed pod was collected: %+v, %v", still, err)
	}
	if err := slices.Delete(t.Context(), "front-x", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := services.Delete(t.Context(), "front", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	run(t, w.dir, 0, "drill", "gc", "--yes")
	w.nothingLeft(t)
}
