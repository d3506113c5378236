package step

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"drkit/drill"
	"drkit/internal/errext"
	"drkit/playbooks"
)

// People carries the acknowledgements of people to the steps that wait for them:
// from the screen's key, or from the command that takes a held run up again.
type People struct {
	// Here says that somebody can acknowledge while the run goes on: there is a
	// screen with a key for it. Without one, a step that waits for a person pauses
	// the run, unless its acknowledgement was given already.
	Here bool

	mu    sync.Mutex
	given map[string]Ack
	more  chan struct{} // closed and made anew with each acknowledgement
}

// Ack is one person's word that a step is done. It is asserted, not authenticated.
type Ack struct {
	By  string // who says so
	Via string // how: screen, command line
}

// Give acknowledges a step, now or before it is reached. Once is enough; it counts
// for one attempt of the step.
func (p *People) Give(step string, a Ack) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.given == nil {
		p.given = map[string]Ack{}
	}
	p.given[step] = a
	if p.more != nil {
		close(p.more)
		p.more = nil
	}
}

// take returns the acknowledgement of a step, else a channel that is closed when
// there is another one.
func (p *People) take(step string) (Ack, bool, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a, ok := p.given[step]; ok {
		delete(p.given, step)
		return a, true, nil
	}
	if p.more == nil {
		p.more = make(chan struct{})
	}
	return Ack{}, false, p.more
}

// human waits until a person says that their part is done.
type human struct{ w *World }

type humanOptions struct{}

func (humanOptions) faults(s playbooks.Step) error {
	if s.Who == "" {
		return s.Fault("who", "is missing", "name the role whose part it is: who: incident commander")
	}
	return nil
}

func (human) Check(_ context.Context, s playbooks.Step) []error {
	if err := CheckStep(s); err != nil {
		return []error{err}
	}
	return nil
}

func (h human) Do(ctx context.Context, s playbooks.Step, sc drill.Scope) error {
	began := time.Now()
	if err := sc.Emit(drill.TypeAsked, drill.Asked{Who: s.Who}); err != nil {
		return err
	}
	ack, err := h.acknowledged(ctx, s, sc.RunID())
	if err != nil {
		return err
	}
	if err := sc.Emit(drill.TypeAcknowledged, drill.Acknowledged{Who: s.Who, By: ack.By, Via: ack.Via}); err != nil {
		return err
	}
	return gate(sc, drill.Gate{
		ID: "human:" + s.ID, Title: s.Who + ": " + s.ID, Expected: "a person says that it is done",
		Observed: fmt.Sprintf("%s said so, %v after this process asked", ack.By, time.Since(began).Round(time.Second)), Result: drill.Passed,
		Evidence: "by " + ack.Via + "; asserted, not authenticated: nothing was measured",
	})
}

// acknowledged waits for the step's acknowledgement, or pauses the run when nobody
// is there to give it.
func (h human) acknowledged(ctx context.Context, s playbooks.Step, run string) (Ack, error) {
	p := h.w.People
	if p == nil {
		p = &People{}
	}
	for {
		a, given, more := p.take(s.ID)
		switch {
		case given && a.By == "":
			return Ack{}, errors.New("the acknowledgement does not say whose it is")
		case given:
			return a, nil
		case !p.Here:
			err := fmt.Errorf("%w until the part of %s is said to be done", drill.ErrPaused, s.Who)
			return Ack{}, errext.WithHint(errext.WithStatus(err, errext.Paused), fmt.Sprintf("drkit drill resume %s --ack %s --by NAME", run, s.ID))
		}
		select {
		case <-more:
		case <-ctx.Done():
			return Ack{}, fmt.Errorf("waiting for %s: %w", s.Who, context.Cause(ctx))
		}
	}
}
