package openai

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metrics is one scrape of a Prometheus text page.
type Metrics struct {
	families map[string]*dto.MetricFamily
}

// Metrics scrapes BaseURL/metrics.
func (c *Client) Metrics(ctx context.Context) (Metrics, error) {
	return c.MetricsAt(ctx, "/metrics")
}

// MetricsAt scrapes another path; routers serve theirs on a port of its own,
// so a client for that port is needed.
func (c *Client) MetricsAt(ctx context.Context, path string) (Metrics, error) {
	resp, err := c.do(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return Metrics{}, err
	}
	defer resp.Body.Close()
	b, err := readBounded(resp.Body, maxMetrics)
	if err != nil {
		return Metrics{}, fmt.Errorf("GET %s: reading the metrics: %w", c.where(path), err)
	}
	m, err := ParseMetrics(b)
	if err != nil {
		return Metrics{}, fmt.Errorf("GET %s: %w", c.where(path), err)
	}
	return m, nil
}

// ParseMetrics reads a page in Prometheus text format.
func ParseMetrics(page []byte) (Metrics, error) {
	p := expfmt.NewTextParser(model.UTF8Validation)
	f, err := p.TextToMetricFamilies(bytes.NewReader(page))
	if err != nil {
		return Metrics{}, fmt.Errorf("the page is not Prometheus text: %w", err)
	}
	return Metrics{families: f}, nil
}

// Value is the sum of the series of name whose labels contain all of labels.
// False means that no such series exists, or that it holds NaN or no finite number:
// the value is unknown, not 0. A histogram is read by its name with _count or _sum.
func (m Metrics) Value(name string, labels map[string]string) (float64, bool) {
	var sum float64
	found := false
	m.each(name, func(have map[string]string, v float64) {
		for k, want := range labels {
			if got, ok := have[k]; !ok || got != want {
				return
			}
		}
		sum += v
		found = true
	})
	if !found || !finite(sum) {
		return 0, false
	}
	return sum, true
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// Count is Value of a counter. What cannot be a count, because it is below zero or
// beyond what a float64 counts without a gap, is unknown.
func (m Metrics) Count(name string, labels map[string]string) (uint64, bool) {
	v, known := m.Value(name, labels)
	if !known || !countable(v) {
		return 0, false
	}
	return uint64(v), true
}

func countable(v float64) bool { return finite(v) && v >= 0 && v <= 1<<53 }

// Counts reports whether every series of name holds what can be a count; true where there
// is none. A reader to whom a missing series says that nothing happened yet asks this
// first: Count says of both that they are not known.
func (m Metrics) Counts(name string) bool {
	all := true
	m.each(name, func(_ map[string]string, v float64) { all = all && countable(v) })
	return all
}

// By sums the series of name for each value of label, e.g. a router's counter
// by worker. Series without that label, and sums that are NaN or not finite, are left
// out.
func (m Metrics) By(name, label string) map[string]float64 {
	out := map[string]float64{}
	m.each(name, func(have map[string]string, v float64) {
		if key, ok := have[label]; ok {
			out[key] += v
		}
	})
	for k, v := range out {
		if !finite(v) {
			delete(out, k)
		}
	}
	return out
}

func (m Metrics) each(name string, f func(labels map[string]string, v float64)) {
	family, part := m.family(name)
	if family == nil {
		return
	}
	for _, s := range family.Metric {
		v, ok := seriesValue(s, part)
		if !ok {
			continue
		}
		labels := make(map[string]string, len(s.Label))
		for _, l := range s.Label {
			labels[l.GetName()] = l.GetValue()
		}
		f(labels, v)
	}
}

// family finds the family of a series name; part is "count" or "sum" for those
// of a histogram or summary.
func (m Metrics) family(name string) (f *dto.MetricFamily, part string) {
	if f := m.families[name]; f != nil {
		return f, ""
	}
	for _, part := range []string{"count", "sum"} {
		if base, ok := strings.CutSuffix(name, "_"+part); ok && m.families[base] != nil {
			return m.families[base], part
		}
	}
	return nil, ""
}

func seriesValue(s *dto.Metric, part string) (float64, bool) {
	switch {
	case part == "" && s.Counter != nil:
		return s.Counter.GetValue(), true
	case part == "" && s.Gauge != nil:
		return s.Gauge.GetValue(), true
	case part == "" && s.Untyped != nil:
		return s.Untyped.GetValue(), true
	case part == "count" && s.Histogram != nil:
		return float64(s.Histogram.GetSampleCount()), true
	case part == "sum" && s.Histogram != nil:
		return s.Histogram.GetSampleSum(), true
	case part == "count" && s.Summary != nil:
		return float64(s.Summary.GetSampleCount()), true
	case part == "sum" && s.Summary != nil:
		return s.Summary.GetSampleSum(), true
	}
	return 0, false
}
