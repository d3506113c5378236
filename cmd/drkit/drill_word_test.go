package main

import (
	"testing"

	"drkit/drill"
	"drkit/drill/approval"
	"drkit/playbooks"
)

// TestTheScreensApproval counts in an emergency alone, labelled as the operator's own
// word that nothing authenticates, and only once it was given.
func TestTheScreensApproval(t *testing.T) {
	for _, c := range []struct {
		mode  string
		given bool
		want  bool
	}{{playbooks.Emergency, false, false}, {playbooks.Emergency, true, true}, {playbooks.Planned, true, false}} {
		d := &drillPlan{playbook: playbooks.Playbook{Mode: c.mode}, policy: approval.Policy{Required: 2}, word: &keyWord{}}
		if c.given {
			d.word.give("ana@ops-1")
			d.word.give("somebody else, later")
		}
		got, err := d.tally(nil, "hash")(t.Context(), "RUN")
		if err != nil || got.Enough() != c.want {
			t.Errorf("%s, given %v: enough is %v (%v), want %v", c.mode, c.given, got.Enough(), err, c.want)
		}
		if !c.want {
			continue
		}
		a := got.Valid[0]
		if len(got.Valid) != 1 || a.Approver != "ana@ops-1" || !a.Self || a.Method != drill.MethodTyped || a.At.IsZero() {
			t.Errorf("the approval is %+v", got.Valid)
		}
	}
}
