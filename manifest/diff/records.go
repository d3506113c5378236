package diff

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"drkit/manifest"
)

// image is one image with what it is found by on the other side.
type image struct {
	key string
	manifest.Image
}

// imagesOf lists a side's images. Between two regions a registry stands for
// whichever registry the region has, so that the last names decide.
func (s Side) imagesOf() (all []image) {
	seen := map[string]int{}
	for _, i := range s.Manifest.Contents.Images {
		if s.Region != "" && i.Region != "" && i.Region != s.Region {
			continue
		}
		key := i.Region + "\t" + repositoryOf(i.Reference)
		if s.Region != "" {
			key = path.Base(repositoryOf(i.Reference))
		}
		seen[key]++
		all = append(all, image{fmt.Sprintf("%s\t%d", key, seen[key]), i})
	}
	return all
}

// repositoryOf is a reference without its tag and digest.
func repositoryOf(reference string) string {
	name, _, _ := strings.Cut(reference, "@")
	if colon := strings.LastIndexByte(name, ':'); colon > strings.LastIndexByte(name, '/') {
		name = name[:colon]
	}
	return name
}

// images compares the images by repository.
func (c *comparison) images() {
	eachPair(c.from.imagesOf(), c.to.imagesOf(), func(i image) string { return i.key }, func(_ string, x, y *image) {
		d := Difference{Kind: KindImage, Part: manifest.Deploy, Field: "image"}
		switch {
		case x == nil:
			d.Severity, d.Region, d.Path, d.To, d.Message = manifest.Silent, y.Region, fileOf(y.Files), y.Reference, "image "+y.Reference+" is new"
		case y == nil:
			d.Severity, d.Region, d.Path, d.From, d.Message = manifest.Block, x.Region, fileOf(x.Files), x.Reference, "image "+x.Reference+" is gone"
		case x.Reference == y.Reference && x.Digest == y.Digest:
			return
		default:
			d.Severity, d.Region, d.Path, d.From, d.To = manifest.Silent, y.Region, fileOf(y.Files), pinned(x.Image), pinned(y.Image)
			if d.Message = fmt.Sprintf("image %s → %s", pinned(x.Image), pinned(y.Image)); x.Digest == y.Digest && x.Digest.Hex != "" {
				d.Severity = manifest.Info
				d.Message = fmt.Sprintf("image %s → %s, the same digest", x.Reference, y.Reference)
			}
		}
		c.add(d)
	})
}

// pinned is a reference with its digest, where it is known.
func pinned(i manifest.Image) string {
	if i.Digest.Hex == "" || strings.Contains(i.Reference, "@") {
		return i.Reference
	}
	return i.Reference + "@" + i.Digest.String()
}

func fileOf(places []string) string {
	if len(places) == 0 {
		return ""
	}
	file, _, _ := strings.Cut(places[0], ":")
	return file
}

// records compares the rest of what a manifest says: pods, origins, regions.
func (c *comparison) records() {
	a, b := c.from.Manifest.Annotations, c.to.Manifest.Annotations
	c.pods()
	eachPair(a.Origins, b.Origins, func(o manifest.Origin) string { return o.Tree }, func(at string, x, y *manifest.Origin) {
		if x != nil && y != nil && (x.Repo != y.Repo || x.Commit != y.Commit) {
			c.add(Difference{Severity: manifest.Info, Kind: KindOrigin, Part: manifest.Model, Path: at, Field: "commit", From: x.Repo + "@" + x.Commit, To: y.Repo + "@" + y.Commit,
				Message: fmt.Sprintf("%s comes from %s@%.12s, not from %s@%.12s", at, y.Repo, y.Commit, x.Repo, x.Commit)})
		}
		if lost := lostRefs(x, y); len(lost) > 0 {
			c.add(Difference{Severity: manifest.Block, Kind: KindOrigin, Part: manifest.Model, Path: at, Field: "refs", From: *x.Refs, To: *y.Refs,
				Message: "the hub cache has lost the name " + strings.Join(lost, ", ") + ": an engine that is started with the hub id does not find the commit"})
		}
	})
	if c.from.Region != "" {
		return // two regions are not meant to be called the same
	}
	eachPair(a.Regions, b.Regions, func(r manifest.RegionSummary) string { return r.Name }, func(name string, x, y *manifest.RegionSummary) {
		walk(regionOf(x), regionOf(y), nil, func(at []string, v, w any) {
			c.add(Difference{Severity: manifest.Info, Kind: KindRegion, Part: manifest.Deploy, Region: name, Field: strings.Join(at, "."), From: plain(v), To: plain(w),
				Message: strings.TrimSpace(fmt.Sprintf("region %s: %s %s → %s", name, strings.Join(at, "."), show(v), show(w)))})
		})
	})
}

// lostRefs are names of a hub cache that only the first side has, where the
// second has none at all.
func lostRefs(x, y *manifest.Origin) []string {
	if x == nil || y == nil || x.Refs == nil || y.Refs == nil || len(*y.Refs) > 0 {
		return nil
	}
	return *x.Refs
}

func regionOf(r *manifest.RegionSummary) any {
	if r == nil {
		return absent{}
	}
	return tree(r)
}

// pod is a container with what it is found by on the other side.
type pod struct {
	key string
	manifest.PodFacts
}

func (s Side) podsOf() (all []pod) {
	for _, p := range s.Manifest.Annotations.Pods {
		if s.Region != "" && p.Region != "" && p.Region != s.Region {
			continue
		}
		key := strings.Join([]string{s.neutral(p.Region, p.Path), p.Kind, p.Name, p.Container.Name}, "\t")
		if s.Region == "" {
			key = p.Region + "\t" + key
		}
		all = append(all, pod{key, p})
	}
	return all
}

// pods compares the containers that start an engine, where their files were not
// compared field by field.
func (c *comparison) pods() {
	eachPair(c.from.podsOf(), c.to.podsOf(), func(p pod) string { return p.key }, func(_ string, x, y *pod) {
		if x == nil || y == nil || c.read[string(manifest.Deploy)+"/"+y.Path] {
			return
		}
		walk(podValues(x.PodFacts), podValues(y.PodFacts), nil, func(at []string, v, w any) {
			name := strings.Join(at, ".")
			c.add(Difference{Severity: manifest.Block, Kind: KindPod, Part: manifest.Deploy, Region: y.Region, Path: y.Path, Field: name, From: plain(v), To: plain(w),
				Message: fmt.Sprintf("container %s: %s %s → %s", y.Container.Name, name, show(v), show(w))})
		})
	})
}

// podValues is what a container says, without where it says it.
func podValues(p manifest.PodFacts) any {
	o, _ := tree(p.Container).(map[string]any)
	maps.DeleteFunc(o, func(k string, _ any) bool { return strings.HasSuffix(k, "line") })
	limits, _ := o["limits"].([]any)
	times := map[string]any{}
	for _, l := range limits {
		if m, ok := l.(map[string]any); ok {
			times[fmt.Sprint(m["what"])] = m["seconds"]
		}
	}
	if delete(o, "limits"); len(times) > 0 {
		o["limits"] = times
	}
	if env, ok := o["env"].([]any); ok {
		slices.SortFunc(env, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	return o
}
