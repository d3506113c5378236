package main

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"drkit/drill"
	"drkit/drill/approval"
	"drkit/drill/evidence"
	"drkit/drill/ledger"
	"drkit/drill/step"
	"drkit/internal/errext"
	"drkit/playbooks"
)

// liveOptions are those of drill run that let it move production, and what evidence
// says of people.
type liveOptions struct {
	Live          bool
	SelfApprove   string
	WithoutLedger string
	Participants  []string
	Observers     []string
	SignKey       string
	PasswordEnv   string
}

func (o *liveOptions) addFlags(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&o.Live, "live", false, "let a planned, emergency or failback playbook move production's traffic; needs an approval of the plan (drkit drill approve)")
	f.StringVar(&o.SelfApprove, "self-approve", "", "emergencies only: approve the plan yourself, under this name; evidence says so")
	f.StringVar(&o.WithoutLedger, "without-ledger", "", "emergencies only: go on for this reason when the ledger cannot be written; the status is 6 at best")
	f.StringArrayVar(&o.Participants, "participant", nil, "for the evidence: ROLE=NAME of somebody who takes part (repeatable)")
	f.StringArrayVar(&o.Observers, "observer", nil, "for the evidence: the name of an observer (repeatable)")
	o.addSign(c)
}

// addSign adds what signs the evidence at the end; a run that goes on is told anew.
func (o *liveOptions) addSign(c *cobra.Command) {
	c.Flags().StringVar(&o.SignKey, "sign-key", "", "sign the evidence at the end with this private key (PEM), as drkit drill sign-evidence does")
	c.Flags().StringVar(&o.PasswordEnv, "password-env", "", "environment variable with the password of an encrypted --sign-key")
}

// signer reads the key of --sign-key; nil without one.
func (o *liveOptions) signer(s *streams) (crypto.Signer, error) {
	if o.SignKey == "" {
		return nil, nil
	}
	return signOptions{Key: o.SignKey, PasswordEnv: o.PasswordEnv}.key(s)
}

// live says that the playbook moves production.
func live(p playbooks.Playbook) bool {
	return drill.Live(p.Mode)
}

func refused(err error, hint string) error {
	return errext.WithHint(errext.WithStatus(err, errext.Refused), hint)
}

// liveFlags refuses flags that do not fit the playbook's mode, before anything is
// read or written elsewhere.
func (d *drillPlan) liveFlags() error {
	o, mode := d.o, d.playbook.Mode
	var errs []error
	switch {
	case live(d.playbook) && !o.Live:
		errs = append(errs, refused(fmt.Errorf("playbook %s moves production's traffic (mode %s), and --live is not given", d.playbook.Name, mode),
			"read the plan first: drkit drill plan --playbook "+d.playbook.Name+"; then give --live"))
	case !live(d.playbook) && o.Live:
		errs = append(errs, refused(fmt.Errorf("playbook %s is of mode %s: it moves nothing of production, and --live is given", d.playbook.Name, mode), "leave --live away, or name a planned, emergency or failback playbook"))
	}
	if o.Live && o.Demo {
		errs = append(errs, refused(errors.New("a demonstration moves no production"), "leave --demo or --live away"))
	}
	for name, given := range map[string]bool{"--self-approve": o.SelfApprove != "", "--without-ledger": o.WithoutLedger != ""} {
		if given && mode != playbooks.Emergency {
			errs = append(errs, refused(fmt.Errorf("%s is for emergencies, and playbook %s is of mode %s", name, d.playbook.Name, mode), "leave it away"))
		}
	}
	_, err := d.people()
	return errors.Join(append(errs, err)...)
}

// people are the participants that the command line names.
func (d *drillPlan) people() (all []drill.Person, err error) {
	for _, p := range d.o.Participants {
		role, name, ok := strings.Cut(p, "=")
		if !ok || role == "" || name == "" {
			return nil, usage(fmt.Errorf("--participant %q", p), "write ROLE=NAME, for example lead=mei")
		}
		all = append(all, drill.Person{Name: name, Role: role})
	}
	return all, nil
}

// checks are what speaks against the run as a whole; each is a problem of its own.
func (d *drillPlan) checks(start drill.RunStarted) func(context.Context) []error {
	return func(ctx context.Context) []error {
		problems := d.dependence()
		if live(d.playbook) {
			problems = append(problems, d.allowed()...)
			problems = append(problems, d.marked(ctx)...)
			problems = append(problems, d.approved(ctx, start)...)
		}
		return problems
	}
}

// allowed refuses a target that drkit.yaml does not open to live runs.
func (d *drillPlan) allowed() []error {
	name := d.target.region.Name
	if slices.Contains(d.svc.Live.Targets, name) {
		return nil
	}
	return []error{refused(fmt.Errorf("live.targets of %s does not list region %s", d.svc.File, name), "add it there, if production may be moved to it")}
}

