package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"drkit/drill"
	drillreport "drkit/drill/report"
	"drkit/drill/tui"
	"drkit/internal/errext"
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
// and prints it. A report that is lost is lost evidence (status 6). A result that could
// not be printed is not: it is written beside the journal, and is what any command's is
// whose reader has ended or whose disk is full, not done (1).
func writeReports(s *streams, run *drill.Run, dir string, reports []drillReport, asJSON bool) error {
	reports = append(reports, drillReport{"markdown", filepath.Join(dir, "result.md")}, drillReport{"json", filepath.Join(dir, "result.json")})
	lost := writeEach(s, run, reports)
	unprinted := printResult(s, run, asJSON)
	if unprinted != nil {
		unprinted = errext.WithHint(fmt.Errorf("the result could not be printed: %w", unprinted), "drkit drill replay "+run.ID+" prints it again")
	}
	fmt.Fprintf(s.Err, "journal, result.md and result.json: %s\n", dir)
	switch {
	case lost == nil:
		return unprinted
	case unprinted == nil:
		return lost
	}
	return errors.Join(lost, unprinted)
}

// printResult writes the result to stdout, and whatever the redactor holds back of it: a
// reader that has ended is seen here or never.
func printResult(s *streams, run *drill.Run, asJSON bool) error {
	if asJSON {
		return cmp.Or(drillreport.JSON(s.Out, run), s.Out.Flush())
	}
	_, err := io.WriteString(s.Out, tui.Summary(run, 100))
	for _, c := range run.Kept() {
		printLine(s.Out, "stays on purpose: %s: %s", c.What, c.Stays())
	}
	return cmp.Or(err, s.Out.Flush())
}

// writeEach writes each report, whatever became of the others. One that is lost is lost
// evidence (status 6).
func writeEach(s *streams, run *drill.Run, reports []drillReport) error {
	var errs []error
	for _, r := range reports {
		data, err := drillBytes(s, run, r.format)
		if err != nil {
			errs = append(errs, errext.WithStatus(err, errext.Evidence))
			continue
		}
		errs = append(errs, errext.WithStatus(writeFile(r.path, data), errext.Evidence))
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
