package report

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drkit/drill"
	"drkit/internal/errext"
	"drkit/playbooks"
)

var update = flag.Bool("update", false, "write the golden files")

// journal keeps events in memory.
type journal struct{ events []drill.Event }

func (j *journal) Event(e drill.Event, _ *drill.Run) error {
	j.events = append(j.events, e)
	return nil
}

func (j *journal) Events() iter.Seq2[drill.Event, error] {
	return func(yield func(drill.Event, error) bool) {
		for _, e := range j.events {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// script holds step handlers by kind.
type script map[string]func(context.Context, drill.Scope) error

type handler func(context.Context, drill.Scope) error

func (handler) Check(context.Context, playbooks.Step) []error { return nil }
func (h handler) Do(ctx context.Context, _ playbooks.Step, sc drill.Scope) error {
	return h(ctx, sc)
}

func emit(sc drill.Scope, events ...any) error {
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
		case drill.Phase:
			typ = drill.TypePhase
		case drill.TrafficWindow:
			typ = drill.TypeTraffic
		case drill.Note:
			typ = drill.TypeNote
		}
		if err := sc.Emit(typ, e); err != nil {
			return err
		}
	}
	return nil
}

func change(ctx context.Context, sc drill.Scope, what string) error {
	return sc.Change(ctx, what, drill.Undo{Kind: "undo", Args: []byte(`{}`)}, func(context.Context) error { return nil })
}

// recovery is a drill whose every figure is known: restore 62.5 s from a cache,
// boot 95 s of which 25 s are a gap, behaviour 4 s, cutover 3 s, steady 30 s.
func recovery() script {
	hit := 0.75
	return script{
		"declare": func(_ context.Context, sc drill.Scope) error {
			return emit(sc, drill.Note{Text: "the loss is declared, not caused"}, drill.Instant{Name: drill.InstantDeclared})
		},
		"restore": func(ctx context.Context, sc drill.Scope) error {
			time.Sleep(62500 * time.Millisecond)
			return errors.Join(change(ctx, sc, "restored release in eu-west-1"), emit(sc,
				drill.Gate{ID: "copy", Title: "the copy is the release", Expected: "12 files match", Observed: "12 files match", Result: drill.Passed, Evidence: "content"},
				drill.Proof{Name: drill.ProofCopy, Proven: true, Why: "every byte was hashed"}, drill.Instant{Name: drill.InstantWeights, Cached: true}))
		},
		"boot": func(ctx context.Context, sc drill.Scope) error {
			err := change(ctx, sc, "canary target")
			time.Sleep(95 * time.Second)
			return errors.Join(err, emit(sc,
				drill.Component{Role: drill.RoleEngine, Name: "target canary", Kind: "vllm", Version: "0.32.0"},
				drill.Phase{Replica: "target", Name: "start", Length: 70 * time.Second, Line: "version | 0.32.0"},
				drill.Phase{Replica: "target", Name: "unexplained", Start: 70 * time.Second, Length: 25 * time.Second, Gap: true},
				drill.Gate{ID: "boot", Expected: "/health 200 and models [support]", Observed: "both", Result: drill.Passed},
				drill.Proof{Name: drill.ProofBoot, Proven: true, Why: "a canary booted"}, drill.Instant{Name: drill.InstantEngineReady}))
		},
		"behaviour": func(_ context.Context, sc drill.Scope) error {
			time.Sleep(4 * time.Second)
			return emit(sc, drill.Gate{ID: "behaviour", Expected: "as recorded", Observed: "9 probes as recorded", Result: drill.Passed},
				drill.Proof{Name: drill.ProofBehaviour, Proven: true, Why: "9 probes as recorded"}, drill.Instant{Name: drill.InstantCanaryVerified})
		},
		"cutover": func(ctx context.Context, sc drill.Scope) error {
			err := change(ctx, sc, "route us-chat → eu-west-1")
			time.Sleep(3 * time.Second)
			now := sc.Mono(time.Now())
			return errors.Join(err, emit(sc,
				drill.Component{Role: drill.RoleRouter, Name: "rehearsal router", Kind: "vllm-router", Version: "0.1.0"},
				drill.TrafficWindow{Class: "us-chat", Phase: "cutover", From: now - 3*time.Second, To: now, Sent: 60, OK: 58, Failed: 1, Cut: 1, TTFTP50: 40e6, TTFTP99: 900e6, ByRegion: map[string]int{"us-east-1": 20, "eu-west-1": 38}},
				drill.Gate{ID: "attribution", Expected: "requests land in eu-west-1", Observed: "38 of 38", Result: drill.Passed, Evidence: "router and engine counters"},
				drill.Proof{Name: drill.ProofRouter, Proven: true, Why: "38 of 38 requests landed"},
				drill.Proof{Name: drill.ProofCacheAware, Why: "the router's policy sees no text prompts"}, drill.Instant{Name: drill.InstantCutover}))
		},
		"steady": func(_ context.Context, sc drill.Scope) error {
			for range 3 {
				time.Sleep(10 * time.Second)
				now := sc.Mono(time.Now())
				if err := emit(sc, drill.TrafficWindow{Class: "us-chat", Phase: "steady", From: now - 10*time.Second, To: now, Sent: 200, OK: 199, Failed: 1,
					TTFTP50: 35e6, TTFTP99: 60e6, CacheHit: &hit, ByRegion: map[string]int{"eu-west-1": 199}}); err != nil {
					return err
				}
			}
			return emit(sc, drill.Gate{ID: "steady", Expected: "3 windows", Observed: "3 windows", Result: drill.Passed}, drill.Instant{Name: drill.InstantSteady})
		},
		"cleanup": func(ctx context.Context, sc drill.Scope) error { return sc.(drill.Cleaner).UndoAll(ctx) },
	}
}

// run runs the drill in virtual time and returns its journal.
func run(t *testing.T, s script, undo drill.UndoFunc, ctx context.Context, also ...drill.Handler) *journal {
	t.Helper()
	j := &journal{}
	rn := drill.Runner{Playbook: playbooks.Playbook{Name: "rehearsal"}, Handlers: append([]drill.Handler{j}, also...),
		Steps: map[string]drill.StepHandler{}, Undo: map[string]drill.UndoFunc{"undo": undo}}
	for _, kind := range []string{"declare", "restore", "boot", "behaviour", "cutover", "steady", "cleanup"} {
		rn.Steps[kind] = handler(s[kind])
		rn.Playbook.Steps = append(rn.Playbook.Steps, playbooks.Step{ID: kind, Kind: kind, Budget: time.Minute})
	}
	_, err := rn.Run(ctx, "01JRUN", drill.RunStarted{Service: "support-chat", Mode: "rehearsal", Source: "us-east-1", Target: "eu-west-1", Release: "4f1c", PlanHash: "ab12", Tool: "drkit test",
		Objectives: drill.Objectives{RTO: 4 * time.Minute, TTFTP99: 2 * time.Second, ErrorRate: 0.01, Steady: drill.Steady{Windows: 3, Window: 10 * time.Second, MinRequests: 100, Load: 0.2},
			MustProve: []string{drill.ProofCopy, drill.ProofBoot, drill.ProofBehaviour, drill.ProofRouter}}})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func undoes(context.Context, []byte) error { return nil }

// journals are the runs that the golden files hold.
func journals(t *testing.T) map[string]*journal {
	red := recovery()
	red["boot"] = func(ctx context.Context, sc drill.Scope) error {
		err := change(ctx, sc, "canary target")
		time.Sleep(18 * time.Second)
		return errors.Join(err, emit(sc, drill.Gate{ID: "boot", Title: "a canary boots", Expected: "/health 200", Observed: "the engine ended: TokenizerMissing: \"a <b> | c\"", Result: drill.Failed, Hint: "verify the copy"},
			drill.Proof{Name: drill.ProofBoot, Why: "TokenizerMissing"}))
	}
	stuck := func(context.Context, []byte) error {
		return errors.New("process 4711 is still there")
	}
	whole := run(t, recovery(), undoes, t.Context())
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(90*time.Second, func() { cancel(errext.WithStatus(errors.New("interrupted (Ctrl-C)"), errext.Interrupted)) })
	half := recovery()
	half["boot"] = func(ctx context.Context, sc drill.Scope) error {
		err := change(ctx, sc, "canary target")
		<-ctx.Done()
		return errors.Join(err, context.Cause(ctx))
	}
	interrupted := run(t, half, undoes, ctx)
	return map[string]*journal{
		"recovered":   whole,
		"interrupted": interrupted,
		"red":         run(t, red, undoes, t.Context()),
		"unclean":     run(t, recovery(), stuck, t.Context()),
		"killed":      {events: whole.events[:20]},
	}
}

func TestGolden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, j := range journals(t) {
			for ext, write := range map[string]func(*bytes.Buffer, *drill.Run) error{
				"md":   func(b *bytes.Buffer, r *drill.Run) error { return Markdown(b, r) },
				"json": func(b *bytes.Buffer, r *drill.Run) error { return JSON(b, r) },
				"txt": func(b *bytes.Buffer, _ *drill.Run) error {
					p, r := NewPlain(b), &drill.Run{}
					for _, e := range j.events {
						if err := errors.Join(r.Apply(e), p.Event(e, r)); err != nil {
							return err
						}
					}
					return nil
				},
			} {
				r, err := drill.Replay(j.Events())
				if err != nil {
					t.Fatal(err)
				}
				var b bytes.Buffer
				if err := write(&b, r); err != nil {
					t.Fatal(err)
				}
				golden(t, name+"."+ext, b.Bytes())
			}
		}
	})
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; look, then run with -update:\n%s", name, got)
	}
}

