package main

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"drkit/drill"
	"drkit/drill/approval"
	"drkit/drill/ledger"
	"drkit/internal/service"
	"drkit/internal/store"
	"drkit/internal/store/mem"
	"drkit/playbooks"
)

// silent is a store that answers nothing until nobody waits any more.
type silent struct{ *mem.Store }

func (silent) List(ctx context.Context, _ string) iter.Seq2[store.Object, error] {
	return func(yield func(store.Object, error) bool) {
		<-ctx.Done()
		yield(store.Object{}, context.Cause(ctx))
	}
}

func (silent) Stat(ctx context.Context, _ string) (store.Object, error) {
	<-ctx.Done()
	return store.Object{}, context.Cause(ctx)
}

// TestWithoutLedgerWaitsForItBriefly: a ledger that hangs holds an emergency that may go
// on without it for fifteen seconds, and the operator's own word still counts. One that
// may not waits for as long as its caller does.
func TestWithoutLedgerWaitsForItBriefly(t *testing.T) {
	for name, c := range map[string]struct {
		why  string
		want time.Duration
	}{"with --without-ledger": {"the region of the ledger is gone", 15 * time.Second}, "without": {"", time.Hour}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &drillPlan{svc: &service.Service{}, policy: approval.Policy{Required: 1}, playbook: playbooks.Playbook{Mode: playbooks.Emergency},
					o: drillOptions{liveOptions: liveOptions{Live: true, SelfApprove: "mei", WithoutLedger: c.why}}}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				start, began := drill.RunStarted{PlanHash: "abc"}, time.Now()
				d.addApprovals(ctx, ledger.NewChain(silent{mem.New()}, "s3://audit", nil), &start)
				if took := time.Since(began); took != c.want {
					t.Errorf("it waited %v, want %v", took, c.want)
				}
				if len(start.Approvals) != 1 || start.Approvals[0].Approver != "mei" || !start.Approvals[0].Self {
					t.Errorf("approvals %+v", start.Approvals)
				}
			})
		})
	}
}
