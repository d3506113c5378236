package evidence

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drkit/drill"
	"drkit/drill/ledger"
	"drkit/internal/store"
	"drkit/internal/store/dir"
)

// acknowledged is a run in which mei said that a step was done; a second one follows it,
// so that the ledger goes on after the first.
func acknowledged(t *testing.T) (w *world, runs []string) {
	t.Helper()
	w, runs = newWorld(t), []string{id(1), id(2)}
	booted := boot(drill.Passed)
	w.drill(runs[0], "", func(ctx context.Context, sc drill.Scope) error {
		return errors.Join(sc.Emit(drill.TypeAsked, drill.Asked{Who: "lead"}), sc.Emit(drill.TypeAcknowledged, drill.Acknowledged{Who: "lead", By: "mei", Via: "command line"}), booted(ctx, sc))
	}, undoes)
	w.drill(runs[1], "", booted, undoes)
	return w, runs
}

// rewritten puts eve in mei's place in a journal, and makes the chain of its lines anew.
func rewritten(t *testing.T, w *world, run string) {
	t.Helper()
	path := ledger.Path(w.dir, run)
	var out []byte
	prev := ""
	for line := range bytes.Lines(read(t, path)) {
		line = bytes.Replace(line, []byte(`"by":"mei"`), []byte(`"by":"eve"`), 1)
		if at := bytes.Index(line, []byte(`"prev":"`)); at >= 0 {
			line = append(append(bytes.Clone(line[:at+8]), prev...), line[at+8+64:]...)
		}
		prev = ledger.SealOf(line).SHA256
		out = append(out, line...)
	}
	if bytes.Equal(out, read(t, path)) {
		t.Fatal("nothing was changed")
	}
	put(t, path, out)
}

// remade makes the evidence of a journal as drkit would.
func remade(t *testing.T, w *world, run string) []byte {
	t.Helper()
	e, _, err := load(ledger.Path(w.dir, run))
	if err != nil {
		t.Fatal(err)
	}
	data, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	put(t, Path(w.dir, run), data)
	return data
}

// TestForgedAck: somebody puts another name under a person's word, with ever more care.
func TestForgedAck(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(w *world, run string)
		want string
	}{
		"the word alone": {func(w *world, run string) {
			path := ledger.Path(w.dir, run)
			put(t, path, bytes.Replace(read(t, path), []byte(`"by":"mei"`), []byte(`"by":"eve"`), 1))
		}, "run RUN journal.jsonl line 5: it does not follow the line before it: line 4 or this one was changed"},
		"with the chain of lines": {func(w *world, run string) { rewritten(t, w, run) }, "run RUN journal.jsonl line 17: record 2 of the ledger sealed other bytes up to this line"},
		"with the evidence":       {func(w *world, run string) { rewritten(t, w, run); remade(t, w, run) }, "record 2 of the ledger sealed other bytes"},
		"in the evidence alone": {func(w *world, run string) {
			p := Path(w.dir, run)
			put(t, p, bytes.Replace(read(t, p), []byte(`"name": "mei"`), []byte(`"name": "eve"`), 1))
		}, `run RUN evidence.json /participants/0/name: record 2 of the ledger sealed other bytes: the journal says "mei", it says "eve"`},
		"with the closing record":  {func(w *world, run string) { rewritten(t, w, run); w.reclosed(run, remade(t, w, run)) }, "ledger record 3 (0000000003.json): it does not follow record 2: one of the two was replaced"},
		"the closing record alone": {func(w *world, run string) { w.reclosed(run, read(t, Path(w.dir, run))) }, ""}, // the same bytes: nothing was changed
	} {
		t.Run(name, func(t *testing.T) {
			w, runs := acknowledged(t)
			c.do(w, runs[0])
			if found := w.faults(Options{}); (found == "") != (c.want == "") || !strings.Contains(found, strings.ReplaceAll(c.want, "RUN", runs[0])) {
				t.Errorf("%q, want %q", found, c.want)
			}
		})
	}
}