// TestFigures holds what the runs above must show, calculated by hand.
func TestFigures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := journals(t)
		result := func(name string) Result {
			r, err := drill.Replay(all[name].Events())
			if err != nil {
				t.Fatal(err)
			}
			return New(r)
		}
		good := result("recovered")
		for name, want := range map[string]float64{"rto": 194.5, "declared_to_engine_ready": 157.5, "declared_to_cutover": 164.5, "steady_ttft_p99": 0.06, "steady_error_rate": 0.005} {
			if f := good.Measured[name]; f.Value == nil || *f.Value != want || f.Why != "" {
				t.Errorf("%s: %+v, want %v", name, f, want)
			}
		}
		if s := good.Segments[1]; *s.Elapsed != 95 || *s.Budget != 60 || *s.Slack != -35 || !good.Segments[0].Cached {
			t.Errorf("%+v", good.Segments)
		}
		if *good.Verdict != drill.Recovered || *good.Status != 0 || !good.Proves[drill.ProofRouter].Proven || good.Proves[drill.ProofFullCapacity].Proven {
			t.Errorf("%+v", good.Proves)
		}
		for _, name := range []string{"red", "interrupted", "killed"} {
			res := result(name)
			if f := res.Measured["rto"]; f.Value != nil || f.Why == "" || f.Clock != "" {
				t.Errorf("%s: rto %+v", name, f)
			}
			if f := res.Measured["steady_error_rate"]; f.Value != nil || f.Why == "" {
				t.Errorf("%s: error rate %+v", name, f)
			}
		}
		if res := result("killed"); res.Verdict != nil || res.Status != nil || res.Ended != nil {
			t.Errorf("a run without an end has the verdict %v", *res.Verdict)
		}
		if res := result("unclean"); *res.Status != 8 || *res.Verdict != drill.Incomplete {
			t.Errorf("%s %d", *res.Verdict, *res.Status)
		}
	})
}

