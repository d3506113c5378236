package step

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"drkit/drill"
	"drkit/playbooks"
	"drkit/verify"
)

// TestPlanSaysUndoInWords: people who read a plan do not know the kinds of the journal.
func TestPlanSaysUndoInWords(t *testing.T) {
	kind := regexp.MustCompile(`\b(lock|files|router|edge|production|process|kubernetes|command)\.[a-z]+`)
	w := &World{Service: "support", Source: Region{Name: "us"}, Target: Region{Name: "eu"}}
	w.Production.Edge = &EdgeAt{}
	var target playbooks.Step
	if err := yaml.Unmarshal([]byte("{region: target}"), &target.With); err != nil {
		t.Fatal(err)
	}
	target.With = *target.With.Content[0]
	all := slices.Concat(w.plannedLive(&w.Source, &w.Target), preflight{w}.Plan(playbooks.Step{}), restoreStep{w}.Plan(target), []drill.PlannedChange{w.plannedMove(&w.Source, &w.Target)})
	if len(all) != 4 {
		t.Errorf("%d changes: %+v", len(all), all)
	}
	for _, c := range all {
		if found := kind.FindString(c.Undo); found != "" || c.Undo == "" {
			t.Errorf("%s: undo %q", c.What, c.Undo)
		}
	}
}

// TestGapsOfACopyReadAsSentences: file, verdict, why.
func TestGapsOfACopyReadAsSentences(t *testing.T) {
	res := verify.Result{Gaps: []verify.Gap{{Subject: "model/base/tokenizer.json", Verdict: verify.Missing, Why: "it is not there"}, {Subject: "x", Verdict: verify.Extra}}}
	if got := strings.Join(describe(res), "; "); got != "model/base/tokenizer.json missing: it is not there; x extra" {
		t.Error(got)
	}
}
