package drill

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"drkit/internal/errext"
)

// The verdicts of a run.
const (
	Recovered       = "recovered"
	ObjectiveMissed = "objective-missed" // recovered, later than promised
	NotRecovered    = "not-recovered"    // a gate is red
	Incomplete      = "incomplete"       // nothing is red, but not all was shown
	Refused         = "refused"          // before any change
	Aborted         = "aborted"          // cut short by a person or a kill
)

var verdicts = []string{Recovered, ObjectiveMissed, NotRecovered, Incomplete, Refused, Aborted}

// Judge gives the verdict that a run's events allow. It is the only place that
// does: the runner writes what it says, and Verify compares a journal with it.
func Judge(r *Run) RunFinished {
	unclean := undoReasons(r)
	verdict, reasons := judge(r)
	if len(unclean) > 0 && (verdict == Recovered || verdict == ObjectiveMissed || verdict == Refused) {
		verdict = Incomplete // a clean-up that is not proven never reads as done
	}
	reasons = append(reasons, unclean...)
	if why := r.Plan.WithoutLedger; why != "" && verdict != Refused {
		if verdict == Recovered || verdict == ObjectiveMissed {
			verdict = Incomplete // what no ledger holds can be taken away unseen
		}
		reasons = append(reasons, reason(errext.Evidence, "the run began without its ledger: "+why, "keep the run's folder; it stands beside the chain of all runs"))
	}
	all := make([]errext.Status, 0, len(reasons))
	for _, x := range reasons {
		all = append(all, errext.Status(x.Status))
	}
	return RunFinished{Verdict: verdict, Status: int(errext.Combine(all...)), Reasons: reasons}
}

func judge(r *Run) (string, []Reason) {
	if r.Aborting != nil {
		return Aborted, []Reason{abortReason(*r.Aborting)}
	}
	if len(r.Problems) > 0 {
		return Refused, problemReasons(r)
	}
	if failed := failedSteps(r); len(failed) > 0 {
		return judgeFailed(r, failed)
	}
	red := redGates(r)
	if has(red, errext.Gate) {
		return NotRecovered, append(red, gaps(r)...)
	}
	if missing := append(gaps(r), except(red, errext.ObjectiveMissed)...); len(missing) > 0 {
		return Incomplete, append(append(missing, only(red, errext.ObjectiveMissed)...), late(r)...)
	}
	if missed := append(red, late(r)...); len(missed) > 0 {
		return ObjectiveMissed, missed
	}
	return Recovered, nil
}

func has(all []Reason, s errext.Status) bool { return len(only(all, s)) > 0 }

func only(all []Reason, s errext.Status) []Reason {
	return slices.DeleteFunc(slices.Clone(all), func(r Reason) bool { return r.Status != int(s) })
}

func except(all []Reason, s errext.Status) []Reason {
	return slices.DeleteFunc(slices.Clone(all), func(r Reason) bool { return r.Status == int(s) })
}

// reason makes a Reason with the status's own name.
func reason(s errext.Status, what, hint string) Reason {
	return Reason{Status: int(s), Name: s.String(), What: what, Hint: hint}
}

func abortReason(a RunAborting) Reason {
	status := errext.Interrupted
	if a.Signal == SignalTerminate {
		status = errext.Terminated
	}
	return reason(status, "the run was cut short: "+a.Why, "")
}

func problemReasons(r *Run) []Reason {
	var all []Reason
	for _, p := range r.Problems {
		what := p.What
		if p.Step != "" {
			what = "step " + p.Step + ": " + what
		}
		all = append(all, reason(errext.Refused, what, p.Hint))
	}
	return all
}

func undoReasons(r *Run) []Reason {
	var all []Reason
	for _, c := range r.LeftAtEnd() {
		why := c.UndoError
		if why == "" {
			why = "its undo did not run"
		}
		all = append(all, reason(errext.Unclean, fmt.Sprintf("%q is not proven to be taken back: %s", c.What, why),
			"run `drkit drill abort "+r.ID+"`; it may be repeated"))
	}
	return all
}

func failedSteps(r *Run) []StepState {
	var all []StepState
	for _, s := range r.Steps {
		if s.Result == Failed {
			all = append(all, s)
		}
	}
	return all
}

