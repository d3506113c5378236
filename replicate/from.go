package replicate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/manifest"
	"drkit/manifest/release"
	"drkit/verify"
)

// SurveyFrom is Survey with the results of an earlier verification in place of a
// new one. It lists each copy and refuses a result that is of another release or
// region, of one shard only, or that was found on objects that have changed since.
// A region without a result is verified. The states it returns, by region, hold
// what the results prove by content, for ExecuteInput.Proven.
func SurveyFrom(ctx context.Context, m *manifest.Manifest, regions []Region, results []verify.Result, opts verify.Options) ([]Found, map[string]*verify.State, error) {
	if err := errors.Join(distinct(regions), suitable(m, regions, results)); err != nil {
		return nil, nil, err
	}
	var all []Found
	states := map[string]*verify.State{}
	for _, r := range regions {
		i := slices.IndexFunc(results, func(v verify.Result) bool { return v.Region == r.Name })
		if i < 0 {
			found, err := Survey(ctx, m, []Region{r}, opts)
			if err != nil {
				return nil, nil, err
			}
			all = append(all, found...)
			continue
		}
		if err := verify.Unchanged(ctx, copyIn(m, r), results[i]); err != nil {
			return nil, nil, err
		}
		f := Found{Region: r.Name, Role: r.Role, Copy: results[i]}
		var err error
		f.Current, err = release.ReadCurrent(ctx, r.State, r.Name, m.Service)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			f.Err = err
		}
		all = append(all, f)
		states[r.Name] = verify.NewState(verify.StateKey{Release: m.Release, Region: r.Name, Level: opts.Level, Require: opts.Require})
		states[r.Name].Take(results[i], time.Now())
	}
	return all, states, nil
}

// suitable says why results cannot be used for these regions.
func suitable(m *manifest.Manifest, regions []Region, results []verify.Result) error {
	seen := map[string]bool{}
	for _, r := range results {
		var err error
		switch {
		case r.Release == "":
			err = errors.New("it compares two places, not a release with its copies")
		case r.Service != m.Service:
			err = fmt.Errorf("it is of service %s, not %s", r.Service, m.Service)
		case r.Release != m.Release:
			err = fmt.Errorf("it is of release %.12s, and %.12s is to be replicated", r.Release, m.Release)
		case !r.Shard.IsZero():
			err = fmt.Errorf("it is shard %s alone", r.Shard)
		case !slices.ContainsFunc(regions, func(o Region) bool { return o.Name == r.Region }):
			err = fmt.Errorf("the service has no region %q", r.Region)
		case seen[r.Region]:
			err = fmt.Errorf("it names the region %s twice", r.Region)
		}
		if err != nil {
			return errext.WithHint(errext.WithStatus(fmt.Errorf("this result of a verification cannot be used: %w", err), errext.Refused),
				"verify the release that is to be replicated, merge its shards, and give that result")
		}
		seen[r.Region] = true
	}
	if len(results) == 0 {
		return errext.WithStatus(errors.New("there is no result of a verification"), errext.Usage)
	}
	return nil
}
