package metrics

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/verify"
)

var (
	ended = time.Date(2026, 5, 1, 12, 0, 0, 500e6, time.UTC) // 1777636800.5 by `date -d 2026-05-01T12:00:00Z +%s`
	began = ended.Add(-90 * time.Second)
)

// read parses text as Prometheus does, and gives each sample by its name and labels.
func read(t *testing.T, text []byte) map[string]float64 {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	all, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	samples := map[string]float64{}
	for name, f := range all {
		if f.GetHelp() == "" || f.GetType() != dto.MetricType_GAUGE || !strings.HasPrefix(name, "drkit_copy_") {
			t.Errorf("%s: help %q, type %v", name, f.GetHelp(), f.GetType())
		}
		for _, m := range f.Metric {
			var l []string
			for _, p := range m.Label {
				l = append(l, p.GetName()+"="+p.GetValue())
			}
			if m.TimestampMs != nil {
				t.Errorf("%s has a timestamp, which the textfile collector refuses", name)
			}
			samples[name+"{"+strings.Join(l, ",")+"}"] = m.GetGauge().GetValue()
		}
	}
	return samples
}

func encode(t *testing.T, r Run, before []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Encode(&b, r, before); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func whole(region string) verify.Result {
	return verify.Result{Service: "chat", Release: "r1", Region: region, Level: verify.Checksum, Require: store.Claimed, Compared: 2, BytesRead: 7, Began: began, Ended: ended,
		Gaps: []verify.Gap{{Subject: "a", Verdict: verify.Match, Evidence: store.Claimed, WantSize: 10}, {Subject: "b", Verdict: verify.Match, Evidence: store.Content, WantSize: 5}},
		Age:  &verify.Age{Seconds: new(0.0), Releases: new(0), Missing: new(int64), Unproven: new(int64)}}
}

func has(t *testing.T, got map[string]float64, want map[string]float64) {
	t.Helper()
	for name, v := range want {
		if g, ok := got[name]; !ok || g != v {
			t.Errorf("%s is %v (%v), want %v in\n%s", name, g, ok, v, strings.Join(slices.Sorted(maps.Keys(got)), "\n"))
		}
	}
}

const west = "{service=chat,region=eu-west-1,release=r1"

func TestCopyThatHolds(t *testing.T) {
	got := read(t, encode(t, Run{Service: "chat", Release: "r1", Regions: []string{"eu-west-1"}, Results: []verify.Result{whole("eu-west-1")}, Ended: ended}, nil))
	has(t, got, map[string]float64{
		Holds + west + "}": 1, Objects + west + ",verdict=match}": 2, Objects + west + ",verdict=diverged}": 0, Objects + west + ",verdict=not-comparable}": 0,
		Bytes + west + ",verdict=match}": 15, Matches + west + ",evidence=claimed}": 1, Matches + west + ",evidence=recomputed}": 0, Matches + west + ",evidence=content}": 1,
		ReadBytes + west + "}": 7, Errors + west + "}": 0, Age + west + "}": 0, Behind + west + "}": 0, Missing + west + "}": 0, Unproven + west + "}": 0, Duration + west + "}": 90,
		LastRun + west + "}": 1777636800.5, LastSuccess + west + "}": 1777636800.5, Level + west + ",level=checksum,require=claimed}": 1, Status + "{service=chat}": 0, Accepted + west + "}": 0,
	})
}

// TestCopyThatDoesNotHold: whatever stands in the way, holds is 0 and there is no success.
func TestCopyThatDoesNotHold(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*verify.Result)
		want   map[string]float64
	}{
		"diverged": {func(r *verify.Result) { r.Gaps[0].Verdict = verify.Diverged }, map[string]float64{Objects + west + ",verdict=diverged}": 1, Bytes + west + ",verdict=diverged}": 10}},
		"missing":  {func(r *verify.Result) { r.Gaps[0].Verdict = verify.Missing }, map[string]float64{Objects + west + ",verdict=missing}": 1}},
		"extra": {func(r *verify.Result) {
			r.Gaps = append(r.Gaps, verify.Gap{Verdict: verify.Extra, GotSize: 3})
		}, map[string]float64{Objects + west + ",verdict=extra}": 1, Bytes + west + ",verdict=extra}": 3}},
		"on too little":    {func(r *verify.Result) { r.Require = store.Recomputed }, map[string]float64{}},
		"not comparable":   {func(r *verify.Result) { r.Gaps[0].Verdict = verify.NotComparable }, map[string]float64{Objects + west + ",verdict=not-comparable}": 1}},
		"errors":           {func(r *verify.Result) { r.Errors = []verify.ObjectError{{Err: errors.New("denied")}} }, map[string]float64{Errors + west + "}": 1}},
		"nothing compared": {func(r *verify.Result) { r.Gaps, r.Compared = nil, 0 }, map[string]float64{Objects + west + ",verdict=match}": 0}},
		"age is not known": {func(r *verify.Result) { r.Gaps[0].Verdict = verify.Present; r.Age = &verify.Age{} }, map[string]float64{}},
		"an age of 2 hours": {func(r *verify.Result) {
			r.Gaps[0].Verdict = verify.Missing
			r.Age = &verify.Age{Seconds: new(7200.0), Releases: new(2), Missing: new(int64(10))}
		}, map[string]float64{Age + west + "}": 7200, Behind + west + "}": 2, Missing + west + "}": 10}},
	} {
		res := whole("eu-west-1")
		c.change(&res)
		got := read(t, encode(t, Run{Service: "chat", Results: []verify.Result{res}, Status: errext.Gate, Ended: ended}, nil))
		c.want[Holds+west+"}"], c.want[Status+"{service=chat}"], c.want[LastRun+west+"}"] = 0, 4, 1777636800.5
		has(t, got, c.want)
		if _, ok := got[LastSuccess+west+"}"]; ok {
			t.Errorf("%s: a success", name)
		}
		if _, ok := got[Age+west+"}"]; ok && name == "age is not known" {
			t.Errorf("%s: an unknown age has a value", name)
		}
	}
}

