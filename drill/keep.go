package drill

import (
	"errors"
	"fmt"
	"slices"
)

// Values of Undo.Keep: what stays at the end of a run. Every other change is taken
// back, whatever comes of the run.
const (
	// KeepOnSuccess is for what the run is made for, such as a planned cutover: it
	// stays unless a step failed, a gate is red or the run was cut short.
	KeepOnSuccess = "on-success"
	// KeepHeld is for what only a person may take back, such as the cutover of an
	// emergency: the region that it would go back to is gone.
	KeepHeld = "held"
	// KeepWhileUsed is for what a later change rests on, such as the engine that a
	// cutover sends to: it stays while a change stays that was made after it.
	KeepWhileUsed = "while-used"
)

var keeps = []string{"", KeepOnSuccess, KeepHeld, KeepWhileUsed}

// errRestsOn keeps the undo from taking away what something may still rest on: a
// router that could not be put back may go on sending to the engine.
var errRestsOn = errors.New("it was left alone: what was made on top of it could not be taken back")

// ErrUntouched marks an undo that was refused before it changed anything, for it would
// have done harm: what the change made goes on as it is. It is not proven to be taken
// back.
var ErrUntouched = errors.New("nothing was changed")

// Kept is journaled instead of Undone: the change stays on purpose.
type Kept struct {
	ID  string `json:"id"`
	Why string `json:"why"`
}

func checkKept(r *Run, _ Event, k Kept) error {
	if err := r.knows(k.ID); err != nil {
		return err
	}
	if c := r.change(k.ID); c.Undo.Keep == "" {
		return fmt.Errorf("keeps change %q, which has to be taken back", k.ID)
	}
	if k.Why == "" {
		return errors.New("does not say why the change stays")
	}
	return nil
}

func foldKept(r *Run, e Event, k Kept) {
	if c := r.change(k.ID); r.Finished != nil {
		r.later(c, e).Kept = k.Why
	} else {
		c.Kept, c.Half = k.Why, false // the run goes on over it
	}
}

// Kept lists the changes that stay on purpose, newest first.
func (r *Run) Kept() []ChangeState {
	return r.open(func(c ChangeState) bool { return c.Stays() != "" })
}

// open lists the changes that are neither taken back nor adopted, and match, newest first.
func (r *Run) open(match func(ChangeState) bool) []ChangeState {
	var all []ChangeState
	for _, c := range slices.Backward(r.Changes) {
		if !c.Gone() && c.Owner() == "" && match(c) {
			all = append(all, c)
		}
	}
	return all
}

// succeeds says that nothing has failed so far.
func (r *Run) succeeds() bool {
	return r.Aborting == nil && len(failedSteps(r)) == 0 && len(redGates(r)) == 0
}

// used says that a change stays which was made after this one.
func (r *Run) used(c ChangeState) bool {
	at := slices.IndexFunc(r.Changes, func(x ChangeState) bool { return x.ID == c.ID })
	return slices.ContainsFunc(r.Changes[at+1:], func(x ChangeState) bool {
		return !x.Gone() && x.Owner() == "" && x.Stays() != "" && x.Undo.Keep != KeepWhileUsed
	})
}

// toUndo lists what has to be looked at when changes are taken back, newest first:
// all that is not proven to be gone, and what was kept for a success that did not
// come. By force it is everything.
func (r *Run) toUndo(force bool) []ChangeState {
	return r.open(func(c ChangeState) bool {
		return c.Stays() == "" || force || r.Finished == nil && c.Undo.Keep != KeepHeld && !r.succeeds()
	})
}

// stays says why a change is not taken back now, "" when it has to be. later says
// that a change stays which was made after it.
func (r *Run) stays(c ChangeState, later bool) (why string) {
	switch {
	case c.Undo.Keep == KeepHeld:
		return "an emergency's cutover is never taken back by the run itself: drkit drill abort " + r.ID + " --undo-cutover does it"
	case c.Undo.Keep == KeepOnSuccess && r.succeeds():
		return "it is what the run was made for"
	case c.Undo.Keep == KeepWhileUsed && (later || r.used(c)):
		return "a change that stays rests on it"
	}
	return ""
}
