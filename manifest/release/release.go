// Package release reads where releases live in a region: the read side. What it
// returns is proven, not believed: a manifest's id must cover its contents and
// be the name of its folder, and a CURRENT must belong to the region and service
// that were asked for.
//
// The drkit layout of a region's store:
//
//	<service>/<release>/manifest.json
//	<service>/<release>/{model,engine,deploy}/path
//	<service>/<release>/{engine,deploy}/@region/path   a file of one region
//
// Every region's copy holds all files of the release, those of other regions
// too, so that any region can be rebuilt from any other. A region's state, which
// lies beneath <store>/.drkit unless told otherwise, holds
//
//	<region>/<service>/CURRENT
package release

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/manifest"
)

// ManifestName is the manifest's name in a release's folder.
const ManifestName = "manifest.json"

// ErrInvalid is a manifest that was read and is not the one it should be.
var ErrInvalid = errors.New("not the manifest of this release")

// manifestLimit is the greatest manifest in bytes that is read: some hundred
// thousand files.
const manifestLimit = 256 << 20

// Prefix is the beginning of all keys of a release.
func Prefix(service, release string) string { return service + "/" + release + "/" }

// Key is where a copy holds a file of a release. It differs from the subject
// only by the prefix.
func Key(prefix string, f manifest.File) string { return prefix + f.Subject() }

// IsRecord reports whether a key below a release's prefix is one of drkit's
// records about the release, no file of it: the manifest and what signs it.
func IsRecord(below string) bool {
	return below == ManifestName || (strings.HasPrefix(below, ManifestName+".") && !strings.Contains(below, "/"))
}

// CheckNames says why a service or release cannot be part of a key.
func CheckNames(service, release string) error {
	if err := checkName("service", service); err != nil {
		return err
	}
	if len(release) != 64 || strings.Trim(release, "0123456789abcdef") != "" {
		return errext.WithHint(fmt.Errorf("release %q is no release id", release), "a release id has 64 lower-case hexadecimal digits; drkit manifest show prints it")
	}
	return nil
}

// checkName wants one component of a key that cannot be taken for drkit's own folder.
func checkName(what, name string) error {
	if err := store.CheckKey(name); err != nil || strings.Contains(name, "/") || strings.HasPrefix(name, ".") {
		return fmt.Errorf("%s %q cannot name a folder in a store", what, name)
	}
	return nil
}

// Load reads the manifest of a release from a region's store and proves it. A
// release that is not there is store.ErrNotFound.
func Load(ctx context.Context, s store.Source, service, release string) (*manifest.Manifest, error) {
	if err := CheckNames(service, release); err != nil {
		return nil, err
	}
	m, err := read(ctx, s, Prefix(service, release), service, release)
	if errors.Is(err, store.ErrNotFound) {
		return nil, errext.WithHint(err, "drkit replicate publishes a release to a region's store")
	}
	return m, err
}

// CheckManifest reads the manifest beneath prefix and proves that it is the one
// of this release of this service.
func CheckManifest(ctx context.Context, s store.Source, prefix, service, release string) error {
	_, err := read(ctx, s, prefix, service, release)
	return err
}

func read(ctx context.Context, s store.Source, prefix, service, release string) (*manifest.Manifest, error) {
	key := prefix + ManifestName
	data, err := store.ReadAll(ctx, s, store.Object{Key: key}, manifestLimit)
	if err != nil {
		return nil, fmt.Errorf("reading the manifest of release %.12s of %s: %w", release, service, err)
	}
	m, err := manifest.Decode(data)
	switch {
	case err != nil:
	case m.Release != release:
		err = fmt.Errorf("it describes release %.12s, not %.12s", m.Release, release)
	case m.Service != service:
		err = fmt.Errorf("it describes the service %q, not %q", m.Service, service)
	default:
		return m, nil
	}
	return nil, fmt.Errorf("%s is %w: %w", key, ErrInvalid, err)
}

// List returns the ids of a service's releases that have a manifest in the
// store, sorted. Whether they are whole is for verify to say.
func List(ctx context.Context, s store.Source, service string) ([]string, error) {
	if err := checkName("service", service); err != nil {
		return nil, err
	}
	var ids []string
	for o, err := range s.List(ctx, service+"/") {
		if err != nil {
			return nil, fmt.Errorf("listing the releases of %s: %w", service, err)
		}
		id, name, _ := strings.Cut(strings.TrimPrefix(o.Key, service+"/"), "/")
		if name == ManifestName && CheckNames(service, id) == nil {
			ids = append(ids, id)
		}
	}
	return ids, nil
}
