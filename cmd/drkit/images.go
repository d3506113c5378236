package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"drkit/internal/errext"
	"drkit/internal/progress"
	"drkit/internal/registry"
	"drkit/internal/service"
	"drkit/internal/store"
	"drkit/manifest"
	"drkit/manifest/digest"
	"drkit/verify"
)

// imagesOption is --resolve-images: whether registries are asked.
type imagesOption struct{ Resolve bool }

func (o *imagesOption) addFlags(c *cobra.Command) {
	c.Flags().BoolVar(&o.Resolve, "resolve-images", false, "ask the registries which digests the images have now")
}

// resolve adds what the registries say of the images. One that does not answer is
// a problem in the manifest and fails nothing.
func (o imagesOption) resolve(ctx context.Context, m *manifest.Manifest, p progress.Progress) error {
	if !o.Resolve {
		return nil
	}
	return registry.Annotate(ctx, &registry.Client{}, m, p)
}

// pinnedAs is an image's digest as people read it.
func pinnedAs(m *manifest.Manifest, i manifest.Image) string {
	if i.Digest.Hex != "" {
		return i.Digest.String()
	}
	if facts := m.Annotations.ResolvedImage(i.Reference); facts != nil {
		return "not pinned; was " + facts.Resolved.String() + " at the build"
	}
	return "not pinned"
}

// copyImagesOption is --images of verify.
type copyImagesOption struct{ Images string }

func (o *copyImagesOption) addFlags(c *cobra.Command) {
	c.Flags().StringVar(&o.Images, "images", "check", "whether the release's images are looked for in the region's registry: check, or skip")
}

func (o *copyImagesOption) check() error {
	return oneOf("--images", cmp.Or(o.Images, "check"), "check", "skip")
}

// add looks for the release's images in a region's registry and adds what it finds
// to the result of its files. Of a sharded verification, the first shard does it.
func (o copyImagesOption) add(ctx context.Context, svc *service.Service, m *manifest.Manifest, r *service.Region, opts verify.Options, res *verify.Result) error {
	need, builds := neededImages(m, r.Name)
	switch {
	case len(builds) > 0:
		res.Notes = append(res.Notes, fmt.Sprintf("not looked for, as only a Dockerfile names them and no region starts them: %s", strings.Join(builds, ", ")))
	case len(need) == 0:
		res.Notes = append(res.Notes, "the release names no images")
	}
	if len(need) > 0 && o.Images == "skip" {
		res.Notes = append(res.Notes, fmt.Sprintf("images were not looked for (--images skip): %d. Whether %s could start its containers is not known", len(need), r.Name))
		return nil
	}
	res.Total += len(need)
	if len(need) == 0 || opts.Shard.Index > 0 {
		return nil
	}
	res.Subjects += len(need)
	opts.Level, opts.Require = res.Level, res.Require // of a sample: those of the objects outside of it
	task := progress.Start(opts.Progress, "looking for images of "+r.Name, int64(len(need)), 0)
	found := imageGaps(ctx, &registry.Client{}, svc, need, r, opts)
	task.Done()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if r.Registry != "" {
		res.Notes = append(res.Notes, fmt.Sprintf("images are among what was compared: %d, looked for in %s", len(need), r.Registry))
	}
	found.addTo(res)
	return nil
}

// beside adds to the verification of a region's files what belongs to its copy
// besides: its images, and where its state lies; and it writes the job that would
// hash what stayed open.
func (o verifyOptions) beside(ctx context.Context, s *streams, svc *service.Service, c chosen, r *service.Region, opts verify.Options, res *verify.Result) error {
	unseen, err := stateRules(ctx, r)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil: // nothing is to be refused here: it is a fault of the copy
		err = errext.WithHint(errext.WithStatus(errors.New(err.Error()), errext.Gate), errext.Hint(err))
		res.Errors = append(res.Errors, verify.ObjectError{Err: err})
	case unseen != nil:
		res.Notes = append(res.Notes, unseen.Error())
	}
	if err := o.copyImagesOption.add(ctx, svc, c.manifest, r, opts, res); err != nil {
		return err
	}
	return o.batchOption.job(s, r, *res)
}

// foundImages is what was found of a region's images.
type foundImages struct {
	gaps  []verify.Gap
	errs  []verify.ObjectError
	notes []string
	bytes int64
}

func (f foundImages) addTo(res *verify.Result) {
	judged := map[string]bool{}
	for _, g := range f.gaps {
		judged[g.Subject] = true
	}
	for _, e := range f.errs {
		if !judged[e.Subject] && !slices.Contains(res.Failed, e.Subject) {
			res.Failed = append(res.Failed, e.Subject)
		}
	}
	res.Gaps, res.Errors = append(res.Gaps, f.gaps...), append(res.Errors, f.errs...)
	slices.SortStableFunc(res.Gaps, func(a, b verify.Gap) int { return strings.Compare(a.Subject, b.Subject) })
	res.Notes = append(res.Notes, f.notes...)
	res.Compared += len(f.gaps)
	res.BytesRead += f.bytes
}

// withoutImages is a result of the files alone, for what copies files.
func withoutImages(r verify.Result) verify.Result {
	image := func(subject string) bool { return strings.HasPrefix(subject, verify.ImagePrefix) }
	n := len(r.Gaps)
	r.Gaps = slices.DeleteFunc(slices.Clone(r.Gaps), verify.Gap.IsImage)
	r.Compared -= n - len(r.Gaps)
	r.Errors = slices.DeleteFunc(slices.Clone(r.Errors), func(e verify.ObjectError) bool { return image(e.Subject) })
	r.Failed = slices.DeleteFunc(slices.Clone(r.Failed), image)
	return r
}

