package replicate

import (
	"context"
	"errors"
	"fmt"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/manifest"
	"drkit/manifest/release"
)

// publish makes a verified copy the region's current release: its manifest
// first, CURRENT last. It ends by reading both back.
func (e *execution) publish(ctx context.Context) error {
	if err := e.putManifest(ctx); err != nil {
		return fmt.Errorf("publishing the manifest: %w", err)
	}
	if e.plan.Publish {
		if err := e.putCurrent(ctx); err != nil {
			return err
		}
	}
	c, _, err := release.LoadCurrent(ctx, e.region.State, e.region.Store, e.region.Name, e.in.Manifest.Service)
	if err != nil {
		return fmt.Errorf("reading back what was published: %w", err)
	}
	if c.Release != e.in.Manifest.Release {
		return e.lost(c)
	}
	e.res.Published, e.res.Generation = true, c.Generation
	return nil
}

// putManifest leaves a manifest that proves to be of this release as it is.
func (e *execution) putManifest(ctx context.Context) error {
	m := e.in.Manifest
	if release.CheckManifest(ctx, e.region.Store, e.prefix, m.Service, m.Release) == nil {
		return nil
	}
	data, err := manifest.Encode(m)
	if err != nil {
		return err
	}
	_, err = e.region.Store.Put(ctx, e.prefix+release.ManifestName, store.BytesBody(data), store.Cond{})
	return err
}

// putCurrent writes CURRENT on condition that it is still what the plan saw.
func (e *execution) putCurrent(ctx context.Context) error {
	m, seen := e.in.Manifest, e.plan.seen
	next := release.Current{Schema: release.CurrentSchema, Region: e.region.Name, Service: m.Service, Release: m.Release, Generation: seen.Generation + 1}
	cond := store.Cond{Absent: true}
	if seen.Release != "" {
		if seen.ETag == "" {
			return fmt.Errorf("publishing to %s: its state has no ETags, so nothing can be written on condition", e.region.Name)
		}
		cond = store.Cond{ETag: seen.ETag}
	}
	key := release.CurrentKey(e.region.Name, m.Service)
	_, err := e.region.State.Put(ctx, key, store.BytesBody(next.Encode()), cond)
	if !errors.Is(err, store.ErrPrecondition) {
		return err
	}
	now, err := release.ReadCurrent(ctx, e.region.State, e.region.Name, m.Service)
	if err != nil {
		return fmt.Errorf("publishing to %s: CURRENT changed meanwhile: %w", e.region.Name, err)
	}
	if now.Release != m.Release {
		return e.lost(now)
	}
	return nil // another run published the same release
}

func (e *execution) lost(now release.Current) error {
	return errext.WithHint(
		fmt.Errorf("publishing to %s: someone else published release %.12s there as generation %d while this ran; it was not overwritten", e.region.Name, now.Release, now.Generation),
		"the copy of this release is there, whole and verified: run the same command again if it should follow")
}
