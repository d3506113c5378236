package evidence

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"drkit/drill"
	"drkit/drill/ledger"
)

func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	s, err := c.Compile("../../docs/drkit.evidence.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validate(t *testing.T, data []byte) error {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return schema(t).Validate(doc)
}

// TestSchema: every kind of run makes evidence that the published schema holds, and that is
// consistent in itself.
func TestSchema(t *testing.T) {
	w, runs := three(t)
	stuck := func(context.Context, []byte) error { return errors.New("process 4711 is still there") }
	for i, undo := range []drill.UndoFunc{stuck, undoes} {
		runs = append(runs, id(4+i))
		act := boot(drill.Passed)
		if i == 1 {
			act = func(context.Context, drill.Scope) error { return errors.New("no room") }
		}
		w.drill(runs[3+i], "", act, undo)
	}
	for _, run := range runs {
		data := read(t, Path(w.dir, run))
		if err := validate(t, data); err != nil {
			t.Errorf("%s: %v", run, err)
		}
		if f := CheckFile(data); len(f) > 0 {
			t.Errorf("%s: %+v", run, f)
		}
	}
}

// TestSchemaCanRefuse: what must never be written is not valid.
func TestSchemaCanRefuse(t *testing.T) {
	w, runs := three(t)
	data := read(t, Path(w.dir, runs[0]))
	for name, change := range map[string]func(doc map[string]any){
		"a field is missing": func(d map[string]any) { delete(d, "cleanup") },
		"a field is unknown": func(d map[string]any) { d["certified"] = true },
		"null without a reason": func(d map[string]any) {
			d["measured"].(map[string]any)["rto"] = map[string]any{"value": nil, "unit": "seconds"}
		},
		"an unknown verdict":            func(d map[string]any) { d["outcome"].(map[string]any)["verdict"] = "pass" },
		"recovered with a status":       func(d map[string]any) { d["outcome"].(map[string]any)["status"] = 4 },
		"a control without a limit":     func(d map[string]any) { d["controls"].([]any)[0].(map[string]any)["does_not_show"] = []any{} },
		"a time that is no time":        func(d map[string]any) { d["clock"].(map[string]any)["began"] = "yesterday" },
		"a sum that is no SHA-256":      func(d map[string]any) { d["sum"] = "1" },
		"a self-test that is not known": func(d map[string]any) { d["self_test"].(map[string]any)["state"] = "fine" },
		"a result that is not known":    func(d map[string]any) { d["gates"].([]any)[0].(map[string]any)["result"] = "green" },
	} {
		var doc map[string]any
		if err := json.Unmarshal(data, &doc); err != nil {
			t.Fatal(err)
		}
		change(doc)
		changed, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		if validate(t, changed) == nil {
			t.Errorf("%s: it is valid", name)
		}
	}
}

