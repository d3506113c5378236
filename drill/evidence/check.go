package evidence

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"drkit/drill"
	"drkit/drill/ledger"
	"drkit/internal/errext"
)

// Options say what Check looks at.
type Options struct {
	Dirs []string // run.dir of one or more machines, where the journals lie
	Runs []string // only these; empty: all that the ledger or a folder knows
	Head string   // SHA-256 of a record that was noted earlier: it must still be there
}

// Audit is what Check found.
type Audit struct {
	Location string
	Records  int
	Head     *ledger.Entry
	Tail     string // anchored, pinned or unanchored
	Runs     []RunAudit
	Faults   []ledger.Fault
	Notes    []string

	used map[string][]use // runs by the id of the approval that they count
}

// RunAudit is what Check looked at of one run.
type RunAudit struct {
	Run     string `json:"run"`
	Verdict string `json:"verdict"` // recomputed from its journal; "": it has not ended
	Status  int    `json:"status"`
	State   string `json:"state"` // closed, live, held, open; empty: it never began
}

// The states of a ledger's tail.
const (
	TailAnchored   = "anchored"
	TailPinned     = "pinned"
	TailUnanchored = "unanchored"
	TailEmpty      = "empty"
)

// Check reads ledger, journals and evidence, and finds every contradiction between
// them. The error is for what cannot be read at all.
func Check(ctx context.Context, chain *ledger.Chain, o Options) (*Audit, error) {
	scan, err := chain.Scan(ctx)
	if err != nil {
		return nil, err
	}
	a := &Audit{Location: chain.Location(), Records: len(scan.Entries), Head: scan.Head(), Faults: slices.Clone(scan.Faults), used: map[string][]use{}}
	a.judgeTail(scan, o.Head)
	a.judgeClocks(scan)
	places, err := find(o.Dirs)
	if err != nil {
		return nil, err
	}
	runs := o.Runs
	if len(runs) == 0 {
		runs = known(scan, places)
	}
	for _, run := range runs {
		a.run(scan, run, places[run])
	}
	a.usedTwice()
	return a, nil
}

// judgeTail says whether the end of the ledger could have been cut off unseen.
func (a *Audit) judgeTail(scan *ledger.Scan, head string) {
	head = strings.TrimPrefix(strings.ToLower(head), "sha256:")
	i := slices.IndexFunc(scan.Entries, func(e ledger.Entry) bool { return e.SHA256 == head })
	switch {
	case head != "" && i < 0:
		a.fault(ledger.Fault{Where: "ledger " + a.Location, What: "it does not hold the record with the SHA-256 " + head + ": its end was cut off, or it was rewritten",
			Hint: "compare it with a backup from the day on which that head was noted"})
		a.Tail = TailUnanchored
	case a.Head == nil:
		a.Tail = TailEmpty
	case a.Head.Anchored:
		a.Tail = TailAnchored
	case head != "":
		a.Tail = TailPinned
		if n := len(scan.Entries) - 1 - i; n > 0 {
			a.note("records after the given head: %d; a cut among them would not be seen", n)
		}
	default:
		a.Tail = TailUnanchored
		a.note("the ledger's end is unanchored: records that were cut off its end together with their runs cannot be missed; note the head elsewhere and give it with --head")
	}
}

// judgeClocks tells of records that are dated before an earlier one: a machine's clock
// was set back or goes wrong. The order is the records' own and does not rest on clocks.
func (a *Audit) judgeClocks(scan *ledger.Scan) {
	var last ledger.Entry
	for _, e := range scan.Entries {
		if back := last.At.Sub(e.At); back > journaled {
			a.note("record %d of the ledger (by %s) is dated %s before record %d (by %s): a clock was set back or goes wrong, and times across the two prove nothing", e.Seq, e.By, back.Round(time.Second), last.Seq, last.By)
		}
		if e.At.After(last.At) {
			last = e
		}
	}
}

func (a *Audit) fault(f ledger.Fault) { a.Faults = append(a.Faults, f) }

func (a *Audit) note(format string, args ...any) {
	a.Notes = append(a.Notes, fmt.Sprintf(format, args...))
}

// find maps runs to the folder that holds each; a run's own folder may be named too.
func find(dirs []string) (map[string]string, error) {
	places := map[string]string{}
	for _, dir := range dirs {
		all, err := ledger.List(dir)
		if err != nil {
			return nil, lost(err)
		}
		for _, run := range all {
			if other, twice := places[run]; twice && !sameFolder(ledger.Dir(other, run), ledger.Dir(dir, run)) {
				return nil, errext.WithHint(errext.WithStatus(fmt.Errorf("run %s lies in %s and in %s: which of them is meant is not known", run, other, dir), errext.Usage),
					"name only one of the two folders")
			}
			places[run] = dir
		}
	}
	return places, nil
}

