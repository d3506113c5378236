package replicate_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/internal/store/dir"
	"drkit/internal/store/mem"
	"drkit/manifest"
	"drkit/manifest/digest"
	"drkit/manifest/region"
	"drkit/manifest/release"
	"drkit/replicate"
	"drkit/verify"
)

// newRelease describes files (by subject) as a release.
func newRelease(files map[string]string) *manifest.Manifest {
	m := &manifest.Manifest{Schema: manifest.Schema, Service: "support"}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		part, path, _ := strings.Cut(name, "/")
		h := digest.NewHasher(int64(len(files[name])))
		h.Write([]byte(files[name]))
		m.Contents.Files = append(m.Contents.Files, manifest.File{Part: manifest.Part(part), Path: path, Size: h.Size(), Role: manifest.Other, Sums: h.Sums()})
	}
	m.Release = manifest.ReleaseID(m.Contents)
	return m
}

func content(files map[string]string) func(manifest.File) (store.Body, error) {
	return func(f manifest.File) (store.Body, error) {
		c, ok := files[f.Subject()]
		if !ok {
			return store.Body{}, errors.New("no such source")
		}
		return store.BytesBody([]byte(c)), nil
	}
}

var small = map[string]string{
	"model/base/config.json":       `{"model_type": "llama"}`,
	"model/base/tokenizer.json":    "tokens",
	"model/base/model.safetensors": strings.Repeat("weights ", 1000),
	"engine/vllm.yaml":             "model: x\n",
	"engine/probes.json":           "probes",
	"deploy/values.yaml":           "replicas: 6\n",
}

// two regions as directories, the state beneath the store as by default.
func twoRegions(t *testing.T) []replicate.Region {
	root := t.TempDir()
	make := func(name string, role region.Role) replicate.Region {
		return replicate.Region{Name: name, Role: role, Store: dir.Plain(root + "/" + name), State: dir.Plain(root + "/" + name + "/.drkit")}
	}
	return []replicate.Region{make("eu", region.Target), make("us", region.Source)}
}

// twoBuckets are two regions whose stores claim checksums, as buckets do.
func twoBuckets(*testing.T) []replicate.Region {
	make := func(name string, role region.Role) replicate.Region {
		s := mem.New()
		s.Claims = []string{digest.SHA256}
		return replicate.Region{Name: name, Role: role, Store: s, State: mem.New()}
	}
	return []replicate.Region{make("eu", region.Target), make("us", region.Source)}
}

