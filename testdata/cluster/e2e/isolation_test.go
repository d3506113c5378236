//go:build linux

package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"drkit/internal/store/s3/s3test"
)

// sourceBucket holds the source's copy.
const sourceBucket = "prod-use1-llm"

// testIsolation has the source's copy in a bucket that this machine reaches by a proxy,
// and pods, which know of none, do not: as where a NetworkPolicy cuts them off.
func testIsolation(t *testing.T, w *world) {
	proxy := s3test.New(s3test.Options{}).CreateBucket(sourceBucket, s3test.BucketOptions{}).Start(t) // it answers a proxy's requests as its own
	t.Setenv("HTTP_PROXY", proxy)
	t.Setenv("AWS_ACCESS_KEY_ID", s3test.DefaultAccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", s3test.DefaultSecretKey)
	file := filepath.Join(w.dir, "drkit.yaml")
	before := read(t, file)
	after := strings.Replace(before, "store: ./regions/us-east-1,", "store: s3://"+sourceBucket+"/llm, s3: {endpoint: http://s3.us-east-1.invalid, region: us-east-1, path_style: true},", 1)
	if after == before {
		t.Fatal("drkit.yaml has no store of the source to move")
	}
	write(t, file, after)

	t.Run("clean", func(t *testing.T) {
		w.publish(t, deployment("eu-west-1"))
		r := w.drill(t, "--demo").end(t, 0)
		for id, want := range map[string]string{
			"isolation":   "none of them answers: bucket " + sourceBucket,
			"independent": "none in ",
			"production":  "pod drill-eu/support-",
		} {
			if g := r.gate(id); g.Result != "passed" || !strings.Contains(g.Observed, want) {
				t.Errorf("gate %s %+v, want %q", id, g, want)
			}
		}
		if r.Verdict != "recovered" || !r.Proves["boot"].Proven {
			t.Errorf("verdict %s, proves %+v", r.Verdict, r.Proves)
		}
		r.undone(t)
		w.undisturbed(t)
		w.nothingLeft(t)
	})
	t.Run("the source's bucket in the target's rendering", func(t *testing.T) {
		w.publish(t, strings.Replace(deployment("eu-west-1"), "          resources:", "          env: [{name: MODEL_CACHE, value: s3://"+sourceBucket+"/cache}]\n          resources:", 1))
		r := w.drill(t, "--demo", "--playbook", w.bootOnly(t)).end(t, 4)
		if g := r.gate("independent"); g.Result != "failed" || !strings.Contains(g.Observed, "deployment.yaml") || !strings.Contains(g.Observed, "names bucket "+sourceBucket+" of the source") {
			t.Errorf("gate independent %+v", g)
		}
		if r.Verdict == "recovered" || r.failed() != "boot" || r.Proves["boot"].Proven {
			t.Errorf("verdict %s, failed step %q, proves %+v", r.Verdict, r.failed(), r.Proves)
		}
		w.undisturbed(t)
		w.nothingLeft(t)
	})
	t.Run("the source answers pods", func(t *testing.T) {
		w.publish(t, strings.Replace(deployment("eu-west-1"), "          resources:", "          env: [{name: HTTP_PROXY, value: '"+proxy+"'}]\n          resources:", 1))
		r := w.drill(t, "--demo", "--playbook", w.bootOnly(t)).end(t, 4)
		if g := r.gate("isolation"); g.Result != "failed" || !strings.Contains(g.Observed, "bucket "+sourceBucket) || !strings.Contains(g.Observed, "answers HTTP") {
			t.Errorf("gate isolation %+v", g)
		}
		if r.Verdict == "recovered" || r.failed() != "boot" || r.Proves["boot"].Proven {
			t.Errorf("verdict %s, failed step %q, proves %+v", r.Verdict, r.failed(), r.Proves)
		}
		r.undone(t)
		w.undisturbed(t)
		w.nothingLeft(t)
	})
	t.Run("production runs something else", func(t *testing.T) {
		w.publish(t, strings.Replace(deployment("eu-west-1"), "billing=/models/adapters/billing]", `billing=/models/adapters/billing, --seed, "7"]`, 1))
		r := w.drill(t, "--demo", "--playbook", w.bootOnly(t)).end(t, 3)
		r.says(t, "production is not the release: pod drill-eu/support-", "argument 9 is not there, the release's")
		w.undisturbed(t)
		w.nothingLeft(t)
	})
}

// publish makes a release whose rendering for the target is the given one.
func (w *world) publish(t *testing.T, rendering string) {
	t.Helper()
	write(t, filepath.Join(w.dir, "deploy/eu-west-1/deployment.yaml"), rendering)
	run(t, w.dir, 0, "manifest", "build", "-o", "manifest.json")
	run(t, w.dir, 0, "replicate", "--manifest", "manifest.json", "--yes", "--progress", "quiet")
}
