package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"drkit/drill"
	"drkit/drill/launch/kubernetes"
	"drkit/drill/launch/process"
	"drkit/drill/ledger"
	"drkit/drill/step"
	"drkit/internal/errext"
	"drkit/internal/service"
	"drkit/internal/store"
)

// gcOptions are those of drill gc.
type gcOptions struct {
	serviceOption
	outputOption
	Yes bool
}

func newDrillGC(s *streams, run func(context.Context, *streams, gcOptions) error) *cobra.Command {
	var o gcOptions
	c := &cobra.Command{
		Use:   "gc",
		Short: "Find what runs left behind, and remove it",
		Long: `Lists processes, Pods, locks and restored files that carry the label of a run which
has ended, or whose lock has expired. What belongs to a run that lives, is held, or was
cut off in the middle is listed and left: resume or abort it. What somebody adopted, or a
run keeps on purpose, stays: drkit drill adopt RUN --release removes it. What receives traffic is
never removed: a router of drkit.yaml lists it, or its engine computes. Where that is
not known it stays too, and so do the files of its run. Without --yes nothing is removed.

Changes of ended runs that are not proven to be taken back are listed too: abort tries
them again.

Status 3: something would have been removed and receives traffic, or may; 8: something
was not proven to be gone, or to be taken back.`,
		RunE: func(c *cobra.Command, _ []string) error { return run(c.Context(), s, o) },
	}
	o.serviceOption.addFlags(c)
	o.outputOption.addFlags(c)
	c.Flags().BoolVar(&o.Yes, "yes", false, "remove what is listed as removable")
	return c
}

// leftover is what a run left behind.
type leftover struct {
	Kind      string `json:"kind"` // process, pod, lock, files, change
	Run       string `json:"run"`
	Name      string `json:"name"`
	Where     string `json:"where"`
	Removable bool   `json:"removable"`
	Why       string `json:"why"`               // why it is left over, or why it stays
	Traffic   bool   `json:"traffic,omitempty"` // it stays because it receives traffic, or may
	Removed   bool   `json:"removed"`
	Error     string `json:"error,omitempty"`

	remove func(context.Context) error // proves its absence
}

func runDrillGC(ctx context.Context, s *streams, o gcOptions) error {
	if err := o.outputOption.check(); err != nil {
		return err
	}
	svc, err := o.load()
	if err != nil {
		return err
	}
	g := &collector{s: s, svc: svc, dir: svc.Run.Dir.Path, states: map[string]runState{}}
	found, failed := g.all(ctx)
	if o.Yes {
		failed = append(failed, collect(ctx, found)...)
	}
	if err := printLeftovers(s, o, found); err != nil {
		failed = append(failed, err)
	}
	return gcStatus(found, failed)
}

// collect removes what is removable, in order: engines come before the files that they
// read, which stay while one of their run is not proven to be gone.
func collect(ctx context.Context, found []leftover) (failed []error) {
	stuck := map[string]string{} // runs, and the engine that is still there
	for i := range found {
		x := &found[i]
		switch engine := stuck[x.Run]; {
		case !x.Removable:
			continue
		case x.Kind == "files" && engine != "":
			x.Removable, x.Why = false, "it stays: "+engine+" is not proven to be gone, and may read it"
			continue
		}
		if err := x.remove(ctx); err != nil {
			x.Error = err.Error()
			failed = append(failed, errext.WithStatus(fmt.Errorf("%s %s of run %s is not proven to be gone: %w", x.Kind, x.Name, x.Run, err), errext.Unclean))
			if x.Kind == "process" || x.Kind == "pod" {
				stuck[x.Run] = x.Kind + " " + x.Name
			}
			continue
		}
		x.Removed = true
	}
	return failed
}

