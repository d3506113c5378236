package selftest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"drkit/drill"
	"drkit/internal/store/mem"
)

const models = "../../testdata/models/"

func input(t *testing.T) Input {
	t.Helper()
	return Input{Model: models + "support-tiny", Adapter: models + "support-tiny-billing", WorkDir: t.TempDir(), Tool: "test"}
}

// TestEveryFaultIsFound runs the whole self-test: each fault is red for its own reason,
// and the sound recovery is green.
func TestEveryFaultIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, told := input(t), 0
		in.Parallel = 1
		in.OnCase = func(Case) { told++ }
		res, err := Run(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		if !res.Holds() || !res.Held || res.Partial || len(res.Cases) != len(faults) || told != len(faults) {
			t.Errorf("%d cases, %d told, holds %v", len(res.Cases), told, res.Held)
		}
		for _, c := range res.Cases {
			if !c.OK() {
				t.Errorf("%s: %s (%s, %d): %s", c.ID, c.Outcome, c.Verdict, c.Status, c.Seen)
			}
		}
	})
}

// released is made once, outside of any bubble.
var released = sync.OnceValues(func() (*releases, error) {
	work, err := os.MkdirTemp("", "self-test-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	return newReleases(context.Background(), Input{Model: models + "support-tiny", Adapter: models + "support-tiny-billing", WorkDir: work})
})

// TestBlindCheckIsSeen: the self-test itself can go red. A fault that nothing notices is
// green, one that is found by something else is other, and neither is what it had to be.
func TestBlindCheckIsSeen(t *testing.T) {
	r, err := released()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		fault   fault
		outcome string
	}{
		"nothing is wrong": {fault{id: "blind", want: Red, verdict: drill.NotRecovered, gate: "copy", arrange: func(*bench) error { return nil }}, Green},
		"another gate":     {fault{id: "elsewhere", want: Red, verdict: drill.NotRecovered, gate: "behaviour", arrange: func(b *bench) error { return b.overwriteShard() }}, Other},
		"other words":      {fault{id: "words", want: Red, verdict: drill.NotRecovered, gate: "copy", says: "tokenizer", arrange: func(b *bench) error { return b.overwriteShard() }}, Other},
		"another verdict":  {fault{id: "verdict", want: Red, verdict: drill.Incomplete, gate: "copy", arrange: func(b *bench) error { return b.overwriteShard() }}, Other},
		"a red control":    {fault{id: "control", want: Green, verdict: drill.Recovered, arrange: func(b *bench) error { return b.overwriteShard() }}, Other},
	} {
		synctest.Test(t, func(t *testing.T) {
			c, err := tc.fault.run(t.Context(), Input{WorkDir: t.TempDir()}, r)
			if err != nil || c.Outcome != tc.outcome || c.OK() {
				t.Errorf("%s: %+v, %v", name, c, err)
			}
		})
	}
}

func TestHolds(t *testing.T) {
	red, green := Case{Want: Red, Outcome: Red}, Case{Want: Green, Outcome: Green}
	for name, tc := range map[string]struct {
		cases []Case
		holds bool
	}{
		"all":          {[]Case{green, red}, true},
		"no control":   {[]Case{red}, false},
		"no fault":     {[]Case{green}, false},
		"nothing":      {nil, false},
		"one is blind": {[]Case{green, red, {Want: Red, Outcome: Green}}, false},
		"red control":  {[]Case{{Want: Green, Outcome: Red}, red}, false},
	} {
		if got := (Result{Cases: tc.cases}).Holds(); got != tc.holds {
			t.Errorf("%s: holds %v", name, got)
		}
	}
}

func TestOnly(t *testing.T) {
	if _, err := Run(t.Context(), Input{Only: []string{"gremlins"}}); !errors.Is(err, ErrUnknownCase) {
		t.Error(err)
	}
	chosen, err := choose([]string{"steady-late"})
	if err != nil || len(chosen) != 2 || chosen[0].want != Green || chosen[1].id != "steady-late" {
		t.Errorf("%d cases, %v: a case is nothing without its control", len(chosen), err)
	}
	names := Names()
	slices.Sort(names)
	if len(slices.Compact(names)) != len(faults) {
		t.Errorf("an id is used twice: %v", Names())
	}
}

