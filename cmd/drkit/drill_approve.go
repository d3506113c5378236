package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"

	"drkit/drill"
	"drkit/drill/approval"
	"drkit/drill/ledger"
	"drkit/internal/errext"
	"drkit/internal/service"
)

// approveOptions are those of drill approve.
type approveOptions struct {
	serviceOption
	outputOption
	ledgerOption
	What                 string // hash of a plan, or a run
	Key, PasswordEnv     string
	ChangeRef            string
	Expires              time.Duration
	As                   string
	StatementOut         string
	Revoke, Reason       string // id or record of an approval that is taken back, and why
	Statement, Signature string
}

func newDrillApprove(s *streams, run func(context.Context, *streams, approveOptions) error) *cobra.Command {
	var o approveOptions
	c := &cobra.Command{
		Use:   "approve [HASH|RUN]",
		Short: "Approve a live run's plan, from any machine that reaches the ledger",
		Long: `Signs a statement that names the hash of a plan (drkit drill plan prints it) and
appends it to the ledger. It counts for the run that it names, or else for the first
run that begins with that plan after it; never twice, never after its expiry, and only
when approvals.keys of the run's drkit.yaml has the key. That of the person who starts
the run counts nothing, unless approvals.self allows it: it is recorded, and the first
line says so. A second one by a person whose first one stands is refused (status 3), as
is a statement that the ledger has. Without an argument it takes the only run of the
ledger that waits.

The key is a file of ssh's own form or PEM. A key in an agent or a token signs with
ssh-keygen: --statement-out writes what is to be signed, --statement and --signature
take it back.

--revoke ID takes an approval back, signed by the same key or by another one of
approvals.keys, and with it all that its person approved of the same plan before. They
count nothing from then on. What a run has counted before stays, and
the command says so; with a run that has ended it writes nothing (status 3).`,
		Example: `  drkit drill approve 3f0c…  --key ~/.ssh/id_ed25519 --change-ref CHG-7
  drkit drill approve RUN --as mei --statement-out approval.txt
  ssh-keygen -Y sign -n drkit-approval -f id_ed25519_sk approval.txt
  drkit drill approve --statement approval.txt --signature approval.txt.sig
  drkit drill approve --revoke 01JD0Z0000APPR0000000000A --key ~/.ssh/id_ed25519 --reason "wrong release"`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.What = args[0]
			}
			return run(c.Context(), s, o)
		},
	}
	o.serviceOption.addFlags(c)
	o.outputOption.addFlags(c)
	f := c.Flags()
	f.StringVar(&o.Ledger, "ledger", "", "ledger of the runs, a folder or a bucket (default: run.ledger of drkit.yaml)")
	f.StringVar(&o.Key, "key", "", "file with your private key (OpenSSH or PEM)")
	f.StringVar(&o.PasswordEnv, "password-env", "", "environment variable with the password of an encrypted key")
	f.StringVar(&o.As, "as", "", "your name in approvals.keys (default: the one whose key it is)")
	f.StringVar(&o.ChangeRef, "change-ref", "", "the ticket of the change that you approve")
	f.DurationVar(&o.Expires, "expires", 24*time.Hour, "how long the approval holds, at most 720h")
	f.StringVar(&o.StatementOut, "statement-out", "", "write what is to be signed to this file, and approve nothing yet")
	f.StringVar(&o.Statement, "statement", "", "file that --statement-out wrote")
	f.StringVar(&o.Signature, "signature", "", "file with its signature, of ssh-keygen -Y sign -n "+approval.Namespace)
	f.StringVar(&o.Revoke, "revoke", "", "take back the approval with this id or record; it counts nothing from then on")
	f.StringVar(&o.Reason, "reason", "", "with --revoke: why")
	return c
}