// gcStatus is what all of it comes to: a look that failed hides no change that is not
// proven to be taken back, and nothing that stays under traffic.
func gcStatus(found []leftover, failed []error) error {
	all := []errext.Status{errext.StatusOf(errors.Join(failed...))}
	if slices.ContainsFunc(found, func(x leftover) bool { return x.Kind == "change" }) {
		all = append(all, errext.Unclean)
	}
	if slices.ContainsFunc(found, func(x leftover) bool { return x.Traffic }) {
		all = append(all, errext.Refused)
	}
	status := errext.Combine(all...)
	if len(failed) > 0 {
		return errext.WithStatus(errors.Join(failed...), status)
	}
	return conclude(status)
}

// collector looks for what runs left behind.
type collector struct {
	s      *streams
	svc    *service.Service
	dir    string
	states map[string]runState
	busy   map[string]string // runs, and an engine of each that stays
	blind  bool              // which processes there are is not known
}

// stays keeps an engine, and with it the files of its run.
func (g *collector) stays(x leftover, why string) leftover {
	if g.busy == nil {
		g.busy = map[string]string{}
	}
	g.busy[x.Run] = x.Kind + " " + x.Name
	x.Why = why
	return x
}

// serves keeps an engine that receives traffic, or may.
func (g *collector) serves(x leftover, why string) leftover {
	x.Traffic = true
	return g.stays(x, "it stays: "+why)
}

// runState is what a run is, as far as this folder knows.
type runState struct {
	over bool   // it has ended: what is left of it is a leftover
	why  string // else why its things stay
	run  *drill.Run
}

func (g *collector) state(run string) runState {
	if s, ok := g.states[run]; ok {
		return s
	}
	s := g.look(run)
	g.states[run] = s
	return s
}

func (g *collector) look(run string) runState {
	path := ledger.Path(g.dir, run)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return runState{over: true, why: "its run has no journal here any more"}
	}
	if ledger.Live(g.dir, run) {
		return runState{why: "its run is going on"}
	}
	r, err := ledger.Load(g.dir, run)
	switch {
	case err != nil:
		return runState{run: r, why: "its run's journal cannot be read: drkit drill abort " + run}
	case r.Held != nil:
		return runState{run: r, why: "its run is held: drkit drill resume " + run + ", or abort"}
	case r.Finished == nil:
		return runState{run: r, why: "its run was cut off: drkit drill abort " + run + " takes it back in order"}
	case len(r.Left()) > 0:
		return runState{run: r, why: "its run's clean-up is not proven: drkit drill abort " + run}
	}
	return runState{over: true, run: r, why: "its run has ended"}
}

// kept says why a run's change of a kind stays on purpose, "" when it does not.
func (s runState) kept(stepKind, side string) string {
	if s.run == nil {
		return ""
	}
	for _, c := range s.run.Changes {
		if c.Undo.Kind != stepKind || !strings.Contains(c.What, side) {
			continue
		}
		if c.Gone() {
			continue
		}
		if by := c.Owner(); by != "" {
			return adoptedBy(by, s.run.ID)
		}
		if why := c.Stays(); why != "" {
			return "it stays on purpose: " + why
		}
	}
	return ""
}

// adoptedBy says why something stays that a person took over, and what ends that.
func adoptedBy(who, run string) string {
	return "adopted by " + who + ": drkit drill adopt " + run + " --release removes it once it serves nobody"
}

func (g *collector) all(ctx context.Context) (found []leftover, failed []error) {
	for _, look := range []func(context.Context) ([]leftover, error){g.processes, g.pods, g.locks, g.files, g.changes} {
		more, err := look(ctx)
		found = append(found, more...)
		if err != nil {
			failed = append(failed, err)
		}
	}
	return found, failed
}

// processes are those of the process launcher.
func (g *collector) processes(ctx context.Context) ([]leftover, error) {
	l := newLauncher(g.svc)
	ours, others, err := l.Runs(ctx)
	if err != nil {
		g.blind = true
		return nil, err
	}
	var all []leftover
	for _, run := range ours {
		found, err := l.Find(ctx, run)
		if err != nil {
			g.blind = true
			return all, err
		}
		for _, r := range found {
			all = append(all, g.process(ctx, l, run, r))
		}
	}
	if len(others) > 0 {
		fmt.Fprintf(g.s.Err, "drkit: note: processes of %s of other folders run here: %s\n", countOf(len(others), "run", "runs"), strings.Join(others, ", "))
	}
	return all, nil
}

