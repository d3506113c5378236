package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"drkit/drill"
	drillreport "drkit/drill/report"
	"drkit/drill/tui"
)

// drillReport is one --report of a drill.
type drillReport struct{ format, path string }

var drillFormats = map[string]func(io.Writer, *drill.Run) error{
	"markdown": drillreport.Markdown,
	"json":     drillreport.JSON,
}

func parseReports(specs []string) ([]drillReport, error) {
	var all []drillReport
	for _, spec := range specs {
		format, path, ok := strings.Cut(spec, "=")
		if _, known := drillFormats[format]; !ok || !known || path == "" {
			return nil, usage(fmt.Errorf("--report %q is not FORMAT=PATH", spec), "use markdown=PATH or json=PATH")
		}
		all = append(all, drillReport{format, path})
	}
	return all, nil
}

// writeReports keeps the result beside the journal, writes what was asked for,
// and prints it.
func writeReports(s *streams, run *drill.Run, dir string, reports []drillReport, asJSON bool) error {
	reports = append(reports, drillReport{"markdown", filepath.Join(dir, "result.md")}, drillReport{"json", filepath.Join(dir, "result.json")})
	var errs []error
	for _, r := range reports {
		var data bytes.Buffer
		if err := drillFormats[r.format](&data, run); err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, writeFile(r.path, s.Redactor.Bytes(data.Bytes())))
	}
	if asJSON {
		errs = append(errs, drillreport.JSON(s.Out, run))
	} else {
		_, err := io.WriteString(s.Out, tui.Summary(run, 100))
		errs = append(errs, err)
	}
	fmt.Fprintf(s.Err, "journal, result.md and result.json: %s\n", dir)
	return errors.Join(errs...)
}
