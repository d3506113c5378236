package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"drkit/drill"
	"drkit/drill/approval"
	"drkit/drill/launch/process"
	"drkit/drill/ledger"
	drillreport "drkit/drill/report"
	"drkit/drill/step"
	"drkit/drill/traffic"
	"drkit/drill/tui"
	"drkit/internal/errext"
	"drkit/internal/service"
	"drkit/internal/store"
	"drkit/internal/store/dir"
	"drkit/manifest/release"
	"drkit/playbooks"
)

// drillOptions are those of drill run.
type drillOptions struct {
	serviceOption
	outputOption
	progressOption
	liveOptions
	DryRun                    bool
	Release, Target, Playbook string
	Demo                      bool
	Reports                   []string
	Scenario                  drill.Scenario
	Metrics                   string
}

func newDrillRun(s *streams, run func(context.Context, *streams, drillOptions) error) *cobra.Command {
	var o drillOptions
	c := &cobra.Command{
		Use:   "run",
		Short: "Rehearse the recovery of a service against the clock",
		Long: `Boots a canary from the target region's copy alone, compares its answers with the
recorded probes, moves a rehearsal router over to it while traffic runs, and times
all of it against the objective. The source region is never written to, and without
--live production's routers are not touched. Everything that the drill starts is taken
back at the end, on failure and on Ctrl-C; after a kill -9, drkit drill abort does it
from the journal. With --live and a playbook of mode planned, emergency or failback,
production is moved, and stays where it was moved to, unless a planned move or a
failback turns red or is cut short: that goes back.`,
		Example: `  drkit drill run
  drkit drill run --target eu-west-1 --trigger scheduled --report html=drill.html`,
		RunE: func(c *cobra.Command, _ []string) error { return run(c.Context(), s, o) },
	}
	o.serviceOption.addFlags(c)
	o.outputOption.addFlags(c)
	o.progressOption.addFlags(c)
	o.addPlan(c)
	o.liveOptions.addFlags(c)
	c.Flags().BoolVar(&o.DryRun, "dry-run", false, "make every check and print every call that would change something; nothing is changed or written")
	c.Flags().StringArrayVar(&o.Reports, "report", nil, "also write the result: markdown=PATH, html=PATH, json=PATH or junit=PATH (repeatable)")
	c.Flags().StringVar(&o.Metrics, "metrics", "", "also write the state of all runs for Prometheus' textfile collector to this file")
	o.addScenario(c)
	return c
}

// addPlan adds what decides about the plan.
func (o *drillOptions) addPlan(c *cobra.Command) {
	c.Flags().StringVar(&o.Release, "release", "", "drill this release instead of the published one")
	c.Flags().StringVar(&o.Target, "target", "", "region that takes over (needed when there are several)")
	c.Flags().StringVar(&o.Playbook, "playbook", "", "built-in name or file (default: that of drkit.yaml)")
	c.Flags().BoolVar(&o.Demo, "demo", false, "label the run a demonstration: the stand-in engine and the reference router are accepted; its verdict is the demonstration's, and proves nothing of production")
}

// addScenario adds what evidence says of the occasion.
func (o *drillOptions) addScenario(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.Scenario.ID, "scenario", "", "for the evidence: which scenario of yours this drills")
	f.StringVar(&o.Scenario.Severity, "severity", "", "for the evidence: how severe it is, in your own words")
	f.StringVar(&o.Scenario.Trigger, "trigger", "", "for the evidence: why now (scheduled, change, …)")
	f.StringVar(&o.Scenario.ChangeRef, "change-ref", "", "for the evidence: the ticket of the change that this follows")
}

// begin checks the flags that a run and its resumption share: what cannot be shown,
// written or signed at the end is told before the drill.
func (o *drillOptions) begin(s *streams) (mode string, reports []drillReport, err error) {
	if err = o.outputOption.check(); err != nil {
		return
	}
	if mode, err = o.mode(s); err != nil {
		return
	}
	if reports, err = parseReports(o.Reports); err != nil {
		return
	}
	if err = checkFile("--metrics", o.Metrics, metricsMark); err != nil {
		return
	}
	_, err = o.signer(s)
	return
}

