package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"time"

	"drkit/internal/errext"
)

// The elements of the strictest JUnit schema in use (xunit2, as the Jenkins
// plug-in publishes it): a test case has no file, line or properties of its own.
type junitSuites struct {
	XMLName  xml.Name      `xml:"testsuites"`
	Name     string        `xml:"name,attr"`
	Tests    int           `xml:"tests,attr"`
	Failures int           `xml:"failures,attr"`
	Errors   int           `xml:"errors,attr"`
	Suites   []*junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name       string           `xml:"name,attr"`
	Tests      int              `xml:"tests,attr"`
	Failures   int              `xml:"failures,attr"`
	Errors     int              `xml:"errors,attr"`
	Skipped    int              `xml:"skipped,attr"`
	Time       string           `xml:"time,attr,omitempty"`
	Timestamp  string           `xml:"timestamp,attr,omitempty"`
	Properties *junitProperties `xml:"properties"`
	Cases      []junitCase      `xml:"testcase"`
	elapsed    time.Duration
	names      map[[2]string]int
}

type junitProperties struct {
	All []junitProperty `xml:"property"`
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitCase struct {
	Name    string      `xml:"name,attr"`
	Class   string      `xml:"classname,attr"`
	Time    string      `xml:"time,attr,omitempty"`
	Failure *junitWrong `xml:"failure"`
	Error   *junitWrong `xml:"error"`
	Skipped *junitWrong `xml:"skipped"`
	Out     string      `xml:"system-out,omitempty"`
}

type junitWrong struct {
	Type    string `xml:"type,attr,omitempty"`
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// JUnit writes every row as a test case: an error row as a failure, one that
// could not be done as an error, a waived or unjudged one as skipped, and the
// rest as passed, with what they say in system-out. The last suite is the verdict:
// it is red whenever the exit status is not 0, whatever the rows say.
func JUnit(w io.Writer, r Result) error {
	all := junitSuites{Name: line(r.Title)}
	suites := map[string]*junitSuite{}
	for _, row := range append(r.Rows[:len(r.Rows):len(r.Rows)], verdictRow(r)) {
		s := suites[row.Suite]
		if s == nil {
			s = newSuite(r, row.Suite)
			suites[row.Suite] = s
			all.Suites = append(all.Suites, s)
		}
		s.add(row)
	}
	for _, s := range all.Suites {
		if s.elapsed > 0 {
			s.Time = seconds(s.elapsed)
		}
		all.Tests, all.Failures, all.Errors = all.Tests+s.Tests, all.Failures+s.Failures, all.Errors+s.Errors
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func verdictRow(r Result) Row {
	row := Row{ID: "verdict", Suite: "verdict", Subject: "verdict", Title: "the result holds", Message: r.Verdict, Level: Pass}
	if r.Status != errext.Holds {
		row.Level, row.Group, row.Trouble = Error, r.Status.String(), r.Status != errext.Gate && r.Status != errext.ObjectiveMissed
	}
	return row
}

func newSuite(r Result, name string) *junitSuite {
	s := &junitSuite{Name: line(name), names: map[[2]string]int{}}
	if s.Name == "" {
		s.Name = line(r.Title)
	}
	if !r.Began.IsZero() {
		s.Timestamp = r.Began.UTC().Format("2006-01-02T15:04:05")
	}
	if len(r.Properties) > 0 {
		s.Properties = &junitProperties{}
	}
	for _, p := range r.Properties {
		s.Properties.All = append(s.Properties.All, junitProperty{line(p.Name), line(p.Value)})
	}
	return s
}

func (s *junitSuite) add(row Row) {
	c := junitCase{Name: caseName(row), Class: line(row.about())}
	if c.Class == "" {
		c.Class = s.Name
	}
	key := [2]string{c.Class, c.Name}
	if s.names[key]++; s.names[key] > 1 {
		c.Name += " #" + strconv.Itoa(s.names[key])
	}
	if row.Elapsed > 0 {
		c.Time = seconds(row.Elapsed)
		s.elapsed += row.Elapsed
	}
	text := caseText(row)
	wrong := &junitWrong{Type: line(row.Group), Message: cut(line(row.Message), 1000), Text: text}
	s.Tests++
	switch {
	case row.Waived != "":
		wrong.Message = cut(line("waived: "+row.Waived), 1000)
		c.Skipped, s.Skipped = wrong, s.Skipped+1
	case row.Skipped != "":
		wrong.Message = cut(line(row.Skipped), 1000)
		c.Skipped, s.Skipped = wrong, s.Skipped+1
	case row.Level == Error && row.Trouble:
		c.Error, s.Errors = wrong, s.Errors+1
	case row.Level == Error:
		c.Failure, s.Failures = wrong, s.Failures+1
	default:
		c.Out = text
	}
	s.Cases = append(s.Cases, c)
}

func caseName(row Row) string {
	name := row.ID
	if row.Title != "" {
		name += ": " + row.Title
	}
	if row.Field != "" {
		name += " (" + row.Field + ")"
	}
	return cut(line(name), 500)
}

// caseText is what the row says, with the place in the repository that the
// schema has no attribute for.
func caseText(row Row) string {
	text := row.Message + row.details()
	if at := row.where(); at != "" && row.Level != Pass {
		text += "\nAt: " + at
	}
	return cut(clean(text), maxText)
}

// seconds to the millisecond, as the schema wants them.
func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }
