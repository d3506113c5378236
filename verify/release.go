package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

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
	began := time.Now()
	p, err := listRelease(ctx, c)
	if err != nil {
		return Result{}, err
	}
	subjects, err := filesOf(m, p)
	if err != nil {
		return Result{}, err
	}
	if !c.Bare {
		subjects = append(subjects, manifestOf(m, p))
	}
	r := newRun(p, o)
	r.began = began
	if err := r.all(ctx, "verify "+c.Region, subjects, release.IsRecord); err != nil {
		return Result{}, err
	}
	if err := r.settle(ctx, p); err != nil {
		return Result{}, err
	}
	return r.result(Result{Service: m.Service, Release: m.Release, Region: c.Region}, p), nil
}

// listRelease lists a release's copy. Where the whole may not be listed, each part
// is tried alone, so that one that is denied does not hide the others.
func listRelease(ctx context.Context, c Copy) (*place, error) {
	p, err := list(ctx, c)
	denied := func(e ObjectError) bool { return e.Key == "" }
	if err != nil || p.absent || p.unreachable() || len(p.objects) > 0 || !slices.ContainsFunc(p.errs, denied) {
		return p, err
	}
	for _, part := range []manifest.Part{manifest.Deploy, manifest.Engine, manifest.Model} {
		below := c
		below.Prefix += string(part) + "/"
		q, err := list(ctx, below)
		if err != nil {
			return nil, err
		}
		for name, o := range q.objects {
			p.objects[string(part)+"/"+name] = o
		}
		for _, e := range q.errs {
			e.Subject = strings.TrimPrefix(e.Key, c.Prefix)
			p.errs = append(p.errs, e)
		}
	}
	return p, nil
}

// filesOf makes the subjects of a manifest's files.
func filesOf(m *manifest.Manifest, p *place) ([]subject, error) {
	seen := map[string]bool{}
	all := make([]subject, 0, len(m.Contents.Files)+1) // the copy's manifest comes after them
	for i := range m.Contents.Files {
		f := &m.Contents.Files[i]
		name := f.Subject()
		if _, ok := f.Sums.Get(digest.SHA256); !ok || f.Sums.Check() != nil || seen[name] {
			return nil, fmt.Errorf("the manifest cannot be verified against: %s has no sha256, a malformed digest, or stands twice", name)
		}
		seen[name] = true
		sha256, _ := f.Sums.Get(digest.SHA256)
		all = append(all, subject{name: name, below: name, size: f.Size, mark: sha256.Hex, judge: func(ctx context.Context, g Gap, got store.Object, o Options) (Gap, error) {
			return judge(ctx, g, &side{object: store.Object{Key: name, Size: f.Size}, sums: sumsOf(f.Sums, store.Content)}, placed(p, got), o)
		}})
	}
	if len(all) == 0 {
		return nil, errext.WithStatus(errors.New("the release has no files: there is nothing to verify"), errext.Gate)
	}
	return all, nil
}

// manifestOf makes the subject of the copy's own manifest. It is read whole at
// every level but presence; see judgeManifest.
func manifestOf(m *manifest.Manifest, p *place) subject {
	return subject{name: release.ManifestName, below: release.ManifestName, mark: m.Release, whole: true, judge: func(ctx context.Context, g Gap, got store.Object, o Options) (Gap, error) {
		return judgeManifest(ctx, p, g, got, m, o)
	}}
}
