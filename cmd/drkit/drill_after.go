package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"drkit/drill"
	"drkit/drill/ledger"
	drillreport "drkit/drill/report"
	"drkit/drill/tui"
	"drkit/internal/errext"
	"drkit/internal/service"
)

// afterOptions are those of the commands that look at a run that was made.
type afterOptions struct {
	serviceOption
	outputOption
	progressOption
	ledgerOption
	Run     string
	Dir     string
	Speed   float64
	Reports []string
	Cutover bool // abort: take a cutover back that stays on purpose
}

func (o *afterOptions) addFlags(c *cobra.Command) {
	o.serviceOption.addFlags(c)
	o.outputOption.addFlags(c)
	c.Flags().StringVar(&o.Dir, "run-dir", "", "folder of the runs (default: run.dir of drkit.yaml)")
	c.Flags().StringVar(&o.Ledger, "ledger", "", "ledger of the runs, a folder or a bucket (default: run.ledger of drkit.yaml)")
}

// runs is the folder of the runs: the flag, else drkit.yaml's, else .drkit.
func (o *afterOptions) runs() (string, error) {
	if o.Dir != "" {
		return o.Dir, nil
	}
	svc, err := service.Load(o.File)
	if errors.Is(err, fs.ErrNotExist) {
		return ".drkit", nil
	}
	if err != nil {
		return "", err
	}
	return svc.Run.Dir.Path, nil
}

// which is the run that was named, else the newest.
func (o *afterOptions) which() (dir, run string, err error) {
	if dir, err = o.runs(); err != nil {
		return "", "", err
	}
	if o.Run != "" {
		return dir, o.Run, nil
	}
	run, err = ledger.Latest(dir)
	if err != nil {
		return "", "", errext.WithHint(errext.WithStatus(fmt.Errorf("finding the newest run in %s: %w", dir, err), errext.Usage), "name a run, or the folder with --run-dir")
	}
	return dir, run, nil
}

// unfinished is the run that was named, else the newest that has not ended clean
// or cannot be read, else the newest: after a kill -9 somebody may have tried
// again, and that run was refused and has ended.
func (o *afterOptions) unfinished() (dir, run string, err error) {
	if dir, run, err = o.which(); err != nil || o.Run != "" {
		return dir, run, err
	}
	all, err := ledger.List(dir)
	for _, id := range slices.Backward(all) {
		r, err := ledger.Load(dir, id)
		if errors.Is(err, ledger.ErrCopied) {
			continue // it is no run
		}
		if err != nil || r.Finished == nil || len(r.Left()) > 0 {
			return dir, id, nil
		}
	}
	return dir, run, err
}

