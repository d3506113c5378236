package step

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"drkit/drill"
	"drkit/internal/errext"
)

// UndoProduction puts the workers that a run touched back on every replica of a
// router of production, as they were.
const UndoProduction = "production.restore"

// ProductionArgs are the arguments of UndoProduction: what every replica listed
// before the change, and which workers the change touched. All others stay.
type ProductionArgs struct {
	Router   string        `json:"router"`
	Replicas []ReplicaArgs `json:"replicas"`
	Touched  []string      `json:"touched"`
}

// ReplicaArgs is one replica and the workers that it listed.
type ReplicaArgs struct {
	At     RouterAt `json:"at"`
	Before []Backed `json:"before"`
}

// snapshot reads every replica's list. It is in the journal before the change, as
// the arguments of its undo.
func (w *World) snapshot(ctx context.Context, f *fleet, touched []string) (ProductionArgs, error) {
	a := ProductionArgs{Router: f.Name, Touched: touched}
	for i, r := range f.replicas {
		asked, cancel := question(ctx)
		workers, err := r.Workers(asked)
		cancel()
		if err != nil {
			return a, errext.WithHint(fmt.Errorf("reading the list of router %s, replica %s: %w", f.Name, f.Replicas[i].Admin, err), errext.Hint(err))
		}
		one := ReplicaArgs{At: f.Replicas[i], Before: []Backed{}}
		for _, x := range workers {
			b := Backed{URL: x.URL, Region: x.Region, Attrs: x.Attrs}
			if r := w.regionAt(ctx, x.URL); r != nil {
				b.Region = r.Name
			}
			one.Before = append(one.Before, b)
		}
		a.Replicas = append(a.Replicas, one)
	}
	return a, nil
}

// lists says that a replica listed one of the workers.
func (a ProductionArgs) lists(workers []string) bool {
	return slices.ContainsFunc(a.Replicas, func(r ReplicaArgs) bool {
		return slices.ContainsFunc(r.Before, func(b Backed) bool { return slices.Contains(workers, b.URL) })
	})
}

// undoProduction tries every replica, whatever comes of the one before, and proves
// each by listing again.
func undoProduction(ctx context.Context, args []byte, open func(RouterAt) (drill.Router, error)) error {
	var a ProductionArgs
	if err := json.Unmarshal(args, &a); err != nil {
		return err
	}
	var failed []error
	for _, r := range a.Replicas {
		if err := restoreReplica(ctx, r, a.Touched, open); err != nil {
			failed = append(failed, fmt.Errorf("router %s, replica %s: %w", a.Router, r.At.Admin, err))
		}
	}
	return errors.Join(failed...)
}

func restoreReplica(ctx context.Context, a ReplicaArgs, touched []string, open func(RouterAt) (drill.Router, error)) error {
	r, err := open(a.At)
	if err != nil {
		return err
	}
	var c drill.Change
	var there []string
	for _, b := range a.Before {
		if slices.Contains(touched, b.URL) {
			c.Add = append(c.Add, drill.Worker{URL: b.URL, Region: b.Region, Attrs: b.Attrs})
			there = append(there, b.URL)
		}
	}
	for _, u := range touched {
		if !slices.Contains(there, u) {
			c.Remove = append(c.Remove, u)
		}
	}
	if err := r.Apply(ctx, c); err != nil {
		return err
	}
	workers, err := r.Workers(ctx)
	if err != nil {
		return fmt.Errorf("listing again: %w", err)
	}
	now := slices.DeleteFunc(urls(workers), func(u string) bool { return !slices.Contains(touched, u) })
	slices.Sort(there)
	if !slices.Equal(now, there) {
		return fmt.Errorf("it lists %v of the workers that were touched, before the change %v", now, there)
	}
	return nil
}
