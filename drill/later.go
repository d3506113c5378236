package drill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"drkit/internal/errext"
)

// TypeTakingBack opens what a later process does about the changes of a run that has
// ended: it carries TakingBack, and only change.undone and change.kept of the same
// process follow it. The verdict stands as it was closed.
const TypeTakingBack = "run.taking-back"

// TakingBack says who takes back, after the end of a run, what the run left or kept.
type TakingBack struct {
	By  string `json:"by"` // user@host, as the machine says
	Why string `json:"why"`
}

// TakingBackState is a take-back after the end, and when it began.
type TakingBackState struct {
	TakingBack
	At           Stamp
	Gone, Failed int // changes that were proven to be taken back, and that were not
}

// Later is what became of a change after the end of its run. What the run's verdict
// rests on is what it was at the end: ChangeState's own fields.
type Later struct {
	At        Stamp
	By        string
	Undone    bool   // taken back, absence proven
	What      string // what the undo said
	Error     string // why the absence is not proven
	Untouched bool   // the undo was refused before it changed anything: what stayed stays
	Kept      string // why it stays on purpose
	Adopted   string // who took it over, although the end could not take it back
}

// after says that the event belongs to a take-back after the end.
func (r *Run) after(e Event) bool {
	if e.Type == TypeTakingBack {
		return e.Proc != r.Last.Proc
	}
	n := len(r.TakenBack)
	return n > 0 && r.TakenBack[n-1].At.Proc == e.Proc && (e.Type == TypeUndone || e.Type == TypeKept)
}

func checkTakingBack(r *Run, _ Event, b TakingBack) error {
	switch {
	case r.Finished == nil:
		return errors.New("takes back after the end of a run that has not ended")
	case b.By == "" || b.Why == "":
		return errors.New("does not say who takes back, and why")
	}
	return nil
}

func foldTakingBack(r *Run, e Event, b TakingBack) {
	r.TakenBack = append(r.TakenBack, TakingBackState{TakingBack: b, At: stamp(e)})
}

// later is the place of what became of a change after the end, of the newest take-back.
func (r *Run) later(c *ChangeState, e Event) *Later {
	l := &Later{At: stamp(e)}
	if c.Later != nil {
		l.Adopted = c.Later.Adopted
	}
	if n := len(r.TakenBack); n > 0 {
		l.By = r.TakenBack[n-1].By
	}
	c.Later = l
	return l
}

// Gone says that the change is proven to be taken back, at the end or later.
func (c ChangeState) Gone() bool { return c.Undone || c.Later != nil && c.Later.Undone }

// Stays says why the change stays on purpose now, "" when it does not: what was taken back
// in part is not what somebody meant to keep.
func (c ChangeState) Stays() string {
	switch {
	case c.Half:
		return ""
	case c.Later == nil || c.Later.Untouched:
		return c.Kept
	}
	return c.Later.Kept
}

// Owner is who took over what the change made, "" for nobody.
func (c ChangeState) Owner() string {
	if c.Later != nil && c.Later.Adopted != "" {
		return c.Later.Adopted
	}
	return c.Adopted
}

// Trouble is why the change is not proven to be taken back, as said last.
func (c ChangeState) Trouble() string {
	if c.Later != nil && c.Later.Error != "" {
		return c.Later.Error
	}
	return c.UndoError
}

// AfterTheEnd says in words what became of each change after the end, in the order in
// which the changes were made.
func (r *Run) AfterTheEnd() []string {
	var all []string
	for _, c := range r.Changes {
		if c.Later != nil {
			all = append(all, c.What+": "+c.Later.String())
		}
	}
	return all
}

// String is a sentence without its subject.
func (l Later) String() string {
	at := " at " + l.At.Wall.UTC().Format(time.RFC3339)
	if l.By != "" {
		at += " by " + l.By
	}
	switch {
	case l.Undone:
		return "taken back" + at
	case l.Untouched:
		return "to be taken back" + at + ", and left as it is: " + l.Error
	case l.Error != "":
		return "not proven to be taken back" + at + ": " + l.Error
	case l.Adopted != "":
		return "taken over by " + l.Adopted + at
	}
	return "stays, looked at" + at + ": " + l.Kept
}

// LeftAtEnd lists the changes that were not proven to be taken back at the end, and did
// not stay on purpose, newest first: what came later changes no verdict.
func (r *Run) LeftAtEnd() []ChangeState {
	var all []ChangeState
	for _, c := range slices.Backward(r.Changes) {
		if !c.Undone && c.Adopted == "" && c.Kept == "" {
			all = append(all, c)
		}
	}
	return all
}

// halfBack says that somebody had what may stay on purpose taken back, and that this broke
// off.
func (r *Run) halfBack() bool {
	return slices.ContainsFunc(r.Left(), func(c ChangeState) bool { return c.Half && (c.Undo.Keep == KeepHeld || c.Undo.Keep == KeepOnSuccess) })
}

// takeBack is Abort of a run that has ended. By force it takes back what the run kept on
// purpose too, and goes on with that once it broke off: a router that is back in part is
// no state to leave.
func takeBack(ctx context.Context, run *Run, j Journal, by string, force bool, undo map[string]UndoFunc, also []Handler) (*Run, error) {
	force = force || run.halfBack()
	why := "it had ended (" + run.Finished.Verdict + ") with changes that are not proven to be taken back"
	if force && len(run.Kept()) > 0 {
		why = "it had ended (" + run.Finished.Verdict + "); what it had kept on purpose was to be taken back"
	}
	x := after(run, j, undo, also)
	x.force = force
	if err := x.emit("", 0, TypeTakingBack, TakingBack{By: cmp.Or(by, "unknown"), Why: why}); err != nil {
		return run, err
	}
	return run, x.told(x.undoAll(ctx, func(ChangeState) bool { return true }))
}

// told adds the journal's failure to what a take-back after the end came to: no verdict
// follows that would say it.
func (x *exec) told(err error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return errors.Join(err, x.journalErr)
}

// Release takes back what people took over of a run that has ended, in the order in
// which it was made last: the engine before the files that it reads. Who calls it has
// seen that nothing is sent there any more.
func Release(ctx context.Context, j Journal, by string, ids []string, undo map[string]UndoFunc, also ...Handler) (*Run, error) {
	run, err := Replay(j.Events())
	if err != nil {
		return run, err
	}
	if run.Finished == nil {
		return run, errext.WithStatus(fmt.Errorf("run %s has not ended: what it made is not released", run.ID), errext.Refused)
	}
	x := after(run, j, undo, also)
	if err := x.emit("", 0, TypeTakingBack, TakingBack{By: cmp.Or(by, "unknown"), Why: "what it had left to serve is not needed any more, and was released"}); err != nil {
		return run, err
	}
	var all []ChangeState
	for _, c := range slices.Backward(run.Changes) {
		if slices.Contains(ids, c.ID) && !c.Gone() {
			all = append(all, c)
		}
	}
	return run, x.told(x.undoEach(ctx, all, func(ChangeState, bool) bool { return false }))
}

// after is a process's part of a run that has ended.
func after(run *Run, j Journal, undo map[string]UndoFunc, also []Handler) *exec {
	return &exec{
		id: run.ID, proc: run.Last.Proc + 1, run: run, began: time.Now(), stop: func(error) {},
		handlers: append([]Handler{j}, also...), undo: undo, closing: true,
		undoTimeout: undoTimeout, grace: stopGrace, busy: map[string]chan struct{}{},
	}
}
