package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"drkit/internal/errext"
	"drkit/internal/report"
	"drkit/internal/service"
	"drkit/manifest"
	"drkit/manifest/rules"
	"drkit/verify"
	verifyreport "drkit/verify/report"
)

// This file lays results out as rows for the report writers.

// severities are the groups of findings, gravest first.
var severities = []report.Group{
	{Name: string(manifest.Block), Text: "The engine does not boot."},
	{Name: string(manifest.Request), Text: "It boots, and some requests fail."},
	{Name: string(manifest.Silent), Text: "It boots, and gives wrong answers."},
	{Name: string(manifest.Degraded), Text: "Slower, less sure, or not seen."},
	{Name: string(manifest.Info), Text: "To know."},
}

// findingLevel is error exactly where the finding fails the gate.
func findingLevel(s manifest.Severity, strict bool) report.Level {
	switch {
	case s.FailsGate(strict):
		return report.Error
	case s == manifest.Degraded:
		return report.Warning
	}
	return report.Note
}

// gateRules are all rules of the gate, as the reports list them.
func gateRules(strict bool) []report.Rule {
	var all []report.Rule
	for _, r := range rules.Told() {
		all = append(all, report.Rule{ID: r.ID, Title: r.Title, Text: r.Sentence, Doc: r.Doc(), Level: findingLevel(r.Severity, strict)})
	}
	return all
}

// result is that of the gate: a row for each finding, and one for each
// rule that found nothing.
func (o checkOptions) result(res checked, svc *service.Service) report.Result {
	out := report.Result{
		Title: "drkit manifest check of " + res.Service, Category: "drkit/manifest-check/" + res.Service, Rules: gateRules(o.Strict), Groups: severities,
		Properties: []report.Property{{Name: "service", Value: res.Service}, {Name: "release", Value: res.Release}, {Name: "files", Value: strconv.Itoa(res.Files)}, {Name: "rules", Value: strconv.Itoa(len(rules.All()))}},
	}
	out.Verdict, out.Status = strings.ReplaceAll(res.Verdict, "-", " "), errext.Holds
	if res.Verdict == "fails" {
		out.Status = errext.Gate
	}
	at := newPlaces(svc, o.Manifest)
	out.Rows = findingRows(res.Findings, at, o.Strict)
	found := map[string]bool{}
	for _, f := range res.Findings {
		found[f.Rule] = true
	}
	for _, r := range out.Rules {
		if !found[r.ID] {
			out.Rows = append(out.Rows, report.Row{ID: r.ID, Suite: "rules", Subject: "rules", Title: r.Text, Level: report.Pass, Message: "no finding"})
		}
	}
	return out
}

func findingRows(findings []manifest.Finding, at places, strict bool) []report.Row {
	titles := map[string]string{}
	for _, r := range rules.Told() {
		titles[r.ID] = r.Title
	}
	var rows []report.Row
	for _, f := range findings {
		row := report.Row{ID: f.Rule, Group: string(f.Severity), Suite: "findings", Level: findingLevel(f.Severity, strict), Title: titles[f.Rule],
			Message: f.Message, Seen: f.Seen, Hint: f.Hint, Field: f.Field, Waived: f.Waived, Subject: strings.TrimSuffix(f.Part+"/"+f.Path, "/")}
		if f.Part == "service" {
			row.Subject = at.file
		}
		row.Path, row.Line = at.find(f.Part, f.Path, f.Line)
		rows = append(rows, row)
	}
	return rows
}

