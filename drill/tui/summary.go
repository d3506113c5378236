package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"drkit/drill"
)

// narrowest is the width below which a summary is not broken any further.
const narrowest = 40

// Summary is what stays in the scrollback after the screen has closed: verdict,
// reasons with hints, the recovery clock, what was proven, and what is left
// behind. It has no colour, ends in a newline, and is at most width columns wide.
func Summary(r *drill.Run, width int) string {
	p := &pen{}
	s := &summary{run: r, pen: p, width: min(max(width, narrowest), maxWidth)}
	if r == nil || r.ID == "" {
		s.add("", "the run did not begin: nothing was changed")
		return s.String()
	}
	s.head()
	s.verdict()
	s.clock()
	s.proofs()
	s.approvals()
	s.results()
	s.left()
	return s.String()
}

type summary struct {
	run   *drill.Run
	pen   *pen
	width int
	lines []string
}

func (s *summary) String() string { return strings.Join(s.lines, "\n") + "\n" }

// add writes text, wrapped beside its prefix.
func (s *summary) add(prefix, text string) {
	s.lines = append(s.lines, s.pen.wrap(prefix, text, s.width, 8)...)
}

func (s *summary) head() {
	plan := s.run.Plan
	s.add("", fmt.Sprintf("%s of %s, release %s, %s → %s, run %s", plan.Way(), plan.Service, cmp.Or(short(plan.Release), "not known"), plan.From(), plan.To(), s.run.ID))
	if warn := banner(s.run); warn != "" {
		s.add("", warn)
	}
	if real := components(s.run, false); len(real) > 0 {
		s.add("", "took part: "+strings.Join(real, ", "))
	}
}

func (s *summary) verdict() {
	if s.run.Finished == nil {
		s.add("✗ ", "the run has no end: it was killed, was left, or still runs")
		s.add("  next: ", "drkit drill abort "+s.run.ID)
		return
	}
	text, _ := verdictLine(s.run)
	s.add("", text)
	for _, x := range s.run.Told() {
		s.add("  ✗ ", x.What)
		if x.Hint != "" {
			s.add("    next: ", x.Hint)
		}
	}
}

// clock prints the judged figure and each stretch of it, or why there is none.
func (s *summary) clock() {
	const label = "clock   "
	promised := s.run.Plan.Objectives.RTO
	rto, ok, why := s.run.RTO()
	switch {
	case !ok:
		s.add(label, "declared → steady: not measured ("+why+"), objective "+limit(promised))
	case why != "":
		s.add(label, fmt.Sprintf("declared → steady: %s (%s), objective %s", brief(rto), why, limit(promised)))
	default:
		s.add(label, fmt.Sprintf("declared → steady: %s, objective %s", brief(rto), limit(promised)))
	}
	if _, declared := s.run.Instant(drill.InstantDeclared); !declared {
		return
	}
	var missing []string
	for _, seg := range s.run.Segments() {
		if seg.Measured {
			s.add("        ", segmentText(seg))
		} else if !slices.Contains(missing, seg.Why) {
			missing = append(missing, seg.Why)
		}
	}
	if len(missing) > 0 {
		s.add("        ", "the other stretches were not measured: "+strings.Join(missing, ", "))
	}
}

// segmentText is a measured stretch.
func segmentText(seg drill.Segment) string {
	text := seg.From + " → " + seg.To + ": " + brief(seg.Elapsed)
	if slack, known := seg.Slack(); known && slack < 0 {
		text += " of " + limit(seg.Budget) + ", over"
	} else if known {
		text += " of " + limit(seg.Budget)
	}
	if seg.Cached {
		text += ", cached"
	}
	return text
}

func (s *summary) proofs() {
	prefix := "proves  "
	for _, name := range s.run.Plan.Objectives.MustProve {
		ok, why := s.run.Proof(name)
		if ok {
			s.add(prefix+"✓ ", name)
		} else {
			s.add(prefix+"✗ ", name+" not proven: "+why)
		}
		prefix = "        "
	}
}

// approvals name who approved the plan, and what counted nothing.
func (s *summary) approvals() {
	prefix := "people  "
	for _, a := range s.run.Approvals {
		if a.Why != "" {
			s.add(prefix+"✗ ", fmt.Sprintf("the approval by %s in record %d of the ledger counts nothing: %s", a.Approver, a.Record, a.Why))
		} else {
			s.add(prefix+"✓ ", approvedBy(a))
		}
		prefix = "        "
	}
}

// approvedBy is an approval that counted: whose, of which change, and how it is known.
func approvedBy(a drill.Approval) string {
	text := "approved by " + a.Approver
	if a.ChangeRef != "" {
		text += ", change " + a.ChangeRef
	}
	if a.Record > 0 {
		text += fmt.Sprintf(", record %d of the ledger", a.Record)
	}
	if a.Self {
		text += ", the operator's own"
	}
	return text + ": " + a.Method
}

// results count the steps and gates, and name those that did not pass. The
// counted words are the only ones: nothing is left out of the sum.
func (s *summary) results() {
	steps, gates := map[string]int{}, map[string]int{}
	for _, x := range s.run.Steps {
		steps[stepResult(x)]++
	}
	for _, g := range s.run.Gates {
		gates[g.Result]++
	}
	s.add("steps   ", orNone(tally(steps)))
	s.add("gates   ", orNone(tally(gates)))
	for _, g := range s.run.Gates {
		if g.Result != drill.Passed {
			s.add("        "+mark(g.Result)+" ", fmt.Sprintf("%s %s: expected %s, observed %s", g.ID, g.Result, g.Expected, g.Observed))
		}
	}
	for _, n := range s.run.Notes {
		s.add("note    ", n)
	}
}

// stepResult counts a step that has none as not reached; one that was cut off by
// a kill was not measured.
func stepResult(s drill.StepState) string {
	switch {
	case s.Running():
		return drill.Unmeasured
	case s.Result == "":
		return drill.NotReached
	}
	return s.Result
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func (s *summary) left() {
	for _, text := range s.run.AfterTheEnd() {
		s.add("later   ", text)
	}
	for _, c := range s.run.Left() {
		s.add("left    ✗ ", c.What+" is not proven to be taken back")
	}
}