func (g *collector) process(ctx context.Context, l *process.Launcher, run string, r drill.Replica) leftover {
	x := leftover{Kind: "process", Run: run, Name: r.ID(), Where: r.Endpoint()}
	x.remove = func(ctx context.Context) error {
		args, err := json.Marshal(processArgs{l.Dir, run, r.ID()})
		if err != nil {
			return err
		}
		return stopProcess(ctx, args)
	}
	return g.judgeReplica(ctx, x, r, l.AdoptedBy(run, r.ID()), undoProcess)
}

// judgeReplica decides about something that runs.
func (g *collector) judgeReplica(ctx context.Context, x leftover, r drill.Replica, adopted, undo string) leftover {
	state := g.state(x.Run)
	x.Why = state.why
	switch {
	case adopted != "":
		return g.stays(x, adoptedBy(adopted, x.Run))
	case !state.over:
	case state.kept(undo, x.Name) != "":
		x.Why = state.kept(undo, x.Name)
	default:
		if why := g.receives(ctx, r); why != "" {
			return g.serves(x, why)
		}
		x.Removable = true
	}
	return x
}

// pods are those of every region whose canary is launched on Kubernetes.
func (g *collector) pods(ctx context.Context) ([]leftover, error) {
	var all []leftover
	var errs []error
	seen := map[string]bool{}
	for i := range g.svc.Regions {
		c := g.svc.Regions[i].Canary
		if key := c.Context + "/" + c.Namespace; c.Launcher != "kubernetes" || seen[key] {
			continue
		} else {
			seen[key] = true
		}
		l, err := kubernetes.New(kubernetes.Options{Context: c.Context, Namespace: c.Namespace})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		found, err := l.Leftovers(ctx)
		errs = append(errs, err)
		for _, r := range found {
			all = append(all, g.pod(ctx, r))
		}
	}
	return all, errors.Join(errs...)
}

func (g *collector) pod(ctx context.Context, r *kubernetes.Replica) leftover {
	x := leftover{Kind: "pod", Run: r.RunID(), Name: r.ID(), Where: r.Pod(), remove: r.Stop}
	_, err := os.Stat(ledger.Path(g.dir, r.RunID()))
	foreign := errors.Is(err, fs.ErrNotExist)
	switch {
	case r.AdoptedBy() != "":
		x.Why = adoptedBy(r.AdoptedBy(), x.Run)
		return x
	case foreign && (r.Expires().IsZero() || now().Before(r.Expires())):
		x.Why = "its run has no journal here, and it has not expired: drkit drill abort where it ran"
		return x
	}
	if why := routedBy(ctx, r); why != "" {
		return g.serves(x, why)
	}
	return g.judgeReplica(ctx, x, r, "", kubernetes.UndoKind)
}

// routedBy says what inside the cluster routes requests to a pod, or that this is not
// known; "" when nothing does.
func routedBy(ctx context.Context, r *kubernetes.Replica) string {
	by, err := r.RoutedBy(ctx)
	switch {
	case err != nil:
		return "whether something routes to it is not known: " + err.Error()
	case by != "":
		return "EndpointSlice " + by + " sends requests to it"
	}
	return ""
}

// locks are those of drills in each target's state.
func (g *collector) locks(ctx context.Context) ([]leftover, error) {
	var all []leftover
	var errs []error
	for _, r := range g.svc.Targets() {
		if r.State.IsZero() {
			continue
		}
		state, err := openStore(r.State)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		key := step.LockKey(r.Name, g.svc.Metadata.Name)
		h, err := ledger.HolderOf(ctx, state, key)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("reading the lock %s of region %s: %w", key, r.Name, err))
			continue
		}
		all = append(all, g.lock(r, state, key, h))
	}
	return all, errors.Join(errs...)
}