func sameFolder(a, b string) bool {
	x, err := os.Stat(a)
	y, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(x, y)
}

func known(scan *ledger.Scan, places map[string]string) []string {
	all := scan.Runs()
	for run := range places {
		if !slices.Contains(all, run) {
			all = append(all, run)
		}
	}
	slices.Sort(all) // ids sort by time
	return all
}

// run judges one run; dir is "" when no folder holds its journal.
func (a *Audit) run(scan *ledger.Scan, run, dir string) {
	c := &checker{audit: a, run: run, dir: dir, records: scan.Of(run), state: "open"}
	if dir == "" {
		c.missing()
		return
	}
	c.journal()
	c.listed(scan)
	c.evidence()
	a.Runs = append(a.Runs, RunAudit{Run: run, Verdict: c.verdict, Status: c.status, State: c.state})
}

// checker looks at one run.
type checker struct {
	audit   *Audit
	run     string
	dir     string
	records []ledger.Entry
	raw     []byte
	unread  bool       // the journal cannot be read at all
	folded  *drill.Run // nil: the journal cannot be folded
	state   string
	verdict string
	status  int
}

func (c *checker) fault(file string, f ledger.Fault) {
	f.Run, f.Where = c.run, strings.TrimSpace("run "+c.run+" "+file)
	c.audit.fault(f)
}

const hintRun = "do not use this run as evidence; a backup or the signed envelope says what it was"

func (c *checker) missing() {
	if len(c.records) == 0 {
		c.fault("", ledger.Fault{What: "neither the ledger nor a folder knows it", Hint: "name a run id that `drkit drill history` lists"})
		return
	}
	first := c.records[0]
	c.fault(ledger.FileName, ledger.Fault{Record: first.Seq, What: fmt.Sprintf("record %d of the ledger knows the run, taken by %s, and its journal is not there: it was deleted, or it lies on another machine", first.Seq, first.By),
		Hint: "name the folder that holds it with --also"})
}

// journal reads the journal, and judges it by itself.
func (c *checker) journal() {
	path := ledger.Path(c.dir, c.run)
	var err error
	if c.raw, err = readFile(path); err != nil {
		c.unread = true
		c.fault(ledger.FileName, ledger.Fault{What: err.Error()})
		return
	}
	if len(c.raw) == 0 {
		c.verdict = ""
		return
	}
	r, err := ledger.LoadFile(path)
	if err != nil {
		f := ledger.Fault{What: plain(err, path), Hint: hintRun}
		where := ledger.FileName
		if line, ok := errors.AsType[*ledger.LineError](err); ok {
			f.Line, where = line.Line, fmt.Sprintf("%s line %d", where, line.Line)
			f.What = line.Err.Error()
		}
		c.fault(where, f)
		return
	}
	c.folded = r
	if half := c.raw[bytes.LastIndexByte(c.raw, '\n')+1:]; len(half) > 0 && !ledger.Live(c.dir, c.run) {
		n := bytes.Count(c.raw, []byte("\n")) + 1
		c.fault(fmt.Sprintf("%s line %d", ledger.FileName, n), ledger.Fault{Line: n, What: "the line has no end: a kill or a full disk cut it off, or somebody did"})
	}
	if r.ID != c.run {
		c.fault(ledger.FileName+" line 1", ledger.Fault{Line: 1, What: "it is the journal of run " + r.ID, Hint: hintRun})
	}
	if r.Finished != nil {
		c.verdict, c.status = r.Finished.Verdict, r.Finished.Status
	}
}

func plain(err error, path string) string { return strings.ReplaceAll(err.Error(), path+":", "line ") }

