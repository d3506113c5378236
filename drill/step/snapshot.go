package step

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"drkit/drill"
	"drkit/internal/errext"
	"drkit/internal/openai"
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
	Models   []string      `json:"models,omitempty"` // that an engine has to list before it is put back; none: any
}

// ReplicaArgs is one replica and the workers that it listed.
type ReplicaArgs struct {
	At     RouterAt `json:"at"`
	Before []Backed `json:"before"`

	router drill.Router // of the process that undoes
}

// snapshot reads every replica's list. It is in the journal before the change, as
// the arguments of its undo.
func (w *World) snapshot(ctx context.Context, f *fleet, touched []string) (ProductionArgs, error) {
	a := ProductionArgs{Router: f.Name, Touched: touched, Models: boot{w}.expected()}
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

// engines are the workers that the undo puts back, or leaves as the only ones.
func (a ProductionArgs) engines() []string {
	var all []string
	for _, r := range a.Replicas {
		for _, b := range r.Before {
			if slices.Contains(a.Touched, b.URL) && !slices.Contains(all, b.URL) {
				all = append(all, b.URL)
			}
		}
	}
	return all
}

// undoProduction asks every engine that would get the requests before it changes
// anything: one that is dead, in the list of a router of production, takes requests
// with it. Then it tries every replica, whatever comes of the one before, and proves
// each by listing again. A replica that cannot be put back is left as it was found.
func undoProduction(ctx context.Context, args []byte, p Production) error {
	var a ProductionArgs
	if err := json.Unmarshal(args, &a); err != nil {
		return err
	}
	if err := p.opened(&a); err != nil {
		return fmt.Errorf("%w: %w", drill.ErrUntouched, err)
	}
	if a.back(ctx) {
		return nil
	}
	if err := p.serving(ctx, a.engines(), a.Models); err != nil {
		return fmt.Errorf("%w on router %s, which goes on as it is: %w", drill.ErrUntouched, a.Router, err)
	}
	var failed []error
	changed := false
	for _, r := range a.Replicas {
		touched, err := r.restore(ctx, a.Touched)
		changed = changed || touched
		if err != nil {
			failed = append(failed, fmt.Errorf("router %s, replica %s: %w", a.Router, r.At.Admin, err))
		}
	}
	if len(failed) > 0 && !changed {
		failed = append([]error{drill.ErrUntouched}, failed...)
	}
	return errors.Join(failed...)
}

// opened makes the driver of each replica.
func (p Production) opened(a *ProductionArgs) (err error) {
	for i := range a.Replicas {
		if a.Replicas[i].router, err = p.OpenRouter(a.Replicas[i].At); err != nil {
			return fmt.Errorf("router %s, replica %s: %w", a.Router, a.Replicas[i].At.Admin, err)
		}
	}
	return nil
}

// back says that every replica lists what it did before: nothing is left to undo.
func (a ProductionArgs) back(ctx context.Context) bool {
	for _, r := range a.Replicas {
		workers, err := r.router.Workers(ctx)
		if err != nil || !slices.Equal(among(urls(workers), a.Touched), r.had(a.Touched)) {
			return false
		}
	}
	return true
}

// among are those of some URLs, sorted, that were touched.
func among(all, touched []string) []string {
	return slices.DeleteFunc(all, func(u string) bool { return !slices.Contains(touched, u) })
}

// had are the touched workers that the replica listed before the change.
func (a ReplicaArgs) had(touched []string) []string {
	var all []string
	for _, b := range a.Before {
		all = append(all, b.URL)
	}
	slices.Sort(all)
	return among(all, touched)
}

// restore puts the touched workers back as they were. changed says that the replica
// does not list any more what it listed when restore began.
func (a ReplicaArgs) restore(ctx context.Context, touched []string) (changed bool, err error) {
	was, err := a.router.Workers(ctx)
	if err != nil {
		return false, fmt.Errorf("reading its list: %w", err)
	}
	c := drill.Change{}
	there := a.had(touched)
	for _, b := range a.Before {
		if slices.Contains(there, b.URL) {
			c.Add = append(c.Add, drill.Worker{URL: b.URL, Region: b.Region, Attrs: b.Attrs})
		}
	}
	for _, u := range touched {
		if !slices.Contains(there, u) {
			c.Remove = append(c.Remove, u)
		}
	}
	if err := a.router.Apply(ctx, c); err != nil {
		changed, failed := a.withoutSick(ctx, was, c.Add)
		return changed, errors.Join(err, failed)
	}
	workers, err := a.router.Workers(ctx)
	if err != nil {
		return true, fmt.Errorf("listing again: %w", err)
	}
	if now := among(urls(workers), touched); !slices.Equal(now, there) {
		return true, fmt.Errorf("it lists %v of the workers that were touched, before the change %v", now, there)
	}
	return true, nil
}

// sickPatience bounds the removal of what an undo should not have added.
const sickPatience = 30 * time.Second

// withoutSick takes those workers out again that a failed undo has just added and that
// the replica does not call healthy. What it lists now that it did not before is a change.
func (a ReplicaArgs) withoutSick(ctx context.Context, was []drill.Worker, added []drill.Worker) (changed bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sickPatience)
	defer cancel()
	now, err := a.router.Workers(ctx)
	if err != nil {
		return true, fmt.Errorf("whether it lists an engine that it should not is not known: %w", err)
	}
	c := drill.Change{}
	for _, w := range now {
		mine := slices.ContainsFunc(added, func(x drill.Worker) bool { return x.URL == w.URL })
		if mine && w.Health != drill.Yes && !slices.Contains(urls(was), w.URL) {
			c.Remove = append(c.Remove, w.URL)
		}
	}
	if len(c.Remove) > 0 {
		if err := a.router.Apply(ctx, c); err != nil {
			return true, fmt.Errorf("it lists %v, which it does not call healthy, and keeps them: %w", c.Remove, err)
		}
		if now, err = a.router.Workers(ctx); err != nil {
			return true, fmt.Errorf("listing again: %w", err)
		}
	}
	return !slices.Equal(urls(now), urls(was)), nil
}

// serving says which engines do not answer what an engine of the release does: its
// health, and the models that it has to list.
func (p Production) serving(ctx context.Context, engines, models []string) error {
	dead := make([]error, len(engines))
	var asked sync.WaitGroup
	for i, url := range engines {
		asked.Go(func() {
			ctx, cancel := question(ctx)
			defer cancel()
			if err := answersAs(ctx, &openai.Client{BaseURL: url, HTTP: p.HTTP}, models); err != nil {
				dead[i] = errext.WithHint(fmt.Errorf("%s does not serve, and would take requests with it: %w", url, err),
					"bring it up and take it back again; or let the target serve, and return by the playbook failback")
			}
		})
	}
	asked.Wait()
	return errors.Join(dead...)
}

// answersAs asks an engine for its health, then for its models.
func answersAs(ctx context.Context, c *openai.Client, models []string) error {
	if err := c.Health(ctx); err != nil {
		return err
	}
	return lists(ctx, c, models)
}
