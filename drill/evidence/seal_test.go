package evidence

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"drkit/drill"
	"drkit/drill/ledger"
	"drkit/internal/errext"
	"drkit/internal/store/mem"
)

// TestKilledRun: between intent and close, everything says so, until it is aborted.
func TestKilledRun(t *testing.T) {
	w, run := newWorld(t), id(1)
	j, err := ledger.Create(w.dir, run, nil)
	if err != nil {
		t.Fatal(err)
	}
	start := drill.RunStarted{Service: "support", By: "kim@laptop"}
	w.announce(run, &start)
	x, err := ledger.Create(w.dir, id(2), nil)
	if err != nil {
		t.Fatal(err)
	}
	never := x.Path()
	w.announce(id2(never), &drill.RunStarted{})
	if err := j.Event(event(t, run, 1, drill.TypeRunStarted, start), nil); err != nil {
		t.Fatal(err)
	}
	if a := w.check(Options{Runs: []string{run}}); len(a.Faults) != 0 || a.Runs[0].State != "live" || !strings.Contains(a.Notes[len(a.Notes)-1], "is going on") {
		t.Errorf("while it lives: %+v", a)
	}
	if err := errors.Join(j.Close(), x.Close()); err != nil {
		t.Fatal(err)
	}
	found := w.faults(Options{})
	for _, want := range []string{"record 1 of the ledger opens it, and none closes it", "record 2 of the ledger opens it, and none closes it"} {
		if !strings.Contains(found, want) {
			t.Errorf("does not say %q: %s", want, found)
		}
	}
	if _, err := Seal(t.Context(), w.chain, w.dir, run, "kim"); errext.StatusOf(err) != errext.Evidence || errext.Hint(err) == "" {
		t.Errorf("sealed without an end: %v", err)
	}
	w.abort(run)
	if e, err := Seal(t.Context(), w.chain, w.dir, id2(never), "kim"); err != nil || e.Closed.Verdict != drill.Aborted {
		t.Errorf("a run that never began: %v", err)
	}
	a := w.check(Options{})
	if len(a.Faults) != 0 || a.Runs[0].Verdict != drill.Aborted || a.Runs[0].Status != 130 || a.Runs[1].State != "closed" {
		t.Errorf("%+v", a)
	}
}

func id2(path string) string {
	return path[len(path)-len("01KJVKT6N8EK7098Z65TBTPWDF/journal.jsonl") : len(path)-len("/journal.jsonl")]
}

func event(t *testing.T, run string, seq uint64, typ string, data any) drill.Event {
	t.Helper()
	raw := []byte(text(data))
	return drill.Event{Run: run, Seq: seq, Proc: 1, Mono: time.Second, Wall: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), Type: typ, Data: raw}
}

