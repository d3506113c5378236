package manifest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"drkit/manifest/deploy"
	"drkit/manifest/digest"
)

// deployed reads the deploy files: their images stay with the collector, and
// containers that start the engine are judged like drkit.yaml's own flags.
func (c *collector) deployed(in Input) (engines []EngineFacts, problems []Problem) {
	for _, ref := range in.Images {
		c.image("", ref, pinned(ref), "")
	}
	for _, it := range c.items {
		if it.Part != Deploy {
			continue
		}
		facts, found := deploy.Read(it.Path, it.capture.Bytes())
		if it.byName {
			it.Role = Role(facts.Role)
		}
		for _, p := range found {
			problems = append(problems, it.problem(p.Line, p.Kind, p.What, p.Seen))
		}
		for _, i := range facts.Images {
			if !i.Frontend {
				c.image(it.Region, i.Reference, i.Digest, fmt.Sprintf("%s:%d", it.Path, i.Line))
			}
		}
		for _, cmd := range facts.Engine {
			e, p := c.started(it, cmd, in.Engine)
			engines, problems = append(engines, e), append(problems, p...)
		}
	}
	return engines, problems
}

// started judges a container that starts the engine.
func (c *collector) started(it *item, cmd deploy.EngineCommand, e EngineInput) (EngineFacts, []Problem) {
	ec := c.startedCommand(it, cmd, e)
	facts := EngineFacts{Region: it.Region, Source: fmt.Sprintf("%s:%d", it.Path, cmd.Line), Kind: ec.Entry.Engine(), Version: ec.Version, Env: variables(cmd.Env)}
	files := c.engineFiles(it.Region)
	found := facts.judge(ec)
	facts.Judged = facts.Judged && cmd.Exact
	var problems []Problem
	for _, p := range found {
		where := it
		line := cmp.Or(p.Line, cmd.Line)
		if f := named(files, p.Path); f != nil && p.Path != it.Path {
			where, line = f, p.Line
		}
		problems = append(problems, where.problem(line, p.Kind, p.What, p.Seen))
	}
	return facts, problems
}

func (it *item) problem(line int, kind, what, seen string) Problem {
	return Problem{Part: it.Part, Region: it.Region, Path: it.Path, Line: line, Kind: kind, What: what, Seen: seen}
}

// image adds a reference, once a region, with the places that name it.
func (c *collector) image(region, reference string, d digest.Digest, place string) {
	at := slices.IndexFunc(c.images, func(i Image) bool { return i.Region == region && i.Reference == reference })
	if at < 0 {
		at = len(c.images)
		c.images = append(c.images, Image{Reference: reference, Region: region, Digest: d, Files: []string{}})
	}
	if place != "" && !slices.Contains(c.images[at].Files, place) {
		c.images[at].Files = append(c.images[at].Files, place)
		slices.Sort(c.images[at].Files)
	}
}

// pinned is the digest that a reference names after "@", or the zero value.
func pinned(reference string) digest.Digest {
	_, text, _ := strings.Cut(reference, "@")
	d, err := digest.Parse(text)
	if err != nil {
		return digest.Digest{}
	}
	return d
}