func plan(t *testing.T, m *manifest.Manifest, regions []replicate.Region, change func(*replicate.PlanInput)) replicate.Plan {
	t.Helper()
	found, err := replicate.Survey(t.Context(), m, regions, verify.Options{})
	if err != nil {
		t.Fatal(err)
	}
	in := replicate.PlanInput{Manifest: m, Found: found}
	if change != nil {
		change(&in)
	}
	p, err := replicate.NewPlan(in)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// run surveys, plans and executes.
func run(t *testing.T, m *manifest.Manifest, files map[string]string, regions []replicate.Region) (replicate.Result, error) {
	t.Helper()
	return replicate.Execute(t.Context(), plan(t, m, regions, nil), replicate.ExecuteInput{Manifest: m, Regions: regions, Content: content(files)})
}

func mustRun(t *testing.T, m *manifest.Manifest, files map[string]string, regions []replicate.Region) replicate.Result {
	t.Helper()
	res, err := run(t, m, files, regions)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func current(t *testing.T, r replicate.Region) release.Current {
	t.Helper()
	c, err := release.ReadCurrent(t.Context(), r.State, r.Name, "support")
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		t.Fatal(err)
	}
	return c
}

func put(t *testing.T, s store.ReadWriter, key, content string) {
	t.Helper()
	if _, err := s.Put(t.Context(), key, store.BytesBody([]byte(content)), store.Cond{}); err != nil {
		t.Fatal(err)
	}
}

func TestFromNothingToPublished(t *testing.T) {
	m, regions := newRelease(small), twoRegions(t)
	p := plan(t, m, regions, nil)
	if p.Regions[0].Region != "us" || len(p.Regions[1].Copy) != len(small) || !p.Changes() {
		t.Errorf("plan %+v", p)
	}
	res := mustRun(t, m, small, regions)
	for i, r := range res.Regions {
		if !r.Verified || !r.Published || r.Generation != 1 || r.Copied != len(small) || r.Region != []string{"us", "eu"}[i] {
			t.Errorf("%+v", r)
		}
	}
	for _, r := range regions {
		c, loaded, err := release.LoadCurrent(t.Context(), r.State, r.Store, r.Name, "support")
		if err != nil || c.Generation != 1 || loaded.Release != m.Release {
			t.Errorf("%s: %+v, %v", r.Name, c, err)
		}
		v, err := verify.Release(t.Context(), m, verify.Copy{Region: r.Name, Store: r.Store, Prefix: release.Prefix("support", m.Release)}, verify.Options{Require: store.Content})
		if err != nil || !v.Holds() {
			t.Errorf("%s: %v, %v", r.Name, v.Err(), err)
		}
	}
	if p := plan(t, m, regions, nil); p.Changes() || p.Bytes() != 0 || p.Regions[1].Keep != len(small) {
		t.Errorf("a second plan changes something: %+v", p)
	}
	res = mustRun(t, m, nil, regions) // the sources are not needed any more
	if r := res.Regions[1]; r.Copied != 0 || !r.Published || r.Generation != 1 {
		t.Errorf("a second run: %+v", r)
	}
}

func TestRepairsOnlyWhatIsWrong(t *testing.T) {
	m, regions := newRelease(small), twoRegions(t)
	mustRun(t, m, small, regions)
	prefix := release.Prefix("support", m.Release)
	eu := regions[0]
	eu.Store.Remove(t.Context(), prefix+"model/base/tokenizer.json", store.Cond{})
	put(t, eu.Store, prefix+"engine/vllm.yaml", "model: y\n")
	p := plan(t, m, regions, nil)
	reasons := map[string]string{}
	for _, a := range p.Regions[1].Copy {
		reasons[a.Subject] = a.Reason
	}
	want := map[string]string{"model/base/tokenizer.json": "missing", "engine/vllm.yaml": "diverged"}
	if !maps.Equal(reasons, want) || len(p.Regions[0].Copy) != 0 || p.Regions[1].Bytes != int64(len("tokens")+len("model: x\n")) {
		t.Errorf("plan %+v", p)
	}
	if r := mustRun(t, m, nil, regions).Regions[1]; r.Copied != 2 || !r.Verified || r.Generation != 1 {
		t.Errorf("%+v", r)
	}
}

func TestNextReleaseCountsGenerations(t *testing.T) {
	regions := twoBuckets(t)
	first := newRelease(small)
	mustRun(t, first, small, regions)
	files := maps.Clone(small)
	files["engine/vllm.yaml"] = "model: z\n"
	second := newRelease(files)
	mustRun(t, second, files, regions)
	if c := current(t, regions[0]); c.Generation != 2 || c.Release != second.Release {
		t.Errorf("CURRENT %+v", c)
	}
	if _, err := release.Load(t.Context(), regions[0].Store, "support", first.Release); err != nil {
		t.Errorf("the first release is gone: %v", err)
	}
	ids, err := release.List(t.Context(), regions[0].Store, "support")
	if want := slices.Sorted(slices.Values([]string{first.Release, second.Release})); err != nil || !slices.Equal(ids, want) {
		t.Errorf("releases %v, %v", ids, err)
	}
}

func TestExtraFilesStopTheRegion(t *testing.T) {
	m, regions := newRelease(small), twoBuckets(t)
	key := release.Prefix("support", m.Release) + "model/base/chat_template.jinja"
	put(t, regions[0].Store, key, "x")
	res, err := run(t, m, small, regions)
	if errext.StatusOf(err) != errext.Gate || !strings.Contains(fmt.Sprint(err), "chat_template.jinja") || errext.Hint(err) == "" {
		t.Errorf("error %v", err)
	}
	if !res.Regions[0].Published || res.Regions[1].Published || current(t, regions[0]).Release != "" {
		t.Errorf("%+v", res)
	}
	p := plan(t, m, regions, func(in *replicate.PlanInput) { in.DeleteExtra = true })
	if !slices.Equal(p.Regions[1].Delete, []string{key}) {
		t.Fatalf("plan %+v", p.Regions[1])
	}
	if _, err := replicate.Execute(t.Context(), p, replicate.ExecuteInput{Manifest: m, Regions: regions}); err != nil {
		t.Error(err)
	}
	if _, err := regions[0].Store.Stat(t.Context(), key); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the extra file is still there: %v", err)
	}
}

