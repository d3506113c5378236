package mem

import (
	"context"
	"fmt"

	"drkit/internal/store"
)

// Copying is a Store that is a store.Copier, too: it copies objects of any
// store in memory, as a bucket copies those of another behind one endpoint.
type Copying struct{ *Store }

// CopyFrom copies bytes, and compares them, without reading them through Open.
func (c Copying) CopyFrom(ctx context.Context, from store.Source, o store.Object, key string, b store.Body, cond store.Cond) (store.Object, error) {
	var source *Store
	switch s := store.Innermost(from).(type) {
	case *Store:
		source = s
	case Copying:
		source = s.Store
	default:
		return store.Object{}, store.ErrNoCopy
	}
	if err := c.fault(ctx, "copy", key); err != nil {
		return store.Object{}, err
	}
	source.mu.Lock()
	have, ok := source.objects[o.Key]
	source.mu.Unlock()
	if !ok {
		return store.Object{}, fmt.Errorf("%s: %w", o.Key, store.ErrNotFound)
	}
	b.Open = store.BytesBody(have.data).Open
	return c.Put(ctx, key, b, cond)
}