func (w *world) abort(run string) {
	w.t.Helper()
	j, err := ledger.Open(w.dir, run, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	defer j.Close()
	if _, err := drill.Abort(w.t.Context(), j, "kim", map[string]drill.UndoFunc{"undo": undoes}); err != nil {
		w.t.Fatal(err)
	}
	if _, err := Seal(w.t.Context(), w.chain, w.dir, run, "kim"); err != nil {
		w.t.Fatal(err)
	}
}

// TestAbortAfterTheEnd: a run whose clean-up was not proven is closed as such, and
// once more after the abort, with the same verdict: what was taken back since stands
// beside it. The first record still seals the journal's beginning.
func TestAbortAfterTheEnd(t *testing.T) {
	w, run := newWorld(t), id(1)
	w.drill(run, "", boot(drill.Passed), func(context.Context, []byte) error { return errors.New("still there") })
	if a := w.check(Options{}); len(a.Faults) != 0 || a.Runs[0].Status != 8 {
		t.Fatalf("%+v", a)
	}
	w.abort(run)
	a := w.check(Options{})
	if len(a.Faults) != 0 || a.Records != 3 || a.Runs[0].Verdict != drill.Incomplete || a.Runs[0].Status != 8 {
		t.Fatalf("%+v", a)
	}
	e, err := Decode(read(t, Path(w.dir, run)))
	if err != nil {
		t.Fatal(err)
	}
	if c := e.Cleanup.Changes[0]; e.Cleanup.Status != CleanIncomplete || c.Undone || c.Later == nil || !c.Later.Undone || c.Later.By != "kim" || len(e.TakenBack) != 1 || e.TakenBack[0].By != "kim" {
		t.Errorf("%+v, %+v", e.Cleanup, e.TakenBack)
	}
	if !strings.Contains(strings.Join(e.Deviations, "\n"), "after the end: ") {
		t.Errorf("%v", e.Deviations)
	}
	before := a.Head.SHA256
	if e, err := Seal(t.Context(), w.chain, w.dir, run, "kim"); err != nil || e.SHA256 != before {
		t.Errorf("sealed twice: %v %+v", err, e)
	}
	path := ledger.Path(w.dir, run)
	data := read(t, path)
	put(t, path, append(data[:len(data):len(data)], data[:40]...))
	if found := w.faults(Options{}); !strings.Contains(found, "record 3 of the ledger closed the run before this line: it was added") || !strings.Contains(found, "the line has no end") {
		t.Errorf("%s", found)
	}
}

// TestFullDisk: no ledger, no run; no room at the end, and the run stays open until
// somebody closes it.
func TestFullDisk(t *testing.T) {
	s := mem.New()
	w, run := newWorld(t).on(s), id(1)
	_, j := w.begin(run, "", boot(drill.Passed), undoes)
	defer j.Close()
	s.Fault = func(op, _ string) error {
		if op == "put" {
			return syscall.ENOSPC
		}
		return nil
	}
	if _, err := Seal(t.Context(), w.chain, w.dir, run, "kim"); !errors.Is(err, syscall.ENOSPC) || errext.StatusOf(err) != errext.Evidence {
		t.Errorf("%v", err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if found := w.faults(Options{}); !strings.Contains(found, "none closes it") {
		t.Errorf("%s", found)
	}
	s.Fault = nil
	if _, err := Seal(t.Context(), w.chain, w.dir, run, "kim"); err != nil {
		t.Fatal(err)
	}
	if a := w.check(Options{}); len(a.Faults) != 0 || a.Runs[0].Verdict != drill.Recovered {
		t.Errorf("%+v", a)
	}
}

// TestEvidenceThatCannotBeWritten: the ledger closes the run all the same, and says it.
func TestEvidenceThatCannotBeWritten(t *testing.T) {
	w, run := newWorld(t), id(1)
	_, j := w.begin(run, "", boot(drill.Passed), undoes)
	if err := errors.Join(j.Close(), os.MkdirAll(Path(w.dir, run)+"/in the way", 0o755)); err != nil {
		t.Fatal(err)
	}
	e, err := Seal(t.Context(), w.chain, w.dir, run, "kim")
	if errext.StatusOf(err) != errext.Evidence || e.Closed == nil || e.Closed.Evidence != nil {
		t.Fatalf("%v %+v", err, e)
	}
	if found := w.faults(Options{}); !strings.Contains(found, "evidence.json: it could not be written when the run ended") {
		t.Errorf("%s", found)
	}
	remove(t, Path(w.dir, run))
	if _, err := Seal(t.Context(), w.chain, w.dir, run, "kim"); err != nil {
		t.Fatal(err)
	}
	if found := w.faults(Options{}); found != "" {
		t.Errorf("%s", found)
	}
}

// TestAFolderThatWasRemoved in mid-run: the error says what to do.
func TestAFolderThatWasRemoved(t *testing.T) {
	w, run := newWorld(t), id(1)
	_, j := w.begin(run, "", boot(drill.Passed), undoes)
	if err := errors.Join(j.Close(), os.RemoveAll(ledger.Dir(w.dir, run))); err != nil {
		t.Fatal(err)
	}
	_, err := Seal(t.Context(), w.chain, w.dir, run, "kim")
	if errext.StatusOf(err) != errext.Evidence || !strings.Contains(errext.Hint(err), "drkit drill gc") {
		t.Errorf("%v, hint %q", err, errext.Hint(err))
	}
}

// TestUnannounced: a run that the ledger does not know is not closed in it.
func TestUnannounced(t *testing.T) {
	w, run := newWorld(t), id(1)
	other := newWorld(t)
	other.dir = w.dir
	_, j := other.begin(run, "", boot(drill.Passed), undoes)
	defer j.Close()
	if _, err := Seal(t.Context(), w.chain, w.dir, run, "kim"); errext.StatusOf(err) != errext.Evidence || !strings.Contains(err.Error(), "never opened") {
		t.Errorf("%v", err)
	}
	if found := w.faults(Options{}); !strings.Contains(found, "the ledger does not know it") {
		t.Errorf("%s", found)
	}
}

// TestAnotherLedger: a run.ledger that was changed while run.dir stayed is told as that,
// with what to do, and not as a ledger that lost records.
func TestAnotherLedger(t *testing.T) {
	w, run := newWorld(t), id(1)
	w.drill(run, "", boot(drill.Passed), undoes)
	s := mem.New()
	other := newWorld(t).on(s)
	other.dir = w.dir
	other.chain = ledger.NewChain(s, "s3://audit/new", nil)
	a := other.check(Options{})
	if len(a.Faults) != 1 || !strings.Contains(a.Faults[0].What, "announced in another ledger, "+w.chain.Location()) || !strings.Contains(a.Faults[0].Hint, "--ledger "+w.chain.Location()) || !strings.Contains(a.Faults[0].Hint, "run.dir") {
		t.Errorf("%+v", a.Faults)
	}
	cut := ledger.NewChain(s, w.chain.Location(), nil) // the same place, and the records are gone
	other.chain = cut
	if a := other.check(Options{}); len(a.Faults) != 1 || !strings.Contains(a.Faults[0].What, "its records were cut off") {
		t.Errorf("%+v", a.Faults)
	}
}

// TestAVerdictThatWasClosedStays: a later record with another verdict is a fault, although
// journal and evidence agree with it.
func TestAVerdictThatWasClosedStays(t *testing.T) {
	w, run := newWorld(t), id(1)
	w.drill(run, "", boot(drill.Passed), func(context.Context, []byte) error { return errors.New("still there") })
	head := w.check(Options{}).Head
	closed := *head.Closed
	closed.Verdict, closed.Status = drill.Recovered, 0
	if _, err := w.chain.Append(t.Context(), ledger.Record{Kind: ledger.KindClosed, Run: run, At: time.Now(), By: "kim", Closed: &closed}); err != nil {
		t.Fatal(err)
	}
	w.abort(run) // closes it as it was
	if found := w.faults(Options{}); !strings.Contains(found, "record 3 of the ledger says recovered (0), and the journal says \"incomplete\" (8)") {
		t.Errorf("%s", found)
	}
}

// TestRewrittenAnnouncement: another ledger, or one that was rewritten, does not fit the journal.
func TestRewrittenAnnouncement(t *testing.T) {
	w, run := newWorld(t), id(1)
	w.drill(run, "", boot(drill.Passed), undoes)
	s := mem.New()
	forged := newWorld(t).on(s)
	forged.dir = w.dir
	for _, rec := range []ledger.Record{{Kind: ledger.KindOpened, Opened: &ledger.Opened{Service: "other"}}, {Kind: ledger.KindClosed, Closed: w.check(Options{}).Head.Closed}} {
		rec.Run, rec.At = run, time.Now()
		if _, err := forged.chain.Append(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
	}
	if found := forged.faults(Options{}); !strings.Contains(found, "does not name record 1 of the ledger as the one that announced it") {
		t.Errorf("%s", found)
	}
}

// TestKilledBeforeTheFirstRecord: an empty journal that nobody announced is no fault.
func TestKilledBeforeTheFirstRecord(t *testing.T) {
	w := newWorld(t)
	j, err := ledger.Create(w.dir, id(1), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if a := w.check(Options{}); len(a.Faults) != 0 || a.Runs[0].State != "empty" || !strings.Contains(strings.Join(a.Notes, "\n"), "killed before it began") {
		t.Errorf("%+v", a)
	}
}

// TestIsolation: a gate of that name is the proof, red or green.
func TestIsolation(t *testing.T) {
	r := &drill.Run{Gates: []drill.GateState{{Gate: drill.Gate{ID: "isolation-eu", Result: drill.Passed, Observed: "bucket and registry refused"}}}}
	e := New(r, ledger.SealOf(nil))
	if p := e.Environment.IsolationProof; p == nil || *p != "passed: bucket and registry refused" {
		t.Errorf("%v", p)
	}
}
