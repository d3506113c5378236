//go:build linux

package cluster

import (
	"context"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drkit/drill"
	"drkit/drill/launch/kubernetes"
	"drkit/internal/errext"
)

// routed: a Service that would select a canary refuses it, one pod of a group as well;
// one that came later is seen by its EndpointSlice.
func routed(t *testing.T, c *Cluster) {
	core := c.Client.CoreV1()
	t.Run("a service by a patch", func(t *testing.T) {
		apply(t, c, "dr-drill", "apiVersion: v1\nkind: Service\nmetadata: {name: edge}\nspec: {selector: {tier: front}, ports: [{port: 80}]}")
		defer func() { _ = core.Services("dr-drill").Delete(t.Context(), "edge", metav1.DeleteOptions{}) }()
		patched := kubernetes.Options{Patches: []kubernetes.Patch{{Name: "labels.yaml", Data: []byte("metadata: {labels: {tier: front}}")}}}
		unlaunched(t, c, patched, launchSpec(deployment("", "")), `Service edge selects "tier=front" and would send requests to it`)
		unlaunched(t, c, patched, groupSpec(), "Service edge")
		launch(t, newLauncher(t, c, kubernetes.Options{}), launchSpec(deployment("", ""))) // without the patch
	})
	t.Run("a service that selects a worker", func(t *testing.T) {
		apply(t, c, "dr-drill", "apiVersion: v1\nkind: Service\nmetadata: {name: workers}\nspec: {selector: {"+kubernetes.LabelWorker+": '1'}, ports: [{port: 80}]}")
		defer func() { _ = core.Services("dr-drill").Delete(t.Context(), "workers", metav1.DeleteOptions{}) }()
		unlaunched(t, c, kubernetes.Options{}, groupSpec(), "pod "+groupPods()[1]+" are wanted by others: Service workers")
	})
	t.Run("an endpoint slice", func(t *testing.T) { routedLater(t, c) })
}

// unlaunched requires that a launch is refused, with the reason, and makes nothing.
func unlaunched(t *testing.T, c *Cluster, o kubernetes.Options, s drill.Spec, want string) {
	t.Helper()
	_, err := newLauncher(t, c, o).Launch(t.Context(), s)
	if err == nil || errext.StatusOf(err) != errext.Refused || !strings.Contains(err.Error(), want) {
		t.Errorf("Launch = %v, want %q", err, want)
	}
	if left := podsOf(t, c, kubernetes.LabelRun); len(left) != 0 {
		t.Errorf("it made %v", left)
	}
}

// routedLater: a Service is made while the canary starts. The slice is by hand: the API
// server takes none with loopback addresses, which are those of this cluster's pods.
func routedLater(t *testing.T, c *Cluster) {
	l := newLauncher(t, c, kubernetes.Options{})
	r := launch(t, l, launchSpec(deployment("args: [--boot, 1h, --port, \"8123\"]\nstartupProbe: {httpGet: {path: /health, port: 8123}, failureThreshold: 600}", "")))
	pod := drillPod(t, c, kubernetes.PodName(launchRun, launchName))
	apply(t, c, "dr-drill", "apiVersion: v1\nkind: Service\nmetadata: {name: late}\nspec: {selector: {"+kubernetes.LabelRun+": "+launchRun+"}, ports: [{port: 80}]}")
	defer func() { _ = c.Client.CoreV1().Services("dr-drill").Delete(t.Context(), "late", metav1.DeleteOptions{}) }()
	slice(t, c, "others", "00000000-0000-0000-0000-000000000000")
	until(t, "the pod to run", func() bool { return len(named(c, pod.Name)) == 1 })
	if by, err := r.RoutedBy(t.Context()); by != "" || err != nil {
		t.Errorf("routed by %q, %v", by, err)
	}
	slice(t, c, "late-x", string(pod.UID))
	var got drill.Trouble
	until(t, "the slice to be seen", func() bool {
		got, _ = r.Trouble()
		return got.Class == "Routed"
	})
	if !got.Fatal || !strings.Contains(got.Line, "EndpointSlice late-x names the canary's pod") {
		t.Errorf("trouble %+v", got)
	}
	left, err := l.Leftovers(t.Context())
	if err != nil || len(left) != 1 {
		t.Fatalf("leftovers %v, %v", left, err)
	}
	if by, err := left[0].RoutedBy(t.Context()); by != "late-x" || err != nil {
		t.Errorf("another process: routed by %q, %v", by, err)
	}
}

// slice makes an EndpointSlice of the Service late that names a pod.
func slice(t *testing.T, c *Cluster, name, uid string) {
	t.Helper()
	s := parse[discoveryv1.EndpointSlice](t, "metadata: {name: "+name+", labels: {kubernetes.io/service-name: late}}\naddressType: IPv4\nports: [{port: 8123}]\n"+
		"endpoints: [{addresses: [192.0.2.7], targetRef: {kind: Pod, namespace: dr-drill, name: x, uid: "+uid+"}}]")
	all := c.Client.DiscoveryV1().EndpointSlices("dr-drill")
	if _, err := all.Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = all.Delete(context.Background(), name, metav1.DeleteOptions{}) })
}