func runDrillApprove(ctx context.Context, s *streams, o approveOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	svc, err := o.load()
	if err != nil {
		return err
	}
	policy, err := policyOf(svc)
	if err != nil {
		return err
	}
	chain, err := o.ledgerOption.chain(s, o.File, svc.Run.Dir.Path)
	if err != nil {
		return err
	}
	if o.Statement != "" {
		return o.put(ctx, s, chain, svc, policy)
	}
	var signer ssh.Signer
	if o.Key != "" {
		if signer, err = o.signer(s); err != nil {
			return err
		}
	}
	if o.Revoke != "" {
		return o.revoke(ctx, s, chain, svc, policy, signer)
	}
	st, err := o.statement(ctx, s, chain, svc, policy, signer)
	if err != nil {
		return err
	}
	if signer == nil {
		return o.writeStatement(s, "approved", st)
	}
	e, err := approval.Give(ctx, chain, st, signer, operator())
	if err != nil {
		return err
	}
	return o.tell(ctx, s, chain, policy, e)
}

func (o *approveOptions) check() error {
	if err := o.outputOption.check(); err != nil {
		return err
	}
	ways := 0
	for _, given := range []bool{o.Key != "", o.StatementOut != "", o.Statement != ""} {
		if given {
			ways++
		}
	}
	switch {
	case ways != 1:
		return usage(errors.New("an approval needs a signature"), "give --key FILE, or --statement-out FILE and later --statement FILE --signature FILE")
	case o.Revoke != "" && (o.What != "" || o.Statement != ""):
		return usage(errors.New("--revoke names the approval"), "leave the hash or run, and --statement, away")
	case o.Reason != "" && o.Revoke == "":
		return usage(errors.New("--reason is for --revoke"), "an approval has --change-ref")
	case (o.Statement != "") != (o.Signature != ""):
		return usage(errors.New("--statement and --signature belong together"), "give both")
	case o.Statement != "" && o.What != "":
		return usage(errors.New("--statement says what is approved"), "leave the hash or run away")
	case o.StatementOut != "" && o.As == "":
		return usage(errors.New("--statement-out cannot tell who you are"), "give --as with your name in approvals.keys")
	}
	return nil
}

// policyOf reads the keys that drkit.yaml names.
func policyOf(svc *service.Service) (approval.Policy, error) {
	p := approval.Policy{Required: svc.Approvals.Required, Self: svc.Approvals.Self == "allowed"}
	var errs []error
	for i, a := range svc.Approvals.Keys {
		text := []byte(a.Key)
		var err error
		if !a.Inline() {
			text, err = readFile(svc.Abs(a.Key))
		}
		var key ssh.PublicKey
		if err == nil {
			key, err = approval.PublicKey(text)
		}
		if err != nil {
			errs = append(errs, usage(fmt.Errorf("%s: approvals.keys[%d].key of %s: %w", svc.File, i, a.Name, err), errext.Hint(err)))
			continue
		}
		if j := slices.IndexFunc(p.People, func(x approval.Person) bool { return bytes.Equal(x.Key.Marshal(), key.Marshal()) }); j >= 0 {
			errs = append(errs, usage(fmt.Errorf("%s: approvals.keys[%d]: %s and %s have the same key", svc.File, i, p.People[j].Name, a.Name), "two approvals of one key are one person's"))
			continue
		}
		p.People = append(p.People, approval.Person{Name: a.Name, User: a.User, Key: key})
	}
	return p, errors.Join(errs...)
}

func (o *approveOptions) signer(s *streams) (ssh.Signer, error) {
	text, err := readNamed("the private key", o.Key, "name the file with --key")
	if err != nil {
		return nil, err
	}
	var password []byte
	if o.PasswordEnv != "" {
		if password = []byte(s.Getenv(o.PasswordEnv)); len(password) == 0 {
			return nil, usage(fmt.Errorf("%s is not set", o.PasswordEnv), "--password-env names the variable that holds the password")
		}
	}
	key, err := approval.PrivateKey(text, password)
	if err != nil {
		return nil, usage(fmt.Errorf("reading the private key %s: %w", o.Key, err), errext.Hint(err))
	}
	return key, nil
}