func runDrill(ctx context.Context, s *streams, o drillOptions) error {
	mode, reports, err := o.begin(s)
	if err != nil {
		return err
	}
	d, err := newDrillPlan(o)
	if err != nil {
		return err
	}
	if err := d.liveFlags(); err != nil {
		return err
	}
	if d.target.state != nil { // a tabletop has none
		if err := stateApart(ctx, s, d.target.region); err != nil {
			return err
		}
	}
	if o.DryRun {
		return d.dryRun(ctx, s)
	}
	run, err := d.run(ctx, s, mode)
	return d.conclude(ctx, s, run, reports, err)
}

// conclude writes what is to be written of a run that has ended, and gives its status.
func (d *drillPlan) conclude(ctx context.Context, s *streams, run *drill.Run, reports []drillReport, err error) error {
	if run == nil || run.Finished == nil {
		return err
	}
	status := errext.Status(run.Finished.Status)
	if lost := writeReports(s, run, d.dir, reports, d.o.json()); lost != nil {
		printError(s, lost)
		status = errext.Combine(errext.StatusOf(lost), status)
	}
	if failed := d.metrics(ctx, s); failed != nil {
		printError(s, failed)
		status = errext.Combine(errext.Failed, status)
	}
	if err != nil {
		return errors.Join(err, conclude(status))
	}
	return conclude(status)
}