// TestFailedRun: no result at all is 0, not absent and not the green of before.
func TestFailedRun(t *testing.T) {
	before := encode(t, Run{Service: "chat", Release: "r1", Regions: []string{"eu-west-1"}, Results: []verify.Result{whole("eu-west-1")}, Ended: ended}, nil)
	later := ended.Add(time.Hour)
	got := read(t, encode(t, Run{Service: "chat", Release: "r2", Regions: []string{"eu-west-1"}, Status: errext.Failed, Ended: later}, before))
	has(t, got, map[string]float64{
		"drkit_copy_holds{service=chat,region=eu-west-1,release=r2}": 0, "drkit_copy_errors{service=chat,region=eu-west-1,release=r2}": 1, "drkit_copy_run_status{service=chat}": 1,
		LastSuccess + west + "}": 1777636800.5, "drkit_copy_last_run_timestamp_seconds{service=chat,region=eu-west-1,release=r2}": 1777640400.5,
	})
	if _, ok := got[Holds+west+"}"]; ok {
		t.Error("the earlier release is still said to hold")
	}
}

// TestRunThatKnowsNothing: drkit.yaml itself could not be read.
func TestRunThatKnowsNothing(t *testing.T) {
	before := encode(t, Run{Service: "chat", Regions: []string{"eu-west-1"}, Results: []verify.Result{whole("eu-west-1")}, Ended: ended}, nil)
	got := read(t, encode(t, Run{Status: errext.Usage, Ended: ended.Add(time.Hour)}, before))
	const failed = "{service=chat,region=eu-west-1,release=}"
	has(t, got, map[string]float64{Status + "{service=}": 2, Holds + failed: 0, Errors + failed: 1, LastRun + failed: 1777640400.5, LastSuccess + west + "}": 1777636800.5})
}

// TestLastSuccess: what is taken over from the file before.
func TestLastSuccess(t *testing.T) {
	line := func(region string, at any) string {
		return fmt.Sprintf("%s{service=\"chat\",region=%q,release=\"r0\"} %v\n", LastSuccess, region, at)
	}
	head := "# TYPE " + LastSuccess + " gauge\n"
	for name, c := range map[string]struct {
		before string
		want   map[string]float64 // by region
	}{
		"none":                 {"", nil},
		"an earlier one":       {head + line("a", 1.7e9), map[string]float64{"a": 1.7e9}},
		"of another region":    {head + line("a", 1.7e9) + line("b", 1.6e9), map[string]float64{"a": 1.7e9, "b": 1.6e9}},
		"the newer of two":     {head + line("a", 1.6e9) + strings.Replace(line("a", 1.7e9), "r0", "r9", 1), map[string]float64{"a": 1.7e9}},
		"still to come":        {head + line("a", 1.9e9), nil},
		"no number":            {head + line("a", "NaN"), nil},
		"endless":              {head + line("a", "+Inf"), nil},
		"before all time":      {head + line("a", -5), nil},
		"garbage":              {"\x00\x01 not metrics {", nil},
		"half a file":          {head + line("a", 1.7e9) + "drkit_copy_holds{service=\"ch", nil},
		"another type":         {"# TYPE " + LastSuccess + " counter\n" + line("a", 1.7e9), nil},
		"without its labels":   {head + LastSuccess + " 1.7e9\n", nil},
		"metrics of others":    {"# TYPE up gauge\nup 1\n", nil},
		"of the region itself": {head + line("eu-west-1", 1.7e9), map[string]float64{"eu-west-1": 1777636800.5}},
	} {
		got := read(t, encode(t, Run{Service: "chat", Results: []verify.Result{whole("eu-west-1")}, Ended: ended}, []byte(c.before)))
		seen := map[string]float64{}
		for sample, v := range got {
			if strings.HasPrefix(sample, LastSuccess) {
				_, region, _ := strings.Cut(sample, "region=")
				region, _, _ = strings.Cut(region, ",")
				seen[region] = v
			}
		}
		if c.want == nil {
			c.want = map[string]float64{}
		}
		c.want["eu-west-1"] = 1777636800.5
		if !maps.Equal(seen, c.want) {
			t.Errorf("%s: %v, want %v", name, seen, c.want)
		}
	}
}

// TestOddLabels: names that need escapes survive, and stay one series.
func TestOddLabels(t *testing.T) {
	res := whole("a\"b\\c\nd")
	got := read(t, encode(t, Run{Service: "chat", Results: []verify.Result{res}, Ended: ended}, nil))
	has(t, got, map[string]float64{Holds + "{service=chat,region=a\"b\\c\nd,release=r1}": 1})
}
