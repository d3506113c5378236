package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"drkit/internal/store"
	"drkit/manifest/release"
)

// Age says how far a copy is behind what its source region publishes: what would be
// lost if the source were gone now (the model's RPO). What is not known is nil and
// Why says so; it is never 0.
type Age struct {
	Source *Publication `json:"source"` // what the source region publishes; nil: nothing, or not known
	Target *Publication `json:"target"` // what the copy's region publishes
	// Releases counts those that the source published after the one that the target
	// publishes.
	Releases *int `json:"releases"`
	// Missing are the bytes of the source's release that the target lacks or holds
	// differently; Unproven those that nothing proves to be right.
	Missing  *int64 `json:"missing_bytes"`
	Unproven *int64 `json:"unproven_bytes"`
	// Seconds is how long ago the source published the first of what the target
	// lacks, 0 when the target lacks nothing. It rests on Basis.
	Seconds *float64  `json:"seconds"`
	Since   time.Time `json:"since,omitzero"`
	Basis   string    `json:"basis,omitempty"`
	Why     []string  `json:"unknown,omitempty"` // what is not known, and why
}

// Publication is a region's CURRENT.
type Publication struct {
	Release    string `json:"release"`
	Generation int64  `json:"generation"` // counts the region's own publications
	// At is when the source's store took in the release; zero: not known, not asked.
	At time.Time `json:"at,omitzero"`
}

// Published is one region's places.
type Published struct {
	Region string
	Store  store.Source
	State  release.State
}

// AgeInput is what an Age follows from. Copy is what verification found in Target.
type AgeInput struct {
	Service        string
	Source, Target Published
	Copy           Result
	Now            time.Time
}

const ageBasis = "the times at which the source's store says that manifest.json or CURRENT was written"

// AgeOf reads both regions' CURRENT and, where they differ, when the source's
// releases were published. What cannot be read stands in Why.
func AgeOf(ctx context.Context, in AgeInput) *Age {
	a := &Age{}
	a.Source = a.publication(ctx, in.Source, in.Service)
	a.Target = a.publication(ctx, in.Target, in.Service)
	if a.Source == nil {
		return a
	}
	a.bytes(in.Copy)
	switch {
	case a.Target != nil && a.Target.Release == a.Source.Release:
		a.Releases = ptr(0)
		a.sameRelease(ctx, in)
	default:
		a.otherRelease(ctx, in)
	}
	return a
}

func ptr[T any](v T) *T { return &v }

func (a *Age) unknown(format string, args ...any) {
	a.Why = append(a.Why, fmt.Sprintf(format, args...))
}

func (a *Age) publication(ctx context.Context, p Published, service string) *Publication {
	c, err := release.ReadCurrent(ctx, p.State, p.Region, service)
	switch {
	case err == nil:
		return &Publication{Release: c.Release, Generation: c.Generation}
	case errors.Is(err, store.ErrNotFound):
		a.unknown("%s publishes no release", p.Region)
	default:
		a.unknown("%v", err)
	}
	return nil
}

const unknownBytes = "the bytes that are missing: "

// bytes counts what the copy lacks of the source's release.
func (a *Age) bytes(r Result) {
	if r.Release != a.Source.Release {
		a.unknown(unknownBytes+"release %.12s was verified, and the source publishes %.12s", r.Release, a.Source.Release)
		return
	}
	switch {
	case !r.Shard.IsZero():
		a.unknown(unknownBytes + "this is one shard")
		return
	case len(r.Errors) > 0:
		a.unknown(unknownBytes + "not everything could be compared")
		return
	}
	a.Missing, a.Unproven = new(int64), new(int64)
	for _, g := range r.Gaps {
		switch g.Verdict {
		case Missing, Diverged:
			*a.Missing += g.WantSize
		case Present, NotComparable:
			*a.Unproven += g.WantSize
		}
	}
}

