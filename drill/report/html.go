package report

import (
	"cmp"
	_ "embed"
	"html/template"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"drkit/drill"
)

// HTML writes the report as one page for people and printers: no script, nothing
// from elsewhere, so that it opens in ten years and without a network.
func HTML(w io.Writer, r *drill.Run) error {
	return page.Execute(w, newView(r))
}

//go:embed html.tmpl
var pageText string

var page = template.Must(template.New("report").Funcs(template.FuncMap{
	"span": span, "selfTest": selfTest, "percent": percent, "clip": func(text string) string { return drill.Clip(text, longText) },
	"short": func(text string) string { return drill.Clip(text, shortText) },
	"time":  func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
	"mark":  mark, "words": func() []word { return words },
}).Parse(pageText))

// view is what the template shows.
type view struct {
	Result
	Verdict     string
	Sentence    string
	Class       string   // good, late, bad, none
	Later       []string // what was done after the end
	Figures     []namedFigure
	Proofs      []namedProof
	Timeline    timeline
	Attribution []attribution
	Logs        []drill.Log
	LogsCut     int
}

type namedFigure struct {
	Name, Promised string
	Value          string
	Why            string
	Judged         bool
}

type namedProof struct {
	Name string
	Proof
}

func newView(r *drill.Run) view {
	v := view{Result: New(r), Verdict: "not ended", Class: "none", Timeline: newTimeline(r), Attribution: attributions(r),
		Sentence: "The journal has no end: the run still lives, or its process was killed."}
	if f := r.Finished; f != nil {
		v.Verdict, v.Sentence, v.Class = f.Verdict, sentence(v.Result), classes[f.Verdict]
	}
	for _, name := range v.figures() {
		v.Figures = append(v.Figures, v.figure(name))
	}
	for _, name := range proofNames(r) {
		v.Proofs = append(v.Proofs, namedProof{name, v.Proves[name]})
	}
	v.Later = r.AfterTheEnd()
	v.Logs = r.Logs[max(0, len(r.Logs)-logLines):]
	v.LogsCut = len(r.Logs) - len(v.Logs)
	return v
}

// logLines is how many of a run's last log lines a page shows.
const logLines = 80

var classes = map[string]string{drill.Recovered: "good", drill.ObjectiveMissed: "late", drill.NotRecovered: "bad", drill.Incomplete: "late", drill.Refused: "late", drill.Aborted: "late"}

func (v view) figure(name string) namedFigure {
	f := v.Measured[name]
	n := namedFigure{Name: strings.ReplaceAll(name, "_", " "), Value: span(f.Value), Why: f.Why}
	switch name {
	case "rto":
		n.Name, n.Promised, n.Judged = "declared → steady (RTO)", span(&v.Objectives.RTO), true
	case "steady_ttft_p99":
		n.Promised = span(v.Objectives.TTFTP99)
	case "steady_error_rate":
		n.Value, n.Promised = percent(f.Value), percent(&v.Objectives.ErrorRate)
	}
	if f.Value == nil {
		n.Value = "not measured"
	}
	return n
}

// Sizes of the drawings, in the units of their view boxes.
const (
	drawWidth  = 900
	labelWidth = 150
	rowHeight  = 22
)

// timeline draws the steps of the process that began the run, and its instants.
type timeline struct {
	Height int
	Bars   []bar
	Marks  []tick
	Axis   []tick
	Floor  int // where the axis is drawn
}

type bar struct {
	Label, Text string
	X, Width    string
	Y, TextY    int
	Class       string
}

// tick is a vertical line with a name.
type tick struct {
	Label string
	X     string
	Y     int
	Left  bool // its name stands left of it: there is no room on the right
	Class string
}

// scale maps moments of a run to a drawing.
type scale struct{ length time.Duration }

func (s scale) x(d time.Duration) float64 {
	if s.length <= 0 {
		return labelWidth
	}
	share := float64(d) / float64(s.length)
	return labelWidth + min(max(share, 0), 1)*(drawWidth-labelWidth-10)
}

func at(x float64) string { return strconv.FormatFloat(x, 'f', 1, 64) }

// endOf is the last moment that a step of the run was at, from its beginning.
func endOf(r *drill.Run) time.Duration {
	if r.Last.Proc == 1 {
		return r.Since(r.Last)
	}
	end := time.Duration(0) // a process that only took the run back adds nothing
	for _, s := range r.Steps {
		for _, x := range []drill.Stamp{s.Started, s.Ended} {
			if !x.IsZero() {
				end = max(end, r.Since(x))
			}
		}
	}
	return end
}

