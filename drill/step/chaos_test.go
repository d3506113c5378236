package step_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"drkit/drill"
	"drkit/drill/ledger"
	"drkit/internal/errext"
	"drkit/internal/store/dir"
)

// chaosSeeds is small in CI; before a release: scripts/long TestChaos. By hand with many seeds on a
// busy machine, go test's own time-out (-timeout, 10 minutes) ends it with the stacks of a seed that is not wrong.
var (
	chaosSeeds = flag.Int("chaos", 6, "how many seeds TestChaos runs")
	chaosFirst = flag.Uint64("chaos-first", 1, "the first of them: a seed that failed is run alone with -chaos 1")
)

// TestChaos ends processes and takes stores and the canaries' platform away at the beginning of steps, as each
// seed says, and lets a person go on with what is left. Whatever happened: the router
// is as it was, nothing is left running, journal and ledger hold, and no run whose
// proof was hit says that it recovered.
func TestChaos(t *testing.T) {
	for seed := *chaosFirst; seed < *chaosFirst+uint64(*chaosSeeds); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			p := mustRelease(t)
			synctest.Test(t, func(t *testing.T) { newChaos(t, p, seed).run() })
		})
	}
}

// TestChaosSeesALie: a run whose proof was hit and that says it recovered is seen.
func TestChaosSeesALie(t *testing.T) {
	c := &chaos{hit: []hit{{what: "the target's canary is killed at steady"}}}
	for verdict, lie := range map[string]bool{drill.Recovered: true, drill.ObjectiveMissed: true, drill.NotRecovered: false, drill.Incomplete: false, drill.Aborted: false} {
		if (c.betterThanTheTruth(verdict) != "") != lie {
			t.Errorf("%s: %q", verdict, c.betterThanTheTruth(verdict))
		}
	}
	if (&chaos{}).betterThanTheTruth(drill.Recovered) != "" {
		t.Error("a recovery without a fault is called a lie")
	}
}

// harm is what can be done to a drill, and at which steps' beginnings it hits what has
// to be proven, while the process of drkit that sees it goes on to its end.
type harm struct {
	name     string
	from, to string // steps, both included; "": it hits no proof
	mends    bool   // a process that comes later finds it and runs again what it hit
	do       func(c *chaos)
}

var harms = []harm{
	{"the target's canary is killed", "behaviour", "steady", true, func(c *chaos) { c.l.launcher.kill("target-canary") }},
	{"the source's canary is killed", "traffic", "failback", true, func(c *chaos) { c.l.launcher.kill("source-canary") }},
	{"the router is killed", "declare", "failback", true, func(c *chaos) { c.l.killRouter() }},
	{"the target's store is away", "verify", "restore", false, func(c *chaos) { c.takeAway(&c.storeAway) }},
	{"the target's state is away", "preflight", "preflight", false, func(c *chaos) { c.takeAway(&c.stateAway) }},
	{"the API server is away", "boot", "boot", true, func(c *chaos) { c.takeAway(&c.serverAway) }},
	{"the API server is away once it has done what it was asked for", "boot", "boot", true, func(c *chaos) { c.l.launcher.lost = true; c.takeAway(&c.serverAway) }},
	{"a shard is overwritten in the target", "preflight", "restore", false, func(c *chaos) { c.l.damageStored(shard) }},
	{"the journal's disk is full", "", "", false, func(c *chaos) { c.full.Store(true) }},
}

type chaos struct {
	t       *testing.T
	l       *lab
	rng     *rand.Rand
	dir     string
	journal *ledger.Journal
	chain   *ledger.Chain
	leave   chan struct{}

	harm  *harm           // nil: none
	at    string          // the step at which it is done
	kills map[string]bool // steps at whose beginning drkit is killed
	gives bool            // the person gives up after the first kill, and aborts

	storeAway, stateAway, serverAway atomic.Int64 // until then, in nanoseconds of Unix time
	full                             atomic.Bool

	story []string
	hit   []hit // what hit a proof while drkit went on
}

// hit is a harm that hit what has to be proven.
type hit struct {
	what  string
	mends bool
}

