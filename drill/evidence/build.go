package evidence

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"drkit/drill"
	"drkit/drill/ledger"
	"drkit/drill/report"
)

// New is the evidence of a folded journal, whose bytes have the given seal.
func New(r *drill.Run, seal ledger.Sealed) Evidence {
	res, p := report.New(r), r.Plan
	seal.Events = r.Seq
	e := Evidence{
		Schema: Schema, RunID: r.ID, Kind: kindOf(p), Service: p.Service, Mode: p.Mode, Scenario: scenario(p.Scenario),
		Plan:        Plan{Playbook: p.Playbook, SHA256: p.PlanHash, PlaybookSHA256: said(p.PlaybookHash)},
		Manifest:    Manifest{Release: said(p.Release)},
		Tool:        Tool{Version: p.Tool},
		SelfTest:    p.SelfTest,
		Operator:    Operator{ID: said(p.By), Method: "asserted by the operating system, not authenticated"},
		Environment: Environment{SourceRegion: p.Source, TargetRegion: p.Target},
		Objectives:  Objectives{res.Objectives, int64(p.Objectives.RTO)},
		Clock:       Clock{Began: r.Begun.Wall, Ended: res.Ended, Instants: instants(r)},
		Components:  res.Components, Measured: res.Measured, Segments: res.Segments, Traffic: res.Traffic, Notes: res.Notes,
		Problems: problems(r), Steps: steps(r), Gates: gates(r), Proofs: proofs(r),
		Cleanup: cleanup(r), TakenBack: report.TakenBacks(r), Failback: failback(r), Deviations: deviations(r), Findings: findings(r),
		Journal: seal, Outcome: outcome(r),
	}
	if len(r.Classes) > 0 {
		e.Classes = res.Classes
	}
	if p.Parts != nil {
		e.Manifest.Parts = &p.Parts
	}
	if b := p.Binary; b != nil {
		e.Tool.SHA256, e.Tool.Commit = said(b.SHA256), said(b.Commit)
		if b.Commit != "" {
			e.Tool.Dirty = &b.Modified
		}
	}
	if p.Ledger != nil {
		e.Ledger = &Ledger{*p.Ledger, tail(*p.Ledger)}
	}
	e.Consent, e.Approvers, e.Notified, e.NoLedger = p.Consent, approvers(r), notified(r), said(p.WithoutLedger)
	e.People = participants(r)
	if p.Observers != nil {
		e.Observers = &p.Observers
	}
	e.Environment.IsolationProof = isolation(r)
	e.Controls = controls(&e)
	e.Unknown = unknown(&e)
	return e
}

// isolation is what a gate of that name observed: whether the source was out of reach
// from inside the canary.
func isolation(r *drill.Run) *string {
	for _, g := range r.Gates {
		if strings.Contains(g.ID, "isolation") {
			return said(g.Result + ": " + g.Observed)
		}
	}
	return nil
}

// Kinds of runs.
const (
	KindDrill    = "drill"
	KindDemo     = "demo"
	KindTabletop = "tabletop"
	KindReal     = "real" // production was moved
)

func kindOf(p drill.RunStarted) string {
	switch {
	case p.Demo:
		return KindDemo
	case p.Mode == drill.ModeTabletop:
		return KindTabletop
	case drill.Live(p.Mode):
		return KindReal
	}
	return KindDrill
}

