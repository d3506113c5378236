package step

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"drkit/drill"
	"drkit/drill/approval"
	"drkit/internal/errext"
	"drkit/playbooks"
)

// approve waits until enough people have approved the run's plan in the ledger.
// What is there and counts nothing is named.
type approve struct{ w *World }

// approvalPoll is how often the ledger is read while approvals are missing.
const approvalPoll = 5 * time.Second

// unreadPatience is how long the ledger may not be readable before the step fails.
const unreadPatience = time.Minute

var errNoApprovals = errors.New("nobody can approve: approvals.keys of drkit.yaml names nobody")

func (a approve) Check(_ context.Context, s playbooks.Step) []error {
	if err := s.Decode(&struct{}{}); err != nil {
		return []error{err}
	}
	if a.w.Approvals == nil {
		return []error{refuse(errNoApprovals, "name the people and their keys under approvals in drkit.yaml (docs/approvals.md)")}
	}
	return nil
}

func (a approve) Do(ctx context.Context, s playbooks.Step, sc drill.Scope) error {
	if a.w.Approvals == nil {
		return refuse(errNoApprovals, "")
	}
	var tally approval.Tally
	var unread time.Time
	told := ""
	command := "drkit drill approve " + sc.RunID() + " --key KEY"
	err := wait(ctx, approvalPoll, "approvals", func(ctx context.Context) (bool, error) {
		t, err := a.w.Approvals(ctx, sc.RunID())
		if err != nil && ctx.Err() == nil {
			if unread.IsZero() {
				unread = time.Now()
			}
			return false, unlessPatient(err, unread)
		}
		if err != nil {
			return false, nil // the step's own end cut the reading off
		}
		unread, tally = time.Time{}, t
		if text := summary(t); text != told {
			told = text
			if t.Enough() {
				return true, nil
			}
			if err := sc.Emit(drill.TypeNote, drill.Note{Waits: true, Text: fmt.Sprintf("%s; the step waits %v for them; on a machine that reaches the ledger: %s", text, s.Timeout, command)}); err != nil {
				return false, err
			}
		}
		return t.Enough(), nil
	})
	if interrupted(ctx) {
		return context.Cause(ctx)
	}
	if told := emitApprovals(sc, tally); told != nil {
		return told
	}
	if err != nil && ctx.Err() == nil {
		return errext.WithStatus(fmt.Errorf("reading the approvals: %w", err), errext.Evidence)
	}
	if !tally.Enough() {
		return paused(fmt.Errorf("%w: %s", drill.ErrPaused, summary(tally)), command+", then drkit drill resume "+sc.RunID())
	}
	return errors.Join(sc.Emit(drill.TypeInstant, drill.Instant{Name: drill.InstantApproved}), gate(sc, drill.Gate{
		ID: "approved", Title: "the plan was approved by people", Expected: fmt.Sprintf("%d different people", tally.Required), Observed: summary(tally),
		Result: drill.Passed, Evidence: "the ledger's records"}))
}

// Recheck lets stand what was approved before: an approval is of the plan, whose hash
// a resume compares, and its expiry says until when a run may begin, not that a
// cutover has to be taken back.
func (approve) Recheck(context.Context, playbooks.Step, drill.Scope) error { return nil }

// paused ends the step so that a person can go on later.
func paused(err error, command string) error {
	return errext.WithHint(errext.WithStatus(err, errext.Paused), command)
}

func unlessPatient(err error, since time.Time) error {
	if errext.StatusOf(err) == errext.Evidence && time.Since(since) < unreadPatience {
		return nil
	}
	return err
}

func emitApprovals(sc drill.Scope, t approval.Tally) error {
	for _, list := range [][]drill.Approval{t.Valid, t.Void} {
		for _, a := range list {
			if err := sc.Emit(drill.TypeApproval, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// summary says who approved, and what counts nothing and why.
func summary(t approval.Tally) string {
	var names, void []string
	for _, a := range t.Valid {
		name := a.Approver
		if a.Self {
			name += " (the operator's own)"
		}
		names = append(names, name)
	}
	for _, a := range t.Void {
		void = append(void, fmt.Sprintf("record %d by %s: %s", a.Record, a.Approver, a.Why))
	}
	text := fmt.Sprintf("%d of %d approvals", len(t.Valid), t.Required)
	if len(names) > 0 {
		text += " (" + strings.Join(names, ", ") + ")"
	}
	if len(void) > 0 {
		text += "; counting nothing: " + first(void, 3)
	}
	return text
}
