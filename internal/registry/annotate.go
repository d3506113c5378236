package registry

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"drkit/internal/progress"
	"drkit/manifest"
	"drkit/manifest/deploy"
)

// workers bounds the images that are asked for at once.
const workers = 4

// Annotate asks for every image of a manifest once and adds what it learned: a
// fact for each that was resolved, a problem for each that was not. It pins
// nothing, so that the release id stays. Its error is ctx's alone.
func Annotate(ctx context.Context, c *Client, m *manifest.Manifest, p progress.Progress) error {
	references := asked(m)
	task := progress.Start(p, "resolving images", int64(len(references)), 0)
	defer task.Done()
	facts, errs := make([]manifest.ImageFacts, len(references)), make([]error, len(references))
	var g errgroup.Group
	g.SetLimit(workers)
	for i, reference := range references {
		g.Go(func() error {
			facts[i], errs[i] = c.Resolve(ctx, reference)
			task.Add(1, 0)
			return nil
		})
	}
	_ = g.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var known []manifest.ImageFacts
	var problems []manifest.Problem
	for i, reference := range references {
		if errs[i] == nil {
			known = append(known, facts[i])
			continue
		}
		problems = append(problems, problemsOf(m, reference, errs[i])...)
	}
	m.Annotations.AddImages(known, problems)
	return nil
}

// asked lists the references of a manifest, sorted. The empty base image of
// Dockerfiles lies in no registry.
func asked(m *manifest.Manifest) (references []string) {
	for _, i := range m.Contents.Images {
		if i.Reference != "scratch" {
			references = append(references, i.Reference)
		}
	}
	slices.Sort(references)
	return slices.Compact(references)
}

// problemsOf is an error as a problem of each region that names the reference, at
// the first place that does.
func problemsOf(m *manifest.Manifest, reference string, err error) (problems []manifest.Problem) {
	for _, i := range m.Contents.Images {
		if i.Reference == reference {
			p := manifest.Problem{Part: manifest.Deploy, Region: i.Region, Kind: kind(err), What: fmt.Sprintf("%v (%s)", err, ClassOf(err))}
			p.Path, p.Line = place(i)
			problems = append(problems, p)
		}
	}
	return problems
}

func kind(err error) string {
	switch ClassOf(err) {
	case NotFound:
		return manifest.KindImageMissing
	case Untrue:
		return manifest.KindImageUntrue
	}
	return deploy.KindImageUnresolved
}

// place is where an image is named first; the reference itself when only
// drkit.yaml names it.
func place(i manifest.Image) (string, int) {
	if len(i.Files) == 0 {
		return i.Reference, 0
	}
	colon := strings.LastIndexByte(i.Files[0], ':')
	line, err := strconv.Atoi(i.Files[0][colon+1:])
	if colon < 0 || err != nil {
		return i.Files[0], 0
	}
	return i.Files[0][:colon], line
}
