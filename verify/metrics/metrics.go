// Package metrics writes what verification found as metrics for Prometheus, in
// the form that node_exporter's textfile collector reads.
//
//	err := metrics.Encode(file, metrics.Run{…}, before)
//
// A file is written for a run that failed too, with drkit_copy_holds 0: only what
// was proven is 1. What is not known has no series, never 0. The time of the last
// success is taken over from the file that is replaced, so that an alert can tell
// how old the last proof is. docs/monitoring holds rules that use these metrics.
package metrics

import (
	"math"
	"time"

	dto "github.com/prometheus/client_model/go"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/verify"
)

// Run is one verification, whole or failed.
type Run struct {
	Service string
	Release string   // that was verified; "" when it was not known yet
	Regions []string // that were to be verified
	Results []verify.Result
	Status  errext.Status // of the whole run, its findings included
	Ended   time.Time
}

// success is when a region's copy was last proven to hold, and of which release.
type success struct {
	service, region, release string
	at                       float64 // seconds since 1970
}

// Names of the metrics, all gauges.
const (
	Holds       = "drkit_copy_holds"
	Objects     = "drkit_copy_objects"
	Matches     = "drkit_copy_matches"
	Accepted    = "drkit_copy_accepted_objects"
	Bytes       = "drkit_copy_bytes"
	ReadBytes   = "drkit_copy_read_bytes"
	Errors      = "drkit_copy_errors"
	Age         = "drkit_copy_age_seconds"
	Behind      = "drkit_copy_releases_behind"
	Missing     = "drkit_copy_missing_bytes"
	Unproven    = "drkit_copy_unproven_bytes"
	Duration    = "drkit_copy_duration_seconds"
	LastRun     = "drkit_copy_last_run_timestamp_seconds"
	LastSuccess = "drkit_copy_last_success_timestamp_seconds"
	Level       = "drkit_copy_level_info"
	Status      = "drkit_copy_run_status"
)

// help says what each metric means, in the order in which they are written.
var help = []struct{ name, text string }{
	{Holds, "1 when the last verification proved that the copy holds the whole release, 0 when it did not, for whatever reason."},
	{Objects, "Files and images of the release by verdict, those that are extra too."},
	{Matches, "Files and images that match, by the evidence that this rests on."},
	{Accepted, "Objects that are not comparable and that the user accepts as they are. They are no match."},
	{Bytes, "Bytes of the release by the verdict on their file or image."},
	{ReadBytes, "Bytes that drkit read to verify the copy."},
	{Errors, "Objects and places that could not be judged."},
	{Age, "How long ago the source published the first of what the copy lacks, 0 when it lacks nothing. Absent when not known."},
	{Behind, "Releases that the source published after the one that the copy's region publishes. Absent when not known."},
	{Missing, "Bytes of the source's published release that the copy lacks or holds differently. Absent when not known."},
	{Unproven, "Bytes of the source's published release that nothing proves to be right. Absent when not known."},
	{Duration, "How long the verification of the copy took."},
	{LastRun, "When a verification last ended, with or without success."},
	{LastSuccess, "When the copy was last proven to hold, and which release. Absent when it never was, or that is not known."},
	{Level, "How deep the last verification looked and what evidence it required; always 1."},
	{Status, "Exit status of the last verification, its findings on the release included. 0 holds."},
}

// Names lists every metric that may be written.
func Names() []string {
	var all []string
	for _, h := range help {
		all = append(all, h.name)
	}
	return all
}

// verdicts are all that an object can get.
var verdicts = []verify.Verdict{verify.Match, verify.Present, verify.Diverged, verify.Missing, verify.Extra, verify.NotComparable}

var evidence = []store.Evidence{store.Claimed, store.Recomputed, store.Content}

