package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"drkit/drill"
)

// Markdown writes the report for people: the verdict first, then what it rests on.
func Markdown(w io.Writer, r *drill.Run) error {
	d := &doc{res: New(r)}
	d.head()
	d.clock()
	d.proofs(proofNames(r))
	d.classes()
	d.gates()
	d.steps()
	d.people()
	d.boot()
	d.traffic()
	d.changes()
	d.claims(proofNames(r))
	d.words()
	_, err := io.WriteString(w, d.String())
	return err
}

// doc is a report in the making.
type doc struct {
	strings.Builder
	res Result
}

func (d *doc) line(format string, args ...any) { fmt.Fprintf(d, format+"\n", args...) }

func (d *doc) title(text string) { d.line("\n## %s\n", text) }

// row writes a table's row; its cells are made safe here.
func (d *doc) row(cells ...string) {
	for i, c := range cells {
		cells[i] = cell(c)
	}
	d.line("| %s |", strings.Join(cells, " | "))
}

func (d *doc) header(names ...string) {
	d.row(names...)
	d.line("|%s", strings.Repeat(" --- |", len(names)))
}

var cells = strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ", "|", `\|`, "<", "&lt;", ">", "&gt;")

func cell(text string) string { return strings.TrimSpace(cells.Replace(drill.Clip(text, longText))) }

// span writes seconds as people do; a dash stands for what is not known.
func span(s *float64) string {
	if s == nil {
		return "–"
	}
	return duration(time.Duration(*s * float64(time.Second)))
}

