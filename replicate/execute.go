package replicate

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"drkit/internal/errext"
	"drkit/internal/progress"
	"drkit/internal/store"
	"drkit/manifest"
	"drkit/manifest/region"
	"drkit/manifest/release"
	"drkit/verify"
)

// ExecuteInput is what a plan is carried out with.
type ExecuteInput struct {
	Manifest *manifest.Manifest
	Regions  []Region // those of the plan
	// Content returns a file's bytes from where the manifest was built. It is
	// asked only for what the source region's store lacks.
	Content  func(f manifest.File) (store.Body, error)
	Verify   verify.Options // how each copy is verified before it is published
	Workers  int            // files copied at once; 0: one a core
	Progress progress.Progress
	// Proven holds, by region, what an earlier verification read: it is not read
	// again, unless it changed since. Nil: nothing.
	Proven map[string]*verify.State
}

// Result says what was done, region by region in the plan's order. A region
// that was not begun is left out.
type Result struct {
	Service string         `json:"service"`
	Release string         `json:"release"`
	Regions []RegionResult `json:"regions"`
}

// RegionResult is what was done in one region.
type RegionResult struct {
	Region     string        `json:"region"`
	Copied     int           `json:"copied"`
	Bytes      int64         `json:"bytes"`
	Reused     int           `json:"reused"` // appeared since the plan was made, and proved right
	Deleted    int           `json:"deleted"`
	Verify     verify.Result `json:"-"`
	Verified   bool          `json:"verified"`                    // every file of the copy matches
	Published  bool          `json:"published"`                   // CURRENT names the release now
	Generation int64         `json:"generation"`                  // of CURRENT, when it does
	Replaced   bool          `json:"manifest_replaced,omitempty"` // its manifest.json had other annotations than the source's
	Error      string        `json:"error,omitempty"`
}

// Execute carries out a plan. It refuses one that crosses a border before any
// change. When the source region fails nothing else is begun; a target that
// fails does not stop the others. The error joins those of all regions.
func Execute(ctx context.Context, p Plan, in ExecuteInput) (Result, error) {
	res := Result{Service: p.Service, Release: p.Release}
	regions, err := in.match(p)
	if err == nil {
		err = p.Refusal()
	}
	if err != nil {
		return res, err
	}
	var errs []error
	for i, rp := range p.Regions {
		e := &execution{in: in, plan: rp, region: regions[i], prefix: release.Prefix(p.Service, p.Release)}
		if rp.Role != region.Source {
			e.source = regions[0].Store
		}
		err := e.run(ctx)
		if err != nil {
			err = fmt.Errorf("replicating to %s: %w", rp.Region, err)
			e.res.Error = err.Error()
			errs = append(errs, err)
		}
		res.Regions = append(res.Regions, e.res)
		if ctx.Err() != nil || (err != nil && rp.Role == region.Source) {
			break
		}
	}
	return res, errors.Join(errs...)
}

// match finds the plan's regions in the input, in the plan's order.
func (in ExecuteInput) match(p Plan) ([]Region, error) {
	if in.Manifest.Release != p.Release || in.Manifest.Service != p.Service || len(p.Regions) == 0 {
		return nil, fmt.Errorf("the plan is for release %.12s of %s, the manifest for %.12s of %s", p.Release, p.Service, in.Manifest.Release, in.Manifest.Service)
	}
	var all []Region
	for _, rp := range p.Regions {
		n := len(all)
		for _, r := range in.Regions {
			if r.Name == rp.Region {
				all = append(all, r)
			}
		}
		if len(all) != n+1 {
			return nil, fmt.Errorf("the plan's region %s was given %d times", rp.Region, len(all)-n)
		}
	}
	return all, nil
}

// execution is the work in one region.
type execution struct {
	in     ExecuteInput
	plan   RegionPlan
	region Region
	source store.Source // the source region's store; nil in the source region itself
	prefix string
	task   *progress.Task

	mu  sync.Mutex
	res RegionResult
}

func (e *execution) run(ctx context.Context) error {
	e.res.Region = e.region.Name
	if e.plan.blocked != nil {
		return e.plan.blocked
	}
	if err := e.copyAll(ctx); err != nil {
		return err
	}
	for _, key := range e.plan.Delete {
		if err := e.region.Store.Remove(ctx, key, store.Cond{}); err != nil {
			return err
		}
		e.res.Deleted++
	}
	if err := e.verify(ctx); err != nil {
		return err
	}
	return e.publish(ctx)
}

