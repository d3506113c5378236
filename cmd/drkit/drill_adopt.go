package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"drkit/drill"
	"drkit/drill/launch/kubernetes"
	"drkit/drill/launch/process"
	"drkit/drill/ledger"
	drillreport "drkit/drill/report"
	"drkit/drill/step"
	"drkit/internal/errext"
)

// adoptOptions are those of drill adopt.
type adoptOptions struct {
	afterOptions
	By      string
	Release bool
}

func newDrillAdopt(s *streams, run func(context.Context, *streams, adoptOptions) error) *cobra.Command {
	var o adoptOptions
	c := &cobra.Command{
		Use:   "adopt RUN",
		Short: "Take over the canary that production's traffic was moved to",
		Long: `After a live cutover the canary may be what serves people. adopt marks it as taken
over, drops its undo with an event in the journal, and from then on neither abort nor
gc touch it. Where nothing of production was moved, no router sends to the canary any
more, or it does not run, it is refused (status 3), and so is a run whose process still
lives.

--release is the end of that: it stops the canary that was taken over, or that the run
keeps, and removes the files that were restored for it. While a router of drkit.yaml
lists it, something in its cluster routes to it, or its engine computes, or that is not
known, it is refused (status 3). Status 8: something is not proven to be gone.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			o.Run = args[0]
			return run(c.Context(), s, o)
		},
	}
	o.addFlags(c)
	c.Flags().BoolVar(&o.Release, "release", false, "stop the canary and remove its files, once nothing is sent to it")
	c.Flags().StringVar(&o.By, "by", "", "who looks after it from now on (default: you, as the machine knows you)")
	return c
}

func runDrillAdopt(ctx context.Context, s *streams, o adoptOptions) error {
	if err := o.outputOption.check(); err != nil {
		return err
	}
	if o.By == "" {
		o.By = operator()
	}
	dir, id, err := o.which()
	if err != nil {
		return err
	}
	journal, err := ledger.Open(dir, id, s.Redactor.Bytes)
	if err != nil {
		return err
	}
	defer journal.Close()
	run, err := drill.Replay(journal.Events())
	if err != nil {
		return err
	}
	if o.Release {
		return o.release(ctx, s, dir, journal, run)
	}
	changes, err := adoptable(run)
	if err != nil {
		return err
	}
	traffic, err := o.servesNow(ctx, s, run, changes)
	if err != nil {
		return err
	}
	var ids []string
	for _, c := range changes {
		if err := markAdopted(ctx, c, o.By); err != nil {
			return refused(fmt.Errorf("taking over %q: %w", c.What, err), "what does not run cannot be taken over; drkit drill abort "+id+" takes the rest back")
		}
		ids = append(ids, c.ID)
	}
	if run, err = drill.Adopt(journal, ids, o.By, drillreport.NewPlain(s.Err)); err != nil {
		return err
	}
	if run.Finished != nil {
		if err := o.close(ctx, s, dir, id); err != nil {
			return err
		}
	}
	return o.printAdopted(s, id, traffic, changes)
}

// adoptable are the changes that the cutover rests on: the engine and its files.
func adoptable(run *drill.Run) ([]drill.ChangeState, error) {
	if moved, why := run.CutOver(); !moved {
		return nil, refused(fmt.Errorf("nothing of run %s can be taken over: %s", run.ID, why), "drkit drill abort "+run.ID+" takes back what it left")
	}
	kinds := map[string]string{}
	for _, s := range run.Steps {
		kinds[s.ID] = s.Kind
	}
	var all []drill.ChangeState
	engines := 0
	for _, c := range run.Changes {
		if kind := kinds[c.Step]; c.Gone() || !c.Done || c.Owner() != "" || kind != "boot" && kind != "restore" {
			continue
		} else if kind == "boot" {
			engines++
		}
		if run.Finished != nil && c.Stays() == "" {
			return nil, refused(fmt.Errorf("run %s ended with changes that are not proven to be taken back (status %d), %q among them: what is to be taken back is not taken over", run.ID, errext.Unclean, c.What),
				"drkit drill abort "+run.ID+" takes it back, or says why it stays; what stays can be adopted then")
		}
		all = append(all, c)
	}
	if engines == 0 {
		return nil, refused(fmt.Errorf("run %s has no canary that is left: it was taken back or taken over before", run.ID), "drkit drill replay "+run.ID+" shows its changes")
	}
	return all, nil
}

// markAdopted gives what a change made another mark than its run's, so that nobody
// collects it. Files carry their run's name in a file of their own, which stays.
func markAdopted(ctx context.Context, c drill.ChangeState, by string) error {
	switch c.Undo.Kind {
	case undoProcess:
		var a processArgs
		if err := json.Unmarshal(c.Undo.Args, &a); err != nil {
			return err
		}
		return (&process.Launcher{Dir: a.Dir}).Adopt(ctx, a.Run, a.Name, by)
	case kubernetes.UndoKind:
		var a kubernetes.Args
		if err := json.Unmarshal(c.Undo.Args, &a); err != nil {
			return err
		}
		l, err := kubernetes.ForArgs(a)
		if err != nil {
			return err
		}
		return l.Adopt(ctx, a.Run, a.Name, by)
	case step.UndoFiles:
		return nil
	}
	return errext.WithHint(errors.New("nobody knows how to mark what it made"), "kind "+c.Undo.Kind)
}

func (o *adoptOptions) printAdopted(s *streams, id, traffic string, changes []drill.ChangeState) error {
	if o.json() {
		type item struct {
			ID   string `json:"id"`
			What string `json:"what"`
		}
		items := []item{}
		for _, c := range changes {
			items = append(items, item{c.ID, c.What})
		}
		return writeJSON(s, struct {
			Schema  string `json:"schema"`
			Run     string `json:"run"`
			By      string `json:"by"`
			Traffic string `json:"traffic"` // whether production sends to it
			Changes []item `json:"changes"`
		}{"drkit.drill-adopted/1.0", id, o.By, traffic, items})
	}
	for _, c := range changes {
		printLine(s.Out, "adopted  %s, by %s", c.What, o.By)
	}
	printLine(s.Out, "traffic  %s", traffic)
	printLine(s.Out, "run %s takes back none of it any more; drkit drill adopt %s --release stops it, once nothing is sent to it", id, id)
	return nil
}
