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
	why, err := x.askStop(ctx, rn.Stop)
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

func (x *exec) askStop(ctx context.Context, ask func(context.Context) (string, error)) (why string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, stopTimeout, timedOut{stopTimeout})
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

// watchStop looks at the kill switch while the run goes on, until the function that
// it returns is called. A look that fails is noted once: the run goes on, for a store
// that does not answer is no order to stop.
func (rn *Runner) watchStop(ctx context.Context, x *exec) (end func()) {
	if rn.Stop == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		noted := false
		tick := time.NewTicker(orElse(rn.StopEvery, stopEvery))
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			why, err := x.askStop(ctx, rn.Stop)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil && !noted:
				noted = true
				_ = x.emit("", 0, TypeNote, Note{Text: fmt.Sprintf("the kill switch could not be read while the run went on: %v", err)})
			case why != "":
				x.stop(stopSet{why})
				return
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
