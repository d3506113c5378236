package report

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"drkit/drill"
)

// of makes a run whose segment weights → engine-ready took so many seconds; the
// whole takes 100 s more.
func of(day int, boot float64, verdict string, change func(*drill.Run)) *drill.Run {
	r := &drill.Run{ID: fmt.Sprint("RUN", day), Begun: drill.Stamp{Proc: 1, Wall: time.Date(2026, 3, day, 9, 0, 0, 0, time.UTC)}}
	r.Plan = drill.RunStarted{Service: "s", Source: "us", Target: "eu", Mode: "rehearsal", Release: "r1", Objectives: drill.Objectives{RTO: 5 * time.Minute}, PlaybookHash: "p1"}
	at := 0.0
	for _, in := range []struct {
		name string
		took float64
	}{{drill.InstantDeclared, 1}, {drill.InstantWeights, 10}, {drill.InstantEngineReady, boot}, {drill.InstantCanaryVerified, 20}, {drill.InstantCutover, 30}, {drill.InstantSteady, 40}} {
		at += in.took
		r.Instants = append(r.Instants, drill.InstantState{Name: in.name, At: drill.Stamp{Proc: 1, Mono: time.Duration(at * float64(time.Second))}})
	}
	if verdict != "" {
		status := map[string]int{drill.Recovered: 0, drill.ObjectiveMissed: 5, drill.Refused: 3}[verdict]
		if status == 0 && verdict != drill.Recovered {
			status = 4
		}
		r.Finished = &drill.RunFinished{Verdict: verdict, Status: status, Reasons: []drill.Reason{{What: "why it did"}}[:min(1, status)]}
	}
	if change != nil {
		change(r)
	}
	return r
}

// announced gives a run its record in a ledger.
func announced(record uint64) func(*drill.Run) {
	return func(r *drill.Run) { r.Plan.Ledger = &drill.LedgerRef{Location: "l", Record: record} }
}

func none(string) string { return "" }

