package drill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"drkit/internal/errext"
)

// scope is one attempt of a step.
type scope struct {
	x       *exec
	step    string
	attempt int
}

var (
	_ Scope    = (*scope)(nil)
	_ Cleaner  = (*scope)(nil)
	_ Recaller = (*scope)(nil)
)

// reserved are the events that only the runner writes.
var reserved = map[string]bool{
	TypeRunStarted: true, TypeRunFinished: true, TypeRunAborting: true, TypeHeld: true, TypeResumed: true, TypeTakingBack: true, TypeStepStarted: true, TypeStepFinished: true,
	TypeRechecked: true,
	TypeProblem:   true, TypeIntent: true, TypeChanged: true, TypeUndone: true, TypeAdopted: true, TypeKept: true,
}

// Emit journals an event of the step.
func (s *scope) Emit(typ string, data any) error {
	if reserved[typ] {
		return fmt.Errorf("a step may not emit %s", typ)
	}
	return s.x.emit(s.step, s.attempt, typ, data)
}

// RunID is the id that labels everything the run makes.
func (s *scope) RunID() string { return s.x.id }

// Mono is a moment on the scale of Event.Mono.
func (s *scope) Mono(t time.Time) time.Duration { return t.Sub(s.x.began) }

// Recall is the newest memo of a step under a key, this process's or an earlier one's;
// of any step when step is "".
func (s *scope) Recall(step, key string) (data json.RawMessage, known bool) {
	s.x.look(func(r *Run) {
		if m := r.memo(step, key); m != nil {
			data, known = m.Data, true
		}
	})
	return data, known
}

// UndoAll takes back everything that the run changed so far.
func (s *scope) UndoAll(ctx context.Context) error {
	return s.x.undoAll(ctx, func(ChangeState) bool { return true })
}

// Change sees that the journal keeps the undo whole and that the kill switch is not set,
// journals the intent, does the change, and journals the result.
func (s *scope) Change(ctx context.Context, what string, u Undo, do func(context.Context) error) error {
	if s.x.undo[u.Kind] == nil {
		return fmt.Errorf("%s: nothing was changed, for nobody knows how to undo %q", what, u.Kind)
	}
	if err := s.x.keeps(u); err != nil {
		return fmt.Errorf("%s: nothing was changed: %w", what, err)
	}
	if err := s.x.mayChange(ctx); err != nil {
		return fmt.Errorf("%s: not begun: %w", what, err)
	}
	id, done, err := s.x.intend(s.step, s.attempt, what, u)
	if err != nil {
		return fmt.Errorf("%s: nothing was changed: %w", what, err)
	}
	err = calm(ctx, do)
	text := ""
	if err != nil {
		text = err.Error()
	}
	told := s.x.emit(s.step, s.attempt, TypeChanged, Changed{ID: id, Error: text})
	done()
	return errors.Join(err, told)
}

// keeps refuses an undo that would not stand in the journal as it is.
func (x *exec) keeps(u Undo) error {
	k, can := x.handlers[0].(Keeper)
	if !can {
		return nil
	}
	if err := k.Keeps(u.Args); err != nil {
		return errext.WithHint(fmt.Errorf("what takes it back would not be whole in the journal: %w", err),
			"give the secret by the name of a variable or of a file (url_env, headers_env, secrets, a key file), not as a value, URL or argument; where a path holds it, put what lies there elsewhere")
	}
	return nil
}

// intend journals an intent and marks the change as under way.
func (x *exec) intend(step string, attempt int, what string, u Undo) (id string, done func(), err error) {
	x.mu.Lock()
	if x.closing {
		x.mu.Unlock()
		return "", nil, ErrOver
	}
	id = x.newChange()
	ch := make(chan struct{})
	x.busy[id] = ch
	x.mu.Unlock()
	done = func() {
		x.mu.Lock()
		delete(x.busy, id)
		x.mu.Unlock()
		close(ch)
	}
	if err := x.emit(step, attempt, TypeIntent, Intent{ID: id, What: what, Undo: u}); err != nil {
		done()
		return "", nil, err
	}
	return id, done, nil
}

