package replicate

import (
	"bytes"
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

// putManifest leaves a manifest that proves to be of this release as it is in the
// source region. A target's must be the source's, annotations too: one that was
// changed is replaced, as verification would call it diverged for ever.
func (e *execution) putManifest(ctx context.Context) error {
	want := e.in.Manifest
	have, err := release.Load(ctx, e.region.Store, want.Service, want.Release)
	if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, release.ErrInvalid) {
		return err
	}
	there := err == nil
	if there && e.source == nil {
		return nil
	}
	if e.source != nil {
		if want, err = release.Load(ctx, e.source, want.Service, want.Release); err != nil {
			return err
		}
	}
	data, err := manifest.Encode(want)
	if err != nil {
		return err
	}
	if there { // what proves to be sealed is what it encodes to
		if was, err := manifest.Encode(have); err != nil || bytes.Equal(was, data) {
			return err
		}
	}
	_, err = e.region.Store.Put(ctx, e.prefix+release.ManifestName, store.BytesBody(data), store.Cond{})
	e.res.Replaced = there && err == nil
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
	if errors.Is(err, store.ErrNotFound) && cond.Absent {
		return errext.WithHint(fmt.Errorf("publishing to %s: the server refuses to write %s as something is there, and has nothing there: %w", e.region.Name, key, err),
			"a server that takes a delete marker for an object does so: remove the marker (aws s3api list-object-versions names it, delete-object --version-id removes it), then run the same command again")
	}
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
