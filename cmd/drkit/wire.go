package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"drkit/drill"
	"drkit/drill/launch/process"
	"drkit/drill/router/reference"
	"drkit/drill/router/vllmrouter"
	"drkit/internal/errext"
	"drkit/internal/progress"
	"drkit/internal/service"
	"drkit/internal/store"
	"drkit/internal/store/dir"
	"drkit/internal/store/hf"
	"drkit/internal/store/s3"
	"drkit/manifest"
	"drkit/manifest/release"
)

// This file is the only place that knows all adapters.

// openStore opens a region's store or state for reading and writing. A copy that
// is made of links to elsewhere is no copy: links in it are errors.
func openStore(l service.Location) (store.ReadWriter, error) {
	switch l.Scheme {
	case service.SchemeFile:
		return dir.Plain(l.Path), nil
	case service.SchemeS3:
		s, err := openBucket(l)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	return nil, unsupported(l)
}

// openBucket opens what lies beneath a bucket's prefix. It asks nothing of the
// bucket yet.
func openBucket(l service.Location, change ...func(*s3.Options)) (*s3.Store, error) {
	bucket, prefix, _ := strings.Cut(l.Path, "/")
	o := s3.Options{Bucket: bucket, Prefix: prefix, Region: l.S3.Region, Endpoint: l.S3.Endpoint, Profile: l.S3.Profile, AssumeRole: l.S3.AssumeRole,
		PathStyle: l.S3.PathStyle, Checksums: l.S3.Checksums, KMSKey: l.S3.KMSKey, RequesterPays: l.S3.RequesterPays}
	for _, c := range change {
		c(&o)
	}
	return s3.New(context.Background(), o)
}

// openSource opens a place that is only read: a model, an adapter. Links are
// followed: a model in a hub's cache is made of them. The cache and the hub
// themselves also say what each file should be.
func openSource(l service.Location) (store.Source, error) {
	switch l.Scheme {
	case service.SchemeFile:
		if cache, ok, err := hf.Local(l.Path); ok || err != nil {
			return sourceOr(cache, err)
		}
		return dir.New(l.Path), nil
	case service.SchemeHF:
		return sourceOr(hf.New(l.Path, hf.FromEnv(os.Getenv)))
	case service.SchemeS3:
		return sourceOr(openBucket(l))
	}
	return nil, unsupported(l)
}

// openModel opens what a release is built from. In a bucket that keeps versions
// each object is pinned to the one that was listed.
func openModel(ctx context.Context, l service.Location) (store.Source, error) {
	if l.Scheme != service.SchemeS3 {
		return openSource(l)
	}
	bucket, err := openBucket(l)
	if err != nil {
		return nil, err
	}
	keeps, err := bucket.Versioned(ctx)
	if errors.Is(err, store.ErrDenied) || errors.Is(err, s3.ErrNoAnswer) {
		return bucket, nil // objects are then pinned by ETag while they are read
	}
	if err != nil {
		return nil, err
	}
	return sourceOr(openBucket(l, func(o *s3.Options) { o.Versions = keeps }))
}

// sourceOr keeps a source that failed from becoming an interface that is not nil.
func sourceOr[T store.Source](s T, err error) (store.Source, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

func unsupported(l service.Location) error {
	return usage(fmt.Errorf("%s: %s:// stores are not supported by this version", l.Raw, l.Scheme), "use a directory or a bucket; partial coverage would be worse than none")
}

// notYet refuses a setting that decodes but that no command of this version
// honours: working as if it were not there would be a false green.
func notYet(what, hint string) error {
	return usage(fmt.Errorf("%s is not supported by this version", what), hint)
}

// drillable refuses what a drill of this version cannot do as it is written.
func drillable(svc *service.Service, mode string, regions ...*service.Region) error {
	var errs []error
	for _, r := range regions {
		if r.Canary.Launcher == "process" && r.Canary.Weights != "restore" {
			errs = append(errs, notYet("weights: "+r.Canary.Weights+" of region "+r.Name, "use weights: restore"))
		}
	}
	if drill.Live(mode) { // nothing stands in for production
		return errors.Join(errs...)
	}
	if svc.Rehearsal.Source != "canary" {
		errs = append(errs, notYet("rehearsal.source: "+svc.Rehearsal.Source, "use source: canary"))
	}
	if d := svc.Rehearsal.Router.Driver; d != "vllm-router" && d != "reference" {
		errs = append(errs, notYet("router driver "+d, "use vllm-router or reference"))
	}
	return errors.Join(errs...)
}

// parseLocation reads a place as it is typed on the command line.
func parseLocation(text string) (service.Location, error) {
	var l service.Location
	if err := l.UnmarshalText([]byte(text)); err != nil {
		return l, usage(fmt.Errorf("%q %w", text, err), errext.Hint(err))
	}
	if l.Scheme == service.SchemeFile {
		abs, err := filepath.Abs(l.Path)
		if err != nil {
			return l, err
		}
		l.Path = abs
	}
	return l, nil
}

// newRouter makes a driver by its name.
func newRouter(driver, admin, metrics string) (drill.Router, error) {
	switch driver {
	case "vllm-router":
		return routerOr(vllmrouter.New(admin, metrics, httpClient()))
	case "reference":
		return routerOr(reference.New(admin, metrics, httpClient()))
	}
	return nil, usage(fmt.Errorf("router driver %q is not supported by this version", driver), "use vllm-router or reference")
}

// routerOr keeps a failed driver from becoming an interface that is not nil.
func routerOr[T drill.Router](r T, err error) (drill.Router, error) {
	if err != nil {
		return nil, err
	}
	return r, nil
}

func newLauncher(svc *service.Service) *process.Launcher {
	return &process.Launcher{Dir: filepath.Join(svc.Run.Dir.Path, "processes")}
}

// copyOf is a region's copy as commands use it.
type copyOf struct {
	region       *service.Region
	store, state store.ReadWriter
}

func openCopy(r *service.Region) (copyOf, error) {
	if r.Layout != "drkit" {
		return copyOf{}, notYet("layout "+r.Layout+" of region "+r.Name, "use layout: drkit")
	}
	s, err := openStore(r.Store)
	if err != nil {
		return copyOf{}, err
	}
	state, err := openStore(r.State)
	return copyOf{r, s, state}, err
}

// loadService reads the file that -f names.
func (o *serviceOption) load() (*service.Service, error) {
	if info, err := os.Stat(o.File); err == nil && !info.Mode().IsRegular() {
		return nil, usage(fmt.Errorf("%s is no regular file", o.File), "name the file that describes the service with -f")
	}
	svc, err := service.Load(o.File)
	if err != nil {
		return nil, err
	}
	return svc, apart(svc)
}

// chosen is the release that a command works on, and how it was chosen.
type chosen struct {
	manifest *manifest.Manifest
	files    *manifest.Files // nil unless it was built in memory
	how      string
}

// choose follows the order of the documentation: --manifest, --release, what the
// source publishes, a build in memory.
func (o *releaseOption) choose(ctx context.Context, svc *service.Service, p progress.Progress) (chosen, error) {
	if err := o.check(); err != nil {
		return chosen{}, err
	}
	if o.Manifest != "" {
		m, err := readManifest(o.Manifest)
		if err == nil && m.Service != svc.Metadata.Name {
			err = usage(fmt.Errorf("%s is a manifest of service %s, %s describes %s", o.Manifest, m.Service, svc.File, svc.Metadata.Name), "name the manifest and the drkit.yaml (-f) of one service")
		}
		return chosen{manifest: m, how: "from " + o.Manifest}, err
	}
	source, err := openCopy(svc.Source())
	if err != nil {
		return chosen{}, err
	}
	if o.Release != "" {
		m, err := release.Load(ctx, source.store, svc.Metadata.Name, o.Release)
		return chosen{manifest: m, how: "from the source region's store"}, err
	}
	_, m, err := release.LoadCurrent(ctx, source.state, source.store, source.region.Name, svc.Metadata.Name)
	if err == nil {
		return chosen{manifest: m, how: "published in the source region (CURRENT)"}, nil
	}
	if !errors.Is(err, store.ErrNotFound) {
		return chosen{}, err
	}
	m, files, err := buildRelease(ctx, svc, p)
	return chosen{manifest: m, files: files, how: "built in memory from " + svc.File}, err
}

// readManifest reads a manifest file that was named on the command line.
func readManifest(path string) (*manifest.Manifest, error) {
	data, err := readFile(path)
	if err != nil && errext.Hint(err) != "" {
		return nil, err
	}
	if err != nil {
		err = errext.WithHint(fmt.Errorf("reading the manifest: %w", err), "write one with drkit manifest build -o "+path)
		if errors.Is(err, fs.ErrNotExist) { // a name that was given and is not there, as with drkit.yaml
			err = errext.WithStatus(err, errext.Usage)
		}
		return nil, err
	}
	rebuild := "this is not a manifest of drkit's; a service file is named with -f"
	m, err := manifest.Decode(data)
	if err == nil {
		return m, nil
	}
	if hint := errext.Hint(err); hint != "" {
		rebuild = hint
	}
	return nil, usage(fmt.Errorf("%s: %w", path, err), rebuild)
}

// buildRelease reads all sources of a service.
func buildRelease(ctx context.Context, svc *service.Service, p progress.Progress) (*manifest.Manifest, *manifest.Files, error) {
	in := manifest.Input{Service: svc.Metadata.Name, Tool: toolVersion(), Progress: p, Images: svc.Deploy.Images,
		Engine: manifest.EngineInput{Kind: svc.Engine.Kind, Version: svc.Engine.Version, Args: svc.Engine.Args, Env: svc.Engine.Env}}
	if err := models(ctx, svc, &in); err != nil {
		return nil, nil, err
	}
	if err := partFiles(svc, &in); err != nil {
		return nil, nil, err
	}
	if err := checkAllowed(svc, &in); err != nil {
		return nil, nil, err
	}
	for _, r := range svc.Regions {
		in.Regions = append(in.Regions, manifest.RegionSummary{Name: r.Name, Role: string(r.Role), Residency: string(r.Residency), Allowed: r.AllowedDifferences, Places: placesOf(r)})
	}
	return manifest.Build(ctx, in)
}

// placesOf are what drkit.yaml says is the region's own.
func placesOf(r service.Region) manifest.RegionPlaces {
	p := manifest.RegionPlaces{Registry: r.Registry, Endpoints: slices.Concat(r.Endpoints, []string{r.S3.Endpoint}), Roles: []string{r.S3.AssumeRole, r.S3.KMSKey}}
	for _, l := range []service.Location{r.Store, r.State} {
		if l.Scheme == service.SchemeS3 {
			bucket, _, _ := strings.Cut(l.Path, "/")
			p.Buckets = append(p.Buckets, bucket)
		}
	}
	for _, router := range r.Routers {
		for _, replica := range router.Replicas {
			p.Endpoints = append(p.Endpoints, replica.Admin, replica.Metrics)
		}
	}
	return p
}

func models(ctx context.Context, svc *service.Service, in *manifest.Input) error {
	source, err := openModel(ctx, svc.Model.Source)
	if err != nil {
		return err
	}
	in.Model = manifest.Tree{Source: source}
	for _, list := range []struct {
		from []service.Extra
		to   *[]manifest.Tree
	}{{svc.Model.Adapters, &in.Adapters}, {svc.Model.Drafts, &in.Drafts}} {
		for _, extra := range list.from {
			source, err := openModel(ctx, extra.Source)
			if err != nil {
				return err
			}
			*list.to = append(*list.to, manifest.Tree{Name: extra.Name, Source: source})
		}
	}
	for _, r := range svc.Model.Repositories {
		source, err := openModel(ctx, r.Source)
		if err != nil {
			return err
		}
		in.Repositories = append(in.Repositories, manifest.Tree{Name: r.Name, Source: source, Revision: r.Revision})
	}
	return nil
}

// partFiles maps the patterns of drkit.yaml onto files of the engine and deploy
// parts. A file that a region names is that region's own.
func partFiles(svc *service.Service, in *manifest.Input) error {
	root := dir.New(svc.Dir)
	add := func(to *[]manifest.PartFile, patterns []string, key, region string, role manifest.Role) error {
		paths, err := expand(svc, patterns, key)
		for _, p := range paths {
			*to = append(*to, manifest.PartFile{Region: region, Path: p, Role: role, Source: root, Key: p})
		}
		return err
	}
	var probes []string
	if !svc.Engine.Probes.IsZero() {
		rel, err := filepath.Rel(svc.Dir, svc.Engine.Probes.Path)
		if err != nil {
			return err
		}
		if _, err := os.Stat(svc.Engine.Probes.Path); !errors.Is(err, fs.ErrNotExist) {
			probes = []string{filepath.ToSlash(rel)} // before the first recording there is none
		}
	}
	err := errors.Join(
		add(&in.EngineFiles, svc.Engine.Configs, "engine.configs", "", manifest.EngineConfig),
		add(&in.EngineFiles, probes, "engine.probes", "", manifest.Probes),
		add(&in.DeployFiles, svc.Deploy.Files, "deploy.files", "", ""))
	for _, r := range svc.Regions {
		err = errors.Join(err, regionFiles(svc, r, add, in))
	}
	return err
}

// regionFiles tells a region's engine files from its deploy files: those in a
// folder named engine are the engine's.
func regionFiles(svc *service.Service, r service.Region, add func(*[]manifest.PartFile, []string, string, string, manifest.Role) error, in *manifest.Input) error {
	paths, err := expand(svc, r.Files, "files of region "+r.Name)
	if err != nil {
		return err
	}
	for _, p := range paths {
		to := &in.DeployFiles
		if slices.Contains(strings.Split(filepath.ToSlash(filepath.Dir(p)), "/"), "engine") {
			to = &in.EngineFiles
		}
		if err := add(to, []string{p}, "", r.Name, ""); err != nil {
			return err
		}
	}
	return nil
}

// expand resolves patterns relative to the service file's folder. A pattern that
// matches nothing is an error: something was renamed or forgotten.
func expand(svc *service.Service, patterns []string, key string) ([]string, error) {
	var all []string
	for _, p := range patterns {
		found, err := doublestar.Glob(os.DirFS(svc.Dir), strings.TrimPrefix(filepath.ToSlash(p), "./"), doublestar.WithFilesOnly(), doublestar.WithFailOnIOErrors())
		switch {
		case errors.Is(err, doublestar.ErrBadPattern):
			return nil, usage(fmt.Errorf("%s: pattern %q is malformed", key, p), "patterns are relative to the folder of "+svc.File)
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("%s: pattern %q: %w", key, p, err)
		case len(found) == 0:
			return nil, usage(fmt.Errorf("%s: pattern %q matches no file in %s", key, p, svc.Dir), "was a file renamed or forgotten? paths with .. lie outside the folder and cannot be part of a release")
		}
		all = append(all, found...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// waivers are those of the service file as the rules take them.
func waivers(svc *service.Service) []manifest.Waiver {
	var all []manifest.Waiver
	for _, w := range svc.Waivers {
		all = append(all, manifest.Waiver{Rule: w.Rule, Path: w.Path, Reason: w.Reason, Owner: w.Owner, Expires: w.Expires.Time})
	}
	return all
}

// now is the moment at which expiries are judged.
func now() time.Time { return time.Now() }

// readObject reads a small object whole; a greater one than limit is an error.
func readObject(ctx context.Context, s store.ReadWriter, key string, limit int64) ([]byte, error) {
	o, err := s.Stat(ctx, key)
	if err != nil {
		return nil, err
	}
	return store.ReadAll(ctx, s, o, limit)
}