// markerName is the object in a region's state that says which region it is.
const markerName = "DRKIT-TARGET"

// marked refuses a target whose own state does not say that it is that region: what
// drkit.yaml takes for it may be another.
func (d *drillPlan) marked(ctx context.Context) []error {
	name := d.target.region.Name
	key := name + "/" + markerName
	where := d.target.region.State.String() + "/" + key
	data, err := readObject(ctx, d.target.state, key, 1<<10)
	if err != nil {
		return []error{refused(fmt.Errorf("reading the target's marker %s: %w", where, err), "whoever knows that this is region "+name+" puts an object with the text "+name+" there, by another way than drkit")}
	}
	if got := strings.TrimSpace(string(data)); got != name {
		return []error{refused(fmt.Errorf("the marker %s says that this is %.80q, not %s", where, got, name), "drkit.yaml names another region's state: nothing is moved there")}
	}
	return nil
}

// harmless are the kinds of steps that change nothing of production. A wait for time or
// for an answer that is only asked for (step.OnlyWaits) belongs to them; one with a command
// may do what a step of kind run may.
var harmless = []string{"approve", "preflight", "verify", "declare", "human", "notify"}

// guarded reports whether a step waits for the approvals before anything of production
// is changed: nothing comes before it or runs beside it, and nothing after it runs
// although it failed.
func guarded(steps []playbooks.Step) bool {
	at := slices.IndexFunc(steps, func(s playbooks.Step) bool { return s.Kind == "approve" })
	if at < 0 || steps[at].Group != "" {
		return false
	}
	for i, s := range steps {
		early, anyway := i < at, s.When == playbooks.Always && s.Kind != "cleanup"
		if (early || anyway) && !slices.Contains(harmless, s.Kind) && !step.OnlyWaits(s) {
			return false
		}
	}
	return true
}

// approved refuses a live run that nobody approved, unless a step of it waits for
// the approvals.
func (d *drillPlan) approved(ctx context.Context, start drill.RunStarted) []error {
	if guarded(d.steps()) {
		return nil
	}
	tally := approval.Tally{Required: d.policy.Required}
	if d.weigh != nil { // once more, now that the run is in the ledger: another one may have taken an approval meanwhile
		now, err := d.weigh(ctx, d.id)
		if err != nil {
			return []error{refused(fmt.Errorf("reading the approvals: %w", err), errext.Hint(err))}
		}
		start.Approvals, tally = append(now.Valid, now.Void...), now
	} else {
		for _, a := range start.Approvals {
			if a.Why == "" {
				tally.Valid = append(tally.Valid, a)
			}
		}
	}
	if d.typed() != nil || tally.Enough() {
		return nil
	}
	err := fmt.Errorf("the plan has %d of %d approvals, and the playbook has no step of kind approve, alone, before all that may change production", len(tally.Valid), tally.Required)
	for _, a := range start.Approvals {
		if a.Why != "" {
			err = fmt.Errorf("%w; record %d by %s counts nothing: %s", err, a.Record, a.Approver, a.Why)
		}
	}
	return []error{refused(err, "drkit drill approve "+start.PlanHash+" --key KEY")}
}

// steps are those of the playbook that belong to its mode.
func (d *drillPlan) steps() []playbooks.Step {
	return slices.DeleteFunc(slices.Clone(d.playbook.Steps), func(s playbooks.Step) bool {
		return len(s.Modes) > 0 && !slices.Contains(s.Modes, d.playbook.Mode)
	})
}

// typed is the operator's own word in an emergency: on the command line, or by the
// screen's key.
func (d *drillPlan) typed() []drill.Approval {
	name, at := d.o.SelfApprove, d.began
	if name == "" {
		name, at = d.word.given()
	}
	if name == "" || d.playbook.Mode != playbooks.Emergency {
		return nil
	}
	return []drill.Approval{{Approver: name, Method: drill.MethodTyped, Self: true, ChangeRef: d.o.Scenario.ChangeRef, At: at}}
}

// keyWord is the approval of the person at the screen, once they have given it.
type keyWord struct {
	mu   sync.Mutex
	name string
	at   time.Time
}

func (w *keyWord) give(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.name == "" {
		w.name, w.at = name, now().UTC()
	}
}

