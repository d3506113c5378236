package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"drkit/internal/errext"
	"drkit/internal/redact"
)

// samples reads a metrics file as Prometheus does: values by name and region, the
// sum over other labels.
func samples(t *testing.T, path string) map[string]float64 {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	all, err := parser.TextToMetricFamilies(bytes.NewReader(data))
	if err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	got := map[string]float64{}
	for name, f := range all {
		for _, m := range f.Metric {
			key := strings.TrimPrefix(name, "drkit_copy_")
			for _, l := range m.Label {
				if l.GetName() == "region" || l.GetName() == "verdict" {
					key += " " + l.GetValue()
				}
			}
			got[key] += m.GetGauge().GetValue()
		}
	}
	return got
}

// TestVerifyMetrics: green, red, and a run that fails each leave a true file.
func TestVerifyMetrics(t *testing.T) {
	c := newImageCopies(t, "", "", "")
	dir := t.TempDir()
	file := filepath.Join(dir, "drkit.prom")
	verify := func(want errext.Status, args ...string) map[string]float64 {
		t.Helper()
		if status, out, errs := execute(t, append([]string{"verify", "-f", c.file, "--metrics", file}, args...)...); status != want {
			t.Errorf("status %d, want %d: %s%s", status, want, out, errs)
		}
		return samples(t, file)
	}
	got := verify(errext.Holds)
	if got["holds eu-west-1"] != 1 || got["objects eu-west-1 match"] != 10 || got["errors eu-west-1"] != 0 || got["age_seconds eu-west-1"] != 0 || got["run_status"] != 0 || got["last_success_timestamp_seconds eu-west-1"] == 0 {
		t.Errorf("green: %v", got)
	}
	success := got["last_success_timestamp_seconds eu-west-1"]

	lost, err := filepath.Glob(filepath.Join(filepath.Dir(c.file), "regions/eu-west-1/support/*/model/base/tokenizer.json"))
	if err != nil || len(lost) != 1 {
		t.Fatal(err, lost)
	}
	if err := os.Remove(lost[0]); err != nil {
		t.Fatal(err)
	}
	got = verify(errext.Gate)
	if got["holds eu-west-1"] != 0 || got["objects eu-west-1 missing"] != 1 || got["objects eu-west-1 match"] != 9 || got["run_status"] != 4 || got["missing_bytes eu-west-1"] == 0 || got["last_success_timestamp_seconds eu-west-1"] != success {
		t.Errorf("red: %v, success %v", got, success)
	}
	if _, known := got["age_seconds eu-west-1"]; !known {
		t.Errorf("red: no age: %v", got)
	}

	got = verify(errext.Failed, "--release", strings.Repeat("0", 64))
	if got["holds eu-west-1"] != 0 || got["errors eu-west-1"] != 1 || got["run_status"] != 1 || got["last_success_timestamp_seconds eu-west-1"] != success {
		t.Errorf("a run that fails: %v", got)
	}
	if _, known := got["objects eu-west-1 match"]; known {
		t.Errorf("a run that fails keeps old verdicts: %v", got)
	}
	if err := os.WriteFile(c.file, []byte("no: yaml: at all"), 0o644); err != nil {
		t.Fatal(err)
	}
	got = verify(errext.Usage)
	if _, known := got["holds eu-west-1"]; !known || got["holds eu-west-1"] != 0 || got["run_status"] != 2 || got["last_success_timestamp_seconds eu-west-1"] != success {
		t.Errorf("a run that knows nothing: %v", got)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestMetricsOfShards(t *testing.T) {
	c := newImageCopies(t, "", "", "")
	parts, file := t.TempDir(), filepath.Join(t.TempDir(), "drkit.prom")
	for _, shard := range []string{"0/2", "1/2"} {
		if status, _, errs := execute(t, "verify", "-f", c.file, "--shard", shard, "--partial", parts); status != errext.Holds {
			t.Fatalf("shard %s: status %d: %s", shard, status, errs)
		}
	}
	if status, out, errs := execute(t, "verify", "merge", parts, "--metrics", file); status != errext.Holds {
		t.Fatalf("merge: status %d: %s%s", status, out, errs)
	}
	if got := samples(t, file); got["holds eu-west-1"] != 1 || got["objects eu-west-1 match"] != 10 {
		t.Errorf("%v", got)
	}
	if err := os.Remove(filepath.Join(parts, "shard-00001-of-00002.json")); err != nil {
		t.Fatal(err)
	}
	status, _, errs := execute(t, "verify", "merge", parts, "--metrics", file)
	if got := samples(t, file); status != errext.Refused || got["holds eu-west-1"] != 0 || got["last_success_timestamp_seconds eu-west-1"] == 0 {
		t.Errorf("a shard is missing: status %d, %v: %s", status, got, errs)
	}
}

func TestMetricsThatCannotBe(t *testing.T) {
	c := newImageCopies(t, "", "", "")
	dir := t.TempDir()
	for name, args := range map[string][]string{
		"a folder":         {"verify", "-f", c.file, "--metrics", dir},
		"no folder":        {"verify", "-f", c.file, "--metrics", filepath.Join(dir, "x", "y.prom")},
		"of one shard":     {"verify", "-f", c.file, "--shard", "0/2", "--metrics", filepath.Join(dir, "y.prom")},
		"of two places":    {"verify", dir, c.file, "--metrics", filepath.Join(dir, "y.prom")},
		"a device":         {"verify", "-f", c.file, "--metrics", "/dev/full"},
		"merge, no folder": {"verify", "merge", dir, "--metrics", filepath.Join(dir, "x", "y.prom")},
	} {
		if status, _, errs := execute(t, args...); status != errext.Usage || !strings.Contains(errs, "--metrics") || !strings.Contains(errs, "hint: ") {
			t.Errorf("%s: status %d: %s", name, status, errs)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestLostMetrics: a green that could not be written is no green, and a red stays one.
func TestLostMetrics(t *testing.T) {
	r := redact.New()
	s := &streams{Out: r.Writer(io.Discard), Err: r.Writer(io.Discard), Redactor: r}
	o := metricsOption{filepath.Join(t.TempDir(), "gone", "drkit.prom")}
	if got := errext.StatusOf(o.record(s, &measured{}, nil)); got != errext.Evidence {
		t.Errorf("status %d", got)
	}
	if got := errext.StatusOf(o.record(s, &measured{}, conclude(errext.Gate))); got != errext.Evidence {
		t.Errorf("status %d", got)
	}
}
