// Package store says what drkit asks of a place that holds files: a directory,
// a bucket, a model hub. Adapters live in the packages below it and pass the
// suite in storetest; domain code knows only these interfaces.
//
// A zero value in an Object means "not said". What a store says of a checksum
// carries the evidence it rests on, from a claim stored at upload to bytes that
// drkit hashed itself.
package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"drkit/manifest/digest"
)

// Evidence says what a statement about a file's bytes rests on. Greater is stronger.
type Evidence int

// The levels of evidence, weakest first.
const (
	None       Evidence = iota // nothing was compared
	Size                       // only the size was compared
	Claimed                    // a checksum stored at upload
	Recomputed                 // the store hashed the bytes at rest
	Content                    // drkit hashed the bytes
)

var evidenceNames = [...]string{"none", "size", "claimed", "recomputed", "content"}

// String is the name used in flags and reports.
func (e Evidence) String() string {
	if e < None || e > Content {
		return fmt.Sprintf("evidence(%d)", int(e))
	}
	return evidenceNames[e]
}

// ParseEvidence reads a name that String wrote.
func ParseEvidence(name string) (Evidence, error) {
	for i, n := range evidenceNames {
		if n == name {
			return Evidence(i), nil
		}
	}
	return None, fmt.Errorf("unknown evidence %q: want none, size, claimed, recomputed or content", name)
}

// MarshalText makes Evidence a JSON string.
func (e Evidence) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (e *Evidence) UnmarshalText(text []byte) (err error) {
	*e, err = ParseEvidence(string(text))
	return err
}

// Object is what a place says of a file.
type Object struct {
	Key, Version, ETag, Encryption, Replication string
	Size                                        int64
	ModTime                                     time.Time
	Sums                                        []Sum
	Parts                                       []Piece
}

// Piece is one part of a multipart object.
type Piece struct {
	Size int64
	Sums digest.Set
}

// Sum is a checksum and what it rests on.
type Sum struct {
	digest.Digest
	Parts        int      // 0: of the full object; N: composite of N parts
	Evidence     Evidence // Content, Recomputed or Claimed
	EqualityOnly bool     // equal proves; unequal proves nothing (an ETag from a list)
}

// Source is a place to read from. Keys use slashes; List yields them sorted by
// key (byte order), all beneath the prefix (a plain string prefix).
type Source interface {
	// List goes on after an error that concerns one key or folder (a *LinkError,
	// a *KeyError): a reader that needs the whole must collect them. An
	// error after which nothing follows may hide any number of keys. A place that
	// does not exist at all is ErrNotFound; one without such keys yields nothing.
	List(ctx context.Context, prefix string) iter.Seq2[Object, error]
	// Open reads n bytes from off of exactly o.Version; n < 0 reads to the end.
	// A range that begins beyond the end is an error or empty.
	Open(ctx context.Context, o Object, off, n int64) (io.ReadCloser, error)
}

// Stater asks a place about one key; a key that is not there is ErrNotFound.
type Stater interface {
	Stat(ctx context.Context, key string) (Object, error)
}

// Glancer is implemented by places whose Stat reads content, as a directory's does
// for an ETag: Glance describes a key without, by size and time of modification.
type Glancer interface {
	Glance(ctx context.Context, key string) (Object, error)
}

// Cond makes a Put conditional: Absent asks that the key does not exist, ETag
// that it has exactly this ETag. An unmet condition is ErrPrecondition.
type Cond struct {
	Absent bool
	ETag   string
}

// Body is what a Put writes. Open may be called more than once. Sums holds the
// expected digests: a Put of other bytes must fail and leave the key as it was.
type Body struct {
	Size int64
	Sums digest.Set
	Open func(ctx context.Context, off, n int64) (io.ReadCloser, error)
}

// Sink is a place to write to. After Put the object is there whole and checked,
// or the key is as it was before.
type Sink interface {
	Put(ctx context.Context, key string, b Body, c Cond) (Object, error)
}

// Remover deletes a key; a key that is not there is no error. A non-empty
// Cond.ETag makes it conditional, as in Put.
type Remover interface {
	Remove(ctx context.Context, key string, c Cond) error
}

// ReadWriter is a place that replication and locks work on.
type ReadWriter interface {
	Source
	Stater
	Sink
	Remover
}

// Errors that callers branch on.
var (
	ErrNotFound        = errors.New("no such object")
	ErrPrecondition    = errors.New("precondition not met: the object was changed or created by someone else")
	ErrUnrepresentable = errors.New("key cannot be represented in this store")
	ErrMismatch        = errors.New("content does not match the expected checksum")
)

// LinkError says that one key is a symbolic link that leads nowhere. List yields
// it in place of an object and goes on with the next key when the caller does,
// so that the rest of the folder can still be judged.
type LinkError struct {
	Key    string
	Target string // as the link says it
	Loop   bool   // the link leads back to itself; else its target does not exist
}

func (e *LinkError) Error() string {
	if e.Loop {
		return fmt.Sprintf("%s: the symbolic link to %s leads back to itself", e.Key, e.Target)
	}
	return fmt.Sprintf("%s: the symbolic link points to %s, which does not exist", e.Key, e.Target)
}
