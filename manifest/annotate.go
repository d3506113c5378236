package manifest

import (
	"cmp"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"drkit/manifest/deploy"
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
	for _, t := range in.Repositories {
		facts, problems := model.Read(c.modelFiles("repos/" + t.Name))
		a.Further = append(a.Further, FurtherFacts{Name: t.Name, Revision: t.Revision, Facts: facts})
		a.Problems = append(a.Problems, fromModel("repos/"+t.Name, problems)...)
	}
	engines, engineProblems := c.engines(in)
	deployed, copies, deployProblems := c.deployed(in)
	locks, lockProblems := c.locks(copies, in.Regions)
	a.Locks = locks
	recorded, probeProblems := c.probes()
	a.Engine, a.Probes = append(engines, deployed...), recorded
	for i := range a.Engine {
		a.Engine[i].Template = c.engineTemplate(a.Engine[i], a.Model)
	}
	a.Pods = c.pods(a.Engine)
	for _, t := range in.Adapters {
		if c.deployNames(t.Name) {
			a.Named = append(a.Named, t.Name)
		}
	}
	slices.Sort(a.Named)
	a.Problems = slices.Concat(a.Problems, engineProblems, deployProblems, lockProblems, probeProblems, c.borders(in.Regions, locks))
	a.sort()
	return a
}

// sort makes the annotations independent of the order of the input.
func (a *Annotations) sort() {
	slices.SortFunc(a.Adapters, func(x, y model.Adapter) int { return cmp.Compare(x.Name, y.Name) })
	slices.SortFunc(a.Drafts, func(x, y DraftFacts) int { return cmp.Compare(x.Name, y.Name) })
	slices.SortFunc(a.Further, func(x, y FurtherFacts) int { return cmp.Compare(x.Name, y.Name) })
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
	mine := func(it *item) bool { return it.Part == Model && it.tree == tree }
	n := 0
	for _, it := range c.items {
		if mine(it) {
			n++
		}
	}
	files := make([]model.File, 0, n)
	for _, it := range c.items {
		if mine(it) {
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
			Residency: set.Residency, Count: len(set.Probes), Models: asked(set)})
	}
	return all, problems
}

// asked lists the models that probes ask for.
func asked(set probes.ProbeSet) []string {
	names := map[string]bool{}
	for _, p := range set.Probes {
		names[p.Model] = true
	}
	delete(names, "")
	return slices.Sorted(maps.Keys(names))
}

// engineTemplate reads the chat template that an engine is given, when its file
// is one of the engine part, or lies in a ConfigMap of the deploy part.
func (c *collector) engineTemplate(e EngineFacts, facts *model.Facts) *model.Template {
	name, _ := e.Options["chat_template"].(string)
	if name == "" || facts == nil {
		return nil
	}
	for _, it := range c.items {
		if it.Part == Engine && (it.Region == "" || it.Region == e.Region) && path.Base(it.Path) == path.Base(name) && it.Role != EngineOptions {
			t := facts.ReadTemplate(it.place(), string(it.capture.Bytes()))
			return &t
		}
	}
	key := regexp.MustCompile(`(?m)^\s+["']?` + regexp.QuoteMeta(path.Base(name)) + `["']?\s*:`)
	for _, it := range c.items {
		if it.Part == Deploy && key.Match(it.capture.Bytes()) {
			return &model.Template{Source: it.place(), Default: true} // its text is not taken out of the YAML
		}
	}
	return nil
}

// deployNames reports whether a deploy file has a word as a value, as the
// resources that load adapters by themselves do.
func (c *collector) deployNames(word string) bool {
	value := regexp.MustCompile(`(?m)[:\[,]\s*["']?` + regexp.QuoteMeta(word) + `["']?\s*(?:[,}\]#]|$)`)
	return slices.ContainsFunc(c.items, func(it *item) bool { return it.Part == Deploy && value.Match(it.capture.Bytes()) })
}

// pods lists the containers that start an engine: those in whose lines a command
// of an engine stands.
func (c *collector) pods(engines []EngineFacts) (out []PodFacts) {
	for _, it := range c.items {
		if it.Part != Deploy || !isYAML(it.Path) {
			continue
		}
		var all []PodFacts
		for _, p := range deploy.Pods(it.Path, it.capture.Bytes()) {
			for _, one := range p.Containers {
				all = append(all, PodFacts{Region: it.Region, Path: it.Path, Kind: p.Kind, Name: p.Name, Container: one})
			}
		}
		slices.SortFunc(all, func(x, y PodFacts) int { return cmp.Compare(x.Line, y.Line) })
		for _, e := range engines {
			file, text, _ := strings.Cut(e.Source, ":")
			line, err := strconv.Atoi(text)
			if err != nil || e.Region != it.Region && it.Region != "" || file != it.Path {
				continue
			}
			at, found := slices.BinarySearchFunc(all, line, func(p PodFacts, l int) int { return cmp.Compare(p.Line, l) })
			if !found {
				at--
			}
			if at >= 0 {
				out = append(out, all[at])
			}
		}
	}
	slices.SortFunc(out, func(x, y PodFacts) int {
		return cmp.Or(cmp.Compare(x.Region, y.Region), cmp.Compare(x.Path, y.Path), cmp.Compare(x.Line, y.Line))
	})
	// regions may have engines of their own by one file of all
	return slices.CompactFunc(out, func(x, y PodFacts) bool { return x.Region == y.Region && x.Path == y.Path && x.Line == y.Line })
}