// TestNothingUnmeasuredIsZero: no null of the result has a value elsewhere.
func TestNothingUnmeasuredIsZero(t *testing.T) {
	var r drill.Run
	if err := r.Apply(drill.Event{Run: "R", Seq: 1, Proc: 1, Type: drill.TypeRunStarted, Data: []byte(`{"steps":[{"id":"a"}]}`)}); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := JSON(&b, &r); err != nil {
		t.Fatal(err)
	}
	var res struct {
		Measured map[string]map[string]any
		Segments []map[string]any
	}
	if err := json.Unmarshal(b.Bytes(), &res); err != nil {
		t.Fatal(err)
	}
	for name, f := range res.Measured {
		if v, there := f["value"]; !there || v != nil || f["why"] == "" || f["why"] == nil {
			t.Errorf("%s: %v", name, f)
		}
	}
	for _, s := range res.Segments {
		if s["elapsed_seconds"] != nil || s["slack_seconds"] != nil || s["why"] == nil {
			t.Errorf("%v", s)
		}
	}
}

func TestPlainASCII(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		p := NewPlain(&b)
		p.ASCII = true
		run(t, recovery(), undoes, t.Context(), p)
		if i := strings.IndexFunc(b.String(), func(c rune) bool { return c > 0x7e || c < ' ' && c != '\n' }); i >= 0 {
			t.Errorf("not ASCII: %q", b.String()[max(0, i-20):i+5])
		}
		if !slices.Contains(strings.Split(b.String(), "\n"), "01:02.5 ok restore passed in 1m2.5s - at risk: projected 5:02 by budgets, promised 4:00") {
			t.Errorf("%s", b.String())
		}
	})
}
