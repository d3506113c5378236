package main

import (
	"context"

	"github.com/spf13/cobra"

	"drkit/internal/progress"
	"drkit/internal/registry"
	"drkit/manifest"
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
