package step

import (
	"context"
	"errors"
	"fmt"

	"drkit/drill"
	"drkit/playbooks"
)

// Whether what a playbook's own step did still holds when another process goes on
// with the run. An error makes it run again, with all that came after it.

// Recheck asks the step's own check. Without one nobody can tell.
func (r run) Recheck(ctx context.Context, s playbooks.Step, sc drill.Scope) error {
	o, err := r.options(s)
	if err != nil {
		return err
	}
	if len(o.Check) == 0 {
		return errors.New("the step has no check: nothing can tell whether what its command did still holds")
	}
	p, err := r.w.program(s, sc, o.other(o.Check))
	if err != nil {
		return err
	}
	e, err := p.run(ctx, func(string) {})
	if err != nil {
		return err
	}
	if observed, ok := e.judge(o.other(o.Check)); !ok {
		return fmt.Errorf("its check: %s", observed)
	}
	return nil
}

// Recheck asks again, unless asking would change something.
func (h httpStep) Recheck(ctx context.Context, s playbooks.Step, _ drill.Scope) error {
	o, err := h.options(s)
	if err != nil {
		return err
	}
	if !o.asks() {
		return fmt.Errorf("whether what a %s request did still holds cannot be asked", o.method())
	}
	return held(h.w.ask(ctx, o))
}

// held turns what was observed into an error unless it is as expected.
func held(observed string, ok bool, err error) error {
	if err == nil && !ok {
		err = errors.New(observed)
	}
	return err
}

// Recheck tries once; time that has passed has passed.
func (w waitStep) Recheck(ctx context.Context, s playbooks.Step, sc drill.Scope) error {
	o, err := w.options(s)
	switch {
	case err != nil:
		return err
	case o.HTTP != nil:
		return held(w.w.ask(ctx, *o.HTTP))
	case o.Run != nil:
		p, err := w.w.program(s, sc, *o.Run)
		if err != nil {
			return err
		}
		return held(try(ctx, p, o))
	}
	return nil
}

// Recheck holds: what a person said was said.
func (human) Recheck(context.Context, playbooks.Step, drill.Scope) error { return nil }

// Recheck holds: who was told was told.
func (notify) Recheck(context.Context, playbooks.Step, drill.Scope) error { return nil }
