package approval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/crypto/ssh"

	"drkit/drill/ledger"
	"drkit/internal/errext"
)

// Revoke signs that an approval counts no more, and appends that to the ledger. Runs
// that counted it before are not touched by it.
func Revoke(ctx context.Context, chain *ledger.Chain, s ledger.Revocation, key ssh.Signer, by string) (ledger.Entry, error) {
	raw, err := s.Bytes()
	if err != nil {
		return ledger.Entry{}, err
	}
	signature, err := sign(raw, key)
	if err != nil {
		return ledger.Entry{}, errext.WithStatus(fmt.Errorf("signing the revocation: %w", err), errext.Evidence)
	}
	return PutRevocation(ctx, chain, s, signature, by)
}

// PutRevocation appends a revocation that was signed elsewhere, as Put does with approvals.
func PutRevocation(ctx context.Context, chain *ledger.Chain, s ledger.Revocation, signature, by string) (ledger.Entry, error) {
	key, err := keyOf(signature)
	if err != nil {
		return ledger.Entry{}, err
	}
	r := ledger.Revoked{Statement: s, Key: key, Signature: signature}
	if _, err := ProvenRevocation(r); err != nil {
		return ledger.Entry{}, err
	}
	return chain.Append(ctx, ledger.Record{Kind: ledger.KindRevoked, Run: s.Run, At: time.Now(), By: by, Revoked: &r})
}

// CheckRevocation says what is wrong with a revocation before it is signed.
func CheckRevocation(s ledger.Revocation) error {
	if s.By == "" {
		return usage(errors.New("the revocation names nobody"), "name yourself as approvals.keys of drkit.yaml does")
	}
	return nil
}

// ProvenRevocation verifies a revocation's signature and returns the key that made it.
// That the key may revoke only a Policy can say.
func ProvenRevocation(r ledger.Revoked) (ssh.PublicKey, error) {
	message, err := r.Statement.Bytes()
	if err != nil {
		return nil, err
	}
	return proven(message, r.Key, r.Signature)
}

// TakenBack is the first record that takes an approval back under a name and key that
// the caller knows. Whoever can write to the ledger can append others: they take
// nothing back.
func TakenBack(scan *ledger.Scan, e ledger.Entry, knows func(name, keyID string) bool) (ledger.Entry, bool) {
	for _, back := range scan.Entries {
		if back.Revoked == nil || !meant(scan, back, e) {
			continue
		}
		if key, err := ProvenRevocation(*back.Revoked); err == nil && knows(back.Revoked.Statement.By, ID(key)) {
			return back, true
		}
	}
	return ledger.Entry{}, false
}

// Meant are the approvals that a revocation takes back, by their records: the one that it
// names, and every other that the same person gave before it for the same plan and run.
func Meant(scan *ledger.Scan, back ledger.Entry) (all []ledger.Entry) {
	for _, e := range scan.Entries {
		if e.Approved != nil && meant(scan, back, e) {
			all = append(all, e)
		}
	}
	return all
}

// meant says that a revocation takes an approval back. Whoever takes one back takes back
// the person's word on the plan: a duplicate that counted nothing must not count now in its place.
// The statement that it names counts nothing later either, when it is replayed.
func meant(scan *ledger.Scan, back, e ledger.Entry) bool {
	id, st := back.Revoked.Statement.Approval, e.Approved.Statement
	if st.ID == id {
		return true
	}
	i := slices.IndexFunc(scan.Entries, func(x ledger.Entry) bool { return x.Approved != nil && x.Approved.Statement.ID == id })
	return i >= 0 && e.Seq < back.Seq && sameWord(scan.Entries[i].Approved.Statement, st)
}

// sameWord says that two approvals are one person's, and may be meant for one run.
func sameWord(a, b ledger.Statement) bool {
	return a.Approver == b.Approver && a.PlanHash == b.PlanHash && (a.Run == b.Run || a.Run == "" || b.Run == "")
}

// Against says what the ledger by itself holds against an approval of a run: it was given
// in another ledger, it is an earlier record again, it came after the run without naming it, or an earlier run took
// it. "" when nothing does.
func Against(scan *ledger.Scan, e ledger.Entry, run string) string {
	st := e.Approved.Statement
	if why := elsewhere(scan, e); why != "" {
		return why
	}
	for _, old := range scan.Entries {
		if old.Seq < e.Seq && old.Approved != nil && old.Approved.Statement.ID == st.ID {
			return fmt.Sprintf("it is record %d again: replayed", old.Seq)
		}
	}
	if st.Run != "" {
		return ""
	}
	return spentBy(scan, st.PlanHash, run, e.Seq)
}

// elsewhere says that an approval was given in another ledger: the record that was its
// newest then does not stand before it here.
func elsewhere(scan *ledger.Scan, e ledger.Entry) string {
	after := e.Approved.Statement.After
	if after == "" || slices.ContainsFunc(scan.Entries, func(x ledger.Entry) bool { return x.Seq < e.Seq && x.SHA256 == after }) {
		return ""
	}
	return fmt.Sprintf("it was given in another ledger, after a record (%.12s) that this one does not have", after)
}

// Dated says what the times of an approval hold against its being counted at a moment;
// late is how long after the weighing that moment may lie.
func Dated(st ledger.Statement, counted time.Time, late time.Duration) string {
	switch {
	case st.At.After(counted.Add(ahead)):
		return "it is dated " + st.At.UTC().Format(time.RFC3339) + ", which is not yet"
	case st.Expires.Sub(st.At) > Longest:
		return fmt.Sprintf("it was given for longer than %v", Longest)
	case !counted.Add(-late).Before(st.Expires):
		return "it expired at " + st.Expires.UTC().Format(time.RFC3339)
	}
	return ""
}
