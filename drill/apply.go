package drill

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Apply folds one event into the run. Events come in order, without a gap and
// from one run; anything else is an error that names the event, and leaves the
// run as it was. An event of an unknown type counts in the order and changes
// nothing else.
func (r *Run) Apply(e Event) error {
	commit, err := r.prepare(e)
	if err != nil {
		return err
	}
	commit()
	return nil
}

// prepare checks an event without changing anything and returns what folds it
// in, so that the runner can journal between the two.
func (r *Run) prepare(e Event) (commit func(), err error) {
	fold := func() {}
	if err = r.fits(e); err == nil {
		if f, known := folders[e.Type]; known {
			fold, err = f(r, e)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("event %d (%s): %w", e.Seq, e.Type, err)
	}
	return func() {
		r.watchClock(e)
		r.ID, r.Seq, r.Last = e.Run, e.Seq, stamp(e)
		fold()
	}, nil
}

// fits checks the event's place in the run.
func (r *Run) fits(e Event) error {
	switch {
	case e.Type == "":
		return errors.New("has no type")
	case r.ID == "" && (e.Type != TypeRunStarted || e.Run == ""):
		return fmt.Errorf("a journal begins with %s", TypeRunStarted)
	case r.ID != "" && e.Type == TypeRunStarted:
		return errors.New("the run was started before")
	case r.ID != "" && e.Run != r.ID:
		return fmt.Errorf("belongs to run %q, not to %q", e.Run, r.ID)
	case e.Seq != r.Seq+1:
		return fmt.Errorf("is out of order: after %d comes %d", r.Seq, r.Seq+1)
	case r.ID == "" && e.Proc != 1:
		return fmt.Errorf("comes from process %d: a run begins in process 1", e.Proc)
	case r.ID != "" && e.Proc != r.Last.Proc && e.Proc != r.Last.Proc+1:
		return fmt.Errorf("comes from process %d after process %d", e.Proc, r.Last.Proc)
	case e.Mono < 0 || e.Proc == r.Last.Proc && e.Mono < r.Last.Mono:
		return fmt.Errorf("is earlier (%v) than the event before it (%v)", e.Mono, r.Last.Mono)
	case e.Type == TypeAdopted && r.ID != "":
		return nil // a person may take something over at any time, also after the end
	case r.Finished != nil && e.Type == TypeRunAborting:
		return errors.New("aborts a run that has ended: its verdict stands")
	case r.Finished != nil && !r.after(e):
		return errors.New("comes after the end of the run")
	case e.Proc != r.Last.Proc && r.ID != "" && e.Type != TypeRunAborting && e.Type != TypeResumed && e.Type != TypeTakingBack:
		return fmt.Errorf("comes from a second process, which has neither aborted nor resumed the run")
	case r.Held != nil && e.Proc == r.Last.Proc:
		return errors.New("comes after the run was held, from the process that held it")
	case e.Step != "" && r.step(e.Step) == nil:
		return fmt.Errorf("names step %q, which the plan does not have", e.Step)
	}
	return nil
}

func stamp(e Event) Stamp { return Stamp{Proc: e.Proc, Mono: e.Mono, Wall: e.Wall} }

func (r *Run) step(id string) *StepState {
	for i := range r.Steps {
		if r.Steps[i].ID == id {
			return &r.Steps[i]
		}
	}
	return nil
}

// A folder decodes and checks an event, and returns what folds it in.
type folder func(r *Run, e Event) (func(), error)

// on makes a folder from a check, which may be nil, and the change.
func on[T any](check func(*Run, Event, T) error, do func(*Run, Event, T)) folder {
	return func(r *Run, e Event) (func(), error) {
		var data T
		if err := json.Unmarshal(e.Data, &data); err != nil {
			return nil, fmt.Errorf("bad data: %w", err)
		}
		if bytes.Equal(bytes.TrimSpace(e.Data), []byte("null")) {
			return nil, errors.New("bad data: null")
		}
		if check != nil {
			if err := check(r, e, data); err != nil {
				return nil, err
			}
		}
		return func() { do(r, e, data) }, nil
	}
}

var folders = map[string]folder{
	TypeRunStarted:   on(checkStarted, foldStarted),
	TypeRunFinished:  on(checkFinished, foldFinished),
	TypeRunAborting:  on(nil, foldAborting),
	TypeTakingBack:   on(checkTakingBack, foldTakingBack),
	TypeHeld:         on(checkHeld, foldHeld),
	TypeResumed:      on(checkResumed, foldResumed),
	TypeStepStarted:  on(checkStepStarted, foldStepStarted),
	TypeStepFinished: on(checkStepFinished, foldStepFinished),
	TypeRechecked:    on(checkRechecked, foldRechecked),
	TypeMemo:         on(checkMemo, foldMemo),
	TypeInstant:      on(checkInstant, foldInstant),
	TypeGate:         on(checkGate, foldGate),
	TypeProof:        on(checkProof, foldProof),
	TypeProblem:      on(nil, func(r *Run, e Event, p Problem) { r.Problems = append(r.Problems, ProblemState{p, e.Step}) }),
	TypeComponent:    on(checkComponent, foldComponent),
	TypeIntent:       on(checkIntent, foldIntent),
	TypeChanged:      on(checkChanged, foldChanged),
	TypeUndone:       on(checkUndone, foldUndone),
	TypeKept:         on(checkKept, foldKept),
	TypeClass:        on(checkClass, foldClass),
	TypePhase:        on(nil, func(r *Run, _ Event, p Phase) { r.Phases = append(r.Phases, p) }),
	TypeTraffic:      on(checkTraffic, foldTraffic),
	TypeNote:         on(nil, foldNote),
	TypeProgress:     on(nil, foldProgress),
	TypeApproval:     on(checkApproval, foldApproval),
	TypeAdopted:      on(checkAdopted, foldAdopted),
	TypeLog:          on(nil, foldLog),
	TypeAsked:        on(checkAsked, foldAsked),
	TypeAcknowledged: on(checkAcknowledged, foldAcknowledged),
	TypeNotified:     on(checkNotified, foldNotified),
}