// statement is what will be signed.
func (o *approveOptions) statement(ctx context.Context, s *streams, chain *ledger.Chain, svc *service.Service, p approval.Policy, signer ssh.Signer) (ledger.Statement, error) {
	who, err := o.approver(svc, p, signer)
	if err != nil {
		return ledger.Statement{}, err
	}
	scan, err := soundLedger(ctx, chain)
	if err != nil {
		return ledger.Statement{}, err
	}
	hash, run, err := o.subject(scan, svc)
	if err != nil {
		return ledger.Statement{}, err
	}
	at := now().UTC().Truncate(time.Second)
	st := ledger.Statement{Schema: ledger.StatementSchema, ID: ledger.NewID(at), Service: svc.Metadata.Name, PlanHash: hash, Run: run,
		Approver: who.Name, ChangeRef: o.ChangeRef, At: at, Expires: at.Add(o.Expires)}
	if head := scan.Head(); head != nil {
		st.After = head.SHA256
	}
	if run != "" {
		st.Self = who.User == approval.Account(scan.Of(run)[0].By) || approval.Account(operator()) == approval.Account(scan.Of(run)[0].By)
	}
	if st.Self && !p.Self && signer == nil {
		fmt.Fprintf(s.Err, "drkit: note: run %s is your own, and approvals.self refuses such approvals: it will count nothing\n", run)
	}
	if err := approval.Check(st); err != nil {
		return st, err
	}
	return st, unheard(scan, p, st)
}

// unheard refuses what would be in the ledger for nothing: a statement that is there
// already, and another approval by a person whose first one stands.
func unheard(scan *ledger.Scan, p approval.Policy, st ledger.Statement) error {
	for _, e := range scan.Entries {
		if e.Approved != nil && e.Approved.Statement.ID == st.ID {
			return refused(fmt.Errorf("this statement by %s is in the ledger already, as record %d: it counts once, and nothing was written", st.Approver, e.Seq), "drkit drill approve makes a new one, which is signed anew")
		}
	}
	t, _ := tallyOf(scan, p, st, st.Run)
	for _, a := range t.Valid {
		if a.Approver == st.Approver {
			return refused(fmt.Errorf("%s approved already, in record %d, which stands until %s: one person counts once, and nothing was written", a.Approver, a.Record, a.Expires.UTC().Format(time.RFC3339)),
				"another person approves; to give another one, take that one back first: drkit drill approve --revoke "+a.ID+" --key KEY")
		}
	}
	return nil
}

// approver is who approves: the person whose key it is.
func (o *approveOptions) approver(svc *service.Service, p approval.Policy, signer ssh.Signer) (approval.Person, error) {
	if signer == nil {
		return o.named(svc, p, o.As)
	}
	for _, x := range p.People {
		if bytes.Equal(x.Key.Marshal(), signer.PublicKey().Marshal()) && (o.As == "" || o.As == x.Name) {
			return x, nil
		}
	}
	return approval.Person{}, unknownApprover(fmt.Errorf("approvals.keys of %s has no key %s%s", svc.File, approval.ID(signer.PublicKey()), as(o.As)))
}

func (o *approveOptions) named(svc *service.Service, p approval.Policy, name string) (approval.Person, error) {
	i := slices.IndexFunc(p.People, func(x approval.Person) bool { return x.Name == name })
	if i < 0 {
		return approval.Person{}, unknownApprover(fmt.Errorf("approvals.keys of %s has no %q", svc.File, name))
	}
	return p.People[i], nil
}

func unknownApprover(err error) error {
	return refused(err, "the word of a key that the run does not know counts nothing: add the public key there first")
}

func as(name string) string {
	if name == "" {
		return ""
	}
	return " for " + name
}

// soundLedger reads the ledger; one that was changed approves nothing.
func soundLedger(ctx context.Context, chain *ledger.Chain) (*ledger.Scan, error) {
	scan, err := chain.Scan(ctx)
	if err != nil {
		return nil, err
	}
	if len(scan.Faults) > 0 {
		return nil, errext.WithHint(errext.WithStatus(fmt.Errorf("the ledger %s does not hold: %s: %s", chain.Location(), scan.Faults[0].Where, scan.Faults[0].What), errext.Evidence),
			"drkit drill verify-evidence says all that does not hold")
	}
	return scan, nil
}

