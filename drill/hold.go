package drill

import (
	"context"
	"errors"
	"fmt"

	"drkit/internal/errext"
	"drkit/playbooks"
)

// wantsPause says that a person asked for the run to be held.
func (x *exec) wantsPause() bool {
	select {
	case <-x.pause:
		return true
	default:
		return false
	}
}

// byPerson is who paused a run, as far as the machine knows the operator.
func byPerson(p RunStarted) string {
	if p.By != "" {
		return p.By
	}
	return "a person"
}

// holds says whether a step's error holds the run: the step asks for it, or it ran
// out of its time and the playbook says so.
func (x *exec) holds(s playbooks.Step, err error, late bool) *Held {
	late = late && s.OnTimeout == playbooks.Hold
	if err == nil || errors.Is(err, ErrLeft) || !late && !paused(err) {
		return nil
	}
	h := &Held{Why: "step " + s.ID + ": " + err.Error(), Step: s.ID, By: HeldByTool, For: s.Who}
	if paused(err) {
		h.Next = errext.Hint(err)
	}
	return h
}

// paused says that a step waits for a person: by ErrPaused, or by its status.
func paused(err error) bool {
	return errors.Is(err, ErrPaused) || errext.StatusOf(err) == errext.Paused
}

// hold notes that the run ends here for a person. Of steps side by side, the first
// one that waits is the one that is named.
func (x *exec) hold(h *Held) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.held == nil {
		x.held = h
	}
}

// unhold forgets the hold: a step failed beside the one that waits.
func (x *exec) unhold() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.held = nil
}

// holding says that the run is to be held.
func (x *exec) holding() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.held != nil && x.journalErr == nil && !x.left
}

// holdNow journals the hold and ends this process's part, without undo: nothing comes
// after it. When the hold cannot be journaled, the run ends as any other does, and
// holdNow returns nil.
func (x *exec) holdNow() error {
	x.settle()
	x.mu.Lock()
	defer x.mu.Unlock()
	h := *x.held
	if h.Next == "" {
		h.Next = "drkit drill resume " + x.id
	}
	if x.emitLocked("", 0, TypeHeld, h) != nil {
		x.run.Held = nil // it stands nowhere
		return nil
	}
	x.over = true
	err := errext.WithStatus(fmt.Errorf("%w: run %s: %s", ErrPaused, x.id, h.Why), errext.Paused)
	return errext.WithHint(err, fmt.Sprintf("to go on: %s; to end it and take back what may be taken back: drkit drill abort %s", h.Next, x.id))
}

// settle waits for changes that are under way, at most as long as a step gets to end.
func (x *exec) settle() {
	ctx, cancel := context.WithTimeout(context.Background(), x.grace)
	defer cancel()
	for {
		x.mu.Lock()
		var one chan struct{}
		for _, one = range x.busy {
			break
		}
		x.mu.Unlock()
		if one == nil {
			return
		}
		select {
		case <-one:
		case <-x.leave:
			return
		case <-ctx.Done():
			return
		}
	}
}