func newChaos(t *testing.T, p published, seed uint64) *chaos {
	c := &chaos{t: t, l: newLab(t, p), rng: rand.New(rand.NewPCG(seed, 7)), dir: t.TempDir(), kills: map[string]bool{}}
	c.chain = ledger.NewChain(dir.Plain(c.dir+"/ledger"), c.dir+"/ledger", nil)
	var steps []string
	for _, s := range c.l.playbook.Steps {
		steps = append(steps, s.ID)
	}
	some := func() string { return steps[c.rng.IntN(len(steps))] }
	if c.rng.IntN(4) > 0 {
		c.harm, c.at = &harms[c.rng.IntN(len(harms))], some()
	}
	for n := c.rng.IntN(3); n > 0 || c.harm == nil && len(c.kills) == 0; n-- {
		c.kills[some()] = true
	}
	c.gives = c.rng.IntN(4) == 0
	c.l.eu.Fault, c.l.euState.Fault = away(&c.storeAway), away(&c.stateAway)
	c.l.launcher.away = func() bool { return away(&c.serverAway)("", "") != nil }
	for _, id := range steps {
		c.l.onStep[id] = func() { c.begins(id, steps) }
	}
	return c
}

// takeAway takes a store away for up to two minutes.
func (c *chaos) takeAway(until *atomic.Int64) {
	until.Store(time.Now().Add(time.Second + time.Duration(c.rng.Int64N(int64(2*time.Minute)))).UnixNano())
}

func away(until *atomic.Int64) func(op, key string) error {
	return func(op, key string) error {
		if time.Now().UnixNano() < until.Load() {
			return errors.New("connection refused")
		}
		return nil
	}
}

// begins does what the seed planned for the beginning of a step, once.
func (c *chaos) begins(id string, steps []string) {
	killed := c.kills[id]
	if c.harm != nil && c.at == id {
		h := c.harm
		c.harm = nil
		what := h.name + " at " + id
		c.story = append(c.story, what)
		h.do(c)
		at := slices.Index(steps, id)
		if h.from != "" && slices.Index(steps, h.from) <= at && at <= slices.Index(steps, h.to) {
			c.hit = append(c.hit, hit{what, h.mends})
		}
	}
	if killed {
		delete(c.kills, id)
		c.hit = slices.DeleteFunc(c.hit, func(h hit) bool { return h.mends }) // nobody has judged by it yet
		c.story = append(c.story, "drkit is killed at "+id)
		close(c.leave)
	}
}

// Event is the journal in a file, on a disk that may be full.
func (c *chaos) Event(e drill.Event, r *drill.Run) error {
	if c.full.Load() {
		return errext.WithStatus(errors.New("no space left on device"), errext.Evidence)
	}
	return c.journal.Event(e, r)
}

func (c *chaos) run() {
	defer c.l.net.Close()
	defer func() {
		if c.t.Failed() {
			c.t.Logf("what happened: %s", strings.Join(c.story, "; "))
		}
	}()
	var err error
	if c.journal, err = ledger.Create(c.dir, runID, nil); err != nil {
		c.t.Fatal(err)
	}
	c.append(ledger.Record{Kind: ledger.KindOpened, Run: runID, Opened: &ledger.Opened{Service: service}})
	run, err := c.process(func(r *drill.Runner) (*drill.Run, error) { return r.Run(c.l.ctx, runID, c.l.start) })
	if c.full.Load() && !errors.Is(err, drill.ErrLeft) && (errext.StatusOf(err) != errext.Evidence || run.Finished.Status != int(errext.Evidence)) {
		c.t.Errorf("nothing of it is written, and the run ends as %+v: %v", run.Finished, err)
	}
	for tries := 0; err != nil && !c.gives && tries < 5; tries++ {
		c.later()
		c.l.another()
		run, err = c.process(func(r *drill.Runner) (*drill.Run, error) { return r.Resume(c.l.ctx, runID, c.l.start) })
	}
	if err == nil {
		c.named(run)
	}
	if err != nil || len(run.Left()) > 0 {
		run = c.abort()
	}
	c.close(run)
	c.judge(run)
}

// named requires that a run which has ended says of what it left that it may be there.
func (c *chaos) named(run *drill.Run) {
	for _, left := range run.Left() {
		if run.Finished.Status != int(errext.Unclean) || !slices.ContainsFunc(run.Finished.Reasons, func(r drill.Reason) bool {
			return r.Status == int(errext.Unclean) && strings.Contains(r.What, left.What)
		}) {
			c.t.Errorf("%q is left, and the run ends with %d: %s", left.What, run.Finished.Status, reasons(run))
		}
	}
}

