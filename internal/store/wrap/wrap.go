// Package wrap holds decorators of stores: Retry repeats what failed by chance,
// Limit bounds requests at once and a second, Count counts them, Fault lets them
// fail by seed.
//
//	var c wrap.Counter
//	s := wrap.ReadWriter(bucket, c.Decorate, wrap.Retry(wrap.Policy{}))
//
// The first decorator is the innermost: here every repetition is counted. What
// the store can do besides reading stays visible: a decorated store is a
// store.Stater, store.Located, store.Claimless, store.Copier or
// store.ReadWriter exactly when the one within is. Optional abilities that have
// a neutral answer (store.Expecter, store.Pinned, store.Identified) are passed
// on, or answered neutrally. store.Glancer and store.Retainer are not: a decorated
// store is described by Stat, and holds nothing back from deletion.
package wrap

import (
	"context"
	"io"
	"iter"
	"time"

	"drkit/internal/store"
	"drkit/manifest/digest"
)

// Op names an operation of a store.
type Op string

// The operations.
const (
	List   Op = "list"
	Open   Op = "open"
	Stat   Op = "stat"
	Put    Op = "put"
	Remove Op = "remove"
	Copy   Op = "copy"
)

// Decorator puts something around a store.
type Decorator func(store.Source) store.Source

// Source decorates a store, the first decorator innermost.
func Source(s store.Source, all ...Decorator) store.Source {
	for _, d := range all {
		s = d(s)
	}
	return s
}

// ReadWriter is Source for a store that can be written to.
func ReadWriter(s store.ReadWriter, all ...Decorator) store.ReadWriter {
	return Source(s, all...).(store.ReadWriter)
}

// request is one operation on its way to the store.
type request struct {
	op          Op
	key         string // of List: the prefix
	conditional bool
}

// layer is what a decorator does around operations.
type layer interface {
	// do carries out an operation other than List and Open, as often as it likes.
	do(ctx context.Context, r request, f func(context.Context) error) error
	open(ctx context.Context, s store.Source, o store.Object, off, n int64) (io.ReadCloser, error)
	list(ctx context.Context, s store.Source, prefix string) iter.Seq2[store.Object, error]
}

// bodyLayer is a layer that sees what a Put reads.
type bodyLayer interface{ put(b store.Body) store.Body }

// decorate puts a layer around a store and shows what the store can do.
func decorate(s store.Source, l layer) store.Source {
	c := &core{s, l}
	_, located := s.(store.Located)
	_, claimless := s.(store.Claimless)
	if rw, ok := s.(store.ReadWriter); ok {
		_, copier := s.(store.Copier)
		return showWriter(&writer{stater{c}, rw}, located, claimless, copier)
	}
	_, stats := s.(store.Stater)
	return showReader(c, stats, located, claimless)
}

func showReader(c *core, stats, located, claimlessToo bool) store.Source {
	switch (shown{stats, located, claimlessToo}) {
	case shown{true, true, true}:
		return struct {
			stater
			location
			claimless
		}{stater{c}, location{c}, claimless{}}
	case shown{true, true, false}:
		return struct {
			stater
			location
		}{stater{c}, location{c}}
	case shown{true, false, true}:
		return struct {
			stater
			claimless
		}{stater{c}, claimless{}}
	case shown{true, false, false}:
		return stater{c}
	case shown{false, true, true}:
		return struct {
			*core
			location
			claimless
		}{c, location{c}, claimless{}}
	case shown{false, true, false}:
		return struct {
			*core
			location
		}{c, location{c}}
	case shown{false, false, true}:
		return struct {
			*core
			claimless
		}{c, claimless{}}
	}
	return c
}

