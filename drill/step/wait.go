package step

import (
	"context"
	"errors"
	"fmt"
	"time"

	"drkit/drill"
	"drkit/playbooks"
)

// waitStep lets time pass, or waits until a command or an answer is as expected.
type waitStep struct{ w *World }

// waitOptions are those of the step: one of for, run and http.
type waitOptions struct {
	For    time.Duration   `yaml:"for" strict:"min=1s"`
	Run    *commandOptions `yaml:"run"`
	HTTP   *httpOptions    `yaml:"http"`
	Every  time.Duration   `yaml:"every" strict:"min=100ms"`  // between two tries; none: 5s
	Within time.Duration   `yaml:"within" strict:"min=100ms"` // for one try of the command; none: 30s
}

func (o waitOptions) faults(s playbooks.Step) error {
	var errs []error
	n := 0
	for _, set := range []bool{o.For > 0, o.Run != nil, o.HTTP != nil} {
		if set {
			n++
		}
	}
	if n != 1 {
		errs = append(errs, s.Fault("with", "does not say one thing to wait for", "give one of for, run and http"))
	}
	if o.For > 0 && (o.Every > 0 || o.Within > 0) {
		errs = append(errs, s.Fault("with.for", "is not tried, so every and within say nothing", "leave them out"))
	}
	if o.HTTP != nil && o.Within > 0 {
		errs = append(errs, s.Fault("with.within", "is of a command", "an answer has its own: http: {within: …}"))
	}
	if s.Timeout > 0 && o.For >= s.Timeout {
		errs = append(errs, s.Fault("with.for", "does not end before the step's timeout", "make the timeout longer"))
	}
	if o.Run != nil {
		errs = append(errs, o.Run.faults(s, "with.run."))
	}
	if o.HTTP != nil {
		errs = append(errs, o.HTTP.faultsUnder(s, "with.http."))
	}
	return errors.Join(errs...)
}

func (w waitStep) options(s playbooks.Step) (waitOptions, error) {
	var o waitOptions
	if err := s.Decode(&o); err != nil {
		return o, err
	}
	if err := o.faults(s); err != nil {
		return o, err
	}
	if o.Every == 0 {
		o.Every = 5 * time.Second
	}
	if o.Within == 0 {
		o.Within = 30 * time.Second
	}
	return o, nil
}

// OnlyWaits says that a step is of kind wait and changes nothing by waiting: it lets time
// pass, or asks for an answer with GET or HEAD. A command may do anything.
func OnlyWaits(s playbooks.Step) bool {
	if s.Kind != "wait" {
		return false
	}
	o, err := waitStep{}.options(s)
	return err == nil && o.Run == nil && (o.HTTP == nil || o.HTTP.asks())
}

func (w waitStep) Check(ctx context.Context, s playbooks.Step) []error {
	o, err := w.options(s)
	switch {
	case err != nil:
		return []error{err}
	case o.Run != nil:
		return w.w.startable(*o.Run)
	case o.HTTP != nil:
		return w.w.askable(ctx, *o.HTTP)
	}
	return nil
}

func (w waitStep) Do(ctx context.Context, s playbooks.Step, sc drill.Scope) error {
	o, err := w.options(s)
	switch {
	case err != nil:
		return err
	case o.For > 0:
		return wait(ctx, o.For, "the time to pass", passed(time.Now().Add(o.For)))
	case o.HTTP != nil:
		return w.until(ctx, s, sc, o, o.HTTP.expected(), func(ctx context.Context) (string, bool, error) { return w.w.ask(ctx, *o.HTTP) })
	}
	p, err := w.w.program(s, sc, *o.Run)
	if err != nil {
		return refuse(err, "")
	}
	return w.w.watched(ctx, s, sc, func(ctx context.Context) error {
		return w.until(ctx, s, sc, o, o.Run.expected(), func(ctx context.Context) (string, bool, error) { return try(ctx, p, o) })
	})
}

// passed is true from a moment on.
func passed(at time.Time) func(context.Context) (bool, error) {
	return func(context.Context) (bool, error) { return !time.Now().Before(at), nil }
}

// try runs the command once. One that does not end in time is an observation.
func try(ctx context.Context, p program, o waitOptions) (observed string, ok bool, err error) {
	tried, cancel := context.WithTimeoutCause(ctx, o.Within, fmt.Errorf("not ended within %v", o.Within))
	defer cancel()
	e, err := p.run(tried, func(string) {})
	switch {
	case err != nil && interrupted(ctx):
		return "", false, err
	case err != nil:
		return err.Error(), false, nil
	}
	observed, ok = e.judge(*o.Run)
	return observed, ok, nil
}

// until tries until the condition holds, and judges what it saw last when the
// step's time is over.
func (w waitStep) until(ctx context.Context, s playbooks.Step, sc drill.Scope, o waitOptions, expected string, try func(context.Context) (string, bool, error)) error {
	began, tries, last, held := time.Now(), 0, "it was not tried", false
	err := wait(ctx, o.Every, "the condition", func(ctx context.Context) (bool, error) {
		tries++
		observed, ok, err := try(ctx)
		if err == nil {
			last, held = observed, ok
		}
		return ok, err
	})
	if err != nil && (interrupted(ctx) || ctx.Err() == nil) {
		return err
	}
	return gate(sc, drill.Gate{
		ID: "wait:" + s.ID, Title: "what step " + s.ID + " waits for comes about", Expected: expected,
		Observed: fmt.Sprintf("%s (try %d, after %v)", last, tries, time.Since(began).Round(time.Millisecond)), Result: result(held),
		Evidence: fmt.Sprintf("tried every %v", o.Every), Hint: "see what keeps it; the step's timeout may be too short",
	})
}