func (e *execution) copyAll(ctx context.Context) error {
	reasons := map[string]string{}
	var files []manifest.File
	for _, a := range e.plan.Copy {
		files = append(files, a.File)
		reasons[a.Subject] = a.Reason
	}
	e.task = progress.Start(e.in.Progress, "copy to "+e.region.Name, int64(len(files)), totalSize(files))
	defer e.task.Done()
	return eachFile(ctx, files, e.in.Workers, func(ctx context.Context, f manifest.File) error {
		return e.copy(ctx, f, reasons[f.Subject()] == string(verify.Missing))
	})
}

// copy writes one file. What was missing is written only if it is still, so that
// a run beside this one does not see its objects replaced.
func (e *execution) copy(ctx context.Context, f manifest.File, missing bool) error {
	body, err := e.body(f)
	if err != nil {
		return err
	}
	key := release.Key(e.prefix, f)
	err = e.put(ctx, key, body, store.Cond{Absent: missing})
	if missing && errors.Is(err, store.ErrPrecondition) {
		right, err := e.right(ctx, key, f)
		if err != nil {
			return err
		}
		if right {
			e.count(0, 0, 1)
			return nil
		}
		if err := e.put(ctx, key, body, store.Cond{}); err != nil {
			return e.explain(f, err)
		}
	} else if err != nil {
		return e.explain(f, err)
	}
	e.count(1, f.Size, 0)
	return nil
}

// put has the target copy the file itself where it can, and else reads and writes
// it. Either way the copy is verified with all others before it is published.
func (e *execution) put(ctx context.Context, key string, body store.Body, c store.Cond) error {
	if target, ok := e.region.Store.(store.Copier); ok && e.source != nil {
		_, err := target.CopyFrom(ctx, e.source, store.Object{Key: key}, key, body, c)
		if err == nil {
			e.task.Add(0, body.Size)
		}
		if !errors.Is(err, store.ErrNoCopy) {
			return err
		}
	}
	_, err := e.region.Store.Put(ctx, key, counting(body, e.task), c)
	return err
}

// right reports whether what is at key now is the file.
func (e *execution) right(ctx context.Context, key string, f manifest.File) (bool, error) {
	o, err := e.region.Store.Stat(ctx, key)
	if errors.Is(err, store.ErrNotFound) { // removed since, or the server takes its delete marker for an object
		return false, nil
	}
	if err != nil || o.Size != f.Size {
		return false, err
	}
	return holds(ctx, e.region.Store, o, f, e.task)
}

// body is the file's content as it should be, wherever it comes from.
func (e *execution) body(f manifest.File) (store.Body, error) {
	if e.source != nil {
		return store.ObjectBody(e.source, store.Object{Key: release.Key(e.prefix, f)}, f.Size, f.Sums), nil
	}
	if e.in.Content == nil {
		return store.Body{}, errext.WithHint(fmt.Errorf("%s is not in the source region's store, and its source is not at hand", f.Subject()),
			"run it where drkit.yaml and the files that it names are")
	}
	b, err := e.in.Content(f)
	b.Size, b.Sums = f.Size, f.Sums
	return b, err
}

func (e *execution) explain(f manifest.File, err error) error {
	err = fmt.Errorf("copying %s: %w", f.Subject(), err)
	if !errors.Is(err, store.ErrMismatch) {
		return err
	}
	hint := "the source region's copy changed or is damaged: run drkit verify, then drkit replicate again"
	if e.source == nil {
		hint = "the source changed since the manifest was built: build it again, or bring the file back"
	}
	return errext.WithHint(errext.WithStatus(err, errext.Gate), hint)
}

func (e *execution) count(copied int, bytes int64, reused int) {
	e.task.Add(1, 0)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.res.Copied += copied
	e.res.Bytes += bytes
	e.res.Reused += reused
}

func (e *execution) verify(ctx context.Context) error {
	opts := e.in.Verify
	if opts.Progress == nil {
		opts.Progress = e.in.Progress
	}
	opts.State = e.in.Proven[e.region.Name]
	r, err := verify.Release(ctx, e.in.Manifest, copyIn(e.in.Manifest, e.region), opts)
	if err != nil {
		return err
	}
	e.res.Verify, e.res.Verified = r, r.Holds()
	return errext.WithHint(r.Err(), "nothing was published; what was copied stays, and the same command goes on from there")
}
