package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"drkit/internal/errext"
)

// MaxSummary is how many bytes a job summary may have: GitHub drops a larger one
// whole.
const MaxSummary = 1 << 20

// waivedGroup collects the waived rows of every group.
const waivedGroup = "waived"

// Markdown writes the result as a table for each group, in at most limit bytes.
// Rows that find no room are counted at the end.
func Markdown(w io.Writer, r Result, limit int) error {
	d := &page{limit: limit - 300} // room for the last note
	d.head(r)
	rows := r.findings()
	if len(rows) == 0 {
		d.add("\nNo findings.\n")
	}
	for _, g := range groups(r, rows) {
		d.group(g, rows)
	}
	if d.left > 0 {
		fmt.Fprintf(&d.b, "\n> **%s of %d left out**: there is no room for more here. `--output json` and the SARIF report have more.\n", count(d.left, "finding"), len(rows))
	}
	_, err := io.WriteString(w, d.b.String())
	return err
}

// page is a document in the making.
type page struct {
	b     strings.Builder
	limit int
	left  int // rows that found no room
}

// add writes text if there is room for it.
func (d *page) add(text string) bool {
	if d.left > 0 || d.b.Len()+len(text) > d.limit {
		return false
	}
	d.b.WriteString(text)
	return true
}

func (d *page) head(r Result) {
	mark := "✅"
	if r.Status != errext.Holds {
		mark = "❌"
	}
	d.add(fmt.Sprintf("## %s %s\n\n**%s** (exit status %d)\n", mark, cell(r.Title), cell(r.Verdict), r.Status))
	if len(r.Properties) == 0 {
		return
	}
	d.add("\n| | |\n| --- | --- |\n")
	for _, p := range r.Properties {
		d.add("| " + cell(p.Name) + " | " + code(p.Value) + " |\n")
	}
}

// groups are the headings in their order: as the result has them, then those that
// only rows name, and the waived rows at the end.
func groups(r Result, rows []Row) []Group {
	var all []Group
	for _, g := range append(slices.Clone(r.Groups), named(rows)...) {
		if !slices.ContainsFunc(all, func(o Group) bool { return o.Name == g.Name }) {
			all = append(all, g)
		}
	}
	return append(all, Group{waivedGroup, "Accepted for a time in drkit.yaml."})
}

func named(rows []Row) []Group {
	var all []Group
	seen := map[string]bool{}
	for _, row := range rows {
		if !seen[row.Group] {
			seen[row.Group] = true
			all = append(all, Group{Name: row.Group})
		}
	}
	return all
}

func (d *page) group(g Group, rows []Row) {
	mine := slices.DeleteFunc(slices.Clone(rows), func(row Row) bool {
		return (row.Waived != "") != (g.Name == waivedGroup) || row.Waived == "" && row.Group != g.Name
	})
	if len(mine) == 0 {
		return
	}
	title := fmt.Sprintf("\n### %s (%d)\n\n", cell(g.Name), len(mine))
	if g.Text != "" {
		title += cell(g.Text) + "\n\n"
	}
	title += "| Rule | Where | What | What to do |\n| --- | --- | --- | --- |\n"
	for i, row := range mine {
		if !d.add(title + rowText(row)) {
			d.left += len(mine) - i
			return
		}
		title = ""
	}
}

func rowText(row Row) string {
	where, at := code(row.about()), row.where()
	switch {
	case row.Subject == row.Path:
		where = code(at)
	case at != "" && row.Subject != "":
		where += "<br>at " + code(at)
	}
	what := cell(row.Message)
	if row.Field != "" {
		what += "<br>field " + code(row.Field)
	}
	if row.Seen != "" {
		what += "<br>you would see " + code(row.Seen)
	}
	do := cell(row.Hint)
	if row.Waived != "" {
		do = "waived: " + cell(row.Waived)
	}
	return fmt.Sprintf("| %s | %s | %s | %s |\n", cell(row.ID), where, what, do)
}

// marks are what Markdown or HTML would take for its own.
var marks = strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "|", "&#124;", "~", `\~`, "#", `\#`, "!", `\!`,
	"<", "&lt;", ">", "&gt;", "&", "&amp;", "@", "&#64;", "://", "&#58;//", "www.", "www&#46;")

// cell makes text safe inside a table.
func cell(text string) string { return marks.Replace(cut(line(text), 2000)) }

// code is cell in a fixed-width font. It is an element and no code span: a span
// cannot hold every text.
func code(text string) string {
	if text == "" {
		return ""
	}
	return "<code>" + cell(text) + "</code>"
}