// newChange is an id that no change of the run has, this process's or another's.
func (x *exec) newChange() string {
	for {
		x.changes++
		id := fmt.Sprintf("change-%d", x.changes)
		if x.run.change(id) == nil {
			return id
		}
	}
}

// undoAll takes back the changes that match, newest first. It goes on after a
// failure, and returns all of them.
func (x *exec) undoAll(ctx context.Context, match func(ChangeState) bool) error {
	return x.takeBack(ctx, match, false)
}

// undoAgain is undoAll for what is done once more: nothing of it stays but what only
// a person may take back.
func (x *exec) undoAgain(ctx context.Context, match func(ChangeState) bool) error {
	return x.takeBack(ctx, match, true)
}

func (x *exec) takeBack(ctx context.Context, match func(ChangeState) bool, again bool) error {
	var left []ChangeState
	x.look(func(r *Run) { left = r.toUndo(x.force) })
	left = slices.DeleteFunc(left, func(c ChangeState) bool { return !match(c) })
	return x.undoEach(ctx, left, func(c ChangeState, later bool) bool {
		return (!again || c.Undo.Keep == KeepHeld) && x.letStay(c, later)
	})
}

// undoEach takes changes back in the order given, but those that stay, of which it is
// told whether one stays that was made later.
func (x *exec) undoEach(ctx context.Context, left []ChangeState, stays func(c ChangeState, later bool) bool) error {
	var failed []error
	kept, stuck := false, false
	for _, c := range left {
		if stays(c, kept) {
			kept = true
			continue
		}
		err := errRestsOn
		if !stuck || c.Undo.Keep != KeepWhileUsed {
			err = x.undoOne(ctx, c)
		}
		if errors.Is(err, ErrLeft) {
			return err
		}
		stuck = stuck || err != nil && c.Undo.Keep != ""
		u := Undone{ID: c.ID, What: "undone: " + c.What}
		if err != nil {
			u.Error, u.Untouched = err.Error(), errors.Is(err, ErrUntouched) || errors.Is(err, errRestsOn)
			failed = append(failed, fmt.Errorf("%q is not proven to be taken back: %w", c.What, err))
		}
		_ = x.emit(c.Step, c.Attempt, TypeUndone, u) // a failed journal stops no undo; the end tells it
	}
	return errext.WithStatus(errors.Join(failed...), errext.Unclean)
}

// letStay journals that a change stays, where it does.
func (x *exec) letStay(c ChangeState, later bool) bool {
	why := ""
	x.look(func(r *Run) { why = r.stays(c, later) })
	if why == "" || x.force {
		return false
	}
	if why != c.Stays() {
		_ = x.emit(c.Step, c.Attempt, TypeKept, Kept{ID: c.ID, Why: why}) // as with Undone
	}
	return true
}

// Kept says what stays on purpose so far.
func (s *scope) Kept() []string {
	var all []string
	s.x.look(func(r *Run) {
		for _, c := range r.Kept() {
			all = append(all, c.What)
		}
	})
	return all
}

// undoOne runs one undo, after the change itself has ended.
func (x *exec) undoOne(ctx context.Context, c ChangeState) error {
	f := x.undo[c.Undo.Kind]
	if f == nil {
		return fmt.Errorf("nobody knows how to undo %q: %w", c.Undo.Kind, ErrUntouched)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, x.undoTimeout, timedOut{x.undoTimeout})
	defer cancel()
	x.mu.Lock()
	busy := x.busy[c.ID]
	x.mu.Unlock()
	var unfinished error
	if busy != nil {
		wait := time.NewTimer(x.grace)
		defer wait.Stop()
		select {
		case <-busy:
		case <-x.leave:
			return x.leaveNow()
		case <-wait.C:
			unfinished = errors.New("the change was still under way when it was taken back")
		}
	}
	return errors.Join(x.await(ctx, func(ctx context.Context) error { return f(ctx, c.Undo.Args) }), unfinished)
}