func newDrillAbort(s *streams, run func(context.Context, *streams, afterOptions) error) *cobra.Command {
	var o afterOptions
	c := &cobra.Command{
		Use:   "abort [RUN]",
		Short: "Take back what a run changed whose process is gone",
		Long: `Reads the journal of a run that was killed, takes back every change that is not
proven to be taken back, newest first, proves it, and closes the journal. It may be
repeated. Without a name it takes the newest run that has not ended clean, else the
newest. A run whose process still lives is refused: interrupt it in its own terminal.

A run that has ended keeps its verdict. What is taken back afterwards is journaled as a
record of its own, and reports and evidence say when and by whom.

The cutover of an emergency stays, with the engine that it sends to: the region that it
would go back to is gone. --undo-cutover takes that back too, once the engines that it
would send to serve the release again; until then the routers go on as they are (status
8). A run that recovered is not taken back: production returns by the playbook failback.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.Run = args[0]
			}
			return run(c.Context(), s, o)
		},
	}
	o.addFlags(c)
	c.Flags().BoolVar(&o.Cutover, "undo-cutover", false, "also take back a cutover that stays on purpose, with what it rests on")
	return c
}

func runDrillAbort(ctx context.Context, s *streams, o afterOptions) error {
	if err := o.outputOption.check(); err != nil {
		return err
	}
	dir, id, err := o.unfinished()
	if err != nil {
		return err
	}
	journal, err := ledger.Open(dir, id, s.Redactor.Bytes)
	if err != nil {
		return err
	}
	defer journal.Close()
	if n := journal.Cut(); n > 0 {
		fmt.Fprintf(s.Err, "a half line of %d bytes at the journal's end was cut off\n", n)
	}
	if empty(journal.Path()) {
		return o.close(ctx, s, dir, id)
	}
	before := lastEvent(journal)
	abort := drill.Abort
	if o.Cutover {
		if err := undoable(journal); err != nil {
			return err
		}
		abort = drill.AbortAll
	}
	run, unproven := abort(ctx, journal, operator(), undos(), drillreport.NewPlain(s.Err))
	if run.Finished == nil || unproven != nil && errext.StatusOf(unproven) != errext.Unclean {
		return unproven
	}
	if err := errors.Join(writeReports(s, run, ledger.Dir(dir, id), nil, o.json()), o.close(ctx, s, dir, id)); err != nil {
		return errors.Join(unproven, err)
	}
	for _, c := range run.Kept() {
		fmt.Fprintf(s.Err, "stays: %s: %s\n", c.What, c.Stays())
	}
	if unproven != nil {
		return unproven
	}
	if left := run.Left(); len(left) > 0 {
		return conclude(errext.Unclean)
	}
	if run.Seq == before {
		fmt.Fprintf(s.Err, "run %s had ended clean: nothing was left to take back\n", id)
	}
	return nil
}

// undoable refuses to take back the cutover of a run that succeeded: its verdict would
// be lost, and nothing would look at the region that takes over again.
func undoable(j *ledger.Journal) error {
	run, err := drill.Replay(j.Events())
	if err != nil {
		return err
	}
	if f := run.Finished; f != nil && (f.Verdict == drill.Recovered || f.Verdict == drill.ObjectiveMissed) {
		return errext.WithHint(errext.WithStatus(fmt.Errorf("run %s has moved production (%s): its cutover is not taken back blindly", run.ID, f.Verdict), errext.Refused),
			"drkit drill run --playbook failback puts the source through every check first")
	}
	return nil
}

// close writes the evidence of a run and closes it in the ledger, after everything
// is taken back: no trouble with a ledger may keep a person from that.
func (o *afterOptions) close(ctx context.Context, s *streams, dir, id string) error {
	chain, err := o.ledgerOption.chain(s, o.File, dir)
	if err != nil {
		return errext.WithStatus(err, errext.Evidence)
	}
	return seal(ctx, s, chain, dir, id)
}

// empty says that a run was killed before its journal said anything.
func empty(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Size() == 0
}

// lastEvent is the number of a journal's last event; 0 where it cannot be read.
func lastEvent(j *ledger.Journal) uint64 {
	run, err := drill.Replay(j.Events())
	if err != nil {
		return 0
	}
	return run.Seq
}

func newDrillReplay(s *streams, run func(context.Context, *streams, afterOptions) error) *cobra.Command {
	var o afterOptions
	c := &cobra.Command{
		Use:   "replay [RUN|JOURNAL]",
		Short: "Show a run again from its journal",
		Long: `Folds a journal and shows the same screen and the same report as the run did. A
journal that contradicts itself is refused (status 6).`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.Run = args[0]
			}
			return run(c.Context(), s, o)
		},
	}
	o.addFlags(c)
	o.progressOption.addFlags(c)
	c.Flags().StringArrayVar(&o.Reports, "report", nil, "also write the result: markdown=PATH, html=PATH, json=PATH or junit=PATH (repeatable)")
	c.Flags().Float64Var(&o.Speed, "speed", 0, "play it on stderr, as --progress says, so many times faster than it was; 0 prints the report alone")
	return c
}

// plays refuses a way to show progress where nothing is played: it would be ignored.
func (o afterOptions) plays() error {
	if o.Speed > 0 || o.Progress == "auto" || o.Progress == "quiet" {
		return nil
	}
	return usage(fmt.Errorf("--progress %s shows a run that is played, and without --speed none is", o.Progress), "give --speed 1 to play it as fast as it was, or leave --progress away for the report alone")
}

func runDrillReplay(ctx context.Context, s *streams, o afterOptions) error {
	if err := o.outputOption.check(); err != nil {
		return err
	}
	mode, err := o.mode(s)
	if err != nil {
		return err
	}
	if err := o.plays(); err != nil {
		return err
	}
	reports, err := parseReports(o.Reports)
	if err != nil {
		return err
	}
	path, err := o.journalPath()
	if err != nil {
		return err
	}
	run, err := ledger.LoadFile(path)
	if err != nil {
		return err
	}
	if err := drill.Verify(run); err != nil {
		return err
	}
	if o.Speed > 0 {
		if err := play(ctx, s, mode, path, o.Speed); err != nil {
			return err
		}
	}
	format := "markdown"
	if o.json() {
		format = "json"
	}
	if err := errors.Join(drillFormats[format](s.Out, run), writeEach(s, run, reports)); err != nil {
		return err
	}
	if run.Finished == nil {
		return errext.WithHint(fmt.Errorf("run %s has not ended", run.ID), "drkit drill abort "+run.ID+" takes back what it changed, if its process is gone")
	}
	return nil
}

// journalPath takes a run's name or a journal's file.
func (o *afterOptions) journalPath() (string, error) {
	if info, err := os.Stat(o.Run); o.Run != "" && err == nil && info.Mode().IsRegular() {
		return o.Run, nil
	}
	dir, id, err := o.which()
	if err != nil {
		return "", err
	}
	return ledger.Path(dir, id), nil
}

func play(ctx context.Context, s *streams, mode, path string, speed float64) error {
	if mode == "tty" {
		return tui.Replay(ctx, ledger.Read(path), speed, tui.Options{Input: os.Stdin, Output: s.RawOut, NoColor: s.Getenv("NO_COLOR") != "", Redact: s.Redactor})
	}
	plain, run := drillreport.NewPlain(s.Err), &drill.Run{}
	for e, err := range ledger.Read(path) {
		if err == nil {
			err = run.Apply(e)
		}
		if err != nil {
			return err
		}
		if err := plain.Event(e, run); err != nil {
			return err
		}
	}
	return nil
}
