package report

import (
	"cmp"
	"slices"
	"strings"

	"drkit/internal/errext"
	"drkit/internal/report"
	"drkit/internal/store"
	"drkit/verify"
)

// failures are the verdicts that do not hold, gravest first, and what they mean.
var failures = []report.Group{
	{Name: string(verify.Missing), Text: "The copy lacks the file."},
	{Name: string(verify.Diverged), Text: "The copy has other bytes."},
	{Name: string(verify.Extra), Text: "The copy has a file that the release does not list."},
	{Name: string(verify.NotComparable), Text: "No checksum of the one side says anything about one of the other."},
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
		if g.Accepted {
			rows = append(rows, acceptedRow(g, suite, prefix, hint(r, g)))
			continue
		}
		rows = append(rows, report.Row{ID: ruleID(string(g.Verdict)), Group: string(g.Verdict), Suite: suite, Level: report.Error,
			Title: "Parity: " + string(g.Verdict), Subject: prefix + g.Subject, Message: message(g), Hint: hint(r, g)})
	}
	for _, e := range r.Errors {
		rows = append(rows, report.Row{ID: ruleID(troubleGroup), Group: troubleGroup, Suite: suite, Level: report.Error, Trouble: true,
			Title: "Parity: " + troubleGroup, Subject: prefix + cmp.Or(e.Subject, "(the place)"), Message: e.Error(), Hint: errext.Hint(e.Err)})
	}
	switch {
	case r.Holds():
		rows = append(rows, report.Row{ID: "parity", Suite: suite, Level: report.Pass, Title: Verdict(r), Subject: suite, Message: tally(r)})
	case len(rows) == 0:
		rows = append(rows, report.Row{ID: ruleID(troubleGroup), Group: troubleGroup, Suite: suite, Level: report.Error,
			Title: "Parity: " + troubleGroup, Subject: suite, Message: tally(r)})
	}
	return rows
}

// message says what is wrong and what that rests on.
func message(g verify.Gap) string {
	why := cmp.Or(g.Why, string(g.Verdict))
	if g.Evidence == store.None {
		return why
	}
	return why + " (evidence: " + g.Evidence.String() + ")"
}

// hint says what to do, and how to know more surely.
func hint(r verify.Result, g verify.Gap) string {
	return strings.Join(slices.DeleteFunc([]string{cmp.Or(g.Hint, mend(r, g)), Raise(g)}, func(s string) bool { return s == "" }), "; ")
}

// mend says what mends a gap that nothing more is known of, in the words of next: ""
// where only the evidence is wanting, and of images, whose own hints say it.
func mend(r verify.Result, g verify.Gap) string {
	release := r.Release != ""
	switch {
	case g.IsImage():
		return ""
	case (g.Verdict == verify.Missing || g.Verdict == verify.Diverged) && release:
		return "drkit replicate copies what is missing or diverged, and verifies again"
	case g.Verdict == verify.Missing || g.Verdict == verify.Diverged:
		return "copy it from the first place, and verify again"
	case g.Verdict == verify.Extra && release:
		return "look at it: drkit replicate --delete-extra removes it, or build a release that lists it"
	case g.Verdict == verify.Extra && r.Count(verify.Extra) == len(r.Gaps):
		return "nothing was found in the first place: check its name, and remove nothing before"
	case g.Verdict == verify.Extra:
		return "look at it: the first place does not hold it"
	}
	return ""
}

// acceptedRow is a gap that the user takes as it is: waived, and never a pass.
func acceptedRow(g verify.Gap, suite, prefix, hint string) report.Row {
	return report.Row{ID: ruleID(string(g.Verdict)), Group: string(g.Verdict), Suite: suite, Level: report.Error,
		Title: "Parity: " + string(g.Verdict), Subject: prefix + g.Subject, Message: message(g), Hint: hint, Waived: "accepted on the command line (--accept)"}
}

// Properties are facts about results for the forms that have a place for them.
func Properties(results ...verify.Result) []report.Property {
	var all []report.Property
	for _, r := range results {
		for _, f := range Facts(r) {
			all = append(all, report.Property{Name: title(r), Value: f})
		}
	}
	return all
}
