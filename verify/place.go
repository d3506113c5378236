package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"drkit/internal/errext"
	"drkit/internal/progress"
	"drkit/internal/store"
)

// place is one listed copy.
type place struct {
	Copy
	objects    map[string]store.Object // by key without the prefix
	errs       []ObjectError
	partial    bool // an error may hide keys
	absent     bool // the place itself does not exist
	read       atomic.Int64
	recognised atomic.Int64
	asked      sync.Map // keys that were asked for by name
	task       *progress.Task
}

// list reads all keys of a copy. Only cancelling ends it early.
func list(ctx context.Context, c Copy) (*place, error) {
	p := &place{Copy: c, objects: map[string]store.Object{}}
	for o, err := range c.Store.List(ctx, c.Prefix) {
		below := strings.TrimPrefix(o.Key, c.Prefix)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			p.listError(err)
		case p.record(below):
		default:
			p.objects[below] = o
		}
	}
	return p, nil
}

func (p *place) listError(err error) {
	p.partial = true
	if len(p.objects) == 0 && errors.Is(err, store.ErrNotFound) && !isKeyError(err) {
		p.absent = true
	}
	e := ObjectError{Err: err}
	var link *store.LinkError
	var key *store.KeyError
	switch {
	case errors.As(err, &link):
		e.Key = link.Key
	case errors.As(err, &key):
		e.Key = key.Key
	default:
		if e.Err = fmt.Errorf("listing %s: %w", p.Region, err); strings.HasPrefix(err.Error(), "listing ") {
			e.Err = fmt.Errorf("%s: %w", p.Region, err) // it says so itself
		}
	}
	e.Subject = strings.TrimPrefix(e.Key, p.Prefix)
	p.errs = append(p.errs, e)
}

func isKeyError(err error) bool {
	var link *store.LinkError
	var key *store.KeyError
	return errors.As(err, &link) || errors.As(err, &key)
}

// find returns a listed object; what a partial listing may have hidden is asked
// for by name.
func (p *place) find(ctx context.Context, below string) (store.Object, error) {
	if o, ok := p.objects[below]; ok {
		return o, nil
	}
	if p.absent || !p.partial {
		return store.Object{}, store.ErrNotFound
	}
	if s, ok := p.Store.(store.Stater); ok {
		return s.Stat(ctx, p.Prefix+below)
	}
	return store.Object{}, errors.New("the listing was not complete, so it may be there or not")
}

// claimless reports whether checksums can only come from reading.
func (p *place) claimless() bool {
	_, ok := p.Store.(store.Claimless)
	return ok
}

// ask adds what Stat knows of an object that a listing showed.
func (p *place) ask(ctx context.Context, o store.Object) (store.Object, error) {
	s, ok := p.Store.(store.Stater)
	if !ok {
		return o, nil
	}
	now, err := s.Stat(ctx, o.Key)
	if err != nil {
		return o, err
	}
	p.asked.Store(o.Key, true)
	// A bucket's HEAD tells the time in seconds where its listing has more.
	o.ModTime, now.ModTime = o.ModTime.Truncate(time.Second), now.ModTime.Truncate(time.Second)
	return now, changed(o, now)
}

var errChanged = errors.New("it changed while it was verified")

// changed compares two sights of one object.
func changed(before, after store.Object) error {
	said := func(a, b string) bool { return a == b || a == "" || b == "" }
	if before.Size == after.Size && before.ModTime.Equal(after.ModTime) && said(before.Version, after.Version) && said(before.ETag, after.ETag) {
		return nil
	}
	return errext.WithHint(fmt.Errorf("%s: %w: something else writes there", before.Key, errChanged),
		"wait until the other copy or upload has ended, and verify again")
}

// settle lists the copy once more and reports every object that is not what it
// was at the beginning: what was compared is then not what is there now.
func (p *place) settle(ctx context.Context) ([]ObjectError, error) {
	again := &place{Copy: p.Copy}
	still := map[string]struct{}{}
	var errs []ObjectError
	for o, err := range p.Store.List(ctx, p.Prefix) {
		below := strings.TrimPrefix(o.Key, p.Prefix)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			again.listError(err)
		case !p.record(below):
			still[below] = struct{}{}
			errs = append(errs, p.moved(below, o)...)
		}
	}
	if again.unlisted() { // what was not shown may be there
		if !p.unlisted() {
			errs = append(errs, again.errs...)
		}
		return errs, nil
	}
	for below := range p.objects {
		if _, ok := still[below]; !ok {
			errs = append(errs, p.moved(below, store.Object{Size: -1})...)
		}
	}
	return errs, nil
}

// moved says that an object is not what it was when it was listed.
func (p *place) moved(below string, now store.Object) []ObjectError {
	key := p.Prefix + below
	before, ok := p.objects[below]
	if !ok {
		before = store.Object{Key: key, Size: -1}
	}
	if err := changed(before, now); err != nil {
		return []ObjectError{{Subject: below, Key: key, Err: err}}
	}
	return nil
}

// unlisted reports whether a part of the place could not be listed at all.
func (p *place) unlisted() bool {
	return slices.ContainsFunc(p.errs, func(e ObjectError) bool { return e.Key == "" })
}

// record reports whether a key holds drkit's own records, which differ between
// regions by nature.
func (p *place) record(below string) bool {
	return p.Prefix == "" && strings.HasPrefix(below, ".drkit/")
}
