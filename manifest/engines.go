package manifest

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"drkit/manifest/engine"
)

// engines predicts what the engine makes of its configuration: once for every
// region that has engine files of its own, and once for those that have none.
func (c *collector) engines(in Input) ([]EngineFacts, []Problem) {
	var all []EngineFacts
	var problems []Problem
	for _, region := range engineRegions(in) {
		f, p := c.engine(region, in.Engine)
		all, problems = append(all, f), append(problems, p...)
	}
	return all, problems
}

// engineRegions are the regions with engine files of their own, and "" for what
// holds everywhere.
func engineRegions(in Input) []string {
	regions := map[string]bool{}
	for _, f := range in.EngineFiles {
		if f.Role != Probes {
			regions[f.Region] = true
		}
	}
	if len(regions) == 0 && (in.Engine.Kind != "" || len(in.Engine.Args) > 0) {
		regions[""] = true
	}
	return slices.Sorted(maps.Keys(regions))
}

func (c *collector) engine(region string, e EngineInput) (EngineFacts, []Problem) {
	facts := EngineFacts{Region: region, Kind: cmp.Or(e.Kind, engine.VLLM), Version: e.Version, Env: variables(e.Env)}
	files := c.engineFiles(region)
	facts.Where = whereSet(files)
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
	if unnamed {
		r = engine.Parse(cmd.Serving("model"))
		r.Model = ""
	}
	f.Model, f.Options, f.Judged = r.Model, r.Options, r.Judged
	delete(f.Options, "model_tag")
	if unnamed {
		delete(f.Options, "model_path")
	}
	if r.WouldExit != nil {
		f.Exits = r.Error
	}
	return r.Problems
}

// command is the command line that drkit.yaml gives: its configuration files,
// unless its flags name one, and its flags. A region's own configuration takes
// the place of the one for all regions.
func command(files map[string]*item, e EngineInput) engine.Command {
	cmd := engine.Command{Argv: []string{"serve"}, Version: e.Version, Env: e.Env, Files: map[string][]byte{}, Path: EngineOptionsPath}
	if e.Kind == engine.SGLang {
		cmd.Argv, cmd.Entry = nil, engine.EntryLaunch
	}
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

// EngineVariables are the environment variables of an engine that decide what it
// needs at boot. None of them holds a secret.
var EngineVariables = []string{
	"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HOME", "HF_HUB_CACHE",
	"VLLM_ALLOW_RUNTIME_LORA_UPDATING", "VLLM_LORA_RESOLVER_CACHE_DIR", "VLLM_LORA_RESOLVER_HF_REPO_LIST", "VLLM_PLUGINS",
	"VLLM_ALLOW_LONG_MAX_MODEL_LEN", "VLLM_USE_MODELSCOPE", "VLLM_MODEL_REDIRECT_PATH",
	"TIKTOKEN_ENCODINGS_BASE", "TIKTOKEN_RS_CACHE_DIR",
}

// variables are those of env that EngineVariables lists.
func variables(env map[string]string) map[string]string {
	out := map[string]string{}
	for _, name := range EngineVariables {
		if v, ok := env[name]; ok {
			out[name] = v
		}
	}
	return out
}

// topLevelKey matches a line of an engine configuration that sets an option.
var topLevelKey = regexp.MustCompile(`^["']?([A-Za-z][A-Za-z0-9_-]*)["']?\s*:`)

// whereSet finds the lines that set options. A key that stands twice counts
// where it stands last, as the engine reads it.
func whereSet(files map[string]*item) map[string]string {
	out := map[string]string{}
	for _, p := range slices.Sorted(maps.Keys(files)) {
		if !isYAML(p) || files[p].Role != EngineConfig {
			continue
		}
		line := 0
		for text := range bytes.Lines(files[p].capture.Bytes()) {
			line++
			if m := topLevelKey.FindSubmatch(text); m != nil {
				option := strings.ReplaceAll(string(m[1]), "-", "_")
				out[option] = fmt.Sprintf("%s:%d", files[p].place(), line)
			}
		}
	}
	return out
}

// place is the item's path with its region, as findings name it.
func (it *item) place() string {
	if it.Region == "" {
		return it.Path
	}
	return "@" + it.Region + "/" + it.Path
}
