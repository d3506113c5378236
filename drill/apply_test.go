package drill

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"
)

// script builds a run event by event, one second apart.
type script struct {
	t *testing.T
	r *Run
	e Event
}

func newScript(t *testing.T, start RunStarted) *script {
	s := &script{t: t, r: &Run{}, e: Event{Run: "R1", Proc: 1, Wall: time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)}}
	s.add("", TypeRunStarted, start)
	return s
}

func (s *script) next(step, typ string, data any) Event {
	raw, err := json.Marshal(data)
	if err != nil {
		s.t.Fatal(err)
	}
	e := s.e
	e.Seq++
	e.Mono += time.Second
	e.Wall = e.Wall.Add(time.Second)
	e.Step, e.Type, e.Data, e.Attempt = step, typ, raw, 1
	return e
}

func (s *script) add(step, typ string, data any) *script {
	s.t.Helper()
	e := s.next(step, typ, data)
	if err := s.r.Apply(e); err != nil {
		s.t.Fatal(err)
	}
	s.e = e
	return s
}

func twoSteps() RunStarted {
	return RunStarted{Steps: []StepPlan{{ID: "a"}, {ID: "b"}}, Objectives: Objectives{RTO: time.Minute, MustProve: []string{ProofCopy}}}
}

func TestApplyRefusesAndStaysAsItWas(t *testing.T) {
	for name, change := range map[string]func(*Event){
		"bad data":            func(e *Event) { e.Data = []byte(`{"name":7}`) },
		"no data":             func(e *Event) { e.Data = nil },
		"null":                func(e *Event) { e.Data = []byte(" null") },
		"a gap":               func(e *Event) { e.Seq++ },
		"twice":               func(e *Event) { e.Seq-- },
		"another run":         func(e *Event) { e.Run = "R2" },
		"earlier":             func(e *Event) { e.Mono = 0 },
		"negative":            func(e *Event) { e.Mono = -1 },
		"another process":     func(e *Event) { e.Proc = 2 },
		"a process left out":  func(e *Event) { e.Proc = 3; e.Type = TypeRunAborting },
		"process zero":        func(e *Event) { e.Proc = 0 },
		"no type":             func(e *Event) { e.Type = "" },
		"begins again":        func(e *Event) { e.Type = TypeRunStarted },
		"unknown step":        func(e *Event) { e.Step = "z" },
		"step ends too early": func(e *Event) { e.Type = TypeStepFinished; e.Data = []byte(`{"result":"passed"}`) },
		"no name":             func(e *Event) { e.Data = []byte(`{}`) },
		"in the future":       func(e *Event) { e.Data = []byte(`{"name":"x","at":9999999999999}`) },
		"gate without result": func(e *Event) { e.Type = TypeGate; e.Data = []byte(`{"id":"g"}`) },
		"gate of no status":   func(e *Event) { e.Type = TypeGate; e.Data = []byte(`{"id":"g","result":"failed","status":130}`) },
		"unknown verdict":     func(e *Event) { e.Type = TypeRunFinished; e.Data = []byte(`{"verdict":"fine"}`) },
		"undone, not done":    func(e *Event) { e.Type = TypeUndone; e.Data = []byte(`{"id":"change-9"}`) },
		"intent without undo": func(e *Event) { e.Type = TypeIntent; e.Data = []byte(`{"id":"change-1"}`) },
		"window of no length": func(e *Event) { e.Type = TypeTraffic; e.Data = []byte(`{"from":2,"to":1}`) },
		"negative count":      func(e *Event) { e.Type = TypeTraffic; e.Data = []byte(`{"sent":-1}`) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, twoSteps())
			before := fmt.Sprintf("%+v", *s.r)
			e := s.next("a", TypeInstant, Instant{Name: "x"})
			change(&e)
			err := s.r.Apply(e)
			if err == nil {
				t.Fatal("it was taken")
			}
			if !contains(err.Error(), fmt.Sprintf("event %d (", e.Seq)) {
				t.Errorf("the error does not name the event: %v", err)
			}
			if after := fmt.Sprintf("%+v", *s.r); after != before {
				t.Errorf("the run changed:\n%s\n%s", before, after)
			}
		})
	}
}

func TestApplyKeepsUnknownTypes(t *testing.T) {
	s := newScript(t, twoSteps()).add("a", "soak.v9", map[string]any{"x": 1})
	if s.r.Seq != 2 || s.r.Running() != true {
		t.Errorf("%+v", s.r)
	}
	s.add("a", TypeStepStarted, StepStarted{})
	if s.r.Current().ID != "a" {
		t.Error("the fold stopped")
	}
	if err := s.r.Apply(s.next("b", TypeStepStarted, StepStarted{})); err == nil {
		t.Error("two steps at once")
	}
}

func TestNothingAfterTheEnd(t *testing.T) {
	s := newScript(t, twoSteps()).add("", TypeRunFinished, RunFinished{Verdict: Aborted})
	if err := s.r.Apply(s.next("", TypeNote, Note{Text: "x"})); err == nil {
		t.Error("a note after the end was taken")
	}
	if err := s.r.Apply(s.next("", TypeRunAborting, RunAborting{})); err == nil {
		t.Error("the same process aborted a run that had ended")
	}
}

