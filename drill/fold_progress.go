package drill

import "time"

// ProgressState is how far a task is, and since when that is watched.
type ProgressState struct {
	Progress
	Step     string
	Attempt  int
	From, At Stamp // of the task's first and newest event
	FromDone int64 // what was done at From
}

// Left is the time that the rest takes at the rate of the task so far, counted
// from its newest event. It is not known without a total, without two events of one
// process, or while nothing moved.
func (p ProgressState) Left() (time.Duration, bool) {
	since := Between(p.From, p.At)
	moved := p.Done - p.FromDone
	switch {
	case p.Total > 0 && p.Done >= p.Total:
		return 0, true
	case p.Total <= 0 || !since.Measured || since.Clock != ClockMonotonic || since.Elapsed <= 0 || moved <= 0:
		return 0, false
	}
	left := float64(p.Total-p.Done) / float64(moved) * float64(since.Elapsed)
	return time.Duration(min(left, float64(longest))), true
}

// longest keeps a rate of nearly nothing inside what a Duration can hold.
const longest = 1000 * time.Hour

// Rate is how much a second the task moved so far; 0: not known.
func (p ProgressState) Rate() float64 {
	since := Between(p.From, p.At)
	if !since.Measured || since.Elapsed <= 0 || p.Done <= p.FromDone {
		return 0
	}
	return float64(p.Done-p.FromDone) / since.Elapsed.Seconds()
}

// foldProgress keeps a task's newest word, and begins anew when the task does.
func foldProgress(r *Run, e Event, p Progress) {
	now := ProgressState{Progress: p, Step: e.Step, Attempt: e.Attempt, From: stamp(e), At: stamp(e), FromDone: p.Done}
	for i, old := range r.Progress {
		if old.Task != p.Task || old.Step != e.Step {
			continue
		}
		if old.Attempt == e.Attempt && old.At.Proc == e.Proc && old.Done <= p.Done && old.Total == p.Total {
			now.From, now.FromDone = old.From, old.FromDone
		}
		r.Progress[i] = now
		return
	}
	r.Progress = append(r.Progress, now)
}