func (g *collector) lock(r *service.Region, state store.ReadWriter, key string, h ledger.Holder) leftover {
	x := leftover{Kind: "lock", Run: h.Run, Name: key, Where: r.State.String(), remove: func(ctx context.Context) error { return ledger.Unlock(ctx, state, key, h.Run) }}
	_, err := os.Stat(ledger.Path(g.dir, h.Run))
	state2 := g.state(h.Run)
	switch foreign := errors.Is(err, fs.ErrNotExist); {
	case foreign && now().Before(h.Expires):
		x.Why = "its run, taken by " + h.By + ", has no journal here, and the lock holds until " + h.Expires.UTC().Format(time.RFC3339)
	case foreign:
		x.Why, x.Removable = "it expired at "+h.Expires.UTC().Format(time.RFC3339)+"; its run, taken by "+h.By+", has no journal here", true
	default:
		x.Why, x.Removable = state2.why, state2.over
	}
	return x
}

// files are the releases that runs restored into their folders.
func (g *collector) files(context.Context) ([]leftover, error) {
	folders, err := filepath.Glob(filepath.Join(g.dir, "runs", "*", "restored", "*"))
	if err != nil {
		return nil, err
	}
	var all []leftover
	for _, folder := range folders {
		run := filepath.Base(filepath.Dir(filepath.Dir(folder)))
		state, side := g.state(run), filepath.Base(folder)
		x := leftover{Kind: "files", Run: run, Name: side, Where: folder, Why: state.why, Removable: state.over}
		if why := state.kept(step.UndoFiles, side); why != "" && state.over {
			x.Why, x.Removable = why, false
		}
		switch engine := g.busy[run]; {
		case !x.Removable:
		case engine != "":
			x.Why, x.Removable = "it stays: "+engine+" stays, and may read it", false
		case g.blind:
			x.Why, x.Removable = "it stays: whether an engine of its run reads it is not known", false
		}
		x.remove = func(ctx context.Context) error {
			args, err := json.Marshal(step.FilesArgs{Dir: folder, Run: run})
			if err != nil {
				return err
			}
			return undos()[step.UndoFiles](ctx, args)
		}
		all = append(all, x)
	}
	return all, nil
}

// changes are those of ended runs that nobody has proven to be taken back: an undo may
// need what gc does not have.
func (g *collector) changes(context.Context) ([]leftover, error) {
	ids, err := ledger.List(g.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all []leftover
	for _, id := range ids {
		state := g.state(id)
		if state.run == nil || state.run.Finished == nil {
			continue // it goes on, or drill status says how
		}
		for _, c := range state.run.Left() {
			all = append(all, leftover{Kind: "change", Run: id, Name: c.What, Why: "it is not proven to be taken back: drkit drill abort " + id})
		}
	}
	return all, err
}

func printLeftovers(s *streams, o gcOptions, found []leftover) error {
	if o.json() {
		if found == nil {
			found = []leftover{}
		}
		return writeJSON(s, struct {
			Schema    string     `json:"schema"`
			Leftovers []leftover `json:"leftovers"`
		}{"drkit.drill-gc/1.0", found})
	}
	removable := 0
	for _, x := range found {
		word := "keep   "
		switch {
		case x.Removed:
			word = "removed"
		case x.Error != "":
			word = "FAILED "
		case x.Removable:
			word = "left   "
			removable++
		}
		printLine(s.Out, "%s  %-7s %s  run %s: %s", word, x.Kind, strings.TrimSpace(x.Name+" "+x.Where), x.Run, x.Why)
	}
	switch {
	case len(found) == 0:
		printLine(s.Out, "nothing is left of any run")
	case removable > 0 && !o.Yes:
		printLine(s.Out, "%s can be removed: give --yes", countOf(removable, "leftover", "leftovers"))
	}
	return nil
}
