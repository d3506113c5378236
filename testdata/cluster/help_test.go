//go:build linux

package cluster

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// until waits for something that the cluster does in its own time.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(90 * time.Second); ; time.Sleep(30 * time.Millisecond) {
		if holds() {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("not seen in 90 s: %s", what)
		}
	}
}

// parse reads a manifest as people write it.
func parse[T any](t *testing.T, text string) *T {
	t.Helper()
	object := new(T)
	if err := yaml.UnmarshalStrict([]byte(strings.ReplaceAll(text, "\t", "  ")), object); err != nil {
		t.Fatal(err)
	}
	return object
}

// pod creates a pod of one container in the name space default.
func pod(t *testing.T, c *Cluster, name, container, rest string) {
	t.Helper()
	text := fmt.Sprintf("metadata: {name: %s}\nspec:\n  terminationGracePeriodSeconds: 20\n  containers:\n  - name: main\n%s\n%s", name, indent("    ", container), indent("  ", rest))
	if _, err := c.Client.CoreV1().Pods("default").Create(t.Context(), parse[corev1.Pod](t, text), metav1.CreateOptions{}); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	t.Cleanup(func() { remove(c, name) })
}

func remove(c *Cluster, name string) {
	_ = c.Client.CoreV1().Pods("default").Delete(context.Background(), name, metav1.DeleteOptions{})
}

func indent(by, text string) string {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	return by + strings.Join(lines, "\n"+by)
}

func get(t *testing.T, c *Cluster, name string) *corev1.Pod {
	t.Helper()
	p, err := c.Client.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// first is the status of the pod's only container.
func first(p *corev1.Pod) corev1.ContainerStatus {
	if len(p.Status.ContainerStatuses) == 0 {
		return corev1.ContainerStatus{}
	}
	return p.Status.ContainerStatuses[0]
}

func untilReady(t *testing.T, c *Cluster, name string) *corev1.Pod {
	t.Helper()
	until(t, name+" ready", func() bool { return holds(get(t, c, name), corev1.PodReady) })
	return get(t, c, name)
}

func holds(p *corev1.Pod, kind corev1.PodConditionType) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// untilEvent waits for an event of the pod that has the reason and contains the text.
func untilEvent(t *testing.T, c *Cluster, name, reason, text string) {
	t.Helper()
	until(t, fmt.Sprintf("event %s %q of %s", reason, text, name), func() bool {
		list, err := c.Client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list.Items {
			if e.Reason == reason && strings.Contains(e.Message, text) {
				return true
			}
		}
		return false
	})
}

func logs(t *testing.T, c *Cluster, name string, o *corev1.PodLogOptions) string {
	t.Helper()
	text, err := c.Client.CoreV1().Pods("default").GetLogs(name, o).DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// processes are those of one pod, by its own name in their environment.
func untilNoProcess(t *testing.T, c *Cluster, marker string) {
	t.Helper()
	until(t, "no process of "+marker, func() bool { return len(named(c, marker)) == 0 })
}
