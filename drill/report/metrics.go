package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"drkit/drill"
)

// Health is what the metrics say beside the runs: whether their evidence holds.
type Health struct {
	Faults  int // contradictions between ledger, journals and evidence
	Records int // of the ledger
	Open    int // runs that have not ended
}

// Metrics writes a status for Prometheus' textfile collector. A series without a
// value is left out, so that absent() finds it: a kind that never recovered has no
// last success. Demonstrations and tabletops are not in it.
func Metrics(w io.Writer, s Status, h Health) error {
	m := &metrics{families: map[string]*dto.MetricFamily{}}
	for _, k := range s.Kinds {
		if k.Counts() {
			m.kind(k)
		}
	}
	m.add("evidence_faults", "Contradictions between the ledger, the journals and the evidence of all runs; 0: none was found.", float64(h.Faults))
	m.add("evidence_records", "Records of the ledger.", float64(h.Records))
	m.add("open_runs", "Runs that have not ended: they go on, or their process was killed.", float64(h.Open))
	m.add("status_timestamp_seconds", "When these metrics were written.", unix(s.Now))
	for _, name := range slices.Sorted(maps.Keys(m.families)) {
		if _, err := expfmt.MetricFamilyToText(w, m.families[name]); err != nil {
			return fmt.Errorf("writing metrics: %w", err)
		}
	}
	return nil
}

type metrics struct{ families map[string]*dto.MetricFamily }

// add sets one gauge; labels are pairs of name and value.
func (m *metrics) add(name, help string, value float64, labels ...string) {
	name = "drkit_drill_" + name
	f := m.families[name]
	if f == nil {
		typ := dto.MetricType_GAUGE
		f = &dto.MetricFamily{Name: &name, Help: &help, Type: &typ}
		m.families[name] = f
	}
	x := &dto.Metric{Gauge: &dto.Gauge{Value: &value}}
	for i := 0; i+1 < len(labels); i += 2 {
		x.Label = append(x.Label, &dto.LabelPair{Name: &labels[i], Value: &labels[i+1]})
	}
	f.Metric = append(f.Metric, x)
}

func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

func (m *metrics) kind(k KindStatus) {
	labels := []string{"service", k.Service, "source", k.Source, "target", k.Target, "mode", k.Mode}
	with := func(more ...string) []string { return slices.Concat(labels, more) }
	m.add("problems", "What speaks against relying on this kind of recovery today; 0: nothing that is known.", float64(len(k.Problems)), labels...)
	if g := k.LastGood; g != nil && k.Age != nil { // one that is dated ahead would never be too old
		m.add("last_success_timestamp_seconds", "Start of the newest run that recovered, whose evidence holds. Absent: there is none, or it is dated ahead.", unix(g.Began), labels...)
	}
	p := k.Last
	if p == nil {
		return
	}
	m.add("last_run_timestamp_seconds", "Start of the newest run, whatever came of it.", unix(p.Began), labels...)
	m.add("rto_promised_seconds", "Recovery time that was promised before the newest run.", p.Promised, labels...)
	if p.Status != nil {
		m.add("last_status", "Exit status of the newest run.", float64(*p.Status), labels...)
	}
	if p.RTO != nil {
		m.add("objective_met", "1: the newest run recovered within its objectives; 0: it did not. Absent: its recovery time was not measured.", one(p.Verdict != nil && *p.Verdict == drill.Recovered), labels...)
	}
	figures := measured(p.run)
	for _, name := range slices.Sorted(maps.Keys(figures)) {
		if f := figures[name]; f.Value != nil && (name == "rto" || strings.HasPrefix(name, "declared_")) {
			m.add("rto_seconds", "Figures of the newest run's recovery clock; rto is the judged one. Absent: not measured.", *f.Value, with("figure", name)...)
		}
	}
	for _, s := range p.Segments {
		if s.Elapsed != nil {
			m.add("segment_seconds", "Segments of the newest run's recovery clock. Absent: not measured.", *s.Elapsed, with("segment", s.From+":"+s.To, "cached", fmt.Sprint(s.Cached))...)
		}
	}
	for _, g := range gates(p.run) {
		m.add("gate_passed", "1: the gate passed in the newest run; 0: it failed, was left out or could not be judged.", one(g.Result == drill.Passed), with("step", g.Step, "gate", g.ID)...)
	}
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
