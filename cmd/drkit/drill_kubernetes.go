package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"drkit/drill"
	"drkit/drill/launch/kubernetes"
	"drkit/drill/step"
	"drkit/internal/errext"
	"drkit/internal/registry"
	"drkit/internal/service"
	"drkit/manifest"
	"drkit/manifest/digest"
)

// deployed is how a region's canary is launched on Kubernetes; nil for a process.
func deployed(svc *service.Service, r *service.Region) (*step.Deployed, error) {
	if r.Canary.Launcher != "kubernetes" {
		return nil, nil
	}
	c := r.Canary
	patches, err := readPatches(svc, r)
	if err != nil {
		return nil, err
	}
	o := kubernetes.Options{Patches: patches, Context: c.Context, Namespace: c.Namespace, Reach: c.Reach, Workload: c.Workload, Container: c.Container, PriorityClass: c.PriorityClass, KeepLabels: c.KeepLabels}
	l, err := kubernetes.New(o)
	if err != nil {
		return nil, fmt.Errorf("canary of region %s: %w", r.Name, err)
	}
	pull := pulled{svc, r}
	return &step.Deployed{Launcher: l, Undo: l.Undo, Images: pull.images, Serves: l.Serves, Local: c.Reach != kubernetes.Direct,
		Check: func(ctx context.Context, s drill.Spec) ([]string, error) {
			notes, err := l.Check(ctx, s)
			if err != nil {
				return notes, err
			}
			more, err := pull.check(ctx, o, s)
			return slices.Concat(notes, more, owner(ctx, l, s)), err
		},
		Running: func(ctx context.Context, s drill.Spec) (all []step.Running, err error) {
			found, err := l.Running(ctx, s)
			for _, r := range found {
				all = append(all, step.Running{Where: r.Where, Images: r.Images, Differs: r.Differs, Unsaid: r.Unsaid})
			}
			return all, err
		}}, nil
}

// owner tells who takes back what is changed by hand in production's workload. drkit
// changes nothing of it; people who scale it up in a recovery do.
func owner(ctx context.Context, l *kubernetes.Launcher, s drill.Spec) []string {
	o, ok, err := l.Owner(ctx, s)
	switch {
	case err != nil:
		return []string{"whether a GitOps controller manages production's workload is not known: " + err.Error()}
	case ok && o.Reverts():
		return []string{"production's workload is managed by " + o.String() + ": what a recovery changes there by hand is taken back"}
	}
	return nil
}

func readPatches(svc *service.Service, r *service.Region) (all []kubernetes.Patch, err error) {
	for _, p := range r.Canary.Patches {
		data, err := readFile(svc.Abs(p))
		if err != nil {
			return nil, usage(fmt.Errorf("canary.patches of region %s: %w", r.Name, err), "paths are relative to the folder of "+svc.File)
		}
		all = append(all, kubernetes.Patch{Name: p, Data: data})
	}
	return all, nil
}

// patches are the contents of all patches of the drill's canaries: the plan covers them.
func (d *drillPlan) patches() (all []string) {
	for _, r := range []*service.Region{d.source.region, d.target.region} {
		patches, err := readPatches(d.svc, r)
		if err != nil {
			all = append(all, err.Error()) // newDrillPlan has read them: they went away since
		}
		for _, p := range patches {
			all = append(all, string(p.Data))
		}
	}
	return all
}

// pulled says from where a region's canary gets its images.
type pulled struct {
	svc    *service.Service
	region *service.Region
}

// images names every image by digest, in the region's own registry. One that would
// come from the source's registry is an error: it is lost with the source.
func (p pulled) images(m *manifest.Manifest) (map[string]string, error) {
	source := p.svc.Source()
	mapping := registry.Mapping{From: source.Registry, To: p.region.Registry}
	if source == p.region {
		mapping = registry.Mapping{}
	}
	all := map[string]string{}
	var errs []error
	for _, i := range registry.Needed(m, p.region.Name) {
		if _, own := all[i.Reference]; own && !i.Own || i.Digest == (digest.Digest{}) {
			continue
		}
		place, err := mapping.Place(i)
		switch {
		case err != nil:
			errs = append(errs, err)
		case source != p.region && source.Registry != "" && mapping.Falls(registry.Image{Reference: place.Name()}):
			errs = append(errs, errext.WithHint(fmt.Errorf("image %s would come from %s, the source's registry", i.Reference, source.Registry), "name the registry of region "+p.region.Name+" in drkit.yaml, and the image's copy in its own files"))
		default:
			all[i.Reference] = place.Name() + "@" + i.Digest.String()
		}
	}
	return all, errors.Join(errs...)
}

// registryTime bounds the look at one image before the clock.
const registryTime = 20 * time.Second

// check looks for the canary's images in the registry. A registry that does not answer
// this machine may answer the cluster's nodes: that is a note.
func (p pulled) check(ctx context.Context, o kubernetes.Options, s drill.Spec) (notes []string, err error) {
	pods, err := kubernetes.Render(o, s)
	if err != nil {
		return nil, err
	}
	var images []registry.Image
	for _, pod := range pods {
		for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			_, text, _ := strings.Cut(c.Image, "@")
			pinned, err := digest.Parse(text)
			if err != nil {
				return nil, fmt.Errorf("image %s: %w", c.Image, err)
			}
			if image := (registry.Image{Reference: c.Image, Digest: pinned, Own: true}); !slices.Contains(images, image) {
				images = append(images, image)
			}
		}
	}
	var errs []error
	client := &registry.Client{Timeout: registryTime}
	for _, found := range client.Check(ctx, images, registry.Mapping{}, false) {
		for _, f := range found.Faults {
			text := fmt.Sprintf("image %s: %s %s: %s", found.Reference, f.Object, f.Verdict, f.Why)
			if f.Verdict == registry.Unknown {
				notes = append(notes, text+"; whether the region can pull it shows when the canary starts")
				continue
			}
			errs = append(errs, errext.WithHint(errors.New(text), f.Hint))
		}
	}
	return notes, errors.Join(errs...)
}
