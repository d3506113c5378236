package main

import (
	"fmt"
	"strings"

	"drkit/internal/errext"
	"drkit/internal/report"
	"drkit/internal/service"
	"drkit/manifest"
	"drkit/manifest/diff"
)

// differenceGroups are the severities as a comparison means them.
var differenceGroups = []report.Group{
	{Name: string(manifest.Block), Text: "The engine may not start."},
	{Name: string(manifest.Request), Text: "Some requests may fail."},
	{Name: string(manifest.Silent), Text: "Answers may differ."},
	{Name: string(manifest.Degraded), Text: "Slower, or fewer requests."},
	{Name: string(manifest.Info), Text: "To know."},
}

// differenceRules are the kinds of differences, as the reports list them.
func differenceRules() []report.Rule {
	var all []report.Rule
	for _, k := range []struct{ kind, title string }{
		{diff.KindField, "a field differs"}, {diff.KindTemplate, "the chat template differs"}, {diff.KindText, "a text differs"},
		{diff.KindTensors, "tensors differ"}, {diff.KindModel, "an adapter, draft or repository is on one side only"},
		{diff.KindOption, "an option of the engine differs"}, {diff.KindEngine, "the engine differs"}, {diff.KindImage, "an image differs"},
		{diff.KindPackage, "a package of a lockfile differs"}, {diff.KindPod, "the engine's container differs"},
		{diff.KindOrigin, "the origin differs"}, {diff.KindRegion, "the regions differ"}, {fileKind, "the bytes of a file differ"},
	} {
		all = append(all, report.Rule{ID: k.kind, Title: k.title, Text: "Whether " + k.title + ".", Doc: "docs/diff.md#what-matters", Level: report.Error})
	}
	return all
}

// fileKind is the rule of what is said of a file's bytes.
const fileKind = "file"

// result is the comparison as rows: one for each difference, one for each file
// that differs in bytes, and one that holds where nothing differs.
func (o diffOptions) result(res diffed, svc *service.Service) report.Result {
	out := report.Result{
		Title: "drkit manifest diff of " + res.To.Service, Category: "drkit/manifest-diff/" + res.To.Service, Rules: differenceRules(), Groups: differenceGroups,
		Verdict: conclusion(res), Status: errext.Holds, Properties: []report.Property{{Name: "from", Value: sideName(res.From)}, {Name: "to", Value: sideName(res.To)}},
	}
	if res.Matters {
		out.Status = errext.Gate
	}
	file := ""
	if len(o.Files) == 2 {
		file = o.Files[1]
	}
	at := newPlaces(svc, file)
	for _, d := range res.Differences {
		out.Rows = append(out.Rows, differenceRow(d, at, o.Strict))
	}
	for _, f := range res.Files {
		out.Rows = append(out.Rows, fileRow(f, at, o.Strict))
	}
	if len(out.Rows) == 0 {
		out.Rows = []report.Row{{ID: fileKind, Suite: "comparison", Subject: "comparison", Title: "The releases are the same", Level: report.Pass, Message: fmt.Sprintf("%d files are equal", res.Equal)}}
	}
	return out
}

func sideName(c comparedTo) string {
	name := fmt.Sprintf("release %s, %s", c.Release, c.How)
	if c.Region != "" {
		name += ", for " + c.Region
	}
	return name
}

func differenceRow(d diff.Difference, at places, strict bool) report.Row {
	row := report.Row{ID: d.Kind, Group: string(d.Severity), Suite: "differences", Level: findingLevel(d.Severity, strict),
		Message: strings.Join(append([]string{d.Message}, d.Lines...), "\n"), Field: d.Field, Subject: differenceSubject(d), Waived: allowedBy(d.Allowed)}
	row.Path, row.Line = at.find(string(d.Part), d.Path, 0)
	return row
}

func differenceSubject(d diff.Difference) string {
	subject := strings.TrimSuffix(string(d.Part)+"/"+d.Path, "/")
	if d.Region != "" {
		subject += " (region " + d.Region + ")"
	}
	return subject
}

func fileRow(f diff.File, at places, strict bool) report.Row {
	row := report.Row{ID: fileKind, Group: string(f.Severity), Suite: "files", Level: findingLevel(f.Severity, strict),
		Message: strings.TrimSuffix(f.Change+": "+sizes(f)+"; "+f.Message, "; "), Subject: string(f.Part) + "/" + f.Path, Waived: allowedBy(f.Allowed)}
	row.Path, row.Line = at.find(string(f.Part), f.Path, 0)
	return row
}

func allowedBy(entry string) string {
	if entry == "" {
		return ""
	}
	return "allowed_differences: " + entry
}
