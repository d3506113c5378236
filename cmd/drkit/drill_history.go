package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"drkit/drill"
	"drkit/drill/evidence"
	"drkit/drill/ledger"
	drillreport "drkit/drill/report"
	"drkit/drill/step"
	"drkit/internal/errext"
	"drkit/internal/service"
	"drkit/internal/store"
	"drkit/manifest/release"
)

// historyOptions are those of drill history.
type historyOptions struct {
	afterOptions
	FailOnRegression bool
}

func newDrillHistory(s *streams, run func(context.Context, *streams, historyOptions) error) *cobra.Command {
	var o historyOptions
	c := &cobra.Command{
		Use:   "history",
		Short: "List the runs of each kind, with what got slower",
		Long: `Reads the journals of all runs and lists them by kind: service, regions, mode, and
whether it was a demonstration. Each segment of the clock is compared with the median
of the same segment in earlier runs of that kind that recovered; from three of them on,
one that took a fifth and a second longer is a regression. A run whose evidence does
not hold is marked, and compared with nothing.`,
		RunE: func(c *cobra.Command, _ []string) error { return run(c.Context(), s, o) },
	}
	o.addFlags(c)
	c.Flags().BoolVar(&o.FailOnRegression, "fail-on-regression", false, "status 4 when the newest run of a kind has a regression")
	return c
}

func runDrillHistory(ctx context.Context, s *streams, o historyOptions) error {
	if err := o.outputOption.check(); err != nil {
		return err
	}
	past, err := o.past(ctx, s)
	if err != nil {
		return err
	}
	if o.json() {
		err = writeJSON(s, past.history)
	} else {
		err = printHistory(s.Out, past.history)
	}
	if err == nil && o.FailOnRegression && slices.ContainsFunc(past.history.Kinds, slowed) {
		return conclude(errext.Gate)
	}
	return err
}

// slowed says that the newest run of a kind took longer than it used to.
func slowed(k drillreport.KindHistory) bool {
	return len(k.Runs) > 0 && len(k.Runs[len(k.Runs)-1].Regressions) > 0
}

// past is all that was run, and what its evidence is worth.
type past struct {
	dir     string
	history drillreport.History
	audit   *evidence.Audit
}

// past reads all runs of a folder and the ledger. What cannot be read is a fault of
// the evidence, and its run is left out of the history.
func (o *afterOptions) past(ctx context.Context, s *streams) (*past, error) {
	dir, err := o.runs()
	if err != nil {
		return nil, err
	}
	chain, err := o.ledgerOption.chain(s, o.File, dir)
	if err != nil {
		return nil, err
	}
	return readPast(ctx, s, chain, dir)
}

func readPast(ctx context.Context, s *streams, chain *ledger.Chain, dir string) (*past, error) {
	audit, err := evidence.Check(ctx, chain, evidence.Options{Dirs: []string{dir}})
	if err != nil {
		return nil, err
	}
	trouble := map[string]string{}
	for _, f := range audit.Faults {
		if trouble[f.Run] == "" {
			trouble[f.Run] = f.Where + ": " + f.What
		}
	}
	ids, err := ledger.List(dir)
	if err != nil {
		return nil, err
	}
	var runs []*drill.Run
	for _, id := range ids {
		r, err := ledger.Load(dir, id)
		if err != nil && r.ID == "" {
			fmt.Fprintf(s.Err, "run %s is left out: %v\n", id, err)
			continue
		}
		runs = append(runs, r)
	}
	return &past{dir, drillreport.NewHistory(runs, func(run string) string { return trouble[run] }), audit}, nil
}

