package drill

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"drkit/internal/errext"
	"drkit/playbooks"
)

// sideBySide puts restore and boot of the recovery into one group.
func sideBySide(rn *Runner) {
	rn.Playbook.Steps[2].Group, rn.Playbook.Steps[3].Group = "ready", "ready"
}

// TestGroupRunsSideBySide: restore takes 1 minute and boot 5; together they take 5,
// and their budget is that of one of them.
func TestGroupRunsSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rn, w, j := newRunner()
		sideBySide(rn)
		both := 0
		rn.Handlers = append(rn.Handlers, seen(func(_ Event, r *Run) {
			if n := len(r.RunningSteps()); n > both {
				both = n
			}
			if now := r.Current(); now != nil && now.ID == "boot" && r.Steps[2].Running() {
				t.Error("the current step is not the plan's first that runs")
			}
		}))
		r, err := rn.Run(t.Context(), "R1", promise())
		if err != nil {
			t.Fatal(err)
		}
		wantVerdict(t, r, j, w, Recovered, 0)
		if d, _, _ := r.RTO(); d != 9*time.Minute || both != 2 {
			t.Errorf("RTO %v, want 9m; %d steps at once", d, both)
		}
		if s := r.Segment(InstantDeclared, InstantEngineReady); s.Elapsed != 5*time.Minute || s.Budget != 4*time.Minute {
			t.Errorf("to engine-ready: %+v, want 5m of 4m", s)
		}
		if s := r.Segment(InstantDeclared, InstantSteady); s.Budget != 16*time.Minute {
			t.Errorf("budget to steady %v, want 4 × 4m", s.Budget)
		}
	})
}

// seen is a handler that cannot fail.
type seen func(Event, *Run)

func (f seen) Event(e Event, r *Run) error {
	f(e, r)
	return nil
}

// TestGroupStopsBesideAFailure: the restore fails after a minute, the boot beside it
// is stopped then and is not what the verdict rests on.
func TestGroupStopsBesideAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rn, w, j := newRunner()
		sideBySide(rn)
		rn.Steps["restore"] = do{do: func(ctx context.Context, sc Scope) error {
			_ = sleep(ctx, time.Minute)
			return errext.WithStatus(errors.New("shard 2 does not match"), errext.Gate)
		}}
		r, err := rn.Run(t.Context(), "R1", promise())
		if err != nil {
			t.Fatal(err)
		}
		wantVerdict(t, r, j, w, NotRecovered, 4)
		if s := r.Steps[3]; s.Result != Unmeasured || !contains(s.Error, "step restore of its group failed") || s.Elapsed().Elapsed != time.Minute {
			t.Errorf("boot: %+v", s)
		}
		if len(r.Finished.Reasons) != 1 {
			t.Errorf("reasons %+v", r.Finished.Reasons)
		}
	})
}

// TestGroupKeepsWhatAlwaysRuns: a step that always runs is not stopped by the others.
func TestGroupKeepsWhatAlwaysRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rn, w, j := newRunner()
		sideBySide(rn)
		rn.Playbook.Steps[3].When = playbooks.Always
		rn.Steps["restore"] = do{do: func(context.Context, Scope) error { return errors.New("access denied") }}
		r, err := rn.Run(t.Context(), "R1", promise())
		if err != nil {
			t.Fatal(err)
		}
		wantVerdict(t, r, j, w, Incomplete, 1)
		if r.Steps[3].Result != Passed || r.Steps[3].Elapsed().Elapsed != 5*time.Minute {
			t.Errorf("boot: %+v", r.Steps[3])
		}
	})
}

// TestGroupInterrupted: Ctrl-C stops both.
func TestGroupInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rn, w, j := newRunner()
		sideBySide(rn)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(3*time.Minute+30*time.Second, func() { cancel(errors.New("interrupted")) })
		r, err := rn.Run(ctx, "R1", promise())
		if err != nil {
			t.Fatal(err)
		}
		wantVerdict(t, r, j, w, Aborted, 130)
		if len(r.RunningSteps()) > 0 {
			t.Errorf("still running: %v", r.RunningSteps())
		}
	})
}

// TestFoldRefusesStepsSideBySideOfNoGroup: only steps of one group may overlap.
func TestFoldRefusesStepsSideBySideOfNoGroup(t *testing.T) {
	for _, tc := range []struct {
		groups [2]string
		fine   bool
	}{{[2]string{"g", "g"}, true}, {[2]string{"", ""}, false}, {[2]string{"g", "h"}, false}, {[2]string{"", "g"}, false}} {
		r := &Run{}
		add := func(seq uint64, step, typ, data string) error {
			return r.Apply(Event{Run: "R1", Seq: seq, Proc: 1, Step: step, Attempt: 1, Type: typ, Data: []byte(data)})
		}
		plan := `{"steps":[{"id":"a","group":"` + tc.groups[0] + `"},{"id":"b","group":"` + tc.groups[1] + `"}]}`
		if err := errors.Join(add(1, "", TypeRunStarted, plan), add(2, "a", TypeStepStarted, "{}")); err != nil {
			t.Fatal(err)
		}
		if err := add(3, "b", TypeStepStarted, "{}"); (err == nil) != tc.fine {
			t.Errorf("groups %q: %v", tc.groups, err)
		}
		if err := add(r.Seq+1, "a", TypeStepStarted, "{}"); err == nil {
			t.Errorf("groups %q: a step began beside itself", tc.groups)
		}
	}
}

// TestModes: a step of another mode is not in the plan at all.
func TestModes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rn, w, j := newRunner()
		rn.Playbook.Steps = append(rn.Playbook.Steps,
			playbooks.Step{ID: "approve", Kind: "nobody-knows", Modes: []string{"planned", "emergency"}},
			playbooks.Step{ID: "note", Kind: "declare-again", Modes: []string{"emergency", "rehearsal"}})
		rn.Steps["declare-again"] = do{}
		r, err := rn.Run(t.Context(), "R1", promise())
		if err != nil {
			t.Fatal(err)
		}
		wantVerdict(t, r, j, w, Recovered, 0)
		if slices.ContainsFunc(r.Steps, func(s StepState) bool { return s.ID == "approve" }) || len(r.Steps) != 9 {
			t.Errorf("steps %+v", r.Steps)
		}
	})
}

func TestModesLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rn, w, j := newRunner()
		for i := range rn.Playbook.Steps {
			rn.Playbook.Steps[i].Modes = []string{"planned"}
		}
		r, err := rn.Run(t.Context(), "R1", promise())
		if err != nil {
			t.Fatal(err)
		}
		wantVerdict(t, r, j, w, Refused, 3)
		wantReason(t, r, "no step of playbook")
	})
}
