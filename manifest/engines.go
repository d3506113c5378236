package manifest

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"

	"drkit/manifest/engine"
)

// engines predicts what the engine makes of its configuration: once for every
// region that has engine files of its own, and once for those that have none.
func (c *collector) engines(in Input) ([]EngineFacts, []Problem) {
	regions := map[string]bool{}
	for _, f := range in.EngineFiles {
		if f.Role != Probes {
			regions[f.Region] = true
		}
	}
	if len(regions) == 0 && (in.Engine.Kind != "" || len(in.Engine.Args) > 0) {
		regions[""] = true
	}
	var all []EngineFacts
	var problems []Problem
	for _, region := range slices.Sorted(maps.Keys(regions)) {
		f, p := c.engine(region, in.Engine)
		all, problems = append(all, f), append(problems, p...)
	}
	return all, problems
}

func (c *collector) engine(region string, e EngineInput) (EngineFacts, []Problem) {
	facts := EngineFacts{Region: region, Kind: cmp.Or(e.Kind, "vllm"), Version: e.Version}
	if facts.Kind != "vllm" {
		return facts, nil
	}
	files := c.engineFiles(region)
	var problems []Problem
	for _, p := range facts.judge(command(files, e)) {
		where := &item{File: File{Part: Engine, Path: EngineOptionsPath}}
		if it := named(files, p.Path); it != nil {
			where = it
		}
		problems = append(problems, where.problem(p.Line, p.Kind, p.What, p.Seen))
	}
	return facts, problems
}

// named is the engine file that a command line means by a path: flags name
// files by where they lie in the container, so the last part of the path decides.
func named(files map[string]*item, file string) *item {
	if it, ok := files[file]; ok {
		return it
	}
	for _, p := range slices.Sorted(maps.Keys(files)) {
		if path.Base(p) == path.Base(file) && p != EngineOptionsPath {
			return files[p]
		}
	}
	return nil
}

// judge fills in what the engine makes of a command. A command that names no
// model gets this release's when the engine is started.
func (f *EngineFacts) judge(cmd engine.Command) []engine.Problem {
	r := engine.Parse(cmd)
	unnamed := slices.ContainsFunc(r.Problems, func(p engine.Problem) bool { return p.Kind == engine.KindModelMissing })
	if unnamed && len(cmd.Argv) > 0 && cmd.Argv[0] == "serve" {
		cmd.Argv = slices.Insert(slices.Clone(cmd.Argv), 1, "model")
		r = engine.Parse(cmd)
		r.Model = ""
	}
	f.Model, f.Options, f.Judged = r.Model, r.Options, r.Judged
	delete(f.Options, "model_tag")
	if r.WouldExit != nil {
		f.Exits = r.Error
	}
	return r.Problems
}

// command is the command line that drkit.yaml gives: its configuration files,
// unless its flags name one, and its flags. A region's own configuration takes
// the place of the one for all regions.
func command(files map[string]*item, e EngineInput) engine.Command {
	cmd := engine.Command{Argv: []string{"serve"}, Version: e.Version, Files: map[string][]byte{}, Path: EngineOptionsPath}
	given := slices.ContainsFunc(e.Args, func(a string) bool { return a == "--config" || strings.HasPrefix(a, "--config=") })
	var shared, own []string
	for _, p := range slices.Sorted(maps.Keys(files)) {
		it := files[p]
		cmd.Files[p] = it.capture.Bytes()
		switch {
		case it.Role != EngineConfig || !isYAML(p) || given:
		case it.Region != "":
			own = append(own, "--config", p)
		default:
			shared = append(shared, "--config", p)
		}
	}
	for _, a := range e.Args {
		if it := named(files, a); it != nil {
			cmd.Files[a] = it.capture.Bytes()
		}
	}
	if len(own) > 0 {
		shared = own
	}
	cmd.Argv = slices.Concat(cmd.Argv, shared, e.Args)
	return cmd
}

// engineFiles are the engine files of a region by path; its own come before
// those of every region.
func (c *collector) engineFiles(region string) map[string]*item {
	files := map[string]*item{}
	for _, own := range []string{"", region} {
		for _, it := range c.items {
			if it.Part == Engine && it.Region == own {
				files[it.Path] = it
			}
		}
	}
	return files
}

func isYAML(p string) bool {
	ext := strings.ToLower(path.Ext(p))
	return ext == ".yaml" || ext == ".yml"
}
