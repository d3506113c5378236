package drill

import (
	"context"
	"fmt"
	"time"

	"drkit/internal/errext"
)

const (
	stopEvery   = 5 * time.Second
	stopTimeout = 10 * time.Second // of one look at the kill switch
	stopBefore  = 3 * time.Second  // of the look before a change, which the recovery waits for
)

// stopSet ends a run that somebody stopped by the kill switch.
type stopSet struct{ why string }

func (s stopSet) Error() string { return "the kill switch is set: " + s.why }

const hintStop = "take the kill switch away when changes are allowed again"

// stopped is why the run may not begin by its kill switch; nil when it may. One that
// cannot be read is not taken for unset.
func (rn *Runner) stopped(ctx context.Context, x *exec) *Problem {
	if rn.Stop == nil {
		return nil
	}
	why, err := x.askStop(ctx, rn.Stop, stopTimeout)
	switch {
	case ctx.Err() != nil || x.hasLeft():
		return nil // ends for another reason
	case err != nil:
		return &Problem{What: "the kill switch cannot be read: " + err.Error(), Hint: errext.Hint(err)}
	case why != "":
		return &Problem{What: stopSet{why}.Error(), Hint: hintStop}
	}
	return nil
}

func (x *exec) askStop(ctx context.Context, ask func(context.Context) (string, error), within time.Duration) (why string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, within, timedOut{within})
	defer cancel()
	answer := make(chan string, 1)
	err = x.await(ctx, func(ctx context.Context) error {
		why, err := ask(ctx)
		answer <- why
		return err
	})
	if err == nil {
		why = <-answer
	}
	return why, err
}

// lookStop looks at the kill switch of a run that goes on, and ends the run when it is
// set: why is then not "". A look that fails is noted once and says nothing: a store that
// does not answer is no order to stop.
func (x *exec) lookStop(ctx context.Context, within time.Duration) (why string) {
	if x.stopSwitch == nil {
		return ""
	}
	why, err := x.askStop(ctx, x.stopSwitch, within)
	switch {
	case ctx.Err() != nil:
		return "" // ends for another reason
	case err != nil:
		x.noteStop(err)
		return ""
	case why != "":
		x.stop(stopSet{why})
	}
	return why
}

// noteStop notes the first look that failed.
func (x *exec) noteStop(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.stopNoted {
		return
	}
	x.stopNoted = true
	_ = x.emitLocked("", 0, TypeNote, Note{Text: fmt.Sprintf("the kill switch could not be read while the run went on: %v", err)}) // a failed journal is told at the end
}

// mayChange looks at the kill switch right before a change: none begins after it was
// set, though the next look of watchStop is seconds away. An undo is not asked.
func (x *exec) mayChange(ctx context.Context) error {
	if why := x.lookStop(ctx, stopBefore); why != "" {
		return stopSet{why}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// watchStop looks at the kill switch every while as the run goes on, until the function
// that it returns is called.
func (x *exec) watchStop(ctx context.Context, every time.Duration) (end func()) {
	if x.stopSwitch == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			if x.lookStop(ctx, stopTimeout) != "" {
				return
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
