package verify

import (
	"context"
	"errors"
	"strings"

	"drkit/internal/errext"
	"drkit/internal/store"
)

// Pair compares two places without a release: everything beneath b's prefix with
// everything beneath a's. What is only in a is Missing, what is only in b is
// Extra. drkit's own records (.drkit/ in the root) are left out.
func Pair(ctx context.Context, a, b Copy, opts Options) (Result, error) {
	o, err := opts.complete()
	if err != nil {
		return Result{}, err
	}
	if store.SamePlace(a.Store, b.Store) && a.Prefix == b.Prefix {
		return Result{}, errext.WithStatus(errors.New("the two places are one and the same: comparing it with itself proves nothing"), errext.Usage)
	}
	want, err := list(ctx, a)
	if err != nil {
		return Result{}, err
	}
	if want.absent {
		return Result{}, want.errs[0]
	}
	got, err := list(ctx, b)
	if err != nil {
		return Result{}, err
	}
	r := &run{p: got, opts: o}
	if err := r.all(ctx, "verify", pairs(want, got, o), hiddenIn(ctx, want)); err != nil {
		return Result{}, err
	}
	r.errs = append(r.errs, want.errs...)
	if err := r.settle(ctx, want, got); err != nil {
		return Result{}, err
	}
	return r.result(Result{Region: b.Region}, want, got), nil
}

// hiddenIn tells which keys p may hold although its listing does not show them:
// they are not called extra on the other side.
func hiddenIn(ctx context.Context, p *place) func(below string) bool {
	return func(below string) bool {
		_, err := p.find(ctx, below)
		return !errors.Is(err, store.ErrNotFound)
	}
}

// pairs makes a subject of each object in want.
func pairs(want, got *place, o Options) []subject {
	var all []subject
	for below, object := range want.objects {
		if strings.HasSuffix(below, "/") && object.Size == 0 {
			continue // marks a folder in a bucket
		}
		all = append(all, subject{name: below, below: below, size: object.Size, judge: func(ctx context.Context, g Gap, o2 store.Object) (Gap, error) {
			return judge(ctx, g, placed(want, object), placed(got, o2), o)
		}})
	}
	return all
}
