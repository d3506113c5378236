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
func TakenBack(scan *ledger.Scan, id string, knows func(name, keyID string) bool) (ledger.Entry, bool) {
	for _, e := range scan.Entries {
		if e.Revoked == nil || e.Revoked.Statement.Approval != id {
			continue
		}
		if key, err := ProvenRevocation(*e.Revoked); err == nil && knows(e.Revoked.Statement.By, ID(key)) {
			return e, true
		}
	}
	return ledger.Entry{}, false
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