// sameRelease tells the age when both regions publish one release: 0 when the
// copy is whole, else the time since that release was published.
func (a *Age) sameRelease(ctx context.Context, in AgeInput) {
	if !in.Copy.Shard.IsZero() || in.Copy.Count(Missing)+in.Copy.Count(Diverged) > 0 {
		var err error
		if a.Source.At, err = publishedAt(ctx, in.Source.Store, in.Service, a.Source.Release); err != nil {
			a.unknown("%v", err)
			return
		}
	}
	a.lacking(in.Copy, in.Now)
}

func (a *Age) lacking(r Result, now time.Time) {
	switch {
	case r.Release != a.Source.Release || a.Missing == nil:
	case r.Count(Missing)+r.Count(Diverged) > 0:
		a.since(a.Source.At, nil, now)
	case *a.Unproven > 0 || r.Count(Present)+r.Count(NotComparable) > 0:
		a.unknown("the copy is not proven to be whole")
	default:
		a.Seconds, a.Basis = new(float64), "both regions publish the same release, and the copy holds it"
	}
}

// merged is the age by the result of all shards, each of which knew a part.
func (a *Age) merged(r Result) *Age {
	if a == nil || a.Source == nil {
		return a
	}
	all := *a
	all.Why = slices.DeleteFunc(slices.Clone(a.Why), func(why string) bool { return strings.HasPrefix(why, unknownBytes) })
	all.bytes(r)
	if a.Target != nil && a.Target.Release == a.Source.Release {
		all.lacking(r, r.Ended)
	}
	return &all
}

// otherRelease looks when the releases that the target does not publish came.
func (a *Age) otherRelease(ctx context.Context, in AgeInput) {
	times, err := releaseTimes(ctx, in.Source.Store, in.Service)
	if err != nil {
		a.unknown("the releases between: %v", err)
		return
	}
	newest, listed := times[a.Source.Release]
	if !listed || newest.IsZero() {
		a.unknown("the source's store does not say when it took in release %.12s", a.Source.Release)
		return
	}
	var have time.Time // before everything, when the target publishes nothing
	if a.Target != nil {
		if have = times[a.Target.Release]; have.IsZero() {
			a.unknown("the releases between: the source no longer holds release %.12s, which %s publishes", a.Target.Release, in.Target.Region)
			return
		}
	}
	if !newest.After(have) { // the source went back to an older release
		a.Releases = ptr(1)
		o, err := in.Source.State.Stat(ctx, release.CurrentKey(in.Source.Region, in.Service))
		a.since(o.ModTime, err, in.Now)
		return
	}
	a.between(times, have, newest, in.Now)
}

func (a *Age) between(times map[string]time.Time, have, newest, now time.Time) {
	n, first := 0, newest
	for _, at := range times {
		if at.After(have) && !at.After(newest) {
			n++
			if at.Before(first) {
				first = at
			}
		}
	}
	a.Releases = &n
	a.since(first, nil, now)
}

func (a *Age) since(at time.Time, err error, now time.Time) {
	switch {
	case err != nil:
		a.unknown("%v", err)
	case at.IsZero():
		a.unknown("the source's store says no times")
	case at.After(now):
		a.unknown("the source's store says %s, which is still to come by the clock here", at.UTC().Format(time.RFC3339))
	default:
		a.Since, a.Seconds, a.Basis = at.UTC(), ptr(now.Sub(at).Seconds()), ageBasis
	}
}

func publishedAt(ctx context.Context, s store.Source, service, id string) (time.Time, error) {
	for o, err := range s.List(ctx, release.Prefix(service, id)+release.ManifestName) {
		if err != nil || o.Key == release.Prefix(service, id)+release.ManifestName {
			return o.ModTime, err
		}
	}
	return time.Time{}, nil
}

// releaseTimes tells when each release of a service was completed in a store.
func releaseTimes(ctx context.Context, s store.Source, service string) (map[string]time.Time, error) {
	all := map[string]time.Time{}
	for o, err := range s.List(ctx, service+"/") {
		if err != nil {
			return nil, fmt.Errorf("listing them: %w", err)
		}
		id, name, _ := strings.Cut(strings.TrimPrefix(o.Key, service+"/"), "/")
		if name == release.ManifestName && release.CheckNames(service, id) == nil {
			all[id] = o.ModTime
		}
	}
	return all, nil
}
