package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drkit/drill"
	"drkit/drill/selftest"
	"drkit/internal/service"
)

// TestLastSelfTest: only a whole result of this very program counts, and it is judged
// by its cases, not by what it says of itself.
func TestLastSelfTest(t *testing.T) {
	own := &drill.Binary{SHA256: strings.Repeat("a", 64)}
	whole := func() selftest.Result {
		r := selftest.Result{Schema: selftest.Schema, Tool: "v1", Binary: own.SHA256, Held: true}
		for _, id := range selftest.Names() {
			c := selftest.Case{ID: id, Want: selftest.Red, Outcome: selftest.Red}
			if id == "sound" {
				c.Want, c.Outcome = selftest.Green, selftest.Green
			}
			r.Cases = append(r.Cases, c)
		}
		return r
	}
	for name, tc := range map[string]struct {
		change func(*selftest.Result)
		binary *drill.Binary
		state  string
	}{
		"holds":                 {func(*selftest.Result) {}, own, drill.SelfTestHolds},
		"another build":         {func(r *selftest.Result) { r.Binary = strings.Repeat("b", 64) }, own, drill.SelfTestNotRun},
		"another version":       {func(r *selftest.Result) { r.Tool = "v2" }, own, drill.SelfTestNotRun},
		"a part of it":          {func(r *selftest.Result) { r.Partial = true }, own, drill.SelfTestNotRun},
		"another format":        {func(r *selftest.Result) { r.Schema = "x" }, own, drill.SelfTestNotRun},
		"the program is hidden": {func(*selftest.Result) {}, nil, drill.SelfTestNotRun},
		"a blind check":         {func(r *selftest.Result) { r.Cases[3].Outcome = selftest.Green }, own, drill.SelfTestFailed},
		"a case was taken out":  {func(r *selftest.Result) { r.Cases = r.Cases[:len(r.Cases)-1] }, own, drill.SelfTestFailed},
		"the control is red":    {func(r *selftest.Result) { r.Cases[0].Outcome = selftest.Other }, own, drill.SelfTestFailed},
	} {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, selfTests), 0o755); err != nil {
			t.Fatal(err)
		}
		r := whole()
		tc.change(&r)
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string]string{"1.json": "{", "2.json": string(data)} {
			if err := os.WriteFile(filepath.Join(dir, selfTests, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got := lastSelfTest(dir, "v1", tc.binary)
		if got.State != tc.state || (got.State == drill.SelfTestNotRun) != (got.Why != "") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := lastSelfTest(t.TempDir(), "v1", own); got.State != drill.SelfTestNotRun || !strings.Contains(got.Why, "drkit drill self-test makes one") {
		t.Errorf("%+v", got)
	}
}

// TestOpenOwn: a region that publishes nothing has no copy to try; one whose record cannot
// be read is broken, and never left out in silence.
func TestOpenOwn(t *testing.T) {
	dir := t.TempDir()
	if err := writeService(dir); err != nil {
		t.Fatal(err)
	}
	svc, err := service.Load(filepath.Join(dir, "drkit.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	target, err := chooseTarget(svc, "eu-west-1")
	if err != nil {
		t.Fatal(err)
	}
	current := filepath.Join(dir, "regions", "eu-west-1", ".drkit", "eu-west-1", svc.Metadata.Name, "CURRENT")
	if err := os.RemoveAll(current); err != nil {
		t.Fatal(err)
	}
	if own := openOwn(t.Context(), svc, target, 1<<20); own.Broken != nil || own.Manifest != nil {
		t.Errorf("nothing is published: %+v", own)
	}
	if err := os.MkdirAll(filepath.Dir(current), 0o755); err != nil {
		t.Fatal(err)
	}
	fillFile(t, current, "{")
	if own := openOwn(t.Context(), svc, target, 1<<20); own.Broken == nil || own.Manifest != nil {
		t.Errorf("the record is damaged: %+v", own)
	}
}