// subject finds the plan and, where there is one, the run that is approved.
func (o *approveOptions) subject(scan *ledger.Scan, svc *service.Service) (hash, run string, err error) {
	var open []ledger.Entry
	for _, id := range scan.Runs() {
		records := scan.Of(id)
		first, last := records[0], records[len(records)-1]
		if first.Opened != nil && first.Opened.Service == svc.Metadata.Name && last.Closed == nil && (o.What == "" || o.What == id || o.What == first.Opened.PlanHash) {
			open = append(open, first)
		}
	}
	_, noID := ulid.ParseStrict(o.What)
	switch {
	case len(open) == 1:
		return open[0].Opened.PlanHash, open[0].Run, nil
	case len(open) > 1:
		return "", "", usage(fmt.Errorf("%d runs of the ledger are open", len(open)), "name one: "+idsOf(open))
	case o.What == "":
		return "", "", usage(fmt.Errorf("no run of %s in the ledger %s waits", svc.Metadata.Name, scan.Location), "give the hash of a plan: drkit drill plan prints it")
	case noID == nil:
		return "", "", usage(fmt.Errorf("run %s is not open in the ledger %s", o.What, scan.Location), "give the ledger that the run writes to with --ledger, or the hash of its plan")
	}
	return strings.TrimPrefix(o.What, "sha256:"), "", nil
}

func idsOf(all []ledger.Entry) string {
	var ids []string
	for _, e := range all {
		ids = append(ids, e.Run)
	}
	return strings.Join(ids, ", ")
}

// writeStatement writes what is to be signed; what is the word for it, and is not yet.
func (o *approveOptions) writeStatement(s *streams, what string, st signable) error {
	raw, err := st.Bytes()
	if err != nil {
		return err
	}
	if err := replaceOwn(o.StatementOut, raw, `"drkit.approval/`, `"drkit.revocation/`); err != nil {
		return err
	}
	fmt.Fprintf(s.Err, "nothing is %s yet. Sign it, then give it back:\n  ssh-keygen -Y sign -n %s -f KEY %s\n  drkit drill approve --statement %s --signature %s.sig\n",
		what, approval.Namespace, o.StatementOut, o.StatementOut, o.StatementOut)
	return nil
}

// put takes a statement that was signed elsewhere.
func (o *approveOptions) put(ctx context.Context, s *streams, chain *ledger.Chain, svc *service.Service, p approval.Policy) error {
	raw, err := readNamed("the statement", o.Statement, "name the file that --statement-out wrote")
	if err != nil {
		return err
	}
	signature, err := readNamed("the signature", o.Signature, "name the file that ssh-keygen -Y sign wrote")
	if err != nil {
		return err
	}
	var kind struct{ Schema string }
	if json.Unmarshal(raw, &kind) == nil && kind.Schema == ledger.RevocationSchema {
		return o.putRevocation(ctx, s, chain, svc, p, raw, string(signature))
	}
	st, err := signedElsewhere[ledger.Statement](raw, o.Statement)
	if err != nil {
		return err
	}
	if err := approval.Check(st); err != nil {
		return err
	}
	if _, err := o.named(svc, p, st.Approver); err != nil {
		return err
	}
	scan, err := soundLedger(ctx, chain)
	if err != nil {
		return err
	}
	if err := unheard(scan, p, st); err != nil {
		return err
	}
	e, err := approval.Put(ctx, chain, st, string(signature), operator())
	if err != nil {
		return err
	}
	return o.tell(ctx, s, chain, p, e)
}

// signable is what a person signs: equal statements give equal bytes.
type signable interface{ Bytes() ([]byte, error) }

// signedElsewhere reads a statement that --statement-out wrote, and nothing else.
func signedElsewhere[T signable](raw []byte, file string) (T, error) {
	var st T
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&st); err != nil {
		return st, usage(fmt.Errorf("%s is no statement: %w", file, err), "drkit drill approve --statement-out writes one")
	}
	if again, err := st.Bytes(); err != nil || !bytes.Equal(again, raw) {
		return st, usage(fmt.Errorf("%s is not as --statement-out wrote it", file), "write it again, and sign that")
	}
	return st, nil
}

// signedRecord is a record of what was signed, for --output json.
type signedRecord[T signable] struct {
	Schema    string   `json:"schema"`
	Ledger    string   `json:"ledger"`
	Record    uint64   `json:"record"`
	SHA256    string   `json:"sha256"`
	Statement T        `json:"statement"`
	Why       string   `json:"counts_nothing,omitempty"` // of an approval: why it counts nothing
	Taken     []uint64 `json:"taken_back,omitempty"`     // of a revocation: the records that count nothing from now on
}

