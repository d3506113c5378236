package evidence

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"drkit/drill"
	"drkit/drill/ledger"
	"drkit/internal/store"
	"drkit/internal/store/dir"
	"drkit/playbooks"
)

// world is a run.dir with its ledger.
type world struct {
	t     *testing.T
	dir   string
	chain *ledger.Chain
	keys  map[string]ssh.Signer // by the approval that they signed
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), keys: map[string]ssh.Signer{}}
	w.chain = ledger.NewChain(dir.Plain(filepath.Join(w.dir, "ledger")), "ledger", nil)
	return w
}

func (w *world) on(s store.ReadWriter) *world {
	w.chain = ledger.NewChain(s, "ledger", nil)
	return w
}

func id(second int) string {
	return ledger.NewID(time.Date(2026, 3, 4, 5, 6, second, 0, time.UTC))
}

type act func(context.Context, drill.Scope) error

type handler struct{ act }

func (handler) Check(_ context.Context, s playbooks.Step) []error {
	if s.Text == "refused" {
		return []error{errors.New("the target is locked")}
	}
	return nil
}

func (h handler) Do(ctx context.Context, _ playbooks.Step, sc drill.Scope) error {
	return h.act(ctx, sc)
}

func say(sc drill.Scope, events ...any) error {
	for _, e := range events {
		var typ string
		switch e.(type) {
		case drill.Gate:
			typ = drill.TypeGate
		case drill.Proof:
			typ = drill.TypeProof
		case drill.Instant:
			typ = drill.TypeInstant
		case drill.Component:
			typ = drill.TypeComponent
		case drill.TrafficWindow:
			typ = drill.TypeTraffic
		}
		if err := sc.Emit(typ, e); err != nil {
			return err
		}
	}
	return nil
}

// boot is a step that boots what it claims, or does not.
func boot(result string) act {
	return func(ctx context.Context, sc drill.Scope) error {
		err := sc.Change(ctx, "canary target", drill.Undo{Kind: "undo", Args: []byte(`{}`)}, func(context.Context) error { return nil })
		return errors.Join(err, say(sc, drill.Instant{Name: drill.InstantDeclared}, drill.Component{Role: drill.RoleEngine, Name: "canary", Kind: "vllm", Version: "0.32.0"},
			drill.Gate{ID: "boot", Expected: "/health 200", Observed: "it", Result: result, Evidence: "the engine's own answer"},
			drill.Proof{Name: drill.ProofBoot, Proven: result == drill.Passed, Why: "a canary booted"}))
	}
}

func steady(ctx context.Context, sc drill.Scope) error {
	now := sc.Mono(time.Now())
	return say(sc, drill.TrafficWindow{Class: "c", Phase: "steady", From: 0, To: now, Sent: 10, OK: 10, TTFTP50: 1e6, TTFTP99: 2e6, ByRegion: map[string]int{"eu": 10}},
		drill.Instant{Name: drill.InstantSteady})
}

// drill runs one drill, announced and sealed as cmd does it. Text "refused" makes a
// check refuse.
func (w *world) drill(run string, text string, boot act, undo drill.UndoFunc) *drill.Run {
	w.t.Helper()
	r, j := w.begin(run, text, boot, undo)
	defer j.Close()
	if _, err := Seal(w.t.Context(), w.chain, w.dir, run, "kim@laptop"); err != nil {
		w.t.Fatal(err)
	}
	return r
}

func undoes(context.Context, []byte) error { return nil }

func (w *world) begin(run, text string, boot act, undo drill.UndoFunc) (*drill.Run, *ledger.Journal) {
	w.t.Helper()
	j, err := ledger.Create(w.dir, run, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	start := drill.RunStarted{Service: "support", Mode: "rehearsal", Source: "us", Target: "eu", Release: strings.Repeat("4f", 32), PlanHash: strings.Repeat("ab", 32), Tool: "drkit test", By: "kim@laptop",
		SelfTest: &drill.SelfTest{State: drill.SelfTestHolds, At: "2026-11-30T10:00:00Z", Tool: "drkit test", SHA256: strings.Repeat("ab", 32), Cases: []drill.SelfTestCase{{ID: "router-lies", Want: "red", Outcome: "red"}}},
		Playbook: "rehearsal", Objectives: drill.Objectives{RTO: time.Minute, ErrorRate: 0.01, MustProve: []string{drill.ProofBoot}}}
	w.announce(run, &start)
	rn := drill.Runner{Playbook: playbooks.Playbook{Name: "rehearsal"}, Handlers: []drill.Handler{j}, Undo: map[string]drill.UndoFunc{"undo": undo},
		Steps: map[string]drill.StepHandler{"boot": handler{boot}, "steady": handler{steady}}}
	rn.Playbook.Steps = []playbooks.Step{{ID: "boot", Kind: "boot", Text: text, Budget: time.Minute}, {ID: "steady", Kind: "steady", Budget: time.Minute}}
	r, err := rn.Run(w.t.Context(), run, start)
	if err != nil {
		w.t.Fatal(err)
	}
	return r, j
}

func (w *world) announce(run string, start *drill.RunStarted) ledger.Entry {
	w.t.Helper()
	o := OpenedOf(*start)
	e, err := w.chain.Append(w.t.Context(), ledger.Record{Kind: ledger.KindOpened, Run: run, At: time.Now(), By: "kim@laptop", Opened: &o})
	if err != nil {
		w.t.Fatal(err)
	}
	start.Ledger = &drill.LedgerRef{Location: "ledger", Record: e.Seq, SHA256: e.SHA256, Previous: e.Previous, Anchored: e.Anchored}
	return e
}

// three are a recovery, a red run and a refusal.
func three(t *testing.T) (*world, []string) {
	t.Helper()
	w, runs := newWorld(t), []string{id(1), id(2), id(3)}
	for i, want := range []string{drill.Recovered, drill.NotRecovered, drill.Refused} {
		result, text := drill.Passed, ""
		switch want {
		case drill.NotRecovered:
			result = drill.Failed
		case drill.Refused:
			text = "refused"
		}
		if r := w.drill(runs[i], text, boot(result), undoes); r.Finished.Verdict != want {
			t.Fatalf("%+v, want %s", r.Finished, want)
		}
	}
	return w, runs
}

func (w *world) check(o Options) *Audit {
	w.t.Helper()
	if o.Dirs == nil {
		o.Dirs = []string{w.dir}
	}
	a, err := Check(w.t.Context(), w.chain, o)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

func (w *world) faults(o Options) string {
	w.t.Helper()
	var b strings.Builder
	for _, f := range w.check(o).Faults {
		b.WriteString(f.Where + ": " + f.What + "\n")
	}
	return b.String()
}

// judged holds the verdict of the program without drkit against ours: DRKIT_JUDGE names
// it, as scripts/conformance-evidence does.
func (w *world) judged(found string) {
	w.t.Helper()
	judge := os.Getenv("DRKIT_JUDGE")
	if judge == "" {
		return
	}
	args := []string{judge, "--ledger", filepath.Join(w.dir, "ledger")}
	for _, run := range w.runs() {
		args = append(args, Path(w.dir, run))
	}
	out, err := exec.Command("python3", args...).CombinedOutput()
	if (err == nil) != (found == "") {
		w.t.Errorf("%v: %s\nand here: %q", err, out, found)
	}
}

func (w *world) runs() []string {
	w.t.Helper()
	all, err := ledger.List(w.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

func (w *world) record(n uint64) string { return filepath.Join(w.dir, "ledger", ledger.Key(n)) }

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func put(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}
