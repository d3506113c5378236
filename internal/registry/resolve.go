package registry

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"drkit/manifest"
	"drkit/manifest/digest"
)

// maxDepth bounds indexes inside of indexes.
const maxDepth = 4

// Resolve asks the registry of a reference what it stands for now: the digest of
// its index or manifest, and the digest for each platform. A reference that names
// a digest must lead to just that one. Errors have a Class and a hint.
func (c *Client) Resolve(ctx context.Context, reference string) (manifest.ImageFacts, error) {
	facts := manifest.ImageFacts{Reference: reference, Platforms: []manifest.ImagePlatform{}}
	ref, err := parse(reference)
	if err != nil {
		return facts, err
	}
	within, cancel := c.within(ctx)
	defer cancel()
	err = c.resolve(within, ref, &facts)
	if err != nil {
		return facts, fmt.Errorf("image %s: %w", reference, err)
	}
	return facts, nil
}

func parse(reference string) (name.Reference, error) {
	ref, err := name.ParseReference(reference)
	if err != nil {
		return nil, newError(Invalid, err, "%q is no image reference", reference)
	}
	return ref, nil
}

func (c *Client) resolve(ctx context.Context, ref name.Reference, facts *manifest.ImageFacts) error {
	s, err := c.open(ctx, ref.Context())
	if err != nil {
		return err
	}
	d, err := s.manifest(ctx, ref.Identifier())
	if err != nil {
		return err
	}
	facts.Resolved, facts.MediaType = d.digest, string(d.media)
	facts.Platforms, err = s.platforms(ctx, d, maxDepth)
	slices.SortFunc(facts.Platforms, func(a, b manifest.ImagePlatform) int {
		return cmp.Or(cmp.Compare(a.Platform, b.Platform), cmp.Compare(a.Digest.Hex, b.Digest.Hex))
	})
	return err
}

// platforms lists what an index or a manifest runs on.
func (s *session) platforms(ctx context.Context, d document, depth int) ([]manifest.ImagePlatform, error) {
	all := []manifest.ImagePlatform{}
	if d.media.IsImage() {
		p, err := s.configured(ctx, d)
		if err == nil && p != "" {
			all = append(all, manifest.ImagePlatform{Platform: p, Digest: d.digest})
		}
		return all, err
	}
	index, err := s.index(d)
	if err != nil {
		return nil, err
	}
	for _, m := range index.Manifests {
		more, err := s.listed(ctx, m, depth)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	return all, nil
}

// listed is what one entry of an index runs on. An entry that states its platform
// need not be read; what signs or attests others has none.
func (s *session) listed(ctx context.Context, m v1.Descriptor, depth int) ([]manifest.ImagePlatform, error) {
	id, err := digest.Parse(m.Digest.String())
	if err != nil {
		return nil, newError(Untrue, err, "%s has an index that names no valid digest", s.host())
	}
	switch {
	case m.Platform != nil && m.Platform.OS == "unknown" || m.Annotations["vnd.docker.reference.type"] != "":
		return nil, nil
	case m.MediaType.IsImage() && m.Platform != nil && m.Platform.OS != "":
		return []manifest.ImagePlatform{{Platform: m.Platform.String(), Digest: id}}, nil
	case !m.MediaType.IsImage() && !m.MediaType.IsIndex():
		return nil, nil
	case depth == 0:
		return nil, newError(Untrue, nil, "%s has indexes inside of indexes, more than %d deep", s.host(), maxDepth)
	}
	d, err := s.manifest(ctx, id.String())
	if err != nil {
		return nil, fmt.Errorf("%s of its index: %w", id, err)
	}
	return s.platforms(ctx, d, depth-1)
}

func (s *session) index(d document) (*v1.IndexManifest, error) {
	index, err := v1.ParseIndexManifest(bytes.NewReader(d.raw))
	if err != nil {
		return nil, newError(Untrue, err, "%s has an index %s that cannot be read", s.host(), d.digest)
	}
	return index, nil
}

func (s *session) image(d document) (*v1.Manifest, error) {
	image, err := v1.ParseManifest(bytes.NewReader(d.raw))
	if err != nil {
		return nil, newError(Untrue, err, "%s has a manifest %s that cannot be read", s.host(), d.digest)
	}
	return image, nil
}

// configured is the platform that an image's own configuration states; "" for an
// artifact that is no image to run.
func (s *session) configured(ctx context.Context, d document) (string, error) {
	image, err := s.image(d)
	if err != nil || !image.Config.MediaType.IsConfig() {
		return "", err
	}
	raw, err := s.config(ctx, image.Config)
	if err != nil {
		return "", fmt.Errorf("configuration %s of the image: %w", image.Config.Digest, err)
	}
	var p v1.Platform
	if err := json.Unmarshal(raw, &p); err != nil {
		return "", newError(Untrue, err, "%s has an image whose configuration %s cannot be read", s.host(), image.Config.Digest)
	}
	return p.String(), nil
}
