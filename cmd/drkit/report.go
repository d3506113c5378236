package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"drkit/internal/errext"
	"drkit/internal/report"
)

// reportOption is --report: further forms of a result, beside what is printed.
type reportOption struct{ Reports []string }

// reportForms are the forms and the writer of each; github goes to no file.
var reportForms = map[string]func(io.Writer, report.Result) error{
	"junit":    report.JUnit,
	"sarif":    report.SARIF,
	"markdown": func(w io.Writer, r report.Result) error { return report.Markdown(w, r, report.MaxSummary) },
	"html":     report.HTML,
	"github":   report.GitHub,
}

// reportMarks are what the beginning of each form's files shows.
var reportMarks = map[string]string{"junit": "<testsuites", "sarif": "sarif", "markdown": "(exit status ", "html": "default-src 'none'; style-src 'unsafe-inline'", "json": `"drkit.drill-result/`}

// What the beginnings of other files show that drkit writes.
const (
	resultMark   = `"drkit.verify/`
	probesMark   = `"drkit.probes/`
	metricsMark  = "# HELP drkit_"
	bundleMark   = "application/vnd.dev.sigstore.bundle"
	backfillMark = `"ConfirmationRequired"`
)

func (o *reportOption) addFlags(c *cobra.Command) {
	c.Flags().StringArrayVar(&o.Reports, "report", nil, "also write the result: junit=PATH, sarif=PATH, markdown=PATH, html=PATH, or github for annotations and the job summary (repeatable)")
}

// check refuses a --report before work begins that could not be written after it.
func (o *reportOption) check() error {
	if err := checkReports(o.Reports, "junit", "sarif", "markdown", "html", "github"); err != nil {
		return err
	}
	return checkFolders(o.Reports)
}

// checkFolders refuses reports to files that could not be written.
func checkFolders(specs []string) error {
	var errs []error
	for _, spec := range specs {
		if form, path, file := strings.Cut(spec, "="); file {
			errs = append(errs, checkFile("--report "+spec, path, reportMarks[form]))
		}
	}
	return errors.Join(errs...)
}

// checkReports refuses reports in other forms than those allowed, and two of one
// file.
func checkReports(specs []string, allowed ...string) error {
	var forms []string
	for _, f := range allowed {
		if f != "github" {
			f += "=PATH"
		}
		forms = append(forms, f)
	}
	var errs []error
	seen := map[string]bool{}
	for _, spec := range specs {
		form, path, file := strings.Cut(spec, "=")
		hint := "use one of: " + strings.Join(forms, ", ")
		if form == "json" && !slices.Contains(allowed, form) { // the result itself
			hint += "; JSON is printed with --output json, and verify writes it with --result FILE"
		}
		if !slices.Contains(allowed, form) || file == (form == "github") || file && path == "" {
			errs = append(errs, usage(fmt.Errorf("--report %q is not known", spec), hint))
			continue
		}
		key := filepath.Clean(path)
		if seen[key] {
			errs = append(errs, usage(fmt.Errorf("--report %s is given twice, or two of them write one file", spec), "give each its own file"))
		}
		seen[key] = true
	}
	return errors.Join(errs...)
}

// toFiles reports whether one of the reports goes to a file.
func toFiles(specs []string) bool {
	return slices.ContainsFunc(specs, func(spec string) bool { return strings.Contains(spec, "=") })
}

// checkFile refuses the file of a flag that could not be written once the work is
// done, or is there and shows no mark of such a file; "" is none.
func checkFile(flag, path, mark string) error {
	switch path {
	case "":
		return nil
	case "-":
		return noDash(flag)
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return usage(fmt.Errorf("%s: %s is a folder", flag, path), "name a file in it")
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return usage(fmt.Errorf("%s: there is no folder %s", flag, filepath.Dir(path)), "make the folder first")
	}
	return replaceable(path, mark)
}

// write writes every report that was asked for. What the redactor knows is taken
// out of the texts before a form encodes them: afterwards an escape could hide it.
func (o *reportOption) write(s *streams, r report.Result) error {
	if len(o.Reports) == 0 {
		return nil
	}
	r.Tool, r.Version = "drkit", toolVersion()
	r = r.Redacted(s.Redactor.String)
	var errs []error
	for _, spec := range o.Reports {
		form, path, _ := strings.Cut(spec, "=")
		if form == "github" {
			errs = append(errs, writeGitHub(s, r))
			continue
		}
		var data bytes.Buffer
		if err := reportForms[form](&data, r); err != nil {
			errs = append(errs, fmt.Errorf("writing the %s report: %w", form, err))
			continue
		}
		errs = append(errs, writeFile(path, data.Bytes()))
	}
	return errors.Join(errs...)
}

// writeGitHub writes annotations to stderr, which a runner reads for commands as
// it does stdout: so they never mix with a result that goes to a file or another
// program. The job summary is appended to.
func writeGitHub(s *streams, r report.Result) error {
	if err := report.GitHub(s.Err, r); err != nil {
		return err
	}
	path := s.Getenv("GITHUB_STEP_SUMMARY")
	if path == "" {
		return nil
	}
	err := appendSummary(path, r)
	return errext.WithHint(err, "GITHUB_STEP_SUMMARY names the file: see that it may be written to, or unset it")
}

// appendSummary adds to what the step's summary holds, within what GitHub takes.
func appendSummary(path string, r report.Result) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("writing the job summary: %w", err)
	}
	room := report.MaxSummary
	if info, err := f.Stat(); err == nil {
		room -= int(min(info.Size(), report.MaxSummary))
	}
	var data bytes.Buffer
	if err := report.Markdown(&data, r, room-1); err != nil {
		return errors.Join(err, f.Close())
	}
	if data.Len() < room {
		_, err = f.Write(append([]byte("\n"), data.Bytes()...))
	} else {
		err = fmt.Errorf("%s is full: a step's summary may have %d bytes", path, report.MaxSummary)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("writing the job summary: %w", err)
	}
	return nil
}

// reported ends a command whose result was printed, or could not be, and whose
// reports were written, or got lost. A lost report is lost evidence: no green.
func reported(s *streams, printing, lost error, status errext.Status) error {
	if lost == nil {
		return cmp.Or(printing, conclude(status))
	}
	printError(s, lost)
	if printing != nil {
		return errext.WithStatus(printing, errext.Evidence)
	}
	return conclude(errext.Combine(errext.Evidence, status))
}
