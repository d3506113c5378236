package manifest

import (
	"cmp"
	"slices"
	"strings"

	"drkit/manifest/model"
	"drkit/manifest/probes"
)

// annotate gives the captured content to the readers.
func annotate(c *collector, in Input) Annotations {
	a := Annotations{Tool: in.Tool, Problems: c.problems, Regions: in.Regions}
	var problems []model.Problem
	a.Model, problems = model.Read(c.modelFiles("base"))
	a.Problems = append(a.Problems, fromModel("base", problems)...)
	for _, t := range in.Adapters {
		facts, problems := model.ReadAdapter(t.Name, c.modelFiles("adapters/"+t.Name))
		a.Adapters = append(a.Adapters, facts)
		a.Problems = append(a.Problems, fromModel("adapters/"+t.Name, problems)...)
	}
	for _, t := range in.Drafts {
		facts, problems := model.Read(c.modelFiles("drafts/" + t.Name))
		a.Drafts = append(a.Drafts, DraftFacts{Name: t.Name, Facts: facts})
		a.Problems = append(a.Problems, fromModel("drafts/"+t.Name, problems)...)
	}
	engines, engineProblems := c.engines(in)
	deployed, deployProblems := c.deployed(in)
	recorded, probeProblems := c.probes()
	a.Engine, a.Probes = append(engines, deployed...), recorded
	a.Problems = slices.Concat(a.Problems, engineProblems, deployProblems, probeProblems)
	a.sort()
	return a
}

// sort makes the annotations independent of the order of the input.
func (a *Annotations) sort() {
	slices.SortFunc(a.Adapters, func(x, y model.Adapter) int { return cmp.Compare(x.Name, y.Name) })
	slices.SortFunc(a.Drafts, func(x, y DraftFacts) int { return cmp.Compare(x.Name, y.Name) })
	slices.SortFunc(a.Engine, func(x, y EngineFacts) int {
		return cmp.Or(cmp.Compare(x.Region, y.Region), cmp.Compare(x.Source, y.Source))
	})
	slices.SortFunc(a.Probes, func(x, y ProbeFacts) int {
		return cmp.Or(cmp.Compare(x.Region, y.Region), cmp.Compare(x.Path, y.Path))
	})
	slices.SortFunc(a.Problems, func(x, y Problem) int {
		return cmp.Or(cmp.Compare(x.Part, y.Part), cmp.Compare(x.Region, y.Region), cmp.Compare(x.Path, y.Path),
			cmp.Compare(x.Line, y.Line), cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.What, y.What), cmp.Compare(x.Seen, y.Seen))
	})
	a.Problems = slices.Compact(a.Problems) // two regions may share a file
}

// modelFiles lists what was captured of one folder, sorted by path.
func (c *collector) modelFiles(tree string) []model.File {
	var files []model.File
	for _, it := range c.items {
		if it.Part == Model && it.tree == tree {
			files = append(files, model.File{Path: it.inTree(), Size: it.Size, Content: it.capture.Bytes()})
		}
	}
	slices.SortFunc(files, func(a, b model.File) int { return strings.Compare(a.Path, b.Path) })
	return files
}

func fromModel(tree string, problems []model.Problem) []Problem {
	var out []Problem
	for _, p := range problems {
		out = append(out, Problem{Part: Model, Path: tree + "/" + p.Path, Kind: p.Kind, Line: p.Line, What: p.What})
	}
	return out
}

// probes reads what recorded probes are bound to.
func (c *collector) probes() (all []ProbeFacts, problems []Problem) {
	for _, it := range c.items {
		if it.Role != Probes {
			continue
		}
		set, err := probes.Decode(it.capture.Bytes())
		if err != nil {
			problems = append(problems, it.problem(0, KindProbes, err.Error(), ""))
			continue
		}
		all = append(all, ProbeFacts{Path: it.Path, Region: it.Region, Subject: set.Subject, Hardware: set.HardwareClass,
			Residency: set.Residency, Count: len(set.Probes)})
	}
	return all, problems
}
