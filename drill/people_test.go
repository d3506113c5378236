package drill

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// history folds events of one journal, numbered and stamped in their order.
func history(t *testing.T, events ...Event) *Run {
	t.Helper()
	r := &Run{}
	for i, e := range events {
		e.Run, e.Seq = "r", uint64(i+1)
		if e.Proc == 0 {
			e.Proc = 1
		}
		e.Mono, e.Wall = time.Duration(i), time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
		if err := r.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func of(typ, step string, data any) Event {
	raw, _ := json.Marshal(data)
	return Event{Type: typ, Step: step, Data: raw}
}

// second is an event of the second process.
func second(e Event) Event {
	e.Proc = 2
	return e
}

func movedRun(t *testing.T, mode string, more ...Event) *Run {
	plan := RunStarted{Mode: mode, Steps: []StepPlan{{ID: "boot", Kind: "boot"}, {ID: "cutover", Kind: "cutover"}}}
	events := []Event{of(TypeRunStarted, "", plan),
		of(TypeIntent, "boot", Intent{ID: "change-1", What: "canary", Undo: Undo{Kind: "stop", Keep: KeepWhileUsed}}), of(TypeChanged, "boot", Changed{ID: "change-1"}),
		of(TypeIntent, "cutover", Intent{ID: "change-2", What: "router", Undo: Undo{Kind: "router", Keep: KeepHeld}}), of(TypeChanged, "cutover", Changed{ID: "change-2"})}
	return history(t, append(events, more...)...)
}

func TestCutOver(t *testing.T) {
	undone := of(TypeUndone, "cutover", Undone{ID: "change-2"})
	for _, c := range []struct {
		name string
		run  *Run
		want string
	}{
		{"an emergency", movedRun(t, ModeEmergency), ""},
		{"a planned move", movedRun(t, ModePlanned), ""},
		{"a rehearsal", movedRun(t, ModeRehearsal), "moves nothing of production"},
		{"taken back", movedRun(t, ModeEmergency, undone), "was taken back"},
		{"taken back later", movedRun(t, ModeEmergency, of(TypeKept, "cutover", Kept{ID: "change-2", Why: "held"}), of(TypeRunFinished, "", RunFinished{Verdict: Incomplete, Status: 8}), second(of(TypeTakingBack, "", TakingBack{By: "mei", Why: "asked"})), second(undone)), "was taken back"},
		{"half made", movedRun(t, ModeEmergency, of(TypeChanged, "cutover", Changed{ID: "change-2", Error: "no"})), "no step of the run moved"},
	} {
		moved, why := c.run.CutOver()
		if moved != (c.want == "") || !strings.Contains(why, c.want) {
			t.Errorf("%s: %v %q", c.name, moved, why)
		}
	}
}

// TestAdopted: what a person took over is no longer the run's to take back, and what
// was taken back or never made cannot be taken over.
func TestAdopted(t *testing.T) {
	adopt := of(TypeAdopted, "boot", Adopted{ID: "change-1", By: "mei"})
	r := movedRun(t, ModeEmergency, adopt)
	if left := r.Left(); len(left) != 1 || left[0].ID != "change-2" {
		t.Errorf("%+v", left)
	}
	for name, c := range map[string]struct {
		run  *Run
		what Adopted
	}{
		"nobody":      {movedRun(t, ModeEmergency), Adopted{ID: "change-1"}},
		"unknown":     {movedRun(t, ModeEmergency), Adopted{ID: "change-9", By: "mei"}},
		"taken back":  {movedRun(t, ModeEmergency, of(TypeUndone, "boot", Undone{ID: "change-1"})), Adopted{ID: "change-1", By: "mei"}},
		"never made":  {movedRun(t, ModeEmergency, of(TypeChanged, "boot", Changed{ID: "change-1", Error: "x"})), Adopted{ID: "change-1", By: "mei"}},
		"left at end": {movedRun(t, ModeEmergency, of(TypeRunFinished, "", RunFinished{Verdict: Incomplete, Status: 8})), Adopted{ID: "change-1", By: "mei"}},
	} {
		e := of(TypeAdopted, "boot", c.what)
		e.Run, e.Seq, e.Proc = "r", c.run.Seq+1, 2
		if c.run.Apply(e) == nil {
			t.Errorf("%s: it is adopted", name)
		}
	}
	kept := movedRun(t, ModeEmergency, of(TypeKept, "boot", Kept{ID: "change-1", Why: "a change that stays rests on it"}), of(TypeKept, "cutover", Kept{ID: "change-2", Why: "held"}),
		of(TypeRunFinished, "", RunFinished{Verdict: Incomplete, Status: 4}))
	e := of(TypeAdopted, "boot", Adopted{ID: "change-1", By: "mei"})
	e.Run, e.Seq, e.Proc = "r", kept.Seq+1, 2
	if err := kept.Apply(e); err != nil || kept.Finished == nil || len(kept.Kept()) != 1 {
		t.Errorf("after the end: %v %+v", err, kept.Kept())
	}
}

// TestApprovalsFold: the newest judgement of an approval stands, those before the start
// too, and one without an approver is refused.
func TestApprovalsFold(t *testing.T) {
	before := Approval{ID: "a", Approver: "mei", Method: "ssh-ed25519", Record: 3}
	void := before
	void.Why = "it expired"
	r := history(t, of(TypeRunStarted, "", RunStarted{Approvals: []Approval{before}}), of(TypeApproval, "", void), of(TypeApproval, "", Approval{ID: "b", Approver: "ada", Method: "x", Record: 4}))
	if len(r.Approvals) != 2 || r.Approvals[0].Why != "it expired" {
		t.Errorf("%+v", r.Approvals)
	}
	e := of(TypeApproval, "", Approval{})
	e.Run, e.Seq, e.Proc, e.Mono = "r", r.Seq+1, 1, time.Second
	if r.Apply(e) == nil {
		t.Error("an approval of nobody is taken")
	}
}