// metrics writes the state of all runs, this one among them.
func (d *drillPlan) metrics(ctx context.Context, s *streams) error {
	if d.o.Metrics == "" {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	chain, err := ledgerOf(s, d.svc)
	if err != nil {
		return err
	}
	p, err := readPast(ctx, s, chain, d.svc.Run.Dir.Path)
	if err != nil {
		return err
	}
	today := drillreport.Today{Now: now()}
	if err := compareWith(ctx, &today, d.svc); err != nil {
		return err
	}
	return writeDrillMetrics(d.o.Metrics, drillreport.NewStatus(p.history, today), p.audit)
}

// drillPlan is a drill before it starts.
type drillPlan struct {
	o        drillOptions
	svc      *service.Service
	playbook playbooks.Playbook
	source   copyOf
	target   copyOf
	id, dir  string
	resumed  bool // the run of that id goes on
	launcher *process.Launcher
	policy   approval.Policy
	word     *keyWord // nil: the screen has no key for it
	// weigh judges the approvals of a run that is in the ledger; nil: none is.
	weigh    func(context.Context, string) (approval.Tally, error)
	deployed struct{ source, target *step.Deployed } // nil: its canary is a process
	began    time.Time

	production step.Production // empty unless the mode is live
	words      *step.People    // what people said before it goes on; nil: nothing
}

func newDrillPlan(o drillOptions) (*drillPlan, error) {
	svc, err := o.load()
	if err != nil {
		return nil, err
	}
	d := &drillPlan{o: o, svc: svc, launcher: newLauncher(svc), id: ledger.NewID(now()), began: now().UTC()}
	d.dir = ledger.Dir(svc.Run.Dir.Path, d.id)
	if d.policy, err = policyOf(svc); err != nil {
		return nil, err
	}
	target, err := chooseTarget(svc, o.Target)
	if err != nil {
		return nil, err
	}
	name := o.Playbook
	if name == "" {
		name = svc.Playbook
		if file, ok := svc.PlaybookFile(); ok {
			name = file
		}
	}
	if d.playbook, err = loadPlaybook(name); err != nil {
		return nil, err
	}
	return d, d.open(target)
}

// open opens what the mode of the playbook works on. A tabletop works on nothing.
func (d *drillPlan) open(target *service.Region) (err error) {
	d.source, d.target = copyOf{region: d.svc.Source()}, copyOf{region: target}
	if d.playbook.Mode == drill.ModeTabletop {
		return nil
	}
	if drill.Live(d.playbook.Mode) {
		if d.production, err = production(d.svc, target); err != nil {
			return err
		}
	}
	if err := drillable(d.svc, d.playbook.Mode, d.svc.Source(), target); err != nil {
		return err
	}
	if d.source, err = openCopy(d.svc.Source()); err != nil {
		return err
	}
	if d.target, err = openCopy(target); err != nil {
		return err
	}
	if d.deployed.source, err = deployed(d.svc, d.svc.Source()); err != nil {
		return err
	}
	d.deployed.target, err = deployed(d.svc, target)
	return err
}

func chooseTarget(svc *service.Service, name string) (*service.Region, error) {
	targets := svc.Targets()
	if name == "" && len(targets) == 1 {
		return targets[0], nil
	}
	var names []string
	for _, t := range targets {
		if t.Name == name {
			return t, nil
		}
		names = append(names, t.Name)
	}
	if len(targets) == 0 {
		return nil, usage(fmt.Errorf("%s has no target region", svc.File), "add a region with role: target")
	}
	if name == "" {
		return nil, usage(errors.New("there are several target regions"), "name one with --target: "+strings.Join(names, ", "))
	}
	return nil, usage(fmt.Errorf("%s has no target region %q", svc.File, name), "the targets are "+strings.Join(names, ", "))
}

// run starts the journal, the display and the runner, and returns the folded run.
func (d *drillPlan) run(ctx context.Context, s *streams, mode string) (*drill.Run, error) {
	start := d.start(ctx)
	journal, err := ledger.Create(d.svc.Run.Dir.Path, d.id, s.Redactor.Bytes)
	if err != nil {
		return nil, err
	}
	defer journal.Close()
	d.context(ctx, &start)
	d.addPeople(ctx, s, &start)
	chain, err := d.announceLive(ctx, s, &start)
	if err != nil {
		return nil, errors.Join(err, d.withdraw(ctx, s, chain, journal))
	}
	d.weigh = d.tally(chain, start.PlanHash) // a run that goes on keeps the approvals that it was begun with
	d.weighAgain(ctx, &start)
	return d.drive(ctx, s, mode, start, journal, chain, func(ctx context.Context, r *drill.Runner) (*drill.Run, error) {
		return r.Run(ctx, d.id, start)
	})
}

// drive runs or resumes with the display, the kill switch and the signals around it,
// and seals what has ended.
func (d *drillPlan) drive(ctx context.Context, s *streams, mode string, start drill.RunStarted, journal *ledger.Journal, chain *ledger.Chain,
	begin func(context.Context, *drill.Runner) (*drill.Run, error)) (*drill.Run, error) {
	world := d.world(start)
	people := cmp.Or(d.words, &step.People{})
	people.Here = mode == "tty"
	world.Redact, world.People = s.Redactor, people
	if mode == "tty" && d.playbook.Mode == playbooks.Emergency {
		d.word = &keyWord{}
	}
	if len(d.policy.People) > 0 || d.o.SelfApprove != "" || d.word != nil {
		world.Approvals = d.tally(chain, start.PlanHash)
	}
	defer world.Close()
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	leave, left := leaving(ctx)
	pause, paused := pausing()
	display, closeDisplay := newDisplay(ctx, s, mode, func() { abort(signalCause{syscall.SIGINT}) }, leave, func(o *tui.Options) {
		o.Seals, o.Pause, o.Earlier = true, pause, earlierSteps(d.svc.Run.Dir.Path, start)
		if d.word != nil {
			o.Approve = func(string) { d.word.give(operator()) }
		}
		o.Ack = func(id string) { people.Give(id, step.Ack{By: operator(), Via: "screen"}) }
	})
	if mode == "tty" { // the screen of a run that goes on begins with what was
		for e, err := range journal.Events() {
			if err == nil {
				err = display.Event(e, nil)
			}
			if err != nil {
				closeDisplay(nil)
				return nil, err
			}
		}
	}
	runner := &drill.Runner{Playbook: d.playbook, Handlers: []drill.Handler{journal, display}, Steps: step.Kinds(world), Checks: d.checks(start), Undo: undos(), Leave: left, Pause: paused, Stop: d.killSwitch}
	run, err := begin(causeWithStatus(ctx), runner)
	calm, tell := s.aside() // sealed before the person has left the screen, told afterwards
	if err == nil && run.Finished != nil {
		if err = seal(ctx, calm, chain, d.svc.Run.Dir.Path, d.id); err != nil { // reports must not say more than the ledger does
			lost := drill.EvidenceLost(*run.Finished, err)
			run.Finished = &lost
		}
		err = errors.Join(err, d.signEnd(calm))
	}
	if screen, ok := display.(*tui.Screen); ok && run != nil && run.Finished != nil {
		screen.Sealed(*run.Finished)
	}
	closeDisplay(run)
	tell()
	return run, err
}

// withdraw ends a run whose announcement failed. Its record may be in the ledger all
// the same, as after an interrupt in the middle of the request: then it is closed
// there, and its empty journal stays.
func (d *drillPlan) withdraw(ctx context.Context, s *streams, chain *ledger.Chain, j *ledger.Journal) error {
	if chain != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sealTime)
		defer cancel()
		if scan, err := chain.Scan(ctx); err == nil && len(scan.Of(d.id)) > 0 {
			return errors.Join(j.Close(), seal(ctx, s, chain, d.svc.Run.Dir.Path, d.id))
		}
	}
	return d.forget(j)
}

