package drill

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"drkit/playbooks"
)

// memory is a journal in memory; failAt makes its nth event fail, and all after it.
type memory struct {
	mu     sync.Mutex
	events []Event
	failAt int
}

var errDisk = errors.New("no space left on device")

func (m *memory) Event(e Event, _ *Run) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failAt > 0 && len(m.events)+1 >= m.failAt {
		return errDisk
	}
	m.events = append(m.events, e)
	return nil
}

func (m *memory) Events() iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for _, e := range m.events {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// types lists the journal as "type" or "step:type", without the noise.
func (m *memory) types() []string {
	var all []string
	for _, e := range m.events {
		name := e.Type
		if e.Step != "" {
			name = e.Step + ":" + name
		}
		all = append(all, name)
	}
	return all
}

// world is what the fake steps change: names that are there.
type world struct {
	mu     sync.Mutex
	there  map[string]bool
	undone []string
	broken map[string]bool // undo of these fails
}

func newWorld() *world { return &world{there: map[string]bool{}, broken: map[string]bool{}} }

func (w *world) add(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.there[name] = true
}

func (w *world) undo(_ context.Context, args []byte) error {
	var name string
	if err := json.Unmarshal(args, &name); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.undone = append(w.undone, name)
	if w.broken[name] {
		return errors.New(name + " is still there")
	}
	delete(w.there, name)
	return nil
}

func (w *world) undos() map[string]UndoFunc { return map[string]UndoFunc{"remove": w.undo} }

// make changes the world through a scope.
func (w *world) make(ctx context.Context, sc Scope, name string) error {
	args, _ := json.Marshal(name)
	return sc.Change(ctx, "make "+name, Undo{Kind: "remove", Args: args}, func(context.Context) error {
		w.add(name)
		return nil
	})
}

// do is a step handler from functions.
type do struct {
	check func() []error
	do    func(context.Context, Scope) error
}

func (d do) Check(context.Context, playbooks.Step) []error {
	if d.check == nil {
		return nil
	}
	return d.check()
}

func (d do) Do(ctx context.Context, _ playbooks.Step, sc Scope) error {
	if d.do == nil {
		return nil
	}
	return d.do(ctx, sc)
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// pass emits a gate that passed and a proof that rests on it.
func pass(sc Scope, proof string) error {
	return errors.Join(
		sc.Emit(TypeGate, Gate{ID: "gate-" + proof, Expected: "yes", Observed: "yes", Result: Passed}),
		sc.Emit(TypeProof, Proof{Name: proof, Proven: true, Why: "seen", Gates: []string{"gate-" + proof}}))
}

// recovery is a playbook that recovers in ten minutes of virtual time: restore
// 1 min, boot 5, behaviour 1, cutover 1, steady 2, and a cleanup of another minute.
func recovery(w *world) (playbooks.Playbook, map[string]StepHandler) {
	steps := map[string]StepHandler{
		"preflight": do{do: func(ctx context.Context, sc Scope) error {
			return errors.Join(sleep(ctx, 3*time.Minute), w.make(ctx, sc, "lock"))
		}},
		"declare": do{do: func(_ context.Context, sc Scope) error { return sc.Emit(TypeInstant, Instant{Name: InstantDeclared}) }},
		"restore": do{do: func(ctx context.Context, sc Scope) error {
			return errors.Join(sleep(ctx, time.Minute), w.make(ctx, sc, "copy"), pass(sc, ProofCopy), sc.Emit(TypeInstant, Instant{Name: InstantWeights}))
		}},
		"boot": do{do: func(ctx context.Context, sc Scope) error {
			return errors.Join(w.make(ctx, sc, "replica"), sleep(ctx, 5*time.Minute), pass(sc, ProofBoot),
				sc.Emit(TypeComponent, Component{Role: RoleEngine, Name: "target engine", Kind: "vllm", Version: "0.32.0"}),
				sc.Emit(TypeInstant, Instant{Name: InstantEngineReady}))
		}},
		"behaviour": do{do: func(ctx context.Context, sc Scope) error {
			return errors.Join(sleep(ctx, time.Minute), pass(sc, ProofBehaviour), sc.Emit(TypeInstant, Instant{Name: InstantCanaryVerified}))
		}},
		"cutover": do{do: func(ctx context.Context, sc Scope) error {
			return errors.Join(w.make(ctx, sc, "route"), sleep(ctx, time.Minute), pass(sc, ProofRouter),
				sc.Emit(TypeComponent, Component{Role: RoleRouter, Name: "rehearsal router", Kind: "vllm-router"}),
				sc.Emit(TypeInstant, Instant{Name: InstantCutover}))
		}},
		"steady": do{do: func(ctx context.Context, sc Scope) error {
			return errors.Join(sleep(ctx, 2*time.Minute+time.Second), sc.Emit(TypeInstant, Instant{Name: InstantSteady, At: sc.Mono(time.Now()) - time.Second}))
		}},
		"cleanup": do{do: func(ctx context.Context, sc Scope) error {
			return errors.Join(sleep(ctx, time.Minute), sc.(Cleaner).UndoAll(ctx))
		}},
	}
	p := playbooks.Playbook{Name: "rehearsal"}
	for _, kind := range []string{"preflight", "declare", "restore", "boot", "behaviour", "cutover", "steady", "cleanup"} {
		p.Steps = append(p.Steps, playbooks.Step{ID: kind, Kind: kind, Budget: 4 * time.Minute})
	}
	return p, steps
}

func promise() RunStarted {
	return RunStarted{Service: "support-chat", Mode: "rehearsal", Source: "us-east-1", Target: "eu-west-1",
		Objectives: Objectives{RTO: 30 * time.Minute, MustProve: []string{ProofCopy, ProofBoot, ProofBehaviour, ProofRouter}}}
}

// newRunner is a runner of the recovery over a fresh world and journal.
func newRunner() (*Runner, *world, *memory) {
	w, j := newWorld(), &memory{}
	p, steps := recovery(w)
	return &Runner{Playbook: p, Handlers: []Handler{j}, Steps: steps, Undo: w.undos()}, w, j
}

// wantVerdict checks verdict, status, that the world is as it was, and that the
// journal replays to the same run without contradiction.
func wantVerdict(t *testing.T, r *Run, j *memory, w *world, verdict string, status int) {
	t.Helper()
	if r.Finished == nil {
		t.Fatalf("run has not finished; journal %v", j.types())
	}
	if r.Finished.Verdict != verdict || r.Finished.Status != status {
		t.Errorf("got %s (%d), want %s (%d): %+v", r.Finished.Verdict, r.Finished.Status, verdict, status, r.Finished.Reasons)
	}
	w.mu.Lock()
	if len(w.there) > 0 {
		t.Errorf("left behind: %v", w.there)
	}
	w.mu.Unlock()
	replayed, err := Replay(j.Events())
	if err != nil {
		t.Fatal(err)
	}
	if j.failAt == 0 && !reflect.DeepEqual(replayed, r) {
		t.Errorf("replay differs:\n got %.2000v\nwant %.2000v", replayed, r)
	}
	if err := Verify(replayed); err != nil {
		t.Error(err)
	}
}

func wantReason(t *testing.T, r *Run, text string) {
	t.Helper()
	if !slices.ContainsFunc(r.Finished.Reasons, func(x Reason) bool { return contains(x.What, text) }) {
		t.Errorf("no reason says %q: %+v", text, r.Finished.Reasons)
	}
}