func showWriter(w *writer, located, claimlessToo, copies bool) store.Source {
	switch (shown{located, claimlessToo, copies}) {
	case shown{true, true, true}:
		return struct {
			*writer
			location
			claimless
			copier
		}{w, location{w.core}, claimless{}, copier{w.core}}
	case shown{true, true, false}:
		return struct {
			*writer
			location
			claimless
		}{w, location{w.core}, claimless{}}
	case shown{true, false, true}:
		return struct {
			*writer
			location
			copier
		}{w, location{w.core}, copier{w.core}}
	case shown{true, false, false}:
		return struct {
			*writer
			location
		}{w, location{w.core}}
	case shown{false, true, true}:
		return struct {
			*writer
			claimless
			copier
		}{w, claimless{}, copier{w.core}}
	case shown{false, true, false}:
		return struct {
			*writer
			claimless
		}{w, claimless{}}
	case shown{false, false, true}:
		return struct {
			*writer
			copier
		}{w, copier{w.core}}
	}
	return w
}

// shown is which of three optional abilities a store has.
type shown [3]bool

// core is what every decorated store can do.
type core struct {
	s store.Source
	l layer
}

// Unwrap returns the store within.
func (c *core) Unwrap() store.Source { return c.s }

func (c *core) List(ctx context.Context, prefix string) iter.Seq2[store.Object, error] {
	return c.l.list(ctx, c.s, prefix)
}

func (c *core) Open(ctx context.Context, o store.Object, off, n int64) (io.ReadCloser, error) {
	return c.l.open(ctx, c.s, o, off, n)
}

// Expected passes on what the store's records say; none is neutral.
func (c *core) Expected(key string) []digest.Digest {
	if e, ok := c.s.(store.Expecter); ok {
		return e.Expected(key)
	}
	return nil
}

// Pin passes on the commit of a hub's repository; "" is neutral.
func (c *core) Pin(ctx context.Context) (repo, commit string, err error) {
	if p, ok := c.s.(store.Pinned); ok {
		return p.Pin(ctx)
	}
	return "", "", nil
}

// Identity passes on what tells one writing of a file from another; "" is neutral.
func (c *core) Identity(o store.Object) (string, time.Time) {
	if i, ok := c.s.(store.Identified); ok {
		return i.Identity(o)
	}
	return "", time.Time{}
}

// location is core's location, apart so that only stores that have one show it.
type location struct{ c *core }

func (l location) Location() string { return l.c.s.(store.Located).Location() }

type claimless struct{}

func (claimless) HoldsNoClaims() {}

// stater is a decorated store that can be asked about one key.
type stater struct{ *core }

func (s stater) Stat(ctx context.Context, key string) (o store.Object, err error) {
	err = s.l.do(ctx, request{op: Stat, key: key}, func(ctx context.Context) error {
		o, err = s.s.(store.Stater).Stat(ctx, key)
		return err
	})
	return o, err
}

// writer is a decorated store that can be written to.
type writer struct {
	stater
	rw store.ReadWriter
}

func (w *writer) Put(ctx context.Context, key string, b store.Body, c store.Cond) (o store.Object, err error) {
	if l, ok := w.l.(bodyLayer); ok {
		b = l.put(b)
	}
	err = w.l.do(ctx, request{Put, key, c != store.Cond{}}, func(ctx context.Context) error {
		o, err = w.rw.Put(ctx, key, b, c)
		return err
	})
	return o, err
}

func (w *writer) Remove(ctx context.Context, key string, c store.Cond) error {
	return w.l.do(ctx, request{Remove, key, c != store.Cond{}}, func(ctx context.Context) error { return w.rw.Remove(ctx, key, c) })
}

// copier is a decorated store that can copy by itself.
type copier struct{ c *core }

func (p copier) CopyFrom(ctx context.Context, from store.Source, o store.Object, key string, b store.Body, c store.Cond) (made store.Object, err error) {
	err = p.c.l.do(ctx, request{Copy, key, c != store.Cond{}}, func(ctx context.Context) error {
		made, err = p.c.s.(store.Copier).CopyFrom(ctx, from, o, key, b, c)
		return err
	})
	return made, err
}