// result is what verification found: a row for each gap that is no match and each
// error, one for each copy that holds, and the findings that fail the gate.
func (o verifyOptions) result(svc *service.Service, findings []manifest.Finding, status errext.Status, results []verify.Result) report.Result {
	out := report.Result{Title: "drkit verify", Category: "drkit/verify", Status: status, Rules: verifyreport.Rules(), Groups: append(verifyreport.Groups(), severities...)}
	if len(findings) > 0 {
		out.Rules = append(out.Rules, gateRules(false)...)
	}
	if svc != nil {
		out.Title, out.Category = out.Title+" of "+svc.Metadata.Name, out.Category+"/"+svc.Metadata.Name
	}
	at := newPlaces(svc, "")
	hold := 0
	for _, r := range results {
		if r.Holds() {
			hold++
		}
		if r.Release != "" && len(out.Properties) == 0 {
			out.Properties = []report.Property{{Name: "service", Value: r.Service}, {Name: "release", Value: r.Release}}
		}
		for _, row := range verifyreport.Rows(r) {
			row.Path = at.file // what is wrong lies in a store: the service file names it
			out.Rows = append(out.Rows, row)
		}
	}
	out.Properties = append(out.Properties, verifyreport.Properties(results...)...)
	out.Rows = append(out.Rows, findingRows(findings, at, false)...)
	out.Verdict = fmt.Sprintf("%d of %d copies hold", hold, len(results))
	if len(results) == 1 { // says of what part, and with what accepted
		out.Verdict = verifyreport.Verdict(results[0])
	}
	if n := len(findings); n > 0 {
		out.Verdict += fmt.Sprintf("; findings that fail the gate of the release itself: %d", n)
	}
	return out
}

// places tells where in the repository a file of a release comes from.
type places struct {
	root string // of the repository, absolute
	svc  *service.Service
	file string // drkit.yaml or the manifest, relative to root: the place of what has no file there
}

// newPlaces begins at drkit.yaml, or at the manifest file where there is no
// drkit.yaml. With neither, nothing has a place.
func newPlaces(svc *service.Service, manifestFile string) places {
	file := manifestFile
	if svc != nil {
		file = svc.File
	}
	if file == "" {
		return places{}
	}
	abs, err := filepath.Abs(file)
	if err != nil {
		return places{}
	}
	p := places{root: repository(filepath.Dir(abs)), svc: svc}
	p.file, _ = p.relative(abs)
	return p
}

// repository is the nearest folder at or above dir that holds .git, else dir.
func repository(dir string) string {
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Lstat(filepath.Join(d, ".git")); err == nil {
			return d
		}
		if d == filepath.Dir(d) {
			return dir
		}
	}
}

// relative is a path below the root with slashes.
func (p places) relative(abs string) (string, bool) {
	rel, err := filepath.Rel(p.root, abs)
	if err != nil || !filepath.IsLocal(rel) {
		return "", false
	}
	return filepath.ToSlash(rel), true
}

// find is the file that a finding is about and its line, if the file lies in the
// repository. A file that is missing or lies elsewhere has the place of drkit.yaml,
// without a line.
func (p places) find(part, path string, line int) (string, int) {
	if part == "service" {
		return p.file, line
	}
	if p.svc == nil {
		return p.file, 0
	}
	abs := p.source(part, path)
	if info, err := os.Stat(abs); abs == "" || err != nil || !info.Mode().IsRegular() {
		return p.file, 0
	}
	if rel, ok := p.relative(abs); ok {
		return rel, line
	}
	return p.file, 0
}

// source is where a file of the release was read from, "" when that is no file.
func (p places) source(part, path string) string {
	if part != string(manifest.Model) {
		if region, rest, ok := strings.Cut(strings.TrimPrefix(path, "@"), "/"); strings.HasPrefix(path, "@") && ok && p.svc.Region(region) != nil {
			path = rest
		}
		return filepath.Join(p.svc.Dir, filepath.FromSlash(path))
	}
	tree, rest, _ := strings.Cut(path, "/")
	if tree == "base" {
		return p.inTree(p.svc.Model.Source, rest)
	}
	name, rest, _ := strings.Cut(rest, "/")
	for _, e := range map[string][]service.Extra{"adapters": p.svc.Model.Adapters, "drafts": p.svc.Model.Drafts}[tree] {
		if e.Name == name {
			return p.inTree(e.Source, rest)
		}
	}
	return ""
}

func (p places) inTree(l service.Location, rest string) string {
	if l.Scheme != service.SchemeFile {
		return ""
	}
	return filepath.Join(l.Path, filepath.FromSlash(rest))
}
