package hf

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"drkit/internal/store"
)

// List yields the files there are. A file that the commit's listing names and
// that is not there, and one that leads out of the blobs, is a *store.KeyError
// with a *store.Defect in its place.
func (c *Cache) List(ctx context.Context, prefix string) iter.Seq2[store.Object, error] {
	return func(yield func(store.Object, error) bool) {
		l := lister{c: c, prefix: prefix, yield: yield, missing: c.listing}
		for o, err := range c.files.List(ctx, prefix) {
			if !l.entry(o, err) {
				return
			}
		}
		if l.before("\U0010FFFF", true) && ctx.Err() == nil && !l.failed {
			l.beside()
		}
	}
}

// lister merges what is there with what the listing says should be.
type lister struct {
	c       *Cache
	prefix  string
	yield   func(store.Object, error) bool
	missing []file // not yet passed
	failed  bool   // an error after which nothing more can be said of what is missing
}

// entry passes one entry of the directory on. False: the reader has had enough.
func (l *lister) entry(o store.Object, err error) bool {
	key, keyed := keyOf(o, err)
	switch {
	case !keyed:
		l.failed = true
		return l.yield(o, err)
	case strings.HasPrefix(key, downloadFolder):
		return true // the records themselves
	case !l.before(key, false):
		return false
	}
	if err == nil {
		err = l.c.checkLink(key)
	}
	if err != nil {
		return l.yield(store.Object{}, err)
	}
	return l.yield(o, nil)
}

// keyOf is the key that an entry or its error is about.
func keyOf(o store.Object, err error) (string, bool) {
	var link *store.LinkError
	var key *store.KeyError
	switch {
	case err == nil:
		return o.Key, true
	case errors.As(err, &link):
		return link.Key, true
	case errors.As(err, &key):
		return key.Key, true
	}
	return "", false
}

// before yields the listed files that come before key and were not there, and
// passes over key itself, or over all beneath it when it is an unreadable folder.
func (l *lister) before(key string, last bool) bool {
	for !l.failed && len(l.missing) > 0 {
		f := l.missing[0]
		here := f.key == key || (strings.HasSuffix(key, "/") && strings.HasPrefix(f.key, key)) || key == "./"
		if !here && !last && f.key > key {
			return true
		}
		l.missing = l.missing[1:]
		if !here && strings.HasPrefix(f.key, l.prefix) && !l.yield(store.Object{}, l.c.gone(f)) {
			return false
		}
	}
	return true
}

// gone says of a listed file that it is not there.
func (c *Cache) gone(f file) error {
	d := &store.Defect{Kind: store.DefectMissing, What: fmt.Sprintf("commit %s has this file of %d bytes, and it was not downloaded or was deleted", c.commit, f.size)}
	if n, ok := c.partial[f.sum.Hex]; ok {
		d.Kind, d.What = store.DefectInterrupted, fmt.Sprintf("its download was interrupted: %d of %d bytes are there", n, f.size)
	}
	return &store.KeyError{Key: f.key, Err: d}
}

// beside yields what was found wrong beside the files.
func (l *lister) beside() {
	for _, d := range l.c.defects {
		if strings.HasPrefix(d.Key, l.prefix) && !l.yield(store.Object{}, d) {
			return
		}
	}
}