// forget removes the folder of a run that never was: its journal holds nothing, and
// the ledger does not know it.
func (d *drillPlan) forget(j *ledger.Journal) error {
	return errors.Join(j.Close(), os.Remove(j.Path()), os.Remove(d.dir))
}

// leaving makes the channel that ends a run at once, without undo: closed by the
// second signal, or by the screen's key.
func leaving(ctx context.Context) (leave func(), left <-chan struct{}) {
	c := make(chan struct{})
	leave = sync.OnceFunc(func() { close(c) })
	go func() {
		select {
		case <-secondSignal(ctx):
			leave()
		case <-c:
		}
	}()
	return leave, c
}

// causeWithStatus gives the runner the exit status of a signal in its own terms.
func causeWithStatus(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(parent))
	context.AfterFunc(parent, func() {
		cause := context.Cause(parent)
		if sig, ok := errors.AsType[signalCause](cause); ok {
			cause = errext.WithStatus(cause, sig.status())
		}
		cancel(cause)
	})
	return ctx
}

func (d *drillPlan) start(ctx context.Context) drill.RunStarted {
	o := d.svc.Objectives
	start := drill.RunStarted{
		Service: d.svc.Metadata.Name, Mode: d.playbook.Mode, Demo: d.o.Demo, Playbook: d.playbook.Name, Release: d.releaseID(ctx),
		Source: d.source.region.Name, Target: d.target.region.Name, Tool: toolVersion(), WorkDir: d.dir,
		Objectives: drill.Objectives{RTO: o.RTO, TTFTP99: o.TTFTP99, ErrorRate: o.ErrorRate, MustProve: o.MustProve,
			Steady: drill.Steady{Windows: o.Steady.Windows, Window: o.Steady.Window, MinRequests: o.Steady.MinRequests, Load: o.Steady.Load},
			Soak:   o.Soak, CacheWarm: o.CacheWarm},
	}
	if live(d.playbook) {
		start.Consent = d.policy.Consent()
	}
	start.PlaybookFile = d.playbookFile()
	start.PlanHash = d.hash(start)
	return start
}

// playbookFile is the file of a playbook that was named on the command line, "" for one
// that drkit.yaml names or that is built in.
func (d *drillPlan) playbookFile() string {
	if d.o.Playbook == "" || slices.Contains(playbooks.Names(), d.o.Playbook) {
		return ""
	}
	file, err := filepath.Abs(d.o.Playbook)
	if err != nil {
		return ""
	}
	return file
}