// said is a pointer to a text, nil when nothing was said.
func said(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func scenario(s *drill.Scenario) Scenario {
	if s == nil {
		return Scenario{}
	}
	return Scenario{ID: said(s.ID), Severity: said(s.Severity), Trigger: said(s.Trigger), ChangeRef: said(s.ChangeRef)}
}

func tail(l drill.LedgerRef) string {
	if l.Anchored {
		return "anchored: an object lock holds the record until " + l.Until
	}
	return "unanchored: whoever can write to the ledger can cut its end off; keep its head elsewhere, and give it to verify-evidence with --head"
}

func instants(r *drill.Run) []Instant {
	all := []Instant{}
	for _, in := range r.Instants {
		all = append(all, Instant{Name: in.Name, Step: in.Step, Process: in.At.Proc, Mono: int64(in.At.Mono), Wall: in.At.Wall, Cached: in.Cached})
	}
	return all
}

func problems(r *drill.Run) []Problem {
	all := []Problem{}
	for _, p := range r.Problems {
		all = append(all, Problem{Step: p.Step, What: p.What, Hint: p.Hint})
	}
	return all
}

func steps(r *drill.Run) []Step {
	all := []Step{}
	for _, s := range r.Steps {
		e := s.Elapsed()
		all = append(all, Step{ID: s.ID, Kind: s.Kind, Anchor: r.Plan.Playbook + "#" + s.ID, By: by(s.Kind), Start: when(s.Started), End: when(s.Ended),
			Elapsed: report.SecondsIf(e.Elapsed, e.Measured), Budget: report.SecondsIf(s.Budget, s.Budget > 0),
			Result: s.Result, Attempts: s.Attempts, Status: s.Status, Error: s.Error, Hint: s.Hint})
	}
	return all
}

func when(s drill.Stamp) *time.Time {
	if s.IsZero() {
		return nil
	}
	return &s.Wall
}

func gates(r *drill.Run) []Gate {
	all := []Gate{}
	for _, g := range r.Gates {
		all = append(all, Gate{Step: g.Step, ID: g.ID, Title: g.Title, Expected: g.Expected, Observed: g.Observed, Result: g.Result, Status: g.Status,
			RestsOn: g.Evidence, Hint: g.Hint, At: g.At.Wall, Event: g.Seq, Classes: g.Classes})
	}
	return all
}

func proofs(r *drill.Run) []Proof {
	all := []Proof{}
	for _, p := range r.Proofs {
		holds, why := r.Proof(p.Name)
		all = append(all, Proof{Name: p.Name, Step: p.Step, Claimed: p.Proven, Gates: append([]string{}, p.Gates...), Holds: holds,
			Required: slices.Contains(r.Plan.Objectives.MustProve, p.Name), Why: cmp.Or(p.Why, why)})
	}
	return all
}

func cleanup(r *drill.Run) Cleanup {
	c := Cleanup{Status: CleanNothing, Changes: []Change{}, Leftovers: []string{}}
	for _, x := range r.Changes {
		c.Changes = append(c.Changes, Change{ID: x.ID, Step: x.Step, What: x.What, Undo: x.Undo.Kind, Done: x.Done, Error: x.Error, Undone: x.Undone, Why: x.UndoError, By: x.Adopted, Kept: x.Kept, Later: report.LaterOf(x)})
	}
	for _, x := range r.LeftAtEnd() {
		c.Leftovers = append(c.Leftovers, x.What)
	}
	switch {
	case len(c.Leftovers) > 0:
		c.Status = CleanIncomplete
	case len(c.Changes) > 0:
		c.Status = CleanVerified
	}
	return c
}

// failback is the result of the plan's failback steps, the worst of them.
func failback(r *drill.Run) Failback {
	var f Failback
	for _, s := range r.Steps {
		if s.Kind == "failback" && (f.Result == nil || *f.Result == drill.Passed) {
			f.Result = said(s.Result)
		}
	}
	return f
}

// deviations are what went otherwise than planned, although it may have ended well.
func deviations(r *drill.Run) []string {
	all := []string{}
	for _, s := range r.Steps {
		if s.Attempts > 1 {
			all = append(all, fmt.Sprintf("step %s needed %d attempts", s.ID, s.Attempts))
		}
		if e := s.Elapsed(); e.Measured && s.Budget > 0 && e.Elapsed > s.Budget {
			all = append(all, fmt.Sprintf("step %s took %v, budgeted were %v", s.ID, e.Elapsed.Round(time.Millisecond), s.Budget))
		}
		if s.Result != "" && s.Result != drill.Passed {
			all = append(all, fmt.Sprintf("step %s is %s", s.ID, s.Result))
		}
	}
	all = append(all, approvalDeviations(r)...)
	for _, x := range r.Resumes {
		what := "its process was gone"
		switch {
		case x.After != nil:
			what = "it was held: " + x.After.Why
		case x.Cut != nil:
			what = "it was being cut short: " + x.Cut.Why
		}
		all = append(all, fmt.Sprintf("process %d went on with the run at %s (%s); figures across processes rest on the machine's clock%s", x.At.Proc, x.At.Wall.UTC().Format(time.RFC3339), what, program(r.Plan, x.Resumed)))
	}
	if r.Aborting != nil {
		all = append(all, "the run was cut short: "+r.Aborting.Why)
	}
	for _, text := range r.AfterTheEnd() {
		all = append(all, "after the end: "+text)
	}
	return all
}

// program says with which program a process went on; "" where the journal does not say,
// as those of earlier versions.
func program(began drill.RunStarted, on drill.Resumed) string {
	switch {
	case on.Binary == nil || on.Binary.SHA256 == "":
		return ""
	case began.Binary == nil || began.Binary.SHA256 == "":
		return fmt.Sprintf("; by %s with sha256 %s, and which program began the run is not known", on.Tool, on.Binary.SHA256)
	case began.Binary.SHA256 == on.Binary.SHA256:
		return "; by the program that began the run"
	}
	return fmt.Sprintf("; by another program than the one that began the run: %s with sha256 %s", on.Tool, on.Binary.SHA256)
}

// findings are the gates that are not green and the other reasons of the verdict.
func findings(r *drill.Run) []Finding {
	all := []Finding{}
	for _, g := range r.Gates {
		if g.Result != drill.Passed {
			all = append(all, Finding{ID: "gate " + g.ID, Status: "open", Hint: g.Hint, What: fmt.Sprintf("%s: expected %s, observed %s", g.Result, g.Expected, g.Observed)})
		}
	}
	if r.Finished == nil {
		return all
	}
	for i, x := range r.Finished.Reasons {
		if !strings.HasPrefix(x.What, "gate ") {
			all = append(all, Finding{ID: fmt.Sprintf("reason %d", i+1), Status: "open", What: x.What, Hint: x.Hint})
		}
	}
	return all
}

func outcome(r *drill.Run) *Outcome {
	f := r.Finished
	if f == nil {
		return nil
	}
	return &Outcome{Verdict: f.Verdict, Status: f.Status, Reasons: append([]drill.Reason{}, f.Reasons...), Aborting: r.Aborting, Rules: rulesOf(r)}
}
