package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"drkit/drill"
	"drkit/internal/errext"
	"drkit/internal/report"
)

// TestCases lays a run out for the JUnit writer: a suite a step, in it the step
// and each of its gates. What was skipped or not reached is skipped and what
// could not be measured an error: neither ever reads as passed, and the verdict
// is red whenever the exit status is not 0.
func TestCases(r *drill.Run) report.Result {
	res := New(r)
	out := report.Result{
		Title: fmt.Sprintf("drkit drill %s: %s → %s", res.Service, res.From, res.To), Began: res.Began, Tool: "drkit", Version: res.Tool,
		Verdict: "the run has not ended", Status: errext.Failed,
		Properties: []report.Property{{Name: "run", Value: res.Run}, {Name: "release", Value: res.Release}, {Name: "plan", Value: res.PlanHash},
			{Name: "source", Value: res.Source}, {Name: "target", Value: res.Target}, {Name: "mode", Value: res.Mode}, {Name: "demo", Value: fmt.Sprint(res.Demo)},
			{Name: "rto_promised", Value: span(&res.Objectives.RTO)}, {Name: "rto_measured", Value: spanOr(res.Measured["rto"])}},
	}
	if f := r.Finished; f != nil {
		out.Status, out.Verdict = errext.Status(f.Status), f.Verdict
		for _, reason := range r.Told() {
			out.Verdict += "\n" + reason.Name + ": " + reason.What
		}
	}
	for i, p := range r.Problems {
		out.Rows = append(out.Rows, report.Row{ID: fmt.Sprintf("problem %d", i+1), Group: errext.Refused.String(), Suite: "checks before the clock",
			Subject: cmp.Or(p.Step, "plan"), Level: report.Error, Message: p.What, Hint: p.Hint})
	}
	for _, c := range res.Classes {
		out.Rows = append(out.Rows, classCase(c))
	}
	for _, s := range r.Steps {
		out.Rows = append(out.Rows, stepCase(s))
		for _, g := range r.Gates {
			if g.Step == s.ID {
				out.Rows = append(out.Rows, gateCase(g))
			}
		}
	}
	for _, g := range r.Gates { // of steps that are not in the plan
		if !slices.ContainsFunc(r.Steps, func(s drill.StepState) bool { return s.ID == g.Step }) {
			out.Rows = append(out.Rows, gateCase(g))
		}
	}
	return out
}

func spanOr(f Figure) string {
	if f.Value == nil {
		return "not measured: " + f.Why
	}
	return span(f.Value)
}

func stepCase(s drill.StepState) report.Row {
	row := report.Row{ID: "step " + s.ID, Suite: s.ID, Subject: s.ID, Message: s.Error, Hint: s.Hint}
	if e := s.Elapsed(); e.Measured {
		row.Elapsed = e.Elapsed.Round(time.Millisecond)
	}
	judge(&row, s.Result, s.Status)
	return row
}

// classCase is a class of traffic as a test case: only a recovery passes.
func classCase(c Class) report.Row {
	row := report.Row{ID: "traffic class " + c.Name, Suite: "traffic classes", Subject: c.Name, Level: report.Error, Message: c.Why}
	switch verdict := verdictOf(c); verdict {
	case drill.Recovered:
		row.Level, row.Message = report.Pass, verdict
	case drill.NotAffected, "not ended", drill.Aborted:
		row.Skipped = strings.TrimSuffix(verdict+": "+c.Why, ": ")
	default:
		row.Group, row.Message = verdict, strings.TrimSuffix(verdict+": "+c.Why, ": ")
	}
	row.Message, row.Skipped = drill.Clip(row.Message, longText), drill.Clip(row.Skipped, longText)
	return row
}

func verdictOf(c Class) string {
	if c.Verdict == nil {
		return "not ended"
	}
	return *c.Verdict
}

func gateCase(g drill.GateState) report.Row {
	row := report.Row{ID: "gate " + g.ID, Title: g.Title, Suite: g.Step, Subject: g.Step, Hint: g.Hint,
		Message: strings.TrimSpace(fmt.Sprintf("expected %s, observed %s", g.Expected, g.Observed))}
	if g.Evidence != "" {
		row.Message += "\nrests on: " + g.Evidence
	}
	judge(&row, g.Result, g.Status)
	return row
}

// failureTypes are the kinds of failure by the status that they stand for.
var failureTypes = map[errext.Status]string{errext.Holds: "gate", errext.Gate: "gate", errext.ObjectiveMissed: "objective"}

// judge says what a result of a step or gate is as a test case.
func judge(row *report.Row, result string, status int) {
	s := errext.Status(status)
	row.Level = report.Error
	switch result {
	case drill.Passed:
		row.Level = report.Pass
	case drill.Failed:
		row.Group = cmp.Or(failureTypes[s], s.String())
		row.Trouble = failureTypes[s] == ""
	case drill.Unmeasured:
		row.Group, row.Trouble = result, true
	default: // skipped, not reached, or not ended
		row.Skipped = strings.TrimSuffix(cmp.Or(result, "not ended")+": "+row.Message, ": ")
	}
	if row.Message == "" {
		row.Message = cmp.Or(result, "not ended")
	}
	row.Message, row.Hint, row.Skipped = drill.Clip(row.Message, longText), drill.Clip(row.Hint, longText), drill.Clip(row.Skipped, longText)
}
