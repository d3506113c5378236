package verify

import (
	"context"
	"errors"
	"fmt"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/manifest"
	"drkit/manifest/digest"
	"drkit/manifest/release"
)

// Release compares a copy with the release that m describes. Every region's copy
// holds all files of the release, those of other regions too, so that any region
// can be rebuilt from any other; and, unless the copy is bare, the release's
// manifest, without which nobody could recover from that region alone. Any other
// key beneath the copy's prefix is Extra.
//
// The error is that of a cancelled ctx, of unusable options or of a manifest
// that is none; whatever concerns the copy stands in the Result.
func Release(ctx context.Context, m *manifest.Manifest, c Copy, opts Options) (Result, error) {
	o, err := opts.complete()
	if err != nil {
		return Result{}, err
	}
	p, err := list(ctx, c)
	if err != nil {
		return Result{}, err
	}
	subjects, err := filesOf(m, p, o)
	if err != nil {
		return Result{}, err
	}
	if !c.Bare {
		subjects = append(subjects, manifestOf(m, p, o))
	}
	r := &run{p: p, opts: o}
	if err := r.all(ctx, "verify "+c.Region, subjects, release.IsRecord); err != nil {
		return Result{}, err
	}
	if err := r.settle(ctx, p); err != nil {
		return Result{}, err
	}
	return r.result(Result{Service: m.Service, Release: m.Release, Region: c.Region}, p), nil
}

// filesOf makes the subjects of a manifest's files.
func filesOf(m *manifest.Manifest, p *place, o Options) ([]subject, error) {
	seen := map[string]bool{}
	var all []subject
	for _, f := range m.Contents.Files {
		name := f.Subject()
		if _, ok := f.Sums.Get(digest.SHA256); !ok || f.Sums.Check() != nil || seen[name] {
			return nil, fmt.Errorf("the manifest cannot be verified against: %s has no sha256, a malformed digest, or stands twice", name)
		}
		seen[name] = true
		want := store.Object{Key: name, Size: f.Size}
		sums := sumsOf(f.Sums, store.Content)
		all = append(all, subject{name: name, below: name, size: f.Size, judge: func(ctx context.Context, g Gap, got store.Object) (Gap, error) {
			return judge(ctx, g, &side{object: want, sums: sums}, placed(p, got), o)
		}})
	}
	if len(all) == 0 {
		return nil, errext.WithStatus(errors.New("the release has no files: there is nothing to verify"), errext.Gate)
	}
	return all, nil
}

// manifestOf makes the subject of the copy's own manifest. It is read whole at
// every level but presence, and matches when it proves to be of this release.
func manifestOf(m *manifest.Manifest, p *place, o Options) subject {
	return subject{name: release.ManifestName, below: release.ManifestName, judge: func(ctx context.Context, g Gap, got store.Object) (Gap, error) {
		g.WantSize, g.GotSize = got.Size, got.Size // annotations may differ, so any size may be right
		if o.Level == Presence {
			g.Verdict, g.Why = Present, "it was not read: verify at level checksum or content"
			return g, nil
		}
		g.Verdict, g.Evidence = Match, store.Content
		err := release.CheckManifest(ctx, p.Store, p.Prefix, m.Service, m.Release)
		if errors.Is(err, release.ErrInvalid) {
			g.Verdict, g.Why = Diverged, err.Error()
			return g, nil
		}
		return g, err
	}}
}
