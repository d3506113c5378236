package replicate_test

import (
	"encoding/json"
	"os"
	"strings"
	"sync"
	"testing"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/internal/store/dir"
	"drkit/internal/store/mem"
	"drkit/manifest"
	"drkit/manifest/release"
	"drkit/replicate"
	"drkit/verify"
)

// verified is what verifying the target at level content gives.
func verified(t *testing.T, m *manifest.Manifest, regions []replicate.Region) verify.Result {
	t.Helper()
	r, err := verify.Release(t.Context(), m, verify.Copy{Region: "eu", Store: regions[0].Store, Prefix: release.Prefix(m.Service, m.Release)}, byContent)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var byContent = verify.Options{Level: verify.ByContent, Require: store.Content}

func fill(t *testing.T, m *manifest.Manifest, regions []replicate.Region) {
	t.Helper()
	p := plan(t, m, regions, nil)
	if _, err := replicate.Execute(t.Context(), p, replicate.ExecuteInput{Manifest: m, Regions: regions, Content: content(small), Verify: byContent}); err != nil {
		t.Fatal(err)
	}
}

// TestFromAResult: only what the result says is missing is copied, and of the
// target only that is read again before it is published.
func TestFromAResult(t *testing.T) {
	m, regions := newRelease(small), twoBuckets(t)
	fill(t, m, regions)
	eu := regions[0].Store.(*mem.Store)
	lost := release.Prefix(m.Service, m.Release) + "model/base/tokenizer.json"
	if err := eu.Remove(t.Context(), lost, store.Cond{}); err != nil {
		t.Fatal(err)
	}
	res := verified(t, m, regions)
	if res.Count(verify.Missing) != 1 {
		t.Fatalf("%+v", res)
	}
	var mu sync.Mutex
	read := map[string]int{}
	eu.Fault = func(op, key string) error {
		mu.Lock()
		defer mu.Unlock()
		if op == "open" {
			read[key]++
		}
		return nil
	}
	found, proven, err := replicate.SurveyFrom(t.Context(), m, regions, []verify.Result{res}, byContent)
	if err != nil || len(read) != 0 {
		t.Fatalf("%v, read %v", err, read)
	}
	p, err := replicate.NewPlan(replicate.PlanInput{Manifest: m, Found: found})
	if err != nil || len(p.Regions[1].Copy) != 1 || p.Regions[1].Copy[0].Subject != "model/base/tokenizer.json" || len(p.Regions[0].Copy) != 0 {
		t.Fatalf("%v %+v", err, p)
	}
	done, err := replicate.Execute(t.Context(), p, replicate.ExecuteInput{Manifest: m, Regions: regions, Verify: byContent, Proven: proven})
	if err != nil || !done.Regions[1].Verified || done.Regions[1].Copied != 1 {
		t.Fatalf("%v %+v", err, done)
	}
	for name := range small {
		key := release.Prefix(m.Service, m.Release) + name
		if want := map[bool]int{true: 1}[key == lost]; read[key] != want {
			t.Errorf("%s was read %d times, want %d", name, read[key], want)
		}
	}
	// The copy is another one now: the result is of no more use.
	if _, _, err := replicate.SurveyFrom(t.Context(), m, regions, []verify.Result{res}, byContent); errext.StatusOf(err) != errext.Refused || !strings.Contains(err.Error(), "tokenizer.json") {
		t.Errorf("%v", err)
	}
}

// TestARottenCopyIsNotPublishedFromAResult: claims in a result are read before
// anything is published on them.
func TestARottenCopyIsNotPublishedFromAResult(t *testing.T) {
	m, regions := newRelease(small), twoBuckets(t)
	fill(t, m, regions)
	eu := regions[0].Store.(*mem.Store)
	eu.Damage(release.Prefix(m.Service, m.Release)+"model/base/tokenizer.json", []byte("Tokens"))
	res, err := verify.Release(t.Context(), m, verify.Copy{Region: "eu", Store: eu, Prefix: release.Prefix(m.Service, m.Release)}, verify.Options{})
	if err != nil || !res.Holds() {
		t.Fatalf("%v %+v", err, res)
	}
	found, proven, err := replicate.SurveyFrom(t.Context(), m, regions, []verify.Result{res}, byContent)
	if err != nil {
		t.Fatal(err)
	}
	p, err := replicate.NewPlan(replicate.PlanInput{Manifest: m, Found: found})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := replicate.Execute(t.Context(), p, replicate.ExecuteInput{Manifest: m, Regions: regions, Verify: byContent, Proven: proven}); errext.StatusOf(err) != errext.Gate {
		t.Errorf("%v", err)
	}
}

func TestResultsThatAreRefused(t *testing.T) {
	m := newRelease(small)
	prefix := release.Prefix(m.Service, m.Release)
	for name, c := range map[string]struct {
		change func(r *verify.Result, s *mem.Store)
		says   string
	}{
		"of two places":     {func(r *verify.Result, _ *mem.Store) { r.Release = "" }, "two places"},
		"another service":   {func(r *verify.Result, _ *mem.Store) { r.Service = "billing" }, "billing"},
		"another release":   {func(r *verify.Result, _ *mem.Store) { r.Release = strings.Repeat("0", 64) }, "of release 000000000000"},
		"a shard":           {func(r *verify.Result, _ *mem.Store) { r.Shard = verify.Shard{Index: 0, Count: 2} }, "shard 0/2 alone"},
		"an unknown region": {func(r *verify.Result, _ *mem.Store) { r.Region = "mars" }, "mars"},
		"a new object":      {func(_ *verify.Result, s *mem.Store) { s.Fill(map[string]string{prefix + "model/base/new": "x"}) }, "model/base/new"},
		"an object written again": {func(_ *verify.Result, s *mem.Store) {
			s.Fill(map[string]string{prefix + "engine/vllm.yaml": small["engine/vllm.yaml"]})
		}, "engine/vllm.yaml"},
		"no identity": {func(_ *verify.Result, s *mem.Store) {
			s.Say(prefix+"engine/vllm.yaml", func(o *store.Object) { o.ETag = "" })
		}, "engine/vllm.yaml"},
	} {
		regions := twoBuckets(t)
		fill(t, m, regions)
		res := verified(t, m, regions)
		if _, _, err := replicate.SurveyFrom(t.Context(), m, regions, []verify.Result{res}, byContent); err != nil {
			t.Fatal(err)
		}
		c.change(&res, regions[0].Store.(*mem.Store))
		_, _, err := replicate.SurveyFrom(t.Context(), m, regions, []verify.Result{res}, byContent)
		if err == nil || !strings.Contains(err.Error(), c.says) || errext.StatusOf(err) != errext.Refused || errext.Hint(err) == "" {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	regions := twoBuckets(t)
	fill(t, m, regions)
	res := verified(t, m, regions)
	if _, _, err := replicate.SurveyFrom(t.Context(), m, regions, []verify.Result{res, res}, byContent); errext.StatusOf(err) != errext.Refused {
		t.Errorf("a region twice: %v", err)
	}
	if _, _, err := replicate.SurveyFrom(t.Context(), m, regions, nil, byContent); errext.StatusOf(err) != errext.Usage {
		t.Errorf("no result: %v", err)
	}
}

// TestFromAResultOnAPlaceThatIsNotThere: a region's store that does not exist yet is
// made, also when that was found out by a verification whose result was written down.
func TestFromAResultOnAPlaceThatIsNotThere(t *testing.T) {
	m, regions := newRelease(small), twoRegions(t)
	fill(t, m, regions)
	if err := os.RemoveAll(regions[0].Store.(*dir.Store).Root()); err != nil {
		t.Fatal(err)
	}
	res := verified(t, m, regions)
	text, err := json.Marshal(res.Errors)
	res.Errors = nil
	if err != nil || json.Unmarshal(text, &res.Errors) != nil || len(res.Errors) != 1 {
		t.Fatalf("%v: %s", err, text)
	}
	found, proven, err := replicate.SurveyFrom(t.Context(), m, regions, []verify.Result{res}, byContent)
	if err != nil {
		t.Fatal(err)
	}
	p, err := replicate.NewPlan(replicate.PlanInput{Manifest: m, Found: found})
	if err != nil {
		t.Fatal(err)
	}
	done, err := replicate.Execute(t.Context(), p, replicate.ExecuteInput{Manifest: m, Regions: regions, Verify: byContent, Proven: proven})
	if err != nil || done.Regions[1].Copied != len(small) || !done.Regions[1].Published {
		t.Errorf("%v %+v", err, done)
	}
}
