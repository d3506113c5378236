package step_test

import (
	"context"
	"os"
	"path/filepath"

	"drkit/internal/store"
	"drkit/internal/store/mem"
)

// quickDir is a folder that is written without waiting for the disk. What is
// checked on the way in is what any store checks.
type quickDir struct {
	*mem.Store
	path string
}

func (d quickDir) Put(ctx context.Context, key string, b store.Body, c store.Cond) (store.Object, error) {
	o, err := d.Store.Put(ctx, key, b, c)
	if err != nil {
		return o, err
	}
	path := filepath.Join(d.path, key)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return o, err
	}
	return o, os.WriteFile(path, []byte(d.Content()[key]), 0o644)
}
