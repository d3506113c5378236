package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"drkit/drill"
	"drkit/drill/launch/kubernetes"
	"drkit/drill/launch/process"
	"drkit/drill/ledger"
	drillreport "drkit/drill/report"
	"drkit/internal/errext"
)

// served is a change that was left to serve: an engine, or the files that it reads.
type served struct {
	drill.ChangeState
	replica drill.Replica // nil: files, or an engine that is gone
}

// collectorOf asks the routers that drkit.yaml describes, which has to be that of the run:
// the routers of another service know nothing of whom its canary serves.
func (o *adoptOptions) collectorOf(s *streams, dir string, run *drill.Run) (*collector, error) {
	svc, err := o.load()
	if err != nil {
		return nil, err
	}
	if svc.Metadata.Name != run.Plan.Service {
		return nil, refused(fmt.Errorf("run %s is of service %s, and %s describes %s", run.ID, run.Plan.Service, svc.File, svc.Metadata.Name), "name the service's own drkit.yaml with -f")
	}
	return &collector{s: s, svc: svc, dir: dir, states: map[string]runState{}}, nil
}

// servesNow says whether production sends requests to the engines that are to be taken
// over, as its routers list them now. Where all could be asked and none lists one, there
// is nothing to take over.
func (o *adoptOptions) servesNow(ctx context.Context, s *streams, run *drill.Run, changes []drill.ChangeState) (string, error) {
	const unknown = "whether production sends requests to it is not known: "
	g, err := o.collectorOf(s, "", run)
	if err != nil {
		return unknown + err.Error(), nil
	}
	if !g.described() {
		return unknown + g.svc.File + " describes no router", nil
	}
	for _, c := range changes {
		r, err := replicaOf(ctx, c)
		if err != nil {
			return "", err
		}
		if r == nil {
			continue // files; an engine that does not run is refused when it is marked
		}
		by, err := g.routed(ctx, r)
		switch {
		case err != nil:
			return unknown + err.Error(), nil
		case by != "":
			return by + " sends requests to it", nil
		}
		return "", refused(fmt.Errorf("%s of run %s serves nobody: no router of %s lists %s any more", c.What, run.ID, g.svc.File, r.Endpoint()),
			"drkit drill adopt "+run.ID+" --release stops it and removes its files, once the run has ended")
	}
	return "nothing of it runs", nil
}

// replicaOf finds what a change launched; nil when it launched nothing, or nothing of it
// is left.
func replicaOf(ctx context.Context, c drill.ChangeState) (drill.Replica, error) {
	switch c.Undo.Kind {
	case undoProcess:
		var a processArgs
		if err := json.Unmarshal(c.Undo.Args, &a); err != nil {
			return nil, err
		}
		return named(ctx, &process.Launcher{Dir: a.Dir}, a)
	case kubernetes.UndoKind:
		var a kubernetes.Args
		if err := json.Unmarshal(c.Undo.Args, &a); err != nil {
			return nil, err
		}
		l, err := kubernetes.ForArgs(a)
		if err != nil {
			return nil, err
		}
		found, err := l.Find(ctx, a.Run)
		for _, r := range found {
			if r.ID() == a.Name {
				return r, nil
			}
		}
		return nil, err
	}
	return nil, nil
}

// release stops what was left to serve and removes its files, in the order of an undo.
// The run's verdict stands: it is a record after its end.
func (o *adoptOptions) release(ctx context.Context, s *streams, dir string, journal *ledger.Journal, run *drill.Run) error {
	all, err := releasable(ctx, run)
	if err != nil {
		return err
	}
	g, err := o.collectorOf(s, dir, run)
	if err != nil {
		return err
	}
	if err := g.unused(ctx, run.ID, all); err != nil {
		return err
	}
	var ids []string
	for _, c := range all {
		ids = append(ids, c.ID)
	}
	run, unproven := drill.Release(ctx, journal, operator(), ids, undos(), drillreport.NewPlain(s.Err))
	if unproven != nil && errext.StatusOf(unproven) != errext.Unclean {
		return unproven
	}
	return errors.Join(unproven, o.close(ctx, s, dir, run.ID), o.printReleased(s, run, ids))
}

// releasable are the engines and files that a run that has ended left to serve.
func releasable(ctx context.Context, run *drill.Run) ([]served, error) {
	if run.Finished == nil {
		return nil, refused(fmt.Errorf("run %s has not ended: what it made is not released", run.ID), "drkit drill resume "+run.ID+" goes on with it, drkit drill abort "+run.ID+" ends it")
	}
	kinds := map[string]string{}
	for _, s := range run.Steps {
		kinds[s.ID] = s.Kind
	}
	var all []served
	for _, c := range run.Changes {
		if kind := kinds[c.Step]; c.Gone() || c.Owner() == "" && c.Stays() == "" || kind != "boot" && kind != "restore" {
			continue
		}
		r, err := replicaOf(ctx, c)
		if err != nil {
			return nil, fmt.Errorf("looking for what %q made: %w", c.What, err)
		}
		all = append(all, served{c, r})
	}
	if len(all) == 0 {
		return nil, refused(fmt.Errorf("run %s left nothing to serve that is still there", run.ID), "drkit drill gc lists what runs left behind")
	}
	return all, nil
}

// unused refuses while an engine receives traffic, or may.
func (g *collector) unused(ctx context.Context, run string, all []served) error {
	if !g.described() {
		return refused(fmt.Errorf("whether production sends requests to what run %s left is not known: %s describes no router", run, g.svc.File), "describe the routers that may list it (regions[].routers)")
	}
	var errs []error
	for _, c := range all {
		if c.replica == nil {
			continue
		}
		why := g.receives(ctx, c.replica)
		if pod, ok := c.replica.(*kubernetes.Replica); ok && why == "" {
			why = routedBy(ctx, pod)
		}
		if why != "" {
			errs = append(errs, refused(fmt.Errorf("%s of run %s is not released: %s", c.What, run, why), "take it out of every router first (the playbook failback moves production), then release it"))
		}
	}
	return errors.Join(errs...)
}

func (o *adoptOptions) printReleased(s *streams, run *drill.Run, ids []string) error {
	type item struct {
		ID    string `json:"id"`
		What  string `json:"what"`
		Gone  bool   `json:"gone"`
		Error string `json:"error,omitempty"`
	}
	items := []item{}
	for _, c := range run.Changes {
		if slices.Contains(ids, c.ID) {
			items = append(items, item{c.ID, c.What, c.Gone(), c.Trouble()})
		}
	}
	if o.json() {
		return writeJSON(s, struct {
			Schema  string `json:"schema"`
			Run     string `json:"run"`
			By      string `json:"by"`
			Changes []item `json:"changes"`
		}{"drkit.drill-released/1.0", run.ID, operator(), items})
	}
	for _, x := range items {
		if x.Gone {
			printLine(s.Out, "released  %s: it is gone", x.What)
		} else {
			printLine(s.Out, "FAILED    %s: %s", x.What, x.Error)
		}
	}
	return nil
}
