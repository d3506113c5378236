// Package approval makes and judges a person's word on a plan: a statement that
// names the plan's hash, signed with a key that drkit.yaml knows, kept in the
// ledger so that it can be given on another machine than the one that runs.
//
//	entry, err := approval.Give(ctx, chain, statement, signer, by) // the approver
//	tally := approval.Judge(scan, policy, subject)                 // the run
//	if tally.Enough() { … }
//
// Signatures are those of ssh-keygen -Y (SSHSIG), whatever the key's file looks
// like, so that `ssh-keygen -Y verify` proves them without drkit and keys in an
// agent or a token can sign.
package approval

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/crypto/ssh"

	"drkit/drill/ledger"
	"drkit/internal/errext"
)

// Longest is how long an approval may hold.
const Longest = 30 * 24 * time.Hour

// Give signs a statement and appends it to the ledger. By is user@host, as the
// machine says; it takes part in telling a self-approval.
func Give(ctx context.Context, chain *ledger.Chain, s ledger.Statement, key ssh.Signer, by string) (ledger.Entry, error) {
	raw, err := s.Bytes()
	if err != nil {
		return ledger.Entry{}, err
	}
	signature, err := sign(raw, key)
	if err != nil {
		return ledger.Entry{}, errext.WithStatus(fmt.Errorf("signing the approval: %w", err), errext.Evidence)
	}
	return Put(ctx, chain, s, signature, by)
}

// Put appends a statement that was signed elsewhere, by `ssh-keygen -Y sign -n
// drkit-approval`, to the ledger.
func Put(ctx context.Context, chain *ledger.Chain, s ledger.Statement, signature, by string) (ledger.Entry, error) {
	key, err := keyOf(signature)
	if err != nil {
		return ledger.Entry{}, err
	}
	a := ledger.Approved{Statement: s, Key: key, Signature: signature}
	if _, err := Proven(a); err != nil {
		return ledger.Entry{}, err
	}
	return chain.Append(ctx, ledger.Record{Kind: ledger.KindApproved, Run: s.Run, At: time.Now(), By: by, Approved: &a})
}

// Check says what is wrong with a statement before it is signed.
func Check(s ledger.Statement) error {
	switch d := s.Expires.Sub(s.At); {
	case s.Approver == "":
		return usage(errors.New("the approval has no approver"), "name yourself as approvals.keys of drkit.yaml does")
	case len(s.PlanHash) != 64:
		return usage(fmt.Errorf("%q is no hash of a plan", s.PlanHash), "`drkit drill plan` prints the 64 digits; a run's id is taken too")
	case d <= 0 || d > Longest:
		return usage(fmt.Errorf("an approval for %v is of no use", d), "give --expires between 1m and 720h")
	}
	return nil
}

func usage(err error, hint string) error {
	return errext.WithHint(errext.WithStatus(err, errext.Usage), hint)
}