// TestContradictions: somebody rewrites evidence with care, its own sum included.
func TestContradictions(t *testing.T) {
	w, runs := three(t)
	for _, c := range []struct {
		name, run string
		change    func(e *Evidence)
		field     string
	}{
		{"a pass beside a red gate", runs[1], func(e *Evidence) { e.Outcome.Verdict, e.Outcome.Status = drill.Recovered, 0 }, "/outcome/verdict"},
		{"a red gate in a pass", runs[0], func(e *Evidence) { e.Gates[0].Result = drill.Failed }, "/outcome/verdict"},
		{"a gate was left out", runs[0], func(e *Evidence) { e.Gates = e.Gates[:0] }, "/outcome/verdict"},
		{"a step was not reached", runs[0], func(e *Evidence) { e.Steps[1].Result = drill.NotReached }, "/outcome/verdict"},
		{"the clean-up is not proven", runs[0], func(e *Evidence) { e.Cleanup.Changes[0].Undone = false }, "/outcome/verdict"},
		{"leftovers are hidden", runs[0], func(e *Evidence) { e.Cleanup.Changes[0].Undone = false }, "/cleanup/status"},
		{"another status", runs[1], func(e *Evidence) { e.Outcome.Status = 0 }, "/outcome/status"},
		{"other reasons", runs[1], func(e *Evidence) { e.Outcome.Reasons[0].What = "bad luck" }, "/outcome/reasons"},
		{"a stand-in took part", runs[0], func(e *Evidence) { e.Components[0].Substitute = true }, "/outcome/verdict"},
		{"too late", runs[0], func(e *Evidence) { e.Objectives.RTONanoseconds = 1 }, "/outcome/verdict"},
		{"a better time", runs[0], func(e *Evidence) { e.Measured["rto"] = e.Measured["steady_error_rate"] }, "/measured/rto/value"},
		{"another promise", runs[0], func(e *Evidence) { e.Objectives.RTO = 9 }, "/objectives/rto_seconds"},
		{"a proof that does not hold", runs[1], func(e *Evidence) { e.Proofs[0].Holds = true }, "/proofs/0/holds"},
		{"a proof that nobody asked for", runs[0], func(e *Evidence) { e.Objectives.MustProve = []string{} }, "/outcome/verdict"},
		{"null without a reason", runs[0], func(e *Evidence) { e.Unknown = e.Unknown[1:] }, "/scenario/id"},
		{"a reason for nothing", runs[0], func(e *Evidence) { e.Unknown[0].Reason = "" }, "/scenario/id"},
		{"a control that is claimed", runs[1], func(e *Evidence) { e.Controls[0].Supports = []string{"DORA is met"} }, "/controls"},
		{"cut short and recovered", runs[0], func(e *Evidence) { e.Outcome.Aborting = &drill.RunAborting{Why: "x"} }, "/outcome/verdict"},
		{"a problem before the clock", runs[0], func(e *Evidence) { e.Problems = []Problem{{What: "locked"}} }, "/outcome/verdict"},
	} {
		e, err := Decode(read(t, Path(w.dir, c.run)))
		if err != nil {
			t.Fatal(err)
		}
		c.change(e)
		data, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		found := ""
		for _, f := range CheckFile(data) {
			found += f.Field + ": " + f.What + "\n"
		}
		if !strings.Contains(found, c.field+": ") {
			t.Errorf("%s: %q", c.name, found)
		}
		if strings.Contains(found, "/sum") {
			t.Errorf("%s: the sum was made anew: %s", c.name, found)
		}
	}
	if f := CheckFile([]byte(`{"schema":"drkit.evidence/2.0"}`)); len(f) != 1 || !strings.Contains(f[0].What, "another version") {
		t.Errorf("%+v", f)
	}
	for _, bad := range []string{"", "null", "[]", "{", `{"schema":"drkit.evidence/1.0","outcome":{}}`, `{"schema":"drkit.evidence/1.0","x":1}`} {
		if f := CheckFile([]byte(bad)); len(f) == 0 {
			t.Errorf("%q holds", bad)
		}
	}
}

// TestHalfMilliseconds: promises and times between two milliseconds are rounded
// alike wherever they stand.
func TestHalfMilliseconds(t *testing.T) {
	r := &drill.Run{ID: id(1)}
	r.Plan.Objectives.RTO = 500500 * time.Microsecond
	for i, name := range []string{drill.InstantDeclared, drill.InstantSteady} {
		r.Instants = append(r.Instants, drill.InstantState{Name: name, At: drill.Stamp{Proc: 1, Mono: time.Duration(i) * 501500 * time.Microsecond}})
	}
	f := drill.Judge(r)
	r.Finished = &f
	data, err := New(r, ledger.SealOf(nil)).Encode()
	if err != nil {
		t.Fatal(err)
	}
	if faults := CheckFile(data); len(faults) > 0 {
		t.Errorf("%+v", faults)
	}
}

func FuzzCheckFile(f *testing.F) {
	f.Add([]byte(`{"schema":"drkit.evidence/1.0","outcome":{"verdict":"recovered"},"clock":{"instants":[{"name":"declared"},{"name":"steady"}]}}`))
	f.Add([]byte(`{"schema":"drkit.evidence/1.9","steps":null,"measured":{"rto":{"value":1}},"unknown":[{}]}`))
	e := New(random(rand.New(rand.NewPCG(3, 4))), ledger.SealOf(nil))
	data, err := e.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		faults := CheckFile(data)
		if _, err := Statement(data); err == nil && len(faults) == 0 {
			if e, err := Decode(data); err != nil || e.Outcome != nil && e.Outcome.Verdict == drill.Recovered && e.Outcome.Status != 0 {
				t.Errorf("holds: %q", data)
			}
		}
	})
}
