// Package selftest shows that a drill of this drkit can go red. It rehearses a
// recovery again and again, each time with one fault built in, and demands that
// the run ends red for that fault's own reason; a sound recovery beside them must
// be green, else the faults would prove nothing.
//
//	res, err := selftest.Run(ctx, selftest.Input{Model: dir, Adapter: lora, WorkDir: tmp})
//	if !res.Holds() { … }
//
// What runs is what a drill runs: the built-in playbook, the runner, the steps, the
// rules, the verification, the judge. Only the world around is made up: stores in
// memory, the stand-in engine, the reference router, and a network inside the
// process. So it shows that these checks can fail; it says nothing of an engine or a
// router in production.
package selftest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"drkit/internal/standin"
)

// Schema names the format of a Result.
const Schema = "drkit.self-test/1.0"

// Input is what is tested with. WorkDir is emptied by nobody: the caller makes and
// removes it.
type Input struct {
	Model, Adapter string // folders of a tiny Llama-type model and of an adapter for it
	WorkDir        string // scratch space
	Own            *Own   // a copy of the service's own, nil: none
	Tool           string // version of this drkit
	Binary         string // SHA-256 of its executable, "": not known
	Only           []string
	Parallel       int        // cases at a time; 0: eight, as they wait most of their time
	OnCase         func(Case) // called with each case that has ended, one at a time
}

func (in Input) tell(c Case) {
	if in.OnCase != nil {
		in.OnCase(c)
	}
}

// Result is what all cases came to.
type Result struct {
	Schema  string    `json:"schema"`
	Tool    string    `json:"tool"`
	Binary  string    `json:"binary_sha256,omitempty"`
	At      time.Time `json:"at"` // UTC, when it began
	Engine  string    `json:"engine"`
	Router  string    `json:"router"`
	Partial bool      `json:"partial"` // only some cases were asked for
	Held    bool      `json:"holds"`
	Cases   []Case    `json:"cases"`

	NotTried []string `json:"not_tried,omitempty"` // of the service's own copy, each with its reason
}

// Outcomes of a case.
const (
	Red   = "red"   // the fault was found, for its own reason
	Green = "green" // nothing was found: for a fault, the check is blind
	Other = "other" // it ended for another reason than the fault's
)

// Case is one recovery with one fault, or with none.
type Case struct {
	ID      string  `json:"id"`
	Title   string  `json:"title"`
	Subject string  `json:"subject"` // which copy: the built-in model, or the service's own
	Wants   string  `json:"wants"`   // what has to come of it, in words
	Want    string  `json:"want"`    // Red, or Green for a control
	Outcome string  `json:"outcome"`
	Verdict string  `json:"verdict,omitempty"` // of the run
	Status  int     `json:"status,omitempty"`
	Seen    string  `json:"seen"` // what the check said
	Seconds float64 `json:"seconds"`
}

// OK reports whether the case came to what it had to.
func (c Case) OK() bool { return c.Outcome == c.Want }

// Holds reports whether every case came to what it had to, with a control among them.
func (r Result) Holds() bool {
	return slices.ContainsFunc(r.Cases, func(c Case) bool { return c.Want == Green && c.OK() }) &&
		slices.ContainsFunc(r.Cases, func(c Case) bool { return c.Want == Red }) &&
		!slices.ContainsFunc(r.Cases, func(c Case) bool { return !c.OK() })
}

// ErrUnknownCase says that a case was asked for that there is not.
var ErrUnknownCase = errors.New("there is no such case")

// Names lists the ids of the cases on the built-in model.
func Names() []string {
	var all []string
	for _, f := range faults {
		all = append(all, f.id)
	}
	return all
}

// builtIn is the subject of the cases that need an engine.
const builtIn = "built-in model"

// Run runs all cases, or those that Only names beside the control. An error means that
// they could not be run; faults that stay unseen are in the Result.
func Run(ctx context.Context, in Input) (Result, error) {
	res := Result{Schema: Schema, Tool: in.Tool, Binary: in.Binary, At: time.Now().UTC().Truncate(time.Millisecond), Engine: standin.Version,
		Router: "drkit reference router", Partial: len(in.Only) > 0}
	chosen, err := choose(in.Only)
	if err != nil {
		return res, err
	}
	released, err := newReleases(ctx, in)
	if err != nil {
		return res, fmt.Errorf("making the release that is tested with: %w", err)
	}
	res.Cases = make([]Case, len(chosen))
	var telling sync.Mutex
	group, running := errgroup.WithContext(ctx)
	group.SetLimit(cmp.Or(max(in.Parallel, 0), 8))
	for i, f := range chosen {
		group.Go(func() error {
			c, err := f.run(running, in, released)
			if err != nil {
				return fmt.Errorf("case %s: %w", f.id, err)
			}
			res.Cases[i] = c
			telling.Lock()
			defer telling.Unlock()
			in.tell(c)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return res, err
	}
	if in.Own != nil {
		own, left, err := in.Own.cases(ctx, in.WorkDir)
		if err != nil {
			return res, fmt.Errorf("on the service's own copy: %w", err)
		}
		res.Cases, res.NotTried = append(res.Cases, own...), left
		for _, c := range own {
			in.tell(c)
		}
	}
	res.Held = res.Holds()
	return res, nil
}

// choose takes the controls and the cases that were named.
func choose(only []string) ([]fault, error) {
	for _, name := range only {
		if !slices.Contains(Names(), name) {
			return nil, fmt.Errorf("%w: %q", ErrUnknownCase, name)
		}
	}
	if len(only) == 0 {
		return faults, nil
	}
	return slices.DeleteFunc(slices.Clone(faults), func(f fault) bool { return f.want != Green && !slices.Contains(only, f.id) }), nil
}