// releaseID is what the target publishes; preflight says it when that cannot be read.
func (d *drillPlan) releaseID(ctx context.Context) string {
	if d.o.Release != "" || d.target.state == nil {
		return d.o.Release
	}
	c, err := release.ReadCurrent(ctx, d.target.state, d.target.region.Name, d.svc.Metadata.Name)
	if err != nil {
		return ""
	}
	return c.Release
}

func (d *drillPlan) world(start drill.RunStarted) *step.World {
	w := &step.World{
		Service: d.svc.Metadata.Name, Release: d.o.Release, Served: d.served(), WorkDir: d.dir, By: operator(),
		Source: stepRegion(d.source), Target: stepRegion(d.target),
		Launcher: d.launcher, UndoLaunch: undoLaunch(d.launcher), Validate: process.Validate,
		OpenDir: func(path string) store.ReadWriter { return dir.Plain(path) },
		Self:    selfReach(), NewRouter: newRouter, Router: d.router(), Objectives: start.Objectives, Waivers: waivers(d.svc), HTTP: httpClient(),
		Measured: d.earlierStart, Serving: servingIn(d.source.region, d.target.region), Back: step.Back(d.playbook), Production: d.production,
		Mode: d.playbook.Mode, Dir: d.svc.Dir, Web: webClient(), UndoCommand: undoLaunch(d.launcher),
	}
	if d.resumed {
		w.Resumed = d.id
	}
	w.Source.Deployed, w.Target.Deployed = d.deployed.source, d.deployed.target
	for _, a := range d.svc.Model.Adapters {
		w.Adapters = append(w.Adapters, a.Name)
	}
	for _, c := range d.svc.Traffic {
		w.Classes = append(w.Classes, traffic.Class{Name: c.Name, Residency: c.Residency, Share: c.Share, Shape: traffic.Shape(c.Shape)})
	}
	return w
}

func stepRegion(c copyOf) step.Region {
	return step.Region{Name: c.region.Name, Residency: c.region.Residency, Store: c.store, State: c.state,
		Location: c.region.Store.URL(), StateLocation: c.region.State.URL(), Command: c.region.Canary.Command,
		Addresses: addressesOf(c.region, os.Getenv)}
}

// served is the model name that canaries serve and traffic asks for: the one in
// the engine's arguments, else the service's own name.
func (d *drillPlan) served() string {
	args := slices.Concat(d.svc.Engine.Args, d.target.region.Canary.Command)
	for i, a := range args {
		if v, ok := strings.CutPrefix(a, "--served-model-name="); ok && !strings.Contains(v, "{{") {
			return v
		}
		if a == "--served-model-name" && i+1 < len(args) && !strings.Contains(args[i+1], "{{") {
			return args[i+1]
		}
	}
	return d.svc.Metadata.Name
}

// router is the rehearsal router's command: the driver's own when none is given.
func (d *drillPlan) router() step.RouterCommand {
	r := d.svc.Rehearsal.Router
	command := r.Command
	if len(command) == 0 {
		command = defaultRouterCommand(r.Driver)
	}
	return step.RouterCommand{Driver: r.Driver, Command: command}
}

func defaultRouterCommand(driver string) []string {
	if driver != "reference" {
		return []string{"vllm-router", "--host", "127.0.0.1", "--port", "{{port}}", "--prometheus-host", "127.0.0.1", "--prometheus-port", "{{metrics_port}}",
			"--policy", "cache_aware", "--worker-urls", "{{worker}}"}
	}
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	return []string{self, "route", "serve", "--port", "{{port}}", "--worker", "{{worker}}={{worker_region}}:{{worker_residency}}"}
}

// operator is who runs the drill, as the machine knows it: asserted, not proven.
func operator() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return name + "@" + host
}
