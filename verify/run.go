package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"drkit/internal/progress"
	"drkit/internal/store"
)

// subject is one unit of work: an object and what it should be, to which judge
// gives the gap. Units know nothing of each other, so they can be judged in any
// order, by many processes, and again.
type subject struct {
	name  string // in gaps
	below string // its key without the prefix
	size  int64  // of what will be read, for the order and progress
	mark  string // what it should be, for telling two lists of subjects apart
	want  Identity
	whole bool // judged by reading it whole at every level
	judge func(ctx context.Context, g Gap, got store.Object, o Options) (Gap, error)
}

// run judges subjects against a copy and collects what is said of them.
type run struct {
	p     *place
	opts  Options
	began time.Time

	chosen  map[string]bool // the sample
	sampled *Sampled
	total   int    // subjects of all shards
	mine    int    // of this one
	digest  string // of all subjects

	mu      sync.Mutex
	gaps    []Gap
	errs    []ObjectError
	judged  int
	failed  []error  // those that judging gave
	lost    []string // the subjects that got no verdict
	unasked int
	resumed Resumed
}

func newRun(p *place, o Options) *run { return &run{p: p, opts: o, began: time.Now()} }

// all judges every subject of the shard, the largest first, and then what nobody
// expects.
func (r *run) all(ctx context.Context, name string, subjects []subject, ignore func(below string) bool) error {
	r.errs = slices.Clone(r.p.errs)
	r.total, r.digest = len(subjects), expected(subjects)
	if !r.opts.Sample.IsZero() {
		chosen, done := r.opts.Sample.draw(subjects)
		r.chosen, r.sampled = chosen, &done
	}
	mine := r.opts.Shard.split(subjects)
	r.mine, r.gaps = len(mine), make([]Gap, 0, len(mine))
	slices.SortStableFunc(mine, func(a, b subject) int { return cmp.Compare(b.size, a.size) })
	r.p.task = r.task(name, mine)
	defer r.p.task.Done()
	err := each(ctx, len(mine), r.opts.flights, func(ctx context.Context, i int) error { return r.one(ctx, mine[i]) })
	if err != nil {
		return err
	}
	r.leftOut()
	r.extras(subjects, ignore)
	return nil
}

