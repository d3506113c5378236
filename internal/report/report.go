// Package report writes a finished result in the forms that other programs take:
// SARIF 2.1.0, JUnit XML (xunit2), GitHub workflow commands, and Markdown for a
// job summary.
//
// It knows nothing of manifests, copies or drills. A command lays its result out
// as a Result with plain rows and hands it to a writer:
//
//	res := report.Result{Title: "drkit manifest check", Status: errext.Gate, Rows: rows}
//	err := report.SARIF(w, res.Redacted(redactor.String))
//
// Equal results give equal bytes. Text in rows may be hostile: control characters
// are written visibly, and every form escapes what it would take for its own.
// Secrets are taken out by Redacted before a form encodes the text; afterwards an
// escape inside one would hide it.
//
// A result that does not hold is never all green: each form says so in a row of
// its own when no other one does.
package report

import (
	"cmp"
	"slices"
	"time"

	"drkit/internal/errext"
)

// Level is how grave a row is.
type Level string

// The levels. Error is what makes the result fail; Pass is a row that holds, which
// only JUnit lists.
const (
	Error   Level = "error"
	Warning Level = "warning"
	Note    Level = "note"
	Pass    Level = "pass"
)

// Result is what one command found.
type Result struct {
	Tool, Version string
	Title         string        // what was judged: "drkit manifest check of support-chat"
	Category      string        // the same from run to run: "manifest-check/support-chat"
	Verdict       string        // the result in a few words: "2 findings fail the gate"
	Status        errext.Status // the exit status: anything but Holds is no green
	Began         time.Time     // zero: not said
	Rules         []Rule        // every rule that was applied
	Groups        []Group       // order and meaning of the rows' groups
	Rows          []Row
	Properties    []Property // facts such as the release
}

// Rule is what a row's ID stands for.
type Rule struct {
	ID, Title, Text string
	Doc             string // where it is explained: "docs/rules.md#t-1"
	Level           Level  // the gravest that it raises
}

// Group is a heading of the Markdown form.
type Group struct{ Name, Text string }

// Property is a fact about the result.
type Property struct{ Name, Value string }

// Row is one thing that was judged.
type Row struct {
	ID      string // of the rule, gate or step; stable from run to run
	Group   string // severity or verdict: a heading in Markdown, the type of a failure in JUnit
	Suite   string // JUnit's test suite: a region, a step
	Level   Level
	Trouble bool   // it could not be done: in JUnit an error, not a failure
	Skipped string // why it was not judged: in JUnit skipped, never passed
	Title   string // of the rule
	Message string
	Seen    string // what the engine would say
	Hint    string
	Subject string // what it is about: "model/base/tokenizer.json"
	Field   string
	Path    string // of a file in the repository, relative to its root, with slashes; empty: none
	Line    int    // 0: unknown
	Waived  string // who accepted it, until when and why
	Elapsed time.Duration
}

// Redacted returns the result with every text passed through f.
func (r Result) Redacted(f func(string) string) Result {
	for _, s := range []*string{&r.Title, &r.Verdict, &r.Category} {
		*s = f(*s)
	}
	r.Rows, r.Properties = slices.Clone(r.Rows), slices.Clone(r.Properties)
	for i := range r.Rows {
		row := &r.Rows[i]
		for _, s := range []*string{&row.ID, &row.Suite, &row.Skipped, &row.Title, &row.Message, &row.Seen, &row.Hint, &row.Subject, &row.Field, &row.Path, &row.Waived} {
			*s = f(*s)
		}
	}
	for i := range r.Properties {
		r.Properties[i].Value = f(r.Properties[i].Value)
	}
	return r
}

// findings are the rows that are no pass, gravest first, waived ones last. There
// is always an error among them when the result does not hold.
func (r Result) findings() []Row {
	var all []Row
	failing := false
	for _, row := range r.Rows {
		if row.Level != Pass {
			all = append(all, row)
			failing = failing || row.Level == Error && row.Waived == ""
		}
	}
	if r.Status != errext.Holds && !failing {
		all = append(all, Row{ID: "verdict", Group: r.Status.String(), Level: Error, Title: "The result holds", Message: r.Verdict})
	}
	slices.SortStableFunc(all, func(a, b Row) int { return cmp.Compare(rank(a), rank(b)) })
	return all
}

func rank(r Row) int {
	if r.Waived != "" {
		return 3
	}
	return slices.Index([]Level{Error, Warning, Note}, r.Level)
}

// ruleList are the rules of the result, and those that only a row names.
func (r Result) ruleList(rows []Row) []Rule {
	all := slices.Clone(r.Rules)
	known := map[string]bool{}
	for _, rule := range all {
		known[rule.ID] = true
	}
	for _, row := range rows {
		if !known[row.ID] {
			known[row.ID] = true
			all = append(all, Rule{ID: row.ID, Title: cmp.Or(row.Title, row.ID), Level: row.Level})
		}
	}
	return all
}