// families turns a run and earlier successes into metrics.
func families(r Run, earlier []success) []*dto.MetricFamily {
	s := series{}
	s.add(Status, float64(r.Status), "service", r.Service)
	done := map[string]bool{}
	for _, res := range r.Results {
		done[res.Region] = true
		s.result(r, res)
	}
	for _, region := range r.Regions {
		if !done[region] {
			l := labels(r.Service, region, r.Release)
			s.add(Holds, 0, l...)
			s.add(Errors, 1, l...)
			s.add(LastRun, seconds(r.Ended), l...)
		}
	}
	for _, e := range earlier {
		if r.Service == "" { // the run failed before it knew what it is about: nothing of it holds
			l := labels(e.service, e.region, "")
			s.add(Holds, 0, l...)
			s.add(Errors, 1, l...)
			s.add(LastRun, seconds(r.Ended), l...)
		}
		if !s.succeeded[[2]string{e.service, e.region}] {
			s.add(LastSuccess, e.at, labels(e.service, e.region, e.release)...)
		}
	}
	var all []*dto.MetricFamily
	for _, h := range help {
		if m := s.metrics[h.name]; len(m) > 0 {
			all = append(all, &dto.MetricFamily{Name: new(h.name), Help: new(h.text), Type: dto.MetricType_GAUGE.Enum(), Metric: m})
		}
	}
	return all
}

// series collects metrics by name.
type series struct {
	metrics   map[string][]*dto.Metric
	succeeded map[[2]string]bool // services and regions
}

func (s *series) add(name string, value float64, pairs ...string) {
	m := &dto.Metric{Gauge: &dto.Gauge{Value: new(value)}}
	for i := 0; i+1 < len(pairs); i += 2 {
		m.Label = append(m.Label, &dto.LabelPair{Name: new(pairs[i]), Value: new(pairs[i+1])})
	}
	if s.metrics == nil {
		s.metrics, s.succeeded = map[string][]*dto.Metric{}, map[[2]string]bool{}
	}
	s.metrics[name] = append(s.metrics[name], m)
}

func labels(service, region, release string, more ...string) []string {
	return append([]string{"service", service, "region", region, "release", release}, more...)
}

// seconds is an instant as Prometheus counts time.
func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

func (s *series) result(r Run, res verify.Result) {
	l := func(more ...string) []string { return labels(r.Service, res.Region, res.Release, more...) }
	holds := 0.0
	if res.Holds() {
		holds = 1
		s.add(LastSuccess, seconds(r.Ended), l()...)
		s.succeeded[[2]string{r.Service, res.Region}] = true
	}
	s.add(Holds, holds, l()...)
	bytes, accepted := map[verify.Verdict]int64{}, 0
	for _, g := range res.Gaps {
		bytes[g.Verdict] += g.WantSize
		if g.Verdict == verify.Extra {
			bytes[g.Verdict] += g.GotSize
		}
		if g.Accepted {
			accepted++
		}
	}
	for _, v := range verdicts {
		s.add(Objects, float64(res.Count(v)), l("verdict", string(v))...)
		s.add(Bytes, float64(bytes[v]), l("verdict", string(v))...)
	}
	for _, e := range evidence {
		s.add(Matches, float64(res.CountEvidence(e)), l("evidence", e.String())...)
	}
	s.add(Accepted, float64(accepted), l()...)
	s.add(ReadBytes, float64(res.BytesRead), l()...)
	s.add(Errors, float64(len(res.Errors)), l()...)
	s.add(LastRun, seconds(r.Ended), l()...)
	s.add(Level, 1, l("level", string(res.Level), "require", res.Require.String())...)
	if !res.Began.IsZero() && !res.Ended.IsZero() {
		s.add(Duration, res.Ended.Sub(res.Began).Seconds(), l()...)
	}
	s.age(res.Age, l())
}

// age adds what is known of how far the copy is behind.
func (s *series) age(a *verify.Age, l []string) {
	if a == nil {
		return
	}
	if a.Seconds != nil && !math.IsNaN(*a.Seconds) {
		s.add(Age, *a.Seconds, l...)
	}
	if a.Releases != nil {
		s.add(Behind, float64(*a.Releases), l...)
	}
	if a.Missing != nil {
		s.add(Missing, float64(*a.Missing), l...)
	}
	if a.Unproven != nil {
		s.add(Unproven, float64(*a.Unproven), l...)
	}
}
