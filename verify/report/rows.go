package report

import (
	"cmp"

	"drkit/internal/errext"
	"drkit/internal/report"
	"drkit/verify"
)

// failures are the verdicts that do not hold, gravest first, and what they mean.
var failures = []report.Group{
	{Name: string(verify.Missing), Text: "The copy lacks the file."},
	{Name: string(verify.Diverged), Text: "The copy has other bytes."},
	{Name: string(verify.Extra), Text: "The copy has a file that the release does not list."},
	{Name: string(verify.NotComparable), Text: "Both sides have checksums, but none in common."},
	{Name: string(verify.Present), Text: "It is there, on less evidence than required."},
	{Name: troubleGroup, Text: "It could not be read or compared."},
}

const troubleGroup = "error"

// Groups are the groups of Rows, gravest first.
func Groups() []report.Group { return append([]report.Group(nil), failures...) }

// Rules are the ids of Rows.
func Rules() []report.Rule {
	var all []report.Rule
	for _, g := range failures {
		all = append(all, report.Rule{ID: ruleID(g.Name), Title: "Parity: " + g.Name, Text: g.Text, Doc: "docs/parity.md#verdicts", Level: report.Error})
	}
	return all
}

func ruleID(group string) string { return "parity/" + group }

// Rows lays a result out for the report writers: a row for each gap that is no
// match and for each error, or one that passes when the copy holds. A result
// that does not hold never is without an error.
func Rows(r verify.Result) []report.Row {
	suite, prefix := title(r), ""
	if r.Release != "" && r.Region != "" {
		prefix = r.Region + ": "
	}
	var rows []report.Row
	for _, g := range r.Open() {
		rows = append(rows, report.Row{ID: ruleID(string(g.Verdict)), Group: string(g.Verdict), Suite: suite, Level: report.Error,
			Title: "Parity: " + string(g.Verdict), Subject: prefix + g.Subject, Message: cmp.Or(g.Why, string(g.Verdict))})
	}
	for _, e := range r.Errors {
		rows = append(rows, report.Row{ID: ruleID(troubleGroup), Group: troubleGroup, Suite: suite, Level: report.Error, Trouble: true,
			Title: "Parity: " + troubleGroup, Subject: prefix + cmp.Or(e.Subject, "(the place)"), Message: e.Error(), Hint: errext.Hint(e.Err)})
	}
	switch {
	case r.Holds():
		rows = append(rows, report.Row{ID: "parity", Suite: suite, Level: report.Pass, Title: "the copy holds", Subject: suite, Message: tally(r)})
	case len(rows) == 0:
		rows = append(rows, report.Row{ID: ruleID(troubleGroup), Group: troubleGroup, Suite: suite, Level: report.Error,
			Title: "Parity: " + troubleGroup, Subject: suite, Message: tally(r)})
	}
	return rows
}
