package step_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drkit/drill"
	"drkit/drill/approval"
	"drkit/internal/errext"
)

// people is a ledger of approvals by the time that has passed.
type people struct {
	began  time.Time
	after  map[string]time.Duration // name → when it is there
	void   []drill.Approval
	broken time.Duration // until then the ledger cannot be read
	asked  int
}

func (p *people) tally(context.Context, string) (approval.Tally, error) {
	p.asked++
	now := time.Since(p.began)
	if now < p.broken {
		return approval.Tally{}, errext.WithStatus(errors.New("the ledger is damaged"), errext.Evidence)
	}
	t := approval.Tally{Required: 2, Void: p.void}
	for _, name := range []string{"mei", "ada"} {
		if at, ok := p.after[name]; ok && now >= at {
			t.Valid = append(t.Valid, drill.Approval{ID: name, Approver: name, Method: "ssh-ed25519", KeyID: "SHA256:" + name, Record: 1})
		}
	}
	return t, nil
}

// waiting runs one approve step in virtual time.
func waiting(t *testing.T, p *people, timeout string) (r *drill.Run, took time.Duration, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o := newOwn(t)
		p.began = time.Now()
		o.world.Approvals = p.tally
		r, err = o.run("id: approve, kind: approve, who: two people, on_timeout: hold, timeout: "+timeout, "id: wait, kind: wait, with: {for: 1s}")
		took = time.Since(p.began)
	})
	return r, took, err
}

// TestApproveWaits: the step goes on when the second of two people has approved.
func TestApproveWaits(t *testing.T) {
	void := drill.Approval{ID: "eve", Approver: "eve", Record: 7, Why: "drkit.yaml does not know its key SHA256:x"}
	r, took, err := waiting(t, &people{after: map[string]time.Duration{"mei": 0, "ada": 12 * time.Minute}, void: []drill.Approval{void}}, "20m")
	if err != nil || r.Steps[0].Result != drill.Passed || took < 12*time.Minute || took > 13*time.Minute {
		t.Fatalf("%v %+v after %v", err, r.Steps[0], took)
	}
	in, stamped := r.Instant(drill.InstantApproved)
	if !stamped || in.At.Mono < 12*time.Minute {
		t.Errorf("%+v", in)
	}
	g := r.Gates[0]
	if g.ID != "approved" || g.Result != drill.Passed || !strings.Contains(g.Observed, "2 of 2 approvals (mei, ada)") || !strings.Contains(g.Observed, "record 7 by eve: drkit.yaml does not know its key") {
		t.Errorf("%+v", g)
	}
	if len(r.Approvals) != 3 || r.Approvals[2].Why == "" {
		t.Errorf("%+v", r.Approvals)
	}
	if len(r.Notes) != 0 || !strings.Contains(r.Steps[0].Waits, "1 of 2 approvals (mei)") {
		t.Errorf("what the step waited for is no note of the result: %q, %q", r.Notes, r.Steps[0].Waits)
	}
}

// TestApproveHolds: too few people until the time is up hold the run, and nothing after
// the step is begun; the command to go on is named, and what counts nothing too.
func TestApproveHolds(t *testing.T) {
	void := drill.Approval{ID: "ada", Approver: "ada", Record: 9, Why: "it expired at 2026-03-04T12:00:00Z"}
	r, took, err := waiting(t, &people{after: map[string]time.Duration{"mei": 0}, void: []drill.Approval{void}}, "10m")
	if !errors.Is(err, drill.ErrPaused) || errext.StatusOf(err) != errext.Paused || took < 10*time.Minute || took > 11*time.Minute {
		t.Fatalf("%v after %v", err, took)
	}
	if r.Held == nil || r.Held.Step != "approve" || !strings.Contains(r.Held.Next, "drkit drill approve R1 --key KEY, then drkit drill resume R1") || !strings.Contains(r.Held.Why, "it expired at") {
		t.Errorf("%+v", r.Held)
	}
	if !r.Steps[1].Started.IsZero() || len(r.Gates) != 0 {
		t.Errorf("%+v %+v", r.Steps[1], r.Gates)
	}
}

// TestApproveReadsAgain: a ledger that cannot be read for a while is asked again, one
// that stays so ends the step.
func TestApproveReadsAgain(t *testing.T) {
	all := map[string]time.Duration{"mei": 0, "ada": 0}
	if r, _, err := waiting(t, &people{after: all, broken: 30 * time.Second}, "10m"); err != nil || r.Steps[0].Result != drill.Passed {
		t.Errorf("%v %+v", err, r.Steps[0])
	}
	r, took, err := waiting(t, &people{after: all, broken: time.Hour}, "10m")
	if err != nil || r.Finished == nil || r.Finished.Status != int(errext.Evidence) || took > 2*time.Minute {
		t.Errorf("%v %+v after %v", err, r.Finished, took)
	}
}

// TestApproveNeedsPeople: without anybody who may approve the run is refused.
func TestApproveNeedsPeople(t *testing.T) {
	o := newOwn(t)
	r, err := o.run("id: approve, kind: approve, who: two people, on_timeout: hold, timeout: 1m")
	if err != nil || r.Finished.Status != int(errext.Refused) || !strings.Contains(r.Problems[0].What, "nobody can approve") {
		t.Errorf("%v %+v", err, r.Finished)
	}
}