// listed compares the journal with the ledger's records of the run.
func (c *checker) listed(scan *ledger.Scan) {
	if len(c.records) == 0 && len(c.raw) == 0 && !c.unread {
		c.state = "empty"
		c.audit.note("the journal of run %s is empty, and nothing announced it: it was killed before it began; its folder may be deleted", c.run)
		return
	}
	if len(c.records) == 0 && c.folded != nil && c.folded.Plan.WithoutLedger != "" {
		c.approved(scan)
		c.fault("", ledger.Fault{What: "the ledger does not know it: it says that it began without, because: " + c.folded.Plan.WithoutLedger,
			Hint: "it stands beside the chain for good: judge it by its own evidence.json, and keep that apart"})
		return
	}
	if at := c.elsewhere(); len(c.records) == 0 && at != "" {
		c.fault("", ledger.Fault{What: "it was announced in another ledger, " + at + ": " + c.audit.Location + " does not know it",
			Hint: "a run.dir goes with one ledger: name the old one (--ledger " + at + "), or give run.dir in drkit.yaml another folder, and judge the old one with --run-dir and --ledger"})
		return
	}
	if len(c.records) == 0 {
		c.fault("", ledger.Fault{What: "it has a journal, and the ledger does not know it: its records were cut off, or it ran without this ledger",
			Hint: "if it ran with another ledger, name that with --ledger; what ran before there was a ledger belongs into another folder"})
		return
	}
	c.opened(c.records[0])
	c.approved(scan)
	var last *ledger.Entry
	for i := range c.records {
		if e := &c.records[i]; e.Closed != nil {
			c.sealed(*e, i == len(c.records)-1)
			last = e
		}
	}
	if last != nil {
		c.state = "closed"
		return
	}
	if ledger.Live(c.dir, c.run) {
		c.state = "live"
		c.audit.note("run %s is going on", c.run)
		return
	}
	if c.folded != nil && c.folded.Held != nil {
		c.state = "held"
		c.audit.note("run %s is held (%s): drkit drill resume %s goes on with it", c.run, c.folded.Held.Why, c.run)
		return
	}
	c.fault("", ledger.Fault{Record: c.records[0].Seq, What: fmt.Sprintf("record %d of the ledger opens it, and none closes it: it was killed, or its closing record was taken away", c.records[0].Seq),
		Hint: "drkit drill abort " + c.run + " takes back what it changed, and closes it"})
}

// elsewhere is the ledger that announced the run, where its journal names another.
func (c *checker) elsewhere() string {
	if c.folded == nil || c.folded.Plan.Ledger == nil || place(c.folded.Plan.Ledger.Location) == place(c.audit.Location) {
		return ""
	}
	return c.folded.Plan.Ledger.Location
}

// place is a ledger's location with one spelling for a folder.
func place(location string) string {
	if abs, err := filepath.Abs(location); err == nil && !strings.Contains(location, "://") {
		return abs
	}
	return location
}

// opened holds the announcement against the journal's first event.
func (c *checker) opened(e ledger.Entry) {
	if e.Opened == nil || c.folded == nil {
		return
	}
	p := c.folded.Plan
	if p.Ledger == nil || p.Ledger.Record != e.Seq || p.Ledger.SHA256 != e.SHA256 || p.Ledger.Previous != e.Previous {
		c.fault(ledger.FileName+" line 1", ledger.Fault{Line: 1, Record: e.Seq, What: fmt.Sprintf("it does not name record %d of the ledger as the one that announced it: that record was rewritten, or the journal was", e.Seq), Hint: hintRun})
		return
	}
	if want := OpenedOf(p); *e.Opened != want {
		c.fault(ledger.FileName+" line 1", ledger.Fault{Line: 1, Record: e.Seq, What: fmt.Sprintf("it began with another plan than record %d of the ledger announced", e.Seq), Hint: hintRun})
	}
}

// OpenedOf is what the ledger says of a run before it begins.
func OpenedOf(p drill.RunStarted) ledger.Opened {
	return ledger.Opened{Service: p.Service, Mode: p.Mode, Demo: p.Demo, Playbook: p.Playbook, PlanHash: p.PlanHash, Release: p.Release, Source: p.Source, Target: p.Target, Tool: p.Tool}
}

// sealed holds a closing record against the journal's bytes. After an abort the
// journal goes on: then an earlier record seals its beginning.
func (c *checker) sealed(e ledger.Entry, last bool) {
	want := e.Closed.Journal
	size := int64(len(c.raw))
	switch {
	case want.Bytes > size:
		c.fault(ledger.FileName, ledger.Fault{Record: e.Seq, Line: bytes.Count(c.raw, []byte("\n")) + 1, What: fmt.Sprintf("record %d of the ledger sealed %d bytes of it, and %d are there: its end was cut off", e.Seq, want.Bytes, size), Hint: hintRun})
	case last && want.Bytes < size:
		n := bytes.Count(c.raw[:want.Bytes], []byte("\n")) + 1
		c.fault(fmt.Sprintf("%s line %d", ledger.FileName, n), ledger.Fault{Record: e.Seq, Line: n, What: fmt.Sprintf("record %d of the ledger closed the run before this line: it was added", e.Seq), Hint: hintRun})
	case ledger.SealOf(c.raw[:want.Bytes]).SHA256 != want.SHA256 && c.folded != nil: // else the damaged line is told already
		n := bytes.Count(c.raw[:want.Bytes], []byte("\n"))
		c.fault(fmt.Sprintf("%s line %d", ledger.FileName, n), ledger.Fault{Record: e.Seq, Line: n, What: fmt.Sprintf("record %d of the ledger sealed other bytes up to this line: it was changed, or all from some line on was written anew", e.Seq), Hint: hintRun})
	case ledger.SealOf(c.raw[:want.Bytes]).SHA256 != want.SHA256:
		c.fault(ledger.FileName, ledger.Fault{Record: e.Seq, What: fmt.Sprintf("record %d of the ledger sealed other bytes", e.Seq), Hint: hintRun})
	}
	if c.folded != nil && (c.verdict != e.Closed.Verdict || c.status != e.Closed.Status) {
		c.fault("", ledger.Fault{Record: e.Seq, What: fmt.Sprintf("record %d of the ledger says %s (%d), and the journal says %q (%d)", e.Seq, e.Closed.Verdict, e.Closed.Status, c.verdict, c.status), Hint: hintRun})
	}
}

