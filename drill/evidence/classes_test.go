package evidence

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"drkit/drill"
)

// TestClassesAndWhatStays: a class without a lawful target and a cutover that stays are
// in the evidence, which holds; lifting either out of it is found.
func TestClassesAndWhatStays(t *testing.T) {
	w := newWorld(t)
	passed := boot(drill.Passed)
	act := func(ctx context.Context, sc drill.Scope) error {
		err := errors.Join(sc.Emit(drill.TypeClass, drill.Class{Name: "chat", Residency: []string{"us", "eu"}, Share: 0.8}),
			sc.Emit(drill.TypeClass, drill.Class{Name: "us-phi", Residency: []string{"us"}, Share: 0.2, Refused: "it may be answered in [us] alone"}),
			passed(ctx, sc))
		return errors.Join(err, sc.Change(ctx, "router of production", drill.Undo{Kind: "undo", Args: []byte(`{}`), Keep: drill.KeepOnSuccess}, func(context.Context) error { return nil }))
	}
	run := id(1)
	w.drill(run, "", act, undoes)
	data := read(t, Path(w.dir, run))
	if err := validate(t, data); err != nil {
		t.Error(err)
	}
	if f := CheckFile(data); len(f) > 0 {
		t.Errorf("%+v", f)
	}
	var e Evidence
	if err := json.Unmarshal(data, &e); err != nil {
		t.Fatal(err)
	}
	if e.Outcome.Verdict != drill.Incomplete || e.Outcome.Status != 4 || *e.Classes[0].Verdict != drill.Recovered || *e.Classes[1].Verdict != drill.Refused {
		t.Errorf("%+v, classes %+v", e.Outcome, e.Classes)
	}
	if e.Cleanup.Status != CleanVerified || e.Cleanup.Changes[1].Kept == "" || e.Cleanup.Changes[0].Kept != "" {
		t.Errorf("%+v", e.Cleanup)
	}
	for name, change := range map[string][2]string{
		"the class became lawful": {`"lawful_target": false`, `"lawful_target": true`},
		"nothing stays":           {`"kept": "it is what the run was made for"`, `"kept": ""`},
	} {
		changed := strings.Replace(string(data), change[0], change[1], 1)
		if changed == string(data) {
			t.Fatalf("%s: nothing was changed", name)
		}
		var again Evidence
		if err := json.Unmarshal([]byte(changed), &again); err != nil {
			t.Fatal(err)
		}
		resummed, err := again.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if f := CheckFile(resummed); len(f) == 0 {
			t.Errorf("%s, and its sum was made anew: nobody noticed", name)
		}
	}
}