// tell says what an approval is worth now that it is in the ledger: it may count
// nothing, and others may be needed.
func (o *approveOptions) tell(ctx context.Context, s *streams, chain *ledger.Chain, p approval.Policy, e ledger.Entry) error {
	scan, err := soundLedger(ctx, chain)
	if err != nil {
		return errors.Join(o.print(s, chain, e, "recorded; whether it counts is not known\napproval by "+described(e.Approved.Statement), "whether it counts is not known: the ledger could not be read again"), err)
	}
	t, subject := tallyOf(scan, p, e.Approved.Statement, e.Approved.Statement.Run)
	head, why := heading(p, t, subject, e)
	if err := o.print(s, chain, e, head, why); err != nil {
		return err
	}
	fmt.Fprintf(s.Err, "the plan has %d of %d approvals%s\n", len(t.Valid), t.Required, unlessOwn(p, t.Valid, subject.By, e.By))
	return nil
}

// tallyOf weighs the approvals of a statement's plan, for a run or, while that is "", for
// the next one, whoever starts it.
func tallyOf(scan *ledger.Scan, p approval.Policy, st ledger.Statement, run string) (approval.Tally, approval.Subject) {
	subject := approval.Subject{Service: st.Service, PlanHash: st.PlanHash, Run: run, Now: now()}
	for _, r := range scan.Of(run) {
		if r.Opened != nil {
			subject.By = r.By
		}
	}
	return approval.Judge(scan, p, subject), subject
}

// heading is the first line on an approval that was recorded, and why it counts nothing.
func heading(p approval.Policy, t approval.Tally, subject approval.Subject, e ledger.Entry) (head, why string) {
	for _, a := range t.Valid {
		if a.Record == e.Seq {
			return "approved by " + described(e.Approved.Statement) + unlessOwn(p, []drill.Approval{a}, subject.By, e.By), ""
		}
	}
	why = "it is of another plan"
	for _, a := range t.Void {
		if a.Record == e.Seq {
			why = a.Why
		}
	}
	where := ""
	if why == approval.OwnRefused {
		where = " in a run that " + approval.Account(subject.By) + " starts"
	}
	return fmt.Sprintf("recorded; it counts nothing%s: %s\napproval by %s", where, why, described(e.Approved.Statement)), why
}

// described says whose approval it is, and of what.
func described(st ledger.Statement) string {
	label, what := "", "the next run of plan "+st.PlanHash
	if st.Run != "" {
		what = "run " + st.Run + ", plan " + st.PlanHash
	}
	if st.Self {
		label = ", labelled as the operator's own"
	}
	return st.Approver + label + ": " + what
}

// print says what is in the ledger now, under what it is worth; why is "" when it counts.
func (o *approveOptions) print(s *streams, chain *ledger.Chain, e ledger.Entry, head, why string) error {
	st := e.Approved.Statement
	if o.json() {
		return writeJSON(s, signedRecord[ledger.Statement]{Schema: "drkit.approval-record/1.0", Ledger: chain.Location(), Record: e.Seq, SHA256: e.SHA256, Statement: st, Why: why})
	}
	_, err := fmt.Fprintf(s.Out, "%s\nuntil %s; record %d of the ledger %s\nto take it back: drkit drill approve --revoke %s --key KEY\n", head, st.Expires.Format(time.RFC3339), e.Seq, chain.Location(), st.ID)
	return err
}

// unlessOwn names who must not start the run: an approval of a plan is given before
// anybody knows who will, and one of the operator's own counts nothing.
func unlessOwn(p approval.Policy, valid []drill.Approval, operator, by string) string {
	if p.Self || operator != "" || len(valid) == 0 {
		return ""
	}
	users := []string{approval.Account(by)}
	for _, a := range valid {
		for _, x := range p.People {
			if x.Name == a.Approver {
				users = append(users, x.User)
			}
		}
	}
	slices.Sort(users)
	return fmt.Sprintf("; an approver's own counts nothing in a run that %s starts (approvals.self: refused)", strings.Join(slices.Compact(users), " or "))
}