// TestOwnCopy builds the faults into a scratch copy of a release, and leaves that alone.
func TestOwnCopy(t *testing.T) {
	r, err := released()
	if err != nil {
		t.Fatal(err)
	}
	p := r.sound
	own := func(s *mem.Store, limit int64) *Own {
		return &Own{Region: "eu-west-1", Manifest: p.manifest, Store: s, Prefix: service + "/" + p.manifest.Release + "/", MaxBytes: limit}
	}
	s := mem.New().Fill(p.target)
	cases, left, err := own(s, 1<<30).cases(t.Context(), t.TempDir())
	if err != nil || len(cases) != 5 || len(left) != 0 {
		t.Fatalf("%d cases, not tried %q, %v", len(cases), left, err)
	}
	for _, c := range cases {
		if !c.OK() {
			t.Errorf("%+v", c)
		}
	}
	for name, want := range p.target {
		if s.Content()[name] != want {
			t.Errorf("%s was written to", name)
		}
	}

	// Without room for a weight file that fault is not tried, and not claimed.
	cases, left, err = own(s, 40<<10).cases(t.Context(), t.TempDir())
	if err != nil || slices.ContainsFunc(cases, func(c Case) bool { return c.ID == "own-block-overwritten" }) || !slices.ContainsFunc(cases, func(c Case) bool { return c.ID == "own-template-wrong" && c.OK() }) {
		t.Errorf("%+v, %v", cases, err)
	}
	if !slices.Contains(left, "own-block-overwritten on the copy of region eu-west-1: no such file fits into the scratch copy (--max-copy)") {
		t.Errorf("not tried: %q", left)
	}

	// Without room for any file nothing is tried: no control alone that reads as a green.
	cases, left, err = own(s, 1).cases(t.Context(), t.TempDir())
	if err != nil || len(cases) != 0 || len(left) != len(damages) {
		t.Errorf("%+v, not tried %q, %v", cases, left, err)
	}

	// A region that publishes nothing is said; one that cannot be read is no control.
	cases, left, err = (&Own{Region: "eu-west-1"}).cases(t.Context(), t.TempDir())
	if err != nil || len(cases) != 0 || len(left) != 1 || left[0] != "the copy of region eu-west-1: it publishes no release" {
		t.Errorf("%+v, not tried %q, %v", cases, left, err)
	}
	cases, _, err = (&Own{Region: "eu-west-1", Broken: errors.New("no such bucket")}).cases(t.Context(), t.TempDir())
	if err != nil || len(cases) != 1 || cases[0].OK() || !strings.Contains(cases[0].Seen, "no such bucket") {
		t.Errorf("%+v, %v", cases, err)
	}

	// Nor is one whose scratch folder takes nothing.
	full := filepath.Join(t.TempDir(), "full")
	if err := os.WriteFile(full, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cases, _, err = own(s, 1<<30).cases(t.Context(), full)
	if err == nil && (len(cases) != 1 || cases[0].OK()) {
		t.Errorf("%+v", cases)
	}

	// A copy that is broken already is no control.
	s.Damage(service+"/"+p.manifest.Release+"/model/base/"+template, []byte("{{ x }}"))
	cases, _, err = own(s, 1<<30).cases(t.Context(), t.TempDir())
	if err != nil || len(cases) != 1 || cases[0].OK() || !strings.Contains(cases[0].Seen, template) {
		t.Errorf("%+v, %v", cases, err)
	}
}

// TestBrokenModel: what cannot be released, or nobody may write beside, is an error and
// no result.
func TestBrokenModel(t *testing.T) {
	empty := t.TempDir()
	damagedModel := filepath.Join(t.TempDir(), "m")
	if err := os.CopyFS(damagedModel, os.DirFS(models+"support-tiny")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(damagedModel, "config.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Input){
		"no model":         func(in *Input) { in.Model = filepath.Join(empty, "nothing") },
		"an empty folder":  func(in *Input) { in.Model = empty },
		"a damaged config": func(in *Input) { in.Model = damagedModel },
		"no adapter":       func(in *Input) { in.Adapter = filepath.Join(empty, "nothing") },
		"no scratch space": func(in *Input) { in.WorkDir = file },
	} {
		in := input(t)
		in.Only = []string{"steady-late"}
		change(&in)
		if res, err := Run(t.Context(), in); err == nil && res.Holds() || res.Held {
			t.Errorf("%s: it holds: %+v", name, res)
		}
	}
}

// TestDamage: each damage changes what it says and nothing else.
func TestDamage(t *testing.T) {
	data := make([]byte, 3*blockSize)
	changed := overwritten(data)
	differ := 0
	for i := range data {
		if data[i] != changed[i] {
			differ++
		}
	}
	if len(changed) != len(data) || differ != blockSize {
		t.Errorf("%d of %d bytes differ, want a block of %d", differ, len(data), blockSize)
	}
	work := t.TempDir()
	if err := os.CopyFS(filepath.Join(work, baseDir), os.DirFS(models+"support-tiny")); err != nil {
		t.Fatal(err)
	}
	if err := dropMatrix(work); err != nil {
		t.Fatal(err)
	}
	index, err := os.ReadFile(filepath.Join(work, baseDir, "model.safetensors.index.json"))
	if err != nil || strings.Contains(string(index), "model.layers.0.mlp.down_proj.weight") || !strings.Contains(string(index), "model.layers.1.mlp.down_proj.weight") {
		t.Errorf("%s, %v", index, err)
	}
	if err := dropMatrix(t.TempDir()); err == nil {
		t.Error("a matrix was taken out of nothing")
	}
}
