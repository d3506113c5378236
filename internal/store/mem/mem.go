// Package mem is a store in memory for tests. Its objects can be damaged behind
// its back, can carry the checksums that a bucket would have stored, and its
// operations can be made to fail.
package mem

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"drkit/internal/store"
	"drkit/manifest/digest"
)

// Store holds objects in memory. New makes one.
type Store struct {
	// Claims lists the algorithms whose digests Put keeps as store.Claimed sums.
	Claims []string
	// ListsSums says whether List shows them too, or only Stat.
	ListsSums bool
	// Fault, when set, is asked before each operation (list, open, stat, put,
	// remove); an error that it returns is the operation's.
	Fault func(op, key string) error

	mu      sync.Mutex
	objects map[string]object
	writes  int
}

type object struct {
	store.Object
	data []byte
}

// New is an empty store.
func New() *Store { return &Store{objects: map[string]object{}} }

// Fill puts what files says, key by key.
func (s *Store) Fill(files map[string]string) *Store {
	for key, content := range files {
		if _, err := s.Put(context.Background(), key, store.BytesBody([]byte(content)), store.Cond{}); err != nil {
			panic(err)
		}
	}
	return s
}

// Damage changes an object's bytes and leaves everything that is said of it, as
// a disk does: size, time and checksums stay those that were stored.
func (s *Store) Damage(key string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.objects[key]
	o.data = data
	s.objects[key] = o
}

// Say changes what is said of an object and leaves its bytes.
func (s *Store) Say(key string, change func(*store.Object)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.objects[key]
	change(&o.Object)
	s.objects[key] = o
}

// Content returns every object's bytes.
func (s *Store) Content() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]string{}
	for key, o := range s.objects {
		all[key] = string(o.data)
	}
	return all
}

func (s *Store) fault(ctx context.Context, op, key string) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if s.Fault != nil {
		return s.Fault(op, key)
	}
	return nil
}

// List yields what was there when it began.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[store.Object, error] {
	return func(yield func(store.Object, error) bool) {
		if err := firstErr(store.CheckPrefix(prefix), s.fault(ctx, "list", prefix)); err != nil {
			yield(store.Object{}, err)
			return
		}
		s.mu.Lock()
		all := maps.Clone(s.objects)
		s.mu.Unlock()
		for _, key := range slices.Sorted(maps.Keys(all)) {
			o := all[key].Object
			if !s.ListsSums {
				o.Sums = nil
			}
			if strings.HasPrefix(key, prefix) && !yield(o, nil) {
				return
			}
		}
	}
}

func firstErr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Open reads the bytes.
func (s *Store) Open(ctx context.Context, o store.Object, off, n int64) (io.ReadCloser, error) {
	if err := firstErr(store.CheckKey(o.Key), s.fault(ctx, "open", o.Key)); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	have, ok := s.objects[o.Key]
	if !ok || (o.Version != "" && o.Version != have.Version) {
		return nil, fmt.Errorf("%s: %w", o.Key, store.ErrNotFound)
	}
	return io.NopCloser(store.Range(have.data, off, n)), nil
}

// Stat says everything that is known of a key.
func (s *Store) Stat(ctx context.Context, key string) (store.Object, error) {
	if err := firstErr(store.CheckKey(key), s.fault(ctx, "stat", key)); err != nil {
		return store.Object{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[key]
	if !ok {
		return store.Object{}, fmt.Errorf("%s: %w", key, store.ErrNotFound)
	}
	return o.Object, nil
}

// Put keeps a checked copy of the body.
func (s *Store) Put(ctx context.Context, key string, b store.Body, c store.Cond) (store.Object, error) {
	if err := firstErr(store.CheckKey(key), s.fault(ctx, "put", key)); err != nil {
		return store.Object{}, err
	}
	var data bytes.Buffer
	if _, err := store.CopyBody(ctx, &data, key, b); err != nil {
		return store.Object{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.check(key, c); err != nil {
		return store.Object{}, err
	}
	s.writes++
	o := store.Object{Key: key, Size: int64(data.Len()), ModTime: time.Now(), ETag: "write-" + strconv.Itoa(s.writes)}
	if len(s.Claims) > 0 {
		h := digest.NewHasher(o.Size, s.Claims...)
		h.Write(data.Bytes())
		for _, a := range s.Claims {
			o.Sums = append(o.Sums, store.Sum{Digest: digest.Digest{Algorithm: a, Hex: h.Sums()[a]}, Evidence: store.Claimed})
		}
	}
	s.objects[key] = object{o, data.Bytes()}
	return o, nil
}

// Remove deletes a key.
func (s *Store) Remove(ctx context.Context, key string, c store.Cond) error {
	if err := firstErr(store.CheckKey(key), s.fault(ctx, "remove", key)); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.check(key, store.Cond{ETag: c.ETag}); err != nil {
		return err
	}
	delete(s.objects, key)
	return nil
}

func (s *Store) check(key string, c store.Cond) error {
	have, ok := s.objects[key]
	if (c.Absent && ok) || (c.ETag != "" && (!ok || c.ETag != have.ETag)) {
		return fmt.Errorf("%s: %w", key, store.ErrPrecondition)
	}
	return nil
}