// TestRegressions: medians by hand. Of 60, 100, 62 and 90 the median is 76; a fifth
// more is 91.2.
func TestRegressions(t *testing.T) {
	earlier := []*drill.Run{of(1, 60, drill.Recovered, nil), of(2, 100, drill.ObjectiveMissed, nil), of(3, 62, drill.Recovered, nil), of(4, 90, drill.Recovered, nil)}
	demo := func(r *drill.Run) { r.Plan.Demo = true }
	for _, c := range []struct {
		name string
		runs []*drill.Run
		boot float64
		want string
	}{
		{"slower", earlier, 91.3, "weights → engine-ready 91.300 beside 76.000 of 4"},
		{"not slow enough", earlier, 91.1, ""},
		{"two are too few", earlier[:2], 1000, ""},
		{"red ones do not count", append(slices.Clone(earlier[:2]), of(3, 62, drill.NotRecovered, nil)), 1000, ""},
		{"demonstrations are another kind", append(slices.Clone(earlier[:2]), of(3, 62, drill.Recovered, demo)), 1000, ""},
		{"three", earlier[:3], 74.5, "weights → engine-ready 74.500 beside 62.000 of 3"},
		{"later ones do not count", append(slices.Clone(earlier[:2]), of(9, 62, drill.Recovered, nil)), 1000, ""},
	} {
		h := NewHistory(append(slices.Clone(c.runs), of(5, c.boot, drill.Recovered, nil)), none)
		got := ""
		for _, r := range h.Kinds[0].Runs {
			if r.Run != "RUN5" {
				continue
			}
			for _, x := range r.Regressions {
				if x.To == drill.InstantEngineReady {
					got = fmt.Sprintf("%s → %s %.3f beside %.3f of %d", x.From, x.To, x.Elapsed, x.Median, x.Runs)
				}
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	cached := of(5, 500, drill.Recovered, func(r *drill.Run) { r.Instants[2].Cached = true })
	if h := NewHistory(append(slices.Clone(earlier), cached), none); len(h.Kinds[0].Runs[4].Regressions) != 1 { // the judged figure alone
		t.Errorf("a cached segment is compared with those that were not: %+v", h.Kinds[0].Runs[4].Regressions)
	}
	small := []*drill.Run{of(1, 1, drill.Recovered, nil), of(2, 1, drill.Recovered, nil), of(3, 1, drill.Recovered, nil), of(4, 1.9, drill.Recovered, nil)}
	if h := NewHistory(small, none); len(h.Kinds[0].Runs[3].Regressions) != 0 {
		t.Errorf("less than a second is no regression: %+v", h.Kinds[0].Runs[3].Regressions)
	}
	broken := func(run string) string { return map[string]string{"RUN3": "line 4 was changed"}[run] }
	if h := NewHistory(append(slices.Clone(earlier[:3]), of(5, 1000, drill.Recovered, nil)), broken); len(h.Kinds[0].Runs[3].Regressions) != 0 {
		t.Error("a run whose evidence does not hold counts")
	}
}

func TestStatus(t *testing.T) {
	today := Today{Now: time.Date(2026, 3, 20, 9, 0, 0, 0, time.UTC), MaxAge: 30 * 24 * time.Hour, RTO: 5 * time.Minute,
		Releases: map[string]string{"eu": "r1"}, PlaybookHash: map[string]string{"rehearsal": "p1"}, Expect: []Kind{{Service: "s", Source: "us", Target: "eu", Mode: "rehearsal"}}}
	good := of(10, 60, drill.Recovered, nil)
	tabletop := of(12, 60, drill.Recovered, func(r *drill.Run) { r.Plan.Mode = "tabletop" })
	for _, c := range []struct {
		name   string
		runs   []*drill.Run
		change func(*Today)
		broken string
		last   string // the last success
		want   []string
	}{
		{"good", []*drill.Run{good}, nil, "", "RUN10", nil},
		{"never run", nil, nil, "", "", []string{"it was never run"}},
		{"a demonstration is no success", []*drill.Run{of(10, 60, drill.Recovered, func(r *drill.Run) { r.Plan.Demo = true })}, nil, "", "", []string{"it was never run"}},
		{"a tabletop is no success", []*drill.Run{tabletop}, nil, "", "", []string{"it was never run"}},
		{"nor does one refresh it", []*drill.Run{good, tabletop}, nil, "", "RUN10", nil},
		{"incomplete", []*drill.Run{good, of(11, 60, drill.Incomplete, nil)}, nil, "", "RUN10", []string{"RUN11, ended as incomplete: why it did"}},
		{"late", []*drill.Run{of(11, 60, drill.ObjectiveMissed, nil)}, nil, "", "", []string{"it has never recovered; runs so far: 1", "ended as objective-missed"}},
		{"not ended", []*drill.Run{good, of(11, 60, "", nil)}, nil, "", "RUN10", []string{"RUN11, has not ended"}},
		{"stale", []*drill.Run{good}, func(d *Today) { d.MaxAge = 9 * 24 * time.Hour }, "", "RUN10", []string{"the last success is 10 days old, allowed are 9 days"}},
		{"another release", []*drill.Run{good}, func(d *Today) { d.Releases = map[string]string{"eu": "r2"} }, "", "RUN10", []string{"eu publishes release r2 now, and r1 was drilled"}},
		{"dated ahead", []*drill.Run{of(21, 60, drill.Recovered, nil)}, nil, "", "RUN21", []string{"the last success is dated 2026-03-21T09:00:00Z, which is not yet: a clock is wrong"}},
		{"a red run with the clock set back", []*drill.Run{of(9, 60, drill.NotRecovered, announced(3)), of(10, 60, drill.Recovered, announced(1)), of(8, 60, drill.Recovered, nil)}, nil, "", "RUN10", []string{"RUN9, ended as not-recovered"}},
		{"another ledger's order is its own", []*drill.Run{of(9, 60, drill.NotRecovered, func(r *drill.Run) { r.Plan.Ledger = &drill.LedgerRef{Location: "m", Record: 3} }), of(10, 60, drill.Recovered, announced(1))}, nil, "", "RUN10", nil},
		{"nothing published", []*drill.Run{good}, func(d *Today) { d.Releases = map[string]string{"eu": ""} }, "", "RUN10", []string{"eu publishes no release now, and r1 was drilled"}},
		{"a shorter promise", []*drill.Run{good}, func(d *Today) { d.RTO = 159 * time.Second }, "", "RUN10", []string{"2m39s are promised now, and the last success took 2m40s"}},
		{"another playbook", []*drill.Run{good}, func(d *Today) { d.PlaybookHash = map[string]string{"rehearsal": "p2"} }, "", "RUN10", []string{"the playbook was changed"}},
		{"evidence that does not hold", []*drill.Run{of(9, 60, drill.Recovered, nil), good}, nil, "RUN10", "RUN9", []string{"the evidence of the newest run, RUN10, does not hold: record 3 is missing"}},
	} {
		d := today
		if c.change != nil {
			c.change(&d)
		}
		h := NewHistory(c.runs, func(run string) string {
			if run == c.broken {
				return "record 3 is missing"
			}
			return ""
		})
		s := NewStatus(h, d)
		i := slices.IndexFunc(s.Kinds, func(k KindStatus) bool { return k.Kind == d.Expect[0] })
		if i < 0 {
			t.Fatalf("%s: the expected kind is not there: %+v", c.name, s)
		}
		k := s.Kinds[i]
		last := ""
		if k.LastGood != nil {
			last = k.LastGood.Run
		}
		if last != c.last || len(k.Problems) != len(c.want) {
			t.Errorf("%s: last success %q, problems %q", c.name, last, k.Problems)
			continue
		}
		for n, want := range c.want {
			if !strings.Contains(k.Problems[n], want) {
				t.Errorf("%s: %q does not say %q", c.name, k.Problems[n], want)
			}
		}
	}
}

// scrape reads metrics as Prometheus does.
func scrape(t *testing.T, s Status, h Health) map[string]*dto.MetricFamily {
	t.Helper()
	var b bytes.Buffer
	if err := Metrics(&b, s, h); err != nil {
		t.Fatal(err)
	}
	p := expfmt.NewTextParser(model.UTF8Validation)
	all, err := p.TextToMetricFamilies(&b)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func value(f *dto.MetricFamily, label, want string) (float64, bool) {
	for _, m := range f.GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetName() == label && l.GetValue() == want {
				return m.GetGauge().GetValue(), true
			}
		}
	}
	return 0, false
}

func TestMetrics(t *testing.T) {
	good := of(10, 60, drill.Recovered, func(r *drill.Run) {
		r.Gates = []drill.GateState{{Step: "boot", Gate: drill.Gate{ID: "boot", Result: drill.Passed}}, {Step: "boot", Gate: drill.Gate{ID: "log", Result: drill.Unmeasured}}}
	})
	today := Today{Now: time.Date(2026, 3, 20, 9, 0, 0, 0, time.UTC)}
	all := scrape(t, NewStatus(NewHistory([]*drill.Run{good}, none), today), Health{Faults: 2, Records: 4, Open: 1})
	for _, c := range []struct {
		name, label, is string
		want            float64
	}{
		{"last_success_timestamp_seconds", "service", "s", 1773133200}, // date -u -d '2026-03-10 09:00' +%s
		{"last_run_timestamp_seconds", "mode", "rehearsal", 1773133200},
		{"last_status", "target", "eu", 0},
		{"objective_met", "target", "eu", 1},
		{"rto_seconds", "figure", "rto", 160},
		{"rto_promised_seconds", "source", "us", 300},
		{"segment_seconds", "segment", "weights:engine-ready", 60},
		{"gate_passed", "gate", "boot", 1},
		{"gate_passed", "gate", "log", 0},
		{"problems", "service", "s", 0},
	} {
		if got, ok := value(all["drkit_drill_"+c.name], c.label, c.is); !ok || got != c.want {
			t.Errorf("%s{%s=%q} is %v, %v; want %v", c.name, c.label, c.is, got, ok, c.want)
		}
	}
	for name, want := range map[string]float64{"evidence_faults": 2, "evidence_records": 4, "open_runs": 1, "status_timestamp_seconds": 1773997200} {
		if got := all["drkit_drill_"+name].GetMetric()[0].GetGauge().GetValue(); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	unmeasured := of(11, 60, drill.Incomplete, func(r *drill.Run) { r.Instants = r.Instants[:2] })
	ahead := scrape(t, NewStatus(NewHistory([]*drill.Run{good}, none), Today{Now: good.Begun.Wall.Add(-time.Hour)}), Health{})
	if f := ahead["drkit_drill_last_success_timestamp_seconds"]; f != nil {
		t.Errorf("a last success that is dated ahead is told, and will never be too old: %v", f)
	}
	all = scrape(t, NewStatus(NewHistory([]*drill.Run{unmeasured}, none), today), Health{})
	if all["drkit_drill_last_success_timestamp_seconds"] != nil || all["drkit_drill_objective_met"] != nil {
		t.Error("a run that measured nothing has a success or an objective")
	}
	if _, ok := value(all["drkit_drill_rto_seconds"], "figure", "rto"); ok {
		t.Error("an unmeasured recovery time has a value")
	}
	demo := of(12, 60, drill.Recovered, func(r *drill.Run) { r.Plan.Demo = true })
	all = scrape(t, NewStatus(NewHistory([]*drill.Run{demo}, none), today), Health{})
	if all["drkit_drill_last_success_timestamp_seconds"] != nil || all["drkit_drill_last_run_timestamp_seconds"] != nil {
		t.Error("a demonstration is in the metrics")
	}
}

// TestFailbackIsItsOwnKind: the way back shares no history with a planned move, and reads
// in the direction that it goes.
func TestFailbackIsItsOwnKind(t *testing.T) {
	mode := func(mode string) func(*drill.Run) { return func(r *drill.Run) { r.Plan.Mode = mode } }
	old := func(r *drill.Run) { // before the way back had a mode of its own
		r.Plan.Mode, r.Plan.Steps = "planned", []drill.StepPlan{{ID: "failback", Kind: "failback"}}
	}
	h := NewHistory([]*drill.Run{of(1, 60, drill.Recovered, mode("planned")), of(2, 60, drill.Recovered, mode("failback")), of(3, 60, drill.Recovered, old)}, none)
	if len(h.Kinds) != 2 || h.Kinds[0].String() != "s: us → eu, planned" || h.Kinds[1].String() != "s: eu → us, failback" || len(h.Kinds[1].Runs) != 2 {
		t.Errorf("%v", h.Kinds)
	}
	st := NewStatus(h, Today{Now: time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC)})
	var text bytes.Buffer
	if err := Metrics(&text, st, Health{}); err != nil {
		t.Fatal(err)
	}
	if want := `drkit_drill_last_success_timestamp_seconds{service="s",source="us",target="eu",mode="failback"}`; !strings.Contains(text.String(), want) {
		t.Errorf("no %s in\n%s", want, text.String())
	}
	r := of(2, 60, drill.Recovered, mode("failback"))
	var page bytes.Buffer
	if err := Markdown(&page, r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# s: eu → us: recovered", "The source region took over", "failback, "} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the report does not say %q:\n%s", want, page.String())
		}
	}
	if res := New(r); res.From != "eu" || res.To != "us" || res.Source != "us" || res.Target != "eu" || res.Mode != "failback" {
		t.Errorf("%+v", res)
	}
	if title := TestCases(r).Title; title != "drkit drill s: eu → us" {
		t.Errorf("JUnit is called %q", title)
	}
}