func printHistory(w io.Writer, h drillreport.History) error {
	var b bytes.Buffer
	if len(h.Kinds) == 0 {
		b.WriteString("nothing was run yet: `drkit drill run` is the first\n")
	}
	for _, k := range h.Kinds {
		printLine(&b, "%s", k.Kind)
		for _, r := range k.Runs {
			verdict := "not ended"
			if r.Verdict != nil {
				verdict = *r.Verdict
			}
			printLine(&b, "  %s  %s  %-16s declared → steady %-9s of %s", r.Began.UTC().Format("2006-01-02 15:04"), r.Run, verdict, secondsOf(r.RTO), secondsOf(&r.Promised))
			for _, x := range r.TakenBack {
				printLine(&b, "      after the end, %s, by %s: %s taken back, %d not proven: %s", x.At.UTC().Format("2006-01-02 15:04"), x.By, countOf(x.Gone, "change", "changes"), x.Failed, x.Why)
			}
			if r.Trouble != "" {
				printLine(&b, "      its evidence does not hold: %s", r.Trouble)
			}
			for _, x := range r.Regressions {
				printLine(&b, "      slower: %s → %s took %s, the median of %d runs before is %s%s", x.From, x.To, secondsOf(&x.Elapsed), x.Runs, secondsOf(&x.Median), longer(x))
			}
		}
		printTrend(&b, k)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// longer is by how much a stretch took longer, where that can be said in percent.
func longer(x drillreport.Regression) string {
	if x.Median <= 0 {
		return ""
	}
	return fmt.Sprintf(" (+%.0f %%)", 100*(x.Elapsed/x.Median-1))
}

// printTrend writes each segment's times, oldest first, below the time at which each run
// began.
func printTrend(b *bytes.Buffer, k drillreport.KindHistory) {
	if len(k.Runs) < 2 {
		return
	}
	recent := k.Runs[max(0, len(k.Runs)-6):]
	fmt.Fprintf(b, "  %-32s", "segment, by run")
	for _, r := range recent {
		fmt.Fprintf(b, "  %13s", r.Began.UTC().Format("01-02 15:04"))
	}
	b.WriteByte('\n')
	for i, s := range recent[0].Segments {
		fmt.Fprintf(b, "  %-32s", s.From+" → "+s.To)
		for _, r := range recent {
			fmt.Fprintf(b, "  %13s", secondsOf(r.Segments[i].Elapsed))
		}
		b.WriteByte('\n')
	}
}

// secondsOf writes a time as a run's reports do, to the millisecond.
func secondsOf(v *float64) string {
	if v == nil {
		return "–"
	}
	return duration(*v)
}

// statusOptions are those of drill status.
type statusOptions struct {
	afterOptions
	MaxAge  string
	Metrics string
}

func newDrillStatus(s *streams, run func(context.Context, *streams, statusOptions) error) *cobra.Command {
	var o statusOptions
	c := &cobra.Command{
		Use:   "status",
		Short: "Say when each kind of recovery last worked, and what speaks against it today",
		Long: `Answers for each kind of run: when did it last succeed, how did the newest run end,
and what is another today than then: another release published in the target, a shorter
promise, a changed playbook, a success that is too old, evidence that does not hold.
Demonstrations, tabletops, incomplete runs, late ones and runs whose evidence does not
hold are no success.

Status 4: something speaks against relying on it. Status 6: the evidence does not hold.`,
		RunE: func(c *cobra.Command, _ []string) error { return run(c.Context(), s, o) },
	}
	o.addFlags(c)
	c.Flags().StringVar(&o.MaxAge, "max-age", "100d", "how old the last success may be, in days (d) or hours (h)")
	c.Flags().StringVar(&o.Metrics, "metrics", "", "also write the state for Prometheus' textfile collector to this file")
	return c
}

func runDrillStatus(ctx context.Context, s *streams, o statusOptions) error {
	if err := o.outputOption.check(); err != nil {
		return err
	}
	age, err := parseAge(o.MaxAge)
	if err != nil {
		return err
	}
	if err := checkFile("--metrics", o.Metrics, metricsMark); err != nil {
		return err
	}
	p, err := o.past(ctx, s)
	if err != nil {
		return err
	}
	today, err := o.today(ctx, age)
	if err != nil {
		return err
	}
	st := drillreport.NewStatus(p.history, today)
	open, err := openRuns(p.dir)
	if err != nil {
		return err
	}
	if o.Metrics != "" {
		if err := writeDrillMetrics(o.Metrics, st, p.audit); err != nil {
			return err
		}
	}
	if o.json() {
		err = writeJSON(s, statusResult{st, open, p.audit.Faults, p.audit.Tail})
	} else {
		printOpen(s.Out, open)
		printStatus(s, st, p.audit)
	}
	if err != nil {
		return err
	}
	return conclude(statusOfState(st, p.audit))
}

// statusResult is the JSON of drill status.
type statusResult struct {
	drillreport.Status
	Open   []openRun      `json:"open"`
	Faults []ledger.Fault `json:"evidence_faults"`
	Tail   string         `json:"ledger_tail"`
}

func statusOfState(st drillreport.Status, a *evidence.Audit) errext.Status {
	all := []errext.Status{}
	if len(a.Faults) > 0 {
		all = append(all, errext.Evidence)
	}
	for _, k := range st.Kinds {
		if len(k.Problems) > 0 {
			all = append(all, errext.Gate)
		}
	}
	if len(st.Kinds) == 0 {
		all = append(all, errext.Gate) // nothing was ever run
	}
	return errext.Combine(all...)
}

// parseAge reads "100d" or "36h".
func parseAge(text string) (time.Duration, error) {
	var days int
	if n, err := fmt.Sscanf(text, "%dd", &days); n == 1 && err == nil && fmt.Sprintf("%dd", days) == text && days > 0 {
		return time.Duration(days) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, usage(fmt.Errorf("--max-age %q is no time", text), "give days or hours: 100d, 36h")
	}
	return d, nil
}

// today is what the past is compared with: drkit.yaml, where there is one, and what
// the targets publish now.
func (o *statusOptions) today(ctx context.Context, age time.Duration) (drillreport.Today, error) {
	t := drillreport.Today{Now: now(), MaxAge: age}
	svc, err := service.Load(o.File)
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err != nil {
		return t, err
	}
	return t, compareWith(ctx, &t, svc)
}

func compareWith(ctx context.Context, t *drillreport.Today, svc *service.Service) error {
	t.RTO, t.Releases, t.PlaybookHash = svc.Objectives.RTO, map[string]string{}, map[string]string{}
	name := svc.Playbook
	if file, ok := svc.PlaybookFile(); ok {
		name = file
	}
	playbook, err := loadPlaybook(name)
	if err != nil {
		return err
	}
	mode := playbook.Mode
	if step.Back(playbook) {
		mode = drill.ModeFailback
	}
	t.PlaybookHash[mode] = playbook.Hash()
	for _, target := range svc.Targets() {
		t.Expect = append(t.Expect, drillreport.Kind{Service: svc.Metadata.Name, Source: svc.Source().Name, Target: target.Name, Mode: mode})
		c, err := openCopy(target)
		if err != nil {
			return err
		}
		current, err := release.ReadCurrent(ctx, c.state, target.Name, svc.Metadata.Name)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("reading what %s publishes: %w", target.Name, err)
		}
		t.Releases[target.Name] = current.Release // "": nothing is published any more
	}
	return nil
}

func printStatus(s *streams, st drillreport.Status, a *evidence.Audit) {
	for _, k := range st.Kinds {
		printLine(s.Out, "%s", k.Kind)
		switch {
		case !k.Counts():
			printLine(s.Out, "  %s, none of which can count as a success", countOf(k.Runs, "run", "runs"))
		case k.LastGood != nil:
			printLine(s.Out, "  last success  %s  %s  in %s of %s", k.LastGood.Began.UTC().Format("2006-01-02 15:04 UTC"), k.LastGood.Run, secondsOf(k.LastGood.RTO), secondsOf(&k.LastGood.Promised))
		default:
			fmt.Fprintln(s.Out, "  last success  never")
		}
		for _, p := range k.Problems {
			printLine(s.Out, "  ✗ %s", p)
		}
	}
	if len(st.Kinds) == 0 {
		fmt.Fprintln(s.Out, "nothing was run yet: `drkit drill run` is the first")
	}
	printLine(s.Out, "evidence: %s in the ledger, end %s, %s", countOf(a.Records, "record", "records"), a.Tail, countOf(len(a.Faults), "fault", "faults"))
	for i, f := range a.Faults {
		if i == 5 {
			printLine(s.Out, "  and %d more: drkit drill verify-evidence", len(a.Faults)-i)
			break
		}
		printLine(s.Out, "  ✗ %s: %s", f.Where, f.What)
		if f.Hint != "" && (i == 0 || f.Hint != a.Faults[i-1].Hint) {
			printLine(s.Out, "    → %s", f.Hint)
		}
	}
}

// writeDrillMetrics replaces the file whole: a collector never reads half of it.
func writeDrillMetrics(path string, st drillreport.Status, a *evidence.Audit) error {
	health := drillreport.Health{Faults: len(a.Faults), Records: a.Records}
	for _, r := range a.Runs {
		if r.State != "closed" {
			health.Open++
		}
	}
	var b bytes.Buffer
	if err := drillreport.Metrics(&b, st, health); err != nil {
		return err
	}
	return writeFile(path, b.Bytes())
}
