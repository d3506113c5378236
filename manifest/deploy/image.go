package deploy

import (
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"gopkg.in/yaml.v3"

	"drkit/manifest/digest"
)

// parseImage reads a reference as registries understand it: no registry means
// Docker Hub, no tag and no digest means latest.
func parseImage(reference string) (Image, error) {
	image := Image{Reference: reference}
	tagged, _, pinned := strings.Cut(reference, "@")
	if pinned {
		d, err := name.NewDigest(reference)
		if err != nil {
			return image, fmt.Errorf("parsing image reference %q: %w", reference, err)
		}
		if image.Digest, err = digest.Parse(d.DigestStr()); err != nil {
			return image, fmt.Errorf("parsing image reference %q: %w", reference, err)
		}
	}
	tag, err := name.NewTag(tagged)
	if err != nil {
		return image, fmt.Errorf("parsing image reference %q: %w", reference, err)
	}
	image.Registry, image.Repository = tag.RegistryStr(), tag.RepositoryStr()
	if !pinned || strings.Contains(lastPart(tagged), ":") {
		image.Tag = tag.TagStr()
	}
	return image, nil
}

func lastPart(reference string) string {
	return reference[strings.LastIndexByte(reference, '/')+1:]
}

// found collects what a file says while it is walked.
type found struct {
	facts     Facts
	problems  []Problem
	templated bool                // said once that a template is not rendered
	kserve    bool                // inside of an LLMInferenceService
	done      map[*yaml.Node]bool // read already as more than a container
}

func (f *found) note(line int, kind, what string) {
	f.problems = append(f.problems, Problem{Path: f.facts.Path, Line: line, Kind: kind, What: what})
}

// image adds one reference; what is no reference becomes a problem.
func (f *found) image(reference string, line int, edit func(*Image)) {
	switch {
	case strings.Contains(reference, "{{"):
		f.note(line, KindTemplate, fmt.Sprintf("the image %q is a template that drkit does not render; list the rendered YAML", reference))
		return
	case strings.Contains(reference, "$"):
		f.note(line, KindImageUnresolved, fmt.Sprintf("the image %q holds a variable without a value, so what runs is not known from the file", reference))
		return
	}
	image, err := parseImage(reference)
	if err != nil {
		f.problems = append(f.problems, Problem{Path: f.facts.Path, Line: line, Kind: KindImageInvalid,
			What: fmt.Sprintf("%q is no valid image reference", reference), Seen: reason(err)})
		return
	}
	image.Path, image.Line = f.facts.Path, line
	if edit != nil {
		edit(&image)
	}
	f.facts.Images = append(f.facts.Images, image)
}

// reason is the innermost message of a wrapped error.
func reason(err error) string {
	text := err.Error()
	if i := strings.Index(text, "\": "); i >= 0 {
		return text[i+3:]
	}
	return text
}