// process runs one process of drkit to its end, however it ends.
func (c *chaos) process(begin func(*drill.Runner) (*drill.Run, error)) (*drill.Run, error) {
	c.l.sink, c.leave = c, make(chan struct{})
	runner := c.l.runner()
	runner.Leave = c.leave
	run, err := begin(runner)
	_ = c.l.world.Close() // a full disk is told by the run
	if status := errext.StatusOf(err); !slices.Contains([]errext.Status{errext.Holds, errext.Unclean, errext.Evidence, errext.Refused, errext.Paused}, status) {
		c.t.Errorf("a process ends otherwise than processes do: %v (%d)", err, status)
	}
	if err != nil {
		c.story = append(c.story, fmt.Sprintf("the process ends: %v (%d)", err, errext.StatusOf(err)))
	}
	return run, err
}

// later is when a person comes and looks: what was away or full is there again, a kill
// has left half a line, and the journal is opened anew.
func (c *chaos) later() {
	time.Sleep(2*time.Minute + time.Duration(c.rng.Int64N(int64(2*time.Minute))))
	c.full.Store(false)
	if err := c.journal.Close(); err != nil {
		c.t.Fatal(err)
	}
	if c.rng.IntN(2) == 0 {
		f, err := os.OpenFile(c.journal.Path(), os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			c.t.Fatal(err)
		}
		if _, err := f.WriteString(`{"run":"01JD0Z`); err != nil {
			c.t.Fatal(err)
		}
		c.l.must(f.Close())
	}
	var err error
	if c.journal, err = ledger.Open(c.dir, runID, nil); err != nil {
		c.t.Fatal(err)
	}
}

// Events reads the journal.
func (c *chaos) Events() iter.Seq2[drill.Event, error] { return c.journal.Events() }

// abort takes back what is left, as drill abort does.
func (c *chaos) abort() *drill.Run {
	c.later()
	c.story = append(c.story, "a person aborts")
	run, err := drill.Abort(context.WithoutCancel(c.l.ctx), c.journal, "kim", c.l.undos())
	if err != nil {
		c.t.Fatal(err)
	}
	return run
}

func (c *chaos) append(r ledger.Record) {
	r.At, r.By = time.Now(), "tester@lab"
	if _, err := c.chain.Append(c.l.ctx, r); err != nil {
		c.t.Fatal(err)
	}
}

// close seals the journal's bytes in the ledger.
func (c *chaos) close(run *drill.Run) {
	data, err := os.ReadFile(c.journal.Path())
	if err != nil {
		c.t.Fatal(err)
	}
	c.append(ledger.Record{Kind: ledger.KindClosed, Run: runID, Closed: &ledger.Closed{Verdict: run.Finished.Verdict, Status: run.Finished.Status, Journal: ledger.SealOf(data)}})
	c.l.must(c.journal.Close())
}

// judge compares what the run says with what happened.
func (c *chaos) judge(run *drill.Run) {
	c.l.wantGone(run)
	replayed, err := ledger.LoadFile(c.journal.Path())
	if err != nil {
		c.t.Fatal(err)
	}
	if replayed.Finished == nil || replayed.Finished.Verdict != run.Finished.Verdict || replayed.Finished.Status != run.Finished.Status {
		c.t.Errorf("the run ends as %+v, its journal as %+v", run.Finished, replayed.Finished)
	}
	scan, err := c.chain.Scan(c.l.ctx)
	if err != nil || len(scan.Faults) > 0 || len(scan.Entries) != 2 {
		c.t.Errorf("ledger: %v, %d records, %+v", err, len(scan.Entries), scan.Faults)
	}
	if lie := c.betterThanTheTruth(run.Finished.Verdict); lie != "" {
		c.t.Error(lie)
	}
	if !slices.ContainsFunc(c.story, harmful) && run.Finished.Verdict != drill.Recovered {
		c.t.Errorf("nothing was harmed, and the run ends as %s: %s", run.Finished.Verdict, reasons(run))
	}
	c.t.Logf("%s (%d)", run.Finished.Verdict, run.Finished.Status)
}

// harmful says that a line of the story is more than a process that was killed and
// gone on with.
func harmful(line string) bool {
	return !strings.HasPrefix(line, "drkit is killed") && !strings.HasPrefix(line, "the process ends: run "+runID+": "+drill.ErrLeft.Error())
}

func (c *chaos) betterThanTheTruth(verdict string) string {
	if len(c.hit) > 0 && (verdict == drill.Recovered || verdict == drill.ObjectiveMissed) {
		return fmt.Sprintf("the run ends as %s, although %v", verdict, c.hit)
	}
	return ""
}