func newTimeline(r *drill.Run) timeline {
	s := scale{endOf(r)}
	var t timeline
	for _, st := range r.Steps {
		y := len(t.Bars) * rowHeight
		b := bar{Label: st.ID, Y: y + 4, TextY: y + 16, X: at(labelWidth), Width: "0", Class: "none", Text: "not reached"}
		if !st.Started.IsZero() {
			end := endOf(r)
			if !st.Ended.IsZero() {
				end = r.Since(st.Ended)
			}
			began := r.Since(st.Started)
			from, to := s.x(began), s.x(end)
			b.X, b.Width, b.Class = at(from), at(max(to-from, 1)), results[st.Result]
			b.Text = duration(max(end-began, 0)) + " " + cmp.Or(st.Result, "running")
		}
		t.Bars = append(t.Bars, b)
	}
	t.Floor = len(t.Bars)*rowHeight + 4
	t.marks(r, s)
	t.axis(s)
	t.Height = t.Floor + 24 + 14*len(t.Marks)
	return t
}

var results = map[string]string{drill.Passed: "good", drill.Failed: "bad", drill.Unmeasured: "late", drill.Skipped: "late", drill.NotReached: "none"}

func (t *timeline) marks(r *drill.Run, s scale) {
	for _, in := range r.Instants {
		label := in.Name
		if e := drill.Between(r.Begun, in.At); e.Measured {
			label += " +" + duration(e.Elapsed)
		}
		t.mark(label, s.x(r.Since(in.At)), "instant")
	}
	declared, ok := r.Instant(drill.InstantDeclared)
	if promised := r.Since(declared.At) + r.Plan.Objectives.RTO; ok && promised <= endOf(r) {
		t.mark("promised "+duration(r.Plan.Objectives.RTO), s.x(promised), "promise")
	}
}

func (t *timeline) mark(label string, x float64, class string) {
	t.Marks = append(t.Marks, tick{Label: label, X: at(x), Y: t.Floor + 30 + 14*len(t.Marks), Left: x > drawWidth*2/3, Class: class})
}

func (t *timeline) axis(s scale) {
	for i := range 5 {
		d := s.length * time.Duration(i) / 4
		t.Axis = append(t.Axis, tick{Label: duration(d.Round(100 * time.Millisecond)), X: at(s.x(d)), Y: t.Floor + 16, Left: i == 4})
	}
}

// attribution draws who answered one class of requests, window by window.
type attribution struct {
	Class   string
	Height  int
	Regions []region
	Windows []window
	Axis    []tick
}

type region struct {
	Name, Fill string
	X          int
}

type window struct {
	X, Width string
	Parts    []part
	Title    string
	Phase    string
}

type part struct{ Y, Height, Fill string }

// fills tell regions apart, also on paper without colour: they differ in lightness.
var fills = []string{"#1f4e79", "#9dc3e6", "#548235", "#c5e0b4", "#7f6000", "#ffe699"}

const (
	fillFailed   = "#c00000"
	fillUnknown  = "#808080"
	windowHeight = 90
)

func attributions(r *drill.Run) []attribution {
	regions := regionsOf(r)
	s := scale{endOf(r)}
	var all []attribution
	for _, w := range r.Traffic {
		i := slices.IndexFunc(all, func(a attribution) bool { return a.Class == w.Class })
		if i < 0 {
			i, all = len(all), append(all, attribution{Class: w.Class, Height: windowHeight + 40, Regions: regions})
			t := timeline{Floor: windowHeight}
			t.axis(s)
			all[i].Axis = t.Axis
		}
		all[i].Windows = append(all[i].Windows, newWindow(w, r.Since(w.Began), s, regions))
	}
	return all
}

func regionsOf(r *drill.Run) []region {
	names := map[string]bool{}
	for _, w := range r.Traffic {
		for name := range w.ByRegion {
			names[name] = true
		}
	}
	var all []region
	for i, name := range slices.Sorted(maps.Keys(names)) {
		all = append(all, region{Name: name, Fill: fills[i%len(fills)]})
	}
	all = append(all, region{Name: "not attributed", Fill: fillUnknown}, region{Name: "failed or cut", Fill: fillFailed})
	for i := range all {
		all[i].X = labelWidth + i*140
	}
	return all
}

func newWindow(w drill.TrafficWindow, began time.Duration, s scale, regions []region) window {
	from, to := s.x(began), s.x(began+w.To-w.From)
	v := window{X: at(from), Width: at(max(to-from-0.5, 1)), Phase: w.Phase}
	counts := map[string]int{"failed or cut": w.Failed + w.Cut, "not attributed": max(0, w.OK-total(w.ByRegion))}
	maps.Copy(counts, w.ByRegion)
	sum := total(counts)
	v.Title = w.Phase + ": " + strconv.Itoa(w.Sent) + " sent"
	y := float64(windowHeight)
	for _, r := range regions {
		if counts[r.Name] == 0 {
			continue
		}
		v.Title += ", " + r.Name + " " + strconv.Itoa(counts[r.Name])
		h := float64(counts[r.Name]) / float64(sum) * (windowHeight - 10)
		y -= h
		v.Parts = append(v.Parts, part{Y: at(y), Height: at(h), Fill: r.Fill})
	}
	return v
}

func total(counts map[string]int) int {
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return sum
}