// judgeFailed tells a red gate (not recovered) from work that could not be done
// (incomplete) and from a refusal before anything was changed. A recovery that
// failed nothing but an objective is one that missed it.
func judgeFailed(r *Run, failed []StepState) (string, []Reason) {
	if s := failed[0]; s.Status == int(errext.Refused) && untouched(r, s.ID) {
		return Refused, []Reason{reason(errext.Refused, "step "+s.ID+": "+s.Error, s.Hint)}
	}
	reasons := redGates(r)
	for _, s := range failed {
		if !gateSaysIt(r, s) {
			reasons = append(reasons, stepReason(r, s))
		}
	}
	switch {
	case has(reasons, errext.Gate):
		return NotRecovered, reasons
	case len(except(reasons, errext.ObjectiveMissed)) > 0:
		return Incomplete, reasons
	}
	missing := unearned(r)
	if len(missing) == 0 {
		return ObjectiveMissed, reasons
	}
	for _, what := range missing { // else its status would read as a recovery
		reasons = append(reasons, reason(errext.Gate, what, ""))
	}
	return Incomplete, reasons
}

// gateSaysIt says that a step failed by a red gate of its own, which is a reason already.
func gateSaysIt(r *Run, s StepState) bool {
	return slices.ContainsFunc(r.Gates, func(g GateState) bool {
		return g.Step == s.ID && g.Result == Failed && (s.Status == int(errext.Gate) || s.Status == g.Status)
	})
}

// stepReason is why a step failed. A refusal that comes too late to have changed
// nothing is a red gate; a clean-up that failed and was mended by the end of the
// run is only work that could not be done.
func stepReason(r *Run, s StepState) Reason {
	what := fmt.Sprintf("step %s: %s", s.ID, s.Error)
	switch status := errext.Status(s.Status); {
	case status == errext.Refused || status == errext.Holds:
		return reason(errext.Gate, what, s.Hint)
	case status == errext.Unclean && len(r.LeftAtEnd()) == 0:
		return reason(errext.Failed, what+"; the end of the run took it back", "")
	default:
		return reason(status, what, s.Hint)
	}
}

// untouched says that the clock did not run and that no step but the refusing
// one changed anything.
func untouched(r *Run, step string) bool {
	_, clock := r.Instant(InstantDeclared)
	for _, c := range r.Changes {
		clock = clock || c.Step != step
	}
	return !clock && len(redGates(r)) == 0
}

func redGates(r *Run) []Reason {
	var all []Reason
	for _, g := range r.Gates {
		if g.Result == Failed {
			all = append(all, reason(gateStatus(g.Gate), fmt.Sprintf("gate %s: expected %s, observed %s", g.ID, g.Expected, g.Observed), g.Hint))
		}
	}
	return all
}

// gateStatus is the status that a red gate stands for.
func gateStatus(g Gate) errext.Status {
	if g.Status == int(errext.Holds) {
		return errext.Gate
	}
	return errext.Status(g.Status)
}

// gaps lists what keeps a run without a red gate from having recovered.
func gaps(r *Run) []Reason {
	var what []string
	for _, s := range r.Steps {
		if s.Result != Passed {
			what = append(what, fmt.Sprintf("step %s is %s%s", s.ID, word(s.Result), because(s.Error)))
		}
	}
	for _, g := range r.Gates {
		if g.Result != Passed && g.Result != Failed {
			what = append(what, fmt.Sprintf("gate %s is %s%s", g.ID, g.Result, because(g.Observed)))
		}
	}
	if len(r.Steps) == 0 {
		what = append(what, "the plan has no steps")
	}
	if r.Plan.Mode == ModeTabletop {
		what = append(what, tabletopWhy)
	} else {
		what = append(what, lacking(r)...)
	}
	var all []Reason
	for _, w := range what {
		all = append(all, reason(errext.Gate, w, ""))
	}
	return all
}

