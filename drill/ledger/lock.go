package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"drkit/drill"
	"drkit/internal/errext"
	"drkit/internal/store"
)

// Holder is what a lock says of the run that holds it.
type Holder struct {
	Run     string    `json:"run"`
	By      string    `json:"by"` // user@host, for the person who finds it
	Since   time.Time `json:"since"`
	Expires time.Time `json:"expires"` // after it, the run is overdue; nothing takes the lock by itself
}

// ErrHeld says that another run holds the lock.
var ErrHeld = errors.New("the target is locked")

// UndoLock is the kind of the undo that gives a lock back.
const UndoLock = "lock.release"

// LockArgs are the arguments of that undo.
type LockArgs struct {
	Store string `json:"store"` // URL or path, as the command line opens it
	Key   string `json:"key"`
	Run   string `json:"run"`
}

// Undo is the undo of a lock as data.
func (a LockArgs) Undo() (drill.Undo, error) {
	raw, err := json.Marshal(a)
	return drill.Undo{Kind: UndoLock, Args: raw}, err
}

// ReleaseUndo is the UndoFunc of kind UndoLock; open gives the store of a URL.
func ReleaseUndo(open func(ctx context.Context, url string) (store.ReadWriter, error)) drill.UndoFunc {
	return func(ctx context.Context, raw []byte) error {
		var a LockArgs
		if err := json.Unmarshal(raw, &a); err != nil {
			return fmt.Errorf("arguments of %s: %w", UndoLock, err)
		}
		s, err := open(ctx, a.Store)
		if err != nil {
			return fmt.Errorf("opening %s to release its lock: %w", a.Store, err)
		}
		return Unlock(ctx, s, a.Key, a.Run)
	}
}

// Lock takes the lock at key for a run by a conditional write. It counts only
// after a second such write was seen refused: a store that overwrites in spite of
// the condition locks nothing. After expiry the run is overdue; nothing takes the
// lock away by itself, for an overdue run may still be changing things. The caller
// takes it inside a Change whose undo is LockArgs.Undo.
func Lock(ctx context.Context, s store.ReadWriter, key string, holder Holder) error {
	body, err := lockBody(holder)
	if err != nil {
		return err
	}
	_, err = s.Put(ctx, key, body, store.Cond{Absent: true})
	if errors.Is(err, store.ErrPrecondition) {
		return held(ctx, s, key, holder)
	}
	if err != nil {
		return fmt.Errorf("taking the lock %s: %w", key, err)
	}
	_, err = s.Put(ctx, key, body, store.Cond{Absent: true})
	switch {
	case err == nil:
		return errext.WithHint(errext.WithStatus(fmt.Errorf("the lock %s counts for nothing: the store wrote it twice although it had to be absent", key), errext.Refused),
			"use a store that honours conditional writes for the target's state")
	case !errors.Is(err, store.ErrPrecondition):
		return fmt.Errorf("proving the lock %s: %w", key, err)
	}
	return mine(ctx, s, key, holder)
}

func lockBody(h Holder) (store.Body, error) {
	raw, err := json.MarshalIndent(h, "", "  ")
	return store.BytesBody(append(raw, '\n')), err
}

// mine reads the lock back: what is written there is what counts.
func mine(ctx context.Context, s store.ReadWriter, key string, want Holder) error {
	got, _, err := readLock(ctx, s, key)
	if err != nil {
		return fmt.Errorf("proving the lock %s: %w", key, err)
	}
	if got.Run != want.Run {
		return heldBy(key, got)
	}
	return nil
}

// held says who holds the lock. A lock of the same run is no obstacle: the write
// reached the store although its answer did not reach us.
func held(ctx context.Context, s store.ReadWriter, key string, want Holder) error {
	got, _, err := readLock(ctx, s, key)
	if err != nil {
		return errext.WithStatus(fmt.Errorf("%w (%s), and the lock cannot be read: %w", ErrHeld, key, err), errext.Refused)
	}
	if got.Run == want.Run {
		return nil
	}
	return heldBy(key, got)
}

func heldBy(key string, h Holder) error {
	err := fmt.Errorf("%w (%s): run %s holds it since %s, taken by %s", ErrHeld, key, h.Run, h.Since.UTC().Format(time.RFC3339), h.By)
	hint := "wait for that run; if it is held or its process is gone, run `drkit drill resume " + h.Run + "` or `drkit drill abort " + h.Run + "` where it ran"
	if !h.Expires.IsZero() && time.Now().After(h.Expires) {
		err = fmt.Errorf("%w; it should have ended by %s", err, h.Expires.UTC().Format(time.RFC3339))
		hint = "run `drkit drill abort " + h.Run + "` where it ran: that undoes what the run changed and gives the lock back"
	}
	return errext.WithHint(errext.WithStatus(err, errext.Refused), hint)
}

// HolderOf is who holds the lock at key; store.ErrNotFound when nobody does.
func HolderOf(ctx context.Context, s store.ReadWriter, key string) (Holder, error) {
	h, _, err := readLock(ctx, s, key)
	return h, err
}

// readLock returns who holds the lock; store.ErrNotFound when nobody does.
func readLock(ctx context.Context, s store.ReadWriter, key string) (Holder, store.Object, error) {
	o, err := s.Stat(ctx, key)
	if err != nil {
		return Holder{}, o, err
	}
	f, err := s.Open(ctx, o, 0, -1)
	if err != nil {
		return Holder{}, o, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, 64<<10))
	if err != nil {
		return Holder{}, o, err
	}
	var h Holder
	if err := json.Unmarshal(raw, &h); err != nil || h.Run == "" {
		return h, o, fmt.Errorf("%s is no lock of drkit's", key)
	}
	return h, o, nil
}

// Unlock gives the lock of a run back and proves that it is gone. It is
// idempotent, and leaves the lock of another run alone.
func Unlock(ctx context.Context, s store.ReadWriter, key, run string) error {
	h, o, err := readLock(ctx, s, key)
	if errors.Is(err, store.ErrNotFound) || err == nil && h.Run != run {
		return nil
	}
	if err != nil {
		return fmt.Errorf("releasing the lock %s: %w", key, err)
	}
	if err := s.Remove(ctx, key, store.Cond{ETag: o.ETag}); err != nil && !errors.Is(err, store.ErrPrecondition) {
		return fmt.Errorf("releasing the lock %s: %w", key, err)
	}
	h, _, err = readLock(ctx, s, key)
	if errors.Is(err, store.ErrNotFound) || err == nil && h.Run != run {
		return nil
	}
	if err != nil {
		return fmt.Errorf("proving that the lock %s is gone: %w", key, err)
	}
	return fmt.Errorf("the lock %s is still there after its removal", key)
}