// neededImages are those that a region starts, and apart from them the references
// that only a Dockerfile names: they are needed to build, not to recover.
func neededImages(m *manifest.Manifest, region string) (need []registry.Image, builds []string) {
	building := map[string]bool{}
	for _, i := range m.Contents.Images {
		building[i.Reference+"@@"+i.Region] = m.BuildsOnly(i)
	}
	for _, i := range registry.Needed(m, region) {
		own := ""
		if i.Own {
			own = region
		}
		if building[i.Reference+"@@"+own] {
			builds = append(builds, i.Reference)
			continue
		}
		if !slices.ContainsFunc(need, func(n registry.Image) bool { return n.Reference == i.Reference }) {
			need = append(need, i)
		}
	}
	return need, builds
}

// imageGaps looks for images in a region's registry. What cannot be told is no
// match: a tag that was never resolved, a registry that drkit.yaml does not name, a
// reference that leads into the source's registry.
func imageGaps(ctx context.Context, client *registry.Client, svc *service.Service, need []registry.Image, r *service.Region, opts verify.Options) foundImages {
	m := registry.Mapping{From: svc.Source().Registry, To: r.Registry}
	if svc.Source().Name == r.Name {
		m.From = "" // nothing is mapped: its own references lead to its own registry
	}
	var out foundImages
	var asked []registry.Image
	for _, i := range need {
		if g := undecided(i, m, svc, r); g != nil {
			out.gaps = append(out.gaps, *g)
		} else {
			asked = append(asked, i)
		}
	}
	var foreign []string
	for _, p := range client.Check(ctx, asked, m, opts.Level == verify.ByContent) {
		out.bytes += p.Bytes
		if p.Foreign {
			foreign = append(foreign, p.At)
		}
		out.presence(p, r.Name, opts)
	}
	if len(foreign) > 0 {
		out.notes = append(out.notes, fmt.Sprintf("%s depends on registries other than its own (%s): %s", r.Name, r.Registry, strings.Join(foreign, ", ")))
	}
	return out
}

// undecided is the gap of an image that need not be asked for, or nil.
func undecided(i registry.Image, m registry.Mapping, svc *service.Service, r *service.Region) *verify.Gap {
	g := verify.Gap{Region: r.Name, Subject: verify.ImagePrefix + i.Reference, Verdict: verify.NotComparable}
	inOwn := i.Own && r.Registry != "" && registry.Mapping{From: r.Registry}.Falls(i)
	switch {
	case i.Own && m.Falls(i):
		g.Verdict = verify.Missing
		g.Why = fmt.Sprintf("the region's own files take it from %s, the source's registry, which is lost with the source", svc.Source().Registry)
		g.Hint = "name it in " + r.Name + "'s own registry"
	case r.Registry == "":
		g.Why = fmt.Sprintf("region %s names no registry, so that nobody knows from where it would be started", r.Name)
		g.Hint = "set registry: of the region in " + svc.File + ", or leave images out by name: --images skip"
	case svc.Source().Registry == "" && !inOwn && !registry.Mapping{From: r.Registry}.Falls(i):
		g.Why = fmt.Sprintf("the source region %s names no registry, so that nobody knows whether this one is lost with it", svc.Source().Name)
		g.Hint = "set registry: of the source region in " + svc.File
	case i.Digest == (digest.Digest{}):
		g.Why = "it is named by a tag that was not resolved: nobody knows which image should be there"
		g.Hint = "pin it by digest in the deploy files, or build the manifest with --resolve-images"
	default:
		return nil
	}
	return &g
}

// presence turns what a registry holds into a verdict and errors.
func (f *foundImages) presence(p registry.Presence, region string, opts verify.Options) {
	g := verify.Gap{Region: region, Subject: verify.ImagePrefix + p.Reference, Key: p.At, WantSize: p.Size, GotSize: p.Size}
	var why []string
	for _, fault := range p.Faults {
		text := fault.Object + ": " + fault.Why
		switch fault.Verdict {
		case registry.Unknown:
			err := errext.WithHint(fmt.Errorf("image %s: %s", p.Reference, text), fault.Hint)
			f.errs = append(f.errs, verify.ObjectError{Subject: g.Subject, Key: p.At, Err: err})
			continue
		case registry.Diverged:
			g.Verdict = verify.Diverged
		case registry.Missing:
			if g.Verdict == "" {
				g.Verdict = verify.Missing
			}
		}
		why = append(why, text)
		if g.Hint == "" {
			g.Hint = fault.Hint
		}
	}
	switch {
	case g.Verdict != "":
		g.Why = strings.Join(why, "; ")
	case len(p.Faults) > 0:
		return // only what could not be asked: there is no verdict
	case len(p.Elsewhere) > 0:
		g.Verdict, g.Why = verify.NotComparable, "layers that no registry holds were not looked for: "+strings.Join(p.Elsewhere, ", ")
	default:
		g.Verdict, g.Evidence, g.Why = provenImage(p, opts)
	}
	f.gaps = append(f.gaps, g)
}

// provenImage is the verdict on an image of which everything is there: a registry
// took each layer under the digest that it had at the push, which is a claim, as
// long as nobody hashes it.
func provenImage(p registry.Presence, opts verify.Options) (verify.Verdict, store.Evidence, string) {
	e, require := store.Claimed, max(opts.Require, store.Claimed)
	if p.Hashed {
		e = store.Content
	}
	switch {
	case opts.Level == verify.Presence:
		return verify.Present, store.Size, "only its presence was asked for: verify at level checksum or content"
	case e < require:
		return verify.Present, e, fmt.Sprintf("its layers are there by name and size, evidence %s where %s is required: verify at level content", e, require)
	}
	return verify.Match, e, ""
}
