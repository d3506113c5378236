package evidence

import (
	"fmt"
	"strings"

	"drkit/drill"
)

// Control says what the run gives to somebody who tests a control, and what it does
// not. It never says that a control is met.
type Control struct {
	ID          string   `json:"id"`
	Supports    []string `json:"supports"`
	DoesNotShow []string `json:"does_not_show"`
}

// controls relates the run to texts that ask for such tests. What a run supports
// follows from its own results; a demonstration or a tabletop supports nothing.
func controls(e *Evidence) []Control {
	test, figures, integrity, returned := e.exercised(), e.times(), e.integrity(), e.back()
	found := []string{}
	if len(e.Findings) > 0 && e.real() {
		found = append(found, fmt.Sprintf("findings recorded for follow-up: %d", len(e.Findings)))
	}
	return []Control{
		{"DORA (EU) 2022/2554 Art. 11(6)", join(test), []string{"that tests are made at least yearly and after each substantive change: `drkit drill history` shows what was run",
			"the switchover of the institution as a whole, or of production traffic"}},
		{"DORA (EU) 2022/2554 Art. 12(3), 12(6), 12(7)", join(integrity, figures), []string{"recovery point objectives: a drill moves no data of users", "the segregation of the target's systems"}},
		{"RTS (EU) 2024/1774 Art. 25", join(test, returned, found), []string{"that the scenario follows from the business impact analysis", "that findings were addressed and reported to the management body",
			"operation for a sufficient period: only the steady windows were observed"}},
		{"SOC 2 A1.3", join(test, figures, integrity), []string{"the absence of key persons", "that the plan was revised afterwards"}},
		{"ISO 22301 8.5, ISO/IEC 27001 A.5.30", join(test, figures), []string{"a planned programme of exercises", "the recommendations and actions that people drew from it"}},
		{"FFIEC BCM VII.K", join(test, figures, found), []string{"participation of people as planned", "reports to the board"}},
	}
}

func join(lists ...[]string) []string {
	all := []string{}
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// real says that the run is one that an auditor may count: neither a demonstration
// nor a tabletop, and begun.
func (e *Evidence) real() bool {
	return (e.Kind == KindDrill || e.Kind == KindReal) && e.Outcome != nil && e.Outcome.Verdict != drill.Refused && e.Outcome.Verdict != drill.Aborted
}

func (e *Evidence) exercised() []string {
	if !e.real() {
		return nil
	}
	plan := drill.RunStarted{Mode: e.Mode, Source: e.Environment.SourceRegion, Target: e.Environment.TargetRegion}
	for _, s := range e.Steps {
		plan.Steps = append(plan.Steps, drill.StepPlan{Kind: s.Kind})
	}
	what := "a " + plan.Way()
	if plan.Way() == drill.ModeEmergency {
		what = "an " + plan.Way()
	}
	return []string{fmt.Sprintf("%s of %s from %s to %s, by a plan that was fixed before (SHA-256 %s), ended as %s",
		what, e.Service, plan.From(), plan.To(), e.Plan.SHA256, e.Outcome.Verdict)}
}

func (e *Evidence) times() []string {
	rto := e.Measured["rto"]
	if !e.real() || rto.Value == nil {
		return nil
	}
	return []string{fmt.Sprintf("a recovery time of %.1f s, measured against a promise of %.1f s", *rto.Value, e.Objectives.RTO)}
}

// integrity speaks of a copy only when the proof holds.
func (e *Evidence) integrity() []string {
	var all []string
	for _, p := range e.Proofs {
		if e.real() && p.Holds && (p.Name == drill.ProofCopy || p.Name == drill.ProofBehaviour) {
			all = append(all, fmt.Sprintf("%s: %s", p.Name, strings.TrimSpace(p.Why)))
		}
	}
	return all
}

func (e *Evidence) back() []string {
	if !e.real() || e.Failback.Result == nil || *e.Failback.Result != drill.Passed {
		return nil
	}
	return []string{"the return to the source was shown in the rehearsal"}
}
