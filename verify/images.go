package verify

import "strings"

// ImagePrefix begins the subject of a gap that is about a container image; its
// reference follows. Registries are asked elsewhere (internal/registry): such gaps
// are added to the Result of a copy's files, one an image.
const ImagePrefix = "image/"

// IsImage reports whether a gap is about a container image.
func (g Gap) IsImage() bool { return strings.HasPrefix(g.Subject, ImagePrefix) }