func TestBorders(t *testing.T) {
	m, regions := newRelease(small), twoBuckets(t)
	p := plan(t, m, regions, func(in *replicate.PlanInput) {
		in.Borders = func(f manifest.File, to string) error {
			if f.Path == "probes.json" && to == "eu" {
				return errors.New("recorded in residency us, eu is residency eu")
			}
			return nil
		}
	})
	res, err := replicate.Execute(t.Context(), p, replicate.ExecuteInput{Manifest: m, Regions: regions, Content: content(small)})
	if errext.StatusOf(err) != errext.Refused || !strings.Contains(fmt.Sprint(err), "probes.json") || len(res.Regions) != 0 {
		t.Errorf("%+v, %v", res, err)
	}
	for _, r := range regions {
		for o, err := range r.Store.List(t.Context(), "") {
			if !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%s holds %q, %v", r.Name, o.Key, err)
			}
		}
	}
}

func TestASourceThatChangedIsNotPublished(t *testing.T) {
	m, regions := newRelease(small), twoBuckets(t)
	files := maps.Clone(small)
	files["model/base/tokenizer.json"] = "Tokens"
	res, err := run(t, m, files, regions)
	if errext.StatusOf(err) != errext.Gate || !errors.Is(err, store.ErrMismatch) || !strings.Contains(fmt.Sprint(err), "model/base/tokenizer.json") {
		t.Errorf("error %v", err)
	}
	if len(res.Regions) != 1 || current(t, regions[0]).Release != "" || current(t, regions[1]).Release != "" {
		t.Errorf("%+v", res)
	}
	mustRun(t, m, small, regions) // resumes
}

func TestUnreadableSourceIsNamed(t *testing.T) {
	m, regions := newRelease(small), twoBuckets(t)
	broken := errors.New("input/output error")
	_, err := replicate.Execute(t.Context(), plan(t, m, regions, nil), replicate.ExecuteInput{Manifest: m, Regions: regions,
		Content: func(f manifest.File) (store.Body, error) { return store.Body{}, broken }})
	if !errors.Is(err, broken) || errext.StatusOf(err) != errext.Failed {
		t.Errorf("error %v", err)
	}
	_, err = replicate.Execute(t.Context(), plan(t, m, regions, nil), replicate.ExecuteInput{Manifest: m, Regions: regions})
	if errext.Hint(err) == "" {
		t.Errorf("without sources: %v", err)
	}
}

func TestOneTargetThatFailsDoesNotStopTheOthers(t *testing.T) {
	m, regions := newRelease(small), twoBuckets(t)
	full := mem.New()
	full.Fault = func(op, key string) error {
		if op == "put" {
			return errors.New("no space left on device")
		}
		return nil
	}
	regions = append([]replicate.Region{{Name: "ap", Role: region.Target, Store: full, State: full}}, regions...)
	res, err := run(t, m, small, regions)
	if err == nil || !strings.Contains(err.Error(), "ap") || len(res.Regions) != 3 {
		t.Fatalf("%+v, %v", res, err)
	}
	if current(t, regions[0]).Release != "" || current(t, regions[1]).Release != m.Release {
		t.Error("ap must not be published, eu must")
	}
}

// damaging is a store whose copy of one key rots right after it was written.
type damaging struct {
	*mem.Store
	suffix string
}

