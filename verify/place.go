package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"drkit/internal/errext"
	"drkit/internal/progress"
	"drkit/internal/store"
	"drkit/manifest/digest"
)

// place is one listed copy.
type place struct {
	Copy
	objects map[string]store.Object // by key without the prefix
	errs    []ObjectError
	partial bool // an error may hide keys
	absent  bool // the place itself does not exist
	read    atomic.Int64
	task    *progress.Task
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
		case c.Prefix == "" && strings.HasPrefix(below, ".drkit/"):
			// drkit's own records, which differ between regions by nature
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
		e.Err = fmt.Errorf("listing %s: %w", p.Region, err)
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
	// A bucket's HEAD tells the time in seconds where its listing has more.
	o.ModTime, now.ModTime = o.ModTime.Truncate(time.Second), now.ModTime.Truncate(time.Second)
	return now, changed(o, now)
}

var errChanged = errors.New("it changed while it was verified")

// changed compares two sights of one object.
func changed(before, after store.Object) error {
	if before.Size == after.Size && before.ModTime.Equal(after.ModTime) && (before.Version == after.Version || before.Version == "" || after.Version == "") {
		return nil
	}
	return errext.WithHint(fmt.Errorf("%s: %w: something else writes there", before.Key, errChanged),
		"wait until the other copy or upload has ended, and verify again")
}

// hash reads an object and takes its digests.
func (p *place) hash(ctx context.Context, o store.Object, algorithms []string) ([]store.Sum, error) {
	r, err := p.Store.Open(ctx, o, 0, -1)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	set, n, err := digest.Read(&counted{ctx, r, p}, o.Size, digest.Options{Algorithms: algorithms})
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", o.Key, err)
	}
	if n != o.Size {
		after := o
		after.Size = n
		return nil, changed(o, after)
	}
	return sumsOf(set, store.Content), nil
}

// counted tells progress of the bytes that pass, and stops when ctx does.
type counted struct {
	ctx context.Context
	r   io.Reader
	p   *place
}

func (c *counted) Read(b []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	n, err := c.r.Read(b)
	c.p.read.Add(int64(n))
	c.p.task.Add(0, int64(n))
	return n, err
}

// settle lists the copy once more and reports every object that is not what it
// was at the beginning: what was compared is then not what is there now.
func (p *place) settle(ctx context.Context) ([]ObjectError, error) {
	now, err := list(ctx, p.Copy)
	if err != nil {
		return nil, err
	}
	var errs []ObjectError
	report := func(below string, err error) {
		if err != nil {
			errs = append(errs, ObjectError{Subject: below, Key: p.Prefix + below, Err: err})
		}
	}
	for below, o := range p.objects {
		after, ok := now.objects[below]
		if !ok {
			after = store.Object{Size: -1}
		}
		report(below, changed(o, after))
	}
	for below, o := range now.objects {
		if _, ok := p.objects[below]; !ok {
			report(below, changed(store.Object{Key: o.Key, Size: -1}, o))
		}
	}
	return errs, nil
}
