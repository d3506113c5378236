package registry

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"

	"drkit/manifest"
	"drkit/manifest/digest"
)

// Image is an image that a region must hold.
type Image struct {
	Reference string
	Digest    digest.Digest // zero: neither pinned nor resolved, so that nothing can be proven
	Own       bool          // named by the region's own files: looked for as it is named
}

// Needed lists the images of a manifest that a region needs: those that every
// region names, and its own. A tag stands for what it was resolved to.
func Needed(m *manifest.Manifest, region string) (images []Image) {
	for _, i := range m.Contents.Images {
		if i.Reference == "scratch" || (i.Region != "" && i.Region != region) {
			continue
		}
		image := Image{Reference: i.Reference, Digest: i.Digest, Own: i.Region != ""}
		if facts := m.Annotations.ResolvedImage(i.Reference); facts != nil && i.Digest == (digest.Digest{}) {
			image.Digest = facts.Resolved
		}
		images = append(images, image)
	}
	return images
}

// Mapping says where a region keeps what another has: the registries of both,
// each with a path or without. Images outside From are looked for in place.
type Mapping struct{ From, To string }

// Place is the repository that holds the image in the mapped registry.
func (m Mapping) Place(i Image) (name.Repository, error) {
	ref, err := parse(i.Reference)
	if err != nil {
		return name.Repository{}, err
	}
	rest, inside := strings.CutPrefix(ref.Context().Name()+"/", prefix(m.From))
	if i.Own || !inside || m.From == "" || m.To == "" || rest == "" {
		return ref.Context(), nil
	}
	repo, err := name.NewRepository(prefix(m.To) + strings.TrimSuffix(rest, "/"))
	if err != nil {
		return name.Repository{}, newError(Invalid, err, "the registry %q cannot hold %s", m.To, i.Reference)
	}
	return repo, nil
}

// Holds reports whether a repository lies in the mapped registry.
func (m Mapping) Holds(repo name.Repository) bool {
	return m.To != "" && strings.HasPrefix(repo.Name()+"/", prefix(m.To))
}

// Falls reports whether an image's reference leads to the registry that the
// mapping is from, the one that is lost with its region.
func (m Mapping) Falls(i Image) bool {
	ref, err := parse(i.Reference)
	return err == nil && m.From != "" && strings.HasPrefix(ref.Context().Name()+"/", prefix(m.From))
}

// prefix is a registry as references spell it in full, with a final slash.
func prefix(registry string) string {
	full := strings.TrimSuffix(registry, "/") + "/"
	if rest, hub := strings.CutPrefix(full, "docker.io/"); hub {
		return name.DefaultRegistry + "/" + rest
	}
	return full
}

// Verdict is what a check says of one image.
type Verdict string

// The verdicts.
const (
	Present  Verdict = "present"  // manifests and configurations by content, layers by name and size or by content
	Missing  Verdict = "missing"  // all of it or a part
	Diverged Verdict = "diverged" // something else stands in its place
	Unknown  Verdict = "unknown"  // could not be asked, or there is no digest to ask for
)

// Presence is whether a registry holds an image.
type Presence struct {
	Reference string // as the manifest names it
	At        string // where it was looked for: repository@digest
	Verdict   Verdict
	Faults    []Fault
	Elsewhere []string // layers that the image takes from URLs outside of registries: not looked for
	Objects   int      // that were found: manifests, configurations, layers
	Hashed    bool     // the layers were read and hashed too
	Foreign   bool     // it was looked for outside of the region's registry, where its reference says
	Size      int64    // bytes of the layers that were found, as the manifests state them
	Bytes     int64    // of layers that were read
}

// Fault is one object that is not as it should be, or could not be asked for.
type Fault struct {
	Object  string // such as "layer sha256:… of linux/amd64"
	Verdict Verdict
	Why     string
	Hint    string
}

// Check looks for every image in the mapped registry: its index or manifest by
// digest, the manifests of all platforms, configurations and layers. A registry
// takes a blob only under the digest that it has, so that a layer which is there in
// its right size rests on a claim; with content each layer is read and hashed. The
// answers come in the order of images.
func (c *Client) Check(ctx context.Context, images []Image, m Mapping, content bool) []Presence {
	all := make([]Presence, len(images))
	var g errgroup.Group
	g.SetLimit(workers)
	for i, image := range images {
		g.Go(func() error {
			w := walk{Presence: Presence{Reference: image.Reference, Hashed: content}, seen: map[string]bool{}}
			w.check(ctx, c, image, m)
			w.Verdict = w.verdict()
			all[i] = w.Presence
			return nil
		})
	}
	_ = g.Wait()
	return all
}

// verdict is the worst of the faults; of two, the one that is certain.
func (p Presence) verdict() Verdict {
	worst := Present
	for _, f := range p.Faults {
		switch {
		case f.Verdict == Diverged, worst == Present, worst == Unknown && f.Verdict == Missing:
			worst = f.Verdict
		}
	}
	return worst
}

// describe names an object for people.
func describe(what string, d v1.Hash, of string) string {
	if of == "" {
		return fmt.Sprintf("%s %s", what, d)
	}
	return fmt.Sprintf("%s %s of %s", what, d, of)
}