// evidence holds evidence.json against the ledger's seal and against the journal.
func (c *checker) evidence() {
	if len(c.raw) == 0 {
		return // the run never began: there is nothing to say of it
	}
	var want *ledger.Sealed
	closed := c.records[max(0, len(c.records)-1):]
	if len(closed) == 1 && closed[0].Closed != nil {
		want = closed[0].Closed.Evidence
	} else if c.state != "closed" {
		return // there is none yet
	}
	if want == nil {
		c.fault(FileName, ledger.Fault{What: "it could not be written when the run ended", Hint: "drkit drill abort " + c.run + " writes it from the journal, and changes nothing else"})
		return
	}
	data, err := readFile(Path(c.dir, c.run))
	if errors.Is(err, os.ErrNotExist) {
		c.fault(FileName, ledger.Fault{What: "it was deleted", Hint: "drkit drill abort " + c.run + " writes it again from the journal"})
		return
	}
	if err != nil {
		c.fault(FileName, ledger.Fault{What: err.Error()})
		return
	}
	if got := ledger.SealOf(data); got == *want {
		c.consistent(data)
	} else {
		f := c.difference(data)
		f.Hint = hintRun
		f.What = fmt.Sprintf("record %d of the ledger sealed other bytes: %s", closed[0].Seq, f.What)
		c.fault(strings.TrimSpace(FileName+" "+f.Field), f)
	}
}

// consistent judges evidence whose bytes are the sealed ones, by itself and against
// the journal: its writer may have been no drkit.
func (c *checker) consistent(data []byte) {
	for _, f := range CheckFile(data) {
		c.fault(strings.TrimSpace(FileName+" "+f.Field), f)
	}
	if f := c.difference(data); c.folded != nil && f.What != "" {
		c.fault(strings.TrimSpace(FileName+" "+f.Field), f)
	}
}

// difference is the first place where evidence says something else than the journal
// does; its What is "" when there is none.
func (c *checker) difference(data []byte) ledger.Fault {
	if c.folded == nil || c.folded.Finished == nil {
		return ledger.Fault{What: "the journal cannot say which field, for it does not hold itself"}
	}
	want, err := New(c.folded, ledger.SealOf(c.raw)).Encode()
	if err != nil || bytes.Equal(want, data) {
		return ledger.Fault{}
	}
	if schemaOf(data) != Schema && schemaOf(data) != "" {
		return c.essentials(data) // of another version, whose fields are not all known here
	}
	field, what := compare(want, data)
	return ledger.Fault{Field: field, What: what}
}

// essentials is difference for evidence of another version: what all of them have.
func (c *checker) essentials(data []byte) ledger.Fault {
	e, err := Decode(data)
	if err != nil {
		return ledger.Fault{What: err.Error()}
	}
	seal := ledger.SealOf(c.raw)
	seal.Events = c.folded.Seq
	switch {
	case e.RunID != c.folded.ID:
		return ledger.Fault{Field: "/run_id", What: "it is the evidence of run " + e.RunID}
	case e.Plan.SHA256 != c.folded.Plan.PlanHash:
		return ledger.Fault{Field: "/plan/sha256", What: "the journal is of another plan"}
	case e.Mode != c.folded.Plan.Mode || e.Kind != kindOf(c.folded.Plan):
		return ledger.Fault{Field: "/kind", What: fmt.Sprintf("the journal says %s of mode %s", kindOf(c.folded.Plan), c.folded.Plan.Mode)}
	case e.Journal != seal:
		return ledger.Fault{Field: "/journal", What: "it was made from another journal"}
	case e.Outcome == nil || e.Outcome.Verdict != c.verdict || e.Outcome.Status != c.status:
		return ledger.Fault{Field: "/outcome", What: fmt.Sprintf("the journal says %s (%d)", c.verdict, c.status)}
	}
	return ledger.Fault{}
}

func schemaOf(data []byte) string {
	var s struct{ Schema string }
	_ = json.Unmarshal(data, &s) // "" says that it cannot be read
	return s.Schema
}