// lacking lists what a recovery needs beside steps and gates.
func lacking(r *Run) []string {
	what := unearned(r)
	if _, ok, why := r.RTO(); !ok {
		what = append(what, "the recovery time was not measured: "+why)
	}
	if r.Plan.Objectives.RTO <= 0 {
		what = append(what, "the objectives promise no recovery time (rto)")
	}
	return what
}

// unearned lists what a recovery lacks although it may have been fast: proofs, parts that
// are production's, lawful targets and people's word.
func unearned(r *Run) []string {
	return slices.Concat(unproven(r), substitutes(r), refusedClasses(r), unapproved(r))
}

func word(result string) string {
	if result == "" {
		return NotReached
	}
	return result
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

func unproven(r *Run) []string {
	if len(r.Plan.Objectives.MustProve) == 0 {
		return []string{"the objectives ask for no proof (must_prove is empty)"}
	}
	var all []string
	for _, name := range r.Plan.Objectives.MustProve {
		if ok, why := r.Proof(name); !ok {
			all = append(all, fmt.Sprintf("%s is not proven: %s", name, why))
		}
	}
	return all
}

// needs says which component a proof speaks of: without a word on what it was,
// nobody can tell a real engine from a stand-in.
var needs = []struct{ proof, role string }{
	{ProofBoot, RoleEngine}, {ProofBehaviour, RoleEngine}, {ProofRouter, RoleRouter},
}

func substitutes(r *Run) []string {
	var all []string
	said := map[string]bool{}
	for _, c := range r.Components {
		said[c.Role] = true
		if c.Substitute && !r.Plan.Demo {
			all = append(all, c.ownPart())
		}
	}
	for _, n := range needs {
		if proven, _ := r.Proof(n.proof); proven && !said[n.role] {
			said[n.role] = true
			all = append(all, fmt.Sprintf("the run does not say which %s took part", n.role))
		}
	}
	return all
}

// ownPart is the reason why a run with a part of drkit's own is no recovery.
func (c Component) ownPart() string {
	return fmt.Sprintf("the %s was drkit's own (%s): it proves nothing of production's", c.Role, c.Kind)
}

// Told are the reasons of the end as people read them: what stands there twice, as of two
// engines, once, and with the way on where drkit's own parts are the reason. Finished
// keeps them as they were judged, for evidence is compared with those.
func (r *Run) Told() []Reason {
	if r.Finished == nil {
		return nil
	}
	var all []Reason
	way := "name production's own in drkit.yaml (regions[].canary, rehearsal.router); to try drkit out with its own: drkit drill run --demo"
	for _, x := range r.Finished.Reasons {
		if slices.ContainsFunc(all, func(told Reason) bool {
			return told.What == x.What && told.Status == x.Status && (x.Hint == "" || x.Hint == told.Hint)
		}) {
			continue
		}
		if x.Hint == "" && slices.ContainsFunc(r.Components, func(c Component) bool { return c.Substitute && x.What == c.ownPart() }) {
			x.Hint, way = way, "" // once will do
		}
		all = append(all, x)
	}
	return all
}

func late(r *Run) []Reason {
	rto, ok, _ := r.RTO()
	promised := r.Plan.Objectives.RTO
	if !ok || promised <= 0 || rto <= promised {
		return nil
	}
	return []Reason{reason(errext.ObjectiveMissed,
		fmt.Sprintf("recovered in %v, promised were %v", rto.Round(time.Millisecond), promised), "the report's clock table shows where the time went")}
}

// Verify refuses a journal whose end contradicts its events: a recovery beside a
// red gate, without proof, or without a proven clean-up. A run that has not ended
// is no contradiction.
func Verify(r *Run) error {
	if r.Finished == nil {
		return nil
	}
	want := Judge(r)
	if r.Finished.Verdict == want.Verdict && r.Finished.Status == want.Status {
		return nil
	}
	err := fmt.Errorf("the journal of run %s contradicts itself: it ends as %s (status %d), but its events say %s (status %d)",
		r.ID, r.Finished.Verdict, r.Finished.Status, want.Verdict, want.Status)
	for _, x := range want.Reasons {
		err = errors.Join(err, errors.New(x.What))
	}
	return errext.WithHint(errext.WithStatus(err, errext.Evidence), "the journal was changed or damaged: do not use it as evidence")
}