func (w *keyWord) given() (name string, at time.Time) {
	if w == nil {
		return "", time.Time{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.name, w.at
}

// tally weighs the approvals of a run. In an emergency the operator's own word is
// enough, and labelled; the others are weighed beside it.
func (d *drillPlan) tally(chain *ledger.Chain, hash string) func(context.Context, string) (approval.Tally, error) {
	return func(ctx context.Context, run string) (approval.Tally, error) {
		t := approval.Tally{Required: d.policy.Required}
		if chain != nil {
			scan, err := soundLedger(ctx, chain)
			if err != nil && d.typed() == nil {
				return t, err
			}
			if err == nil {
				t = approval.Judge(scan, d.policy, approval.Subject{Service: d.svc.Metadata.Name, PlanHash: hash, Run: run, By: operator(), Now: now()})
			}
		}
		if own := d.typed(); own != nil {
			t.Required, t.Valid = 1, append(own, t.Valid...)
		}
		return t, nil
	}
}

// ofBefore takes over what a live run was begun with.
func (o *liveOptions) ofBefore(was *drill.Run) {
	o.Live, o.WithoutLedger = was.Plan.Live, was.Plan.WithoutLedger
	for _, a := range was.Approvals {
		if a.Method == drill.MethodTyped && o.SelfApprove == "" {
			o.SelfApprove = a.Approver
		}
	}
}

// ledgerAgain is the ledger that a run was announced in; nil for one that began without.
func (d *drillPlan) ledgerAgain(s *streams, was *drill.Run) (*ledger.Chain, error) {
	if was.Plan.WithoutLedger != "" {
		return nil, nil
	}
	return ledgerOf(s, d.svc)
}

// ledgerPatience is how long an emergency waits for its ledger.
const ledgerPatience = 15 * time.Second

// announceLive announces the run. An emergency that was told to goes on without a
// ledger that cannot be written; the chain is then nil.
func (d *drillPlan) announceLive(ctx context.Context, s *streams, start *drill.RunStarted) (*ledger.Chain, error) {
	if d.o.WithoutLedger == "" {
		return d.announce(ctx, s, start)
	}
	waiting, cancel := context.WithTimeout(ctx, ledgerPatience)
	defer cancel()
	chain, err := d.announce(waiting, s, start)
	if err == nil {
		fmt.Fprintln(s.Err, "drkit: note: the ledger can be written, so the run is in it; --without-ledger was not needed")
		return chain, nil
	}
	if ctx.Err() != nil {
		return chain, err
	}
	start.WithoutLedger = d.o.WithoutLedger
	fmt.Fprintf(s.Err, "drkit: the run goes on without its ledger (%v): its status is 6 at best\n", err)
	return nil, nil
}

// addPeople adds to the start what people said and approved until then.
func (d *drillPlan) addPeople(ctx context.Context, s *streams, start *drill.RunStarted) {
	start.Live, start.Observers = d.o.Live, d.o.Observers
	start.Participants, _ = d.people() // checked with the flags
	if !d.o.Live {
		return
	}
	chain, err := ledgerOf(s, d.svc)
	if err != nil {
		chain = nil // the announcement says so
	}
	d.addApprovals(ctx, chain, start)
}

// addApprovals adds what the ledger holds of the plan. An emergency that may go on
// without its ledger waits for it no longer than for the announcement.
func (d *drillPlan) addApprovals(ctx context.Context, chain *ledger.Chain, start *drill.RunStarted) {
	if d.o.WithoutLedger != "" {
		patient, cancel := context.WithTimeout(ctx, ledgerPatience)
		defer cancel()
		ctx = patient
	}
	if t, err := d.tally(chain, start.PlanHash)(ctx, d.id); err == nil {
		start.Approvals = append(t.Valid, t.Void...)
	}
}

// weighAgain weighs the approvals now that the run is in the ledger, before its journal
// says which count: another run may have taken one meanwhile, or a person theirs back.
// Where the ledger cannot be read, the check before the first step says so.
func (d *drillPlan) weighAgain(ctx context.Context, start *drill.RunStarted) {
	if !d.o.Live || start.Ledger == nil {
		return
	}
	if t, err := d.weigh(ctx, d.id); err == nil {
		start.Approvals = append(t.Valid, t.Void...)
	}
}

// signEnd signs the evidence of a run with --sign-key.
func (d *drillPlan) signEnd(s *streams) error {
	key, err := d.o.signer(s)
	if err == nil && key == nil {
		return nil
	}
	if err != nil {
		return errext.WithStatus(fmt.Errorf("signing the evidence: %w", err), errext.Evidence)
	}
	file := evidence.Path(d.svc.Run.Dir.Path, d.id)
	data, err := readFile(file)
	if err != nil {
		return errext.WithStatus(fmt.Errorf("signing the evidence: %w", err), errext.Evidence)
	}
	if faults := evidence.CheckFile(data); len(faults) > 0 {
		return errext.WithStatus(fmt.Errorf("the evidence is not signed: %s: %s", faults[0].Field, faults[0].What), errext.Evidence)
	}
	print, err := signEvidence(data, key, signatureOf(file))
	if err == nil {
		fmt.Fprintf(s.Err, "the evidence is signed with key %.16s: %s\n", print, signatureOf(file))
	}
	return err
}
