package evidence

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"drkit/drill"
	"drkit/drill/ledger"
	"drkit/internal/store/dir"
)

func TestThreeRunsHold(t *testing.T) {
	w, runs := three(t)
	a := w.check(Options{})
	if len(a.Faults) != 0 || a.Records != 6 || a.Tail != TailUnanchored || len(a.Notes) != 1 || !strings.Contains(a.Notes[0], "unanchored") {
		t.Fatalf("%+v", a)
	}
	for i, want := range []RunAudit{{runs[0], "recovered", 0, "closed"}, {runs[1], "not-recovered", 4, "closed"}, {runs[2], "refused", 3, "closed"}} {
		if a.Runs[i] != want {
			t.Errorf("%+v, want %+v", a.Runs[i], want)
		}
	}
	if a := w.check(Options{Head: a.Head.SHA256}); a.Tail != TailPinned || len(a.Faults) != 0 {
		t.Errorf("%+v", a)
	}
}

// TestEveryByte: whichever byte of a journal, of the ledger or of evidence changes,
// it is found, and in the file that it was changed in. DRKIT_EVERY_BYTE=1, as
// scripts/conformance-evidence sets it, tries each byte of one run and every seventh
// of three, in half a minute; otherwise it is every so many.
func TestEveryByte(t *testing.T) {
	w := newWorld(t)
	run := id(1)
	w.drill(run, "refused", boot(drill.Passed), undoes)
	short, long := 41, 251
	if os.Getenv("DRKIT_EVERY_BYTE") != "" {
		short, long = 1, 7
	}
	everyByte(t, w, []string{run}, short)
	w, runs := three(t)
	everyByte(t, w, runs, long)
}

func everyByte(t *testing.T, w *world, runs []string, step int) {
	t.Helper()
	files := map[string]string{}
	for _, run := range runs {
		files[ledger.Path(w.dir, run)] = "run " + run + " journal.jsonl"
		files[Path(w.dir, run)] = "run " + run + " evidence.json"
	}
	for n := range 2 * len(runs) {
		files[w.record(uint64(n+1))] = "ledger record " + itoa(n+1)
	}
	for path, where := range files {
		data := read(t, path)
		only := Options{}
		for _, run := range runs {
			if strings.Contains(where, run) {
				only.Runs = []string{run}
			}
		}
		for i := 0; i < len(data); i += step {
			changed := bytes.Clone(data)
			changed[i] ^= 1 << (i % 7)
			put(t, path, changed)
			found := w.faults(only)
			if !strings.Contains(found, where) {
				t.Fatalf("byte %d of %s (%q became %q): %s", i, path, data[i], changed[i], found)
			}
			if strings.HasSuffix(path, ledger.FileName) {
				nearby(t, found, where, bytes.Count(data[:i], []byte("\n"))+1, i)
			}
		}
		put(t, path, data)
	}
	if found := w.faults(Options{}); found != "" {
		t.Errorf("all is as it was, and yet: %s", found)
	}
}

// nearby: a changed line is found by itself or by the one that follows it.
func nearby(t *testing.T, found, where string, line, at int) {
	t.Helper()
	for l := line; l <= line+1; l++ {
		if strings.Contains(found, where+" line "+itoa(l)+":") {
			return
		}
	}
	t.Fatalf("byte %d, line %d: %s", at, line, found)
}

func itoa(n int) string {
	if n < 10 {
		return string('0' + rune(n))
	}
	return itoa(n/10) + itoa(n%10)
}

