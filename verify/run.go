package verify

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"drkit/internal/progress"
	"drkit/internal/store"
)

// subject is one thing that should be in the copy.
type subject struct {
	name  string // in gaps
	below string // its key without the prefix
	size  int64  // of what will be read, for the order and progress
	judge func(ctx context.Context, g Gap, got store.Object) (Gap, error)
}

// run judges subjects against a copy and collects what is said of them.
type run struct {
	p    *place
	opts Options

	mu   sync.Mutex
	gaps []Gap
	errs []ObjectError
}

// all judges every subject, the largest first, and then what nobody expects.
func (r *run) all(ctx context.Context, name string, subjects []subject, ignore func(below string) bool) error {
	r.errs = slices.Clone(r.p.errs)
	slices.SortStableFunc(subjects, func(a, b subject) int { return cmp.Compare(b.size, a.size) })
	r.p.task = r.task(name, subjects)
	defer r.p.task.Done()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(r.opts.Workers)
	for _, s := range subjects {
		g.Go(func() error { return r.one(ctx, s) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	r.extras(subjects, ignore)
	return nil
}

func (r *run) task(name string, subjects []subject) *progress.Task {
	var bytes int64
	for _, s := range subjects {
		bytes += s.size
	}
	if r.opts.Level != ByContent && !r.p.claimless() {
		bytes = 0
	}
	return progress.Start(r.opts.Progress, name, int64(len(subjects)), bytes)
}

// one judges a subject. It fails only when the whole was cancelled.
func (r *run) one(ctx context.Context, s subject) error {
	gap, err := r.look(ctx, s)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r.p.task.Add(1, 0)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.gaps = append(r.gaps, gap)
	case !slices.ContainsFunc(r.p.errs, func(e ObjectError) bool { return e.Key == gap.Key }):
		r.errs = append(r.errs, ObjectError{Subject: s.name, Key: gap.Key, Err: err})
	}
	return nil
}

func (r *run) look(ctx context.Context, s subject) (Gap, error) {
	gap := Gap{Region: r.p.Region, Subject: s.name, Key: r.p.Prefix + s.below}
	o, err := r.p.find(ctx, s.below)
	if errors.Is(err, store.ErrNotFound) {
		gap.Verdict, gap.WantSize = Missing, s.size
		gap.Why = "it is not there"
		if r.p.absent {
			gap.Why = "it is not there: the place itself does not exist"
		}
		return gap, nil
	}
	if err != nil {
		return gap, err
	}
	return s.judge(ctx, gap, o)
}

// extras adds a gap for each listed key that no subject stands for.
func (r *run) extras(subjects []subject, ignore func(below string) bool) {
	known := map[string]bool{}
	for _, s := range subjects {
		known[s.below] = true
	}
	for below, o := range r.p.objects {
		if known[below] || ignore(below) {
			continue
		}
		why := "it is not part of what was compared"
		if strings.HasPrefix(below, "model/") {
			why = "the release does not list it, and an extra file beside the model can change answers"
		}
		r.gaps = append(r.gaps, Gap{Region: r.p.Region, Subject: below, Key: o.Key, Verdict: Extra, GotSize: o.Size, Why: why})
	}
}

// result takes back the verdicts on what changed meanwhile, and sorts.
func (r *run) result(base Result, places ...*place) Result {
	moved := map[string]bool{}
	for _, e := range r.errs {
		if errors.Is(e.Err, errChanged) {
			moved[e.Subject] = true
		}
	}
	base.Level, base.Require, base.Errors = r.opts.Level, r.opts.Require, r.errs
	base.Gaps = slices.DeleteFunc(r.gaps, func(g Gap) bool { return moved[g.Subject] })
	for _, g := range base.Gaps {
		if g.Verdict != Extra {
			base.Compared++
		}
	}
	for _, p := range places {
		base.BytesRead += p.read.Load()
	}
	slices.SortFunc(base.Gaps, func(a, b Gap) int { return cmp.Compare(a.Subject, b.Subject) })
	slices.SortFunc(base.Errors, func(a, b ObjectError) int {
		return cmp.Or(cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.Error(), b.Error()))
	})
	return base
}

// settle adds an error for each object that changed since the places were
// listed. At level presence the listing is all there is to say.
func (r *run) settle(ctx context.Context, places ...*place) error {
	if r.opts.Level == Presence {
		return nil
	}
	for _, p := range places {
		errs, err := p.settle(ctx)
		if err != nil {
			return err
		}
		for _, e := range errs {
			if !slices.ContainsFunc(r.errs, func(o ObjectError) bool { return o.Key == e.Key && errors.Is(o.Err, errChanged) }) {
				r.errs = append(r.errs, e)
			}
		}
	}
	return nil
}
