package report

import (
	_ "embed"
	"html/template"
	"io"
	"strconv"

	"drkit/internal/errext"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// maxHTMLRows is how many rows of a group the page shows: browsers choke on more.
const maxHTMLRows = 5000

// htmlPage is what page.html shows.
type htmlPage struct {
	Title, Verdict, Status, Tool, Began string
	Holds                               bool
	Properties                          []Property
	Groups                              []htmlGroup
	Holding                             int // rows that hold
	Passes                              []htmlRow
}

// LeftPasses is how many of the rows that hold are not shown.
func (p htmlPage) LeftPasses() int { return p.Holding - len(p.Passes) }

type htmlGroup struct {
	Name, Text string
	Count      int
	Left       int // rows that are not shown
	Rows       []htmlRow
}

type htmlRow struct {
	Level, ID, Where, At, Message, Field, Seen, Hint, Waived string
}

// HTML writes the result as one page that needs nothing else: no network, no
// script, no font. It can be printed, in black and white too.
func HTML(w io.Writer, r Result) error {
	p := htmlPage{Title: line(r.Title), Verdict: line(r.Verdict), Status: strconv.Itoa(int(r.Status)), Tool: line(r.Tool + " " + r.Version), Holds: r.Status == errext.Holds}
	if !r.Began.IsZero() {
		p.Began = r.Began.UTC().Format("2006-01-02 15:04:05 UTC")
	}
	for _, f := range r.Properties {
		p.Properties = append(p.Properties, Property{line(f.Name), line(f.Value)})
	}
	rows := r.findings()
	for _, g := range groups(r, rows) {
		if h := newHTMLGroup(g, rows); h.Count > 0 {
			p.Groups = append(p.Groups, h)
		}
	}
	for _, row := range r.Rows {
		if row.Level != Pass {
			continue
		}
		if p.Holding++; len(p.Passes) < maxHTMLRows {
			p.Passes = append(p.Passes, newHTMLRow(row))
		}
	}
	return pageTemplate.Execute(w, p)
}

func newHTMLGroup(g Group, rows []Row) htmlGroup {
	h := htmlGroup{Name: line(g.Name), Text: line(g.Text)}
	for _, row := range rows {
		if (row.Waived != "") != (g.Name == waivedGroup) || row.Waived == "" && row.Group != g.Name {
			continue
		}
		if h.Count++; len(h.Rows) < maxHTMLRows {
			h.Rows = append(h.Rows, newHTMLRow(row))
		}
	}
	h.Left = h.Count - len(h.Rows)
	return h
}

func newHTMLRow(r Row) htmlRow {
	h := htmlRow{Level: string(r.Level), ID: line(r.ID), Where: line(r.about()), At: line(r.where()), Message: line(r.Message),
		Field: line(r.Field), Seen: line(r.Seen), Hint: line(r.Hint), Waived: line(r.Waived)}
	if h.At == h.Where {
		h.At = ""
	}
	return h
}
