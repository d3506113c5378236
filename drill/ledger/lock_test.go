package ledger

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/internal/store/mem"
)

const lockKey = "eu-west-1/support-chat/LOCK"

func holder(run string) Holder {
	now := time.Now().UTC()
	return Holder{Run: run, By: "kim@laptop", Since: now, Expires: now.Add(time.Hour)}
}

func TestLockKeepsTwoRunsApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ctx := mem.New(), t.Context()
		if err := Lock(ctx, s, lockKey, holder("RUN1")); err != nil {
			t.Fatal(err)
		}
		err := Lock(ctx, s, lockKey, holder("RUN2"))
		if !errors.Is(err, ErrHeld) || errext.StatusOf(err) != errext.Refused {
			t.Fatalf("got %v", err)
		}
		for _, text := range []string{"run RUN1 holds it since 2000-01-01T00:00:00Z", lockKey} {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%q does not say %q", err, text)
			}
		}
		if !strings.Contains(errext.Hint(err), "drkit drill abort RUN1") || strings.Contains(err.Error(), "should have ended") {
			t.Errorf("%v; hint %q", err, errext.Hint(err))
		}
		time.Sleep(2 * time.Hour)
		if err := Lock(ctx, s, lockKey, holder("RUN2")); !errors.Is(err, ErrHeld) || !strings.Contains(err.Error(), "should have ended by 2000-01-01T01:00:00Z") {
			t.Errorf("an overdue lock: %v", err)
		}
		if err := Unlock(ctx, s, lockKey, "RUN2"); err != nil {
			t.Errorf("another run's lock is no failure: %v", err)
		}
		if _, _, err := readLock(ctx, s, lockKey); err != nil {
			t.Errorf("RUN2 took RUN1's lock away: %v", err)
		}
		for range 2 {
			u, err := LockArgs{Store: "file:///state", Key: lockKey, Run: "RUN1"}.Undo()
			if err != nil || u.Kind != UndoLock {
				t.Fatal(u, err)
			}
			if err := ReleaseUndo(func(_ context.Context, url string) (store.ReadWriter, error) {
				if url != "file:///state" {
					t.Errorf("asked for %s", url)
				}
				return s, nil
			})(ctx, u.Args); err != nil {
				t.Error(err)
			}
		}
		if err := Lock(ctx, s, lockKey, holder("RUN2")); err != nil {
			t.Errorf("after the release: %v", err)
		}
		if err := Lock(ctx, s, lockKey, holder("RUN2")); err != nil {
			t.Errorf("a run may take its own lock again: %v", err)
		}
	})
}

// careless is a store that forgets conditions.
type careless struct{ *mem.Store }

func (c careless) Put(ctx context.Context, key string, b store.Body, _ store.Cond) (store.Object, error) {
	return c.Store.Put(ctx, key, b, store.Cond{})
}

// sticky is a store that says yes to a removal and keeps the object.
type sticky struct{ *mem.Store }

func (sticky) Remove(context.Context, string, store.Cond) error { return nil }

func TestLockProvesItself(t *testing.T) {
	err := Lock(t.Context(), careless{mem.New()}, lockKey, holder("RUN1"))
	if err == nil || errext.StatusOf(err) != errext.Refused || !strings.Contains(err.Error(), "counts for nothing") {
		t.Errorf("a store without conditions: %v", err)
	}
	s := sticky{mem.New()}
	if err := Lock(t.Context(), s, lockKey, holder("RUN1")); err != nil {
		t.Fatal(err)
	}
	if err := Unlock(t.Context(), s, lockKey, "RUN1"); err == nil || !strings.Contains(err.Error(), "still there") {
		t.Errorf("a lock that stays: %v", err)
	}
}

func TestLockOnATroubledStore(t *testing.T) {
	s := mem.New().Fill(map[string]string{lockKey: "hello"})
	err := Lock(t.Context(), s, lockKey, holder("RUN1"))
	if !errors.Is(err, ErrHeld) || errext.StatusOf(err) != errext.Refused {
		t.Errorf("a lock that is none: %v", err)
	}
	if err := Unlock(t.Context(), s, lockKey, "RUN1"); err == nil {
		t.Error("something that is no lock was taken for released")
	}
	down := errors.New("connection refused")
	for _, op := range []string{"put", "stat", "open", "remove"} {
		s := mem.New()
		if op == "remove" {
			if err := Lock(t.Context(), s, lockKey, holder("RUN1")); err != nil {
				t.Fatal(err)
			}
		}
		s.Fault = func(o, _ string) error {
			if o == op {
				return down
			}
			return nil
		}
		err := Lock(t.Context(), s, lockKey, holder("RUN1"))
		if op == "remove" {
			err = Unlock(t.Context(), s, lockKey, "RUN1")
		}
		if !errors.Is(err, down) {
			t.Errorf("%s: %v", op, err)
		}
	}
}
