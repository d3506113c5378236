package main

import (
	"context"
	"strings"
	"testing"

	"drkit/drill"
	"drkit/drill/approval"
	"drkit/internal/service"
	"drkit/playbooks"
)

// TestApprovedIsJudgedAgain: an approval that counted before the run was in the ledger,
// and that another run took meanwhile, moves nothing.
func TestApprovedIsJudgedAgain(t *testing.T) {
	before := drill.RunStarted{PlanHash: "abc", Approvals: []drill.Approval{{Approver: "mei", Record: 4}}}
	taken := drill.Approval{Approver: "mei", Record: 4, Why: "run R9 took it"}
	d := &drillPlan{svc: &service.Service{}, policy: approval.Policy{Required: 1},
		playbook: playbooks.Playbook{Mode: playbooks.Planned, Steps: []playbooks.Step{{ID: "cutover", Kind: "cutover"}}}}
	if found := d.approved(t.Context(), before); len(found) != 0 {
		t.Errorf("what counted: %v", found)
	}
	d.weigh = func(context.Context, string) (approval.Tally, error) {
		return approval.Tally{Required: 1, Void: []drill.Approval{taken}}, nil
	}
	if found := d.approved(t.Context(), before); len(found) != 1 || !strings.Contains(found[0].Error(), "0 of 1 approvals") || !strings.Contains(found[0].Error(), "run R9 took it") {
		t.Errorf("what another run took: %v", found)
	}
}
