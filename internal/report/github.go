package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// maxAnnotations is how many annotations of a level are written. GitHub shows ten
// of each level for a step and fifty for a job, and drops the others silently: so
// nine, and one that counts the rest.
const maxAnnotations = 9

// annotations are GitHub's words for the levels.
var annotations = []struct {
	level Level
	word  string
}{{Error, "error"}, {Warning, "warning"}, {Note, "notice"}}

// GitHub writes the rows that are no pass as workflow commands, gravest first. A
// waived row is a notice. A runner reads the commands from stdout and stderr alike.
func GitHub(w io.Writer, r Result) error {
	rows := map[Level][]Row{}
	for _, row := range r.findings() {
		if row.Waived != "" {
			row.Level = Note
		}
		rows[row.Level] = append(rows[row.Level], row)
	}
	var b strings.Builder
	for _, a := range annotations {
		list := rows[a.level]
		for _, row := range list[:min(len(list), maxAnnotations)] {
			annotate(&b, a.word, row)
		}
		if more := len(list) - maxAnnotations; more > 0 {
			fmt.Fprintf(&b, "::%s title=%s::%s\n", a.word, escapeProperty(line(r.Title)),
				escapeData(fmt.Sprintf("%s not shown here: GitHub shows ten of a kind. The command's output and its other reports have all", count(more, "more "+a.word))))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func annotate(b *strings.Builder, word string, row Row) {
	title := row.ID
	if row.Title != "" {
		title += ": " + row.Title
	}
	if row.Waived != "" {
		title += " (waived)"
	}
	text := row.Message + row.details()
	if row.Subject != "" && row.Subject != row.Path {
		text = row.Subject + ": " + text
	}
	var properties []string
	if row.Path != "" {
		properties = append(properties, "file="+escapeProperty(cut(clean(row.Path), 4096)))
		if row.Line > 0 {
			properties = append(properties, "line="+strconv.Itoa(row.Line))
		}
	}
	properties = append(properties, "title="+escapeProperty(cut(line(title), 250)))
	fmt.Fprintf(b, "::%s %s::%s\n", word, strings.Join(properties, ","), escapeData(cut(clean(text), 4000)))
}

var (
	dataEscapes     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	propertyEscapes = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

func escapeData(s string) string     { return dataEscapes.Replace(s) }
func escapeProperty(s string) string { return propertyEscapes.Replace(s) }
