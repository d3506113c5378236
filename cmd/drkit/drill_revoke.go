package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"golang.org/x/crypto/ssh"

	"drkit/drill/approval"
	"drkit/drill/ledger"
	"drkit/internal/service"
)

// revoke takes an approval back: drill approve --revoke.
func (o *approveOptions) revoke(ctx context.Context, s *streams, chain *ledger.Chain, svc *service.Service, p approval.Policy, signer ssh.Signer) error {
	who, err := o.approver(svc, p, signer)
	if err != nil {
		return err
	}
	scan, err := soundLedger(ctx, chain)
	if err != nil {
		return err
	}
	e, err := o.revocable(scan, svc, p)
	if err != nil {
		return err
	}
	was, at := e.Approved.Statement, now().UTC().Truncate(time.Second)
	st := ledger.Revocation{Schema: ledger.RevocationSchema, ID: ledger.NewID(at), Service: was.Service, PlanHash: was.PlanHash, Run: was.Run,
		Approval: was.ID, By: who.Name, Reason: o.Reason, At: at}
	if signer == nil {
		return o.writeStatement(s, "taken back", st)
	}
	back, err := approval.Revoke(ctx, chain, st, signer, operator())
	if err != nil {
		return err
	}
	return o.tellRevoked(ctx, s, chain, p, back, e, scan)
}

// revocable finds the approval that is meant, by its id or its record. One that a run
// has used up is refused: its revocation would read as if it changed something.
func (o *approveOptions) revocable(scan *ledger.Scan, svc *service.Service, p approval.Policy) (ledger.Entry, error) {
	i := slices.IndexFunc(scan.Entries, func(e ledger.Entry) bool {
		return e.Approved != nil && (e.Approved.Statement.ID == o.Revoke || strconv.FormatUint(e.Seq, 10) == o.Revoke)
	})
	if i < 0 {
		return ledger.Entry{}, usage(fmt.Errorf("the ledger %s has no approval %q", scan.Location, o.Revoke), "give the id or the record that drkit drill approve printed, and the ledger that it is in with --ledger")
	}
	e := scan.Entries[i]
	st := e.Approved.Statement
	if st.Service != svc.Metadata.Name {
		return e, usage(fmt.Errorf("approval %s is of service %s, and %s describes %s", st.ID, st.Service, svc.File, svc.Metadata.Name), "name the other service's drkit.yaml with -f")
	}
	if back, ok := approval.TakenBack(scan, e, p.Knows); ok {
		return e, refused(fmt.Errorf("%s took the approval by %s back already, in record %d", back.Revoked.Statement.By, st.Approver, back.Seq), "nothing is left to do")
	}
	if run := approval.TakenBy(scan, e); run != "" && ended(scan, run) {
		return e, refused(fmt.Errorf("run %s was opened with the approval by %s and has ended: to take it back now changes nothing, and nothing was written", run, st.Approver), "drkit drill run --playbook failback --live moves traffic back, under an approval of its own")
	}
	return e, nil
}

func ended(scan *ledger.Scan, run string) bool {
	all := scan.Of(run)
	return len(all) > 0 && all[len(all)-1].Closed != nil
}

// putRevocation takes a revocation that was signed elsewhere.
func (o *approveOptions) putRevocation(ctx context.Context, s *streams, chain *ledger.Chain, svc *service.Service, p approval.Policy, raw []byte, signature string) error {
	st, err := signedElsewhere[ledger.Revocation](raw, o.Statement)
	if err != nil {
		return err
	}
	if _, err := o.named(svc, p, st.By); err != nil {
		return err
	}
	scan, err := soundLedger(ctx, chain)
	if err != nil {
		return err
	}
	o.Revoke = st.Approval
	e, err := o.revocable(scan, svc, p)
	if err != nil {
		return err
	}
	back, err := approval.PutRevocation(ctx, chain, st, signature, operator())
	if err != nil {
		return err
	}
	return o.tellRevoked(ctx, s, chain, p, back, e, scan)
}

// tellRevoked says what is taken back, how many approvals are left, and which run may
// have counted it already.
func (o *approveOptions) tellRevoked(ctx context.Context, s *streams, chain *ledger.Chain, p approval.Policy, back, e ledger.Entry, before *ledger.Scan) error {
	var taken []uint64
	for _, x := range approval.Meant(before, back) {
		taken = append(taken, x.Seq)
	}
	if err := o.printRevoked(s, chain, back, e, taken); err != nil {
		return err
	}
	run := approval.TakenBy(before, e)
	scan, err := soundLedger(ctx, chain)
	if err == nil {
		t, _ := tallyOf(scan, p, e.Approved.Statement, run)
		fmt.Fprintf(s.Err, "the plan has %d of %d approvals\n", len(t.Valid), t.Required)
	}
	tellTaken(s.Err, run)
	return err
}

func (o *approveOptions) printRevoked(s *streams, chain *ledger.Chain, back, e ledger.Entry, taken []uint64) error {
	st, was := back.Revoked.Statement, e.Approved.Statement
	if o.json() {
		return writeJSON(s, signedRecord[ledger.Revocation]{Schema: "drkit.revocation-record/1.0", Ledger: chain.Location(), Record: back.Seq, SHA256: back.SHA256, Statement: st, Taken: taken})
	}
	also := ""
	for _, seq := range taken {
		if seq != e.Seq {
			also += fmt.Sprintf("with it: what %s approved of the same plan in record %d\n", was.Approver, seq)
		}
	}
	_, err := fmt.Fprintf(s.Out, "taken back by %s: the approval by %s in record %d (plan %s)\n%srecord %d of the ledger %s\n", st.By, was.Approver, e.Seq, was.PlanHash, also, back.Seq, chain.Location())
	return err
}

func tellTaken(w io.Writer, run string) {
	if run != "" {
		fmt.Fprintf(w, "drkit: note: run %s is open with it: what it has counted already stays; where it ran, drkit drill abort %s takes back what it changed\n", run, run)
	}
}