// reclosed writes record 2 anew, so that it seals what is there now.
func (w *world) reclosed(run string, data []byte) {
	w.t.Helper()
	path := w.record(2)
	raw := read(w.t, path)
	scan, err := w.chain.Scan(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	e := scan.Entries[1]
	journal := ledger.SealOf(read(w.t, ledger.Path(w.dir, run)))
	for old, now := range map[string]string{e.Closed.Journal.SHA256: journal.SHA256, e.Closed.Evidence.SHA256: ledger.SealOf(data).SHA256, e.Sum: ledger.NoRecord} {
		raw = bytes.ReplaceAll(raw, []byte(old), []byte(now))
	}
	put(w.t, path, ledger.WithSum(raw))
}

// TestRewrittenWithCare: who rewrites the last run, its evidence and its closing record
// leaves nothing that contradicts itself: only a head that was noted shows it. That is
// why the tail is called unanchored.
func TestRewrittenWithCare(t *testing.T) {
	w, runs := acknowledged(t)
	head := w.check(Options{}).Head.SHA256
	remove(t, w.record(3), w.record(4), ledger.Dir(w.dir, runs[1]))
	rewritten(t, w, runs[0])
	w.reclosed(runs[0], remade(t, w, runs[0]))
	if a := w.check(Options{}); len(a.Faults) != 0 || a.Tail != TailUnanchored {
		t.Errorf("%+v", a)
	}
	if found := w.faults(Options{Head: head}); !strings.Contains(found, "its end was cut off, or it was rewritten") {
		t.Errorf("%q", found)
	}
}

// TestFilesMovedAddedAndCut: what can be done to whole files and folders, and where each
// is told.
func TestFilesMovedAddedAndCut(t *testing.T) {
	more := func(path, text string) { put(t, path, append(read(t, path), text...)) }
	half := func(path string) { d := read(t, path); put(t, path, d[:len(d)/2]) }
	for name, c := range map[string]struct {
		do   func(w *world, r []string)
		want []string
	}{
		"two runs' folders swapped": {func(w *world, r []string) {
			aside := filepath.Join(w.dir, "aside")
			rename(t, ledger.Dir(w.dir, r[0]), aside)
			rename(t, ledger.Dir(w.dir, r[1]), ledger.Dir(w.dir, r[0]))
			rename(t, aside, ledger.Dir(w.dir, r[1]))
		}, []string{"run RUN1 journal.jsonl line 1: it is the journal of run RUN2", "run RUN2 journal.jsonl line 1: it is the journal of run RUN1"}},
		"a run's folder under a new id": {func(w *world, r []string) {
			if err := os.CopyFS(ledger.Dir(w.dir, id(9)), os.DirFS(ledger.Dir(w.dir, r[0]))); err != nil {
				t.Fatal(err)
			}
		}, []string{"journal.jsonl line 1: it is the journal of run RUN1", "it has a journal, and the ledger does not know it"}},
		"a line of a journal twice": {func(w *world, r []string) {
			lines(t, ledger.Path(w.dir, r[0]), func(l [][]byte) [][]byte { return append(l[:4:4], l[3:]...) })
		}, []string{"run RUN1 journal.jsonl line 5"}},
		"a line after a journal's end": {func(w *world, r []string) { more(ledger.Path(w.dir, r[0]), "{}\n") }, []string{"run RUN1 journal.jsonl line"}},
		"half a line after its end":    {func(w *world, r []string) { more(ledger.Path(w.dir, r[0]), `{"run":`) }, []string{"run RUN1 journal.jsonl line", "the line has no end"}},
		"half a journal":               {func(w *world, r []string) { half(ledger.Path(w.dir, r[0])) }, []string{"run RUN1 journal.jsonl"}},
		"a space after evidence":       {func(w *world, r []string) { more(Path(w.dir, r[0]), " ") }, []string{"run RUN1 evidence.json: record 2 of the ledger sealed other bytes: from byte"}},
		"half of evidence":             {func(w *world, r []string) { half(Path(w.dir, r[0])) }, []string{"run RUN1 evidence.json: record 2 of the ledger sealed other bytes"}},
		"evidence of no bytes":         {func(w *world, r []string) { put(t, Path(w.dir, r[0]), nil) }, []string{"run RUN1 evidence.json: record 2 of the ledger sealed other bytes"}},
		"evidence that is a folder":    {func(w *world, r []string) { remove(t, Path(w.dir, r[0])); mkdir(t, Path(w.dir, r[0])) }, []string{"run RUN1 evidence.json: reading"}},
		"a space after a record":       {func(w *world, _ []string) { more(w.record(3), " ") }, []string{"ledger record 3 (0000000003.json): it was changed"}},
		"half a record":                {func(w *world, _ []string) { half(w.record(3)) }, []string{"ledger record 3 (0000000003.json): it was changed: it is no record of a ledger"}},
		"a record of no bytes":         {func(w *world, _ []string) { put(t, w.record(3), nil) }, []string{"ledger record 3 (0000000003.json): it was changed"}},
		"a record twice, between two": {func(w *world, _ []string) {
			for n := uint64(6); n > 3; n-- {
				rename(t, w.record(n), w.record(n+1))
			}
			put(t, w.record(4), read(t, w.record(3)))
		}, []string{"record 4 (0000000004.json): it says that it is record 3", "record 5 (0000000005.json): it says that it is record 4"}},
		"the ledger of other runs": {func(w *world, _ []string) {
			other, _ := three(t)
			for n := range uint64(6) {
				put(t, w.record(n+1), read(t, other.record(n+1)))
			}
		}, []string{"run RUN1: it has a journal, and the ledger does not know it", "run RUN3: it has a journal, and the ledger does not know it", "journal.jsonl: record 5 of the ledger knows the run"}},
	} {
		t.Run(name, func(t *testing.T) {
			w, runs := three(t)
			c.do(w, runs)
			found := w.faults(Options{})
			for _, want := range c.want {
				for i, run := range runs {
					want = strings.ReplaceAll(want, "RUN"+string('1'+rune(i)), run)
				}
				if !strings.Contains(found, want) {
					t.Errorf("does not say %q:\n%s", want, found)
				}
			}
		})
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func mkdir(t *testing.T, path string) {
	t.Helper()
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
}

// sealedStore is a ledger's store that takes no more records.
type sealedStore struct{ store.ReadWriter }

func (sealedStore) Put(context.Context, string, store.Body, store.Cond) (store.Object, error) {
	return store.Object{}, errors.New("read-only file system")
}

// TestReadOnlyLedger: a run whose end cannot be written into the ledger has its evidence,
// is no success, and is told as one that nothing closes.
func TestReadOnlyLedger(t *testing.T) {
	w, run := newWorld(t), id(1)
	_, j := w.begin(run, "", boot(drill.Passed), undoes)
	defer j.Close()
	writable := w.chain
	w.on(sealedStore{dir.Plain(filepath.Join(w.dir, "ledger"))})
	if _, err := Seal(t.Context(), w.chain, w.dir, run, "kim"); err == nil || !strings.Contains(err.Error(), "read-only file system") {
		t.Errorf("%v", err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if found := w.faults(Options{}); !strings.Contains(found, "record 1 of the ledger opens it, and none closes it") {
		t.Errorf("%q", found)
	}
	w.chain = writable
	if _, err := Seal(t.Context(), w.chain, w.dir, run, "kim"); err != nil {
		t.Fatal(err)
	}
	if found := w.faults(Options{}); found != "" {
		t.Errorf("closed later: %q", found)
	}
}
