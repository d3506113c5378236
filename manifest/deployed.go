package manifest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"drkit/manifest/deploy"
	"drkit/manifest/digest"
)

// deployed reads the deploy files: their images stay with the collector, and
// containers that start the engine are judged like drkit.yaml's own flags.
func (c *collector) deployed(in Input) (engines []EngineFacts, copies []copied, problems []Problem) {
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
		for _, cp := range facts.Copied {
			copies = append(copies, copied{cp, it})
		}
		for _, cmd := range facts.Engine {
			for _, region := range c.renderings(it, cmd, in.Regions) {
				e, p := c.started(it, region, cmd, in.Engine)
				engines, problems = append(engines, e), append(problems, p...)
			}
		}
	}
	return engines, copies, problems
}

// renderings are the regions for which a container that starts an engine is judged
// by itself. One in a file of every region is judged once, with "", unless it reads
// engine files that regions have of their own: then once for each of these, and
// with "" when there are others.
func (c *collector) renderings(it *item, cmd deploy.EngineCommand, regions []RegionSummary) []string {
	if it.Region != "" {
		return []string{it.Region}
	}
	own := map[string]map[string]*item{}
	for _, f := range c.items {
		if f.Part == Engine && f.Region != "" {
			if own[f.Region] == nil {
				own[f.Region] = map[string]*item{}
			}
			own[f.Region][f.Path] = f
		}
	}
	maps.DeleteFunc(own, func(_ string, files map[string]*item) bool {
		return !slices.ContainsFunc(cmd.Argv, func(a string) bool { return named(files, a) != nil })
	})
	out := slices.Sorted(maps.Keys(own))
	others := slices.ContainsFunc(regions, func(r RegionSummary) bool { return own[r.Name] == nil })
	if others || len(out) == 0 {
		out = append([]string{""}, out...)
	}
	return out
}

// started judges a container that starts the engine, as a region has it.
func (c *collector) started(it *item, region string, cmd deploy.EngineCommand, e EngineInput) (EngineFacts, []Problem) {
	ec := c.startedCommand(it, region, cmd, e)
	facts := EngineFacts{Region: region, Source: fmt.Sprintf("%s:%d", it.Path, cmd.Line), Kind: ec.Entry.Engine(), Version: ec.Version, Env: variables(cmd.Env)}
	files := c.engineFiles(region)
	facts.Where = whereSet(namedBy(files, cmd.Argv))
	maps.DeleteFunc(facts.Where, func(option, _ string) bool { return typedOption(cmd.Argv, option) })
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

// namedBy are the files that a command line names.
func namedBy(files map[string]*item, argv []string) map[string]*item {
	out := map[string]*item{}
	for _, a := range argv {
		if f := named(files, a); f != nil {
			out[f.Path] = f
		}
	}
	return out
}

// typedOption reports whether a command line sets an option itself: it wins over
// the same in a configuration file.
func typedOption(argv []string, option string) bool {
	return slices.ContainsFunc(argv, func(a string) bool {
		flag, _, _ := strings.Cut(a, "=")
		name, long := strings.CutPrefix(flag, "--")
		return long && strings.ReplaceAll(name, "-", "_") == option
	})
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