func TestGatesOfAttempts(t *testing.T) {
	s := newScript(t, twoSteps())
	judge := func(attempt int, result string) string {
		e := s.next("a", TypeGate, Gate{ID: "g", Result: result})
		e.Attempt = attempt
		if err := s.r.Apply(e); err != nil {
			t.Fatal(err)
		}
		s.e = e
		return s.r.Gates[0].Result
	}
	for i, x := range []struct {
		attempt            int
		result, afterwards string
	}{
		{1, Passed, Passed},
		{1, Failed, Failed},
		{1, Passed, Failed}, // a green does not cover a red of the same attempt
		{1, Unmeasured, Failed},
		{2, Passed, Passed},
		{2, Unmeasured, Unmeasured},
		{2, Passed, Unmeasured},
	} {
		if got := judge(x.attempt, x.result); got != x.afterwards {
			t.Errorf("%d: got %s, want %s", i, got, x.afterwards)
		}
	}
	if len(s.r.Gates) != 1 {
		t.Errorf("%d gates", len(s.r.Gates))
	}
}

func TestProofsRestOnGates(t *testing.T) {
	gate := func(id, result string) Gate { return Gate{ID: id, Result: result} }
	for _, tc := range []struct {
		name   string
		gates  []Gate
		proof  Proof
		proven bool
		why    string
	}{
		{"by its gate", []Gate{gate("g", Passed)}, Proof{Proven: true, Gates: []string{"g"}, Why: "hashed"}, true, "hashed"},
		{"by its step's gates", []Gate{gate("g", Passed)}, Proof{Proven: true, Why: "hashed"}, true, "hashed"},
		{"by one of its step's gates", []Gate{gate("g", Passed), gate("h", Failed)}, Proof{Proven: true}, false, "gate h is failed"},
		{"by no gate", nil, Proof{Proven: true}, false, "a gate of step a was not judged in this run"},
		{"by a gate that was not judged", nil, Proof{Proven: true, Gates: []string{"g"}}, false, "gate g was not judged in this run"},
		{"by a red gate", []Gate{gate("g", Failed)}, Proof{Proven: true, Gates: []string{"g"}}, false, "gate g is failed"},
		{"by a gate left out", []Gate{gate("g", Skipped)}, Proof{Proven: true, Gates: []string{"g"}}, false, "gate g is skipped"},
		{"one of two", []Gate{gate("g", Passed), gate("h", Unmeasured)}, Proof{Proven: true, Gates: []string{"g", "h"}}, false, "gate h is unmeasured"},
		{"said not to be", []Gate{gate("g", Passed)}, Proof{Why: "blind", Gates: []string{"g"}}, false, "blind"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScript(t, twoSteps())
			for _, g := range tc.gates {
				s.add("a", TypeGate, g)
			}
			tc.proof.Name = ProofCopy
			s.add("a", TypeProof, tc.proof)
			if proven, why := s.r.Proof(ProofCopy); proven != tc.proven || why != tc.why {
				t.Errorf("got %v %q", proven, why)
			}
			if proven, _ := s.r.Proof(ProofEdge); proven {
				t.Error("an edge nobody looked at is proven")
			}
		})
	}
}

func TestInstants(t *testing.T) {
	s := newScript(t, twoSteps())
	at := func(name string, back time.Duration) {
		e := s.next("a", TypeInstant, nil)
		e.Data = fmt.Appendf(nil, `{"name":%q,"at":%d}`, name, e.Mono-back)
		if err := s.r.Apply(e); err != nil {
			t.Fatal(err)
		}
		s.e = e
	}
	at(InstantDeclared, 0)    // 2 s
	at(InstantDeclared, 0)    // 3 s: the first one counts
	at(InstantCutover, 0)     // 4 s
	at(InstantCutover, 500e6) // 4.5 s: the newest one counts
	at(InstantSteady, 250e6)  // 5.75 s
	if d, ok, _ := s.r.RTO(); !ok || d != 3750*time.Millisecond {
		t.Errorf("RTO %v %v", d, ok)
	}
	if seg := s.r.Segment(InstantCutover, InstantSteady); seg.Elapsed != 1250*time.Millisecond {
		t.Errorf("%+v", seg)
	}
	if seg := s.r.Segment(InstantDeclared, InstantWeights); seg.Measured || seg.Why != "weights was not reached" {
		t.Errorf("%+v", seg)
	}
	if d, ok := s.r.Elapsed(time.Hour); !ok || d != 3750*time.Millisecond {
		t.Errorf("the clock goes on after steady: %v", d)
	}
	at(InstantCutover, 0) // 7 s: after steady
	if _, ok, why := s.r.RTO(); ok || why != "cutover was stamped after steady" {
		t.Errorf("an RTO out of order: %v %q", ok, why)
	}
}

func TestLogTailIsBounded(t *testing.T) {
	s := newScript(t, twoSteps())
	for i := range LogTail + 7 {
		s.add("a", TypeLog, Log{From: "target", Line: fmt.Sprint(i)})
		s.add("a", TypeProgress, Progress{Task: fmt.Sprint(i % 2), Done: int64(i)})
	}
	if len(s.r.Logs) != LogTail || s.r.Logs[0].Line != "7" {
		t.Errorf("%d lines from %v", len(s.r.Logs), s.r.Logs[0])
	}
	want := []Progress{{Task: "0", Done: 206}, {Task: "1", Done: 205}}
	var got []Progress
	for _, p := range s.r.Progress {
		got = append(got, p.Progress)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
}

func FuzzApply(f *testing.F) {
	for _, typ := range []string{TypeInstant, TypeGate, TypeIntent, TypeTraffic, TypeStepStarted, TypeRunFinished, TypePhase, "other"} {
		f.Add(typ, []byte(`{"id":"g","name":"x","result":"passed","undo":{"kind":"k"},"verdict":"aborted"}`))
	}
	f.Fuzz(func(t *testing.T, typ string, data []byte) {
		s := newScript(t, twoSteps())
		e := s.next("a", TypeNote, Note{})
		e.Type, e.Data = typ, data
		_ = s.r.Apply(e)
		if v := Judge(s.r); v.Verdict == Recovered {
			t.Errorf("two events recovered: %s %s", typ, data)
		}
	})
}