// each calls f for the numbers below n in their order, as many at once as flights.
// The goroutines stay: one for each object would grow its stack anew for every
// request.
func each(ctx context.Context, n, flights int, f func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	var taken atomic.Int64
	for range min(flights, n) {
		g.Go(func() error {
			for i := int(taken.Add(1)); i <= n; i = int(taken.Add(1)) {
				if err := f(ctx, i-1); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

func (r *run) task(name string, subjects []subject) *progress.Task {
	var bytes int64
	for _, s := range subjects {
		if r.options(s).Level == ByContent || r.p.claimless() {
			bytes += s.size
		}
	}
	return progress.Start(r.opts.Progress, name, int64(len(subjects)), bytes)
}

// options are those of one subject: what the sample chose is read.
func (r *run) options(s subject) Options {
	o := r.opts
	if r.chosen[s.name] {
		o.Level = ByContent
	}
	return o
}

// one judges a subject. It fails only when the whole was cancelled.
func (r *run) one(ctx context.Context, s subject) error {
	if r.hopeless() {
		return nil
	}
	gap, err := r.look(ctx, s)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r.p.task.Add(1, 0)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.judged++
		r.gaps = append(r.gaps, gap)
		return nil
	}
	r.failed, r.lost = append(r.failed, err), append(r.lost, s.name)
	if !slices.ContainsFunc(r.p.errs, func(e ObjectError) bool { return e.Key == gap.Key }) {
		r.errs = append(r.errs, ObjectError{Subject: s.name, Key: gap.Key, Err: err})
	}
	return nil
}

// giveUp is how many objects are asked for by name in a place that could not be
// listed and gave none of them, before the rest is not asked for.
const giveUp = 16

// hopeless reports whether a place answers nothing at all, and counts the subject
// that is then not asked for.
func (r *run) hopeless() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.p.partial || len(r.p.objects) > 0 || r.judged > 0 || len(r.failed) < giveUp && !r.p.unreachable() {
		return false
	}
	r.unasked++
	return true
}

// unreachable reports whether the listing says that nothing can be asked there.
func (p *place) unreachable() bool {
	return slices.ContainsFunc(p.errs, func(e ObjectError) bool { return errors.Is(e.Err, store.ErrUnreachable) })
}

// leftOut says once what hopeless left out.
func (r *run) leftOut() {
	if r.unasked == 0 || len(r.failed) == 0 {
		return // the listing's error says it all
	}
	last := r.failed[len(r.failed)-1]
	err := fmt.Errorf("%d further objects were not asked for: the place could not be listed, and none of %d objects could be read, the last because of: %w", r.unasked, len(r.failed), last)
	r.errs = append(r.errs, ObjectError{Err: err})
}

func (r *run) look(ctx context.Context, s subject) (Gap, error) {
	gap := Gap{Region: r.p.Region, Subject: s.name, Key: r.p.Prefix + s.below}
	o, err := r.p.find(ctx, s.below)
	if errors.Is(err, store.ErrNotFound) {
		gap.Verdict, gap.WantSize = Missing, s.size
		gap.Why = "it is not there"
		if r.p.absent {
			gap.Why = "it is not there: the place itself does not exist"
		}
		return gap, nil
	}
	if err != nil {
		return gap, err
	}
	gap.Key, gap.Seen = o.Key, identityOf(r.p.Store, o) // the listing's own string: there is one a file
	if r.reuse(&gap, s) {
		return gap, nil
	}
	began := time.Now()
	gap, err = s.judge(ctx, gap, o, r.options(s))
	if err == nil && gap.Verdict == Match {
		r.remember(gap, s, o, began)
	}
	return gap, err
}

// reuse takes over what an interrupted verification had proven.
func (r *run) reuse(g *Gap, s subject) bool {
	least := r.opts.Require
	if r.options(s).Level == ByContent {
		least = store.Content
	}
	p, ok := r.opts.State.known(s.name, s.want, g.Seen, least)
	if !ok || s.whole {
		return false
	}
	g.Verdict, g.Evidence, g.WantSize, g.GotSize, g.Proven = Match, p.Evidence, p.WantSize, g.Seen.Size, p.At
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resumed.Objects++
	if r.resumed.Since.IsZero() || p.At.Before(r.resumed.Since) {
		r.resumed.Since = p.At
	}
	return true
}

// remember records a match. A file that was written to just before it was read
// could be written to again without a trace.
func (r *run) remember(g Gap, s subject, o store.Object, began time.Time) {
	if r.opts.State == nil || s.whole || g.Evidence < store.Content && slices.ContainsFunc(o.Sums, func(s store.Sum) bool { return s.Parts == 0 }) {
		return // what a listing proves, the next one proves again
	}
	if f, ok := r.p.Store.(store.Identified); ok {
		if _, changed := f.Identity(o); changed.After(began.Add(-racy)) {
			return
		}
	}
	r.opts.State.prove(Proof{Subject: s.name, Want: s.want, Got: g.Seen, WantSize: g.WantSize, Evidence: g.Evidence, At: began.UTC()})
}

// extras adds a gap for each listed key that no subject stands for.
func (r *run) extras(subjects []subject, ignore func(below string) bool) {
	known := map[string]bool{}
	for _, s := range subjects {
		known[s.below] = true
	}
	for below, o := range r.p.objects {
		if known[below] || !r.opts.Shard.extra(below) || ignore(below) {
			continue
		}
		why := "it is not part of what was compared"
		if strings.HasPrefix(below, "model/") {
			why = "the release does not list it, and an extra file beside the model can change answers"
		}
		r.gaps = append(r.gaps, Gap{Region: r.p.Region, Subject: below, Key: o.Key, Verdict: Extra, GotSize: o.Size, Why: why, Seen: identityOf(r.p.Store, o)})
	}
}

// result takes back the verdicts on what changed meanwhile, and sorts.
func (r *run) result(base Result, places ...*place) Result {
	moved := map[string]bool{}
	for _, e := range r.errs {
		if errors.Is(e.Err, errChanged) {
			moved[e.Subject] = true
		}
	}
	base.Level, base.Require, base.Errors = r.opts.Level, r.opts.Require, r.errs
	base.Shard, base.Sample, base.Resumed = r.opts.Shard, r.sampled, r.resumed
	base.Subjects, base.Total, base.Unasked, base.Expected, base.Listing = r.mine, r.total, r.unasked, r.digest, listings(places...)
	base.Began, base.Ended = r.began.UTC(), time.Now().UTC()
	base.Failed = r.lost
	base.Gaps = slices.DeleteFunc(r.gaps, func(g Gap) bool {
		if moved[g.Subject] && g.Verdict != Extra {
			base.Failed = append(base.Failed, g.Subject)
		}
		return moved[g.Subject]
	})
	slices.Sort(base.Failed)
	for _, p := range places {
		base.BytesRead += p.read.Load()
	}
	base.arrange()
	return base
}

// arrange counts and sorts.
func (r *Result) arrange() {
	r.Compared = 0
	for _, g := range r.Gaps {
		if g.Verdict != Extra {
			r.Compared++
		}
	}
	slices.SortFunc(r.Gaps, func(a, b Gap) int { return cmp.Compare(a.Subject, b.Subject) })
	slices.SortFunc(r.Errors, func(a, b ObjectError) int {
		return cmp.Or(cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.Error(), b.Error()))
	})
}

// A verification that took no longer than moment, of a place with more objects than
// one request lists, is not listed again: that would take as long as the verification itself,
// and say no more than that nothing changed within a moment.
const moment = 2 * time.Second

// settle adds an error for each object that changed since the places were
// listed, with one more listing of each, and for each that the listing does not
// show as it is. At level presence the listing is all there is to say.
func (r *run) settle(ctx context.Context, places ...*place) error {
	if r.opts.Level == Presence {
		return nil
	}
	brief := time.Since(r.began) < moment && !r.opts.relist
	found := make([][]ObjectError, len(places))
	g, ctx := errgroup.WithContext(ctx)
	for i, p := range places {
		g.Go(func() (err error) {
			if !brief || len(p.objects) <= keysPerPage {
				if found[i], err = p.settle(ctx); err != nil {
					return err
				}
			}
			asked, err := r.spotCheck(ctx, p)
			found[i] = append(found[i], asked...)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	known := map[string]bool{}
	for _, e := range r.errs {
		if errors.Is(e.Err, errChanged) {
			known[e.Key] = true
		}
	}
	for _, e := range slices.Concat(found...) {
		if !known[e.Key] {
			r.errs = append(r.errs, e)
			known[e.Key] = e.Key != ""
		}
	}
	return nil
}
