package drill

import (
	"errors"
	"fmt"
	"slices"

	"drkit/internal/errext"
)

// Folds of what steps say: instants, gates, proofs, changes, traffic, logs.

func checkInstant(_ *Run, e Event, in Instant) error {
	if in.Name == "" {
		return errors.New("the instant has no name")
	}
	if in.At < 0 || in.At > e.Mono {
		return fmt.Errorf("the instant %s (%v) is not before its event (%v)", in.Name, in.At, e.Mono)
	}
	return nil
}

// foldInstant keeps the first "declared" and the newest of every other: a step
// that is tried again reaches its moment again, and the later one is the true one.
func foldInstant(r *Run, e Event, in Instant) {
	at := stamp(e)
	if in.At > 0 {
		at.Mono, at.Wall = in.At, e.Wall.Add(in.At-e.Mono)
	}
	s := InstantState{Name: in.Name, At: at, Cached: in.Cached, Step: e.Step, steps: r.upTo(e.Step)}
	for i := range r.Instants {
		if r.Instants[i].Name == in.Name {
			if in.Name != InstantDeclared {
				r.Instants[i] = s
			}
			return
		}
	}
	r.Instants = append(r.Instants, s)
}

// upTo is the number of the plan's steps up to one, with those that run beside it;
// without a step, up to the last one that began.
func (r *Run) upTo(step string) int {
	for i := len(r.Steps) - 1; i >= 0; i-- {
		if s := r.Steps[i]; s.ID == step || step == "" && !s.Started.IsZero() {
			for i+1 < len(r.Steps) && s.Group != "" && r.Steps[i+1].Group == s.Group {
				i++
			}
			return i + 1
		}
	}
	return 0
}

func checkGate(_ *Run, _ Event, g Gate) error {
	if g.ID == "" {
		return errors.New("the gate has no id")
	}
	if s := gateStatus(g); s != errext.Gate && s != errext.ObjectiveMissed && s != errext.Unclean {
		return fmt.Errorf("a red gate cannot stand for status %d", s)
	}
	return checkResult(g.Result)
}

// foldGate replaces a gate that the same step judged before when this is a later
// attempt. Twice in one attempt, the worse result stays.
func foldGate(r *Run, e Event, g Gate) {
	s := GateState{Gate: g, Step: e.Step, Attempt: e.Attempt, At: stamp(e), Seq: e.Seq}
	for i, old := range r.Gates {
		if old.ID != g.ID || old.Step != e.Step {
			continue
		}
		if e.Attempt > old.Attempt || badness(g.Result) >= badness(old.Result) {
			r.Gates[i] = s
		}
		return
	}
	r.Gates = append(r.Gates, s)
}

func badness(result string) int {
	switch result {
	case Passed:
		return 0
	case Failed:
		return 2
	}
	return 1
}

func checkProof(_ *Run, _ Event, p Proof) error {
	if p.Name == "" {
		return errors.New("the proof has no name")
	}
	return nil
}

func foldProof(r *Run, e Event, p Proof) {
	s := ProofState{Proof: p, Step: e.Step, Attempt: e.Attempt}
	for i, old := range r.Proofs {
		if old.Name != p.Name || old.Step != e.Step {
			continue
		}
		if e.Attempt > old.Attempt || old.Proven {
			r.Proofs[i] = s
		}
		return
	}
	r.Proofs = append(r.Proofs, s)
}

func checkComponent(_ *Run, _ Event, c Component) error {
	if c.Role == "" || c.Kind == "" {
		return errors.New("the component has no role or no kind")
	}
	return nil
}

func foldComponent(r *Run, _ Event, c Component) {
	if !slices.Contains(r.Components, c) {
		r.Components = append(r.Components, c)
	}
}

func (r *Run) change(id string) *ChangeState {
	for i := range r.Changes {
		if r.Changes[i].ID == id {
			return &r.Changes[i]
		}
	}
	return nil
}

func checkIntent(r *Run, _ Event, in Intent) error {
	if in.ID == "" || r.change(in.ID) != nil {
		return fmt.Errorf("the change's id must be there and new: %q", in.ID)
	}
	if in.Undo.Kind == "" {
		return fmt.Errorf("the change %q has no undo", in.What)
	}
	if !slices.Contains(keeps, in.Undo.Keep) {
		return fmt.Errorf("the change %q is kept %q: nobody knows when that is", in.What, in.Undo.Keep)
	}
	return nil
}

func foldIntent(r *Run, e Event, in Intent) {
	r.Changes = append(r.Changes, ChangeState{Intent: in, Step: e.Step, Attempt: e.Attempt, At: stamp(e)})
}

func checkChanged(r *Run, _ Event, c Changed) error { return r.knows(c.ID) }

func foldChanged(r *Run, _ Event, c Changed) {
	s := r.change(c.ID)
	s.Done, s.Error = c.Error == "", c.Error
}

func checkUndone(r *Run, _ Event, u Undone) error { return r.knows(u.ID) }

func foldUndone(r *Run, e Event, u Undone) {
	s := r.change(u.ID)
	s.Half = u.Error != "" && (s.Half || !u.Untouched)
	if r.Finished != nil {
		l := r.later(s, e)
		l.Undone, l.What, l.Error, l.Untouched = u.Error == "", u.What, u.Error, u.Untouched
		if b := &r.TakenBack[len(r.TakenBack)-1]; l.Undone { // fits has seen that there is one
			b.Gone++
		} else {
			b.Failed++
		}
		return
	}
	s.Undone, s.UndoneAs, s.UndoError, s.Kept = u.Error == "", u.What, u.Error, ""
}

func (r *Run) knows(change string) error {
	if r.change(change) == nil {
		return fmt.Errorf("names change %q, which was not intended", change)
	}
	return nil
}

func checkTraffic(_ *Run, _ Event, w TrafficWindow) error {
	if w.From < 0 || w.To < w.From {
		return fmt.Errorf("the window ends (%v) before it begins (%v)", w.To, w.From)
	}
	if slices.Min([]int{w.Sent, w.OK, w.Failed, w.Cut}) < 0 {
		return errors.New("a count is negative")
	}
	return nil
}

func foldTraffic(r *Run, e Event, w TrafficWindow) {
	w.Began = Stamp{Proc: e.Proc, Mono: w.From, Wall: e.Wall.Add(w.From - e.Mono)}
	r.Traffic = append(r.Traffic, w)
}

func foldNote(r *Run, e Event, n Note) {
	if s := r.step(e.Step); n.Waits && s != nil {
		s.Waits = n.Text
		return
	}
	if !slices.Contains(r.Notes, n.Text) {
		r.Notes = append(r.Notes, n.Text)
	}
}

func foldLog(r *Run, _ Event, l Log) {
	r.Logs = append(r.Logs, l)
	if len(r.Logs) > LogTail {
		r.Logs = slices.Delete(r.Logs, 0, len(r.Logs)-LogTail)
	}
}
