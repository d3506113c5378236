package metrics

import (
	"bytes"
	"fmt"
	"io"
	"math"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Encode writes the metrics of a run as text. Before is the file that it will
// replace, nil without one.
func Encode(w io.Writer, r Run, before []byte) error {
	for _, f := range families(r, earlier(before, seconds(r.Ended))) {
		if _, err := expfmt.MetricFamilyToText(w, f); err != nil {
			return fmt.Errorf("writing the metrics: %w", err)
		}
	}
	return nil
}

// earlier reads the last successes of the file that will be replaced. One that
// cannot be read holds none: to the rules the copy was then never proven. A time
// that is still to come would silence an alert, and is not taken over.
func earlier(before []byte, now float64) []success {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	all, err := parser.TextToMetricFamilies(bytes.NewReader(before))
	if err != nil {
		return nil
	}
	var found []success
	for _, m := range all[LastSuccess].GetMetric() {
		if s := readSuccess(m); s.service != "" && s.region != "" && s.at > 0 && s.at <= now {
			found = append(found, s)
		}
	}
	return newest(found)
}

func readSuccess(m *dto.Metric) success {
	var s success
	for _, l := range m.GetLabel() {
		switch l.GetName() {
		case "service":
			s.service = l.GetValue()
		case "region":
			s.region = l.GetValue()
		case "release":
			s.release = l.GetValue()
		}
	}
	if s.at = m.GetGauge().GetValue(); math.IsNaN(s.at) {
		s.at = 0
	}
	return s
}

// newest keeps one success a region.
func newest(all []success) []success {
	at := map[[2]string]int{}
	var kept []success
	for _, s := range all {
		key := [2]string{s.service, s.region}
		i, twice := at[key]
		switch {
		case !twice:
			at[key] = len(kept)
			kept = append(kept, s)
		case s.at > kept[i].at:
			kept[i] = s
		}
	}
	return kept
}
