package verify

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"drkit/internal/errext"
	"drkit/internal/store"
)

// spotChecks is how many of the objects that a listing alone proved are asked for
// by name in the end. One that answers otherwise shows that the listing is out of
// date, and then all are asked for.
const spotChecks = 64

// spotCheck finds out whether a place lists what is there: a cache before it, or
// an index that lags, gives the same outdated listing as often as it is asked.
func (r *run) spotCheck(ctx context.Context, p *place) ([]ObjectError, error) {
	if _, ok := p.Store.(store.Stater); !ok || p.claimless() {
		return nil, nil
	}
	names := r.listedOnly(p)
	rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	n := min(spotChecks, len(names))
	errs, err := r.askFor(ctx, p, names[:n])
	if err != nil || !slices.ContainsFunc(errs, func(e ObjectError) bool { return errors.Is(e.Err, errChanged) }) {
		return errs, err
	}
	more, err := r.askFor(ctx, p, names[n:])
	return append(errs, more...), err
}

// listedOnly names the matches that rest on what the listing said of them.
func (r *run) listedOnly(p *place) []string {
	var names []string
	for _, g := range r.gaps {
		if g.Verdict != Match || g.Evidence >= store.Content || !g.Proven.IsZero() {
			continue
		}
		o, listed := p.objects[g.Subject]
		if _, asked := p.asked.Load(o.Key); listed && !asked {
			names = append(names, g.Subject)
		}
	}
	slices.Sort(names)
	return names
}

// askFor asks for objects by name, and says of each that is not what was listed.
func (r *run) askFor(ctx context.Context, p *place, names []string) ([]ObjectError, error) {
	var mu sync.Mutex
	var errs []ObjectError
	err := each(ctx, len(names), r.opts.flights, func(ctx context.Context, i int) error {
		o := p.objects[names[i]]
		err := unlike(p.ask(ctx, o))
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		errs = append(errs, ObjectError{Subject: names[i], Key: o.Key, Err: err})
		return nil
	})
	return errs, err
}

// unlike is what an answer by name says against the listing. An object that may
// be listed and not asked for says nothing.
func unlike(o store.Object, err error) error {
	switch {
	case errors.Is(err, errChanged), errors.Is(err, store.ErrNotFound):
		return errext.WithHint(fmt.Errorf("%s: %w, or its listing is out of date: by name it is not what was listed", o.Key, errChanged),
			"verify again when nothing writes there; if it stays so, something caches the listings: go round it, or verify at level content")
	case errors.Is(err, store.ErrDenied):
		return nil
	}
	return err
}
