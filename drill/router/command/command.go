// Package command drives a router through two commands of the operator's own: one
// that changes its workers and one that says what they are. It is for routers that
// drkit does not know; docs/live.md describes the protocol.
//
//	r := command.New(command.Commands{Apply: []string{"./router.sh", "apply"}, Observe: …}, "http://router-0:30000", "")
//
// Only what observe says acknowledges a change. That apply ends well means nothing.
package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"drkit/drill"
	"drkit/internal/errext"
)

// Driver is this driver's name in drkit.yaml, Version that of the protocol.
const (
	Driver  = "command"
	Version = 1
)

// Router is one replica of a router behind commands.
type Router struct {
	Pace drill.Pace // how long a change may take

	run            Commands
	admin, metrics string
}

var _ drill.Router = (*Router)(nil)

// New drives the replica that admin and metrics name: they are given to the commands
// as they are.
func New(c Commands, admin, metrics string) (*Router, error) {
	if len(c.Apply) == 0 || len(c.Observe) == 0 {
		return nil, errext.WithStatus(errors.New("a router of driver command needs the commands apply and observe"), errext.Usage)
	}
	return &Router{run: c, admin: admin, metrics: metrics}, nil
}

// request is what a command reads from its stdin.
type request struct {
	Version int       `json:"version"`
	Action  string    `json:"action"` // observe, apply
	Router  routerRef `json:"router"`
	Add     []worker  `json:"add,omitempty"`
	Remove  []string  `json:"remove,omitempty"`
}

type routerRef struct {
	Admin   string `json:"admin"`
	Metrics string `json:"metrics,omitempty"`
}

type worker struct {
	URL       string `json:"url"`
	Region    string `json:"region,omitempty"`
	Residency string `json:"residency,omitempty"`
}

// answer is what observe writes to its stdout.
type answer struct {
	Version  int                `json:"version"`
	Kind     string             `json:"kind"`
	Release  string             `json:"router_version"`
	Policy   string             `json:"policy"`
	Workers  *[]observed        `json:"workers"`
	Counters map[string]counted `json:"counters"` // by worker URL; absent: not known
}

type observed struct {
	URL      string `json:"url"`
	Region   string `json:"region"`
	Healthy  *bool  `json:"healthy"` // absent: not known
	Draining bool   `json:"draining"`
}

type counted struct {
	OK     uint64 `json:"ok"`
	Failed uint64 `json:"failed"`
	Epoch  string `json:"epoch"`
}

func (r *Router) observe(ctx context.Context) (answer, error) {
	var a answer
	out, err := r.run.Do(ctx, r.run.Observe, request{Version: Version, Action: "observe", Router: routerRef{r.admin, r.metrics}})
	if err != nil {
		return a, fmt.Errorf("observing the router at %s: %w", r.admin, err)
	}
	if err := json.Unmarshal(out, &a); err != nil {
		return a, fmt.Errorf("observing the router at %s: its answer is not the JSON expected: %w", r.admin, err)
	}
	switch {
	case a.Version != Version:
		return a, fmt.Errorf("observing the router at %s: its answer is of version %d, want %d", r.admin, a.Version, Version)
	case a.Workers == nil:
		return a, fmt.Errorf("observing the router at %s: its answer has no workers", r.admin)
	}
	return a, nil
}

// Probe asks once.
func (r *Router) Probe(ctx context.Context) (drill.RouterInfo, error) {
	a, err := r.observe(ctx)
	if err != nil {
		return drill.RouterInfo{}, err
	}
	kind := a.Kind
	if kind == "" {
		kind = Driver
	}
	return drill.RouterInfo{Kind: kind, Version: a.Release, Policy: a.Policy}, nil
}

// Workers lists what observe says.
func (r *Router) Workers(ctx context.Context) ([]drill.Worker, error) {
	all, err := r.Registered(ctx)
	if err != nil {
		return nil, err
	}
	var out []drill.Worker
	for _, w := range all {
		out = append(out, w.Worker)
	}
	return out, nil
}

// Apply makes a change and returns once observe shows it.
func (r *Router) Apply(ctx context.Context, c drill.Change) error {
	if err := drill.ApplyChange(ctx, r, c, r.Pace); err != nil {
		return fmt.Errorf("router at %s: %w", r.admin, err)
	}
	return nil
}

// Counters are those that observe tells, if it does.
func (r *Router) Counters(ctx context.Context) (map[string]drill.Count, error) {
	a, err := r.observe(ctx)
	if err != nil {
		return nil, err
	}
	if a.Counters == nil {
		return nil, fmt.Errorf("counters of the router at %s: %w", r.admin, drill.ErrNotCounted)
	}
	counts := map[string]drill.Count{}
	for raw, c := range a.Counters {
		u, err := drill.NormalURL(raw)
		if err != nil {
			return nil, fmt.Errorf("counters of the router at %s: %w", r.admin, err)
		}
		counts[u] = drill.Count{OK: c.OK, Failed: c.Failed, Unit: "as the command counts", Epoch: c.Epoch}
	}
	return counts, nil
}

// Registered reads the list.
func (r *Router) Registered(ctx context.Context) ([]drill.Registered, error) {
	a, err := r.observe(ctx)
	if err != nil {
		return nil, err
	}
	var out []drill.Registered
	for _, w := range *a.Workers {
		u, err := drill.NormalURL(w.URL)
		if err != nil {
			return nil, fmt.Errorf("observing the router at %s: a worker: %w", r.admin, err)
		}
		d := drill.Worker{URL: u, ID: w.URL, Region: w.Region, Draining: w.Draining, Health: drill.Unknown}
		if w.Healthy != nil {
			d.Health = drill.No
			if *w.Healthy {
				d.Health = drill.Yes
			}
		}
		out = append(out, drill.Registered{Worker: d, Raw: w.URL})
	}
	return out, nil
}

// Register asks for a worker.
func (r *Router) Register(ctx context.Context, w drill.Worker) error {
	return r.apply(ctx, request{Add: []worker{{w.URL, w.Region, w.Attrs["residency"]}}})
}

// Unregister asks to remove one.
func (r *Router) Unregister(ctx context.Context, raw string) error {
	return r.apply(ctx, request{Remove: []string{raw}})
}

func (r *Router) apply(ctx context.Context, q request) error {
	q.Version, q.Action, q.Router = Version, "apply", routerRef{r.admin, r.metrics}
	_, err := r.run.Do(ctx, r.run.Apply, q)
	return err
}
