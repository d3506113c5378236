package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"drkit/drill"
	"drkit/drill/ledger"
	"drkit/internal/errext"
	"drkit/playbooks"
)

// resumeOptions are those of drill resume. What the run was begun with stands in its
// journal; a playbook that was named by its path has to be named again.
type resumeOptions struct {
	drillOptions
	Run string
	Ack ackOption
}

func newDrillResume(s *streams, run func(context.Context, *streams, resumeOptions) error) *cobra.Command {
	var o resumeOptions
	c := &cobra.Command{
		Use:   "resume [RUN]",
		Short: "Go on with a run that is held, was left or was killed",
		Long: `Goes on with a run as another process of it. What was finished is not trusted but
asked again: the lock, the copy, what was restored, the canaries, their answers, the
router. What still holds is kept; what does not, or has no way to be asked, is taken back
and run again, with every step after it. Where a store or cluster does not answer, the run
stays held, as it is. The recovery clock went on meanwhile: times across processes are
measured by the machine's clock, and say so.

Without a name it takes the newest run that has not ended. A run is gone on with only as
it was planned: drkit.yaml, playbook and release must be what they were. A run that had
failed gets no second try: drkit drill abort takes it back.

Status 3: it cannot be gone on with, or not now, and is as it was. Status 7: it is held
again, and the command that goes on is printed. Else as drkit drill run.`,
		Example: `  drkit drill resume
  drkit drill resume --ack handover --by "Mei Lin"
  drkit drill resume 01JD0Z0000RUN000000000000A`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.Run = args[0]
			}
			return run(c.Context(), s, o)
		},
	}
	o.serviceOption.addFlags(c)
	o.outputOption.addFlags(c)
	o.progressOption.addFlags(c)
	c.Flags().StringVar(&o.Playbook, "playbook", "", "the playbook of the run, where it lies elsewhere by now: built-in name or file")
	c.Flags().StringVar(&o.SelfApprove, "self-approve", "", "emergencies only: approve the plan yourself, under this name; evidence says so")
	c.Flags().StringArrayVar(&o.Reports, "report", nil, "also write the result: markdown=PATH, html=PATH, json=PATH or junit=PATH (repeatable)")
	c.Flags().StringVar(&o.Metrics, "metrics", "", "also write the state of all runs for Prometheus' textfile collector to this file")
	o.addSign(c)
	o.Ack.addFlags(c)
	return c
}

func runDrillResume(ctx context.Context, s *streams, o resumeOptions) error {
	if err := o.Ack.check(); err != nil {
		return err
	}
	mode, reports, err := o.begin(s)
	if err != nil {
		return err
	}
	svc, err := o.load()
	if err != nil {
		return err
	}
	dir := svc.Run.Dir.Path
	if o.Run == "" {
		if o.Run, err = newestOpen(dir); err != nil {
			return err
		}
	}
	journal, err := ledger.Open(dir, o.Run, s.Redactor.Bytes)
	if err != nil {
		return err
	}
	defer journal.Close()
	if n := journal.Cut(); n > 0 {
		fmt.Fprintf(s.Err, "a half line of %d bytes at the journal's end was cut off\n", n)
	}
	if empty(journal.Path()) {
		return errext.WithHint(errext.WithStatus(fmt.Errorf("run %s ended before it began anything", o.Run), errext.Refused), "drkit drill abort "+o.Run+" closes it; then begin another")
	}
	was, err := ledger.LoadFile(journal.Path())
	if err != nil {
		return err
	}
	d, err := o.plan(was)
	if err != nil {
		return err
	}
	if d.words, err = o.Ack.people(was); err != nil {
		return err
	}
	run, err := d.resume(ctx, s, mode, journal, was)
	return d.conclude(ctx, s, run, reports, err)
}

// newestOpen is the newest run of a folder that has not ended and whose process is gone.
func newestOpen(dir string) (string, error) {
	all, err := ledger.List(dir)
	if err != nil {
		return "", err
	}
	for _, id := range slices.Backward(all) {
		if r, err := ledger.Load(dir, id); err == nil && r.Finished == nil && !ledger.Live(dir, id) {
			return id, nil
		}
	}
	return "", errext.WithHint(errext.WithStatus(fmt.Errorf("%s holds no run that was held, left or killed", dir), errext.Refused), "drkit drill status lists the runs; drkit drill run begins one")
}

// plan is the plan of a run that was begun, as it is today.
func (o *resumeOptions) plan(was *drill.Run) (*drillPlan, error) {
	o.Release, o.Target, o.Demo = was.Plan.Release, was.Plan.Target, was.Plan.Demo
	o.ofBefore(was)
	o.Playbook = cmp.Or(o.Playbook, was.Plan.PlaybookFile)
	d, err := newDrillPlan(o.drillOptions)
	if err != nil {
		return nil, err
	}
	if o.Playbook == "" && d.playbook.Hash() != was.Plan.PlaybookHash && slices.Contains(playbooks.Names(), was.Plan.Playbook) {
		o.Playbook = was.Plan.Playbook // it was named on the command line; its mode says what is opened
		if d, err = newDrillPlan(o.drillOptions); err != nil {
			return nil, err
		}
	}
	if o.SelfApprove != "" && d.playbook.Mode != playbooks.Emergency {
		return nil, refused(fmt.Errorf("--self-approve is for emergencies, and playbook %s is of mode %s", d.playbook.Name, d.playbook.Mode), "leave it away")
	}
	d.id, d.dir = was.ID, ledger.Dir(d.svc.Run.Dir.Path, was.ID)
	return d, nil
}

func (d *drillPlan) resume(ctx context.Context, s *streams, mode string, journal *ledger.Journal, was *drill.Run) (*drill.Run, error) {
	d.resumed = true
	today := d.start(ctx)
	today.By, today.Binary, today.Approvals = operator(), thisBinary(), was.Approvals
	chain, err := d.ledgerAgain(s, was)
	if err != nil {
		return nil, errext.WithStatus(errors.Join(errors.New("nothing was gone on with"), err), errext.Evidence)
	}
	return d.drive(ctx, s, mode, today, journal, chain, func(ctx context.Context, r *drill.Runner) (*drill.Run, error) {
		return r.Resume(ctx, d.id, today)
	})
}
