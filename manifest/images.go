package manifest

import (
	"cmp"
	"slices"
	"strings"

	"drkit/manifest/digest"
)

// ImageFacts is what a registry said of an image reference when the manifest was
// built. It is an annotation: a tag that was resolved once is not pinned by it.
type ImageFacts struct {
	Reference string          `json:"reference"`
	Resolved  digest.Digest   `json:"resolved"` // of the index, or of the manifest of an image for one platform
	MediaType string          `json:"media_type"`
	Platforms []ImagePlatform `json:"platforms"` // that it runs on, sorted; attestations are left out
}

// ImagePlatform is the manifest of an image for one platform.
type ImagePlatform struct {
	Platform string        `json:"platform"` // os/architecture[/variant][:os version], as image indexes spell them
	Digest   digest.Digest `json:"digest"`
}

// Kinds of problems of images that a registry was asked for. One that could not
// be asked, or did not answer, is deploy.KindImageUnresolved.
const (
	KindImageMissing = "image-missing" // its registry does not have it, or not whole
	KindImageUntrue  = "image-untrue"  // its registry answers with something else than it says or was asked for
)

// AddImages adds what registries said of the images, and what was wrong with them.
func (a *Annotations) AddImages(facts []ImageFacts, problems []Problem) {
	a.Images = append(a.Images, facts...)
	slices.SortFunc(a.Images, func(x, y ImageFacts) int { return cmp.Compare(x.Reference, y.Reference) })
	a.Problems = append(a.Problems, problems...)
	a.sort()
}

// ResolvedImage is what was resolved for a reference, or nil.
func (a *Annotations) ResolvedImage(reference string) *ImageFacts {
	i := slices.IndexFunc(a.Images, func(f ImageFacts) bool { return f.Reference == reference })
	if i < 0 {
		return nil
	}
	return &a.Images[i]
}

// BuildsOnly reports whether nothing but Dockerfiles of the release names an image:
// it is needed to build another one, and no region starts it. What a file is
// decides, not how it is called.
func (m *Manifest) BuildsOnly(i Image) bool {
	return len(i.Files) > 0 && !slices.ContainsFunc(i.Files, func(place string) bool {
		path := place[:max(strings.LastIndexByte(place, ':'), 0)]
		return !slices.ContainsFunc(m.Contents.Files, func(f File) bool {
			return f.Part == Deploy && f.Role == Dockerfile && f.Region == i.Region && f.Path == path
		})
	})
}