// duration writes a time to the millisecond, without the zeros that Go adds: 4m.
func duration(d time.Duration) string {
	s := d.Round(time.Millisecond).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

var sentences = map[string]string{
	drill.Recovered:       "The %s region took over, and all that had to be proven was proven.",
	drill.ObjectiveMissed: "The %s region took over, but later than promised.",
	drill.NotRecovered:    "The %s region did not take over: a gate is red.",
	drill.Incomplete:      "No gate is red, but not all that a recovery needs was shown.",
	drill.Refused:         "The drill was refused before anything was changed.",
	drill.Aborted:         "The drill was cut short. This says nothing about the %s region.",
}

// sentence is the verdict in words; what is spoken of is the region that takes over.
func sentence(r Result) string {
	role := "target"
	if r.Mode == drill.ModeFailback {
		role = "source"
	}
	return strings.Replace(sentences[*r.Verdict], "%s", role, 1)
}

// marks put the red and the missing first in a reader's eye.
var marks = map[string]string{drill.Passed: "✓ passed", drill.Failed: "✗ failed", drill.Skipped: "– skipped", drill.NotReached: "– not reached", drill.Unmeasured: "? unmeasured"}

func mark(result string) string {
	if m, ok := marks[result]; ok {
		return m
	}
	return "… running"
}

func (d *doc) head() {
	verdict, words, status := "not ended", "The journal has no end: the run still lives, or its process was killed.", ""
	if d.res.Verdict != nil {
		verdict, status = *d.res.Verdict, fmt.Sprintf(" (exit status %d)", *d.res.Status)
		words = sentence(d.res)
	}
	d.line("# %s: %s → %s: %s", cell(d.res.Service), cell(d.res.From), cell(d.res.To), verdict)
	d.line("\n**%s**%s. %s", verdict, status, words)
	if d.res.Demo {
		d.line("\nThis was a demonstration: it proves nothing of a production service.")
	}
	if len(d.res.Reasons) > 0 {
		d.line("")
	}
	for _, x := range d.res.Reasons {
		d.line("- %s: %s%s", x.Name, cell(x.What), hint(x.Hint))
	}
	d.later()
	d.facts()
}

// later says what was done after the end, beside the verdict that it leaves alone.
func (d *doc) later() {
	if len(d.res.afterTheEnd) == 0 {
		return
	}
	d.line("\nAfter the end, with the verdict as it was closed:\n")
	for _, text := range d.res.afterTheEnd {
		d.line("- %s", cell(text))
	}
}

func hint(text string) string {
	if text == "" {
		return ""
	}
	return " → " + cell(text)
}

func (d *doc) facts() {
	d.line("")
	d.header("", "")
	d.row("Run", "`"+d.res.Run+"`")
	d.row("Mode, playbook", d.res.Mode+", "+d.res.Playbook)
	if d.res.PlanHash != "" {
		d.row("Plan", "`"+d.res.PlanHash+"`")
	}
	d.row("Release", "`"+d.res.Release+"`")
	d.row("Began", d.res.Began.UTC().Format(time.RFC3339))
	if d.res.Ended != nil {
		d.row("Ended", d.res.Ended.UTC().Format(time.RFC3339))
	}
	for _, c := range d.res.Components {
		own := ""
		if c.Substitute {
			own = ": drkit's own stand-in, not what production runs"
		}
		d.row(c.Name, strings.TrimSpace(c.Kind+" "+c.Version)+own)
	}
	if d.res.Tool != "" {
		d.row("Tool", d.res.Tool)
	}
	if t := d.res.SelfTest; t != nil {
		d.row("Self-test of the tool", selfTest(t))
	}
}

func (d *doc) clock() {
	d.title("Clock")
	d.header("Segment", "Took", "Budget", "Slack", "")
	for _, s := range d.res.Segments {
		var remarks []string
		if s.Cached {
			remarks = append(remarks, "cached: served from what was already there")
		}
		if s.Clock == drill.ClockWall {
			remarks = append(remarks, s.Clock)
		}
		if s.Why != "" {
			remarks = append(remarks, "not measured: "+s.Why)
		}
		d.row(s.From+" → "+s.To, span(s.Elapsed), span(s.Budget), span(s.Slack), strings.Join(remarks, "; "))
	}
	d.line("\nJudged is ★.\n")
	d.header("Figure", "Measured", "Promised", "")
	for _, name := range d.res.figures() {
		d.figure(name, d.res.Measured[name])
	}
}

func (d *doc) figure(name string, f Figure) {
	value, promised, remark := span(f.Value), "", f.Why
	o := d.res.Objectives
	switch name {
	case "rto":
		promised = span(&o.RTO)
		name = "★ declared → steady (RTO)"
	case "steady_ttft_p99":
		promised = span(o.TTFTP99)
	case "steady_error_rate":
		value, promised = percent(f.Value), percent(&o.ErrorRate)
	}
	if f.Value == nil {
		remark = "not measured: " + f.Why
	}
	d.row(strings.ReplaceAll(name, "_", " "), value, promised, remark)
}

func percent(share *float64) string {
	if share == nil {
		return "–"
	}
	return strconv.FormatFloat(*share*100, 'f', 2, 64) + " %"
}

func (d *doc) proofs(names []string) {
	d.title("What it proves")
	d.header("", "Proven", "Required", "Why")
	for _, name := range names {
		p := d.res.Proves[name]
		d.row(name, yes(p.Proven, "✓ yes", "✗ no"), yes(p.Required, "yes", "no"), p.Why)
	}
}

func yes(is bool, then, otherwise string) string {
	if is {
		return then
	}
	return otherwise
}

func (d *doc) classes() {
	if len(d.res.Classes) == 0 {
		return
	}
	d.title("Traffic classes")
	d.header("Class", "May be answered in", "Share", "Router", "Verdict", "")
	for _, c := range d.res.Classes {
		d.row(c.Name, strings.Join(c.Residency, ", "), percent(&c.Share), c.Router, verdictOf(c), c.Why)
	}
}

func (d *doc) gates() {
	d.title("Gates")
	if len(d.res.Gates) == 0 {
		d.line("No gate was judged.")
		return
	}
	d.header("Step", "Gate", "Result", "Expected", "Observed", "Evidence")
	for _, g := range d.res.Gates {
		observed := g.Observed
		if g.Result != drill.Passed && g.Hint != "" {
			observed += " → " + g.Hint
		}
		d.row(g.Step, yes(g.Title != "", g.Title+" (`"+g.ID+"`)", "`"+g.ID+"`"), mark(g.Result), g.Expected, observed, g.Evidence)
	}
}

func (d *doc) steps() {
	d.title("Steps")
	d.header("Step", "Result", "Took", "Budget", "Attempts", "")
	for _, s := range d.res.Steps {
		result := mark(s.Result)
		if s.Result == "" && s.Attempts == 0 {
			result = "– not begun"
		}
		d.row(s.ID, result, span(s.Elapsed), span(s.Budget), strconv.Itoa(s.Attempts), s.Error+yes(s.Hint != "", " → "+s.Hint, ""))
	}
}

func (d *doc) boot() {
	if len(d.res.Boot) == 0 {
		return
	}
	d.title("Boot")
	d.header("Replica", "Phase", "From", "Took", "Line of the engine's log")
	for _, p := range d.res.Boot {
		line := p.Line
		if p.Gap {
			line = "no line explains this stretch"
		}
		d.row(p.Replica, p.Name, span(&p.Start), span(&p.Length), line)
	}
}

func (d *doc) traffic() {
	if len(d.res.Traffic) == 0 {
		return
	}
	d.title("Traffic")
	d.line("The drill's own requests. Cut: the stream ended without a finish reason and `[DONE]`. TTFT and cache hits are those of the worst window.\n")
	d.header("Class", "Phase", "Windows", "Sent", "OK", "Failed", "Cut", "TTFT p50", "TTFT p99", "Cache hits", "Answered by")
	for _, t := range d.res.Traffic {
		var by []string
		for _, region := range slices.Sorted(maps.Keys(t.ByRegion)) {
			by = append(by, fmt.Sprintf("%s %d", region, t.ByRegion[region]))
		}
		n := strconv.Itoa
		d.row(t.Class, t.Phase, n(t.Windows), n(t.Sent), n(t.OK), n(t.Failed), n(t.Cut), span(t.TTFTP50), span(t.TTFTP99), percent(t.CacheMin), strings.Join(by, ", "))
	}
}

func (d *doc) changes() {
	d.title("Changes and their undo")
	if len(d.res.Changes) == 0 {
		d.line("Nothing was changed.")
		return
	}
	d.header("Step", "Change", "Done", "Taken back", "")
	for _, c := range d.res.Changes {
		undone := yes(c.Undone, "✓ proven", yes(c.Kept != "", "stays: "+c.Kept, "✗ not proven"))
		d.row(c.Step, c.What, yes(c.Done, "yes", "no"), undone, strings.Join(slices.DeleteFunc([]string{c.Error, c.Why}, func(s string) bool { return s == "" }), "; "))
	}
}

// claims lists what a reader might take for shown, and was not.
func (d *doc) claims(names []string) {
	d.title("What this does not claim")
	for _, name := range names {
		if p := d.res.Proves[name]; !p.Proven {
			d.line("- %s: not proven: %s", name, cell(p.Why))
		}
	}
	for _, n := range d.res.Notes {
		d.line("- %s", cell(n))
	}
	d.line("- compliance: this is a record of what one run showed, not a certificate")
}

func (d *doc) words() {
	d.title("Words")
	for _, w := range words {
		d.line("- **%s**: %s", w.Word, w.Meaning)
	}
}

// selfTest says in words what the tool's own self-test came to.
func selfTest(t *drill.SelfTest) string {
	if t.State == drill.SelfTestNotRun {
		return "not run: " + t.Why
	}
	return fmt.Sprintf("%s: %d cases, %s", t.State, len(t.Cases), t.At)
}
