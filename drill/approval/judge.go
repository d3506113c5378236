package approval

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"drkit/drill"
	"drkit/drill/ledger"
)

// Person may approve.
type Person struct {
	Name string
	User string // account under which this person runs drkit
	Key  ssh.PublicKey
}

// Policy says who may approve and how many must.
type Policy struct {
	Required int  // different people; at least 1
	Self     bool // the operator's own approval counts, labelled
	People   []Person
}

// Knows says that a key is the person's.
func (p Policy) Knows(name, keyID string) bool {
	return slices.ContainsFunc(p.People, func(x Person) bool { return x.Name == name && ID(x.Key) == keyID })
}

// Consent is the policy as a run's journal keeps it.
func (p Policy) Consent() *drill.Consent {
	c := &drill.Consent{Required: max(p.Required, 1), Self: p.Self}
	for _, x := range p.People {
		c.People = append(c.People, drill.MayApprove{Name: x.Name, KeyID: ID(x.Key)})
	}
	return c
}

// Subject is the run that asks. Run is "" before it is opened in the ledger.
type Subject struct {
	Service, PlanHash, Run string
	By                     string // user@host of the operator
	Now                    time.Time
}

// Tally is what the ledger's approvals are worth for one run. Void ones name why
// in Why.
type Tally struct {
	Required    int
	Valid, Void []drill.Approval
}

// Enough says that as many people approved as must.
func (t Tally) Enough() bool { return len(t.Valid) >= max(t.Required, 1) }

// Judge weighs every approval of the ledger that could be meant for a run: those of
// its plan, and those that name the run.
func Judge(scan *ledger.Scan, p Policy, s Subject) Tally {
	t := Tally{Required: max(p.Required, 1)}
	seen, people := map[string]uint64{}, map[string]uint64{}
	for _, e := range scan.Entries {
		if e.Approved == nil || e.Approved.Statement.PlanHash != s.PlanHash && (s.Run == "" || e.Approved.Statement.Run != s.Run) {
			continue
		}
		a, why := weigh(scan, p, s, e)
		id := e.Approved.Statement.ID
		switch {
		case why != "":
		case seen[id] != 0:
			why = fmt.Sprintf("it is record %d again: replayed", seen[id])
		case people[a.Approver] != 0:
			why = fmt.Sprintf("%s approved already, in record %d", a.Approver, people[a.Approver])
		}
		if seen[id] == 0 {
			seen[id] = e.Seq
		}
		if a.Why = why; why != "" {
			t.Void = append(t.Void, a)
			continue
		}
		people[a.Approver] = e.Seq
		t.Valid = append(t.Valid, a)
	}
	return t
}

// ahead is how far another machine's clock may go ahead of this one.
const ahead = 5 * time.Minute

// OwnRefused is why the operator's own approval counts nothing.
const OwnRefused = "it is the operator's own, and approvals.self refuses those"

// weigh judges one approval by itself; why is "" when it counts.
func weigh(scan *ledger.Scan, p Policy, s Subject, e ledger.Entry) (a drill.Approval, why string) {
	st := e.Approved.Statement
	a = drill.Approval{ID: st.ID, Approver: st.Approver, ChangeRef: st.ChangeRef, At: st.At, Expires: st.Expires, Self: st.Self, Record: e.Seq, SHA256: e.SHA256, AsOf: scan.Head().Seq}
	key, err := Proven(*e.Approved)
	if err != nil {
		return a, err.Error()
	}
	a.Method, a.KeyID = key.Type(), ID(key)
	i := slices.IndexFunc(p.People, func(x Person) bool { return bytes.Equal(x.Key.Marshal(), key.Marshal()) })
	if i < 0 {
		return a, "drkit.yaml does not know its key " + a.KeyID
	}
	if back, ok := TakenBack(scan, e, p.Knows); ok {
		return a, fmt.Sprintf("%s took it back, in record %d", back.Revoked.Statement.By, back.Seq)
	}
	who := p.People[i]
	a.Self = a.Self || isSelf(who, e.By, s.By)
	switch {
	case who.Name != st.Approver:
		return a, fmt.Sprintf("it is of %s, and signed with the key of %s", st.Approver, who.Name)
	case st.Service != s.Service:
		return a, "it is of service " + st.Service
	case st.PlanHash != s.PlanHash:
		return a, fmt.Sprintf("it approves another plan (%.12s)", st.PlanHash)
	case elsewhere(scan, e) != "":
		return a, elsewhere(scan, e)
	case Dated(st, s.Now, 0) != "":
		return a, Dated(st, s.Now, 0)
	case !latest(scan, st).Add(-ahead).Before(st.Expires):
		return a, fmt.Sprintf("it expired at %s, and the ledger has a run of %s since: this machine's clock is behind, or that run's was ahead", st.Expires.UTC().Format(time.RFC3339), latest(scan, st).UTC().Format(time.RFC3339))
	case st.Run != "" && st.Run != s.Run:
		return a, "it is for run " + st.Run
	case st.Run == "" && spentBy(scan, s.PlanHash, s.Run, e.Seq) != "":
		return a, spentBy(scan, s.PlanHash, s.Run, e.Seq)
	case a.Self && !p.Self:
		return a, OwnRefused
	}
	return a, ""
}

// latest is the latest moment at which a run began or ended since an approval was given: it
// does not live longer because the clock of the machine that asks was set back. What the
// ledger held before says nothing of that: one run that was dated ahead would keep every
// later approval from counting, for as long as it is ahead.
func latest(scan *ledger.Scan, st ledger.Statement) (at time.Time) {
	given := slices.IndexFunc(scan.Entries, func(e ledger.Entry) bool { return st.After != "" && e.SHA256 == st.After })
	for _, e := range scan.Entries[given+1:] {
		if (e.Opened != nil || e.Closed != nil) && e.At.After(at) {
			at = e.At
		}
	}
	return at
}

// isSelf tells an approval of one's own run: the key is the operator's, or it was
// given from the operator's account.
func isSelf(who Person, approvedBy, operator string) bool {
	user := Account(operator)
	return user != "" && (who.User == user || Account(approvedBy) == user)
}

// Account is the user of a user@host.
func Account(by string) string {
	user, _, _ := strings.Cut(by, "@")
	return user
}

// spentBy says which run took an approval that names none: the first one that was
// opened with the plan after it, unless that was refused before it changed anything.
// It is "" when the approval is the asking run's, or still free.
func spentBy(scan *ledger.Scan, plan, run string, seq uint64) string {
	for _, e := range scan.Entries {
		if e.Opened == nil || e.Opened.PlanHash != plan {
			continue
		}
		switch {
		case e.Run == run && e.Seq < seq:
			return "it was given after the run began, and does not name it"
		case e.Run == run:
			return ""
		case e.Seq > seq && !refused(scan, e.Run):
			return "run " + e.Run + " took it"
		}
	}
	return ""
}

// TakenBy is the run that an approval went to: the one that it names, once that is in
// the ledger, or else the first that was opened with its plan after it and not refused.
// "" when none did yet.
func TakenBy(scan *ledger.Scan, e ledger.Entry) string {
	st := e.Approved.Statement
	for _, o := range scan.Entries {
		if o.Opened == nil {
			continue
		}
		if o.Run == st.Run || st.Run == "" && o.Seq > e.Seq && o.Opened.PlanHash == st.PlanHash && !refused(scan, o.Run) {
			return o.Run
		}
	}
	return ""
}

func refused(scan *ledger.Scan, run string) bool {
	all := scan.Of(run)
	last := all[len(all)-1]
	return last.Closed != nil && last.Closed.Verdict == drill.Refused
}