func TestRunsAndRecordsTakenAway(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(w *world, runs []string)
		want []string
	}{
		"a run's folder": {func(w *world, runs []string) { remove(t, ledger.Dir(w.dir, runs[1])) },
			[]string{"run RUN2 journal.jsonl: record 3 of the ledger knows the run, taken by kim@laptop, and its journal is not there"}},
		"the newest run's folder":     {func(w *world, runs []string) { remove(t, ledger.Dir(w.dir, runs[2])) }, []string{"run RUN3 journal.jsonl: record 5"}},
		"a run's evidence":            {func(w *world, runs []string) { remove(t, Path(w.dir, runs[1])) }, []string{"run RUN2 evidence.json: it was deleted"}},
		"a run's opening record":      {func(w *world, _ []string) { remove(t, w.record(3)) }, []string{"ledger record 3 (0000000003.json): it is missing"}},
		"a run's records":             {func(w *world, _ []string) { remove(t, w.record(3)); remove(t, w.record(4)) }, []string{"record 3 ", "record 4 ", "run RUN2: it has a journal, and the ledger does not know it"}},
		"a run with its records":      {func(w *world, runs []string) { remove(t, w.record(3), w.record(4), ledger.Dir(w.dir, runs[1])) }, []string{"record 3 (", "record 4 ("}},
		"the closing record":          {func(w *world, _ []string) { remove(t, w.record(6)) }, []string{"run RUN3: record 5 of the ledger opens it, and none closes it"}},
		"the last run's records only": {func(w *world, _ []string) { remove(t, w.record(5), w.record(6)) }, []string{"run RUN3: it has a journal, and the ledger does not know it"}},
		"two records swapped":         {func(w *world, _ []string) { swap(t, w.record(3), w.record(4)) }, []string{"record 3 (0000000003.json): it says that it is record 4", "record 4 (0000000004.json): it says that it is record 3"}},
		"two journals swapped": {func(w *world, r []string) { swap(t, ledger.Path(w.dir, r[0]), ledger.Path(w.dir, r[1])) },
			[]string{"run RUN1 journal.jsonl line 1: it is the journal of run", "run RUN2 journal.jsonl line 1"}},
		"two evidences swapped": {func(w *world, r []string) { swap(t, Path(w.dir, r[0]), Path(w.dir, r[1])) }, []string{"run RUN1 evidence.json", "run RUN2 evidence.json"}},
		"two lines swapped": {func(w *world, r []string) {
			lines(t, ledger.Path(w.dir, r[0]), func(l [][]byte) [][]byte { l[3], l[4] = l[4], l[3]; return l })
		}, []string{"run RUN1 journal.jsonl line 4"}},
		"a line taken out": {func(w *world, r []string) {
			lines(t, ledger.Path(w.dir, r[0]), func(l [][]byte) [][]byte { return append(l[:3], l[4:]...) })
		}, []string{"run RUN1 journal.jsonl line 4"}},
		"a journal's end": {func(w *world, r []string) {
			lines(t, ledger.Path(w.dir, r[0]), func(l [][]byte) [][]byte { return l[:len(l)-2] })
		}, []string{"run RUN1 journal.jsonl: record 2 of the ledger sealed"}},
		"a journal emptied": {func(w *world, r []string) { put(t, ledger.Path(w.dir, r[0]), nil) }, []string{"run RUN1 journal.jsonl: record 2 of the ledger sealed"}},
		"an added record":   {func(w *world, _ []string) { put(t, w.record(7), read(t, w.record(6))) }, []string{"record 7 (0000000007.json): it says that it is record 6"}},
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

// TestCutEnd: the last run with its records and its folder leaves no trace in an
// unanchored ledger. That is said, and a head that was noted before shows it.
func TestCutEnd(t *testing.T) {
	w, runs := three(t)
	head := w.check(Options{}).Head.SHA256
	remove(t, w.record(5), w.record(6), ledger.Dir(w.dir, runs[2]))
	if a := w.check(Options{}); len(a.Faults) != 0 || a.Tail != TailUnanchored || !strings.Contains(a.Notes[0], "cut off its end") {
		t.Errorf("%+v", a)
	}
	if found := w.faults(Options{Head: "sha256:" + head}); !strings.Contains(found, "its end was cut off, or it was rewritten") {
		t.Errorf("the head was noted: %q", found)
	}
	if found := w.faults(Options{Head: "0"}); found == "" {
		t.Error("a head that never was is accepted")
	}
}

func remove(t *testing.T, paths ...string) {
	t.Helper()
	for _, p := range paths {
		if _, err := os.Stat(p); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(p); err != nil {
			t.Fatal(err)
		}
	}
}

func swap(t *testing.T, a, b string) {
	t.Helper()
	x, y := read(t, a), read(t, b)
	put(t, a, y)
	put(t, b, x)
}

func lines(t *testing.T, path string, change func([][]byte) [][]byte) {
	t.Helper()
	all := bytes.SplitAfter(bytes.TrimSuffix(read(t, path), []byte("\n")), []byte("\n"))
	all[len(all)-1] = append(all[len(all)-1], '\n')
	put(t, path, bytes.Join(change(all), nil))
}

// TestChosenRuns: one run is judged alone, the ledger whole.
func TestChosenRuns(t *testing.T) {
	w, runs := three(t)
	put(t, Path(w.dir, runs[0]), []byte("{}"))
	if found := w.faults(Options{Runs: runs[1:2]}); found != "" {
		t.Errorf("another run's evidence: %s", found)
	}
	if found := w.faults(Options{Runs: []string{id(9)}}); !strings.Contains(found, "neither the ledger nor a folder knows it") {
		t.Errorf("an unknown run: %q", found)
	}
	elsewhere := t.TempDir()
	if err := os.MkdirAll(filepath.Join(elsewhere, "runs"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(ledger.Dir(w.dir, runs[1]), ledger.Dir(elsewhere, runs[1])); err != nil {
		t.Fatal(err)
	}
	if found := w.faults(Options{Dirs: []string{w.dir, elsewhere}, Runs: runs[1:2]}); found != "" {
		t.Errorf("a run of another machine: %s", found)
	}
}

// TestNegativeSizes: a record that seals fewer than no bytes is not written, and a
// forged one is a fault like any other.
func TestNegativeSizes(t *testing.T) {
	w, run := newWorld(t), id(1)
	w.drill(run, "", boot(drill.Passed), undoes)
	for _, c := range []ledger.Closed{{Journal: ledger.Sealed{Bytes: -1}}, {Evidence: &ledger.Sealed{Bytes: -1}}} {
		if _, err := w.chain.Append(t.Context(), ledger.Record{Kind: ledger.KindClosed, Run: run, At: time.Now(), Closed: &c}); err == nil {
			t.Errorf("written: %+v", c)
		}
	}
	closing := read(t, w.record(2))
	sum := regexp.MustCompile(`"sum": "[0-9a-f]{64}"`)
	for _, size := range regexp.MustCompile(`"bytes": [0-9]+`).FindAll(closing, -1) {
		forged := bytes.Replace(closing, size, []byte(`"bytes": -1`), 1)
		put(t, w.record(2), ledger.WithSum(sum.ReplaceAll(forged, []byte(`"sum": "`+ledger.NoRecord+`"`))))
		if found := w.faults(Options{}); !strings.Contains(found, "ledger record 2 (0000000002.json): it was changed: it seals a file of less than no bytes") {
			t.Errorf("%s: %s", size, found)
		}
	}
}

// TestLineInTheMaking: a run that goes on may be writing a line; one that is gone
// has left half of it.
func TestLineInTheMaking(t *testing.T) {
	w, run := newWorld(t), id(1)
	start := drill.RunStarted{Service: "support"}
	w.announce(run, &start)
	j, err := ledger.Create(w.dir, run, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if err := j.Event(event(t, run, 1, drill.TypeRunStarted, start), nil); err != nil {
		t.Fatal(err)
	}
	put(t, j.Path(), append(read(t, j.Path()), `{"run":"`...))
	if found := w.faults(Options{}); found != "" {
		t.Errorf("while it lives: %s", found)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if found := w.faults(Options{}); !strings.Contains(found, "journal.jsonl line 2: the line has no end") {
		t.Errorf("%s", found)
	}
}

// TestGatesNameTheirEvents: the line of the journal that a gate points to holds it.
func TestGatesNameTheirEvents(t *testing.T) {
	w, runs := three(t)
	for _, run := range runs[:2] {
		lines := bytes.Split(read(t, ledger.Path(w.dir, run)), []byte("\n"))
		e, err := Decode(read(t, Path(w.dir, run)))
		if err != nil || len(e.Gates) != 1 {
			t.Fatalf("%v %+v", err, e)
		}
		g := e.Gates[0]
		if line := string(lines[g.Event-1]); !strings.Contains(line, `"type":"gate"`) || !strings.Contains(line, `"result":"`+g.Result+`"`) {
			t.Errorf("event %d is %s", g.Event, line)
		}
	}
}

// TestSealedByTheFirstVersion: what was sealed once holds in every later version.
// When this is red after a changed word of a reason, a rule, a control or an
// "unknown", a new Schema is due: older runs must not turn red by an upgrade.
func TestSealedByTheFirstVersion(t *testing.T) {
	root := filepath.Join("testdata", "sealed-1.0")
	a, err := Check(t.Context(), ledger.NewChain(dir.Plain(filepath.Join(root, "ledger")), "ledger", nil), Options{Dirs: []string{root}})
	if err != nil || len(a.Faults) != 0 || a.Records != 6 {
		t.Fatalf("%v %+v", err, a)
	}
	for i, want := range []string{drill.Recovered, drill.NotRecovered, drill.Refused} {
		if got := a.Runs[i]; got.Verdict != want || got.State != "closed" {
			t.Errorf("%+v, want %s", got, want)
		}
	}
}
