package verify

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

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
	began := time.Now()
	want, got, err := listBoth(ctx, a, b)
	if err != nil {
		return Result{}, err
	}
	if want.absent {
		return Result{}, want.errs[0]
	}
	r := newRun(got, o)
	r.began = began
	if err := r.all(ctx, "verify", pairs(want, got), hiddenIn(ctx, want)); err != nil {
		return Result{}, err
	}
	r.errs = append(r.errs, want.errs...)
	if err := r.settle(ctx, want, got); err != nil {
		return Result{}, err
	}
	return r.result(Result{Region: b.Region, Source: a.Region}, want, got), nil
}

// listBoth lists two places at once.
func listBoth(ctx context.Context, a, b Copy) (want, got *place, err error) {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		want, err = list(ctx, a)
		return err
	})
	g.Go(func() (err error) {
		got, err = list(ctx, b)
		return err
	})
	err = g.Wait() // before want and got are looked at
	return want, got, err
}

// hiddenIn tells which keys p may hold although its listing does not show them:
// they are not called extra on the other side.
func hiddenIn(ctx context.Context, p *place) func(below string) bool {
	nothing := p.partial && len(p.objects) == 0 // then any key may be hidden, and asking for each is of no use
	return func(below string) bool {
		if nothing {
			return true
		}
		_, err := p.find(ctx, below)
		return !errors.Is(err, store.ErrNotFound)
	}
}

// marksFolder reports whether an object only marks a folder in a bucket.
func marksFolder(below string, o store.Object) bool {
	return strings.HasSuffix(below, "/") && o.Size == 0
}

// pairs makes a subject of each object in want.
func pairs(want, got *place) []subject {
	all := make([]subject, 0, len(want.objects))
	for below, object := range want.objects {
		if there := got.objects[below]; marksFolder(below, object) && there.Size == 0 {
			continue // an object of that key with content is compared with it: it is no mark
		}
		id := identityOf(want.Store, object)
		mark := fmt.Sprintf("%s %s %d", id.Version, id.ETag, id.ModTime.UnixNano())
		all = append(all, subject{name: below, below: below, size: object.Size, mark: mark, want: id, judge: func(ctx context.Context, g Gap, o2 store.Object, o Options) (Gap, error) {
			return judge(ctx, g, placed(want, want.objects[below]), placed(got, o2), o)
		}})
	}
	return all
}
