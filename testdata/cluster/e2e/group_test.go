//go:build linux

package e2e

import (
	"slices"
	"strings"
	"testing"
)

// grouped is the target's rendering as a group of two: the engine leads, and the worker
// runs a command and is ready when a probe says so.
func grouped(command, probe string) string {
	text := deployment("eu-west-1")
	_, spec, _ := strings.Cut(text, "    spec:\n")
	worker := strings.NewReplacer("name: engine\n", "name: worker\n", "          args:", "          command: [sh, -c, \""+command+"\"]\n          args:").Replace(without(spec, "startupProbe:", "readinessProbe:"))
	worker = strings.Replace(worker, "          args:", "          readinessProbe: {exec: {command: ["+probe+"]}, periodSeconds: 1}\n          args:", 1)
	worker = without(worker, "args:", "resources:") // the leader's GPU is the last of the region
	return "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: support}\nspec:\n  leaderWorkerTemplate:\n    size: 2\n" +
		"    leaderTemplate:\n      spec:\n" + deeper(spec) + "    workerTemplate:\n      spec:\n" + deeper(worker)
}

// without leaves out the lines that begin with one of the keys.
func without(text string, keys ...string) string {
	lines := slices.DeleteFunc(strings.SplitAfter(text, "\n"), func(line string) bool {
		return slices.ContainsFunc(keys, func(key string) bool { return strings.HasPrefix(strings.TrimSpace(line), key) })
	})
	return strings.Join(lines, "")
}

func deeper(text string) string {
	return "  " + strings.TrimSuffix(strings.ReplaceAll(text, "\n", "\n  "), "  ")
}

// testGroup drills a target whose workload is a LeaderWorkerSet: both pods boot as one
// canary, and a worker that ends is the canary's end, by its name.
func testGroup(t *testing.T, w *world) {
	w.Define(t, "leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet")
	defer w.publish(t, deployment("eu-west-1"))
	t.Run("boots", func(t *testing.T) {
		w.publish(t, grouped("echo joined $LWS_LEADER_ADDRESS; sleep 3; touch up; exec sleep 1000", "test, -e, up"))
		watch := w.watch(t)
		r := w.drill(t, "--playbook", w.bootOnly(t)).end(t, 4) // the stand-in
		var workers []string
		for _, p := range watch() {
			if index := p.Labels["drkit.dev/worker"]; index != "" {
				workers = append(workers, index)
			}
		}
		if !slices.Equal(workers, []string{"1"}) || r.Verdict != "incomplete" || r.failed() != "" || !r.Proves["boot"].Proven || r.gate("isolation").Result == "failed" {
			t.Errorf("workers %v, verdict %s, failed step %q, proves %+v", workers, r.Verdict, r.failed(), r.Proves)
		}
		r.undone(t)
		w.nothingLeft(t)
	})
	t.Run("its worker ends", func(t *testing.T) {
		w.publish(t, grouped("sleep 3; echo RuntimeError: NCCL error; exit 3", "'false'"))
		r := w.drill(t, "--playbook", w.bootOnly(t)).end(t, 4)
		if r.failed() != "boot" || r.Proves["boot"].Proven {
			t.Errorf("verdict %s, failed step %q", r.Verdict, r.failed())
		}
		r.says(t, "worker pod drkit-target-canary-"+strings.ToLower(r.Run)+"-1: container worker: exit status 3: ", "RuntimeError: NCCL error")
		r.undone(t)
		w.nothingLeft(t)
	})
	w.undisturbed(t)
}
