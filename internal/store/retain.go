package store

import (
	"context"
	"errors"
	"iter"
	"time"
)

// ErrNoRetention says that a place holds nothing back from deletion, or does not
// let itself be asked.
var ErrNoRetention = errors.New("the store has no object lock")

// Retainer is an ability of a place, found by type assertion: to hold an object so
// that nobody may delete or overwrite it before a date (S3 Object Lock).
type Retainer interface {
	// PutRetained is Put of a version that is held until then; ErrNoRetention where
	// the place cannot.
	PutRetained(ctx context.Context, key string, b Body, c Cond, until time.Time) (Object, error)
	// Retained yields each version beneath the prefix that is held now, those too
	// that a later deletion hides from List. Open reads them by their Version.
	Retained(ctx context.Context, prefix string) iter.Seq2[Object, error]
}
