package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"drkit/internal/errext"
	"drkit/internal/service"
	"drkit/verify"
	"drkit/verify/metrics"
)

// metricsOption is --metrics: a file for Prometheus's textfile collector.
type metricsOption struct{ Metrics string }

func (o *metricsOption) addFlags(c *cobra.Command) {
	c.Flags().StringVar(&o.Metrics, "metrics", "", "also write drkit_copy_* metrics to this file (NAME.prom), when the run fails too")
}

// check refuses metrics that could not be written or would mislead.
func (o *metricsOption) check(shard string, places []string) error {
	if o.Metrics == "" {
		return nil
	}
	info, err := os.Stat(o.Metrics)
	switch {
	case len(places) > 0:
		return usage(errors.New("--metrics is for a service's regions, and two places are compared"), "leave it out, or verify by a drkit.yaml")
	case shard != "":
		return usage(errors.New("--metrics of one shard would say nothing of the copy"), "give --metrics to drkit verify merge")
	case err == nil && !info.Mode().IsRegular():
		return usage(fmt.Errorf("--metrics %s is no regular file", o.Metrics), "name a file in the collector's folder, such as NAME.prom")
	}
	return checkFile("--metrics", o.Metrics, metricsMark)
}

// measured is what a run learns on its way, for metrics of a run that fails too.
type measured struct{ metrics.Run }

func (m *measured) of(svc *service.Service, regions []*service.Region) {
	m.Service = svc.Metadata.Name
	for _, r := range regions {
		m.Regions = append(m.Regions, r.Name)
	}
}

// results takes the finished results; of a merged verification they name the
// service too.
func (m *measured) results(results []verify.Result) {
	m.Results = results
	for _, r := range results {
		if m.Service == "" {
			m.Service = r.Service
		}
	}
}

// record ends a run: it writes the metrics and returns the run's error, with what
// went wrong in writing beside it. Metrics that get lost are lost evidence.
func (o metricsOption) record(s *streams, m *measured, runErr error) error {
	if o.Metrics == "" {
		return runErr
	}
	m.Status, m.Ended = errext.StatusOf(runErr), now()
	before, err := readFile(o.Metrics)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(s.Err, "drkit: note: the metrics of earlier runs could not be read: %v\n", err)
	}
	err = writeFileBy(o.Metrics, func(w io.Writer) error { return metrics.Encode(w, m.Run, before) })
	if err == nil {
		return runErr
	}
	return errors.Join(runErr, errext.WithStatus(err, errext.Evidence))
}
