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
	"drkit/internal/report"
)

// drillReport is one --report of a drill.
type drillReport struct{ format, path string }

var drillFormats = map[string]func(io.Writer, *drill.Run) error{
	"markdown": drillreport.Markdown,
	"json":     drillreport.JSON,
	"html":     drillreport.HTML,
}

func parseReports(specs []string) ([]drillReport, error) {
	if err := checkReports(specs, "markdown", "html", "json", "junit"); err != nil {
		return nil, err
	}
	if err := checkFolders(specs); err != nil {
		return nil, err
	}
	var all []drillReport
	for _, spec := range specs {
		format, path, _ := strings.Cut(spec, "=")
		all = append(all, drillReport{format, path})
	}
	return all, nil
}

// writeReports keeps the result beside the journal, writes what was asked for,
// and prints it.
func writeReports(s *streams, run *drill.Run, dir string, reports []drillReport, asJSON bool) error {
	reports = append(reports, drillReport{"markdown", filepath.Join(dir, "result.md")}, drillReport{"json", filepath.Join(dir, "result.json")})
	errs := []error{writeEach(s, run, reports)}
	if asJSON {
		errs = append(errs, drillreport.JSON(s.Out, run))
	} else {
		_, err := io.WriteString(s.Out, tui.Summary(run, 100))
		errs = append(errs, err)
		for _, c := range run.Kept() {
			printLine(s.Out, "stays on purpose: %s: %s", c.What, c.Stays())
		}
	}
	fmt.Fprintf(s.Err, "journal, result.md and result.json: %s\n", dir)
	return errors.Join(errs...)
}

// writeEach writes each report, whatever became of the others.
func writeEach(s *streams, run *drill.Run, reports []drillReport) error {
	var errs []error
	for _, r := range reports {
		data, err := drillBytes(s, run, r.format)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, writeFile(r.path, data))
	}
	return errors.Join(errs...)
}

// drillBytes is a run in one format without secrets. From JUnit they are taken
// before the text is encoded: a mark over an end tag would spoil the XML.
func drillBytes(s *streams, run *drill.Run, format string) ([]byte, error) {
	var data bytes.Buffer
	if format == "junit" {
		err := report.JUnit(&data, drillreport.TestCases(run).Redacted(s.Redactor.String))
		return data.Bytes(), err
	}
	err := drillFormats[format](&data, run)
	return s.Redactor.Bytes(data.Bytes()), err
}
