//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"drkit/testdata/cluster"
	"drkit/testdata/cluster/kubelet"
)

// TestVerifyJob runs the two Jobs of docs/monitoring/verify-job.yaml as they are
// printed there: eight shards, their merge, and the metrics. Then one file of the
// copy rots, and one index fails without being tried again.
func TestVerifyJob(t *testing.T) {
	c := cluster.Start(t, cluster.Options{
		Nodes:    []kubelet.Node{{Name: "eu-1", Region: "eu-west-1", Labels: map[string]string{"drkit.example/metrics": "true"}}},
		Images:   []kubelet.Image{{Ref: "registry.example/drkit:1", Entrypoint: []string{drkit(t)}}},
		Contexts: map[string]string{"eu": "dr"},
	})
	service := t.TempDir()
	config := publish(t, service)
	results, metrics := filepath.Join(service, "results"), filepath.Join(service, "metrics")
	for _, dir := range []string{results, metrics} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	surroundings(t, c, config, results)

	shards, merge := documented(t, metrics)
	status := ended(t, c, shards)
	if status.Succeeded != 8 || status.CompletedIndexes != "0-7" {
		t.Fatalf("shards: %+v", status)
	}
	if status := ended(t, c, merge); status.Succeeded != 1 {
		t.Fatalf("merge: %+v", status)
	}
	if got := merged(t, results); !got.Holds || got.Verdicts["match"] != got.Total || got.Evidence["content"] != got.Total {
		t.Errorf("merged: %+v", got)
	}
	if text := read(t, filepath.Join(metrics, "drkit-support-chat.prom")); !strings.Contains(text, "drkit_") {
		t.Errorf("the metrics are %q", text)
	}

	rot(t, service)
	remove(t, c, shards, merge)
	for _, file := range []string{"*.json", "*.proven*"} { // a new verification, not the first one gone on with
		old, _ := filepath.Glob(filepath.Join(results, file))
		for _, f := range old {
			_ = os.Remove(f)
		}
	}
	status = ended(t, c, shards)
	if status.Failed != 1 || status.FailedIndexes == nil || strings.ContainsAny(*status.FailedIndexes, ",-") || status.Succeeded != 7 {
		t.Errorf("after a file of the copy rotted: %+v", status)
	}
	if status := ended(t, c, merge); status.Succeeded != 0 {
		t.Errorf("the merge of a copy with a rotten file: %+v", status)
	}
	if got := merged(t, results); got.Holds || got.Verdicts["diverged"] != 1 || got.Verdicts["match"] != got.Total-1 {
		t.Errorf("merged, with a rotten file: %+v", got)
	}
}

type copied struct {
	Holds              bool
	Total              int
	Verdicts, Evidence map[string]int
}

func merged(t *testing.T, results string) copied {
	t.Helper()
	var result struct{ Copies []copied }
	if err := json.Unmarshal([]byte(read(t, filepath.Join(results, "result.json"))), &result); err != nil || len(result.Copies) != 1 {
		t.Fatalf("%d copies in the result, %v", len(result.Copies), err)
	}
	return result.Copies[0]
}

// publish makes a service with a copy in its second region and returns the files of its configuration.
func publish(t *testing.T, dir string) map[string]string {
	t.Helper()
	if err := os.CopyFS(filepath.Join(dir, "model"), os.DirFS(filepath.Join(root, "internal/demo/files/models/support-tiny"))); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"vllm.yaml": "served-model-name: support\nmax-model-len: 1024\n",
		"drkit.yaml": fmt.Sprintf(`apiVersion: drkit/v1
kind: Service
metadata: {name: support-chat}
model: {source: %[1]s/model}
engine: {kind: vllm, version: 0.32.0, configs: [vllm.yaml]}
regions:
  - {name: us-east-1, role: source, residency: us, store: %[1]s/regions/us-east-1}
  - {name: eu-west-1, role: target, residency: eu, store: %[1]s/regions/eu-west-1}
`, dir),
	}
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}
	run(t, dir, 0, "replicate", "--yes", "--progress", "quiet")
	return files
}

// surroundings are what the documented Jobs expect to be there.
func surroundings(t *testing.T, c *cluster.Cluster, config map[string]string, results string) {
	t.Helper()
	core := c.Client.CoreV1()
	_, err := core.ConfigMaps("dr").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "drkit-support-chat"}, Data: config}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := core.ServiceAccounts("dr").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "drkit-verify"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	volume, claim := new(corev1.PersistentVolume), new(corev1.PersistentVolumeClaim)
	parse(t, `{metadata: {name: results}, spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteMany], storageClassName: "", hostPath: {path: `+results+`}}}`, volume)
	parse(t, `{metadata: {name: drkit-results}, spec: {accessModes: [ReadWriteMany], storageClassName: "", resources: {requests: {storage: 1Gi}}}}`, claim)
	if _, err := core.PersistentVolumes().Create(t.Context(), volume, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := core.PersistentVolumeClaims("dr").Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// documented reads the Jobs from the documentation; only the folder of the node exporter, which is the machine's own, is another.
func documented(t *testing.T, metrics string) (shards, merge *batchv1.Job) {
	t.Helper()
	text := read(t, filepath.Join(root, "docs/monitoring/verify-job.yaml"))
	const folder = "/var/lib/node_exporter/textfile_collector"
	if !strings.Contains(text, folder) {
		t.Fatalf("the documented Job no longer writes to %s", folder)
	}
	parts := strings.Split(strings.ReplaceAll(text, folder, metrics), "\n---\n")
	if len(parts) != 2 {
		t.Fatalf("%d documents instead of two Jobs", len(parts))
	}
	shards, merge = new(batchv1.Job), new(batchv1.Job)
	parse(t, parts[0], shards)
	parse(t, parts[1], merge)
	return shards, merge
}

func parse(t *testing.T, text string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}

// ended creates a Job and waits for its end.
func ended(t *testing.T, c *cluster.Cluster, job *batchv1.Job) batchv1.JobStatus {
	t.Helper()
	jobs := c.Client.BatchV1().Jobs("dr")
	if _, err := jobs.Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var status batchv1.JobStatus
	until(t, "the end of "+job.Name, func() bool {
		now, err := jobs.Get(t.Context(), job.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		status = now.Status
		for _, c := range status.Conditions {
			if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
				return true
			}
		}
		return false
	})
	return status
}

func remove(t *testing.T, c *cluster.Cluster, jobs ...*batchv1.Job) {
	t.Helper()
	foreground := metav1.DeletePropagationForeground
	for _, job := range jobs {
		if err := c.Client.BatchV1().Jobs("dr").Delete(t.Context(), job.Name, metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "the Jobs and their pods gone", func() bool {
		left, err := c.Client.BatchV1().Jobs("dr").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		pods, err := c.Client.CoreV1().Pods("dr").List(t.Context(), metav1.ListOptions{})
		return err == nil && len(left.Items) == 0 && len(pods.Items) == 0
	})
}

// rot changes one byte of a shard in the copy, without its size or time.
func rot(t *testing.T, service string) {
	t.Helper()
	found, _ := filepath.Glob(filepath.Join(service, "regions/eu-west-1/support-chat/*/model/base/model-00001-of-00002.safetensors"))
	if len(found) != 1 {
		t.Fatalf("the copy's shard: %v", found)
	}
	info, err := os.Stat(found[0])
	if err != nil {
		t.Fatal(err)
	}
	data := []byte(read(t, found[0]))
	data[len(data)-1] ^= 1
	if err := os.WriteFile(found[0], data, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(found[0], info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
}