func (d damaging) Put(ctx context.Context, key string, b store.Body, c store.Cond) (store.Object, error) {
	o, err := d.Store.Put(ctx, key, b, c)
	if strings.HasSuffix(key, d.suffix) {
		d.Damage(key, []byte(strings.Repeat("x", int(b.Size))))
	}
	return o, err
}

func TestACopyThatDoesNotVerifyIsNotPublished(t *testing.T) {
	m, regions := newRelease(small), twoRegions(t)
	state := mem.New()
	regions[0].Store, regions[0].State = damaging{mem.New(), "tokenizer.json"}, state
	found, err := replicate.Survey(t.Context(), m, regions, verify.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p, _ := replicate.NewPlan(replicate.PlanInput{Manifest: m, Found: found})
	res, err := replicate.Execute(t.Context(), p, replicate.ExecuteInput{Manifest: m, Regions: regions, Content: content(small), Verify: verify.Options{Level: verify.ByContent}})
	if errext.StatusOf(err) != errext.Gate || res.Regions[1].Published || res.Regions[1].Verified {
		t.Errorf("%+v, %v", res, err)
	}
	if len(state.Content()) != 0 {
		t.Errorf("the state holds %v", state.Content())
	}
}

func TestTheLaterPublisherLoses(t *testing.T) {
	m, regions := newRelease(small), twoBuckets(t)
	p := plan(t, m, regions, nil)
	files := maps.Clone(small)
	files["engine/vllm.yaml"] = "model: z\n"
	other := newRelease(files)
	mustRun(t, other, files, regions)
	_, err := replicate.Execute(t.Context(), p, replicate.ExecuteInput{Manifest: m, Regions: regions, Content: content(small)})
	if err == nil || !strings.Contains(err.Error(), "someone else published") || errext.StatusOf(err) != errext.Failed {
		t.Errorf("error %v", err)
	}
	for _, r := range regions {
		if c := current(t, r); c.Release != other.Release || c.Generation != 1 {
			t.Errorf("%s: CURRENT %+v", r.Name, c)
		}
	}
}

func TestTwoRunsAtOnceAreHarmless(t *testing.T) {
	m, regions := newRelease(small), twoRegions(t)
	p := plan(t, m, regions, nil)
	done := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := replicate.Execute(t.Context(), p, replicate.ExecuteInput{Manifest: m, Regions: regions, Content: content(small)})
			done <- err
		}()
	}
	for range 2 {
		// A run may notice that the other writes while it verifies; it then says
		// so and publishes nothing.
		if err := <-done; err != nil && !strings.Contains(err.Error(), "changed while it was verified") {
			t.Error(err)
		}
	}
	mustRun(t, m, small, regions)
	if c := current(t, regions[0]); c.Release != m.Release || c.Generation != 1 {
		t.Errorf("CURRENT %+v", c)
	}
}

