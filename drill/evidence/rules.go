package evidence

import (
	"cmp"
	"slices"
	"time"

	"drkit/drill"
)

// rules say how the outcome follows from the rest; docs/evidence.md has them in
// full, and scripts/judges/evidence.py follows them without drkit.
var rules = []string{
	"aborted: the run was cut short",
	"refused: a check found a problem before the clock, or the first failed step refused (3) before the clock ran, before a red gate and before any other step changed anything",
	"not-recovered: a gate is red, or a failed step stands for status 4",
	"incomplete: a step or gate is not passed, a proof of must_prove does not hold, drkit's own engine or router took part in a run that is no demo, or the recovery time was not measured",
	"objective-missed: all else holds, and the recovery took longer than promised or an objective of the traffic was missed",
	"recovered: all holds; a change that is not proven to be taken back makes it incomplete with status 8",
	"without_ledger: adds 6, and makes incomplete what else would be recovered or objective-missed",
	"status: the first of 8, 6, 4, 5, 1 among the reasons",
}

// rulesOf are the rules that a run's outcome follows: those that speak of what the
// run does not have are left out.
func rulesOf(r *drill.Run) []string {
	all := slices.Clone(rules)
	if len(r.Classes) > 0 {
		all = append(all, "classes: one that the target may not answer is refused, and makes incomplete what else would be recovered or objective-missed; each other one is judged by the gates that speak of it")
	}
	if slices.ContainsFunc(r.Changes, func(c drill.ChangeState) bool { return c.Kept != "" && !c.Undone && c.Adopted == "" }) {
		all = append(all, "changes: one that stays on purpose is no change that is left")
	}
	if drill.Live(r.Plan.Mode) {
		all = append(all, "approvals: production may be moved, so as many different people as the plan asks for must have approved it, each by a key and a record of the ledger, or in an emergency the operator by a word that says so; else a step or gate is missing")
	}
	if r.Plan.Mode == drill.ModeTabletop {
		all = append(all, "tabletop: it proves nothing, and is incomplete at best")
	}
	return all
}

// Run is the run as far as its outcome needs it, made from the evidence alone.
func (e *Evidence) Run() *drill.Run {
	r := &drill.Run{ID: e.RunID, Components: e.Components}
	r.Plan.Demo, r.Plan.Mode = e.Kind == KindDemo, e.Mode
	r.Plan.Objectives.MustProve = e.Objectives.MustProve
	r.Plan.Objectives.RTO = time.Duration(e.Objectives.RTONanoseconds)
	for _, s := range e.Steps {
		x := drill.StepState{StepPlan: drill.StepPlan{ID: s.ID, Kind: s.Kind}, Result: s.Result, Attempts: s.Attempts, Error: s.Error, Hint: s.Hint, Status: s.Status}
		r.Steps = append(r.Steps, x)
	}
	for _, g := range e.Gates {
		r.Gates = append(r.Gates, drill.GateState{Step: g.Step, Gate: drill.Gate{ID: g.ID, Title: g.Title, Expected: g.Expected, Observed: g.Observed, Result: g.Result, Status: g.Status, Hint: g.Hint, Classes: g.Classes}})
	}
	for _, p := range e.Proofs {
		r.Proofs = append(r.Proofs, drill.ProofState{Step: p.Step, Proof: drill.Proof{Name: p.Name, Proven: p.Claimed, Why: p.Why, Gates: p.Gates}})
	}
	for _, p := range e.Problems {
		r.Problems = append(r.Problems, drill.ProblemState{Step: p.Step, Problem: drill.Problem{What: p.What, Hint: p.Hint}})
	}
	for _, c := range e.Cleanup.Changes {
		r.Changes = append(r.Changes, drill.ChangeState{Intent: drill.Intent{ID: c.ID, What: c.What, Undo: drill.Undo{Kind: c.Undo}}, Step: c.Step,
			Done: c.Done, Error: c.Error, Undone: c.Undone, UndoError: c.Why, Adopted: c.By, Kept: c.Kept})
	}
	for _, c := range e.Classes {
		x := drill.Class{Name: c.Name, Residency: c.Residency, Share: c.Share, Router: c.Router}
		switch {
		case !c.Lawful:
			x.Refused = cmp.Or(c.Why, "no reason is given")
		case c.Verdict == nil:
		case *c.Verdict == drill.NotAffected:
			x.Aside = c.Why
		}
		r.Classes = append(r.Classes, x)
	}
	for _, in := range e.Clock.Instants {
		r.Instants = append(r.Instants, drill.InstantState{Name: in.Name, Step: in.Step, Cached: in.Cached,
			At: drill.Stamp{Proc: in.Process, Mono: time.Duration(in.Mono), Wall: in.Wall}})
	}
	r.Plan.Consent = e.Consent
	for _, a := range approversOf(e) {
		r.Approvals = append(r.Approvals, a.approval())
	}
	if e.NoLedger != nil {
		r.Plan.WithoutLedger = *e.NoLedger
	}
	if o := e.Outcome; o != nil {
		r.Aborting = o.Aborting
		r.Finished = &drill.RunFinished{Verdict: o.Verdict, Status: o.Status, Reasons: o.Reasons}
	}
	return r
}
