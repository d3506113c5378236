package drill

import (
	"fmt"
	"time"
)

// jumpFrom is how far the machine's clock may go apart from the monotonic one
// between two events: a clock that is steered slowly stays below it.
const jumpFrom = time.Second

// ClockJump is a step of the machine's clock during a run. Times that were measured
// inside one process do not change with it; times of day do.
type ClockJump struct {
	At Stamp         // of the first event after it
	By time.Duration // how far the clock went ahead of the measured time; negative: back
}

// String says it for people, with what it means for the figures.
func (j ClockJump) String() string {
	if j.By < 0 {
		return fmt.Sprintf("the machine's clock went back by %v, seen %v into the process: times of day before and after do not compare, measured times hold",
			(-j.By).Round(100*time.Millisecond), j.At.Mono.Round(time.Second))
	}
	return fmt.Sprintf("the machine's clock went ahead by %v, seen %v into the process: if it was set, measured times hold; if the machine slept, they leave the sleep out",
		j.By.Round(100*time.Millisecond), j.At.Mono.Round(time.Second))
}

// watchClock compares the two clocks of an event with those of the event before.
// Across processes they have nothing in common.
func (r *Run) watchClock(e Event) {
	if r.ID == "" || e.Proc != r.Last.Proc {
		return
	}
	by := e.Wall.Sub(r.Last.Wall) - (e.Mono - r.Last.Mono)
	if by.Abs() < jumpFrom {
		return
	}
	j := ClockJump{At: stamp(e), By: by}
	r.Jumps = append(r.Jumps, j)
	r.Notes = append(r.Notes, j.String())
}