func TestACurrentOfAnotherRegionIsNotTouched(t *testing.T) {
	m, regions := newRelease(small), twoBuckets(t)
	wrong := release.Current{Schema: release.CurrentSchema, Region: "ap", Service: "support", Release: m.Release, Generation: 7}
	put(t, regions[0].State, release.CurrentKey("eu", "support"), string(wrong.Encode()))
	res, err := run(t, m, small, regions)
	if err == nil || !strings.Contains(err.Error(), `belongs to the region "ap"`) || res.Regions[1].Copied != 0 {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestPlanNeedsOneSource(t *testing.T) {
	m, regions := newRelease(small), twoBuckets(t)
	found, _ := replicate.Survey(t.Context(), m, regions[:1], verify.Options{})
	if _, err := replicate.NewPlan(replicate.PlanInput{Manifest: m, Found: found}); errext.StatusOf(err) != errext.Usage {
		t.Errorf("error %v", err)
	}
}

func TestPlanText(t *testing.T) {
	m, regions := newRelease(map[string]string{"model/base/config.json": "{}", "engine/vllm.yaml": "model: x\n"}), twoBuckets(t)
	put(t, regions[0].Store, release.Prefix("support", m.Release)+"engine/vllm.yaml", "model: x\n")
	var b strings.Builder
	if err := plan(t, m, regions, nil).WriteText(&b); err != nil {
		t.Fatal(err)
	}
	want := "release " + m.Release[:12] + ` of support

us (source)
  keep     0 files, 0 bytes: there and proven
  copy     2 files, 11 bytes, from their sources, in about 6 requests
           engine/vllm.yaml (missing, 9 bytes)
           model/base/config.json (missing, 2 bytes)
  publish  generation 1, the region's first, once the copy is verified

eu (target)
  keep     1 files, 9 bytes: there and proven
  copy     1 files, 2 bytes, from us, in about 4 requests
           model/base/config.json (missing, 2 bytes)
  publish  generation 1, the region's first, once the copy is verified
`
	if b.String() != want {
		t.Errorf("plan\n%s\nwant\n%s", b.String(), want)
	}
}

// TestRandomDamageIsRepaired damages both regions at random; whatever the source
// region cannot give comes from the sources again, and both end right.
func TestRandomDamageIsRepaired(t *testing.T) {
	m, regions := newRelease(small), twoBuckets(t)
	mustRun(t, m, small, regions)
	for seed := range uint64(15) {
		rng := rand.New(rand.NewPCG(seed, 2))
		wrong := [2]int{}
		for i, r := range regions {
			for name, content := range small {
				key := release.Prefix("support", m.Release) + name
				switch rng.IntN(4) {
				case 0:
					r.Store.Remove(t.Context(), key, store.Cond{})
					wrong[i]++
				case 1:
					put(t, r.Store, key, strings.ToUpper(content))
					wrong[i]++
				}
			}
		}
		res := mustRun(t, m, small, regions)
		if res.Regions[0].Copied != wrong[1] || res.Regions[1].Copied != wrong[0] || !res.Regions[0].Verified || !res.Regions[1].Verified {
			t.Fatalf("seed %d: %d and %d damaged, %+v", seed, wrong[1], wrong[0], res)
		}
	}
}

func TestTwoRegionsInOnePlaceAreRefused(t *testing.T) {
	m, regions := newRelease(small), twoRegions(t)
	regions[0].Store = dir.Plain(regions[1].Store.(*dir.Store).Root())
	if _, err := replicate.Survey(t.Context(), m, regions, verify.Options{}); errext.StatusOf(err) != errext.Usage {
		t.Errorf("error %v", err)
	}
}

// What the gate reads from a target's manifest.json is the source's again, and
// only a changed one is written.
func TestEditedAnnotationsAreReplaced(t *testing.T) {
	m := newRelease(small)
	for name, edit := range map[string]func(*testing.T, []byte) []byte{
		"nothing": func(_ *testing.T, data []byte) []byte { return data },
		"an annotation": func(t *testing.T, data []byte) []byte {
			other, err := manifest.Decode(data)
			if err != nil {
				t.Fatal(err)
			}
			other.Annotations.Tool = "another"
			data, err = manifest.Encode(other)
			if err != nil {
				t.Fatal(err)
			}
			return data
		},
		"spaces behind it": func(_ *testing.T, data []byte) []byte { return append(data, "  \n"...) },
	} {
		regions := twoBuckets(t)
		mustRun(t, m, small, regions)
		key := release.Prefix(m.Service, m.Release) + release.ManifestName
		source, err := store.ReadAll(t.Context(), regions[1].Store, store.Object{Key: key}, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		put(t, regions[0].Store, key, string(edit(t, slices.Clone(source))))
		before, _ := regions[0].Store.Stat(t.Context(), key)
		res := mustRun(t, m, small, regions)
		now, err := store.ReadAll(t.Context(), regions[0].Store, store.Object{Key: key}, 1<<20)
		after, _ := regions[0].Store.Stat(t.Context(), key)
		if err != nil || string(now) != string(source) || res.Regions[1].Replaced != (name == "an annotation") || (after.ETag == before.ETag) != (name == "nothing") {
			t.Errorf("%s: replaced %v, %v:\n%s", name, res.Regions[1].Replaced, err, now)
		}
	}
}
